// DeepEP's normal combine: the queues of dispatch the other way round. A forwarder adds the rows of
// its node's devices, a receiver those of devices or of nodes.
#include <algorithm>

#include "moe/algorithms/deepep_normal.h"
#include "moe/share.h"

namespace orrery::moe::deepep {

using devices::Core;
using devices::Piece;

// Takes a row of each member that has one of a token, sends their sum to the token's origin. Sums
// have slots of their own, which are written again when the origin has taken what was there.
class DeepEpNormal::SumForwarder final : public Role {
 public:
  SumForwarder(DeepEpNormal& layer, Core& core)
      : layer_(layer), at_(layer.at_), channel_(layer.channel_of(core)) {
    const NodeGroups& groups = layer.groups_;
    const std::uint32_t node = layer.node_of(core.rank());
    const std::uint32_t member = layer.member_of(core.rank());
    for (std::uint32_t origin = 0; origin < groups.groups(); ++origin) {
      Link link{{},
                SendRing(core, at_.far_back, channel_, origin, groups.device(origin, member), node),
                {},
                0,
                0};
      for (std::uint32_t from = 0; from < groups.members(); ++from) {
        link.in.emplace_back(core, at_.near_back, channel_, from * groups.groups() + origin,
                             groups.device(node, from), member * groups.groups() + origin);
      }
      const auto tokens = core.load<std::uint64_t>(at_.routed(channel_, origin));
      for (std::uint32_t token = 0; token < tokens; ++token) {
        link.routes.push_back(core.load<std::uint64_t>(at_.route(channel_, origin, token)));
      }
      links_.push_back(std::move(link));
    }
  }

  bool is_done() const override { return done_; }

  emu::Task step(Core& core, bool& progress) override {
    std::vector<std::pair<const SendRing*, std::uint32_t>> told;
    for (std::uint32_t origin = 0; origin < links_.size(); ++origin) {
      Link& link = links_[origin];
      link.blocked = nullptr;
      while (link.next < link.routes.size() && link.waiting < link.out.chunk() &&
             (link.waiting > 0 || link.out.has_room(core)) && missing(core, link) == nullptr) {
        if (link.waiting == 0) co_await link.out.wait_room(core);
        co_await add(core, origin, link);
        progress = true;
      }
      if (link.waiting == 0 || !is_chunk(link)) continue;
      std::vector<Piece> pieces;
      for (std::uint32_t n = 0; n < link.waiting; ++n) {
        pieces.push_back({link.out.row(n), sum(origin, link, n), layer_.output_row_bytes()});
      }
      co_await core.stream(std::uint64_t{link.waiting} * layer_.output_row_bytes());
      const std::span<const Piece> all = pieces;
      co_await core.put(link.out.peer(), all);
      told.emplace_back(&link.out, link.waiting);
      link.out.advance(link.waiting);
      link.sent += link.waiting;
      link.waiting = 0;
    }
    if (!told.empty()) co_await layer_.order_far(core);
    for (const auto& [ring, rows] : told) co_await ring->publish(core, rows);
    if (std::any_of(links_.begin(), links_.end(),
                    [](const Link& link) { return link.sent < link.routes.size(); })) {
      co_return;
    }
    for (const Link& link : links_) {
      link.out.save(core);
      for (const ReceiveRing& in : link.in) in.save(core);
    }
    done_ = true;
  }

  void add_watches(std::vector<Watch>& watches) const override {
    for (const Link& link : links_) {
      if (link.next == link.routes.size()) continue;
      watches.push_back(link.blocked == nullptr ? link.out.room() : link.blocked->more_than(0));
    }
  }

 private:
  struct Link {
    std::vector<ReceiveRing> in;  // by member
    SendRing out;
    std::vector<std::uint64_t> routes;  // by token, the members that have rows of it, by bit
    std::uint32_t next;                 // token
    std::uint32_t waiting;              // sums that are made and not put
    std::uint32_t sent = 0;
    const ReceiveRing* blocked = nullptr;  // by whose lack
  };

  fabric::Address sum(std::uint32_t origin, const Link& link, std::uint32_t n) const {
    return at_.sum(channel_, origin, link.sent + n);
  }
  // Enough to put: a chunk, or the rest.
  static bool is_chunk(const Link& link) {
    return link.waiting == link.out.chunk() || link.next == link.routes.size();
  }
  // The first member whose row of the next token is not there.
  static const ReceiveRing* missing(Core& core, Link& link) {
    link.blocked = nullptr;
    for (std::uint32_t member = 0; member < link.in.size(); ++member) {
      if ((link.routes[link.next] >> member & 1) == 0) continue;
      if (link.in[member].filled(core) > 0) continue;
      link.blocked = &link.in[member];
      break;
    }
    return link.blocked;
  }

  emu::Task add(Core& core, std::uint32_t origin, Link& link) {
    std::vector<WeightedRow> rows;
    for (std::uint32_t member = 0; member < link.in.size(); ++member) {
      if ((link.routes[link.next] >> member & 1) == 0) continue;
      const ReceiveRing& in = link.in[member];
      co_await in.wait_filled(core, 1);
      rows.push_back({in.row(0), 1.0f});
    }
    co_await layer_.add_rows(core, sum(origin, link, link.waiting), std::move(rows),
                             layer_.message_stride());
    co_await core.stream(layer_.output_row_bytes());
    for (std::uint32_t member = 0; member < link.in.size(); ++member) {
      if ((link.routes[link.next] >> member & 1) == 0) continue;
      link.in[member].take(1);
      const bool last = link.routes.size() == link.next + 1 || is_last(link, member);
      const std::uint32_t late = layer_.sabotage_ == "late-head" ? at_.near_back.size().tokens + 1
                                                                 : at_.near_back.size().chunk;
      co_await link.in[member].credit(core, last, late);
    }
    ++link.next;
    ++link.waiting;
  }
  static bool is_last(const Link& link, std::uint32_t member) {
    return std::none_of(link.routes.begin() + link.next + 1, link.routes.end(),
                        [member](std::uint64_t route) { return (route >> member & 1) != 0; });
  }

  DeepEpNormal& layer_;
  const NormalLayout& at_;
  const std::uint32_t channel_;
  std::vector<Link> links_;  // by the origin's node
  bool done_ = false;
};

// Adds up a channel's tokens in turn.
class DeepEpNormal::SumReceiver final : public Role {
 public:
  SumReceiver(DeepEpNormal& layer, Core& core, std::uint32_t iteration)
      : layer_(layer), mine_(layer.channel_tokens(core.rank(), iteration, layer.channel_of(core))) {
    const std::uint32_t self = core.rank();
    const std::uint32_t channel = layer.channel_of(core);
    const bool two = layer.has_two_levels();
    const std::uint32_t queues = two ? layer.groups_.groups() : core.ranks();
    for (std::uint32_t ring = 0; ring < queues; ++ring) {
      const std::uint32_t peer = two ? layer.groups_.device(ring, layer.member_of(self)) : ring;
      rings_.emplace_back(core, two ? layer.at_.far_back : layer.at_.near_back, channel, ring, peer,
                          two ? layer.node_of(self) : self);
    }
    std::vector<std::uint32_t> left(queues, 0);
    for (std::uint32_t token = mine_.begin; token < mine_.end; ++token) {
      const std::vector<std::uint32_t> devices = layer.owners(layer.ids_of(core, token));
      from_.push_back(two ? layer.nodes_of(devices) : devices);
      for (const std::uint32_t ring : from_.back()) ++left[ring];
    }
    left_ = std::move(left);
  }

  bool is_done() const override { return done_; }

  emu::Task step(Core& core, bool& progress) override {
    while (next_ < from_.size() && missing(core) == nullptr) {
      std::vector<WeightedRow> rows;
      for (const std::uint32_t ring : from_[next_]) {
        co_await rings_[ring].wait_filled(core, 1);
        rows.push_back({rings_[ring].row(0), 1.0f});
      }
      co_await layer_.add_rows(core, layer_.output(mine_.begin + next_), std::move(rows),
                               layer_.message_stride());
      co_await core.stream(layer_.output_row_bytes());
      for (const std::uint32_t ring : from_[next_]) {
        rings_[ring].take(1);
        co_await rings_[ring].credit(core, --left_[ring] == 0, rings_[ring].chunk());
      }
      ++next_;
      progress = true;
    }
    if (next_ < from_.size()) co_return;
    for (const ReceiveRing& ring : rings_) ring.save(core);
    done_ = true;
  }

  void add_watches(std::vector<Watch>& watches) const override {
    if (blocked_ != nullptr) watches.push_back(blocked_->more_than(0));
  }

 private:
  const ReceiveRing* missing(Core& core) {
    blocked_ = nullptr;
    for (const std::uint32_t ring : from_[next_]) {
      if (rings_[ring].filled(core) == 0) return blocked_ = &rings_[ring];
    }
    return nullptr;
  }

  DeepEpNormal& layer_;
  const Share mine_;
  std::vector<ReceiveRing> rings_;
  std::vector<std::vector<std::uint32_t>> from_;  // by token: the rings that bring rows of it
  std::vector<std::uint32_t> left_;               // by ring: rows to come
  std::uint32_t next_ = 0;
  const ReceiveRing* blocked_ = nullptr;
  bool done_ = false;
};

// What this device has of every device's tokens, as they came.
std::unique_ptr<Role> DeepEpNormal::sum_sender(Core& core) {
  const std::uint32_t self = core.rank();
  const std::uint32_t channel = channel_of(core);
  std::vector<RingSender::Stream> streams;
  for (std::uint32_t shift = 0; shift < core.ranks(); ++shift) {
    const std::uint32_t origin = (self + 1 + shift) % core.ranks();
    const auto begin = core.load<std::uint32_t>(at_.range(channel, origin));
    const auto count = core.load<std::uint32_t>(at_.range(channel, origin) + 4);
    std::vector<fabric::Address> rows;
    for (std::uint32_t i = 0; i < count; ++i) rows.push_back(at_.reduced(begin + i));
    std::uint32_t here = origin;
    std::uint32_t there = self;
    if (has_two_levels()) {
      here = member_of(origin) * groups_.groups() + node_of(origin);
      there = member_of(self) * groups_.groups() + node_of(origin);
    }
    const std::uint32_t peer = last_hop(origin, self);
    streams.push_back({SendRing(core, at_.near_back, channel, here, peer, there), std::move(rows)});
  }
  return std::make_unique<RingSender>(std::move(streams), output_row_bytes(), near_order(),
                                      fault());
}

// A received row's outputs become one row.
emu::Task DeepEpNormal::add_outputs(Core& core) {
  core.phase("add outputs");
  const auto total = core.load<std::uint32_t>(at_.rank_begin(core.ranks()));
  const Share mine = share(total, core.count(), core.index());
  for (std::uint32_t row = mine.begin; row < mine.end; ++row) {
    co_await sum_taken(core, at_.taken(row), at_.reduced(row));
    co_await core.stream(output_row_bytes());
  }
}

emu::Task DeepEpNormal::combine(Core& core, std::uint32_t iteration) {
  co_await add_outputs(core);
  co_await core.next_kernel();
  if (core.index() == 0) co_await rank_barrier(core);
  co_await core.barrier();
  Roles roles;
  if (is_even(core)) roles.push_back(sum_sender(core));
  if (is_odd(core) && has_two_levels()) {
    roles.push_back(std::make_unique<SumForwarder>(*this, core));
  }
  if (is_odd(core)) roles.push_back(std::make_unique<SumReceiver>(*this, core, iteration));
  core.phase("rings");
  co_await run_roles(core, roles);
  if (!is_even(core)) co_return;
  for (std::uint32_t origin = 0; origin < core.ranks(); ++origin) {
    const auto begin = core.load<std::uint32_t>(at_.range(channel_of(core), origin));
    const auto count = core.load<std::uint32_t>(at_.range(channel_of(core), origin) + 4);
    for (std::uint32_t i = 0; i < count; ++i)
      core.discard(at_.reduced(begin + i), message_stride());
  }
}

}  // namespace orrery::moe::deepep
