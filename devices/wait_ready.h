// Polling places that lie anywhere, each with a test of its own, until one of them or all are
// ready: rows that carry their flags inside, lists that are read as they fill. Computed as wait.h
// does it (R5). All: sweep s of n places reads place i at t0 + (s·n + i)·c, and the wait returns at
// the end of the first sweep that saw all ready. Any: goes round the places, beginning with
// `first`; each is a poll of its own, and the first one to find its place ready ends the wait.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "devices/operation.h"
#include "devices/timeline.h"
#include "devices/wait.h"
#include "emu/trace_sink.h"

namespace orrery::devices {

/// Bytes that a place's test looks at.
struct Place {
  fabric::Address address = 0;
  std::uint32_t bytes = 4;
};

/// Whether a place is ready: looks at its bytes through Core::probe. Refers to a callable
/// bool(std::uint32_t place) that outlives the wait.
class ReadyTest {
 public:
  template <typename F>
  ReadyTest(const F& test)  // NOLINT: implicit on purpose, for lambdas in the caller's frame
      : object_(&test), call_([](const void* object, std::uint32_t place) {
          return (*static_cast<const F*>(object))(place);
        }) {}
  bool operator()(std::uint32_t place) const { return call_(object_, place); }

 private:
  const void* object_;
  bool (*call_)(const void*, std::uint32_t);
};

/// Waits for any of the places, or all. A place that is ready stays so until the wait has ended:
/// the one who waits is the one who empties it. co_await gives the places that were seen ready, by
/// bit: one, or all.
class WaitReadyOperation : public Operation {
 public:
  static constexpr std::uint32_t kMostPlaces = 64;
  enum class Until : std::uint8_t { kAny, kAll };

  /// At most kMostPlaces, in order of their addresses and apart; reading one takes `read`. All
  /// arguments outlive the wait; `wants` is a literal for the hang report.
  WaitReadyOperation(Until until, std::span<const Place> places, ReadyTest test, emu::Time read,
                     const char* wants, ExpectedWriter expected, std::uint32_t first = 0)
      : until_(until),
        first_(first),
        places_(places),
        test_(test),
        read_(read),
        wants_(wants),
        expected_(expected) {}
  /// What a place holds only grows, and any later value is as good: for --check.
  void make_growing() { grows_ = true; }
  bool begin(Core& core) override;
  bool advance(Core& core) override;
  void on_visible(Core& core, const fabric::Packet& packet, fabric::Address address,
                  std::uint32_t bytes) override;
  std::string describe(const Core& core) const override;
  std::uint64_t result() const { return seen_; }

 private:
  static constexpr std::int64_t kNever = SlotReads::kOpen;

  std::int64_t count() const { return static_cast<std::int64_t>(places_.size()); }
  emu::Time sweep_time() const { return read_ * count(); }
  // After each step it may end: one read, or a sweep.
  emu::Time step_time() const { return until_ == Until::kAny ? read_ : sweep_time(); }
  std::int64_t turn(std::uint32_t place) const { return (place + count() - first_) % count(); }
  // The first step that reads `place` at `time` or later.
  std::int64_t step_after(std::uint32_t place, emu::Time time) const {
    const emu::Time late = time - start_ - turn(place) * read_;
    const std::int64_t sweep = late <= 0 ? 0 : (late + sweep_time() - 1) / sweep_time();
    return until_ == Until::kAny ? sweep * count() + turn(place) : sweep;
  }
  void open(Core& core, std::uint32_t place, const fabric::Packet& packet);
  void schedule_end(Core& core, std::int64_t step);
  void note_places(Core& core) const;
  void log(Core& core) const;

  Until until_;
  std::uint32_t first_;
  std::span<const Place> places_;
  ReadyTest test_;
  emu::Time read_;
  const char* wants_;
  ExpectedWriter expected_;
  emu::Time start_ = 0;
  std::uint64_t ready_ = 0;      // places, by bit
  std::int64_t last_ = 0;        // the step at whose end the wait ends, as far as is known
  std::int64_t scheduled_ = -1;  // the step at whose end the core looks
  std::uint64_t seen_ = 0;
  bool grows_ = false;
  bool caused_ = false;
  Cause cause_;
  emu::TraceOrigin woken_by_;  // the message that the cause came with
};

}  // namespace orrery::devices
