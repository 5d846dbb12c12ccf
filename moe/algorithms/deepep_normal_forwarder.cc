// DeepEP's normal dispatch between nodes: who hands rows on.
#include <algorithm>

#include "moe/algorithms/deepep_normal.h"

namespace orrery::moe::deepep {

using devices::Core;
using devices::Piece;

// Takes rows that came from devices with this one's number in their nodes, and hands each to those
// of this node that want it. Each of these goes through the rings at its own pace; what all are
// through with is credited.
class DeepEpNormal::Forwarder final : public Role {
 public:
  Forwarder(const DeepEpNormal& layer, Core& core)
      : layer_(layer), at_(layer.at_), channel_(layer.channel_of(core)), self_(core.rank()) {
    const NodeGroups& groups = layer.groups_;
    const std::uint32_t node = layer.node_of(self_);
    const std::uint32_t member = layer.member_of(self_);
    for (std::uint32_t from = 0; from < groups.groups(); ++from) {
      in_.push_back({ReceiveRing(core, at_.far, channel_, from, groups.device(from, member), node),
                     0,
                     {},
                     std::vector<std::uint32_t>(groups.members(), 0),
                     std::vector<std::uint32_t>(groups.members(), 0)});
    }
    for (std::uint32_t to = 0; to < groups.members(); ++to) {
      out_.emplace_back(core, at_.near, channel_, to, groups.device(node, to), member);
    }
  }

  bool is_done() const override { return done_; }

  emu::Task step(Core& core, bool& progress) override {
    if (!started_) {
      if (!records().is_ready(core)) co_return;
      co_await start(core);
      progress = true;
    }
    for (std::uint32_t node = 0; node < in_.size(); ++node) co_await look(core, node);
    std::vector<std::pair<const SendRing*, std::uint32_t>> told;
    std::vector<devices::PutHandle> handles;
    for (std::uint32_t member = 0; member < out_.size(); ++member) {
      Batch batch;
      for (std::uint32_t node = 0; node < in_.size(); ++node) {
        co_await collect(core, node, member, batch);
      }
      progress = progress || batch.moved;
      if (batch.rows == 0) continue;
      const std::span<const Piece> all = batch.pieces;
      const devices::PutHandle handle = co_await core.put(out_[member].peer(), all);
      handles.push_back(handle);
      out_[member].advance(batch.rows);
      told.emplace_back(&out_[member], batch.rows);
    }
    if (!told.empty()) co_await layer_.order_near(core);
    for (const auto& [ring, rows] : told) co_await ring->publish(core, rows);
    // A slot may be written again when nothing is read from it any more.
    for (const devices::PutHandle& handle : handles) co_await core.wait_local(handle);
    co_await credit(core);
  }

  void add_watches(std::vector<Watch>& watches) const override {
    if (!started_) {
      watches.push_back(records());
      return;
    }
    for (const In& each : in_) {
      if (each.routes.size() < each.total || is_short(each)) {
        watches.push_back(
            each.ring.more_than(static_cast<std::uint32_t>(each.routes.size()) - each.taken));
      }
    }
    for (std::uint32_t member = 0; member < out_.size(); ++member) {
      if (wants_room(member)) watches.push_back(out_[member].room());
    }
  }

 private:
  struct In {
    ReceiveRing ring;
    std::uint32_t total;                // rows to come in this call
    std::vector<std::uint64_t> routes;  // of those seen, the members that want it, by bit
    std::vector<std::uint32_t> cursor;  // by member: rows that it is through with
    std::vector<std::uint32_t> owed;    // by member: rows of its that have not come
    std::uint32_t taken = 0;            // by all
  };
  struct Batch {
    std::vector<Piece> pieces;
    std::uint32_t rows = 0;
    bool moved = false;
  };

  Watch records() const {
    const auto nodes = static_cast<std::uint32_t>(in_.size());
    return {at_.record_in(channel_, 0),
            nodes * at_.record_words(),
            1,
            in_[0].ring.peer(),
            channel_,
            "and those with its number: records"};
  }
  // All rows are through, and not those that the record spoke of: some never came.
  static bool is_short(const In& in) {
    return in.taken == in.total && std::any_of(in.owed.begin(), in.owed.end(),
                                               [](std::uint32_t rows) { return rows != 0; });
  }
  bool wants_room(std::uint32_t member) const {
    return std::any_of(in_.begin(), in_.end(), [member](const In& each) {
      return each.cursor[member] < each.routes.size();
    });
  }

  // Says how many rows of each source come to each member.
  emu::Task start(Core& core) {
    co_await records().wait(core);
    for (std::uint32_t node = 0; node < in_.size(); ++node) {
      const fabric::Address record = at_.record_in(channel_, node);
      std::vector<std::uint32_t> words;
      for (std::uint32_t i = 0; i < at_.record_words(); ++i) {
        words.push_back(core.load<std::uint32_t>(record + i * 4ull));
        core.write(record + i * 4ull, std::uint32_t{0});
      }
      in_[node].total = encoded(words[0]);
      core.write(at_.routed(channel_, node), std::uint64_t{in_[node].total});
      const fabric::Address to = at_.offsets(channel_, in_[node].ring.peer());
      for (std::uint32_t member = 0; member < out_.size(); ++member) {
        const Offsets offsets{words[1 + 2 * member], words[2 + 2 * member]};
        in_[node].owed[member] = encoded(offsets.end) - encoded(offsets.begin);
        co_await core.store(out_[member].peer(), to, offsets);
      }
    }
    started_ = true;
  }

  // What has come since.
  emu::Task look(Core& core, std::uint32_t node) {
    In& in = in_[node];
    const std::uint32_t filled = in.ring.filled(core);
    const auto seen = static_cast<std::uint32_t>(in.routes.size()) - in.taken;
    if (filled <= seen) co_return;
    co_await in.ring.wait_filled(core, filled);
    for (std::uint32_t n = seen; n < filled; ++n) {
      core.accept(in.ring.row(n), layer_.message_bytes());
      std::uint64_t members = 0;
      for (const std::uint32_t to : layer_.owners(layer_.choices_of(core, in.ring.row(n)))) {
        if (layer_.node_of(to) == layer_.node_of(self_)) {
          members |= std::uint64_t{1} << layer_.member_of(to);
        }
      }
      core.write(at_.route(channel_, node, static_cast<std::uint32_t>(in.routes.size())), members);
      in.routes.push_back(members);
    }
    co_await core.stream(std::uint64_t{filled - seen} *
                         (layer_.message_bytes() - layer_.payload_bytes()));
  }

  // The next rows of a node for a member, a chunk of all nodes' at most.
  emu::Task collect(Core& core, std::uint32_t node, std::uint32_t member, Batch& batch) {
    In& in = in_[node];
    std::uint32_t& cursor = in.cursor[member];
    SendRing& out = out_[member];
    const std::uint32_t before = batch.rows;
    for (; cursor < in.routes.size(); ++cursor, batch.moved = true) {
      if ((in.routes[cursor] >> member & 1) == 0) continue;
      if (batch.rows == out.chunk()) break;
      if (batch.rows == 0) {
        if (layer_.sabotage_ != "spin-sender" && !out.has_room(core)) break;
        co_await out.wait_room(core);
      }
      const std::uint32_t n = cursor - in.taken;
      batch.pieces.push_back({out.row(batch.rows), in.ring.row(n), layer_.message_bytes()});
      ++batch.rows;
      --in.owed[member];
    }
    co_await core.stream(std::uint64_t{batch.rows - before} * layer_.message_bytes());
  }

  // The least that any member is through with.
  emu::Task credit(Core& core) {
    bool done = true;
    for (In& in : in_) {
      const std::uint32_t least = *std::min_element(in.cursor.begin(), in.cursor.end());
      for (std::uint32_t n = 0; n < least - in.taken; ++n) {
        core.discard(in.ring.row(n), layer_.message_stride());
      }
      in.ring.take(least - in.taken);
      in.taken = least;
      const std::uint32_t late =
          layer_.sabotage_ == "late-head" ? at_.far.size().tokens + 1 : at_.far.size().chunk;
      co_await in.ring.credit(core, least == in.total, late);
      done = done && least == in.total && !is_short(in);
    }
    if (!done) co_return;
    for (const In& in : in_) in.ring.save(core);
    for (const SendRing& out : out_) out.save(core);
    done_ = true;
  }

  const DeepEpNormal& layer_;
  const NormalLayout& at_;
  const std::uint32_t channel_;
  const std::uint32_t self_;
  std::vector<In> in_;         // by node
  std::vector<SendRing> out_;  // by member
  bool started_ = false;
  bool done_ = false;
};

std::unique_ptr<Role> DeepEpNormal::forwarder(Core& core) const {
  return std::make_unique<Forwarder>(*this, core);
}

}  // namespace orrery::moe::deepep
