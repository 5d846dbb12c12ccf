// Points in time and what each had to wait for: the longest way to a point is when it happened, and
// with a cost at zero, when it would have happened. So slack counts exactly: what is not on the
// critical path now may be on it then.
//
// What is served one by one (a link, a memory) is so first come, first served, also in another
// order than it was. What a program does does not change: who puts what, which acknowledgement
// makes room.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "devices/cost.h"
#include "emu/time.h"

namespace orrery::devices {

using PointId = std::uint32_t;

/// `to` happens at `lag` after `from` or later.
struct Dependency {
  /// What becomes of it when its cost is removed.
  enum class Rule : std::uint8_t {
    kShorten,  // the lag is at most `kept`
    kDrop,     // the dependency is no more: a window without bound
    kQueue,    // on whoever was served before; add_served() alone makes it
  };
  emu::Time lag = 0;
  PointId from = 0;
  Cost cost = Cost::kNone;
  Rule rule = Rule::kShorten;
};

class CausalGraph {
 public:
  /// Point 0 is the beginning: time 0.
  CausalGraph();

  /// A point at the latest of its dependencies, all on earlier points. Throws InvariantError for
  /// one that is not there yet, or none at all.
  PointId add(std::span<const Dependency> after);
  PointId add(const Dependency& after) { return add(std::span(&after, 1)); }
  /// Devices begin together here when Cost::kLateStart is removed: at the same time for all points
  /// of the same `turn`, long after all of the turn before.
  PointId add_start(std::span<const Dependency> after, std::uint32_t turn);

  /// Something that serves one by one: a link, a memory, an ordered channel.
  using ServerId = std::uint32_t;
  ServerId add_server();
  /// A point that needs a server: at `lag` (of `cost`) after the server was released by whoever
  /// called it last before `call`, and after all of `after`. It releases the server itself unless
  /// release() says otherwise.
  struct Served {
    PointId point;
    std::uint32_t id;  // for release()
  };
  Served add_served(std::span<const Dependency> after, ServerId server, PointId call, emu::Time lag,
                    Cost cost);
  void release(std::uint32_t served, PointId point) { served_[served].release = point; }

  std::size_t points() const { return first_.size() - 1; }
  std::size_t dependencies() const { return dependencies_.size(); }
  std::span<const Dependency> before(PointId point) const {
    return {dependencies_.data() + first_[point], dependencies_.data() + first_[point + 1]};
  }
  /// When the point happened, nothing removed. Picoseconds.
  emu::Time time(PointId point) const { return times_[point]; }
  /// Every point's time without `removed`; Cost::kNone: as it was.
  std::vector<emu::Time> times_without(Cost removed) const;
  /// Lags by cost along the critical path from `end` back to time `floor`; they sum to time(end) -
  /// floor. What comes before the start of another device counts as Cost::kLateStart.
  std::array<emu::Time, kCosts> shares(PointId end, emu::Time floor) const;
  /// Which costs occur at all.
  std::array<bool, kCosts> costs() const;

 private:
  struct Start {
    PointId point;
    std::uint32_t turn;
  };
  struct Service {
    PointId point;
    PointId call;
    PointId release;
    ServerId server;
  };
  struct Next {
    PointId point;
    Cost cost;
    Dependency::Rule rule;
  };
  class Evaluation;
  void link_forward() const;

  std::vector<std::uint32_t> first_;  // of each point's dependencies
  std::vector<Dependency> dependencies_;
  std::vector<emu::Time> times_;
  std::vector<Start> starts_;          // in order
  std::vector<Service> served_;        // in order
  std::vector<std::uint32_t> latest_;  // by server: index into served_, or none
  // The other way round, made when first needed: who depends on a point, and who calls there.
  mutable std::vector<std::uint32_t> first_next_;
  mutable std::vector<Next> next_;
  mutable std::vector<std::uint32_t> first_call_;
  mutable std::vector<std::uint32_t> calls_;  // indices into served_
};

/// What is left of a lag without its cost.
emu::Time kept_without(Cost cost);

}  // namespace orrery::devices
