// Graphs by hand: how much a cost's removal gains is known, slack and queues included.
#include "devices/causal_graph.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "emu/errors.h"

namespace orrery::devices {
namespace {

using emu::Time;
using Rule = Dependency::Rule;

Dependency after(PointId from, Time lag, Cost cost = Cost::kNone) {
  return {lag, from, cost, Rule::kShorten};
}
PointId join(CausalGraph& graph, PointId a, PointId b) {
  const std::array<Dependency, 2> both = {after(a, 0), after(b, 0)};
  return graph.add(both);
}
Time gain(const CausalGraph& graph, PointId end, Cost cost) {
  return graph.time(end) - graph.times_without(cost)[end];
}
Time share(const CausalGraph& graph, PointId end, Cost cost, Time floor = 0) {
  return graph.shares(end, floor)[static_cast<std::size_t>(cost)];
}

TEST(CausalGraph, AParallelPathTakesOver) {
  // 100 of issue beside 60 of copies and 10 of polling: 30 of slack.
  CausalGraph graph;
  const PointId slow = graph.add(after(0, 100, Cost::kIssue));
  const PointId copied = graph.add(after(0, 60, Cost::kMemory));
  const PointId other = graph.add(after(copied, 10, Cost::kPoll));
  const PointId end = join(graph, slow, other);
  EXPECT_EQ(graph.time(end), 100);
  EXPECT_EQ(share(graph, end, Cost::kIssue), 100);  // what ignores slack would promise
  EXPECT_EQ(gain(graph, end, Cost::kIssue), 30);
  EXPECT_EQ(gain(graph, end, Cost::kMemory), 0);
  EXPECT_EQ(gain(graph, end, Cost::kPoll), 0);
}

TEST(CausalGraph, ACostOnBothPathsCountsOnBoth) {
  // 50 + 50 of issue and compute beside 80 of issue.
  CausalGraph graph;
  const PointId first = graph.add(after(0, 50, Cost::kIssue));
  const PointId computed = graph.add(after(first, 50, Cost::kCompute));
  const PointId other = graph.add(after(0, 80, Cost::kIssue));
  const PointId end = join(graph, computed, other);
  EXPECT_EQ(gain(graph, end, Cost::kIssue), 50);    // what remains is to compute
  EXPECT_EQ(gain(graph, end, Cost::kCompute), 20);  // then the other path is the longer one
}

TEST(CausalGraph, NothingRemovedIsAsItWas) {
  CausalGraph graph;
  const PointId a = graph.add(after(0, 5, Cost::kLaunch));
  const PointId b = graph.add(after(a, 7, Cost::kPoll));
  const std::vector<Time> times = graph.times_without(Cost::kNone);
  EXPECT_EQ(times, (std::vector<Time>{0, 5, 12}));
  EXPECT_EQ(graph.time(b), 12);
  EXPECT_TRUE(graph.costs()[static_cast<std::size_t>(Cost::kPoll)]);
  EXPECT_FALSE(graph.costs()[static_cast<std::size_t>(Cost::kIssue)]);
}

TEST(CausalGraph, AWindowIsDroppedAndALatencyKeepsANanosecond) {
  CausalGraph graph;
  const PointId back = graph.add(after(0, 90'000, link_latency(1)));
  const std::array<Dependency, 2> causes = {after(0, 10'000),
                                            Dependency{0, back, Cost::kStoreWindow, Rule::kDrop}};
  const PointId issue = graph.add(causes);
  EXPECT_EQ(graph.time(issue), 90'000);
  EXPECT_EQ(gain(graph, issue, Cost::kStoreWindow), 80'000);
  EXPECT_EQ(gain(graph, issue, link_latency(1)), 80'000);
  EXPECT_EQ(graph.times_without(link_latency(1))[back], fabric::kRemovedLatency);
  EXPECT_EQ(gain(graph, issue, link_latency(0)), 0);
  EXPECT_EQ(gain(graph, issue, link_bandwidth(1)), 0);
}

// Two customers of a server that takes 40 for each; the first comes at `first`, the other at
// `second`, both after `cost`.
struct Served {
  CausalGraph graph;
  PointId a = 0;
  PointId b = 0;
  Served(Time first, Cost first_cost, Time second, Cost second_cost) {
    const CausalGraph::ServerId server = graph.add_server();
    const PointId call_a = graph.add(after(0, first, first_cost));
    const PointId call_b = graph.add(after(0, second, second_cost));
    a = serve(server, call_a);
    b = serve(server, call_b);
  }
  PointId serve(CausalGraph::ServerId server, PointId call) {
    const Dependency own = after(call, 0);
    const auto [begin, served] = graph.add_served(std::span(&own, 1), server, call, 0, Cost::kNone);
    const PointId end = graph.add(after(begin, 40, link_bandwidth(0)));
    graph.release(served, end);
    return end;
  }
};

TEST(CausalGraph, WhoComesFirstIsServedFirst) {
  Served queue(10, Cost::kIssue, 20, Cost::kCompute);
  EXPECT_EQ(queue.graph.time(queue.a), 50);
  EXPECT_EQ(queue.graph.time(queue.b), 90);
  // Without the time of the second one before it comes, it is served first, and the first one
  // waits.
  const std::vector<Time> times = queue.graph.times_without(Cost::kCompute);
  EXPECT_EQ(times[queue.b], 40);
  EXPECT_EQ(times[queue.a], 80);
  EXPECT_EQ(queue.graph.times_without(Cost::kIssue)[queue.b], 80);
}

// What waited for a window alone is served in its turn when there is none.
TEST(CausalGraph, WithoutAWindowItIsServedAheadOfLaterCalls) {
  CausalGraph graph;
  const auto link = graph.add_server();
  const auto serve = [&graph](CausalGraph::ServerId server, PointId call, Time lag) {
    const Dependency called = after(call, lag);
    return graph.add_served(std::span(&called, 1), server, call, lag, Cost::kNone).point;
  };
  const PointId first = serve(link, graph.add(after(0, 20)), 30);
  const PointId room = serve(graph.add_server(), graph.add(after(0, 90)), 10);
  const std::array<Dependency, 2> causes = {after(0, 10),
                                            Dependency{0, room, Cost::kStoreWindow, Rule::kDrop}};
  const PointId last = serve(link, graph.add(causes), 5);
  EXPECT_EQ(graph.time(first), 50);
  EXPECT_EQ(graph.time(last), 105);
  const std::vector<Time> times = graph.times_without(Cost::kStoreWindow);
  EXPECT_EQ(times[last], 15);
  EXPECT_EQ(times[first], 50);
}

TEST(CausalGraph, WithoutServiceThereIsNoQueue) {
  Served queue(10, Cost::kIssue, 20, Cost::kCompute);
  const std::vector<Time> times = queue.graph.times_without(link_bandwidth(0));
  EXPECT_EQ(times[queue.a], 10);
  EXPECT_EQ(times[queue.b], 20);
}

TEST(CausalGraph, TiesAreServedAsTheyWere) {
  Served queue(10, Cost::kNone, 10, Cost::kNone);
  const std::vector<Time> times = queue.graph.times_without(Cost::kPoll);
  EXPECT_EQ(times[queue.a], 50);
  EXPECT_EQ(times[queue.b], 90);
}

TEST(CausalGraph, AQueueIsServiceOnThePath) {
  Served queue(10, Cost::kIssue, 20, Cost::kCompute);
  EXPECT_EQ(share(queue.graph, queue.b, link_bandwidth(0)), 80);
  EXPECT_EQ(share(queue.graph, queue.b, Cost::kIssue), 10);
  EXPECT_EQ(share(queue.graph, queue.b, Cost::kCompute), 0);
}

TEST(CausalGraph, StartsTogether) {
  // One device starts at 0, the other at 500 after what it did before; the first waits for it.
  CausalGraph graph;
  const PointId before = graph.add(after(0, 500, Cost::kCompute));
  const Dependency early = after(0, 0);
  const Dependency late = after(before, 0);
  const PointId start_a = graph.add_start(std::span(&early, 1), 1);
  const PointId start_b = graph.add_start(std::span(&late, 1), 1);
  const PointId sent = graph.add(after(start_b, 30, Cost::kIssue));
  const PointId end_a = join(graph, graph.add(after(start_a, 10)), sent);
  EXPECT_EQ(graph.time(end_a) - graph.time(start_a), 530);
  EXPECT_EQ(share(graph, end_a, Cost::kLateStart), 500);
  EXPECT_EQ(share(graph, end_a, Cost::kIssue), 30);
  EXPECT_EQ(share(graph, end_a, Cost::kCompute), 0);
  const std::vector<Time> times = graph.times_without(Cost::kLateStart);
  EXPECT_EQ(times[end_a] - times[start_a], 30);
  EXPECT_EQ(times[start_a], times[start_b]);
  EXPECT_GT(times[start_a], times[before]);
}

TEST(CausalGraph, SharesBeginAtTheFloor) {
  CausalGraph graph;
  const PointId a = graph.add(after(0, 100, Cost::kLaunch));
  const PointId b = graph.add(after(a, 50, Cost::kIssue));
  EXPECT_EQ(share(graph, b, Cost::kLaunch, 40), 60);
  EXPECT_EQ(share(graph, b, Cost::kIssue, 120), 30);
  EXPECT_EQ(share(graph, b, Cost::kLaunch, 120), 0);
}

TEST(CausalGraph, RefusesWhatRunsBackwards) {
  CausalGraph graph;
  EXPECT_THROW(graph.add(after(1, 0)), emu::InvariantError);
  EXPECT_THROW(graph.add(std::span<const Dependency>()), emu::InvariantError);
}

}  // namespace
}  // namespace orrery::devices
