#include "devices/wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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
          "word of at least"};
}

bool WaitOperation::satisfied(Core& core, std::uint32_t slot) const {
  if (slot < 64 && ((slots_.skip >> slot) & 1) != 0) return true;
  const auto bytes = core.memory().view(slots_.base + slot * slots_.stride, slots_.width);
  return predicate_.test(bytes.data(), predicate_.argument);
}

bool WaitOperation::begin(Core& core) {
  start_ = core.now();
  poll_ = core.costs().poll;
  auto& flags = core.slot_flags();
  flags.assign(slots_.count, 0);
  remaining_ = 0;
  for (std::uint32_t slot = 0; slot < slots_.count; ++slot) {
    flags[slot] = satisfied(core, slot);
    remaining_ += flags[slot] == 0;
  }
  if (slots_.count == 0) return false;
  core.device().add_watch(core.index(), first(), last());
  finish_if_satisfied(core);
  return true;
}

void WaitOperation::on_visible(Core& core, const fabric::Packet& packet, fabric::Address address,
                               std::uint32_t bytes) {
  const fabric::Address end = address + bytes;
  if (end <= first() || address >= last()) return;
  const fabric::Address into = address > slots_.base ? address - slots_.base : 0;
  auto slot = static_cast<std::uint32_t>(into / slots_.stride);
  auto& flags = core.slot_flags();
  for (; slot < slots_.count && slots_.base + slot * slots_.stride < end; ++slot) {
    if (slots_.base + slot * slots_.stride + slots_.width <= address) continue;
    const bool now_satisfied = satisfied(core, slot);
    if (now_satisfied == (flags[slot] != 0)) continue;
    flags[slot] = now_satisfied;
    if (!now_satisfied) {
      ++remaining_;
      continue;
    }
    --remaining_;
    const emu::Time late = core.now() - start_ - static_cast<emu::Time>(slot) * poll_;
    const emu::Time sweep = late <= 0 ? 0 : (late + sweep_time() - 1) / sweep_time();
    if (!caused_ || sweep > last_sweep_ || (sweep == last_sweep_ && core.now() > cause_.time)) {
      cause_ = {packet.journey, 0, core.now()};
      caused_ = true;
    }
    last_sweep_ = std::max(last_sweep_, sweep);
  }
  finish_if_satisfied(core);
}

void WaitOperation::finish_if_satisfied(Core& core) {
  if (remaining_ > 0 || scheduled_) return;
  scheduled_ = true;
  core.resume_at(std::max(core.now(), start_ + (last_sweep_ + 1) * sweep_time()));
}

bool WaitOperation::advance(Core& core) {
  scheduled_ = false;
  if (remaining_ > 0) return false;
  core.device().remove_watch(core.index());
  const emu::Time sweeps = std::max<emu::Time>(1, (core.now() - start_) / std::max<emu::Time>(1, sweep_time()));
  core.device().counters().polls += static_cast<std::uint64_t>(sweeps) * slots_.count;
  if (caused_) core.timeline().append(Category::kFlagWait, cause_.time, cause_);
  core.timeline().append(Category::kPoll, core.now());
  return true;
}

std::string WaitOperation::describe(const Core& core) const {
  auto& self = const_cast<Core&>(core);
  std::string out;
  std::uint32_t missing = 0;
  for (std::uint32_t slot = 0; slot < slots_.count; ++slot) {
    if (satisfied(self, slot)) continue;
    if (++missing > 1) continue;
    const fabric::Address address = slots_.base + slot * slots_.stride;
    std::string held;
    for (const std::byte byte : self.memory().view(address, std::min<std::uint32_t>(slots_.width, 32))) {
      held += fmt::format("{:02x}", static_cast<unsigned>(byte));
    }
    out = fmt::format("polls address {:#x} (slot {} of {}): holds 0x{}, wants {}{}; last writer: {}; "
                      "expected writer: {}",
                      address, slot, slots_.count, held, predicate_.wants,
                      predicate_.argument != 0 ? fmt::format(" {:#x}", predicate_.argument) : "",
                      self.device().last_writer(address), expected_(slot));
  }
  if (missing > 1) out += fmt::format("; {} more slots are missing", missing - 1);
  return out;
}

}  // namespace orrery::devices
