// Dispatch and combine as training frameworks do it on collectives: exchange counts, let the host
// read them, then one variable all-to-all; every step is a kernel of its own.
//
// Source: NVIDIA/Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py
// (MoEAlltoAllTokenDispatcher), as read for this project; its collectives as bulk puts with a fence
// and a signal. Weights are applied where the source's unpermute applies them, at the origin.
#include <fmt/format.h>

#include <vector>

#include "moe/algorithms/nccl_buffers.h"
#include "moe/algorithms/nccl_splits.h"
#include "moe/message_layer.h"
#include "moe/share.h"

namespace orrery::moe {

namespace {

using devices::Core;
using devices::Piece;
using devices::Predicate;
using devices::PutHandle;
using devices::Slots;

// Vector passes to find the places of entries in the permuted list.
constexpr int kPlacePasses = 4;

class NcclBsp final : public MessageLayer, private NcclBuffers {
 public:
  NcclBsp(const Problem& problem, const Options& options)
      : MessageLayer(problem, precision_named(options.text("quantise"))),
        NcclBuffers(layout_, problem, row_stride(),
                    channels(options.number("channels", 0, 1024), problem)),
        probs_(options.flag("probs")),
        first_call_(static_cast<std::uint32_t>(options.number("first_call", 1, ~std::uint32_t{0}))),
        sabotage_(options.text("sabotage")) {}

  // Fences do it all; a signal is one word.
  Contract contract() const override { return {Contract::Order::kNone, 4}; }

  // With the weights exchanged, those at the experts must be those of their rows.
  Verdict verify(devices::DeviceProcess& device, std::uint32_t operation,
                 std::uint32_t iteration) override {
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

 private:
  struct Buffers {
    Rows from;
    Rows to;
    std::uint32_t bytes;  // of a row
    bool flat;            // rows without gaps, in one piece
  };

  // By default every core has a channel to some device.
  static std::uint32_t channels(std::uint64_t option, const Problem& problem) {
    return option > 0 ? static_cast<std::uint32_t>(option)
                      : std::max(1u, problem.costs.cores / problem.devices);
  }

  // What the host knows from the counts that it read in dispatch.
  NcclSplits splits(Core& core) const {
    return {core.array<std::uint32_t>(host_counts(0), matrix()), problem_.placement, core.rank()};
  }
  NcclSplits::Places blocks(Core& core) const {
    const std::uint32_t all = local_experts(core.rank()) * core.ranks();
    return splits(core).sorted(share(all, core.count(), core.index()));
  }

  emu::Task dispatch(Core& core, std::uint32_t iteration) override {
    const std::uint32_t call = first_call_ + iteration;
    co_await histogram(core, iteration);
    co_await core.next_kernel();
    co_await exchange_counts(core, call);
    if (sabotage_ != "skip-wait") co_await wait_signals(core, kCounts, call);
    read_counts(core);
    co_await core.host_sync();
    co_await permute(core, iteration);
    co_await core.next_kernel();
    const Buffers rows{permuted, by_source, message_bytes(), false};
    co_await all_to_all(core, kRows, rows, call);
    if (probs_) {
      co_await core.next_kernel();
      const Buffers probs{permuted_probs, probs_by_source, 4, true};
      co_await all_to_all(core, kProbs, probs, call);
    }
    co_await core.next_kernel();
    co_await sort_chunks(core);
  }

  // Experts are split over the cores: each is a column of the routing map, summed over the tokens.
  emu::Task histogram(Core& core, std::uint32_t iteration) {
    core.phase("histogram");
    const std::uint32_t count = tokens(core.rank(), iteration);
    const auto ids = core.array<std::int32_t>(this->ids(), std::uint64_t{count} * problem_.top_k());
    const Share mine = share(problem_.placement.experts(), core.count(), core.index());
    std::vector<std::uint32_t> rows(mine.size(), 0);
    for (const std::int32_t id : ids) {
      const auto expert = static_cast<std::uint32_t>(id);
      if (id >= 0 && expert >= mine.begin && expert < mine.end) ++rows[expert - mine.begin];
    }
    co_await core.stream(ids.size_bytes());
    co_await core.compute(mine.size() * core.costs().vector(count));
    for (std::uint32_t i = 0; i < mine.size(); ++i) {
      core.write(counts(core.rank()) + (mine.begin + i) * 4ull, rows[i]);
    }
  }

  // All-gather: every device's counts to every device.
  emu::Task exchange_counts(Core& core, std::uint32_t call) {
    core.phase("count exchange");
    const std::uint32_t bytes = problem_.placement.experts() * 4;
    const fabric::Address row = counts(core.rank());
    const Share mine = share(core.ranks(), core.count(), core.index());
    PutHandle last;
    for (std::uint32_t i = mine.begin; i < mine.end; ++i) {
      const std::uint32_t peer = (core.rank() + i) % core.ranks();
      if (peer != core.rank()) {
        last = co_await core.put(peer, row, row, bytes);
        if (sabotage_ != "skip-fence") co_await core.fence();
      }
      co_await core.store(peer, signal(kCounts, core.rank(), 0), call);
    }
    co_await core.wait_local(last);
  }

  // What this core waited for, for the host: its time is that of the host synchronisation.
  void read_counts(Core& core) const {
    const Share mine = share(core.ranks(), core.count(), core.index());
    const std::uint32_t experts = problem_.placement.experts();
    const auto read =
        core.array<std::uint32_t>(counts(mine.begin), std::uint64_t{mine.size()} * experts);
    const fabric::Address to = host_counts(mine.begin);
    for (std::size_t i = 0; i < read.size(); ++i) core.write(to + i * 4, read[i]);
  }

  // Signals are split over the cores.
  emu::Task wait_signals(Core& core, Exchange exchange, std::uint32_t call) {
    const std::uint32_t channels = channels_of(exchange);
    const Share mine = share(core.ranks() * channels, core.count(), core.index());
    const auto writer = [&core, mine, channels](std::uint32_t slot) {
      const std::uint32_t source = (mine.begin + slot) / channels;
      const std::uint32_t channel = (mine.begin + slot) % channels;
      const std::uint32_t turn = (core.rank() + core.ranks() - source) % core.ranks();
      const std::uint32_t task = channel * core.ranks() + turn;
      return fmt::format("device {} core {} (signal of channel {})", source,
                         share_of(core.ranks() * channels, core.count(), task), channel);
    };
    const Slots slots{signal(exchange, 0, 0) + mine.begin * 4ull, 4, 4, mine.size(), 0};
    const Predicate called = devices::word_equals(call);
    co_await core.wait_until(slots, called, writer);
  }

  // Tokens are split over the cores; each goes to the places of its entries in a list by expert.
  emu::Task permute(Core& core, std::uint32_t iteration) {
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
  emu::Task all_to_all(Core& core, Exchange exchange, Buffers rows, std::uint32_t call) {
    core.phase(exchange == kProbs ? "all-to-all of probs" : "all-to-all");
    const Share mine = share(core.ranks() * channels_of(kRows), core.count(), core.index());
    std::vector<std::pair<PutHandle, std::vector<Piece>>> sent;
    for (std::uint32_t task = mine.begin; task < mine.end; ++task) {
      const std::uint32_t peer = (core.rank() + task) % core.ranks();
      const std::uint32_t channel = task / core.ranks();
      const Chunk chunk = exchange == kOutputs ? splits(core).back(peer) : splits(core).forth(peer);
      const Share part = share(chunk.count, channels_of(kRows), channel);
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
      if (sabotage_ == "drop-signal" && exchange == kRows && core.rank() == 0 && peer == 1)
        continue;
      co_await core.store(peer, signal(exchange, core.rank(), channel), call);
    }
    for (const auto& [handle, pieces] : sent) {
      co_await core.wait_local(handle);
      for (const Piece& each : pieces) {
        if (!rows.flat) core.discard(each.from, rows.from.stride);
      }
    }
    co_await wait_signals(core, exchange, call);
  }

  // From source-major to expert-major.
  emu::Task sort_chunks(Core& core) {
    core.phase("sort chunks");
    const NcclSplits::Places places = blocks(core);
    for (const auto& [source, row] : places) {
      co_await take_message(core, by_source(source), row);
      if (probs_) {
        core.write(expert_probs(row), core.load<float>(probs_by_source(source)));
      }
    }
    const Share mine = share(local_experts(core.rank()), core.count(), core.index());
    for (std::uint32_t local = mine.begin; local < mine.end; ++local) {
      core.write(expert_rows(local), splits(core).rows_of(local));
    }
  }

  emu::Task combine(Core& core, std::uint32_t iteration) override {
    core.phase("unsort chunks");
    const NcclSplits::Places places = blocks(core);
    for (const auto& [source, row] : places) {
      co_await core.move(unsorted(source), expert_output(row), output_row_bytes());
    }
    co_await core.next_kernel();
    const Buffers rows{unsorted, returned, output_row_bytes(), false};
    co_await all_to_all(core, kOutputs, rows, first_call_ + iteration);
    co_await core.next_kernel();
    co_await unpermute(core, iteration);
  }

  // Tokens are split over the cores: add the rows of a token's entries in ascending k.
  emu::Task unpermute(Core& core, std::uint32_t iteration) {
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

  const bool probs_;
  const std::uint32_t first_call_;
  const std::string sabotage_;
};

}  // namespace

ORRERY_ALGORITHM(
    nccl_bsp, "nccl-bsp",
    "count exchange, host synchronisation, variable all-to-all, as on collectives", NcclBsp,
    {{"quantise",
      "bf16",
      "dispatch payload: bf16, or int8 with one scale per row",
      {"bf16", "int8"}},
     {"channels",
      "0",
      "cores that share the way to one device; 0: all cores, at least one each",
      {}},
     {"probs",
      "false",
      "a second all-to-all for the rows' weights, as the source has",
      {"false", "true"}},
     {"first_call", "1", "number of the first call, which signals carry; near 2^32 it wraps", {}},
     {"sabotage",
      "none",
      "break it on purpose, to see how that looks",
      {"none", "drop-signal", "skip-fence", "skip-wait", "wrong-prob"}}})

}  // namespace orrery::moe
