// CANN MoeDistributeDispatch v2 and MoeDistributeCombine v2: push into windows per (source,
// expert), phases of all cores with SyncAll between them, one status per (expert, source), no
// network fences.
//
// Sources: hicann/ops-transformer, mc2/moe_distribute_dispatch_v2 and mc2/moe_distribute_combine_v2
// (kernels and design text), as read for this project.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "moe/moe_layer.h"
#include "moe/share.h"

namespace orrery::moe {

namespace {

using devices::Core;
using devices::PutHandle;
using devices::Slots;

// Vector passes of the kernels, counted in their inner loops: quantisation (widen, abs, reduce max,
// scale, narrow twice), position of an entry and rows of an expert (subtract, abs, min with 1,
// sum), weighted sum (widen, multiply, add) and the final cast.
constexpr int kQuantisePasses = 6;
constexpr int kCountPasses = 4;
constexpr int kAccumulatePasses = 3;

struct Status {
  float flag = 1.0f;
  std::uint32_t count = 0;
  std::array<std::uint32_t, 6> unused{};
};
static_assert(sizeof(Status) == 32);

// What follows a row's payload in its slot.
struct Trailer {
  float scale;
  RowTag tag;
  std::array<std::uint32_t, 4> unused;
};
static_assert(sizeof(Trailer) == 32);

using Arrived = std::array<float, 8>;  // one 32-byte block of a combine flag

devices::Predicate flag_is_one() {
  return {[](const std::byte* slot, std::uint64_t) {
            float flag;
            std::memcpy(&flag, slot, sizeof(flag));
            return flag == 1.0f;
          },
          0, "status with flag 1.0"};
}

devices::Predicate sum_is_eight() {
  return {[](const std::byte* slot, std::uint64_t) {
            Arrived floats;
            std::memcpy(&floats, slot, sizeof(floats));
            float sum = 0;
            for (const float each : floats) sum += each;
            return sum == 8.0f;
          },
          0, "eight floats that sum to 8.0"};
}

class CannBsp final : public MoeLayer {
 public:
  CannBsp(const Problem& problem, const Options& options)
      : MoeLayer(problem, options.text("quantise") == "int8" ? Precision::kInt8 : Precision::kBf16),
        cores_per_call_(options.numbers("cores", 1, problem.costs.cores)),
        sabotage_(options.text("sabotage")) {
    const std::uint64_t cores = problem.costs.cores;
    const std::uint64_t experts = max_local_experts();
    combine_slot_bytes_ = align_up(output_row_bytes(), 512);
    const std::uint64_t entries = std::uint64_t{problem.token_bound} * problem.top_k();
    // A token may name an expert several times only where the gate allows it.
    list_rows_ =
        problem.token_bound * (problem.workload.gate().allow_duplicates() ? problem.top_k() : 1);
    half_rows_ = problem.devices * experts * list_rows_;
    status_half_bytes_ = align_up(problem.devices * experts * sizeof(Status), 512);
    arrived_half_bytes_ = align_up(entries * sizeof(Arrived), 512);

    window_ = layout_.rows(2 * half_rows_, row_stride());
    status_ = layout_.flat(2 * status_half_bytes_);
    counts_ = layout_.flat(problem.devices * experts * 4);
    combine_window_ = layout_.rows(2 * entries, combine_slot_bytes_);
    arrived_ = layout_.flat(2 * arrived_half_bytes_);
    parity_ = layout_.flat(cores * kParityStride * 2);
    scratch_ = layout_.rows(cores * 2, row_stride());
  }

  // Statuses follow the rows of all cores without a fence; a flag and its count appear together.
  Contract contract() const override { return {Contract::Order::kDevicePair, 8}; }

  std::uint32_t cores(std::uint32_t operation, std::uint32_t iteration) const override {
    if (operation == kExperts) return 1;
    if (cores_per_call_.empty()) return 0;
    return static_cast<std::uint32_t>(cores_per_call_[iteration % cores_per_call_.size()]);
  }

  std::uint64_t touched_bytes(std::uint32_t device) const override {
    // Live at once: outputs on their way back and what they become at their origins.
    std::uint64_t entries = 0;
    for (std::uint32_t i = 0; i < problem_.iterations; ++i) {
      entries = std::max<std::uint64_t>(entries, tokens(device, i) * problem_.top_k());
    }
    return MoeLayer::touched_bytes(device) + entries * combine_slot_bytes_ +
           std::uint64_t{problem_.costs.cores} * 2 * row_stride();
  }

 private:
  static constexpr std::uint32_t kParityStride = 512;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // --- Layout ---
  fabric::Address slot(std::uint32_t half, std::uint32_t source, std::uint32_t local,
                       std::uint32_t n) const {
    const std::uint64_t list = std::uint64_t{source} * max_local_experts() + local;
    return window_ + (half * half_rows_ + list * list_rows_ + n) * row_stride();
  }
  fabric::Address trailer(fabric::Address slot) const {
    return slot + align_up(payload_bytes(), 32);
  }
  fabric::Address status(std::uint32_t half, std::uint32_t index) const {
    return status_ + half * status_half_bytes_ + std::uint64_t{index} * sizeof(Status);
  }
  fabric::Address count(std::uint32_t index) const { return counts_ + std::uint64_t{index} * 4; }
  fabric::Address combine_slot(std::uint32_t half, std::uint32_t token, std::uint32_t k) const {
    const std::uint64_t entries = std::uint64_t{problem_.token_bound} * problem_.top_k();
    return combine_window_ +
           (half * entries + std::uint64_t{token} * problem_.top_k() + k) * combine_slot_bytes_;
  }
  fabric::Address arrived(std::uint32_t half, std::uint32_t token, std::uint32_t k) const {
    return arrived_ + half * arrived_half_bytes_ +
           (std::uint64_t{token} * problem_.top_k() + k) * sizeof(Arrived);
  }
  fabric::Address buffer(const Core& core, std::uint32_t which) const {
    return scratch_ + (std::uint64_t{core.index()} * 2 + which) * row_stride();
  }
  std::uint32_t record_bytes() const {
    return static_cast<std::uint32_t>(align_up(payload_bytes(), 32) + sizeof(Trailer));
  }

  // Every core keeps the parity of its own calls, for each of the two operations.
  std::uint32_t flip_parity(Core& core, Operation operation) const {
    const fabric::Address address =
        parity_ + (core.index() * std::uint64_t{2} + (operation == kCombine)) * kParityStride;
    const auto half = core.load<std::uint32_t>(address);
    core.write(address, half ^ 1);
    return half;
  }

  emu::Task dispatch(Core& core, std::uint32_t iteration) override {
    const std::uint32_t half = flip_parity(core, kDispatch);
    co_await send_tokens(core, iteration, half);
    co_await set_status(core, iteration, half);
    co_await wait_dispatch(core, half);
    co_await copy_out(core, half);
  }

  // Entries are split over the cores. Each row goes to its private slot at the expert's owner: the
  // n-th row of this source for that expert.
  emu::Task send_tokens(Core& core, std::uint32_t iteration, std::uint32_t half) {
    core.phase("send tokens");
    const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
    const Share mine = share(entries, core.count(), core.index());
    const auto ids = core.array<std::int32_t>(this->ids(), entries);
    co_await core.stream(entries * sizeof(std::int32_t));
    std::vector<std::uint32_t> sent(problem_.placement.experts(), 0);
    for (std::uint32_t entry = 0; entry < mine.begin; ++entry) {
      if (ids[entry] >= 0) ++sent[static_cast<std::size_t>(ids[entry])];
    }
    PutHandle in_flight[2];
    std::uint32_t turn = 0;
    std::uint32_t encoded =
        kNone;  // token in the other buffer: the host need not quantise it again
    float scale = 0;
    for (std::uint32_t entry = mine.begin; entry < mine.end; ++entry) {
      if (ids[entry] < 0) continue;
      const auto expert = static_cast<std::uint32_t>(ids[entry]);
      const std::uint32_t owner = problem_.placement.owner(expert);
      const RowTag tag{core.rank(), entry / problem_.top_k(), entry % problem_.top_k()};
      const fabric::Address record = buffer(core, turn);

      co_await core.wait_local(in_flight[turn]);
      co_await core.stream(output_row_bytes());
      if (tag.token == encoded) {
        encode_again(core, record, buffer(core, turn ^ 1));
      } else {
        scale = encode(core, tag.token, record);
        encoded = tag.token;
      }
      core.write(trailer(record), Trailer{scale, tag, {}});
      const emu::Time quantise = precision_ == Precision::kInt8
                                     ? kQuantisePasses * core.costs().vector(problem_.hidden())
                                     : 0;
      co_await core.compute(quantise + kCountPasses * core.costs().vector(entry));

      std::uint32_t n = sent[expert]++;
      if (sabotage_ == "wrong-slot" && core.rank() == 0 && tag.token == 0 && tag.k == 0) {
        n = (n + 1) % list_rows_;
      }
      const std::uint32_t local = problem_.placement.local_index(expert);
      in_flight[turn] =
          co_await core.put(owner, slot(half, core.rank(), local, n), record, record_bytes());
      turn ^= 1;
    }
    co_await core.wait_local(in_flight[0]);
    co_await core.wait_local(in_flight[1]);
  }

  // After SyncAll every core's rows are issued, so a status that is issued now is visible after
  // them: all cores of a device share one ordered channel to each peer.
  emu::Task set_status(Core& core, std::uint32_t iteration, std::uint32_t half) {
    core.phase("set status");
    const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
    const auto ids = core.array<std::int32_t>(this->ids(), entries);
    const Share mine = share(problem_.placement.experts(), core.count(), core.index());
    std::vector<std::uint32_t> rows(mine.size(), 0);
    for (const std::int32_t id : ids) {
      const auto expert = static_cast<std::uint32_t>(id);
      if (id >= 0 && expert >= mine.begin && expert < mine.end) ++rows[expert - mine.begin];
    }
    co_await core.compute(mine.size() * kCountPasses * core.costs().vector(entries));
    if (sabotage_ != "skip-syncall") co_await core.barrier();
    for (std::uint32_t expert = mine.begin; expert < mine.end; ++expert) {
      if (sabotage_ == "drop-status" && core.rank() == 0 &&
          expert == problem_.placement.experts() - 1)
        continue;
      const std::uint32_t owner = problem_.placement.owner(expert);
      const std::uint32_t index =
          problem_.placement.local_index(expert) * problem_.devices + core.rank();
      Status block;
      block.count = rows[expert - mine.begin];
      co_await core.store(owner, status(half, index), block);
    }
  }

  // Statuses are split over the cores: wait, keep the count, clear the slot for its next use.
  emu::Task wait_dispatch(Core& core, std::uint32_t half) {
    core.phase("wait dispatch");
    const std::uint32_t lists = local_experts(core.rank()) * problem_.devices;
    const Share mine = share(lists, core.count(), core.index());
    const auto writer = [this, &core, mine](std::uint32_t slot) {
      const std::uint32_t index = mine.begin + slot;
      const std::uint32_t expert = problem_.placement.begin(core.rank()) + index / problem_.devices;
      return fmt::format("device {} core {} (status of expert {})", index % problem_.devices,
                         share_of(problem_.placement.experts(), core.count(), expert), expert);
    };
    const Slots slots{status(half, mine.begin), sizeof(Status), sizeof(Status), mine.size(), 0};
    const devices::Predicate ready = flag_is_one();
    co_await core.wait_until(slots, ready, writer);
    for (std::uint32_t index = mine.begin; index < mine.end; ++index) {
      const auto block = core.load<Status>(status(half, index));
      core.write(count(index), block.count);
      core.write(status(half, index), Status{0.0f, 0, {}});
    }
    co_await core.stream(mine.size() * 2 * sizeof(Status));
    co_await core.barrier();
  }

  // Lists are split over the cores; the rows before a list are the sum of the counts before it.
  emu::Task copy_out(Core& core, std::uint32_t half) {
    core.phase("sum counts");
    const std::uint32_t lists = local_experts(core.rank()) * problem_.devices;
    const Share mine = share(lists, core.count(), core.index());
    const auto counts = core.array<std::uint32_t>(counts_, lists);
    co_await core.stream(lists * sizeof(std::uint32_t));
    co_await core.compute(core.costs().vector(lists));
    core.phase("copy out");
    std::uint64_t row = 0;
    for (std::uint32_t index = 0; index < mine.begin; ++index) row += counts[index];
    for (std::uint32_t index = mine.begin; index < mine.end; ++index) {
      const std::uint32_t local = index / problem_.devices;
      const std::uint32_t source = index % problem_.devices;
      co_await core.compute(core.costs().scalar_step);
      for (std::uint32_t n = 0; n < counts[index]; ++n, ++row) {
        const fabric::Address record = slot(half, source, local, n);
        core.accept(record, record_bytes());
        co_await core.move(expanded(row), record, payload_bytes());
        const auto tail = core.load<Trailer>(trailer(expanded(row)));
        core.write(scale(row), tail.scale);
        core.write(tag(row), tail.tag);
      }
      if (source == problem_.devices - 1) {
        std::uint32_t rows = 0;
        for (std::uint32_t each = 0; each < problem_.devices; ++each) {
          rows += counts[local * problem_.devices + each];
        }
        core.write(expert_rows(local), rows);
      }
    }
  }

  emu::Task combine(Core& core, std::uint32_t iteration) override {
    const std::uint32_t half = flip_parity(core, kCombine);
    co_await send_outputs(core, half);
    co_await reduce(core, iteration, half);
  }

  // Every row goes back to its origin, followed by its own flag from the same core: one ordered
  // channel. The start is rotated by rank, so that not all devices send to the first one at once.
  emu::Task send_outputs(Core& core, std::uint32_t half) {
    core.phase("send outputs");
    std::uint32_t rows = 0;
    for (std::uint32_t local = 0; local < local_experts(core.rank()); ++local) {
      rows += core.load<std::uint32_t>(expert_rows(local));
    }
    const Share mine = share(rows, core.count(), core.index());
    Arrived flag;
    flag.fill(1.0f);
    PutHandle last;
    const auto rotation =
        static_cast<std::uint32_t>(std::uint64_t{core.rank()} * mine.size() / core.ranks());
    for (std::uint32_t i = 0; i < mine.size(); ++i) {
      const std::uint32_t row = mine.begin + (i + rotation) % mine.size();
      const auto origin = core.load<RowTag>(tag(row));
      co_await core.stream(output_row_bytes());
      last = co_await core.give(origin.source, combine_slot(half, origin.token, origin.k),
                                expert_output(row), output_row_bytes());
      co_await core.fence();
      co_await core.store(origin.source, arrived(half, origin.token, origin.k), flag);
    }
    co_await core.wait_local(last);
  }

  // The arithmetic of reduce() at one go, when its time has passed.
  void add_up(Core& core, std::uint32_t half, std::uint32_t token,
              std::span<const std::int32_t> ids, std::span<const float> weights) {
    thread_local std::vector<WeightedRow> rows;
    rows.clear();
    for (std::uint32_t k = 0; k < ids.size(); ++k) {
      if (ids[k] >= 0) rows.push_back({combine_slot(half, token, k), weights[k]});
    }
    weighted_sum(core, token, rows);
    for (const WeightedRow& each : rows) core.discard(each.row, combine_slot_bytes_);
  }

  // Tokens are split over the cores: wait for a token's rows, then add them in ascending k.
  emu::Task reduce(Core& core, std::uint32_t iteration, std::uint32_t half) {
    core.phase("reduce");
    const Share mine = share(tokens(core.rank(), iteration), core.count(), core.index());
    const std::uint32_t top_k = problem_.top_k();
    for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
      const auto ids = core.array<std::int32_t>(this->ids() + token * top_k * 4, top_k);
      const auto weights = core.array<float>(this->weights() + token * top_k * 4, top_k);
      Slots slots{arrived(half, token, 0), sizeof(Arrived), sizeof(Arrived), top_k, 0};
      for (std::uint32_t k = 0; k < top_k; ++k) {
        if (ids[k] < 0) slots.skip |= std::uint64_t{1} << k;
      }
      const auto writer = [this, ids](std::uint32_t k) {
        const auto expert = static_cast<std::uint32_t>(ids[k]);
        return fmt::format("device {} (row of expert {})", problem_.placement.owner(expert),
                           expert);
      };
      const devices::Predicate ready = sum_is_eight();
      co_await core.wait_until(slots, ready, writer);
      for (std::uint32_t k = 0; k < top_k; ++k) {
        core.write(arrived(half, token, k), Arrived{});
        if (ids[k] < 0) continue;
        co_await core.stream(output_row_bytes());
        core.accept(combine_slot(half, token, k), output_row_bytes());
        co_await core.compute(kAccumulatePasses * core.costs().vector(problem_.hidden()));
      }
      add_up(core, half, token, ids, weights);
      co_await core.compute(core.costs().vector(problem_.hidden()));
      co_await core.stream(output_row_bytes());
    }
  }

  const std::vector<std::uint64_t> cores_per_call_;
  const std::string sabotage_;
  std::uint64_t combine_slot_bytes_;
  std::uint32_t list_rows_;
  std::uint64_t half_rows_;
  std::uint64_t status_half_bytes_;
  std::uint64_t arrived_half_bytes_;
  fabric::Address window_;
  fabric::Address status_;
  fabric::Address counts_;
  fabric::Address combine_window_;
  fabric::Address arrived_;
  fabric::Address parity_;
  fabric::Address scratch_;
};

}  // namespace

ORRERY_ALGORITHM(cann_bsp, "cann-bsp",
                 "CANN dispatch and combine v2: phases of all cores with SyncAll", CannBsp,
                 {{"quantise",
                   "int8",
                   "dispatch payload: int8 with one scale per row, or bf16",
                   {"int8", "bf16"}},
                  {"cores", "", "cores of each call in turn, e.g. 48,24; empty: all", {}},
                  {"sabotage",
                   "none",
                   "break it on purpose, to see how that looks",
                   {"none", "drop-status", "skip-syncall", "wrong-slot"}}})

}  // namespace orrery::moe
