#include "moe/message_layer.h"

#include <algorithm>

namespace orrery::moe {

using devices::Core;

namespace {
// Vector passes: cast with a scale (widen, abs, reduce max, scale, narrow twice); weighted sum on
// a GPU (widen, multiply and add at once).
constexpr int kCastPasses = 6;
constexpr int kAccumulatePasses = 2;
constexpr std::uint32_t kNoDevice = ~std::uint32_t{0};
}  // namespace

std::uint64_t MessageLayer::touched_bytes(std::uint32_t device) const {
  std::uint64_t entries = 0;
  for (std::uint32_t iteration = 0; iteration < problem_.iterations; ++iteration) {
    entries = std::max<std::uint64_t>(entries,
                                      std::uint64_t{tokens(device, iteration)} * problem_.top_k());
  }
  return MoeLayer::touched_bytes(device) + entries * row_stride();
}

float MessageLayer::write_message(Core& core, std::uint32_t token, std::uint32_t k,
                                  fabric::Address to) const {
  const float scale = encode(core, token, to);
  core.write(header(to), Header{{core.rank(), token, k}, scale});
  return scale;
}

void MessageLayer::write_message(Core& core, std::uint32_t token, std::uint32_t k,
                                 fabric::Address to, fabric::Address other, float scale) const {
  encode_again(core, to, other);
  core.write(header(to), Header{{core.rank(), token, k}, scale});
}

// A row that was given up is zero again once its header is written, so that the host need not write
// all of it.
void MessageLayer::write_padding(Core& core, fabric::Address to) const {
  core.note_write(to, message_bytes());
  core.write(header(to), Header{{kNoDevice, 0, 0}, 0});
}

bool MessageLayer::is_padding(Core& core, fabric::Address from) const {
  return core.load<Header>(header(from)).tag.source == kNoDevice;
}

emu::Time MessageLayer::cast_time() const {
  return has_scale(precision_) ? kCastPasses * problem_.costs.vector(problem_.hidden()) : 0;
}

emu::Task MessageLayer::take_message(Core& core, fabric::Address from, std::uint64_t row) {
  core.accept(from, message_bytes());
  co_await core.move(expanded(row), from, message_bytes());
  const auto found = core.load<Header>(header(expanded(row)));
  core.write(scale(row), found.scale);
  core.write(tag(row), found.tag);
}

emu::Task MessageLayer::add_rows(Core& core, std::uint32_t token, std::vector<WeightedRow> rows) {
  if (!rows.empty()) co_await core.stream(rows.size() * output_row_bytes());
  for (const WeightedRow& each : rows) core.accept(each.row, output_row_bytes());
  co_await core.compute(rows.size() * kAccumulatePasses * core.costs().vector(problem_.hidden()));
  weighted_sum(core, token, rows);
  for (const WeightedRow& each : rows) core.discard(each.row, row_stride());
  co_await core.compute(core.costs().vector(problem_.hidden()));
  co_await core.stream(output_row_bytes());
}

}  // namespace orrery::moe
