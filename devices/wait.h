// Polling local memory until slots hold what is wanted. Polls are computed, not simulated (R5):
// sweep s of a poll over n slots at cost c reads slot i at t0 + (s·n + i)·c and returns at the
// sweep's end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "devices/operation.h"
#include "devices/timeline.h"
#include "emu/trace_sink.h"
#include "fabric/causal_log.h"

namespace orrery::devices {

/// Evenly spaced slots of a device's memory; one slot is the plain case.
struct Slots {
  fabric::Address base = 0;
  std::uint32_t width = 4;   // bytes that the predicate looks at
  std::uint64_t stride = 4;  // bytes from one slot to the next
  std::uint32_t count = 1;
  std::uint64_t skip = 0;  // bit i: slot i counts as satisfied (i < 64)
};

/// A test on a slot's bytes, and its wording for people.
struct Predicate {
  bool (*test)(const std::byte* slot, std::uint64_t argument);
  std::uint64_t argument = 0;
  const char* wants = "";
  bool more_satisfies = false;  // so does any later value of a flag that only grows
};

/// 32-bit word equal to / not equal to / at least the argument.
Predicate word_equals(std::uint32_t value);
Predicate word_differs(std::uint32_t value);
Predicate word_at_least(std::uint32_t value);

/// Who should write a slot, as words for the hang report. Refers to a callable that outlives the
/// wait.
class ExpectedWriter {
 public:
  template <typename F>
  ExpectedWriter(
      const F& describe)  // NOLINT: implicit on purpose, for lambdas in the caller's frame
      : object_(&describe), call_([](const void* object, std::uint32_t slot) -> std::string {
          return (*static_cast<const F*>(object))(slot);
        }) {}
  std::string operator()(std::uint32_t slot) const { return call_(object_, slot); }

 private:
  const void* object_;
  std::string (*call_)(const void*, std::uint32_t);
};

/// The sweeps that read a slot satisfied, as far as they can still matter: [from, until).
struct SlotReads {
  static constexpr std::int64_t kOpen = std::numeric_limits<std::int64_t>::max();
  std::int64_t from = kOpen;
  std::int64_t until = 0;  // kOpen while the slot is satisfied
};

/// Waits until one sweep sees every slot satisfied.
class WaitOperation : public Operation {
 public:
  WaitOperation(const Slots& slots, const Predicate& predicate, ExpectedWriter expected)
      : slots_(slots), predicate_(predicate), expected_(expected) {}
  bool begin(Core& core) override;
  bool advance(Core& core) override;
  void on_visible(Core& core, const fabric::Packet& packet, fabric::Address address,
                  std::uint32_t bytes) override;
  std::string describe(const Core& core) const override;
  void result() const {}

  fabric::Address first() const { return slots_.base; }
  fabric::Address last() const {
    return slots_.base + slots_.stride * (slots_.count - 1) + slots_.width;
  }

 private:
  bool satisfied(Core& core, std::uint32_t slot) const;
  emu::Time sweep_time() const { return poll_ * slots_.count; }
  // The first sweep that reads `slot` at `time` or later.
  std::int64_t sweep_after(std::uint32_t slot, emu::Time time) const {
    const emu::Time late = time - start_ - static_cast<emu::Time>(slot) * poll_;
    return late <= 0 ? 0 : (late + sweep_time() - 1) / sweep_time();
  }
  void open(Core& core, std::uint32_t slot, const fabric::Packet& packet);
  bool seen_by_last_sweep(Core& core) const;
  void schedule_end(Core& core);
  void log(Core& core) const;
  void note_slots(Core& core) const;
  fabric::CausalKey earlier_writer(Core& core, std::uint32_t slot) const;

  Slots slots_;
  Predicate predicate_;
  ExpectedWriter expected_;
  emu::Time start_ = 0;
  emu::Time poll_ = 0;
  std::int64_t last_sweep_ = 0;  // the first that may see all slots: the largest `from`
  std::uint32_t remaining_ = 0;  // slots that are not satisfied now
  std::uint32_t unseen_ = 0;     // slots that have not been satisfied yet
  std::int64_t scheduled_ = -1;  // the sweep at whose end the core resumes
  bool caused_ = false;
  Cause cause_;
  emu::TraceOrigin woken_by_;  // the message that the cause came with
};

}  // namespace orrery::devices
