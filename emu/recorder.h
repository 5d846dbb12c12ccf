// Records a run's history, within limits that do not depend on processes or threads.
//
//   Recorder recorder(limits, lps, classes);  engine.set_trace(&recorder);  engine.run();
//   Recording recording = recorder.collect(processes);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emu/process_group.h"
#include "emu/recording.h"
#include "emu/trace_sink.h"

namespace orrery::emu {

struct RecordLimits {
  std::vector<LpId> lps;  // whose tracks and messages are recorded
  /// Spans that overlap [from, to), and messages that lie within.
  Time from = 0;
  Time to = kNever;
  /// Events of a trace that spans and messages may make in all, each of `lps` an equal share of
  /// them: a span makes 2, a message 5. Who has used up its share is recorded no further.
  std::uint64_t max_events = 1'000'000;
};

class Recorder final : public TraceSink {
 public:
  static constexpr std::uint64_t kEventsPerSpan = 2;
  static constexpr std::uint64_t kEventsPerMessage = 5;

  /// For an engine of `lps` logical processes and `link_classes` classes of links.
  Recorder(const RecordLimits& limits, LpId lps, std::uint32_t link_classes);

  void on_spans(LpId lp, std::span<const TraceSpan> spans) override;
  void on_message(LpId lp, const TraceOrigin& origin, std::uint64_t bytes, Time visible) override;
  void on_wait_end(LpId lp, std::uint32_t track, const TraceOrigin& origin, Time visible,
                   Time end) override;
  void on_busy(LpId lp, std::uint32_t link_class, Time start, Time end) override;

  /// Collective, when the run is over: everything at process 0, nothing elsewhere. Gives up what
  /// was recorded.
  Recording collect(const ProcessGroup& processes);

  /// Events that each of the recorded logical processes may have.
  std::uint64_t share() const { return share_; }

 private:
  struct Message {
    TraceOrigin origin;
    std::uint64_t bytes;
    Time visible;
  };
  struct Wait {
    TraceOrigin origin;
    Time visible;
    Time end;
    std::uint32_t track;
  };
  struct History {
    bool recorded = false;
    bool full = false;
    Time cut = kNever;         // no span that starts then or later is there
    Time incomplete = kNever;  // the first thing that is missing
    std::uint64_t span_events = 0;
    std::uint64_t spans_left_out = 0;
    std::uint64_t messages_left_out = 0;
    std::uint64_t messages_elsewhere = 0;
    std::vector<std::string> names;
    std::vector<Recording::Span> spans;
    std::vector<Message> messages;
    std::vector<Wait> waits;
    std::vector<BusyProfile> busy;
  };

  static std::uint32_t name_index(History& history, std::string_view name);
  static std::vector<Recording::Flow> join(History& history);

  const RecordLimits limits_;
  const std::uint32_t link_classes_;
  const std::uint64_t share_;
  const std::uint64_t max_messages_;
  std::vector<History> histories_;  // by logical process
};

}  // namespace orrery::emu
