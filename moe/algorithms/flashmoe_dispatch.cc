// FlashMoE, dispatch: processors deal the experts of all devices among them. Rows for an expert are
// gathered and sent as one packet, followed by a signal that says how many they are; an expert that
// gets none is told that alone.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "moe/algorithms/flashmoe.h"

namespace orrery::moe::flashmoe {

using devices::Core;
using devices::Piece;

emu::Task Flashmoe::send_packets(Core& core, std::uint32_t iteration, Outgoing& out) {
  core.phase("dispatch");
  co_await core.stream(std::uint64_t{tokens(core.rank(), iteration)} * problem_.top_k() *
                       sizeof(std::int32_t));
  list_rows(core, iteration);
  for (std::uint32_t n = core.index(); n < number_of_parcels(); n += processors()) {
    co_await send_parcel(core, iteration, n, out);
  }
  if (signaling_ == Signaling::kReordered) co_await put_all_first(core, iteration, out);
}

// Which of the device's tokens go to this core's experts: the gate's lists.
void Flashmoe::list_rows(Core& core, std::uint32_t iteration) {
  const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
  std::vector<std::vector<std::uint32_t>> lists(problem_.placement.experts());
  std::vector<std::uint8_t> mine(problem_.placement.experts(), 0);
  for (std::uint32_t n = core.index(); n < number_of_parcels(); n += processors()) {
    const Parcel& each = parcel(core.rank(), n);
    if (each.expert != Parcel::kNoExpert) mine[each.expert] = 1;
  }
  const auto ids = core.array<std::int32_t>(this->ids(), entries);
  for (std::uint32_t entry = 0; entry < entries; ++entry) {
    if (ids[entry] < 0) continue;
    const auto expert = static_cast<std::uint32_t>(ids[entry]);
    if (mine[expert] != 0) lists[expert].push_back(entry);
  }
  for (std::uint32_t expert = 0; expert < lists.size(); ++expert) {
    if (mine[expert] == 0) continue;
    core.write(at_.list_rows(expert), static_cast<std::uint32_t>(lists[expert].size()));
    if (lists[expert].empty()) continue;
    core.write_bytes(at_.list_entry(expert, 0),
                     std::as_bytes(std::span<const std::uint32_t>(lists[expert])));
  }
}

bool Flashmoe::drops(const Core& core, std::uint32_t n) const {
  return sabotage_ == "drop-signal" && core.rank() == 0 && n == 0;
}

Flashmoe::Signal Flashmoe::parcel_signal(Core& core, std::uint32_t iteration,
                                         const Parcel& parcel) const {
  const std::uint32_t rows = parcel.expert == Parcel::kNoExpert
                                 ? 0
                                 : core.load<std::uint32_t>(at_.list_rows(parcel.expert));
  return {parcel.device, at_.packet_flag(set(iteration), at_.unit(parcel.local, core.rank())),
          announcement(iteration, rows), rows > 0, false};
}

emu::Task Flashmoe::send_parcel(Core& core, std::uint32_t iteration, std::uint32_t n,
                                Outgoing& out) {
  const Parcel& to = parcel(core.rank(), n);
  const Signal signal = parcel_signal(core, iteration, to);
  const bool self = to.device == core.rank();
  const bool near = is_near(core.rank(), to.device);
  if (signal.behind_put) {
    const auto rows = core.load<std::uint32_t>(at_.list_rows(to.expert));
    const std::uint64_t bytes = std::uint64_t{rows} * payload_bytes();
    co_await core.stream(rows * sizeof(std::uint32_t) + bytes);
    for (std::uint32_t row = 0; row < rows; ++row) {
      const auto entry = core.load<std::uint32_t>(at_.list_entry(to.expert, row));
      encode(core, entry / problem_.top_k(),
             self ? at_.dispatched(set(iteration), at_.unit(to.local, core.rank()), row)
                  : at_.staged(entry));
    }
    // Near devices are stored to as the rows are read.
    if (self || !near) co_await core.stream(bytes);
  }
  if (!near && signaling_ == Signaling::kDecoupled) {
    const std::uint32_t group = group_of_parcel(core.rank(), n);
    co_await post(core, 1 + sender_of(group), note(iteration, Note::kReady, n));
    co_return;
  }
  const bool dropped = drops(core, n);
  if (signal.behind_put && !dropped && is_one_request(core, to.device, false)) {
    co_await put_parcel(core, iteration, to, out, &signal);
    co_return;
  }
  if (signal.behind_put && !self) co_await put_parcel(core, iteration, to, out);
  if (dropped) co_return;
  if (!near && signaling_ == Signaling::kReordered) {
    out.signals.push_back(signal);
    co_return;
  }
  if (signal.behind_put && !self) co_await order(core, near, false);
  co_await tell(core, signal);
}

// The staged rows of a parcel as one put.
emu::Task Flashmoe::put_parcel(Core& core, std::uint32_t iteration, const Parcel& parcel,
                               Outgoing& out, const Signal* signal) {
  const auto rows = core.load<std::uint32_t>(at_.list_rows(parcel.expert));
  const std::uint32_t unit = at_.unit(parcel.local, core.rank());
  std::vector<Piece> pieces;
  for (std::uint32_t row = 0; row < rows; ++row) {
    const Address from = at_.staged(core.load<std::uint32_t>(at_.list_entry(parcel.expert, row)));
    pieces.push_back({at_.dispatched(set(iteration), unit, row), from, payload_bytes()});
  }
  co_await put(core, parcel.device, std::move(pieces), out, signal);
}

// Signals follow when the puts of all processors are issued.
emu::Task Flashmoe::put_all_first(Core& core, std::uint32_t iteration, Outgoing& out) {
  const std::uint64_t one = 1;
  co_await core.atomic_add(core.rank(), at_.rendezvous(), one);
  const auto writer = [&core](std::uint32_t) {
    return fmt::format("device {}, each processor", core.rank());
  };
  const devices::Slots count{at_.rendezvous()};
  const devices::Predicate all = devices::word_at_least(processors() * (iteration + 1));
  co_await core.wait_until(count, all, writer);
  co_await flush(core, out);
}

}  // namespace orrery::moe::flashmoe
