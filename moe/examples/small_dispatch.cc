// A small MoE dispatch with one core per device, and a bug to find (03-small-dispatch.md).
//
// Dispatch: every device puts each row, its tag behind it, into the next free slot of its own list
// for the row's expert, and then tells every expert how many rows it sent. Windows exist twice and
// calls take turns, since a fast device may be one call ahead. Experts, combine and all checks come
// with PlainCombine.
#include "emu/errors.h"
#include "moe/plain_combine.h"

namespace {

using namespace orrery;
using devices::Core;
using fabric::Address;
using std::uint32_t;

struct Status {
  uint32_t here, rows;
};

class SmallDispatch final : public moe::PlainCombine {
 public:
  SmallDispatch(const moe::Problem& problem, const moe::Options&)
      : PlainCombine(problem, moe::Precision::kBf16),
        entries_(problem.token_bound * problem.top_k()) {
    if (problem.placement.experts() < problem.devices) {  // its statuses hold the others back
      throw emu::ConfigError("--devices", "", std::to_string(problem.devices),
                             "an expert on each: at most the workload's experts");
    }
    const std::uint64_t lists = std::uint64_t{2} * max_local_experts() * problem.devices;
    window_ = layout_.rows(lists * entries_, row_stride());
    status_ = layout_.flat(lists * sizeof(Status));
  }
  uint32_t cores(uint32_t, uint32_t) const override { return 1; }
  std::uint64_t touched_bytes(uint32_t device) const override {
    return 3 * PlainCombine::touched_bytes(device);  // the two windows hold rows as well
  }

 private:
  uint32_t list(uint32_t iteration, uint32_t local, uint32_t source) const {
    return (iteration % 2 * max_local_experts() + local) * problem_.devices + source;
  }
  Address slot(uint32_t list, uint32_t n) const {
    return window_ + (std::uint64_t{list} * entries_ + n) * row_stride();
  }
  Address status(uint32_t list) const { return status_ + list * sizeof(Status); }

  emu::Task dispatch(Core& core, uint32_t iteration) override {
    const moe::ExpertPlacement& placement = problem_.placement;
    std::vector<uint32_t> sent(placement.experts());
    for (uint32_t entry = 0; entry < tokens(core.rank(), iteration) * problem_.top_k(); ++entry) {
      const auto expert = core.load<uint32_t>(ids() + entry * 4);
      if (expert >= placement.experts()) continue;  // masked
      const uint32_t token = entry / problem_.top_k();
      const uint32_t to = list(iteration, placement.local_index(expert), core.rank());
      const Address row = slot(to, sent[expert]++);
      const moe::RowTag tag{core.rank(), token, entry % problem_.top_k()};
      co_await core.put(placement.owner(expert), row, input(token), payload_bytes());
      co_await core.store(placement.owner(expert), row + payload_bytes(), tag);
    }
    co_await core.fence();
    for (uint32_t expert = 0; expert < placement.experts(); ++expert) {
      const uint32_t to = list(iteration, placement.local_index(expert), core.rank());
      co_await core.store(placement.owner(expert), status(to), Status{1, sent[expert]});
    }
    const devices::Slots all{status(list(iteration, 0, 0)), 4, sizeof(Status),
                             local_experts(core.rank()) * core.ranks()};
    const auto writer = [&](uint32_t i) { return "device " + std::to_string(i % core.ranks()); };
    co_await core.wait_until(all, devices::word_equals(1), writer);
    uint32_t row = 0;
    for (uint32_t local = 0; local < local_experts(core.rank()); ++local) {
      const uint32_t first = row;
      for (uint32_t source = 0; source < core.ranks(); ++source) {
        const uint32_t from = list(iteration, local, source);
        const uint32_t rows = core.load<Status>(status(from)).rows;
        for (uint32_t n = 0; n < rows; ++n, ++row) {
          core.accept(slot(from, n), payload_bytes() + sizeof(moe::RowTag));
          co_await core.copy(expanded(row), slot(from, n), payload_bytes());
          core.write(tag(row), core.load<moe::RowTag>(slot(from, n) + payload_bytes()));
        }
      }
      core.write(expert_rows(local), row - first);
    }
  }

  const uint32_t entries_;
  Address window_, status_;
};

}  // namespace

ORRERY_ALGORITHM(small_dispatch, "small-dispatch", "example: a small MoE layer with a bug to find",
                 SmallDispatch, {})
