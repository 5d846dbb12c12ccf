#include "moe/moe_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "emu/digest.h"
#include "moe/reduce.h"
#include "moe/rows.h"
#include "moe/share.h"
#include "moe/workload.h"

namespace orrery::moe {

using devices::Core;
using devices::DeviceProcess;

MoeLayer::MoeLayer(const Problem& problem, Precision precision, RowOrder order)
    : problem_(problem),
      precision_(precision),
      order_(order),
      payload_bytes_(static_cast<std::uint32_t>(row_bytes(precision, problem.hidden()))),
      head_bytes_(std::min(kIdentityBytes, payload_bytes_)),
      most_rows_(std::uint64_t{problem.devices} * problem.token_bound *
                 (problem.workload.gate().allow_duplicates() ? problem.top_k() : 1)),
      max_rows_(order == RowOrder::kAsTheyCome
                    ? problem.placement.max_local() * most_rows_
                    : std::uint64_t{problem.devices} * problem.token_bound *
                          (problem.workload.gate().allow_duplicates()
                               ? problem.top_k()
                               : std::min(problem.top_k(), problem.placement.max_local()))) {
  if (problem.control) {
    // The beginning of a row, and what an algorithm sends behind a payload.
    const auto behind = static_cast<std::uint32_t>(align_up(payload_bytes_, 32) + 32);
    layout_.carry_only({{0, head_bytes_}, {payload_bytes_, behind}});
  }
  const std::uint64_t entries = std::uint64_t{problem.token_bound} * problem.top_k();
  input_ = layout_.rows(problem.token_bound, output_row_bytes());
  ids_ = layout_.flat(entries * sizeof(std::int32_t));
  weights_ = layout_.flat(entries * sizeof(float));
  expanded_ = layout_.rows(max_rows_, row_stride());
  scales_ = layout_.flat(max_rows_ * sizeof(float));
  tags_ = layout_.flat(max_rows_ * sizeof(RowTag));
  expert_rows_ = layout_.flat(std::uint64_t{4} * problem.placement.max_local());
  outputs_ = layout_.rows(max_rows_, row_stride());
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
  return most_rows * (row_stride() + 4 + sizeof(RowTag)) +
         most_tokens * (output_row_bytes() + 8 * problem_.top_k());
}

std::uint64_t MoeLayer::useful_bytes(std::uint32_t operation, std::uint32_t iteration) const {
  const std::uint64_t entries = problem_.tables[iteration].total_entries();
  if (operation == kDispatch) return entries * payload_bytes_;
  return operation == kCombine ? entries * output_row_bytes() : 0;
}

void MoeLayer::prepare(DeviceProcess& device, std::uint32_t iteration) {
  const RoutingTable& table = problem_.tables[iteration];
  fabric::Memory& memory = device.memory();
  for (std::uint32_t token = 0; token < table.tokens(device.rank()); ++token) {
    if (problem_.control) {
      put_identity(head(memory, input(token)),
                   input_identity(problem_.seed, iteration, device.rank(), token));
    } else {
      input_row(problem_.seed, iteration, device.rank(), token,
                memory.array<std::uint16_t>(input(token), problem_.hidden()));
    }
    const auto ids = table.ids(device.rank(), token);
    const auto weights = table.weights(device.rank(), token);
    const std::uint64_t first = std::uint64_t{token} * problem_.top_k();
    std::memcpy(memory.view(ids_ + first * 4, ids.size_bytes()).data(), ids.data(),
                ids.size_bytes());
    std::memcpy(memory.view(weights_ + first * 4, weights.size_bytes()).data(), weights.data(),
                weights.size_bytes());
  }
}

emu::Task MoeLayer::program(Core& core, std::uint32_t operation, std::uint32_t iteration) {
  switch (operation) {
    case kDispatch:
      return dispatch(core, iteration);
    case kExperts:
      return run_experts(core, iteration);
    default:
      return combine(core, iteration);
  }
}

std::vector<GemmGroup> MoeLayer::expert_groups(std::uint32_t device, std::uint32_t iteration,
                                               bool up) const {
  const Workload& workload = problem_.workload;
  std::vector<GemmGroup> groups;
  const auto add = [&](std::uint64_t rows, std::uint32_t intermediate) {
    groups.push_back({static_cast<std::uint32_t>(rows), up ? 2 * intermediate : problem_.hidden(),
                      up ? problem_.hidden() : intermediate});
  };
  for (std::uint32_t e = problem_.placement.begin(device); e < problem_.placement.end(device);
       ++e) {
    add(problem_.arrivals[iteration].rows(e).size(), workload.expert_intermediate());
  }
  for (std::uint32_t i = 0; i < workload.shared_experts(); ++i) {
    add(tokens(device, iteration), shared_intermediate(workload));
  }
  return groups;
}

template <typename Visit>
void MoeLayer::for_each_row(Core& core, Visit&& visit) const {
  std::uint64_t next = 0;
  for (std::uint32_t local = 0; local < local_experts(core.rank()); ++local) {
    if (order_ == RowOrder::kAsTheyCome) next = first_row(local);
    const auto count = core.load<std::uint32_t>(expert_rows(local));
    for (std::uint32_t i = 0; i < count; ++i) {
      visit(problem_.placement.begin(core.rank()) + local, next++);
    }
  }
}

// Each row's output takes the place of its input: dispatched rows are given up as they are
// consumed.
void MoeLayer::replace(Core& core, std::uint64_t row) const {
  core.accept(expanded(row), payload_bytes_);
  core.note_move(expert_output(row), expanded(row));
  core.memory().move_row(expert_output(row), expanded(row));
  core.note_write(expert_output(row), output_row_bytes(), devices::Verb::kRow);
}

void MoeLayer::apply_experts(Core& core) {
  fabric::Memory& memory = core.memory();
  struct Row {
    std::uint32_t expert;
    float scale;
    std::byte* bytes;  // in: the payload; out: the output
  };
  std::vector<Row> rows;
  for_each_row(core, [&](std::uint32_t expert, std::uint64_t row) {
    replace(core, row);
    const float scale_of_row = has_scale(precision_) ? core.load<float>(scale(row)) : 0.0f;
    rows.push_back(
        {expert, scale_of_row, memory.view(expert_output(row), output_row_bytes()).data()});
  });
#pragma omp parallel num_threads(problem_.threads)
  {
    std::vector<std::byte> payload(payload_bytes_);
#pragma omp for schedule(static)
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Row& row = rows[i];
      std::memcpy(payload.data(), row.bytes, payload.size());
      const std::span<std::uint16_t> out(reinterpret_cast<std::uint16_t*>(row.bytes),
                                         problem_.hidden());
      problem_.experts.apply(row.expert, precision_, payload, row.scale, out);
    }
  }
}

void MoeLayer::apply_experts_to_identities(Core& core) const {
  fabric::Memory& memory = core.memory();
  for_each_row(core, [&](std::uint32_t expert, std::uint64_t row) {
    replace(core, row);
    const auto bytes = head(memory, expert_output(row));
    put_identity(bytes, output_identity(identity_in(bytes), expert));
  });
}

float MoeLayer::encode(Core& core, std::uint32_t token, fabric::Address record) const {
  fabric::Memory& memory = core.memory();
  core.note_read(input(token), output_row_bytes());
  core.note_write(record, payload_bytes_, devices::Verb::kRow);
  if (problem_.control) {
    put_identity(head(memory, record), identity_at(memory, input(token)));
    return 0;
  }
  return encode_row(memory.array<std::uint16_t>(input(token), problem_.hidden()), precision_,
                    memory.view(record, payload_bytes_));
}

void MoeLayer::encode_again(Core& core, fabric::Address record, fabric::Address other) const {
  const std::uint64_t bytes = problem_.control ? head_bytes_ : payload_bytes_;
  core.note_read(other, payload_bytes_);
  core.note_write(record, payload_bytes_, devices::Verb::kRow);
  core.memory().write(record, std::as_const(core.memory()).view(other, bytes));
}

void MoeLayer::sum_rows(Core& core, fabric::Address to, std::span<const WeightedRow> rows) const {
  sum_columns(core, to, rows, {0, problem_.hidden()});
}

void MoeLayer::sum_columns(Core& core, fabric::Address to, std::span<const WeightedRow> rows,
                           Share columns) const {
  fabric::Memory& memory = core.memory();
  const std::uint64_t first = std::uint64_t{2} * columns.begin;
  const std::uint64_t bytes = std::uint64_t{2} * columns.size();
  for (const WeightedRow& each : rows) core.note_read(each.row + first, bytes);
  core.note_write(to + first, bytes, devices::Verb::kRow);
  if (problem_.control) {
    if (columns.begin > 0) return;
    RowIdentity identity = 0;
    for (const WeightedRow& each : rows) {
      identity = add_identity(identity, identity_at(memory, each.row), each.weight);
    }
    put_identity(head(memory, to), identity);
    return;
  }
  thread_local std::vector<float> sum;
  sum.assign(columns.size(), 0.0f);
  for (const WeightedRow& each : rows) {
    accumulate(sum, std::as_const(memory).array<std::uint16_t>(each.row + first, columns.size()),
               each.weight);
  }
  round_to_bf16(sum, memory.array<std::uint16_t>(to + first, columns.size()));
}

// Two kernels: the gate and up projections of all experts, and the down projections. The rows'
// bytes are there at once.
emu::Task MoeLayer::run_experts(Core& core, std::uint32_t iteration) {
  if (core.index() == 0) {
    if (problem_.control) {
      apply_experts_to_identities(core);
    } else {
      apply_experts(core);
    }
  }
  const double weight_bytes = problem_.workload.weight_bytes();
  core.phase("up projections");
  co_await grouped_gemm(core, expert_groups(core.rank(), iteration, true), weight_bytes);
  co_await core.next_kernel();
  core.phase("down projections");
  co_await grouped_gemm(core, expert_groups(core.rank(), iteration, false), weight_bytes);
}

// The product of the tokens with the router's weights, bf16; then each token's softmax over the
// experts and its top_k, a pass for each.
emu::Task MoeLayer::gate(Core& core, std::uint32_t iteration) {
  constexpr int kSoftmaxPasses = 4;  // largest, exponents, their sum, division
  constexpr double kRouterBytes = 2;
  const std::uint32_t count = tokens(core.rank(), iteration);
  const std::uint32_t experts = problem_.workload.experts();
  core.phase("router");
  std::vector<GemmGroup> router = {{count, experts, problem_.hidden()}};
  co_await grouped_gemm(core, std::move(router), kRouterBytes);
  co_await core.barrier();
  core.phase("top k");
  const Share mine = share(count, core.count(), core.index());
  const emu::Time passes = core.costs().vector(experts);
  co_await core.compute((kSoftmaxPasses + problem_.top_k()) * mine.size() * passes);
}

Verdict MoeLayer::verify(DeviceProcess& device, std::uint32_t operation, std::uint32_t iteration) {
  if (operation == kDispatch) return verify_dispatch(device, iteration);
  if (operation == kCombine) return verify_combine(device, iteration);
  return {};
}

// Where the rows are that routing sent to the device. Rows that came in any order are looked up by
// their tags: each expert's rows, ordered by tag, against what routing lists in that order.
std::vector<MoeLayer::ReceivedRow> MoeLayer::received_rows(const fabric::Memory& memory,
                                                           std::uint32_t device,
                                                           std::uint32_t iteration,
                                                           Verdict& verdict) const {
  std::vector<ReceivedRow> rows;
  std::uint64_t next = 0;
  for (std::uint32_t local = 0; local < local_experts(device); ++local) {
    const std::uint32_t expert = problem_.placement.begin(device) + local;
    const auto expected = problem_.arrivals[iteration].rows(expert);
    const auto count = memory.load<std::uint32_t>(expert_rows(local));
    if (count != expected.size() && verdict.ok) {
      verdict.ok = false;
      verdict.what =
          fmt::format("expert {} reports {} rows, routing sent {}", expert, count, expected.size());
    }
    if (order_ == RowOrder::kAsTheyCome) next = first_row(local);
    const std::size_t first = rows.size();
    for (std::uint32_t i = 0; i < expected.size(); ++i, ++next) {
      rows.push_back({expert, i, expected[i], next, memory.load<RowTag>(tag(next)), {}});
    }
    if (order_ == RowOrder::kSorted) continue;
    std::vector<std::pair<RowTag, std::uint64_t>> places;
    for (std::size_t i = first; i < rows.size(); ++i) places.emplace_back(rows[i].tag, rows[i].at);
    std::sort(places.begin(), places.end());
    for (std::size_t i = first; i < rows.size(); ++i) {
      std::tie(rows[i].tag, rows[i].at) = places[i - first];
    }
  }
  return rows;
}

// The rows at each expert are exactly the rows that routing sent, bit for bit.
Verdict MoeLayer::verify_dispatch(DeviceProcess& device, std::uint32_t iteration) {
  Verdict verdict;
  const auto sent = problem_.control ? nullptr : sent_rows(iteration);
  const fabric::Memory& memory = device.memory();
  std::vector<ReceivedRow> rows = received_rows(memory, device.rank(), iteration, verdict);
#pragma omp parallel for num_threads(problem_.threads) schedule(static)
  for (std::size_t index = 0; index < rows.size(); ++index) {
    ReceivedRow& received = rows[index];
    if (problem_.control) {
      received.row.digest.low = identity_at(memory, expanded(received.at));
      continue;
    }
    received.row =
        SentRow::of(memory.view(expanded(received.at), payload_bytes_),
                    has_scale(precision_) ? memory.load<float>(scale(received.at)) : 0.0f);
  }
  emu::RunningDigest digest;
  for (const ReceivedRow& received : rows) {
    digest.add(received.row.digest.low);
    digest.add(received.row.scale_bits);
    if (!verdict.ok) continue;
    const RowTag& want = received.expected;
    if (received.tag != want) {
      verdict.ok = false;
      verdict.what = fmt::format(
          "expert {} row {}: tag says device {} token {} k {}, routing sent device {} token {} k "
          "{}",
          received.expert, received.index, received.tag.source, received.tag.token, received.tag.k,
          want.source, want.token, want.k);
    } else if (problem_.control
                   ? received.row.digest.low !=
                         fit(input_identity(problem_.seed, iteration, want.source, want.token))
                   : received.row != sent->row(want.source, want.token)) {
      verdict.ok = false;
      verdict.what = fmt::format(
          "expert {} row {} (device {} token {} k {}): its bytes differ from those sent",
          received.expert, received.index, want.source, want.token, want.k);
    }
  }
  verdict.digest = digest.value();
  return verdict;
}

std::shared_ptr<const SentRows> MoeLayer::sent_rows(std::uint32_t iteration) {
  const std::lock_guard lock(sent_rows_mutex_);
  auto& kept = sent_rows_[iteration % sent_rows_.size()];
  if (!kept || kept->iteration() != iteration) {
    kept = std::make_shared<SentRows>(problem_.tables[iteration], problem_.seed, iteration,
                                      problem_.hidden(), precision_, problem_.threads);
  }
  return kept;
}

RowIdentity MoeLayer::combined_identity(std::uint32_t device, std::uint32_t token,
                                        std::uint32_t iteration, AddIdentity add) const {
  const RowIdentity input = fit(input_identity(problem_.seed, iteration, device, token));
  const auto ids = problem_.tables[iteration].ids(device, token);
  const auto weights = problem_.tables[iteration].weights(device, token);
  RowIdentity sum = 0;
  for (std::uint32_t k = 0; k < ids.size(); ++k) {
    if (ids[k] < 0) continue;
    const auto expert = static_cast<std::uint32_t>(ids[k]);
    sum = add(sum, fit(output_identity(input, expert)), weights[k]);
  }
  return fit(sum);
}

RowIdentity MoeLayer::combined_identity(std::uint32_t device, std::uint32_t token,
                                        std::uint32_t iteration) const {
  using Item = ReductionOrder::Item<RowIdentity>;
  const RowIdentity input = fit(input_identity(problem_.seed, iteration, device, token));
  std::vector<Item> items;
  const auto ids = problem_.tables[iteration].ids(device, token);
  const auto weights = problem_.tables[iteration].weights(device, token);
  for (std::uint32_t k = 0; k < ids.size(); ++k) {
    if (ids[k] < 0) continue;
    const auto expert = static_cast<std::uint32_t>(ids[k]);
    items.push_back({expert, weights[k], fit(output_identity(input, expert)), k});
  }
  return reduction_.sum<RowIdentity>(std::move(items), [this](std::span<const Item> rows) {
    RowIdentity sum = 0;
    for (const Item& each : rows) sum = add_identity(sum, each.row, each.weight);
    return fit(sum);
  });
}

// The output equals the dense reference, bit for bit: the reduction order is defined.
Verdict MoeLayer::verify_combine(DeviceProcess& device, std::uint32_t iteration) {
  Verdict verdict;
  const fabric::Memory& memory = device.memory();
  const std::uint32_t count = tokens(device.rank(), iteration);
  std::vector<std::uint64_t> digests(count);
  std::vector<std::uint8_t> same(count);
  for (std::uint32_t token = 0; problem_.control && token < count; ++token) {
    digests[token] = identity_at(memory, output(token));
    same[token] = digests[token] == combined_identity(device.rank(), token, iteration);
  }
#pragma omp parallel num_threads(problem_.threads) if (!problem_.control)
  {
    ReferenceScratch scratch;
    std::vector<std::uint16_t> want(problem_.hidden());
#pragma omp for schedule(static)
    for (std::uint32_t token = 0; token < (problem_.control ? 0 : count); ++token) {
      const auto bytes = memory.view(output(token), output_row_bytes());
      digests[token] = emu::digest_bytes(bytes);
      reference_row(problem_.tables[iteration], problem_.experts, problem_.seed, iteration,
                    device.rank(), token, precision_, reduction_, scratch, want);
      same[token] = std::memcmp(bytes.data(), want.data(), bytes.size()) == 0;
    }
  }
  emu::RunningDigest digest;
  for (std::uint32_t token = 0; token < count; ++token) {
    digest.add(digests[token]);
    if (same[token] != 0 || !verdict.ok) continue;
    verdict.ok = false;
    verdict.what = fmt::format("the output of token {} differs from the dense reference", token);
  }
  verdict.digest = digest.value();
  return verdict;
}

}  // namespace orrery::moe
