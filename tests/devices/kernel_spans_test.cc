#include "devices/kernel_spans.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using emu::Task;
using emu::Time;

std::string text_of(const std::vector<emu::TraceSpan>& spans) {
  std::string out;
  for (const emu::TraceSpan& span : spans) {
    out += fmt::format("{}{}:{}-{} ", std::string(static_cast<std::size_t>(span.level), '>'),
                       span.name, span.start, span.end);
  }
  return out;
}

TEST(KernelSpans, CutsCategoriesWhereAPhaseBegins) {
  Timeline timeline;
  timeline.start = 10;
  timeline.append(Category::kLaunch, 20);
  timeline.append(Category::kIssue, 40);  // two puts in two phases, in one stretch
  timeline.append(Category::kCompute, 50);
  timeline.append(Category::kIdle, 60);
  const std::vector<Phase> phases = {{20, "empty"}, {20, "send"}, {30, "more"}};
  std::vector<emu::TraceSpan> spans;
  append_spans("kernel", 3, 60, 2, timeline, phases, spans);
  EXPECT_EQ(text_of(spans),
            "kernel:10-60 >send:20-30 >more:30-50 >>launch:10-20 >>issue:20-30 >>issue:30-40 "
            ">>compute:40-50 >>idle:50-60 ");
  for (const emu::TraceSpan& span : spans) {
    EXPECT_EQ(span.track, 2u);
    EXPECT_EQ(span.iteration, 3u);
  }
}

TEST(KernelSpans, NeedNoPhases) {
  Timeline timeline;
  timeline.append(Category::kLaunch, 20);
  std::vector<emu::TraceSpan> spans;
  append_spans("kernel", 0, 20, 0, timeline, {}, spans);
  EXPECT_EQ(text_of(spans), "kernel:0-20 >>launch:0-20 ");
}

// --- What devices report ---

class Log final : public emu::TraceSink {
 public:
  void on_spans(emu::LpId lp, std::span<const emu::TraceSpan> list) override {
    for (const emu::TraceSpan& span : list) {
      if (span.level == emu::TraceLevel::kPhase) {
        spans += fmt::format("{}.{} {} {}-{}; ", lp, span.track, span.name, span.start, span.end);
      }
      if (span.name == "hang") {
        spans += fmt::format("{}.{} hangs {}-{}; ", lp, span.track, span.start, span.end);
      }
    }
  }
  void on_message(emu::LpId lp, const emu::TraceOrigin& origin, std::uint64_t bytes,
                  Time visible) override {
    messages += fmt::format("{} bytes of {}.{} issued {} visible at {} at {}; ", bytes, origin.lp,
                            origin.track, origin.issued, lp, visible);
  }
  void on_wait_end(emu::LpId lp, std::uint32_t track, const emu::TraceOrigin& origin, Time visible,
                   Time end) override {
    waits += fmt::format("{}.{} until {} for {}.{} issued {} visible {}; ", lp, track, end,
                         origin.lp, origin.track, origin.issued, visible);
  }
  void on_busy(emu::LpId, std::uint32_t, Time start, Time end) override { busy += end - start; }

  std::string spans;
  std::string messages;
  std::string waits;
  Time busy = 0;
};

// tiny: launch 1000 ns, issue 100 ns, 10 bytes/ns, 500 ns per link, polls of 20 ns.
TEST(KernelSpans, DevicesReportPhasesMessagesAndWaits) {
  Rig rig(machine("tiny"), 2);
  Log log;
  rig.cluster().engine().set_trace(&log);
  rig.run(0, [](Core& core) -> Task {
    core.phase("put");
    co_await core.store(1, 64, std::uint32_t{1});
    core.phase("think");
    co_await core.compute(ns(50));
  });
  rig.run(1, [](Core& core) -> Task {
    core.phase("wait");
    co_await core.wait_until(word_at(64), word_equals(1), nobody);
  });
  ASSERT_EQ(rig.go(), "");
  // Issued at 1000 ns; 4 bytes take 0.4 ns into the link and 0.4 ns out of it at the end.
  const Time visible = ns(1000 + 100) + ps(4, 10) + ps(4, 10) + ns(1000);
  const Time end = ns(1000) + (visible - ns(1000) + ns(20) - 1) / ns(20) * ns(20) + ns(20);
  EXPECT_EQ(log.messages,
            fmt::format("4 bytes of 0.0 issued 1000000 visible at 1 at {}; ", visible));
  EXPECT_EQ(log.waits,
            fmt::format("1.0 until {} for 0.0 issued 1000000 visible {}; ", end, visible));
  EXPECT_EQ(log.spans, fmt::format("0.0 put 1000000-1100000; 0.0 think 1100000-1150000; "
                                   "1.0 wait 1000000-{}; ",
                                   end));
  EXPECT_EQ(log.busy, 2 * ps(4, 10));  // two links
}

TEST(KernelSpans, TheAnswerToAGetBelongsToWhoAsked) {
  Rig rig(machine("tiny"), 2);
  Log log;
  rig.cluster().engine().set_trace(&log);
  rig.run(0, [](Core& core) -> Task { co_await core.get(1, 0, 4096, 64); });
  ASSERT_EQ(rig.go(), "");
  EXPECT_TRUE(log.messages.starts_with("64 bytes of 0.0 issued 1000000 visible at 0 at "))
      << log.messages;
  EXPECT_TRUE(log.waits.starts_with("0.0 until ")) << log.waits;
  EXPECT_NE(log.waits.find("for 0.0 issued 1000000"), std::string::npos) << log.waits;
}

TEST(KernelSpans, AHangIsReportedUpToTheEnd) {
  Rig rig(machine("tiny"), 2);
  Log log;
  rig.cluster().engine().set_trace(&log);
  rig.run(0, [](Core& core) -> Task {
    core.phase("wait");
    co_await core.wait_until(word_at(64), word_equals(1), nobody);
  });
  rig.run(1, [](Core& core) -> Task { co_await core.compute(ns(5000)); });
  EXPECT_NE(rig.go(), "");
  EXPECT_EQ(log.spans, "0.0 wait 1000000-6000000; 0.0 hangs 1000000-6000000; ");
}

TEST(KernelSpans, PhasesCostNothing) {
  std::uint64_t digests[2];
  for (int traced = 0; traced < 2; ++traced) {
    Rig rig(machine("tiny"), 2);
    Log log;
    if (traced == 1) rig.cluster().engine().set_trace(&log);
    rig.run(0, [traced](Core& core) -> Task {
      if (traced == 1) core.phase("put");
      co_await core.put(1, 0, 4096, 1024);
    });
    EXPECT_EQ(rig.go(), "");
    digests[traced] = rig.cluster().digest();
    EXPECT_EQ(log.messages.empty(), traced == 0);
  }
  EXPECT_EQ(digests[0], digests[1]);
}

}  // namespace
}  // namespace orrery::devices
