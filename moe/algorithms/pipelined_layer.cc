#include "moe/algorithms/pipelined_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace orrery::moe {

using devices::Piece;
using devices::PutHandle;
using devices::Slots;

PipelinedLayer::PipelinedLayer(const Problem& problem, const Options& options, Plan plan)
    : FusedLayer(problem, Sums::kOwn),
      plan_(plan),
      cores_(CommCores::of(problem, options, plan.parts > 1)),
      channels_(std::max(1u, comm().count / problem.devices)),
      meetings_(plan.parts * kMeetings, layout_) {
  const std::uint64_t own = std::uint64_t{problem.placement.experts()} * plan.list_rows;
  const std::uint64_t taken = std::uint64_t{problem.devices} * max_local_experts() * plan.list_rows;
  staged_ = layout_.rows(own, row_stride());
  taken_ = layout_.rows(taken, row_stride());
  outputs_ = layout_.rows(taken, row_stride());
  returned_ = layout_.rows(own, row_stride());
  flags_ = layout_.flat(std::uint64_t{kDirections} * plan.parts * problem.devices * channels_ * 4);
}

std::vector<OptionSpec> PipelinedLayer::pipeline_options(const std::string& parts_name,
                                                         const char* parts, const char* help) {
  return {{parts_name, parts, help, {}}, CommCores::option()};
}

std::uint64_t PipelinedLayer::touched_bytes(std::uint32_t device) const {
  std::uint64_t most = 0;
  for (std::uint32_t i = 0; i < problem_.iterations; ++i) {
    most = std::max(most, rows(device, i) + std::uint64_t{tokens(device, i)} * problem_.top_k());
  }
  return FusedLayer::touched_bytes(device) + 2 * (most + plan_.padded_rows) * row_stride();
}

emu::Task PipelinedLayer::layer(Core& core, std::uint32_t iteration) {
  const std::uint32_t call = iteration + 1;
  co_await begin(core, iteration);
  co_await core.next_kernel();
  if (is_sequential()) {
    std::vector<Sent> sent;
    co_await send(core, kOut, 0, call, sent);
    co_await give_up(core, std::move(sent));
    co_await wait_flags(core, kOut, 0, call);
    co_await core.next_kernel();
    co_await run_part(core, iteration, 0);
    co_await core.next_kernel();
    sent.clear();
    co_await send(core, kBack, 0, call, sent);
    co_await give_up(core, std::move(sent));
    co_await wait_flags(core, kBack, 0, call);
  } else if (comm().has(core)) {
    co_await communicate(core, call);
  } else {
    co_await multiply(core, iteration);
  }
  co_await core.next_kernel();
  co_await decode(core, iteration);
}

// One stream: all parts out, then all parts back.
emu::Task PipelinedLayer::communicate(Core& core, std::uint32_t call) {
  std::vector<Sent> sent;
  for (std::uint32_t part = 0; part < plan_.parts; ++part) {
    co_await send(core, kOut, part, call, sent);
  }
  for (std::uint32_t part = 0; part < plan_.parts; ++part) {
    core.phase("wait for outputs");
    co_await meetings_.wait_for_all(core, part * kMeetings + kDownDone, call);
    co_await send(core, kBack, part, call, sent);
  }
  co_await give_up(core, std::move(sent));
  for (std::uint32_t part = 0; part < plan_.parts; ++part) {
    co_await wait_flags(core, kBack, part, call);
  }
}

emu::Task PipelinedLayer::multiply(Core& core, std::uint32_t iteration) {
  for (std::uint32_t part = 0; part < plan_.parts; ++part) {
    core.phase("wait for rows");
    co_await wait_flags(core, kOut, part, iteration + 1);
    co_await run_part(core, iteration, part);
  }
}

// What goes to the peer: rows for its experts, or outputs of its rows.
std::vector<Piece> PipelinedLayer::pieces(Core& core, Direction direction, std::uint32_t part,
                                          std::uint32_t peer) {
  const std::uint32_t me = core.rank();
  const std::uint32_t source = direction == kOut ? me : peer;
  const std::uint32_t owner = direction == kOut ? peer : me;
  std::vector<Piece> rows;
  for (std::uint32_t local = 0; local < local_experts(owner); ++local) {
    const std::uint32_t expert = problem_.placement.begin(owner) + local;
    const std::uint32_t list = list_of(local, source);
    const Share in_part = places(core, source, expert, part);
    for (std::uint32_t at = in_part.begin; at < in_part.end; ++at) {
      if (direction == kOut) {
        rows.push_back({row_at(taken_, list, at), staged(expert, at), plan_.row_bytes});
      } else {
        rows.push_back(
            {row_at(returned_, expert, at), row_at(outputs_, list, at), output_row_bytes()});
      }
    }
  }
  return rows;
}

// Peers and channels are dealt to the cores, beginning with the next device: not all devices send
// to the first one at once.
emu::Task PipelinedLayer::send(Core& core, Direction direction, std::uint32_t part,
                               std::uint32_t call, std::vector<Sent>& sent) {
  core.phase(direction == kOut ? "send rows" : "send outputs");
  const CoreTeam team = comm();
  for (std::uint32_t job = team.index(core); job < core.ranks() * channels_; job += team.count) {
    const std::uint32_t peer = (core.rank() + 1 + job) % core.ranks();
    const std::uint32_t channel = job / core.ranks();
    const bool out = direction == kOut;
    if (!(out ? meets(core.rank(), peer, part) : meets(peer, core.rank(), part))) continue;
    const std::vector<Piece> all = pieces(core, direction, part, peer);
    const Share mine = share(static_cast<std::uint32_t>(all.size()), channels_, channel);
    std::vector<Piece> rows(all.begin() + mine.begin, all.begin() + mine.end);
    if (peer == core.rank()) {
      const std::span<const Piece> all_rows = rows;
      if (!rows.empty()) co_await core.copy(all_rows);
      for (const Piece& row : rows) core.discard(row.from, row_stride());
    } else if (!rows.empty()) {
      const std::span<const Piece> message = rows;
      const PutHandle handle = co_await core.put(peer, message);
      sent.push_back({handle, std::move(rows)});
      co_await core.fence();
    }
    co_await core.store(peer, flag(direction, part, core.rank(), channel), call);
  }
}

emu::Task PipelinedLayer::give_up(Core& core, std::vector<Sent> sent) const {
  for (const Sent& each : sent) {
    co_await core.wait_local(each.handle);
    for (const Piece& row : each.pieces) core.discard(row.from, row_stride());
  }
}

// Every core that asks for a part waits for all who have something in it.
emu::Task PipelinedLayer::wait_flags(Core& core, Direction direction, std::uint32_t part,
                                     std::uint32_t call) {
  for (std::uint32_t turn = 1; turn <= core.ranks(); ++turn) {
    const std::uint32_t peer = (core.rank() + core.ranks() - turn) % core.ranks();
    const bool out = direction == kOut;
    if (!(out ? meets(peer, core.rank(), part) : meets(core.rank(), peer, part))) continue;
    const auto writer = [peer, part, out](std::uint32_t channel) {
      return fmt::format("device {} ({} of part {}, channel {})", peer, out ? "rows" : "outputs",
                         part, channel);
    };
    const Slots slots{flag(direction, part, peer, 0), 4, 4, channels_, 0};
    const devices::Predicate called = devices::word_equals(call);
    co_await core.wait_until(slots, called, writer);
  }
}

// Lists are dealt to the cores; their outputs are there at once.
void PipelinedLayer::take_rows(Core& core, std::uint32_t part) {
  const CoreTeam team = compute();
  const std::uint32_t lists = local_experts(core.rank()) * core.ranks();
  std::vector<ExpertRow> rows;
  for (std::uint32_t list = team.index(core); list < lists; list += team.count) {
    const std::uint32_t source = list % core.ranks();
    const std::uint32_t local = list / core.ranks();
    if (!meets(source, core.rank(), part)) continue;
    const Share in_part = places(core, source, problem_.placement.begin(core.rank()) + local, part);
    for (std::uint32_t at = in_part.begin; at < in_part.end; ++at) {
      const Address from = row_at(taken_, list, at);
      core.accept(from, plan_.row_bytes);
      if (const auto index = index_of(core, from, at)) {
        rows.push_back({local, source, *index, from, row_at(outputs_, list, at)});
        continue;
      }
      // What experts make of padding: zeros, of which the host keeps only that they are there.
      core.discard(from, row_stride());
      core.note_write(row_at(outputs_, list, at), output_row_bytes(), devices::Verb::kRow);
      if (!problem_.control) {
        core.memory().store(row_at(outputs_, list, at), std::uint16_t{0});
      } else {
        put_identity(head(core.memory(), row_at(outputs_, list, at)), 0);
      }
    }
  }
  apply_experts(core, rows);
  for (const ExpertRow& row : rows) core.discard(row.from, row_stride());
}

// Shared experts take this device's tokens along with the first part.
std::vector<GemmGroup> PipelinedLayer::products(Core& core, std::uint32_t iteration,
                                                std::uint32_t part, bool up) {
  std::vector<GemmGroup> groups = expert_groups(core.rank(), iteration, up);
  const std::uint32_t locals = local_experts(core.rank());
  for (std::uint32_t local = 0; local < locals; ++local) {
    groups[local].rows = 0;
    for (std::uint32_t source = 0; source < core.ranks(); ++source) {
      if (!meets(source, core.rank(), part)) continue;
      const std::uint32_t expert = problem_.placement.begin(core.rank()) + local;
      groups[local].rows += places(core, source, expert, part).size();
    }
  }
  if (part > 0) groups.resize(locals);
  return groups;
}

emu::Task PipelinedLayer::run_part(Core& core, std::uint32_t iteration, std::uint32_t part) {
  const CoreTeam team = compute();
  const double weight_bytes = problem_.workload.weight_bytes();
  const std::uint32_t call = iteration + 1;
  take_rows(core, part);
  core.phase("up projections");
  co_await grouped_gemm(core, products(core, iteration, part, true), weight_bytes, team);
  if (is_sequential()) {
    co_await core.next_kernel();
  } else {
    co_await meetings_.meet(core, team, part * kMeetings + kUpDone, call);
  }
  core.phase("down projections");
  co_await grouped_gemm(core, products(core, iteration, part, false), weight_bytes, team);
  if (!is_sequential()) co_await meetings_.meet(core, team, part * kMeetings + kDownDone, call);
}

// Tokens are split over the cores: each one's rows are gathered and added in ascending k.
emu::Task PipelinedLayer::decode(Core& core, std::uint32_t iteration) {
  core.phase("decode");
  const std::uint32_t top_k = problem_.top_k();
  const Share mine = share(tokens(core.rank(), iteration), core.count(), core.index());
  const Share experts = share(problem_.placement.experts(), core.count(), core.index());
  for (std::uint32_t expert = experts.begin; expert < experts.end; ++expert) {
    const Share unused = padding(core, expert);
    for (std::uint32_t at = unused.begin; at < unused.end; ++at) {
      core.discard(row_at(returned_, expert, at), row_stride());
    }
  }
  for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
    std::vector<WeightedRow> rows;
    const auto ids = ids_of(core, token);
    for (std::uint32_t k = 0; k < top_k; ++k) {
      if (ids[k] < 0) continue;
      const auto place = place_of(core, token * top_k + k);
      if (!place) continue;
      const auto expert = static_cast<std::uint32_t>(ids[k]);
      rows.push_back({row_at(returned_, expert, *place), weights_of(core, token)[k]});
    }
    co_await add_rows(core, token, std::move(rows));
  }
}

}  // namespace orrery::moe
