// DeepEP V2 between nodes: messages go once to each node, by the NIC of the own place there, and
// that device hands them on to those of its node; outputs come back the same way.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "devices/fetch_add_each.h"
#include "moe/algorithms/deepep_v2.h"

namespace orrery::moe {

using devices::Core;
using devices::Predicate;
using devices::PutHandle;
using devices::Slots;

namespace {

// Rows after which a word tells of them: kScaleoutUpdateInterval and kNumScaleupUpdateInterval.
constexpr std::uint32_t kRailInterval = 6;
constexpr std::uint32_t kLaneInterval = 3;

std::uint64_t word_at(const std::byte* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

Predicate progress_beyond(std::uint64_t seen) {
  return {[](const std::byte* slot, std::uint64_t known) { return word_at(slot) > known; }, seen,
          "further rows, or the last word of this call, beyond", true};
}

}  // namespace

// Tokens are dealt to the channels. The own node is a rail as well.
emu::Task DeepEpV2::send_to_rails(Core& core, std::uint32_t iteration) {
  core.phase("send to rails");
  const std::uint32_t channel = core.index();
  const std::uint32_t count = tokens(core.rank(), iteration);
  std::vector<Progress> progress(groups_.groups());
  Leaving leaving;
  std::uint32_t rows = 0;
  for (std::uint32_t token = channel; token < count; token += channels()) {
    std::vector<std::uint32_t> nodes;
    bool through_nic = false;
    for (const std::uint32_t owner : owners(ids_of(core, token))) {
      const std::uint32_t node = groups_.group_of(owner);
      if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) continue;
      nodes.push_back(node);
      through_nic |= core.device().posts_to(groups_.device(node, member(core)));
    }
    if (nodes.empty()) continue;
    co_await load_token(core, token, through_nic);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      Progress& to = progress[nodes[i]];
      const fabric::Address slot = rail(group(core), channel, to.sent);
      const PutHandle handle = co_await core.put(groups_.device(nodes[i], member(core)), slot,
                                                 send(token), message_bytes());
      ++to.sent;
      leaving.emplace_back(handle, i + 1 == nodes.size() ? send(token) : kNoRow);
    }
    give_up_left(core, leaving);
    if (++rows % kRailInterval == 0) co_await tell_rails(core, false, progress);
  }
  co_await tell_rails(core, true, progress);
  co_await give_up(core, leaving);
}

// Behind all that this core has put: by one fence for all peers, or between NICs by the queue pair
// that both take.
emu::Task DeepEpV2::before_words(Core& core) {
  if (fenced_) {
    co_await core.fence();
  } else {
    co_await core.release_stores();
  }
}

emu::Task DeepEpV2::tell_rails(Core& core, bool last, std::vector<Progress>& progress) {
  co_await before_words(core);
  for (std::uint32_t i = 1; i <= groups_.groups(); ++i) {
    const std::uint32_t node = (group(core) + i) % groups_.groups();
    Progress& to = progress[node];
    if (!last && to.sent == to.told) continue;
    if (last && sabotage_ == "drop-tail" && core.rank() == 0 && core.index() == 0) continue;
    const std::uint64_t what = to.sent - to.told + (last ? kLast : 0);
    to.told = to.sent;
    co_await core.atomic_add(groups_.device(node, member(core)),
                             rail_tail(group(core), core.index()), what);
  }
}

// What comes on this core's channel from any node goes to those of this node who need it. Nodes in
// turn, the own one first, those that have nothing new left out; when none has, one is waited for.
emu::Task DeepEpV2::forward(Core& core) {
  core.phase("forward");
  const std::uint32_t channel = core.index() % channels();
  std::deque<std::uint32_t> open;
  for (std::uint32_t i = 0; i < groups_.groups(); ++i) {
    open.push_back((group(core) + i) % groups_.groups());
  }
  std::vector<std::uint32_t> seen(groups_.groups(), 0);
  std::vector<std::uint32_t> turns(groups_.members(), 0);
  std::uint32_t number = 0;
  Leaving leaving;
  while (!open.empty()) {
    const auto has_more = [&](std::uint32_t node) {
      return word_at(core.probe(rail_tail(node, channel), 8).data()) > seen[node];
    };
    const auto found = std::find_if(open.begin(), open.end(), has_more);
    const std::uint32_t node = found == open.end() ? open.front() : *found;
    co_await core.compute(static_cast<emu::Time>(open.size()) * core.costs().poll);
    open.erase(std::find(open.begin(), open.end(), node));
    const auto writer = [this, &core, node, channel](std::uint32_t) {
      return fmt::format("device {} core {} (progress of channel {})",
                         groups_.device(node, member(core)), channel, channel);
    };
    const Slots slot{rail_tail(node, channel), 8, 8, 1, 0};
    const Predicate more = progress_beyond(seen[node]);
    co_await core.wait_until(slot, more, writer);
    const std::uint64_t word = word_at(core.probe(rail_tail(node, channel), 8).data());
    for (const auto sent = static_cast<std::uint32_t>(word); seen[node] < sent; ++seen[node]) {
      co_await forward_one(core, node, seen[node], number++, turns, leaving);
    }
    if (word < kLast) {
      open.push_back(node);
    } else {
      core.write(rail_tail(node, channel), std::uint64_t{0});
    }
  }
  core.write(forwarded_count(channel), number);
  co_await give_up(core, leaving);
}

// A message in its lane's next slot at each member that has one of its experts.
emu::Task DeepEpV2::forward_one(Core& core, std::uint32_t node, std::uint32_t index,
                                std::uint32_t number, std::vector<std::uint32_t>& turns,
                                Leaving& leaving) {
  const std::uint32_t channel = core.index() % channels();
  const fabric::Address row = rail(node, channel, index);
  core.accept(row, message_bytes());
  co_await core.stream(message_bytes());
  const Header head = header_of(core, row);
  std::vector<std::uint32_t> members;
  std::vector<Hop> hops;
  const auto choices = choices_of(core, row);
  for (std::uint32_t k = 0; k < choices.size(); ++k) {
    if (choices[k].expert < 0) continue;
    const std::uint32_t owner =
        problem_.placement.owner(static_cast<std::uint32_t>(choices[k].expert));
    if (groups_.group_of(owner) != group(core)) continue;
    const std::uint32_t to = groups_.member_of(owner);
    hops.push_back({static_cast<std::uint16_t>(k), static_cast<std::uint16_t>(to), turns[to]});
    if (std::find(members.begin(), members.end(), to) == members.end()) members.push_back(to);
  }
  const fabric::Address record = forwarded(channel, number);
  const auto count = static_cast<std::uint32_t>(hops.size());
  core.write(record, Forwarded{node, head.token, count, 0});
  core.write_bytes(record + sizeof(Forwarded), std::as_bytes(std::span(hops)));
  std::vector<fabric::Address> counters;
  for (const std::uint32_t to : members) {
    ++turns[to];
    counters.push_back(next_slot(to));
  }
  std::vector<std::uint32_t> slots(members.size());
  co_await devices::fetch_add_each(core, counters, 1, slots);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const PutHandle handle = co_await core.put(groups_.device(group(core), members[i]),
                                               recv(member(core), slots[i]), row, message_bytes());
    leaving.emplace_back(handle, i + 1 == members.size() ? row : kNoRow);
  }
  give_up_left(core, leaving);
}

// The outputs for a forwarder's messages go back to it, those of a channel by one core and in the
// order in which they came: lanes in turn.
emu::Task DeepEpV2::return_to_forwarders(Core& core) {
  core.phase("return to forwarders");
  std::vector<Progress> progress(lanes());
  std::vector<std::uint32_t> next(lanes(), 0);
  std::vector<std::uint32_t> messages(lanes());
  for (std::uint32_t lane = 0; lane < lanes(); ++lane) {
    messages[lane] = core.load<std::uint32_t>(counts_.messages(lane));
    co_await core.stream(messages[lane] * sizeof(Taken));
  }
  Returning returning;
  std::uint32_t rows = 0;
  for (bool any = true; any;) {
    any = false;
    for (std::uint32_t i = 1; i <= lanes(); ++i) {
      const std::uint32_t lane = (member(core) + i) % lanes();
      Taken what{};
      for (; next[lane] < messages[lane]; ++next[lane]) {
        what = taken_at(core, taken(lane, next[lane]));
        if (channel_of(what.token) == core.index()) break;
      }
      if (next[lane] == messages[lane]) continue;
      any = true;
      co_await return_one(core, taken(lane, next[lane]), groups_.device(group(core), lane),
                          groups_.group_of(what.source), returning);
      ++next[lane];
      ++progress[lane].sent;
      if (++rows % kLaneInterval == 0) co_await tell_forwarders(core, progress);
    }
  }
  co_await tell_forwarders(core, progress);
}

emu::Task DeepEpV2::tell_forwarders(Core& core, std::vector<Progress>& progress) {
  co_await before_words(core);
  for (std::uint32_t lane = 0; lane < lanes(); ++lane) {
    Progress& to = progress[lane];
    if (to.sent == to.told) continue;
    const std::uint64_t what = to.sent - to.told;
    to.told = to.sent;
    co_await core.atomic_add(groups_.device(group(core), lane),
                             lane_tail(member(core), core.index()), what);
  }
}

emu::Task DeepEpV2::wait_for_parts(Core& core, std::uint32_t channel, std::span<const Hop> hops) {
  for (const Hop& hop : hops) {
    const auto writer = [this, &core, &hop, channel](std::uint32_t) {
      return fmt::format("device {} core {} (parts of channel {})",
                         groups_.device(group(core), hop.member), channel, channel);
    };
    const Slots word{lane_tail(hop.member, channel), 8, 8, 1, 0};
    const Predicate there = devices::word_at_least(hop.turn + 1);
    co_await core.wait_until(word, there, writer);
  }
}

// What the members of this node have for a token that was forwarded here is added up and goes to
// the token's device, or goes there as it is. Tokens of a channel in the order in which they came.
emu::Task DeepEpV2::reduce_and_return(Core& core) {
  core.phase("reduce and return");
  const std::uint32_t channel = core.index() % channels();
  Returning returning;
  const auto count = core.load<std::uint32_t>(forwarded_count(channel));
  for (std::uint32_t number = 0; number < count; ++number) {
    const fabric::Address record = forwarded(channel, number);
    const auto what = core.load<Forwarded>(record);
    const auto all = core.array<Hop>(record + sizeof(Forwarded), what.hops);
    std::vector<Hop> hops(all.begin(), all.end());
    if (reduces_twice_) {
      std::sort(hops.begin(), hops.end(),
                [](const Hop& a, const Hop& b) { return a.member < b.member; });
      const auto same = [](const Hop& a, const Hop& b) { return a.member == b.member; };
      hops.erase(std::unique(hops.begin(), hops.end(), same), hops.end());
    }
    co_await wait_for_parts(core, channel, hops);
    const std::uint32_t origin = groups_.device(what.node, member(core));
    const bool through_nic = core.device().posts_to(origin);
    if (!reduces_twice_) {
      for (const Hop& hop : hops) {
        const fabric::Address row = part(hop.k, what.node, what.token);
        co_await core.stream(output_row_bytes());
        core.accept(row, output_row_bytes());
        if (through_nic) co_await core.stream(output_row_bytes());
        co_await core.give(origin, combined(hop.k, what.token), row, output_row_bytes());
      }
      continue;
    }
    std::vector<WeightedRow> rows;
    for (const Hop& hop : hops) rows.push_back({part(hop.member, what.node, what.token), 1.0f});
    const fabric::Address sum = stage(core.index(), returning.turn);
    co_await core.wait_local(returning.stage[returning.turn]);
    co_await add_rows(core, sum, std::move(rows), message_stride());
    if (through_nic) co_await core.stream(output_row_bytes());
    returning.stage[returning.turn] =
        co_await core.give(origin, combined(group(core), what.token), sum, output_row_bytes());
    returning.turn ^= 1;
  }
  // All that was told of has come: the last words were waited for.
  for (std::uint32_t lane = 0; lane < lanes(); ++lane) {
    core.write(lane_tail(lane, channel), std::uint64_t{0});
  }
}

}  // namespace orrery::moe
