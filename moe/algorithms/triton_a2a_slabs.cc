// Triton-distributed's all-to-all, v1: rows permuted by expert, one slab per peer.
#include "moe/algorithms/triton_a2a.h"
#include "moe/share.h"

namespace orrery::moe::triton {

using devices::Core;
using devices::Piece;

namespace {
// Vector passes to find the places of entries in the permuted list, as nccl-bsp's.
constexpr int kPlacePasses = 4;
}  // namespace

// Tokens are split over the cores; each goes to the places of its entries, by owner, then expert.
emu::Task TritonA2a::permute(Core& core, std::uint32_t iteration) {
  core.phase("permute");
  const std::uint32_t top_k = problem_.top_k();
  const std::uint32_t entries = tokens(core.rank(), iteration) * top_k;
  const auto ids = core.array<std::int32_t>(this->ids(), entries);
  const Share mine = share(tokens(core.rank(), iteration), core.count(), core.index());
  // By expert: rows of it, then the place of its next one.
  std::vector<std::uint32_t> next(problem_.placement.experts(), 0);
  for (const std::int32_t id : ids) {
    if (id >= 0) ++next[static_cast<std::size_t>(id)];
  }
  std::uint32_t before = 0;
  for (std::uint32_t expert = 0; expert < next.size(); ++expert) {
    if (problem_.placement.local_index(expert) == 0) before = 0;
    before += std::exchange(next[expert], before);
  }
  for (std::uint32_t entry = 0; entry < mine.begin * top_k; ++entry) {
    if (ids[entry] >= 0) ++next[static_cast<std::size_t>(ids[entry])];
  }
  co_await core.stream(entries * sizeof(std::int32_t));
  co_await core.compute(kPlacePasses * core.costs().vector(entries));
  for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
    co_await core.stream(output_row_bytes());
    co_await core.compute(cast_time());
    fabric::Address encoded = 0;
    float scale = 0;
    for (std::uint32_t entry = token * top_k; entry < (token + 1) * top_k; ++entry) {
      if (ids[entry] < 0) continue;
      const auto expert = static_cast<std::uint32_t>(ids[entry]);
      const std::uint32_t peer = problem_.placement.owner(expert);
      const std::uint32_t place = next[expert]++;
      const fabric::Address row = at_.slab_out(peer, place);
      if (encoded == 0) {
        scale = write_message(core, token, entry % top_k, row);
      } else {
        write_message(core, token, entry % top_k, row, encoded, scale);
      }
      encoded = row;
      core.write(at_.place(entry), place);
      core.write(at_.scale_out(peer, place), scale);
      co_await core.stream(message_bytes());
    }
  }
}

// Of this call to `peer`: those for its experts, or those of its tokens that are here.
std::uint32_t TritonA2a::slab_rows(Core& core, Call call, std::uint32_t peer) const {
  const std::uint32_t locals = local_experts(call.back ? core.rank() : peer);
  const fabric::Address splits =
      call.back ? at_.splits_in(call.set ^ 1, peer) : at_.splits_out(peer);
  std::uint32_t rows = 0;
  for (const std::uint32_t each : core.array<std::uint32_t>(splits, locals)) rows += each;
  return rows;
}

emu::Task TritonA2a::put_slab(Core& core, Call call, std::uint32_t peer, std::vector<Sent>& sent) {
  const std::uint32_t rows = slab_rows(core, call, peer);
  if (rows > 0) {
    Sent slab;
    std::vector<Piece> pieces;
    for (std::uint32_t row = 0; row < rows; ++row) {
      const fabric::Address from = at_.slab_out(peer, row);
      pieces.push_back({at_.slab_in(call.set, core.rank(), row), from,
                        call.back ? output_row_bytes() : message_bytes()});
      slab.rows.push_back(from);
    }
    const std::span<const Piece> all = pieces;
    slab.handle = co_await core.put(peer, all);
    sent.push_back(std::move(slab));
  }
  if (call.back) co_return;
  if (local_experts(peer) > 0) {
    const devices::PutHandle splits = co_await core.put(
        peer, at_.splits_in(call.set, core.rank()), at_.splits_out(peer), local_experts(peer) * 4);
    sent.push_back({splits, {}});
  }
  if (precision_ == Precision::kInt8) co_await put_scales(core, call, peer, rows, sent);
}

// As the source has it the signal rides on this put, so that nothing but the fabric's order keeps
// it behind the slab's.
emu::Task TritonA2a::put_scales(Core& core, Call call, std::uint32_t peer, std::uint32_t rows,
                                std::vector<Sent>& sent) {
  const fabric::Address to = at_.scale_in(call.set, core.rank(), 0);
  const fabric::Address from = at_.scale_out(peer, 0);
  const fabric::Address signal = at_.signal(call.set, core.rank());
  const bool riding = rides(call) && !drops(core, peer);
  if (riding && rows > 0) {
    const devices::PutHandle scales =
        co_await core.put_signal(peer, to, from, rows * 4, signal, call.number);
    sent.push_back({scales, {}});
  } else if (riding) {
    co_await core.signal(peer, signal, call.number, false);
  } else if (rows > 0) {
    const devices::PutHandle scales = co_await core.put(peer, to, from, rows * 4);
    sent.push_back({scales, {}});
  }
}

// Blocks of (local expert, source), in that order, are split over the cores: where their rows are.
std::vector<TritonA2a::Place> TritonA2a::places(Core& core, std::uint32_t set) const {
  const std::uint32_t locals = local_experts(core.rank());
  std::vector<std::span<const std::uint32_t>> splits;
  for (std::uint32_t source = 0; source < core.ranks(); ++source) {
    splits.push_back(core.array<std::uint32_t>(at_.splits_in(set, source), locals));
  }
  const Share mine = share(locals * core.ranks(), core.count(), core.index());
  std::vector<std::uint64_t> in_slab(core.ranks(), 0);
  std::vector<Place> found;
  std::uint64_t row = 0;
  for (std::uint32_t block = 0; block < mine.end; ++block) {
    const std::uint32_t source = block % core.ranks();
    const std::uint32_t rows = splits[source][block / core.ranks()];
    for (std::uint32_t i = 0; i < rows; ++i, ++in_slab[source], ++row) {
      if (block >= mine.begin) found.push_back({source, in_slab[source], row});
    }
  }
  return found;
}

// From slabs to the rows of each expert.
emu::Task TritonA2a::sort(Core& core, Call call) {
  core.phase("sort");
  const std::vector<Place> mine = places(core, call.set);
  for (const Place& each : mine) {
    co_await take_message(core, at_.slab_in(call.set, each.source, each.in_slab), each.row);
    if (precision_ == Precision::kInt8) {
      const fabric::Address from = at_.scale_in(call.set, each.source, each.in_slab);
      core.write(scale(each.row), core.load<float>(from));
    }
  }
  const Share experts = share(local_experts(core.rank()), core.count(), core.index());
  for (std::uint32_t local = experts.begin; local < experts.end; ++local) {
    std::uint32_t rows = 0;
    for (std::uint32_t source = 0; source < core.ranks(); ++source) {
      rows += core.load<std::uint32_t>(at_.splits_in(call.set, source) + local * 4ull);
    }
    core.write(expert_rows(local), rows);
  }
}

// And back: the call before this one brought the rows.
emu::Task TritonA2a::unsort(Core& core, Call call) {
  core.phase("unsort");
  const std::vector<Place> mine = places(core, call.set ^ 1);
  for (const Place& each : mine) {
    co_await core.move(at_.slab_out(each.source, each.in_slab), expert_output(each.row),
                       output_row_bytes());
  }
}

}  // namespace orrery::moe::triton
