#include "emu/recorder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace orrery::emu {
namespace {

constexpr TraceLevel kOperation = TraceLevel::kOperation;
constexpr TraceLevel kActivity = TraceLevel::kActivity;

RecordLimits limits(std::vector<LpId> lps, std::uint64_t max_events = 1000) {
  RecordLimits limits;
  limits.lps = std::move(lps);
  limits.max_events = max_events;
  return limits;
}

// An operation from `start` of `count` activities of 10 ps each.
std::vector<TraceSpan> operation(Time start, int count) {
  std::vector<TraceSpan> spans = {{0, kOperation, 0, "work", start, start + 10 * count}};
  for (int i = 0; i < count; ++i) {
    spans.push_back({0, kActivity, 0, "step", start + 10 * i, start + 10 * (i + 1)});
  }
  return spans;
}

TEST(Recorder, KeepsSpansInOrderOfTrackTimeAndLevel) {
  Recorder recorder(limits({1, 4}), 5, 0);
  const std::vector<TraceSpan> spans = {
      {1, kActivity, 7, "b", 0, 5}, {1, kOperation, 7, "a", 0, 9}, {0, kOperation, 7, "a", 3, 9}};
  recorder.on_spans(4, spans);
  recorder.on_spans(1, spans);
  recorder.on_spans(2, spans);  // not recorded
  const Recording recording = recorder.collect(ProcessGroup());
  ASSERT_EQ(recording.spans.size(), 6u);
  std::string order;
  for (const Recording::Span& span : recording.spans) {
    EXPECT_EQ(span.iteration, 7u);
    order +=
        std::to_string(span.lp) + std::to_string(span.track) + recording.names[span.name] + " ";
  }
  EXPECT_EQ(order, "10a 11a 11b 40a 41a 41b ");
}

TEST(Recorder, LeadsAMessageOnToTheFirstWaitThatItEnded) {
  Recorder recorder(limits({0, 1}), 2, 0);
  const TraceOrigin first{0, 3, 1, 100};
  const TraceOrigin second{0, 3, 2, 100};
  recorder.on_wait_end(1, 8, first, 150, 170);  // of one of its blocks, before all are there
  recorder.on_message(1, first, 64, 200);
  recorder.on_message(1, second, 32, 210);
  recorder.on_wait_end(1, 9, first, 150, 165);
  const Recording recording = recorder.collect(ProcessGroup());
  ASSERT_EQ(recording.flows.size(), 2u);
  const Recording::Flow& flow = recording.flows[0];
  EXPECT_EQ(flow.from, first);
  EXPECT_EQ(flow.to, 1u);
  EXPECT_TRUE(flow.ended_wait);
  EXPECT_EQ(flow.wait_track, 9u);
  EXPECT_EQ(flow.visible, 150);
  EXPECT_EQ(flow.wait_end, 165);
  EXPECT_EQ(flow.bytes, 64u);
  EXPECT_FALSE(recording.flows[1].ended_wait);
  EXPECT_EQ(recording.flows[1].visible, 210);
}

TEST(Recorder, CountsMessagesWhoseOtherEndIsNotRecorded) {
  Recorder recorder(limits({0, 1}), 4, 0);
  recorder.on_message(1, {2, 0, 0, 5}, 8, 10);
  recorder.on_message(3, {0, 0, 0, 5}, 8, 10);
  recorder.on_message(3, {2, 0, 0, 5}, 8, 10);  // neither end
  const Recording recording = recorder.collect(ProcessGroup());
  EXPECT_TRUE(recording.flows.empty());
  EXPECT_EQ(recording.flows_elsewhere, 2u);
  EXPECT_EQ(recording.flows_left_out, 0u);
}

TEST(Recorder, KeepsWhatOverlapsTheTimeRange) {
  RecordLimits range = limits({0});
  range.from = 100;
  range.to = 200;
  Recorder recorder(range, 1, 1);
  recorder.on_spans(0, std::vector<TraceSpan>{{0, kOperation, 0, "before", 0, 100},
                                              {0, kOperation, 1, "across", 99, 101},
                                              {0, kOperation, 2, "after", 200, 300}});
  recorder.on_message(0, {0, 0, 0, 99}, 8, 150);
  recorder.on_message(0, {0, 0, 1, 100}, 8, 200);
  recorder.on_message(0, {0, 0, 2, 150}, 8, 201);
  recorder.on_busy(0, 0, 50, 110);
  recorder.on_busy(0, 0, 190, 500);
  const Recording recording = recorder.collect(ProcessGroup());
  ASSERT_EQ(recording.spans.size(), 1u);
  EXPECT_EQ(recording.names[recording.spans[0].name], "across");
  ASSERT_EQ(recording.flows.size(), 1u);
  EXPECT_EQ(recording.flows[0].from.sequence, 1u);
  EXPECT_EQ(recording.busy[0].buckets(), (std::vector<Time>{20}));
  EXPECT_EQ(recording.from, 100);
  EXPECT_EQ(recording.spans_left_out, 0u);
}

TEST(Recorder, SaysWhatItsLimitLeavesOut) {
  // 20 events each: 10 spans, or 2 messages and the spans that are left.
  Recorder recorder(limits({0, 1}, 40), 2, 0);
  EXPECT_EQ(recorder.share(), 20u);
  recorder.on_message(0, {1, 0, 0, 0}, 8, 30);
  recorder.on_message(0, {1, 0, 1, 1}, 8, 31);
  recorder.on_message(0, {1, 0, 2, 2}, 8, 32);
  recorder.on_spans(0, operation(0, 8));     // room for 5 spans: those that start before 40
  recorder.on_spans(0, operation(1000, 1));  // nothing later
  recorder.on_spans(1, operation(0, 9));     // just fits
  const Recording recording = recorder.collect(ProcessGroup());
  std::vector<Time> last(2, 0);
  for (const Recording::Span& span : recording.spans) {
    last[span.lp] = std::max(last[span.lp], span.start);
  }
  EXPECT_EQ(last, (std::vector<Time>{30, 80}));
  EXPECT_EQ(recording.spans_left_out, 4u + 2u);
  EXPECT_EQ(recording.flows.size(), 2u);
  EXPECT_EQ(recording.flows_left_out, 1u);
  EXPECT_EQ(recording.complete_until, 32);
  EXPECT_EQ(recording.first_full, 0u);
}

TEST(Recorder, ArrowsEndWhereSpansEnd) {
  Recorder recorder(limits({0, 1}, 40), 2, 0);
  recorder.on_spans(0, operation(0, 9));
  recorder.on_spans(1, operation(0, 20));        // cut at 90
  recorder.on_message(0, {1, 0, 0, 95}, 8, 99);  // issued where nothing is drawn any more
  recorder.on_message(1, {0, 0, 1, 10}, 8, 95);  // visible there
  recorder.on_message(1, {0, 0, 0, 10}, 8, 90);
  const Recording recording = recorder.collect(ProcessGroup());
  ASSERT_EQ(recording.flows.size(), 1u);
  EXPECT_EQ(recording.flows[0].visible, 90);
  EXPECT_EQ(recording.flows_left_out, 2u);
  EXPECT_EQ(recording.complete_until, 90);
  EXPECT_EQ(recording.first_full, 1u);
}

TEST(Recorder, AddsTheLinksOfAClass) {
  Recorder recorder(limits({0}), 3, 2);
  recorder.on_busy(1, 1, 0, 400);  // also of those whose tracks are not recorded
  recorder.on_busy(2, 1, 100, 200);
  const Recording recording = recorder.collect(ProcessGroup());
  ASSERT_EQ(recording.busy.size(), 2u);
  EXPECT_TRUE(recording.busy[0].buckets().empty());
  EXPECT_EQ(recording.busy[1].buckets(), (std::vector<Time>{500}));
}

}  // namespace
}  // namespace orrery::emu
