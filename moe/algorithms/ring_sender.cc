#include "moe/algorithms/ring_sender.h"

#include <algorithm>
#include <span>
#include <utility>

namespace orrery::moe {

using devices::Core;

emu::Task RingSender::step(Core& core, bool& progress) {
  std::vector<std::pair<const SendRing*, std::uint32_t>> told;
  for (Stream& stream : streams_) {
    const auto remaining = static_cast<std::uint32_t>(stream.rows.size()) - stream.next;
    if (remaining == 0) continue;
    const std::uint32_t rows = std::min(remaining, stream.ring.chunk());
    if (fault_ == Fault::kSpin || stream.ring.has_room(core)) {
      co_await stream.ring.wait_room(core);
      co_await put(core, stream, rows);
      told.emplace_back(&stream.ring, rows);
    }
    if (fault_ == Fault::kInOrder) break;
  }
  if (!told.empty()) {
    progress = true;
    co_await order_(core);
    for (const auto& [ring, rows] : told) co_await ring->publish(core, rows);
  }
  const bool more = std::any_of(streams_.begin(), streams_.end(),
                                [](const Stream& each) { return each.next < each.rows.size(); });
  if (!more) co_await finish(core);
}

emu::Task RingSender::put(Core& core, Stream& stream, std::uint32_t rows) {
  std::vector<devices::Piece> pieces;
  for (std::uint32_t n = 0; n < rows; ++n) {
    pieces.push_back({stream.ring.row(n), stream.rows[stream.next + n], row_bytes_});
  }
  co_await core.stream(std::uint64_t{rows} * row_bytes_);
  const std::span<const devices::Piece> all = pieces;
  const devices::PutHandle handle = co_await core.put(stream.ring.peer(), all);
  handles_.push_back(handle);
  stream.ring.advance(rows);
  stream.next += rows;
}

// What was put from may be written again when the role is done.
emu::Task RingSender::finish(Core& core) {
  for (const devices::PutHandle& handle : handles_) co_await core.wait_local(handle);
  for (const Stream& each : streams_) each.ring.save(core);
  done_ = true;
}

void RingSender::add_watches(std::vector<Watch>& watches) const {
  for (const Stream& each : streams_) {
    if (each.next == each.rows.size()) continue;
    watches.push_back(each.ring.room());
    if (fault_ == Fault::kInOrder) return;
  }
}

}  // namespace orrery::moe
