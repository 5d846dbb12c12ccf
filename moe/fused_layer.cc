#include "moe/fused_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "emu/digest.h"
#include "moe/bf16.h"
#include "moe/reduce.h"

namespace orrery::moe {

using devices::Core;
using devices::DeviceProcess;

namespace {

// Vector passes of a weighted sum, counted in the inner loop, on a GPU: widen, multiply and add at
// once. The final cast is one more.
constexpr int kAccumulatePasses = 2;

// What stands for a sum whose order is not defined, one more row added.
RowIdentity add_in_any_order(RowIdentity sum, RowIdentity row, float weight) {
  return sum + emu::combine64(row, std::bit_cast<std::uint32_t>(weight));
}

}  // namespace

FusedLayer::FusedLayer(const Problem& problem, Sums sums)
    : MoeLayer(problem, Precision::kBf16),
      how_(sums),
      list_rows_(problem.token_bound *
                 (problem.workload.gate().allow_duplicates() ? problem.top_k() : 1)) {
  if (how_ == Sums::kAsTheyCome) {
    sums_ = layout_.rows(problem.token_bound, std::uint64_t{problem.hidden()} * sizeof(float));
  } else if (how_ == Sums::kBySlots) {
    slots_ = layout_.rows(std::uint64_t{problem.token_bound} * problem.top_k(), row_stride());
  }
  taken_ = layout_.flat(std::uint64_t{problem.placement.max_local()} * problem.devices *
                        list_rows_ * sizeof(SentRow));
}

std::uint64_t FusedLayer::touched_bytes(std::uint32_t device) const {
  std::uint64_t most_rows = 0;
  std::uint64_t most_tokens = 0;
  for (std::uint32_t iteration = 0; iteration < problem_.iterations; ++iteration) {
    most_rows = std::max(most_rows, rows(device, iteration));
    most_tokens = std::max<std::uint64_t>(most_tokens, tokens(device, iteration));
  }
  std::uint64_t sum_bytes = 0;
  if (how_ == Sums::kAsTheyCome) sum_bytes = problem_.hidden() * sizeof(float);
  if (how_ == Sums::kBySlots) sum_bytes = problem_.top_k() * row_stride();
  return most_rows * sizeof(SentRow) +
         most_tokens * (output_row_bytes() + sum_bytes +
                        problem_.top_k() * (sizeof(std::int32_t) + sizeof(float)));
}

std::uint64_t FusedLayer::useful_bytes(std::uint32_t, std::uint32_t iteration) const {
  return problem_.tables[iteration].total_entries() * (payload_bytes() + output_row_bytes());
}

void FusedLayer::apply_expert(const fabric::Memory& memory, const ExpertRow& row,
                              std::uint32_t expert, std::span<std::byte> out,
                              SentRow& taken) const {
  if (problem_.control) {
    const RowIdentity identity = identity_at(memory, row.from);
    taken.digest.low = identity;
    put_identity(out, output_identity(identity, expert));
    return;
  }
  const auto input = memory.array<std::uint16_t>(row.from, problem_.hidden());
  taken = SentRow::of(std::as_bytes(input), 0.0f);
  problem_.experts.apply(expert, input,
                         {reinterpret_cast<std::uint16_t*>(out.data()), out.size() / 2});
}

void FusedLayer::apply_experts(Core& core, const std::vector<ExpertRow>& rows) const {
  fabric::Memory& memory = core.memory();
  std::vector<SentRow> taken(rows.size());
  std::vector<std::span<std::byte>> outs;
  for (const ExpertRow& row : rows) {
    core.note_read(row.from, payload_bytes());
    core.note_write(row.to, output_row_bytes(), devices::Verb::kRow);
    outs.push_back(problem_.control ? head(memory, row.to)
                                    : memory.view(row.to, output_row_bytes()));
  }
  const std::uint32_t first = problem_.placement.begin(core.rank());
  const bool many = rows.size() > 1 && problem_.threads > 1;
#pragma omp parallel for num_threads(problem_.threads) schedule(static) if (many)
  for (std::size_t i = 0; i < rows.size(); ++i) {
    apply_expert(memory, rows[i], first + rows[i].local, outs[i], taken[i]);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    memory.store(this->taken(rows[i].local, rows[i].source, rows[i].index), taken[i]);
  }
}

GemmTile FusedLayer::expert_tile(Projection projection, std::uint32_t rows, Share columns,
                                 bool reads_weights) const {
  return {
      rows, columns.size(),
      projection == Projection::kUp ? problem_.hidden() : problem_.workload.expert_intermediate(),
      reads_weights};
}

emu::Task FusedLayer::run_expert_tile(Core& core, Projection projection, std::uint32_t rows,
                                      Share columns, bool reads_weights) const {
  const double weight_bytes = problem_.workload.weight_bytes();
  const std::uint32_t width = core.costs().tile_columns;
  for (std::uint32_t begin = columns.begin; begin < columns.end; begin += width) {
    const Share part{begin, std::min(begin + width, columns.end)};
    const GemmTile tile = expert_tile(projection, rows, part, reads_weights);
    co_await gemm_tile(core, tile, weight_bytes);
  }
}

void FusedLayer::copy_columns(Core& core, fabric::Address to, fabric::Address from,
                              Share columns) const {
  fabric::Memory& memory = core.memory();
  const std::uint64_t first = std::uint64_t{2} * columns.begin;
  const std::uint64_t bytes = std::uint64_t{2} * columns.size();
  core.note_read(from + first, bytes);
  core.note_write(to + first, bytes, devices::Verb::kRow);
  if (!problem_.control) {
    memory.write(to + first, std::as_const(memory).view(from + first, bytes));
  } else if (columns.begin == 0) {
    put_identity(head(memory, to), identity_at(memory, from));
  }
}

emu::Task FusedLayer::add_slots(Core& core, std::uint32_t token) {
  const auto ids = ids_of(core, token);
  const auto weights = weights_of(core, token);
  std::vector<WeightedRow> rows;
  for (std::uint32_t k = 0; k < ids.size(); ++k) {
    if (ids[k] >= 0) rows.push_back({slot(token, k), weights[k]});
  }
  co_await add_rows(core, token, std::move(rows));
}

emu::Task FusedLayer::add_rows(Core& core, std::uint32_t token,
                               std::vector<WeightedRow> rows) const {
  if (!rows.empty()) co_await core.stream(rows.size() * output_row_bytes());
  for (const WeightedRow& each : rows) core.accept(each.row, output_row_bytes());
  const emu::Time pass = core.costs().vector(problem_.hidden());
  co_await core.compute((rows.size() * kAccumulatePasses + 1) * pass);
  weighted_sum(core, token, rows);
  for (const WeightedRow& each : rows) core.discard(each.row, row_stride());
  co_await core.stream(output_row_bytes());
}

void FusedLayer::add_to_sum(Core& core, std::uint32_t token, fabric::Address row,
                            float weight) const {
  fabric::Memory& memory = core.memory();
  core.note_read(row, output_row_bytes());
  if (problem_.control) {
    const auto held = head(memory, sum(token));
    put_identity(held, add_in_any_order(identity_in(held), identity_at(memory, row), weight));
    return;
  }
  accumulate(memory.array<float>(sum(token), problem_.hidden()),
             std::as_const(memory).array<std::uint16_t>(row, problem_.hidden()), weight);
}

void FusedLayer::round_sum(Core& core, std::uint32_t token) const {
  fabric::Memory& memory = core.memory();
  core.note_write(output(token), output_row_bytes(), devices::Verb::kRow);
  if (problem_.control) {
    put_identity(head(memory, output(token)), identity_at(memory, sum(token)));
  } else {
    round_to_bf16(std::as_const(memory).array<float>(sum(token), problem_.hidden()),
                  memory.array<std::uint16_t>(output(token), problem_.hidden()));
  }
  // The next call's sum begins at zero.
  memory.discard(sum(token), problem_.hidden() * sizeof(float));
}

Verdict FusedLayer::verify(DeviceProcess& device, std::uint32_t, std::uint32_t iteration) {
  Verdict verdict;
  check_taken(device, iteration, verdict);
  if (how_ == Sums::kAsTheyCome) {
    check_bounds(device, iteration, verdict);
    return verdict;
  }
  Verdict output = verify_combine(device, iteration);
  if (!verdict.ok) {
    output.ok = false;
    output.what = verdict.what;
  }
  return output;
}

void FusedLayer::check_taken(DeviceProcess& device, std::uint32_t iteration, Verdict& verdict) {
  const auto sent = problem_.control ? nullptr : sent_rows(iteration);
  fabric::Memory& memory = device.memory();
  for (std::uint32_t local = 0; local < local_experts(device.rank()); ++local) {
    const std::uint32_t expert = problem_.placement.begin(device.rank()) + local;
    std::uint32_t index = 0;
    std::uint32_t source = 0;
    for (const RowTag& tag : problem_.arrivals[iteration].rows(expert)) {
      if (tag.source != source) index = 0;
      source = tag.source;
      SentRow want;
      if (problem_.control) {
        want.digest.low = fit(input_identity(problem_.seed, iteration, tag.source, tag.token));
      } else {
        want = sent->row(tag.source, tag.token);
      }
      const fabric::Address at = taken(local, source, index);
      if (verdict.ok && memory.load<SentRow>(at) != want) {
        verdict.ok = false;
        verdict.what = fmt::format(
            "expert {} row {} of device {} (token {} k {}): it did not take the bytes that were "
            "sent",
            expert, index, source, tag.token, tag.k);
      }
      memory.store(at, SentRow{});
      ++index;
    }
  }
}

void FusedLayer::check_bounds(DeviceProcess& device, std::uint32_t iteration, Verdict& verdict) {
  const fabric::Memory& memory = device.memory();
  const std::uint32_t count = tokens(device.rank(), iteration);
  std::vector<std::uint64_t> digests(count);
  std::vector<std::uint8_t> within(count);
  for (std::uint32_t token = 0; problem_.control && token < count; ++token) {
    digests[token] = identity_at(memory, output(token));
    within[token] =
        digests[token] == combined_identity(device.rank(), token, iteration, add_in_any_order);
  }
#pragma omp parallel num_threads(problem_.threads) if (!problem_.control)
  {
    ReferenceScratch scratch;
    std::vector<std::uint16_t> least(problem_.hidden());
    std::vector<std::uint16_t> most(problem_.hidden());
#pragma omp for schedule(static)
    for (std::uint32_t token = 0; token < (problem_.control ? 0 : count); ++token) {
      digests[token] = emu::digest_bytes(memory.view(output(token), output_row_bytes()));
      reference_bounds(problem_.tables[iteration], problem_.experts, problem_.seed, iteration,
                       device.rank(), token, precision_, scratch, least, most);
      const auto row = memory.array<std::uint16_t>(output(token), problem_.hidden());
      bool good = true;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const float value = bf16_to_float(row[i]);
        good &= bf16_to_float(least[i]) <= value && value <= bf16_to_float(most[i]);
      }
      within[token] = good;
    }
  }
  emu::RunningDigest digest;
  for (std::uint32_t token = 0; token < count; ++token) {
    digest.add(digests[token]);
    if (within[token] != 0 || !verdict.ok) continue;
    verdict.ok = false;
    verdict.what = fmt::format(
        "the output of token {} is not within the bound of any order of its rows", token);
  }
  verdict.digest = digest.value();
}

}  // namespace orrery::moe
