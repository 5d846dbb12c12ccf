// DeepEP's normal dispatch: who sends, forwards and receives.
#include <fmt/format.h>

#include <algorithm>

#include "moe/algorithms/deepep_normal.h"
#include "moe/share.h"

namespace orrery::moe::deepep {

using devices::Core;
using devices::Piece;

// Takes rows out of the rings and puts each where its source, channel and turn say.
class DeepEpNormal::Receiver final : public Role {
 public:
  Receiver(const DeepEpNormal& layer, Core& core)
      : layer_(layer), at_(layer.at_), channel_(layer.channel_of(core)), devices_(core.ranks()) {
    const std::uint32_t self = core.rank();
    for (std::uint32_t i = 0; i < at_.near.rings(); ++i) {
      if (layer.has_two_levels()) {
        const std::uint32_t ring = i;
        rings_.push_back(
            {ReceiveRing(core, at_.near, channel_, ring,
                         layer.groups_.device(layer.node_of(self), ring), layer.member_of(self)),
             0});
      } else {
        const std::uint32_t ring = (self + 1 + i) % devices_;
        rings_.push_back({ReceiveRing(core, at_.near, channel_, ring, ring, self), 0});
      }
    }
  }

  bool is_done() const override { return done_; }

  emu::Task step(Core& core, bool& progress) override {
    if (!started_) {
      if (!offsets().is_ready(core)) co_return;
      co_await start(core);
      progress = true;
    }
    bool left = false;
    for (Ring& each : rings_) {
      if (each.left == 0) continue;
      const std::uint32_t rows = std::min(each.ring.filled(core), each.ring.chunk());
      if (rows > 0) {
        co_await take(core, each, rows);
        progress = true;
      }
      left = left || each.left > 0;
      if (each.left > 0 && layer_.sabotage_ == "in-order") break;
    }
    if (left) co_return;
    for (const Ring& each : rings_) each.ring.save(core);
    done_ = true;
  }

  void add_watches(std::vector<Watch>& watches) const override {
    if (!started_) {
      watches.push_back(offsets());
      return;
    }
    for (const Ring& each : rings_) {
      if (each.left == 0) continue;
      watches.push_back(each.ring.more_than(0));
      if (layer_.sabotage_ == "in-order") return;
    }
  }

 private:
  struct Ring {
    ReceiveRing ring;
    std::uint32_t left;  // rows to come
  };

  Watch offsets() const {
    return {at_.offsets(channel_, 0), 2 * devices_, 1, 0, channel_, "and others: offsets"};
  }

  emu::Task start(Core& core) {
    co_await offsets().wait(core);
    for (std::uint32_t source = 0; source < devices_; ++source) {
      const fabric::Address words = at_.offsets(channel_, source);
      const auto found = core.load<Offsets>(words);
      core.write(words, Offsets{0, 0});
      const std::uint32_t begin =
          core.load<std::uint32_t>(at_.rank_begin(source)) + encoded(found.begin);
      const std::uint32_t count = encoded(found.end) - encoded(found.begin);
      next_.push_back(begin);
      core.write(at_.range(channel_, source), Offsets{begin, count});
      for (Ring& each : rings_) {
        if (each.ring.peer() == layer_.last_hop(source, core.rank())) each.left += count;
      }
    }
    started_ = true;
  }

  emu::Task take(Core& core, Ring& from, std::uint32_t rows) {
    co_await from.ring.wait_filled(core, rows);
    std::vector<Piece> pieces;
    for (std::uint32_t n = 0; n < rows; ++n) {
      const fabric::Address row = from.ring.row(n);
      core.accept(row, layer_.message_bytes());
      const std::uint32_t to = next_[layer_.header_of(core, row).source]++;
      pieces.push_back({at_.received(to), row, layer_.message_bytes()});
    }
    const std::span<const Piece> all = pieces;
    co_await core.copy(all);
    for (std::uint32_t n = 0; n < rows; ++n)
      core.discard(from.ring.row(n), layer_.message_stride());
    from.ring.take(rows);
    from.left -= rows;
    co_await from.ring.credit(core);  // forwarders put less than chunks, too
  }

  const DeepEpNormal& layer_;
  const NormalLayout& at_;
  const std::uint32_t channel_;
  const std::uint32_t devices_;
  std::vector<Ring> rings_;
  std::vector<std::uint32_t> next_;  // by source
  bool started_ = false;
  bool done_ = false;
};

// How many rows go where: to every device, or, with two levels, to the device with this one's
// number in every node.
emu::Task DeepEpNormal::send_offsets(Core& core, std::uint32_t iteration) {
  core.phase("send offsets");
  const std::uint32_t self = core.rank();
  const std::uint32_t channel = channel_of(core);
  const Share mine = channel_tokens(self, iteration, channel);
  std::vector<Offsets> rows(core.ranks(), Offsets{0, 0});
  std::vector<std::uint32_t> tokens_to(groups_.groups(), 0);
  for (std::uint32_t token = 0; token < mine.end; ++token) {
    const std::vector<std::uint32_t> devices = owners(ids_of(core, token));
    if (token == mine.begin) {
      for (Offsets& each : rows) each.begin = each.end;
    }
    for (const std::uint32_t device : devices) ++rows[device].end;
    if (token < mine.begin) continue;
    for (const std::uint32_t node : nodes_of(devices)) ++tokens_to[node];
  }
  if (mine.size() == 0) {
    for (Offsets& each : rows) each.begin = each.end;
  }
  co_await core.stream(std::uint64_t{mine.end} * problem_.top_k() * 4);
  if (!has_two_levels()) {
    for (std::uint32_t shift = 0; shift < core.ranks(); ++shift) {
      const std::uint32_t peer = (self + shift) % core.ranks();
      const Offsets offsets{encoded(rows[peer].begin), encoded(rows[peer].end)};
      if (drops_record(core, shift)) continue;
      co_await core.store(peer, at_.offsets(channel, self), offsets);
    }
    co_return;
  }
  for (std::uint32_t shift = 0; shift < groups_.groups(); ++shift) {
    const std::uint32_t node = (node_of(self) + shift) % groups_.groups();
    const fabric::Address record = at_.record_out(channel, node);
    core.write(record, encoded(tokens_to[node]));
    for (std::uint32_t member = 0; member < groups_.members(); ++member) {
      const Offsets& of = rows[groups_.device(node, member)];
      core.write(record + (1 + 2 * member) * 4ull, encoded(of.begin));
      core.write(record + (2 + 2 * member) * 4ull, encoded(of.end));
    }
    if (drops_record(core, shift)) continue;
    co_await core.put(groups_.device(node, member_of(self)), at_.record_in(channel, node_of(self)),
                      record, at_.record_words() * 4);
  }
}

std::unique_ptr<Role> DeepEpNormal::token_sender(Core& core, std::uint32_t iteration) {
  const std::uint32_t self = core.rank();
  const std::uint32_t channel = channel_of(core);
  const std::uint32_t queues = has_two_levels() ? groups_.groups() : core.ranks();
  const std::uint32_t own = has_two_levels() ? node_of(self) : self;
  const RingFamily& family = has_two_levels() ? at_.far : at_.near;
  std::vector<std::vector<fabric::Address>> rows(queues);
  const Share mine = channel_tokens(self, iteration, channel);
  for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
    const std::vector<std::uint32_t> devices = owners(ids_of(core, token));
    for (const std::uint32_t queue : has_two_levels() ? nodes_of(devices) : devices) {
      rows[queue].push_back(at_.staged(token));
    }
  }
  std::vector<RingSender::Stream> streams;
  for (std::uint32_t shift = 0; shift < queues; ++shift) {
    const std::uint32_t to = (own + 1 + shift) % queues;
    const std::uint32_t peer = has_two_levels() ? groups_.device(to, member_of(self)) : to;
    streams.push_back({SendRing(core, family, channel, to, peer, own), std::move(rows[to])});
  }
  return std::make_unique<RingSender>(std::move(streams), message_bytes(),
                                      has_two_levels() ? far_order() : near_order(), fault());
}

// A channel's tokens as messages. The source gets its rows cast.
emu::Task DeepEpNormal::stage(Core& core, std::uint32_t iteration) {
  core.phase("stage tokens");
  const Share mine = channel_tokens(core.rank(), iteration, channel_of(core));
  for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
    write_token(core, token, at_.staged(token));
    if (precision_ != Precision::kInt8) continue;
    co_await core.stream(output_row_bytes() + payload_bytes());
    co_await core.compute(cast_time());
  }
}

// Received rows are split over the cores.
emu::Task DeepEpNormal::hand_to_experts(Core& core) {
  core.phase("expand");
  const auto total = core.load<std::uint32_t>(at_.rank_begin(core.ranks()));
  const Share mine = share(total, core.count(), core.index());
  for (std::uint32_t row = mine.begin; row < mine.end; ++row) {
    co_await expand(core, at_.received(row), at_.taken(row));
  }
}

emu::Task DeepEpNormal::dispatch(Core& core, std::uint32_t iteration) {
  co_await notify(core, iteration);
  Roles roles;
  const Share mine = channel_tokens(core.rank(), iteration, channel_of(core));
  if (is_even(core)) {
    co_await send_offsets(core, iteration);
    co_await stage(core, iteration);
    roles.push_back(token_sender(core, iteration));
  }
  if (has_two_levels() && is_odd(core)) roles.push_back(forwarder(core));
  if (has_two_levels() ? is_even(core) : is_odd(core)) {
    roles.push_back(std::make_unique<Receiver>(*this, core));
  }
  core.phase("rings");
  co_await run_roles(core, roles);
  if (is_even(core)) {
    for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
      core.discard(at_.staged(token), message_stride());
    }
  }
  co_await core.next_kernel();
  co_await hand_to_experts(core);
}

}  // namespace orrery::moe::deepep
