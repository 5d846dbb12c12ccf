// Triton-distributed's all-to-all, v2: a put per row into [local expert][source][slot], all cores
// meet, then each peer gets its counts and a signal.
#include "moe/algorithms/triton_a2a.h"
#include "moe/share.h"

namespace orrery::moe::triton {

using devices::Core;

// What this core has put is visible before the signals of other cores, once all have met.
emu::Task TritonA2a::release(Core& core) {
  if (release_ == Release::kQueuePair) {
    co_await core.release_stores();
  } else if (release_ == Release::kFence) {
    co_await core.release();
  }
}

// Tokens are dealt to the cores. A row's slot is the next one of its expert, whichever core asks.
emu::Task TritonA2a::send_tokens(Core& core, std::uint32_t iteration, Call call) {
  core.phase("send tokens");
  const std::uint32_t top_k = problem_.top_k();
  const std::uint32_t count = tokens(core.rank(), iteration);
  const auto ids = core.array<std::int32_t>(this->ids(), std::uint64_t{count} * top_k);
  for (std::uint32_t token = core.index(); token < count; token += core.count()) {
    co_await core.stream(output_row_bytes() + top_k * sizeof(std::int32_t));
    const fabric::Address staged = at_.staged(token, top_k);
    const float scale = encode(core, token, staged);
    co_await core.compute(cast_time());
    co_await core.stream(payload_bytes());
    for (std::uint32_t k = 0; k < top_k; ++k) {
      const std::int32_t id = ids[std::size_t{token} * top_k + k];
      if (id < 0) continue;
      const auto expert = static_cast<std::uint32_t>(id);
      const std::uint32_t peer = problem_.placement.owner(expert);
      const std::uint32_t slot = co_await core.fetch_add(at_.next_slot(expert), 1);
      const fabric::Address row = at_.message(token, k, top_k);
      write_message(core, token, k, row, staged, scale);
      use_queue_to(core, peer);
      co_await core.give(
          peer,
          at_.dispatch_slot(call.set, problem_.placement.local_index(expert), core.rank(), slot),
          row, message_bytes());
    }
    core.discard(staged, row_stride());
  }
  co_await release(core);
  co_await core.barrier();
}

// The rows of each of the peer's experts: the slots that are taken. The next call begins at 0.
emu::Task TritonA2a::put_counts(Core& core, Call call, std::uint32_t peer,
                                std::vector<Sent>& sent) {
  const std::uint32_t locals = local_experts(peer);
  if (locals == 0) co_return;
  for (std::uint32_t local = 0; local < locals; ++local) {
    const fabric::Address taken = at_.next_slot(problem_.placement.begin(peer) + local);
    core.write(at_.splits_out(peer) + local * 4ull, core.load<std::uint32_t>(taken));
    core.write(taken, std::uint32_t{0});
  }
  co_await core.stream(2ull * locals * 4);
  const devices::PutHandle handle = co_await core.put(peer, at_.splits_in(call.set, core.rank()),
                                                      at_.splits_out(peer), locals * 4);
  sent.push_back({handle, {}});
}

// Local experts are split over the cores, each of whose sources' rows follow one another.
emu::Task TritonA2a::receive_tokens(Core& core, Call call) {
  core.phase("receive");
  const std::uint32_t experts = local_experts(core.rank());
  const Share mine = share(experts * core.ranks(), core.count(), core.index());
  std::uint32_t begin = 0;
  for (std::uint32_t list = 0; list < experts * core.ranks(); ++list) {
    const std::uint32_t local = list / core.ranks();
    const std::uint32_t source = list % core.ranks();
    if (source == 0) begin = 0;
    const auto rows = core.load<std::uint32_t>(at_.splits_in(call.set, source) + local * 4ull);
    if (list >= mine.begin && list < mine.end) {
      core.write(at_.list_begin(local, source), begin);
      for (std::uint32_t n = 0; n < rows; ++n) {
        const fabric::Address from = at_.dispatch_slot(call.set, local, source, n);
        const std::uint64_t row = first_row(local) + begin + n;
        co_await take_message(core, from, row);
      }
      if (source == core.ranks() - 1) core.write(expert_rows(local), begin + rows);
    }
    begin += rows;
  }
  co_await core.stream(4ull * experts * core.ranks());
}

// Lists of (origin, local expert) are split over the cores. A row's slot at its origin is that of
// (expert, token); a token that names an expert twice gets the same bytes there twice.
emu::Task TritonA2a::send_outputs(Core& core, Call call) {
  core.phase("send outputs");
  const std::uint32_t experts = local_experts(core.rank());
  const Share mine = share(experts * core.ranks(), core.count(), core.index());
  for (std::uint32_t list = mine.begin; list < mine.end; ++list) {
    const std::uint32_t local = list % experts;
    const std::uint32_t origin = list / experts;
    const std::uint32_t expert = problem_.placement.begin(core.rank()) + local;
    const auto rows = core.load<std::uint32_t>(at_.splits_in(call.set ^ 1, origin) + local * 4ull);
    const auto begin = core.load<std::uint32_t>(at_.list_begin(local, origin));
    use_queue_to(core, origin);
    for (std::uint32_t n = 0; n < rows; ++n) {
      const std::uint64_t row = first_row(local) + begin + n;
      const auto token = core.load<RowTag>(tag(row)).token;
      co_await core.stream(output_row_bytes());
      co_await core.give(origin, at_.combine_slot(call.set, expert, token), expert_output(row),
                         output_row_bytes());
    }
  }
  co_await release(core);
  co_await core.barrier();
}

}  // namespace orrery::moe::triton
