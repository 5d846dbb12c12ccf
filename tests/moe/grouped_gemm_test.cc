#include "moe/grouped_gemm.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "moe/algorithm.h"
#include "moe/moe_layer.h"
#include "tests/moe/runs.h"
#include "tests/moe/test_workload.h"

namespace orrery::moe {
namespace {

// One device, all tokens to expert 0: latency of its experts, two kernels that cost nothing else.
emu::Time experts_time(const std::string& device, std::uint32_t cores, int tokens,
                       std::uint32_t hidden, std::uint32_t intermediate, double weight_bytes = 1) {
  Workload workload = make_workload(2, 1, tokens, hidden, intermediate);
  workload.set_weight_bytes(weight_bytes);
  workload = routed(workload, std::vector<std::vector<int>>(tokens, {0}));
  RunConfig config = small_run("cann-bsp", 1, cores, workload);
  config.machine.clear_device();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "cores: " + std::to_string(cores) + " " + device, config.machine.mutable_device()));
  config.iterations = 1;
  const RunOutcome outcome = run_alone(config);
  EXPECT_TRUE(outcome.result.verified()) << failures_of(outcome.result);
  return outcome.slowest[0][MoeLayer::kExperts];
}

constexpr const char* kTiles =
    "matrix_tflop_per_s: 1 tile_rows: 4 tile_columns: 32 matrix_rows: 2 tile_ns: 7 ";

// 2 x 48 columns of the gate and up projections are three tiles of 32, 64 of the down projection
// two.
TEST(GroupedGemm, ATileTakesItsRowsByTheGranuleOfTheMatrixUnits) {
  for (const auto& [rows, taken] : std::vector<std::pair<int, int>>{{1, 2}, {2, 2}, {3, 4}}) {
    const emu::Time up = 3 * (7'000 + taken * 2 * 32 * 64);
    const emu::Time down = 2 * (7'000 + taken * 2 * 32 * 48);
    EXPECT_EQ(experts_time(kTiles, 1, rows, 64, 48), up + down) << rows;
  }
}

TEST(GroupedGemm, TheLastTilesHaveTheRestOfRowsAndColumns) {
  // 5 rows are a tile of 4 and one of 1, which takes 2; 2 x 40 columns are 32, 32 and 16.
  const emu::Time up = 6 * 7'000 + (4 + 2) * 2 * 80 * 64;
  const emu::Time down = 4 * 7'000 + (4 + 2) * 2 * 64 * 40;
  EXPECT_EQ(experts_time(kTiles, 1, 5, 64, 40), up + down);
}

// A core has a third of the matrix units. Three tiles, then two on two of three cores.
TEST(GroupedGemm, TilesAreDealtToTheCores) {
  const emu::Time up = 7'000 + 3 * 2 * 2 * 32 * 64;
  const emu::Time down = 7'000 + 3 * 2 * 2 * 32 * 48;
  EXPECT_EQ(experts_time(kTiles, 3, 2, 64, 48), up + down);
}

// One tile of the gate and up projections on four cores, a quarter of its depth each; one of the
// down projection.
TEST(GroupedGemm, ATileIsCutAlongItsDepthWhereCoresAreLeft) {
  const std::string wide = "matrix_tflop_per_s: 1 tile_rows: 4 tile_columns: 64 tile_ns: 7 ";
  const emu::Time up = 7'000 + 4 * 2 * 3 * 64 * (64 / 4);
  const emu::Time down = 7'000 + 4 * 2 * 3 * 64 * (32 / 4);
  EXPECT_EQ(experts_time(wide, 4, 3, 64, 32), up + down);
}

// Weights come once for all row blocks of a column: 96 x 64 and 64 x 48 bytes at 1 GB/s, and where
// the products take longer, that.
TEST(GroupedGemm, WeightsAreReadOncePerColumnBlock) {
  const std::string free = "core_copy_gb_per_s: 1 tile_rows: 4 tile_columns: 32 ";
  const emu::Time weights = (96 * 64 + 64 * 48) * 1'000;
  EXPECT_EQ(experts_time(free, 1, 3, 64, 48), weights);
  EXPECT_EQ(experts_time(free, 1, 9, 64, 48), weights);
  EXPECT_EQ(experts_time(free, 1, 3, 64, 48, 2), 2 * weights);
  // 4 rows of 2 x 32 x 64 operations take 16,384 ns at 1 GFLOP/s, 2,048 bytes 2,048 ns.
  const emu::Time products = 4 * 2 * (96 * 64 + 64 * 48) * 1'000;
  EXPECT_EQ(experts_time(free + "matrix_tflop_per_s: 0.001 ", 1, 4, 64, 48), products);
}

// All cores share the memory: no more than its bandwidth, however many they are.
TEST(GroupedGemm, CoresShareTheMemory) {
  const emu::Time alone = experts_time("hbm_gb_per_s: 1 tile_columns: 32 ", 1, 3, 64, 48);
  EXPECT_EQ(alone, (96 * 64 + 64 * 48) * 1'000);
  EXPECT_EQ(experts_time("hbm_gb_per_s: 1 tile_columns: 32 ", 3, 3, 64, 48), alone);
}

// --- A team of the kernel's cores ---

class TeamGemm final : public Algorithm {
 public:
  TeamGemm(const Problem&, const Options& options)
      : team_{static_cast<std::uint32_t>(options.number("first", 0, 64)),
              static_cast<std::uint32_t>(options.number("count", 1, 64))},
        layout_([] {
          Layout layout;
          layout.flat(64);
          return layout;
        }()) {}
  std::vector<std::string> operations() const override { return {"gemm"}; }
  const Layout& layout() const override { return layout_; }
  std::uint64_t useful_bytes(std::uint32_t, std::uint32_t) const override { return 0; }
  Verdict verify(devices::DeviceProcess&, std::uint32_t, std::uint32_t) override { return {}; }
  emu::Task program(devices::Core& core, std::uint32_t, std::uint32_t) override {
    if (!team_.has(core)) co_return;
    std::vector<GemmGroup> groups{{8, 96, 64}, {4, 32, 64}};
    co_await grouped_gemm(core, std::move(groups), 1, team_);
  }

 private:
  const CoreTeam team_;
  const Layout layout_;
};

ORRERY_ALGORITHM(test_team_gemm, "test-team-gemm", "a product on some cores", TeamGemm,
                 {{"first", "0", "", {}}, {"count", "1", "", {}}})

// Six tiles and one: seven for any team. A tile takes what it takes on one of the device's 8 cores.
TEST(GroupedGemm, ATeamHasTheMatrixUnitsOfItsCoresAlone) {
  const auto time = [](std::uint32_t first, std::uint32_t count) {
    RunConfig config = small_run("test-team-gemm", 1, 8, make_workload(2, 1, 1));
    config.machine.clear_device();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(std::string("cores: 8 ") + kTiles,
                                                              config.machine.mutable_device()));
    config.iterations = 1;
    config.settings = {{"algorithm.first", std::to_string(first)},
                       {"algorithm.count", std::to_string(count)}};
    return run_alone(config).slowest[0][0];
  };
  const emu::Time tile = 7'000 + 8 * 4 * 2 * 32 * 64;
  EXPECT_EQ(time(0, 1), 7 * tile);
  EXPECT_EQ(time(5, 1), 7 * tile);
  EXPECT_EQ(time(2, 2), 4 * tile);
  EXPECT_EQ(time(1, 3), 3 * tile);
  EXPECT_EQ(time(1, 7), tile);
}

// Seven tiles are cut in two along their depth from 14 cores on, and in four from 28.
TEST(GroupedGemm, ATeamCutsTilesWhereItHasCoresLeft) {
  const auto time = [](std::uint32_t count) {
    RunConfig config = small_run("test-team-gemm", 1, 32, make_workload(2, 1, 1));
    config.machine.clear_device();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(std::string("cores: 32 ") + kTiles,
                                                              config.machine.mutable_device()));
    config.iterations = 1;
    config.settings = {{"algorithm.first", "3"}, {"algorithm.count", std::to_string(count)}};
    return run_alone(config).slowest[0][0];
  };
  EXPECT_EQ(time(13), 7'000 + 32 * 4 * 2 * 32 * 64);
  EXPECT_EQ(time(14), 7'000 + 32 * 4 * 2 * 32 * 64 / 2);
  EXPECT_EQ(time(29), 7'000 + 32 * 4 * 2 * 32 * 64 / 4);
}

}  // namespace
}  // namespace orrery::moe
