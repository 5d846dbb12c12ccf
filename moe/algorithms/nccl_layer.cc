#include "moe/algorithms/nccl_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "moe/share.h"

namespace orrery::moe {

using devices::Piece;
using devices::PutHandle;
using devices::Slots;

namespace {
// Vector passes to find the places of entries in the permuted list.
constexpr int kPlacePasses = 4;
}  // namespace

NcclLayer::NcclLayer(const Problem& problem, const Options& options, Precision precision,
                     Sizes sizes)
    : MessageLayer(problem, precision),
      NcclBuffers(layout_, problem, row_stride(),
                  channels_of(options.number("channels", 0, 1024), problem), sizes),
      counts_(problem, layout_),
      probs_(options.flag("probs")),
      first_call_(static_cast<std::uint32_t>(options.number("first_call", 1, ~std::uint32_t{0}))),
      sabotage_(options.text("sabotage")) {}

std::vector<OptionSpec> NcclLayer::nccl_options(const char* probs) {
  return {
      {"channels",
       "0",
       "cores that share the way to one device; 0: all cores, at least one each",
       {}},
      {"probs",
       probs,
       "a second all-to-all for the rows' weights, as the source has",
       {"false", "true"}},
      {"first_call", "1", "number of the first call, which signals carry; near 2^32 it wraps", {}},
      {"sabotage",
       "none",
       "break it on purpose, to see how that looks",
       {"none", "drop-signal", "skip-fence", "skip-wait", "wrong-prob"}}};
}

Verdict NcclLayer::verify(devices::DeviceProcess& device, std::uint32_t operation,
                          std::uint32_t iteration) {
  Verdict verdict = MoeLayer::verify(device, operation, iteration);
  if (operation != kDispatch || !probs_) return verdict;
  const fabric::Memory& memory = device.memory();
  for (std::uint64_t row = 0; row < rows(device.rank(), iteration) && verdict.ok; ++row) {
    const auto from = memory.load<RowTag>(tag(row));
    const float want = problem_.tables[iteration].weights(from.source, from.token)[from.k];
    if (memory.load<float>(expert_probs(row)) == want) continue;
    verdict.ok = false;
    verdict.what = fmt::format("row {} has the weight of another one", row);
  }
  return verdict;
}

NcclSplits::Places NcclLayer::blocks(Core& core) const {
  const std::uint32_t all = local_experts(core.rank()) * core.ranks();
  return splits(core).sorted(share(all, core.count(), core.index()));
}

emu::Task NcclLayer::dispatch(Core& core, std::uint32_t iteration) {
  co_await plan(core, iteration);
  co_await permute(core, iteration);
  co_await pad(core, iteration);
  co_await core.next_kernel();
  const Buffers rows{permuted, by_source(iteration), message_bytes(), false};
  co_await all_to_all(core, kRows, rows, iteration);
  if (probs_) {
    co_await core.next_kernel();
    const Buffers probs{permuted_probs, probs_by_source(iteration), 4, true};
    co_await all_to_all(core, kProbs, probs, iteration);
  }
  co_await core.next_kernel();
  co_await sort_chunks(core, iteration);
}

emu::Task NcclLayer::plan(Core& core, std::uint32_t iteration) {
  const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
  co_await counts_.histogram(core, ids(), entries);
  co_await core.next_kernel();
  co_await counts_.gather(core, call(iteration), sabotage_ != "skip-fence");
  if (sabotage_ != "skip-wait") co_await counts_.wait_counts(core, call(iteration));
  counts_.read(core);
  co_await core.host_sync();
}

emu::Task NcclLayer::pad(Core&, std::uint32_t) { co_return; }

// Tokens are split over the cores; each goes to the places of its entries in a list by expert.
emu::Task NcclLayer::permute(Core& core, std::uint32_t iteration) {
  core.phase("permute");
  const std::uint32_t top_k = problem_.top_k();
  const std::uint32_t entries = tokens(core.rank(), iteration) * top_k;
  const auto ids = core.array<std::int32_t>(this->ids(), entries);
  const auto weights = core.array<float>(this->weights(), entries);
  const Share mine = share(tokens(core.rank(), iteration), core.count(), core.index());
  const bool wrong = sabotage_ == "wrong-prob";
  std::vector<std::uint32_t> next = splits(core).starts();
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
      const std::uint32_t to = next[static_cast<std::size_t>(ids[entry])]++;
      if (encoded == 0) {
        scale = write_message(core, token, entry % top_k, permuted(to));
      } else {
        write_message(core, token, entry % top_k, permuted(to), encoded, scale);
      }
      encoded = permuted(to);
      core.write(place(entry), to);
      core.write(permuted_probs(to), weights[entry] + (wrong && entry == 0 ? 1.0f : 0.0f));
      co_await core.stream(message_bytes());
    }
  }
}

// Every device gets its chunk in one bulk put per channel, then a signal; the own one is copied.
// Each device begins with another one. Ends when everybody's signals are there.
emu::Task NcclLayer::all_to_all(Core& core, Exchange exchange, Buffers rows,
                                std::uint32_t iteration) {
  core.phase(exchange == kProbs ? "all-to-all of probs" : "all-to-all");
  const Share mine = share(core.ranks() * channels(), core.count(), core.index());
  std::vector<std::pair<PutHandle, std::vector<Piece>>> sent;
  for (std::uint32_t task = mine.begin; task < mine.end; ++task) {
    const std::uint32_t peer = (core.rank() + task) % core.ranks();
    const std::uint32_t channel = task / core.ranks();
    const Chunk chunk = exchange == kOutputs ? splits(core).back(peer) : splits(core).forth(peer);
    const Share part = share(chunk.count, channels(), channel);
    std::vector<Piece> pieces;
    for (std::uint32_t i = part.begin; i < part.end; ++i) {
      pieces.push_back({rows.to(chunk.to + i), rows.from(chunk.from + i), rows.bytes});
    }
    if (rows.flat && !pieces.empty()) {
      pieces.front().bytes *= part.size();
      pieces.resize(1);
    }
    if (peer == core.rank()) {
      for (const Piece& each : pieces) {
        if (rows.flat) {
          co_await core.copy(each.to, each.from, each.bytes);
        } else {
          co_await core.move(each.to, each.from, each.bytes);
        }
      }
    } else if (!pieces.empty()) {
      const std::span<const Piece> all = pieces;
      const PutHandle handle = co_await core.put(peer, all);
      sent.emplace_back(handle, std::move(pieces));
      if (sabotage_ != "skip-fence") co_await core.fence();
    }
    if (sabotage_ == "drop-signal" && exchange == kRows && core.rank() == 0 && peer == 1) continue;
    co_await core.store(peer, signal(exchange, iteration, core.rank(), channel), call(iteration));
  }
  for (const auto& [handle, pieces] : sent) {
    co_await core.wait_local(handle);
    for (const Piece& each : pieces) {
      if (!rows.flat) core.discard(each.from, rows.from.stride);
    }
  }
  co_await wait_signals(core, exchange, iteration);
}

// Signals are split over the cores.
emu::Task NcclLayer::wait_signals(Core& core, Exchange exchange, std::uint32_t iteration) {
  const std::uint32_t channels = this->channels();
  const Share mine = share(core.ranks() * channels, core.count(), core.index());
  const auto writer = [&core, mine, channels](std::uint32_t slot) {
    const std::uint32_t source = (mine.begin + slot) / channels;
    const std::uint32_t channel = (mine.begin + slot) % channels;
    const std::uint32_t turn = (core.rank() + core.ranks() - source) % core.ranks();
    const std::uint32_t task = channel * core.ranks() + turn;
    return fmt::format("device {} core {} (signal of channel {})", source,
                       share_of(core.ranks() * channels, core.count(), task), channel);
  };
  const Slots slots{signal(exchange, iteration, 0, 0) + mine.begin * 4ull, 4, 4, mine.size(), 0};
  const devices::Predicate called = devices::word_equals(call(iteration));
  co_await core.wait_until(slots, called, writer);
}

// From source-major to expert-major.
emu::Task NcclLayer::sort_chunks(Core& core, std::uint32_t iteration) {
  core.phase("sort chunks");
  const NcclSplits::Places places = blocks(core);
  for (const auto& [source, row] : places) {
    co_await take_message(core, by_source(iteration)(source), row);
    take_prob(core, iteration, source, row);
  }
  const Share mine = share(local_experts(core.rank()), core.count(), core.index());
  for (std::uint32_t local = mine.begin; local < mine.end; ++local) {
    core.write(expert_rows(local), splits(core).rows_of(local));
  }
}

// Tokens are split over the cores: add the rows of a token's entries in ascending k.
emu::Task NcclLayer::unpermute(Core& core, std::uint32_t iteration) {
  core.phase("unpermute");
  const std::uint32_t top_k = problem_.top_k();
  const Share mine = share(tokens(core.rank(), iteration), core.count(), core.index());
  for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
    std::vector<WeightedRow> rows;
    for (std::uint32_t entry = token * top_k; entry < (token + 1) * top_k; ++entry) {
      if (core.load<std::int32_t>(ids() + entry * 4ull) < 0) continue;
      const fabric::Address row = returned(core.load<std::uint32_t>(place(entry)));
      rows.push_back({row, core.load<float>(weights() + entry * 4ull)});
    }
    co_await add_rows(core, token, std::move(rows));
  }
}

emu::Task NcclLayer::unsort_chunks(Core& core) {
  core.phase("unsort chunks");
  const NcclSplits::Places places = blocks(core);
  for (const auto& [source, row] : places) {
    co_await core.move(unsorted(source), expert_output(row), output_row_bytes());
  }
}

emu::Task NcclLayer::combine(Core& core, std::uint32_t iteration) {
  co_await unsort_chunks(core);
  co_await core.next_kernel();
  const Buffers rows{unsorted, returned, output_row_bytes(), false};
  co_await all_to_all(core, kOutputs, rows, iteration);
  co_await core.next_kernel();
  co_await unpermute(core, iteration);
  drop_padding(core, iteration);
}

}  // namespace orrery::moe
