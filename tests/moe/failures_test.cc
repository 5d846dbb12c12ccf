// Runs on what failures leave of a fabric: the same layer with the bandwidth that is left, another
// way round, or a refusal.
#include <gmock/gmock.h>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using ::testing::HasSubstr;

void expect_same_times(const Result& a, const Result& b) {
  ASSERT_EQ(a.operations_size(), b.operations_size());
  for (int i = 0; i < a.operations_size(); ++i) {
    EXPECT_EQ(a.operations(i).latency_us().SerializeAsString(),
              b.operations(i).latency_us().SerializeAsString());
    EXPECT_EQ(a.operations(i).bytes_on_wire(), b.operations(i).bytes_on_wire());
  }
}

// Planes are alike: a fabric that lost one of p is one of p - 1, to the picosecond, whichever it
// was.
TEST(Failures, AFabricThatLostAPlaneIsOneOfFewer) {
  const Settings fewer = {{"fabric.clos.planes", "6"}};
  for (const char* algorithm : {"alltoall", "cann-bsp"}) {
    const Result expected = good_run(shipped_run("cm384", algorithm, 32, fewer));
    for (const char* plane : {"0", "3", "6"}) {
      SCOPED_TRACE(plane);
      const Result result =
          good_run(shipped_run("cm384", algorithm, 32, {{"fabric.failed_planes", plane}}));
      expect_same_times(result, expected);
      EXPECT_EQ(result.output_digest(), expected.output_digest());
    }
  }
}

// Every device puts to every other, and the planes are what is scarce.
TEST(Failures, AllToAllTakesWhatTheRemainingBandwidthGives) {
  const Settings whole = {{"fabric.choice_per", "PACKET"},
                          {"fabric.clos.device_link.gb_per_s", "5"}};
  Settings half = whole;
  half.emplace_back("fabric.clos.planes", "1");
  Settings failed = whole;
  failed.emplace_back("fabric.failed_planes", "0");
  for (const char* bytes : {"16384", "65536"}) {
    const auto run = [&](Settings settings) {
      settings.emplace_back("algorithm.bytes", bytes);
      return good_run(shipped_run("tiny", "alltoall", 4, settings));
    };
    const Result one_plane = run(half);
    expect_same_times(run(failed), one_plane);
    EXPECT_LT(run(whole).operations(0).latency_us().max(),
              one_plane.operations(0).latency_us().max());
  }
}

TEST(Failures, RoutesAroundALinkAndArrivesRight) {
  const Settings around = {
      {"fabric.failed_links", "device0-L1.node0.plane0,L1.node1.plane1-L2.plane1.spine0"}};
  // Device 0 has plane 1 alone, which no longer leads to node 1; device 1 hands nothing on.
  EXPECT_THROW(run_alone(shipped_run("tiny", "cann-bsp", 4, around)), emu::ConfigError);

  const RunConfig whole = shipped_run("tiny", "cann-bsp", 4);
  const RunConfig one =
      shipped_run("tiny", "cann-bsp", 4, {{"fabric.failed_links", "device0-L1.node0.plane0"}});
  const Result expected = good_run(whole);
  const Result result = good_run(one);
  EXPECT_EQ(result.output_digest(), expected.output_digest());
  EXPECT_NE(result.digest(), expected.digest());
  EXPECT_EQ(result.settings().at("fabric.failed_links"), "device0-L1.node0.plane0");

  // A mesh goes by way of a third device.
  const Result direct = good_run(shipped_run("ascend950-mesh8", "p2p", 2));
  const Result detour = good_run(
      shipped_run("ascend950-mesh8", "p2p", 2, {{"fabric.failed_links", "device0-device1"}}));
  EXPECT_EQ(to_ps(detour.operations(0).latency_us().max()) -
                to_ps(direct.operations(0).latency_us().max()),
            1'000'000);  // a cable's latency more; packets cut through
}

TEST(Failures, CutOffDevicesAreRefusedBeforeAnyWork) {
  const auto refusal = [](const RunConfig& config) -> std::string {
    try {
      run_alone(config);
    } catch (const emu::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(
      refusal(shipped_run("tiny", "alltoall", 4, {{"fabric.failed_planes", "0,1"}})),
      HasSubstr("fabric.failed_planes: got '0,1', expected a path between every two devices "
                "of the run: 6 of 6 pairs are cut off, first device0 and device1"));
  const Settings uplinks = {
      {"fabric.failed_links", "L1.node0.plane0-L2.plane0.spine0,L1.node0.plane1-L2.plane1.spine0"}};
  EXPECT_THAT(refusal(shipped_run("tiny", "alltoall", 4, uplinks)),
              HasSubstr("4 of 6 pairs are cut off, first device0 and device2"));
  good_run(shipped_run("tiny", "alltoall", 2, uplinks));  // on one node
  // The other die of a package needs no plane.
  const Settings no_planes = {{"fabric.failed_planes", "0,1,2,3,4,5,6"}};
  good_run(shipped_run("cm384", "p2p", 2, no_planes));
  EXPECT_THAT(refusal(shipped_run("cm384", "p2p", 4, no_planes)),
              HasSubstr("4 of 6 pairs are cut off, first die0 and die2"));
}

}  // namespace
}  // namespace orrery::moe
