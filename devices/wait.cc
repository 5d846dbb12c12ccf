#include "devices/wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "devices/core.h"
#include "devices/device_process.h"

namespace orrery::devices {

namespace {
std::uint32_t word(const std::byte* slot) {
  std::uint32_t value;
  std::memcpy(&value, slot, sizeof(value));
  return value;
}
}  // namespace

Predicate word_equals(std::uint32_t value) {
  return {[](const std::byte* slot, std::uint64_t wanted) { return word(slot) == wanted; }, value,
          "word equal to"};
}
Predicate word_differs(std::uint32_t value) {
  return {[](const std::byte* slot, std::uint64_t other) { return word(slot) != other; }, value,
          "word other than"};
}
Predicate word_at_least(std::uint32_t value) {
  return {[](const std::byte* slot, std::uint64_t least) { return word(slot) >= least; }, value,
          "word of at least", true};
}

namespace {
// A slot as its predicate takes it: words, each as a number. Bytes beyond a whole word are left
// out.
std::string words_at(const fabric::Memory& memory, fabric::Address address, std::uint32_t width) {
  constexpr std::uint32_t kMostWords = 8;
  const std::uint32_t words = std::clamp<std::uint32_t>(width / 4, 1, kMostWords);
  std::string out;
  for (std::uint32_t i = 0; i < words; ++i) {
    std::uint32_t value = 0;
    const auto held = memory.view(address + 4 * i, std::min<std::uint32_t>(width, 4));
    std::memcpy(&value, held.data(), held.size());
    out += fmt::format("{}{:#x}", i == 0 ? "" : " ", value);
  }
  return out;
}
}  // namespace

bool WaitOperation::satisfied(Core& core, std::uint32_t slot) const {
  if (slot < 64 && ((slots_.skip >> slot) & 1) != 0) return true;
  const auto bytes =
      std::as_const(core.memory()).view(slots_.base + slot * slots_.stride, slots_.width);
  return predicate_.test(bytes.data(), predicate_.argument);
}

bool WaitOperation::begin(Core& core) {
  if (slots_.count == 0) return false;
  start_ = core.now();
  poll_ = core.costs().poll;
  auto& reads = core.slot_reads();
  reads.assign(slots_.count, SlotReads{});
  for (std::uint32_t slot = 0; slot < slots_.count; ++slot) {
    if (satisfied(core, slot)) {
      reads[slot] = {0, SlotReads::kOpen};
    } else {
      ++remaining_;
    }
  }
  if (core.device().keeps_causes()) {
    core.slot_writers().assign(slots_.count, Core::kNoPacket);
    for (std::uint32_t slot = 0; slot < slots_.count; ++slot) {
      if (reads[slot].from == 0) core.slot_writers()[slot] = earlier_writer(core, slot);
    }
  }
  unseen_ = remaining_;
  core.device().add_watch(core.index(), first(), last());
  schedule_end(core);
  return true;
}

void WaitOperation::on_visible(Core& core, const fabric::Packet& packet, fabric::Address address,
                               std::uint32_t bytes) {
  const fabric::Address end = address + bytes;
  if (end <= first() || address >= last()) return;
  const fabric::Address into = address > slots_.base ? address - slots_.base : 0;
  auto slot = static_cast<std::uint32_t>(into / slots_.stride);
  auto& reads = core.slot_reads();
  for (; slot < slots_.count && slots_.base + slot * slots_.stride < end; ++slot) {
    if (slots_.base + slot * slots_.stride + slots_.width <= address) continue;
    const bool was_satisfied = reads[slot].until == SlotReads::kOpen;
    if (satisfied(core, slot) == was_satisfied) continue;
    if (was_satisfied) {
      // The sweeps that have read it by now did see it satisfied.
      reads[slot].until = sweep_after(slot, core.now());
      ++remaining_;
    } else {
      open(core, slot, packet);
    }
  }
  schedule_end(core);
}

void WaitOperation::open(Core& core, std::uint32_t slot, const fabric::Packet& packet) {
  if (core.device().keeps_causes()) {
    core.slot_writers()[slot] = fabric::causal_key(packet.source, packet.number);
  }
  SlotReads& reads = core.slot_reads()[slot];
  const std::int64_t sweep = sweep_after(slot, core.now());
  --remaining_;
  if (reads.from == SlotReads::kOpen) --unseen_;
  const bool no_read_missed = reads.from < reads.until && reads.until == sweep;
  reads.until = SlotReads::kOpen;
  if (no_read_missed) return;
  reads.from = sweep;
  if (!caused_ || sweep > last_sweep_ || (sweep == last_sweep_ && core.now() > cause_.time)) {
    cause_ = {packet.journey, 0, core.now()};
    caused_ = true;
    woken_by_ = core.device().origin_of(packet);
  }
  last_sweep_ = std::max(last_sweep_, sweep);
}

// Slots may have changed back since that sweep read them.
bool WaitOperation::seen_by_last_sweep(Core& core) const {
  if (remaining_ == 0) return true;
  if (unseen_ > 0) return false;
  const auto& reads = core.slot_reads();
  return std::all_of(reads.begin(), reads.end(),
                     [this](const SlotReads& each) { return each.until > last_sweep_; });
}

void WaitOperation::schedule_end(Core& core) {
  if (scheduled_ >= 0 || !seen_by_last_sweep(core)) return;
  scheduled_ = last_sweep_;
  core.resume_at(start_ + (last_sweep_ + 1) * sweep_time());
}

bool WaitOperation::advance(Core& core) {
  if (scheduled_ != last_sweep_ || !seen_by_last_sweep(core)) {
    scheduled_ = -1;
    schedule_end(core);
    return false;
  }
  core.device().remove_watch(core.index());
  core.device().counters().polls += static_cast<std::uint64_t>(scheduled_ + 1) * slots_.count;
  log(core);
  if (core.is_checked()) note_slots(core);
  if (caused_) core.timeline().append(Category::kFlagWait, cause_.time, cause_);
  core.timeline().append(Category::kPoll, core.now());
  if (caused_) core.device().trace_wait_end(core.index(), woken_by_, cause_.time);
  return true;
}

// The put without which a slot would not have been satisfied before the wait began: had that begun
// earlier, it would have waited for it.
fabric::CausalKey WaitOperation::earlier_writer(Core& core, std::uint32_t slot) const {
  const DeviceProcess::Writers* writers =
      core.device().writers_of(slots_.base + slot * slots_.stride);
  if (writers == nullptr) return Core::kNoPacket;
  fabric::CausalKey writer = writers->writes[0].packet;
  if (slots_.width != sizeof(std::uint32_t)) return writer;
  for (std::size_t i = 1; i < writers->count; ++i) {
    const auto held = std::as_bytes(std::span(&writers->writes[i].value, 1));
    if (!predicate_.test(held.data(), predicate_.argument)) break;
    writer = writers->writes[i].packet;
  }
  return writer;
}

void WaitOperation::note_slots(Core& core) const {
  for (std::uint32_t slot = 0; slot < slots_.count; ++slot) {
    if (slot < 64 && ((slots_.skip >> slot) & 1) != 0) continue;
    core.note({.address = slots_.base + slot * slots_.stride,
               .bytes = slots_.width,
               .kind = CheckKind::kWait,
               .detail = predicate_.more_satisfies ? CheckRecord::kGrows : std::uint8_t{0}});
  }
}

void WaitOperation::log(Core& core) const {
  DeviceProcess& device = core.device();
  if (!device.keeps_causes()) return;
  for (std::uint32_t slot = 0; slot < slots_.count; ++slot) {
    if (slot < 64 && ((slots_.skip >> slot) & 1) != 0) continue;
    const fabric::CausalKey writer = core.slot_writers()[slot];
    if (writer == Core::kNoPacket) continue;
    device.log(core.index(), {.key = writer, .other = slot, .kind = fabric::CausalKind::kSlot});
  }
  device.log(core.index(), {.amount = static_cast<std::uint64_t>(sweep_time()),
                            .other = slots_.count,
                            .kind = fabric::CausalKind::kWait});
}

std::string WaitOperation::describe(const Core& core) const {
  auto& self = const_cast<Core&>(core);
  std::string out;
  std::uint32_t missing = 0;
  for (std::uint32_t slot = 0; slot < slots_.count; ++slot) {
    if (satisfied(self, slot)) continue;
    if (++missing > 1) continue;
    const fabric::Address address = slots_.base + slot * slots_.stride;
    out = fmt::format(
        "polls address {:#x} (slot {} of {}): holds {}, wants {}{}; last writer: {}; "
        "expected writer: {}",
        address, slot, slots_.count, words_at(self.memory(), address, slots_.width),
        predicate_.wants,
        predicate_.argument != 0 ? fmt::format(" {:#x}", predicate_.argument) : "",
        self.device().last_writer(address), expected_(slot));
  }
  if (missing == 0) {
    // Or the run would look finished while this core still waits.
    return fmt::format(
        "polls address {:#x}, which holds what it wants; only what arrives through the fabric "
        "wakes a poll",
        slots_.base);
  }
  if (missing > 1) out += fmt::format("; {} more slots are missing", missing - 1);
  return out;
}

}  // namespace orrery::devices
