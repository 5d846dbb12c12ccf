// pplx-kernels' dispatch and combine: every row is a put that counts itself at its receiver, which
// also learns how many will come. So nothing is ordered after anything, no fence is needed and
// rows may come in any order. Instead of a second set of buffers each device tells all others when
// it is through with a call.
//
// Source: perplexityai/pplx-kernels, csrc/all_to_all/internode_dispatch.cu and
// internode_combine.cu, as read for this project. Its warps are not modelled: a core (SM) issues
// one put at a time. Rows come to its dispatch as they are sent, so quantising takes no time here.
// Its combine waits for a row of every choice, and so for ever where a choice is masked; this one
// waits for those that there are (--set algorithm.sabotage=wait-top-k does as the source).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "moe/algorithms/pplx_buffers.h"
#include "moe/message_layer.h"
#include "moe/share.h"

namespace orrery::moe {

namespace {

using devices::Core;
using devices::Predicate;
using devices::Slots;

// Vector passes to count the rows of all experts: an atomic for each, a sum.
constexpr int kCountPasses = 2;

class Pplx final : public MessageLayer, private PplxBuffers {
 public:
  Pplx(const Problem& problem, const Options& options)
      : MessageLayer(problem, precision_named(options.text("quantise")), RowOrder::kAsTheyCome),
        PplxBuffers(layout_, problem, row_stride()),
        split_(options.flag("split")),
        sabotage_(options.text("sabotage")) {}

  // Puts that count themselves and words that are set once a call: no order at all.
  Contract contract() const override { return {Contract::Order::kNone, 4}; }

  void set_up(devices::DeviceProcess& device) override {
    for (std::uint32_t core = 0; core < problem_.costs.cores; ++core) {
      device.memory().store(calls(core), std::uint32_t{0});
    }
  }

 private:
  std::uint32_t lists(std::uint32_t device) const {
    return local_experts(device) * problem_.devices;
  }

  // Calls of both operations are numbered from 1.
  emu::Task begin_call(Core& core, std::uint32_t& call) {
    core.phase("wait peers");
    call = core.load<std::uint32_t>(calls(core.index())) + 1;
    core.write(calls(core.index()), call);
    if (call == 1 || sabotage_ == "skip-wait") co_return;
    const auto writer = [](std::uint32_t source) {
      return fmt::format("device {} (through with the call before)", source);
    };
    const Slots words{through(call - 1, 0), 4, 4, problem_.devices, 0};
    const Predicate through = devices::word_equals(call - 1);
    co_await core.wait_until(words, through, writer);
  }

  // What came in this call is taken and its words are clean. A device's next word of this parity
  // can only follow what each other device sent when it had seen this one.
  emu::Task end_call(Core& core, std::uint32_t call) {
    co_await core.barrier();
    core.phase("tell peers");
    const Share mine = share(problem_.devices, core.count(), core.index());
    for (std::uint32_t device = mine.begin; device < mine.end; ++device) {
      const fabric::Address word = through(call, core.rank());
      if (device == core.rank()) core.write(word, call);
      if (device != core.rank()) co_await core.signal(device, word, call, false);
    }
  }

  // A row that its receiver counts.
  emu::Task send_row(Core& core, std::uint32_t rank, const devices::Piece& row,
                     fabric::Address counter, bool first) {
    if (sabotage_ == "drop-signal" && first && core.rank() == 0) {
      co_await core.give(rank, row.to, row.from, row.bytes);
    } else if (sabotage_ == "split-signal") {
      co_await core.give(rank, row.to, row.from, row.bytes);
      co_await core.atomic_add(rank, counter, 1);
    } else {
      co_await core.put_signal_add(rank, row, counter, 1, true);
    }
  }

  emu::Task dispatch(Core& core, std::uint32_t iteration) override {
    std::uint32_t call = 0;
    co_await begin_call(core, call);
    co_await send_counts(core, iteration);
    co_await send_tokens(core, iteration);
    if (split_) co_await core.next_kernel();
    co_await wait_rows(core);
    co_await copy_rows(core);
    co_await end_call(core, call);
  }

  // One warp counts the rows of all experts and tells their owners, while others send rows: here
  // the last core, which has the fewest of them.
  emu::Task send_counts(Core& core, std::uint32_t iteration) {
    if (core.index() + 1 < core.count()) co_return;
    core.phase("send counts");
    const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
    std::vector<std::uint64_t> rows(problem_.placement.experts(), 0);
    for (const std::int32_t id : core.array<std::int32_t>(ids(), entries)) {
      if (id >= 0) ++rows[static_cast<std::uint32_t>(id)];
    }
    co_await core.stream(entries * sizeof(std::int32_t));
    co_await core.compute(kCountPasses * core.costs().vector(entries));
    for (std::uint32_t expert = 0; expert < rows.size(); ++expert) {
      const std::uint32_t to = list(problem_.placement.local_index(expert), core.rank());
      const std::uint64_t count = rows[expert] + 1;
      co_await core.signal(problem_.placement.owner(expert), expected(to), count, false);
    }
  }

  // Tokens are dealt to the cores. Each goes over all of them, a step for each, and so knows how
  // many rows of an expert come before.
  emu::Task send_tokens(Core& core, std::uint32_t iteration) {
    core.phase("send tokens");
    const std::uint32_t top_k = problem_.top_k();
    const std::uint32_t count = tokens(core.rank(), iteration);
    const auto ids = core.array<std::int32_t>(this->ids(), std::uint64_t{count} * top_k);
    std::vector<std::uint32_t> next(problem_.placement.experts(), 0);
    std::uint32_t passed = 0;
    bool first = core.index() == 0;
    for (std::uint32_t token = 0; token < count; ++token) {
      ++passed;
      const bool mine = token % core.count() == core.index();
      float scale = 0;
      if (mine) {
        co_await core.compute(passed * core.costs().scalar_step);
        passed = 0;
        co_await core.stream(payload_bytes());
        scale = encode(core, token, staged(token));
        co_await core.stream(payload_bytes());  // to where puts may read it
      }
      for (std::uint32_t k = 0; k < top_k; ++k) {
        const std::int32_t id = ids[std::size_t{token} * top_k + k];
        if (id < 0) continue;
        const auto expert = static_cast<std::uint32_t>(id);
        const std::uint32_t slot = next[expert]++;
        if (!mine) continue;
        const fabric::Address row = message(token, k);
        write_message(core, token, k, row, staged(token), scale);
        const std::uint32_t to = list(problem_.placement.local_index(expert), core.rank());
        const devices::Piece piece{dispatch_slot(to, slot), row, message_bytes()};
        co_await send_row(core, problem_.placement.owner(expert), piece, received(to), first);
        first = false;
      }
      if (mine) core.discard(staged(token), row_stride());
    }
  }

  // Lists are split over the cores.
  emu::Task wait_rows(Core& core) {
    core.phase("wait rows");
    const Share mine = share(lists(core.rank()), core.count(), core.index());
    if (mine.size() > 0) {
      const auto writer = [this, &core, mine](std::uint32_t slot) {
        const std::uint32_t local = (mine.begin + slot) / problem_.devices;
        const std::uint32_t expert = problem_.placement.begin(core.rank()) + local;
        return fmt::format("device {} core {} (count of expert {})",
                           (mine.begin + slot) % problem_.devices, core.count() - 1, expert);
      };
      const Slots words{expected(mine.begin), 4, 8, mine.size(), 0};
      const Predicate known = devices::word_differs(0);
      co_await core.wait_until(words, known, writer);
    }
    for (std::uint32_t list = mine.begin; list < mine.end; ++list) {
      const auto rows = static_cast<std::uint32_t>(core.load<std::uint64_t>(expected(list)) - 1);
      const auto writer = [this, &core, list, rows](std::uint32_t) {
        const std::uint32_t expert =
            problem_.placement.begin(core.rank()) + list / problem_.devices;
        return fmt::format("device {}, each core that sends some of its {} rows for expert {}",
                           list % problem_.devices, rows, expert);
      };
      const Slots word{received(list)};
      const Predicate all = devices::word_equals(rows);
      co_await core.wait_until(word, all, writer);
      core.write(list_rows(list), rows);
      core.write(expected(list), std::uint64_t{0});
      core.write(received(list), std::uint64_t{0});
    }
    co_await core.barrier();
  }

  // Rows are dealt to the cores; those of an expert lie by source.
  emu::Task copy_rows(Core& core) {
    core.phase("copy rows");
    const std::uint32_t count = lists(core.rank());
    const auto rows = core.array<std::uint32_t>(list_rows(0), count);
    co_await core.stream(count * sizeof(std::uint32_t));
    std::uint32_t number = 0;
    for (std::uint32_t local = 0; local < local_experts(core.rank()); ++local) {
      std::uint32_t row = 0;
      for (std::uint32_t source = 0; source < problem_.devices; ++source) {
        const std::uint32_t from = list(local, source);
        for (std::uint32_t slot = 0; slot < rows[from]; ++slot, ++row) {
          if (number++ % core.count() != core.index()) continue;
          co_await take_message(core, dispatch_slot(from, slot), first_row(local) + row);
        }
      }
      if (core.index() == 0) core.write(expert_rows(local), row);
    }
  }

  emu::Task combine(Core& core, std::uint32_t iteration) override {
    std::uint32_t call = 0;
    co_await begin_call(core, call);
    co_await send_outputs(core);
    if (split_) co_await core.next_kernel();
    co_await reduce(core, iteration);
    co_await end_call(core, call);
  }

  // Rows are dealt to the cores; each goes to its token's place for it at its origin.
  emu::Task send_outputs(Core& core) {
    core.phase("send outputs");
    std::uint32_t number = 0;
    bool first = core.index() == 0;
    for (std::uint32_t local = 0; local < local_experts(core.rank()); ++local) {
      const auto rows = core.load<std::uint32_t>(expert_rows(local));
      for (std::uint32_t n = 0; n < rows; ++n) {
        if (number++ % core.count() != core.index()) continue;
        const std::uint64_t row = first_row(local) + n;
        const auto tag = core.load<RowTag>(this->tag(row));
        co_await core.stream(output_row_bytes());
        co_await core.stream(output_row_bytes());  // to where puts may read it
        const devices::Piece piece{combine_slot(tag.token, tag.k), expert_output(row),
                                   output_row_bytes()};
        co_await send_row(core, tag.source, piece, returned(tag.token), first);
        first = false;
      }
    }
  }

  // Who should send a token's rows, for the hang report.
  std::string owners_of(std::uint32_t token, std::uint32_t wanted,
                        std::span<const std::int32_t> ids) const {
    std::set<std::uint32_t> owners;
    for (const std::int32_t id : ids) {
      if (id >= 0) owners.insert(problem_.placement.owner(static_cast<std::uint32_t>(id)));
    }
    const auto masked = std::count_if(ids.begin(), ids.end(), [](auto id) { return id < 0; });
    return fmt::format("device {} (rows of {} choices of token {}, {} of which are masked)",
                       owners.empty() ? "none" : fmt::format("{}", fmt::join(owners, ", ")), wanted,
                       token, wanted == ids.size() ? masked : 0);
  }

  // Tokens are dealt to the cores: wait for a token's rows, add them in ascending k.
  emu::Task reduce(Core& core, std::uint32_t iteration) {
    core.phase("reduce");
    const std::uint32_t top_k = problem_.top_k();
    const std::uint32_t count = tokens(core.rank(), iteration);
    for (std::uint32_t token = core.index(); token < count; token += core.count()) {
      const auto ids = ids_of(core, token);
      const auto weights = weights_of(core, token);
      std::vector<WeightedRow> rows;
      for (std::uint32_t k = 0; k < top_k; ++k) {
        if (ids[k] >= 0) rows.push_back({combine_slot(token, k), weights[k]});
      }
      const auto wanted =
          sabotage_ == "wait-top-k" ? top_k : static_cast<std::uint32_t>(rows.size());
      const auto writer = [&](std::uint32_t) { return owners_of(token, wanted, ids); };
      const Slots word{returned(token)};
      const Predicate all = devices::word_equals(wanted);
      co_await core.wait_until(word, all, writer);
      core.write(returned(token), std::uint64_t{0});
      co_await add_rows(core, token, std::move(rows));
    }
  }

  const bool split_;
  const std::string sabotage_;
};

}  // namespace

ORRERY_ALGORITHM(pplx, "pplx",
                 "pplx-kernels: every row counts itself at its receiver, no order is needed", Pplx,
                 {{"quantise",
                   "int8",
                   "dispatch payload: int8 with one scale per row, or bf16",
                   {"int8", "bf16"}},
                  {"split",
                   "false",
                   "receive in a second launch (its own kernel), or in the same one",
                   {"false", "true"}},
                  {"sabotage",
                   "none",
                   "break it on purpose, to see how that looks",
                   {"none", "drop-signal", "split-signal", "skip-wait", "wait-top-k"}}})

}  // namespace orrery::moe
