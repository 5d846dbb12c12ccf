// DeepEP's low-latency dispatch and combine, by loads and stores and, between nodes, over NICs: a
// message per (token, expert) into a slot that the sender picks, one count per (expert, source)
// that follows the rows of all cores, receivers that pack what comes in the order in which it
// comes.
//
// Source: deepseek-ai/DeepEP, csrc/kernels/legacy/internode_ll.cu and csrc/legacy/config.hpp, as
// read for this project. Its warps are not modelled: a core (SM) sends one message at a time. Its
// limits (top-k of at most 11, hidden sizes of whole warps) come from that and are not kept here. A
// header stands behind its row instead of before it, so that the row need not move again.
#include <fmt/format.h>

#include <vector>

#include "moe/algorithms/deepep_ll_buffers.h"
#include "moe/message_layer.h"
#include "moe/share.h"

namespace orrery::moe {

namespace {

using devices::Core;
using devices::Predicate;
using devices::Slots;

// Vector passes to count an expert's rows: subtract, abs, min with 1, sum.
constexpr int kCountPasses = 4;

class DeepEpLl final : public MessageLayer, private DeepEpLlBuffers {
 public:
  DeepEpLl(const Problem& problem, const Options& options)
      : MessageLayer(problem, precision_named(options.text("quantise")), RowOrder::kAsTheyCome),
        DeepEpLlBuffers(layout_, problem, row_stride()),
        release_(options.text("release") != "trust-order"),
        by_queue_pair_(options.text("release") == "queue-pair"),
        hook_(options.flag("hook")),
        sabotage_(options.text("sabotage")) {}

  // A count follows the rows of all cores, a combine flag those of its own core; each is one word.
  // Where the fabric orders less than a pair of devices, acknowledgements must tell of visibility.
  Contract contract() const override {
    Contract contract{release_ ? Contract::Order::kNone : Contract::Order::kDevicePair, 4};
    if (by_queue_pair_) contract.scale_out_order = Contract::Order::kSignals;
    contract.needs_visible_acknowledgements = release_ && !by_queue_pair_;
    return contract;
  }

  void set_up(devices::DeviceProcess& device) override {
    for (std::uint32_t core = 0; core < problem_.costs.cores; ++core) {
      device.memory().store(calls(core), std::uint32_t{0});
    }
  }

 private:
  // Calls take turns whatever they are: dispatches alone as well.
  std::uint32_t next_set(Core& core) const {
    const auto before = core.load<std::uint32_t>(calls(core.index()));
    core.write(calls(core.index()), before + 1);
    return before % 2;
  }

  emu::Task dispatch(Core& core, std::uint32_t iteration) override {
    const std::uint32_t set = next_set(core);
    if (core.index() == 0) co_await clean_next(core, set ^ 1);
    co_await send_tokens(core, iteration, set);
    co_await send_counts(core, iteration, set);
    co_await second_phase(core);
    co_await receive(core, set);
  }

  // The other set is the next call's. A peer writes there when it has heard from this call of this
  // device; so nobody sends a count or a flag before it is clean.
  emu::Task clean_next(Core& core, std::uint32_t set) {
    core.phase("clean next");
    if (sabotage_ != "skip-clean") {
      for (std::uint64_t i = 0; i < words_of_set(); ++i)
        core.write(recv_word(set, i), std::uint32_t{0});
    }
    co_await core.stream(words_of_set() * 4);
    co_await core.store(core.rank(), cleaned(), std::uint32_t{1});
  }

  emu::Task wait_cleaned(Core& core) {
    const auto writer = [&core](std::uint32_t) {
      return fmt::format("device {} core 0 (next call's words are clean)", core.rank());
    };
    const Slots flag{cleaned()};
    const Predicate ready = devices::word_equals(1);
    co_await core.wait_until(flag, ready, writer);
  }

  // Between sending and receiving a dispatch all cores meet, as one kernel or as the end of a first
  // one.
  emu::Task second_phase(Core& core) {
    if (hook_) {
      co_await core.next_kernel();
    } else {
      co_await core.barrier();
    }
    if (core.index() == 0) core.write(cleaned(), std::uint32_t{0});
  }

  // What this core has sent is visible before whatever a core sends that learns of this; what NICs
  // send only if that takes the same queue pair.
  emu::Task release(Core& core) {
    if (by_queue_pair_) {
      co_await core.release_stores();
    } else if (release_) {
      co_await core.release();
    }
  }
  // As DeepEP does over InfiniBand: rows and count of an expert share a queue pair.
  void use_queue_of(Core& core, std::uint32_t local_expert) const {
    if (by_queue_pair_) core.use_queue(local_expert);
  }

  // Tokens are dealt to the cores. A row's slot is the next one of its expert, whichever core asks.
  emu::Task send_tokens(Core& core, std::uint32_t iteration, std::uint32_t set) {
    core.phase("send tokens");
    const std::uint32_t top_k = problem_.top_k();
    const std::uint32_t count = tokens(core.rank(), iteration);
    const auto ids = core.array<std::int32_t>(this->ids(), std::uint64_t{count} * top_k);
    std::vector<std::uint32_t> sent(problem_.placement.experts(), 0);
    for (std::uint32_t token = core.index(); token < count; token += core.count()) {
      co_await core.stream(output_row_bytes() + top_k * sizeof(std::int32_t));
      const float scale = encode(core, token, staged(token));
      co_await core.compute(cast_time());
      co_await core.stream(payload_bytes());
      for (std::uint32_t k = 0; k < top_k; ++k) {
        const std::int32_t id = ids[std::size_t{token} * top_k + k];
        if (id < 0) continue;
        const auto expert = static_cast<std::uint32_t>(id);
        const std::uint32_t slot = co_await core.fetch_add(next_slot(expert), 1);
        const fabric::Address row = message(token, k);
        write_message(core, token, k, row, staged(token), scale);
        const fabric::Address to =
            dispatch_slot(set, problem_.placement.local_index(expert), core.rank(), slot);
        use_queue_of(core, problem_.placement.local_index(expert));
        co_await core.give(problem_.placement.owner(expert), to, row, message_bytes());
        ++sent[expert];
      }
      core.discard(staged(token), row_stride());
    }
    core.phase("finish");
    // What this core sent is visible before whatever a core sends that has seen its additions.
    co_await release(core);
    for (std::uint32_t expert = 0; expert < sent.size(); ++expert) {
      if (sent[expert] == 0) continue;
      const std::uint64_t rows = sent[expert];
      co_await core.atomic_add(core.rank(), finish(expert), rows);
    }
  }

  // Experts are split over the cores: count an expert's rows, wait until all of them are issued,
  // tell its owner. A count is sent as -count - 1, so that none is 0.
  emu::Task send_counts(Core& core, std::uint32_t iteration, std::uint32_t set) {
    core.phase("send counts");
    const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
    const auto ids = core.array<std::int32_t>(this->ids(), entries);
    const Share mine = share(problem_.placement.experts(), core.count(), core.index());
    std::vector<std::uint32_t> rows(mine.size(), 0);
    for (const std::int32_t id : ids) {
      const auto expert = static_cast<std::uint32_t>(id);
      if (id >= 0 && expert >= mine.begin && expert < mine.end) ++rows[expert - mine.begin];
    }
    co_await core.stream(entries * sizeof(std::int32_t));
    co_await core.compute(mine.size() * kCountPasses * core.costs().vector(entries));
    co_await wait_cleaned(core);
    for (std::uint32_t expert = mine.begin; expert < mine.end; ++expert) {
      const std::uint32_t count = rows[expert - mine.begin];
      const auto writer = [&core, expert](std::uint32_t) {
        return fmt::format("device {}, each core that sends rows of expert {}", core.rank(),
                           expert);
      };
      const Slots finished{finish(expert)};
      const Predicate all = devices::word_equals(count);
      co_await core.wait_until(finished, all, writer);
      core.write(finish(expert), std::uint64_t{0});
      core.write(next_slot(expert), std::uint32_t{0});
      if (sabotage_ == "drop-count" && core.rank() == 0 &&
          expert == problem_.placement.experts() - 1)
        continue;
      const std::uint32_t local = problem_.placement.local_index(expert);
      const std::int32_t encoded = -static_cast<std::int32_t>(count) - 1;
      use_queue_of(core, local);
      co_await core.signal(problem_.placement.owner(expert), recv_count(set, local, core.rank()),
                           encoded, false);
    }
    const Share experts = share(local_experts(core.rank()), core.count(), core.index());
    for (std::uint32_t local = experts.begin; local < experts.end; ++local) {
      core.write(expert_rows(local), std::uint32_t{0});
    }
  }

  // Lists of (local expert, source) are split over the cores: each takes the next rows of its
  // expert and remembers which, for the way back.
  emu::Task receive(Core& core, std::uint32_t set) {
    core.phase("receive");
    const Share mine =
        share(local_experts(core.rank()) * problem_.devices, core.count(), core.index());
    for (std::uint32_t index = mine.begin; index < mine.end; ++index) {
      const std::uint32_t local = index / problem_.devices;
      const std::uint32_t source = index % problem_.devices;
      const auto writer = [this, &core, local, source](std::uint32_t) {
        const std::uint32_t expert = problem_.placement.begin(core.rank()) + local;
        return fmt::format("device {} core {} (count of expert {})", source,
                           share_of(problem_.placement.experts(), core.count(), expert), expert);
      };
      const Slots word{recv_count(set, local, source)};
      const Predicate there = devices::word_differs(0);
      co_await core.wait_until(word, there, writer);
      Range range{0, 0};
      range.count =
          static_cast<std::uint32_t>(-core.load<std::int32_t>(recv_count(set, local, source)) - 1);
      if (range.count > 0) {
        range.begin = co_await core.fetch_add(expert_rows(local), range.count);
      }
      core.write(recv_range(local, source), range);
      for (std::uint32_t n = 0; n < range.count; ++n) {
        const fabric::Address from = dispatch_slot(set, local, source, n);
        const std::uint64_t row = first_row(local) + range.begin + n;
        co_await take_message(core, from, row);
      }
    }
  }

  emu::Task combine(Core& core, std::uint32_t iteration) override {
    const std::uint32_t set = next_set(core);
    if (core.index() == 0) co_await clean_next(core, set ^ 1);
    co_await send_outputs(core, set);
    if (hook_) co_await core.next_kernel();
    co_await wait_flags(core, set);
    if (core.index() == 0) core.write(cleaned(), std::uint32_t{0});
    co_await reduce(core, iteration, set);
  }

  // Lists of (origin, local expert) are split over the cores. A row's slot at its origin is that of
  // (expert, token); a token that names an expert twice gets the same bytes there twice.
  emu::Task send_outputs(Core& core, std::uint32_t set) {
    core.phase("send outputs");
    const std::uint32_t experts = local_experts(core.rank());
    const Share mine = share(experts * problem_.devices, core.count(), core.index());
    for (std::uint32_t index = mine.begin; index < mine.end; ++index) {
      const std::uint32_t local = index % experts;
      const std::uint32_t origin = index / experts;
      const std::uint32_t expert = problem_.placement.begin(core.rank()) + local;
      const auto range = core.load<Range>(recv_range(local, origin));
      for (std::uint32_t n = 0; n < range.count; ++n) {
        const std::uint64_t row = first_row(local) + range.begin + n;
        const auto token = core.load<RowTag>(tag(row)).token;
        co_await core.stream(output_row_bytes());
        use_queue_of(core, local);
        co_await core.give(origin, combine_slot(set, expert, token), expert_output(row),
                           output_row_bytes());
      }
      if (by_queue_pair_) {
        co_await release(core);
      } else if (release_) {
        co_await core.fence();
      }
      if (index == mine.begin) co_await wait_cleaned(core);
      use_queue_of(core, local);
      co_await core.signal(origin, recv_flag(set, expert), std::uint32_t{1}, false);
    }
  }

  emu::Task wait_flags(Core& core, std::uint32_t set) {
    core.phase("wait flags");
    const Share mine = share(problem_.placement.experts(), core.count(), core.index());
    const auto writer = [this, &core, mine](std::uint32_t slot) {
      const std::uint32_t expert = mine.begin + slot;
      const std::uint32_t owner = problem_.placement.owner(expert);
      const std::uint32_t experts = local_experts(owner);
      const std::uint32_t index = core.rank() * experts + problem_.placement.local_index(expert);
      return fmt::format("device {} core {} (rows of expert {})", owner,
                         share_of(experts * problem_.devices, core.count(), index), expert);
    };
    const Slots flags{recv_flag(set, mine.begin), 4, 4, mine.size(), 0};
    const Predicate there = devices::word_equals(1);
    co_await core.wait_until(flags, there, writer);
    co_await core.barrier();
  }

  // Tokens are dealt to the cores: add a token's rows in ascending k.
  emu::Task reduce(Core& core, std::uint32_t iteration, std::uint32_t set) {
    core.phase("reduce");
    const std::uint32_t top_k = problem_.top_k();
    const std::uint32_t count = tokens(core.rank(), iteration);
    for (std::uint32_t token = core.index(); token < count; token += core.count()) {
      const auto ids = ids_of(core, token);
      const auto weights = weights_of(core, token);
      std::vector<WeightedRow> rows;
      for (std::uint32_t k = 0; k < top_k; ++k) {
        if (ids[k] < 0) continue;
        const auto expert = static_cast<std::uint32_t>(ids[k]);
        rows.push_back({combine_slot(set, expert, token), weights[k]});
      }
      co_await add_rows(core, token, std::move(rows));
    }
  }

  const bool release_;
  const bool by_queue_pair_;
  const bool hook_;
  const std::string sabotage_;
};

}  // namespace

ORRERY_ALGORITHM(
    deepep_ll, "deepep-ll", "DeepEP low-latency dispatch and combine, by stores and over NICs",
    DeepEpLl,
    {{"quantise",
      "int8",
      "dispatch payload: int8 with one scale per row, or bf16",
      {"int8", "bf16"}},
     {"release",
      "fence",
      "a count follows the rows of all cores by fences, by the order of a queue pair between NICs, "
      "or by the fabric's order alone",
      {"fence", "queue-pair", "trust-order"}},
     {"hook",
      "false",
      "receive in a second launch (its own kernel), or in the same one",
      {"false", "true"}},
     {"sabotage",
      "none",
      "break it on purpose, to see how that looks",
      {"none", "drop-count", "skip-clean"}}})

}  // namespace orrery::moe
