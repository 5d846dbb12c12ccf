#include "devices/causal_graph.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "emu/errors.h"
#include "fabric/link_removal.h"

namespace orrery::devices {

namespace {
constexpr std::uint32_t kNone = ~std::uint32_t{0};
}  // namespace

emu::Time kept_without(Cost cost) {
  if (cost < Cost::kFirstLink) return 0;
  const auto link = static_cast<std::size_t>(cost) - static_cast<std::size_t>(Cost::kFirstLink);
  return link % 2 == 0 ? fabric::kRemovedLatency : 0;
}

CausalGraph::CausalGraph() : first_{0, 0}, times_{0} {}

PointId CausalGraph::add(std::span<const Dependency> after) {
  const auto point = static_cast<PointId>(times_.size());
  if (after.empty()) throw emu::InvariantError("a point of a causal graph depends on nothing");
  emu::Time time = 0;
  for (const Dependency& each : after) {
    if (each.from >= point) throw emu::InvariantError("a causal graph runs backwards");
    time = std::max(time, times_[each.from] + each.lag);
  }
  dependencies_.insert(dependencies_.end(), after.begin(), after.end());
  first_.push_back(static_cast<std::uint32_t>(dependencies_.size()));
  times_.push_back(time);
  return point;
}

PointId CausalGraph::add_start(std::span<const Dependency> after, std::uint32_t turn) {
  const PointId point = add(after);
  starts_.push_back({point, turn});
  return point;
}

CausalGraph::ServerId CausalGraph::add_server() {
  latest_.push_back(kNone);
  return static_cast<ServerId>(latest_.size() - 1);
}

CausalGraph::Served CausalGraph::add_served(std::span<const Dependency> after, ServerId server,
                                            PointId call, emu::Time lag, Cost cost) {
  const std::uint32_t before = latest_[server];
  const PointId released = before == kNone ? 0 : served_[before].release;
  std::vector<Dependency> all(after.begin(), after.end());
  all.push_back({lag, released, cost, Dependency::Rule::kQueue});
  const PointId point = add(all);
  const auto id = static_cast<std::uint32_t>(served_.size());
  latest_[server] = id;
  served_.push_back({point, call, point, server});
  return {point, id};
}

void CausalGraph::link_forward() const {
  if (!first_next_.empty()) return;
  const std::size_t count = points();
  first_next_.assign(count + 1, 0);
  for (const Dependency& each : dependencies_) {
    if (each.rule != Dependency::Rule::kQueue) ++first_next_[each.from + 1];
  }
  for (std::size_t i = 1; i <= count; ++i) first_next_[i] += first_next_[i - 1];
  next_.resize(first_next_.back());
  std::vector<std::uint32_t> at(first_next_.begin(), first_next_.end() - 1);
  for (PointId point = 0; point < count; ++point) {
    for (const Dependency& each : before(point)) {
      if (each.rule == Dependency::Rule::kQueue) continue;
      next_[at[each.from]++] = {point, each.cost, each.rule};
    }
  }
  first_call_.assign(count + 1, 0);
  for (const Service& each : served_) ++first_call_[each.call + 1];
  for (std::size_t i = 1; i <= count; ++i) first_call_[i] += first_call_[i - 1];
  calls_.resize(served_.size());
  at.assign(first_call_.begin(), first_call_.end() - 1);
  for (std::uint32_t i = 0; i < served_.size(); ++i) calls_[at[served_[i].call]++] = i;
}

// A point is known as soon as all it depends on is; those who need a server wait until all calls of
// earlier time have been answered.
class CausalGraph::Evaluation {
 public:
  Evaluation(const CausalGraph& graph, Cost removed)
      : graph_(graph),
        removed_(removed),
        kept_(kept_without(removed)),
        times_(graph.points(), 0),
        missing_(graph.points(), 0),
        free_(graph.latest_.size(), kNone),
        next_waiter_(graph.served_.size(), kNone),
        first_waiter_(graph.points(), kNone) {
    for (PointId point = 0; point < missing_.size(); ++point) {
      for (const Dependency& each : graph.before(point)) {
        if (!is_dropped(each)) ++missing_[point];
      }
    }
  }

  std::vector<emu::Time> run() {
    if (removed_ == Cost::kLateStart) start_together();
    known(0, 0);
    while (!calls_.empty()) {
      const auto [time, index] = calls_.top();
      calls_.pop();
      const Service& service = graph_.served_[index];
      const std::uint32_t before = free_[service.server];
      free_[service.server] = index;
      const PointId released = before == kNone ? 0 : graph_.served_[before].release;
      if (missing_[released] == 0 || missing_[released] == kNone) {
        serve(index, times_[released]);
      } else {
        next_waiter_[index] = first_waiter_[released];
        first_waiter_[released] = index;
      }
      spread();
    }
    return std::move(times_);
  }

 private:
  // A point does not wait to be told of what is no more: it would be known, and be served, too
  // late.
  template <typename Edge>
  bool is_dropped(const Edge& edge) const {
    return edge.rule == Dependency::Rule::kDrop && edge.cost == removed_ && removed_ != Cost::kNone;
  }

  // All starts of a turn at a time when everything of the turn before is over.
  void start_together() {
    const emu::Time turn = 2 * *std::max_element(graph_.times_.begin(), graph_.times_.end());
    for (const Start& start : graph_.starts_) {
      missing_[start.point] = kNone;  // whatever it depends on
    }
    for (const Start& start : graph_.starts_) known(start.point, turn * start.turn);
  }

  // The server that the service needs was released at `time`.
  void serve(std::uint32_t index, emu::Time time) {
    const PointId point = graph_.served_[index].point;
    times_[point] = time;  // until it is known itself
    one_less(point);
  }

  void known(PointId point, emu::Time time) {
    times_[point] = time;
    fresh_.push_back(point);
    spread();
  }

  void spread() {
    while (!fresh_.empty()) {
      const PointId point = fresh_.back();
      fresh_.pop_back();
      for (std::uint32_t i = graph_.first_call_[point]; i < graph_.first_call_[point + 1]; ++i) {
        calls_.emplace(times_[point], graph_.calls_[i]);
      }
      for (std::uint32_t i = first_waiter_[point]; i != kNone; i = next_waiter_[i]) {
        serve(i, times_[point]);
      }
      for (std::uint32_t i = graph_.first_next_[point]; i < graph_.first_next_[point + 1]; ++i) {
        if (!is_dropped(graph_.next_[i])) one_less(graph_.next_[i].point);
      }
    }
  }

  void one_less(PointId point) {
    if (missing_[point] == kNone || --missing_[point] > 0) return;
    emu::Time time = 0;
    for (const Dependency& each : graph_.before(point)) {
      if (is_dropped(each)) continue;
      const bool gone = each.cost == removed_ && removed_ != Cost::kNone;
      const emu::Time lag = gone ? std::min(each.lag, kept_) : each.lag;
      const emu::Time from =
          each.rule == Dependency::Rule::kQueue ? times_[point] : times_[each.from];
      time = std::max(time, from + lag);
    }
    times_[point] = time;
    fresh_.push_back(point);
  }

  using Call = std::pair<emu::Time, std::uint32_t>;  // ties as they were served

  const CausalGraph& graph_;
  const Cost removed_;
  const emu::Time kept_;
  std::vector<emu::Time> times_;
  std::vector<std::uint32_t> missing_;  // dependencies that are not known yet
  std::vector<std::uint32_t> free_;     // by server: who called it last
  // Services that wait for a release that is not known yet, by its point.
  std::vector<std::uint32_t> next_waiter_;
  std::vector<std::uint32_t> first_waiter_;
  std::vector<PointId> fresh_;  // known, but those who depend on it were not told
  std::priority_queue<Call, std::vector<Call>, std::greater<>> calls_;
};

std::vector<emu::Time> CausalGraph::times_without(Cost removed) const {
  link_forward();
  return Evaluation(*this, removed).run();
}

std::array<emu::Time, kCosts> CausalGraph::shares(PointId end, emu::Time floor) const {
  std::array<emu::Time, kCosts> shares{};
  PointId point = end;
  while (point != 0 && times_[point] > floor) {
    const auto start = std::lower_bound(starts_.begin(), starts_.end(), point,
                                        [](const Start& a, PointId b) { return a.point < b; });
    if (start != starts_.end() && start->point == point) {
      shares[static_cast<std::size_t>(Cost::kLateStart)] += times_[point] - floor;
      break;
    }
    const Dependency* binding = nullptr;
    for (const Dependency& each : before(point)) {
      if (times_[each.from] + each.lag == times_[point]) {
        binding = &each;
        break;
      }
    }
    if (binding == nullptr) throw emu::InvariantError("a point of a causal graph has no cause");
    shares[static_cast<std::size_t>(binding->cost)] +=
        times_[point] - std::max(floor, times_[binding->from]);
    point = binding->from;
  }
  return shares;
}

std::array<bool, kCosts> CausalGraph::costs() const {
  std::array<bool, kCosts> costs{};
  for (const Dependency& each : dependencies_) {
    if (each.lag > 0 || each.rule == Dependency::Rule::kDrop) {
      costs[static_cast<std::size_t>(each.cost)] = true;
    }
  }
  costs[static_cast<std::size_t>(Cost::kNone)] = false;
  return costs;
}

}  // namespace orrery::devices
