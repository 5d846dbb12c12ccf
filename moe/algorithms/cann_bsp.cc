// CANN MoeDistributeDispatch v2 and MoeDistributeCombine v2: push into windows per (source,
// expert), phases of all cores with SyncAll between them, one status per (expert, source), no
// network fences.
//
// Sources: hicann/ops-transformer, mc2/moe_distribute_dispatch_v2 and mc2/moe_distribute_combine_v2
// (kernels and design text), as read for this project.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "moe/algorithms/cann_windows.h"
#include "moe/push_combine.h"
#include "moe/share.h"

namespace orrery::moe {

namespace {

using devices::Core;
using devices::PutHandle;
using devices::Slots;

// Vector passes of the kernels, counted in their inner loops: quantisation (widen, abs, reduce max,
// scale, narrow twice), position of an entry and rows of an expert (subtract, abs, min with 1,
// sum).
constexpr int kQuantisePasses = 6;
constexpr int kCountPasses = 4;

devices::Predicate flag_is_one() {
  return {[](const std::byte* slot, std::uint64_t) {
            float flag;
            std::memcpy(&flag, slot, sizeof(flag));
            return flag == 1.0f;
          },
          0, "status with flag 1.0"};
}

class CannBsp final : public PushCombine, private CannWindows {
 public:
  CannBsp(const Problem& problem, const Options& options)
      : PushCombine(problem, precision_named(options.text("quantise"))),
        CannWindows(layout_, problem, payload_bytes(), row_stride()),
        cores_per_call_(options.numbers("cores", 1, problem.costs.cores)),
        sabotage_(options.text("sabotage")) {
    lay_out_combine(2);
  }

  // Statuses follow the rows of all cores without a fence; a flag and its count appear together.
  Contract contract() const override { return {Contract::Order::kDevicePair, 8}; }

  std::uint32_t cores(std::uint32_t operation, std::uint32_t iteration) const override {
    if (operation == kExperts) return 0;
    if (cores_per_call_.empty()) return 0;
    return static_cast<std::uint32_t>(cores_per_call_[iteration % cores_per_call_.size()]);
  }

  // The parities of all cores' calls begin at 0.
  void set_up(devices::DeviceProcess& device) override {
    const auto parities = device.memory().view(parity(0, 0), parity_bytes());
    std::fill(parities.begin(), parities.end(), std::byte{0});
  }

  std::uint64_t touched_bytes(std::uint32_t device) const override {
    return PushCombine::touched_bytes(device) + buffer_bytes();
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Every core keeps the parity of its own calls, for each of the two operations.
  std::uint32_t flip_parity(Core& core, Operation operation) const {
    const fabric::Address address = parity(core.index(), operation == kCombine);
    const auto half = core.load<std::uint32_t>(address);
    core.write(address, half ^ 1);
    return half;
  }

  emu::Task dispatch(Core& core, std::uint32_t iteration) override {
    const std::uint32_t half = flip_parity(core, kDispatch);
    co_await send_tokens(core, iteration, half);
    co_await set_status(core, iteration, half);
    co_await wait_dispatch(core, half);
    co_await sum_counts(core);
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
    // The core's queue holds two rows. A buffer is free again when the store from it is
    // acknowledged: assumed, since else the published dispatch would not slow down over two hops.
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
      const fabric::Address record = buffer(core.index(), turn);

      co_await core.wait_complete(in_flight[turn]);
      co_await core.stream(output_row_bytes());
      if (tag.token == encoded) {
        encode_again(core, record, buffer(core.index(), turn ^ 1));
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
        n = (n + 1) % list_rows();
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

  // Lists are split over the cores as statuses were. Each adds up its own counts and tells the
  // others.
  emu::Task sum_counts(Core& core) {
    core.phase("sum counts");
    const std::uint32_t lists = local_experts(core.rank()) * problem_.devices;
    const Share mine = share(lists, core.count(), core.index());
    const auto counts = core.array<std::uint32_t>(count(mine.begin), mine.size());
    std::uint32_t rows = 0;
    for (const std::uint32_t each : counts) rows += each;
    co_await core.compute(core.costs().vector(mine.size()));
    core.write(sum(core.index()), rows);
    co_await core.stream(kSumStride);
    co_await core.barrier();
  }

  emu::Task copy_out(Core& core, std::uint32_t half) {
    core.phase("copy out");
    const std::uint32_t lists = local_experts(core.rank()) * problem_.devices;
    const Share mine = share(lists, core.count(), core.index());
    co_await core.stream(std::uint64_t{core.count()} * kSumStride);
    co_await core.compute(core.costs().vector(core.count()));
    std::uint64_t row = 0;
    for (std::uint32_t before = 0; before < core.index(); ++before) {
      row += core.load<std::uint32_t>(sum(before));
    }
    const auto counts = core.array<std::uint32_t>(count(0), lists);
    for (std::uint32_t index = mine.begin; index < mine.end; ++index) {
      const std::uint32_t local = index / problem_.devices;
      const std::uint32_t source = index % problem_.devices;
      co_await core.compute(core.costs().scalar_step);
      for (std::uint32_t n = 0; n < counts[index]; ++n, ++row) {
        const fabric::Address record = slot(half, source, local, n);
        core.accept(record, record_bytes());
        co_await core.move(expanded(row), record, payload_bytes());
        co_await core.stream(sizeof(float));   // its scale and its triple go out
        co_await core.stream(sizeof(RowTag));  // by copies of their own
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
    co_await push_combine(core, iteration, half);
  }

  const std::vector<std::uint64_t> cores_per_call_;
  const std::string sabotage_;
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
