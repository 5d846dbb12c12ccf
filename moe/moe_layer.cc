#include "moe/moe_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emu/digest.h"
#include "moe/rows.h"

namespace orrery::moe {

using devices::Core;
using devices::DeviceProcess;

MoeLayer::MoeLayer(const Problem& problem, Precision precision)
    : problem_(problem),
      precision_(precision),
      payload_bytes_(static_cast<std::uint32_t>(row_bytes(precision, problem.hidden()))),
      max_rows_(std::uint64_t{problem.devices} * problem.token_bound *
                (problem.workload.gate().allow_duplicates()
                     ? problem.top_k()
                     : std::min(problem.top_k(), problem.placement.max_local()))) {
  const std::uint64_t entries = std::uint64_t{problem.token_bound} * problem.top_k();
  input_ = layout_.region(std::uint64_t{problem.token_bound} * output_row_bytes(), Layout::kHugePage);
  ids_ = layout_.region(entries * sizeof(std::int32_t));
  weights_ = layout_.region(entries * sizeof(float));
  expanded_ = layout_.region(max_rows_ * payload_bytes_, Layout::kHugePage);
  scales_ = layout_.region(max_rows_ * sizeof(float), Layout::kHugePage);
  tags_ = layout_.region(max_rows_ * sizeof(RowTag));
  expert_rows_ = layout_.region(std::uint64_t{4} * problem.placement.max_local());
  outputs_ = layout_.region(max_rows_ * output_row_bytes(), Layout::kHugePage);
  output_ = layout_.region(std::uint64_t{problem.token_bound} * output_row_bytes(), Layout::kHugePage);
}

std::uint64_t MoeLayer::rows(std::uint32_t device, std::uint32_t iteration) const {
  return problem_.arrivals[iteration].count(problem_.placement.begin(device),
                                            problem_.placement.end(device));
}

std::uint64_t MoeLayer::touched_bytes(std::uint32_t device) const {
  std::uint64_t most_rows = 0;
  std::uint64_t most_tokens = 0;
  for (std::uint32_t iteration = 0; iteration < problem_.iterations; ++iteration) {
    most_rows = std::max(most_rows, rows(device, iteration));
    most_tokens = std::max<std::uint64_t>(most_tokens, tokens(device, iteration));
  }
  return most_rows * (payload_bytes_ + output_row_bytes() + 4 + sizeof(RowTag)) +
         most_tokens * (2 * output_row_bytes() + 8 * problem_.top_k());
}

std::uint64_t MoeLayer::useful_bytes(std::uint32_t operation, std::uint32_t iteration) const {
  const std::uint64_t entries = problem_.tables[iteration].total_entries();
  if (operation == kDispatch) return entries * payload_bytes_;
  return operation == kCombine ? entries * output_row_bytes() : 0;
}

void MoeLayer::set_up(DeviceProcess& device) {
  std::uint64_t most = 0;
  for (std::uint32_t i = 0; i < problem_.iterations; ++i) most = std::max(most, rows(device.rank(), i));
  device.memory().expect_dense(input_, std::uint64_t{problem_.token_bound} * output_row_bytes());
  device.memory().expect_dense(expanded_, most * payload_bytes_);
  device.memory().expect_dense(outputs_, most * output_row_bytes());
  device.memory().expect_dense(output_, std::uint64_t{problem_.token_bound} * output_row_bytes());
}

void MoeLayer::prepare(DeviceProcess& device, std::uint32_t iteration) {
  const RoutingTable& table = problem_.tables[iteration];
  fabric::Memory& memory = device.memory();
  for (std::uint32_t token = 0; token < table.tokens(device.rank()); ++token) {
    input_row(problem_.seed, iteration, device.rank(), token,
              memory.array<std::uint16_t>(input(token), problem_.hidden()));
    const auto ids = table.ids(device.rank(), token);
    const auto weights = table.weights(device.rank(), token);
    const std::uint64_t first = std::uint64_t{token} * problem_.top_k();
    std::memcpy(memory.view(ids_ + first * 4, ids.size_bytes()).data(), ids.data(), ids.size_bytes());
    std::memcpy(memory.view(weights_ + first * 4, weights.size_bytes()).data(), weights.data(),
                weights.size_bytes());
  }
}

emu::Task MoeLayer::program(Core& core, std::uint32_t operation, std::uint32_t iteration) {
  switch (operation) {
    case kDispatch: return dispatch(core, iteration);
    case kExperts: return run_experts(core, iteration);
    default: return combine(core, iteration);
  }
}

float MoeLayer::encode(std::span<const std::uint16_t> row, std::span<std::byte> out) const {
  if (precision_ == Precision::kBf16) {
    std::memcpy(out.data(), row.data(), row.size_bytes());
    return 0.0f;
  }
  return quantise_int8(row, {reinterpret_cast<std::int8_t*>(out.data()), row.size()});
}

// Grouped GEMMs of the routed experts and, on the same device, the shared ones over its own tokens: the
// longer of the matrix units' time and the time to read every weight once (int8) from memory.
emu::Time MoeLayer::expert_time(std::uint32_t device, std::uint32_t iteration) const {
  const Workload& workload = problem_.workload;
  const double weights = 3.0 * workload.hidden() * workload.expert_intermediate();
  const double shared_weights =
      3.0 * workload.hidden() * workload.shared_experts() *
      (workload.has_shared_intermediate() ? workload.shared_intermediate() : workload.expert_intermediate());
  double active = 0;
  for (std::uint32_t e = problem_.placement.begin(device); e < problem_.placement.end(device); ++e) {
    active += problem_.arrivals[iteration].rows(e).empty() ? 0 : 1;
  }
  const double flop = 2.0 * (weights * static_cast<double>(rows(device, iteration)) +
                             shared_weights * tokens(device, iteration));
  const double bytes = weights * active + (tokens(device, iteration) > 0 ? shared_weights : 0);
  return std::max(problem_.costs.matrix(flop),
                  problem_.costs.hbm.serialisation(static_cast<std::uint64_t>(bytes)));
}

emu::Task MoeLayer::run_experts(Core& core, std::uint32_t iteration) {
  fabric::Memory& memory = core.memory();
  std::uint64_t row = 0;
  for (std::uint32_t local = 0; local < local_experts(core.rank()); ++local) {
    const auto count = memory.load<std::uint32_t>(expert_rows(local));
    const std::uint32_t expert = problem_.placement.begin(core.rank()) + local;
    if (count == 0) continue;
    core.accept(expanded(row), std::uint64_t{count} * payload_bytes_);
    const StridedRows<std::uint16_t> out{memory.array<std::uint16_t>(expert_output(row), 1).data(),
                                         output_row_bytes(), count, problem_.hidden()};
    if (precision_ == Precision::kInt8) {
      problem_.experts.apply(
          expert,
          StridedRows<const std::int8_t>{memory.array<std::int8_t>(expanded(row), 1).data(),
                                         payload_bytes_, count, problem_.hidden()},
          StridedRows<const float>{memory.array<float>(scale(row), 1).data(), sizeof(float), count, 1},
          out, problem_.threads);
    } else {
      problem_.experts.apply(
          expert,
          StridedRows<const std::uint16_t>{memory.array<std::uint16_t>(expanded(row), 1).data(),
                                           payload_bytes_, count, problem_.hidden()},
          out, problem_.threads);
    }
    row += count;
  }
  co_await core.compute(expert_time(core.rank(), iteration));
}

Verdict MoeLayer::verify(DeviceProcess& device, std::uint32_t operation, std::uint32_t iteration) {
  if (operation == kDispatch) return verify_dispatch(device, iteration);
  if (operation == kCombine) return verify_combine(device, iteration);
  return {};
}

// The rows at each expert are exactly the rows that routing sent, bit for bit.
Verdict MoeLayer::verify_dispatch(DeviceProcess& device, std::uint32_t iteration) {
  Verdict verdict;
  const auto fail = [&](const std::string& what) {
    if (verdict.ok) verdict.what = what;
    verdict.ok = false;
  };
  const fabric::Memory& memory = device.memory();
  row_.resize(problem_.hidden());
  encoded_.resize(payload_bytes_);
  emu::RunningDigest digest;
  std::uint64_t row = 0;
  for (std::uint32_t local = 0; local < local_experts(device.rank()); ++local) {
    const std::uint32_t expert = problem_.placement.begin(device.rank()) + local;
    const auto expected = problem_.arrivals[iteration].rows(expert);
    const auto count = memory.load<std::uint32_t>(expert_rows(local));
    if (count != expected.size()) {
      fail(fmt::format("expert {} reports {} rows, routing sent {}", expert, count, expected.size()));
    }
    for (std::size_t i = 0; i < expected.size(); ++i, ++row) {
      const RowTag& want = expected[i];
      const auto got = memory.load<RowTag>(tag(row));
      const auto bytes = memory.view(expanded(row), payload_bytes_);
      const auto scale_got = memory.load<std::uint32_t>(scale(row));
      digest.add(emu::digest_bytes(bytes, scale_got));
      if (!verdict.ok) continue;
      if (got != want) {
        fail(fmt::format("expert {} row {}: tag says device {} token {} k {}, routing sent device {} "
                         "token {} k {}",
                         expert, i, got.source, got.token, got.k, want.source, want.token, want.k));
        continue;
      }
      input_row(problem_.seed, iteration, want.source, want.token, row_);
      const float scale_want = encode(row_, encoded_);
      std::uint32_t scale_bits;
      std::memcpy(&scale_bits, &scale_want, sizeof(scale_bits));
      const bool same_scale = precision_ == Precision::kBf16 || scale_bits == scale_got;
      if (!same_scale || std::memcmp(bytes.data(), encoded_.data(), bytes.size()) != 0) {
        const auto differs = std::mismatch(bytes.begin(), bytes.end(), encoded_.begin());
        fail(fmt::format("expert {} row {} (device {} token {} k {}): {} differs from what was sent",
                         expert, i, want.source, want.token, want.k,
                         same_scale ? fmt::format("byte {}", differs.first - bytes.begin()) : "scale"));
      }
    }
  }
  verdict.digest = digest.value();
  return verdict;
}

// The output equals the dense reference, bit for bit: the reduction order is defined (ascending k, fp32).
Verdict MoeLayer::verify_combine(DeviceProcess& device, std::uint32_t iteration) {
  Verdict verdict;
  const fabric::Memory& memory = device.memory();
  row_.resize(problem_.hidden());
  emu::RunningDigest digest;
  for (std::uint32_t token = 0; token < tokens(device.rank(), iteration); ++token) {
    const auto bytes = memory.view(output(token), output_row_bytes());
    digest.add(emu::digest_bytes(bytes));
    if (!verdict.ok) continue;
    reference_row(problem_.tables[iteration], problem_.experts, problem_.seed, iteration, device.rank(),
                  token, precision_, scratch_, row_);
    if (std::memcmp(bytes.data(), row_.data(), bytes.size()) == 0) continue;
    const auto want = std::as_bytes(std::span<const std::uint16_t>(row_));
    const auto differs = std::mismatch(bytes.begin(), bytes.end(), want.begin());
    verdict.ok = false;
    verdict.what = fmt::format("output of token {}: element {} differs from the dense reference", token,
                               (differs.first - bytes.begin()) / 2);
  }
  verdict.digest = digest.value();
  return verdict;
}

}  // namespace orrery::moe
