#include "moe/dedup_layer.h"

#include <algorithm>
#include <utility>

#include "devices/fetch_add_each.h"

namespace orrery::moe {

using devices::Core;

namespace {
// Vector passes: cast with a scale (widen, abs, reduce max, scale, narrow twice); weighted sum on a
// GPU (widen, multiply and add at once).
constexpr int kCastPasses = 6;
constexpr int kAccumulatePasses = 2;

void keep_each_once(std::vector<std::uint32_t>& devices) {
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
}
}  // namespace

std::uint64_t DedupLayer::touched_bytes(std::uint32_t device) const {
  std::uint64_t most_rows = 0;
  std::uint64_t most_tokens = 0;
  for (std::uint32_t iteration = 0; iteration < problem_.iterations; ++iteration) {
    most_rows = std::max(most_rows, rows(device, iteration));
    most_tokens = std::max<std::uint64_t>(most_tokens, tokens(device, iteration));
  }
  return MoeLayer::touched_bytes(device) + 2 * most_rows * (message_stride() + taken_bytes()) +
         most_tokens * (1 + problem_.top_k()) * message_stride();
}

std::uint64_t DedupLayer::passing_bytes(std::uint32_t device, std::uint32_t groups) const {
  std::uint64_t most = 0;
  for (std::uint32_t iteration = 0; iteration < problem_.iterations; ++iteration) {
    most = std::max<std::uint64_t>(most, tokens(device, iteration));
  }
  return most * groups * message_stride();
}

fabric::Address DedupLayer::message_rows(std::uint64_t count) {
  if (problem_.control) {
    const auto identity = std::min(kIdentityBytes, payload_bytes());
    const auto behind = static_cast<std::uint32_t>(align_up(payload_bytes(), 16));
    layout_.carry_only({{0, identity}, {std::max(identity, behind), message_bytes()}});
  }
  return layout_.rows(count, message_stride());
}

void DedupLayer::write_token(Core& core, std::uint32_t token, fabric::Address to) const {
  const float scale = encode(core, token, to);
  core.write(header(to), Header{core.rank(), token, scale, problem_.top_k()});
  const auto ids = ids_of(core, token);
  const auto weights = weights_of(core, token);
  for (std::uint32_t k = 0; k < problem_.top_k(); ++k) {
    core.write(header(to) + sizeof(Header) + k * sizeof(Choice), Choice{ids[k], weights[k]});
  }
}

emu::Time DedupLayer::cast_time() const {
  return has_scale(precision_) ? kCastPasses * problem_.costs.vector(problem_.hidden()) : 0;
}

std::vector<std::uint32_t> DedupLayer::owners(std::span<const std::int32_t> ids) const {
  std::vector<std::uint32_t> devices;
  for (const std::int32_t id : ids) {
    if (id >= 0) devices.push_back(problem_.placement.owner(static_cast<std::uint32_t>(id)));
  }
  keep_each_once(devices);
  return devices;
}

std::vector<std::uint32_t> DedupLayer::owners(std::span<const Choice> choices) const {
  std::vector<std::int32_t> ids;
  for (const Choice& choice : choices) ids.push_back(choice.expert);
  return owners(ids);
}

std::vector<DedupLayer::TakenRow> DedupLayer::rows_here(
    Core& core, fabric::Address from, std::vector<fabric::Address>& counters) const {
  std::vector<TakenRow> rows;
  const auto choices = choices_of(core, from);
  const std::uint32_t count = header_of(core, from).choices;
  for (std::uint32_t k = 0; k < count; ++k) {
    if (choices[k].expert < 0) continue;
    const auto expert = static_cast<std::uint32_t>(choices[k].expert);
    if (problem_.placement.owner(expert) != core.rank()) continue;
    const std::uint32_t local = problem_.placement.local_index(expert);
    counters.push_back(expert_rows(local));
    rows.push_back({first_row(local), choices[k].weight, k});
  }
  return rows;
}

void DedupLayer::write_rows(Core& core, fabric::Address from, fabric::Address taken,
                            std::span<TakenRow> rows, std::span<const std::uint32_t> before) const {
  const Header head = header_of(core, from);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].row += before[i];
    encode_again(core, expanded(rows[i].row), from);
    core.write(scale(rows[i].row), head.scale);
    core.write(tag(rows[i].row), RowTag{head.source, head.token, rows[i].k});
    core.write(taken + sizeof(Taken) + i * sizeof(TakenRow), rows[i]);
  }
  core.write(taken, Taken{head.source, head.token, static_cast<std::uint32_t>(rows.size()), 0});
}

emu::Task DedupLayer::expand(Core& core, fabric::Address from, fabric::Address taken) {
  core.accept(from, message_bytes());
  co_await core.stream(message_bytes());
  std::vector<fabric::Address> counters;
  std::vector<TakenRow> rows = rows_here(core, from, counters);
  std::vector<std::uint32_t> before(rows.size());
  co_await devices::fetch_add_each(core, counters, 1, before);
  write_rows(core, from, taken, rows, before);
  for (std::size_t i = 0; i < rows.size(); ++i) co_await core.stream(payload_bytes());
  core.discard(from, message_stride());
}

void DedupLayer::hand_over(Core& core, fabric::Address from, fabric::Address taken) {
  core.accept(from, message_bytes());
  std::vector<fabric::Address> counters;
  std::vector<TakenRow> rows = rows_here(core, from, counters);
  std::vector<std::uint32_t> before;
  for (const fabric::Address counter : counters) {
    before.push_back(core.load<std::uint32_t>(counter));
    core.write(counter, before.back() + 1);
  }
  write_rows(core, from, taken, rows, before);
  core.discard(from, message_stride());
}

std::vector<DedupLayer::WeightedRow> DedupLayer::outputs_of(Core& core,
                                                            fabric::Address taken) const {
  std::vector<WeightedRow> rows;
  for (const TakenRow& each : taken_rows(core, taken)) {
    rows.push_back({expert_output(each.row), each.weight});
  }
  return rows;
}

emu::Task DedupLayer::sum_taken(Core& core, fabric::Address taken, fabric::Address to) {
  co_await add_rows(core, to, outputs_of(core, taken), row_stride());
}

void DedupLayer::add_taken(Core& core, fabric::Address taken, fabric::Address to) {
  const std::vector<WeightedRow> rows = outputs_of(core, taken);
  sum_rows(core, to, rows);
  for (const WeightedRow& each : rows) core.discard(each.row, row_stride());
}

emu::Task DedupLayer::add_rows(Core& core, fabric::Address to, std::vector<WeightedRow> rows,
                               std::uint64_t stride) {
  if (!rows.empty()) co_await core.stream(rows.size() * output_row_bytes());
  for (const WeightedRow& each : rows) core.accept(each.row, output_row_bytes());
  co_await core.compute(rows.size() * kAccumulatePasses * core.costs().vector(problem_.hidden()));
  sum_rows(core, to, rows);
  for (const WeightedRow& each : rows) core.discard(each.row, stride);
  co_await core.compute(core.costs().vector(problem_.hidden()));
}

}  // namespace orrery::moe
