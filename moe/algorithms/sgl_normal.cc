// The prefill ("normal") kernels of sgl-kernel-npu: NotifyDispatch, a dispatch that pulls, and a
// combine that pushes. A device quantises its rows into its own window; their owners read them from
// there, one remote read at a time.
//
// Sources: sgl-project/sgl-kernel-npu, csrc/deepep/ops/op_kernel/{notify_dispatch,
// cam_moe_dispatch_normal,cam_moe_combine_normal}.h, as read for this project. The notify kernel is
// the first part of the dispatch here: its launch and what the host does in between cost nothing.
//
// One window is enough, with no fence (the source alternates between two): a device writes its
// window in call n+1 when it has every device's notify flag of n+1, which is sent when that device
// has ended call n and so has pulled its last row of n. It writes the counts of n+1 when it has had
// a status from every device in n, which is sent behind that device's notify of n. For that, a
// device without experts gets statuses, too.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "moe/algorithms/sgl_notify.h"
#include "moe/push_combine.h"
#include "moe/share.h"

namespace orrery::moe {

namespace {

using devices::Core;
using devices::Slots;

// Vector passes of the kernel, counted in its inner loop: widen, abs, reduce max, scale, narrow
// twice.
constexpr int kQuantisePasses = 6;

using Status = std::array<float, 8>;

// What follows a row's payload in its slot.
struct Trailer {
  float scale;
  RowTag tag;
  std::array<std::uint32_t, 4> unused;
};
static_assert(sizeof(Trailer) == 32);

devices::Predicate status_is_one() {
  return {[](const std::byte* slot, std::uint64_t) {
            float flag;
            std::memcpy(&flag, slot, sizeof(flag));
            return flag == 1.0f;
          },
          0, "a status of 1.0"};
}

class SglNormal final : public PushCombine {
 public:
  SglNormal(const Problem& problem, const Options& options)
      : PushCombine(problem, precision_named(options.text("quantise"))),
        round_tokens_(static_cast<std::uint32_t>(std::min<std::uint64_t>(
            options.number("per_round_tokens", 1, 1u << 20), std::max(problem.token_bound, 1u)))),
        notify_(problem, round_tokens_, layout_) {
    window_ = layout_.rows(std::uint64_t{round_tokens_} * problem.top_k(), row_stride());
    status_ = layout_.flat(std::uint64_t{problem.devices} * max_local_experts() * sizeof(Status));
    round_done_ = layout_.flat(std::uint64_t{problem.devices} * 4);
    lay_out_combine(1);
  }

  // Rows are read once a flag says that they lie in their source's own memory; in combine a fence
  // stands between a row and its status. Flags appear whole.
  Contract contract() const override { return {Contract::Order::kNone, 8}; }

  std::uint64_t touched_bytes(std::uint32_t device) const override {
    std::uint64_t window = 0;
    for (std::uint32_t i = 0; i < problem_.iterations; ++i) {
      window = std::max<std::uint64_t>(window, std::min(tokens(device, i), round_tokens_));
    }
    return PushCombine::touched_bytes(device) + window * problem_.top_k() * row_stride();
  }

 private:
  // --- Layout ---
  fabric::Address slot(std::uint32_t row) const { return window_ + row * row_stride(); }
  fabric::Address trailer(fabric::Address record) const {
    return record + align_up(payload_bytes(), 32);
  }
  std::uint32_t record_bytes() const {
    return static_cast<std::uint32_t>(align_up(payload_bytes(), 32) + sizeof(Trailer));
  }
  fabric::Address status(std::uint32_t list) const { return status_ + list * sizeof(Status); }
  fabric::Address round_done(std::uint32_t source) const {
    return round_done_ + std::uint64_t{source} * 4;
  }

  emu::Task dispatch(Core& core, std::uint32_t iteration) override {
    const std::uint32_t count = tokens(core.rank(), iteration);
    co_await notify_.run(core, std::uint64_t{iteration} + 1, ids(), count, expert_rows(0));
    const std::uint32_t rounds = notify_.rounds(core);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      co_await fill_window(core, count, round);
      co_await set_statuses(core);
      co_await wait_statuses(core, round);
      co_await pull_rows(core, round);
      if (rounds > 1) co_await end_round(core, iteration * notify_.max_rounds() + round + 1);
    }
  }

  // (a) Entries of the round are split over the cores, which quantise them into this device's own
  // window.
  emu::Task fill_window(Core& core, std::uint32_t count, std::uint32_t round) {
    core.phase("input to own window");
    const std::uint32_t top_k = problem_.top_k();
    const std::uint32_t first = std::min(count, round * round_tokens_);
    const std::uint32_t entries = std::min(count - first, round_tokens_) * top_k;
    const Share mine = share(entries, core.count(), core.index());
    const auto experts =
        core.array<std::int32_t>(ids() + std::uint64_t{first} * top_k * 4, entries);
    fabric::Address before = 0;  // the row before: the host need not quantise a token twice
    RowTag tag_before{};
    float scale = 0;
    for (std::uint32_t i = mine.begin; i < mine.end; ++i) {
      if (experts[i] < 0) continue;
      const std::uint32_t entry = first * top_k + i;
      const RowTag tag{core.rank(), entry / top_k, entry % top_k};
      const fabric::Address record =
          slot(notify_.window_row(core, entry, static_cast<std::uint32_t>(experts[i])));
      co_await core.stream(output_row_bytes());
      if (precision_ == Precision::kInt8) {
        co_await core.compute(kQuantisePasses * core.costs().vector(problem_.hidden()));
      }
      co_await core.stream(record_bytes());
      if (before != 0 && tag_before.token == tag.token) {
        encode_again(core, record, before);
      } else {
        scale = encode(core, tag.token, record);
      }
      before = record;
      tag_before = tag;
      core.write(trailer(record), Trailer{scale, tag, {}});
    }
    co_await core.barrier();
  }

  // (b) Every expert's owner learns that this device's rows lie in its window.
  emu::Task set_statuses(Core& core) {
    core.phase("set status");
    Status one;
    one.fill(1.0f);
    const Share experts = share(problem_.placement.experts(), core.count(), core.index());
    for (std::uint32_t expert = experts.begin; expert < experts.end; ++expert) {
      const std::uint32_t local = problem_.placement.local_index(expert);
      co_await core.store(problem_.placement.owner(expert),
                          status(local * problem_.devices + core.rank()), one);
    }
    const Share peers = share(problem_.devices, core.count(), core.index());
    for (std::uint32_t peer = peers.begin; peer < peers.end; ++peer) {
      if (local_experts(peer) == 0) co_await core.store(peer, status(core.rank()), one);
    }
  }

  // (c) Statuses are split over the cores: wait, and clear them for their next use.
  emu::Task wait_statuses(Core& core, std::uint32_t round) {
    core.phase("wait status");
    const std::uint32_t lists = std::max(1u, local_experts(core.rank())) * problem_.devices;
    const Share mine = share(lists, core.count(), core.index());
    const auto writer = [this, mine, round, &core](std::uint32_t slot) {
      const std::uint32_t list = mine.begin + slot;
      const std::uint32_t local = list / problem_.devices;
      return fmt::format(
          "device {} (status of {} in round {})", list % problem_.devices,
          local < local_experts(core.rank())
              ? fmt::format("expert {}", problem_.placement.begin(core.rank()) + local)
              : std::string("a device without experts"),
          round);
    };
    const Slots slots{status(mine.begin), sizeof(Status), sizeof(Status), mine.size(), 0};
    const devices::Predicate ready = status_is_one();
    co_await core.wait_until(slots, ready, writer);
    for (std::uint32_t list = mine.begin; list < mine.end; ++list) {
      core.write(status(list), Status{});
    }
    co_await core.stream(mine.size() * sizeof(Status));
    co_await core.barrier();
  }

  // (d) Lists, of one local expert from one source each, are split over the cores. A core waits for
  // every row that it reads.
  emu::Task pull_rows(Core& core, std::uint32_t round) {
    core.phase("pull rows");
    const std::uint32_t lists = local_experts(core.rank()) * problem_.devices;
    const Share mine = share(lists, core.count(), core.index());
    for (std::uint32_t index = mine.begin; index < mine.end; ++index) {
      const std::uint32_t source = index % problem_.devices;
      const auto list = notify_.received(core, round, index / problem_.devices, source);
      co_await core.compute(core.costs().scalar_step);
      for (std::uint32_t j = 0; j < list.count; ++j) {
        const std::uint64_t row = list.row + j;
        co_await core.get(source, slot(list.window_row + j), expanded(row), record_bytes());
        co_await core.stream(payload_bytes());
        co_await core.stream(sizeof(float));   // its scale and its triple go out
        co_await core.stream(sizeof(RowTag));  // by copies of their own
        const auto tail = core.load<Trailer>(trailer(expanded(row)));
        core.write(scale(row), tail.scale);
        core.write(tag(row), tail.tag);
      }
    }
  }

  // (e) A barrier of all devices: nobody fills its window anew while another still reads from it.
  emu::Task end_round(Core& core, std::uint32_t rounds_done) {
    core.phase("round done");
    co_await core.barrier();
    if (core.index() == 0) {
      for (std::uint32_t peer = 0; peer < problem_.devices; ++peer) {
        co_await core.store(peer, round_done(core.rank()), rounds_done);
      }
      const auto writer = [](std::uint32_t slot) {
        return fmt::format("device {} core 0 (round done)", slot);
      };
      const Slots slots{round_done(0), 4, 4, problem_.devices, 0};
      const devices::Predicate ready = devices::word_at_least(rounds_done);
      co_await core.wait_until(slots, ready, writer);
    }
    co_await core.barrier();
  }

  emu::Task combine(Core& core, std::uint32_t iteration) override {
    return push_combine(core, iteration, 0);
  }

  const std::uint32_t round_tokens_;
  const SglNotify notify_;
  fabric::Address window_;
  fabric::Address status_;
  fabric::Address round_done_;
};

}  // namespace

ORRERY_ALGORITHM(sgl_normal, "sgl-normal",
                 "sgl-kernel-npu prefill: notify, dispatch by remote reads, combine by puts",
                 SglNormal,
                 {{"quantise",
                   "int8",
                   "dispatch payload: int8 with one scale per row, or bf16",
                   {"int8", "bf16"}},
                  {"per_round_tokens",
                   "8192",
                   "tokens that a device dispatches at a time; with more than one round each ends "
                   "in a barrier of all devices",
                   {}}})

}  // namespace orrery::moe
