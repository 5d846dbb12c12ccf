// PlainCombine under the simplest dispatch there is: every row straight to its final place, which
// the sender looks up in the routing of all devices. No library could; a test may.
#include "moe/plain_combine.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

class KnowingDispatch final : public PlainCombine {
 public:
  KnowingDispatch(const Problem& problem, const Options&)
      : PlainCombine(problem, Precision::kBf16) {
    flags_ = layout_.flat(problem.devices * kFlagStride);
  }

 private:
  static constexpr std::uint64_t kFlagStride = 64;

  emu::Task dispatch(devices::Core& core, std::uint32_t iteration) override {
    if (core.index() != 0) co_return;
    const ExpertPlacement& placement = problem_.placement;
    for (std::uint32_t owner = 0; owner < core.ranks(); ++owner) {
      std::uint64_t row = 0;
      for (std::uint32_t expert = placement.begin(owner); expert < placement.end(owner); ++expert) {
        for (const RowTag& tag : problem_.arrivals[iteration].rows(expert)) {
          if (tag.source == core.rank()) {
            co_await core.put(owner, expanded(row), input(tag.token), payload_bytes());
            co_await core.store(owner, this->tag(row), tag);
          }
          ++row;
        }
      }
    }
    co_await core.fence();
    for (std::uint32_t peer = 0; peer < core.ranks(); ++peer) {
      co_await core.store(peer, flags_ + core.rank() * kFlagStride, std::uint32_t{iteration + 1});
    }
    const auto writer = [](std::uint32_t source) { return "device " + std::to_string(source); };
    const devices::Slots all{flags_, 4, kFlagStride, core.ranks()};
    const devices::Predicate ready = devices::word_equals(iteration + 1);
    co_await core.wait_until(all, ready, writer);
    for (std::uint32_t local = 0; local < local_experts(core.rank()); ++local) {
      const std::uint32_t expert = placement.begin(core.rank()) + local;
      core.memory().store(
          expert_rows(local),
          static_cast<std::uint32_t>(problem_.arrivals[iteration].rows(expert).size()));
    }
  }

  fabric::Address flags_;
};

ORRERY_ALGORITHM(knowing, "test-knowing-dispatch", "for the tests of PlainCombine", KnowingDispatch,
                 {})

RunConfig knowing_run(std::uint32_t devices, std::uint32_t cores, const Workload& workload) {
  RunConfig config = small_run("test-knowing-dispatch", devices, cores, workload);
  config.alignment =
      devices::Alignment::kOperations;  // so that nobody's rows come before their place is free
  return config;
}

TEST(PlainCombine, IsRightOnAnyNumberOfCores) {
  for (const std::uint32_t cores : {1u, 2u, 3u, 7u}) {
    good_run(knowing_run(4, cores, make_workload(8, 2, 5)));
    good_run(knowing_run(3, cores, make_workload(7, 3, 4)));
  }
}

TEST(PlainCombine, IsRightUnderTheAdversaryWhateverTheOrder) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RunConfig config = knowing_run(4, 3, make_workload(8, 2, 5));
    config.machine.mutable_fabric()->set_order_scope(seed % 2 == 0 ? fabric::Fabric::NONE
                                                                   : fabric::Fabric::DEVICE_PAIR);
    config.adversary = true;
    config.seed = seed;
    good_run(config);
  }
}

TEST(PlainCombine, PassesOverMaskedEntries) {
  good_run(knowing_run(2, 2, routed(make_workload(4, 2, 3), {{0, -1}, {-1, -1}, {3, 1}, {-1, 2}})));
}

TEST(PlainCombine, TakesDevicesWithoutTokensOrExperts) {
  good_run(knowing_run(4, 2, make_workload(2, 1, 3)));
  good_run(knowing_run(4, 2, make_workload(8, 2, 0)));
}

TEST(PlainCombine, AsksForTheMemoryOfItsReturnedRows) {
  RunConfig config = knowing_run(2, 1, make_workload(4, 2, 8, 64));
  const Result result = good_run(config);
  // At least 16 entries of a row of 512 bytes each, beside everything that MoeLayer has.
  EXPECT_GT(result.counters().at("buffer_bytes_of_largest_device"), 16 * 512.0 + 8 * 128.0);
}

}  // namespace
}  // namespace orrery::moe
