#include "cli/sweep_comparison.h"

#include <gmock/gmock.h>

#include "cli/comparison.h"
#include "cli/comparison_table.h"
#include "tests/cli/results.h"

namespace orrery::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ResultFile sweep_of(const std::string& name, const std::vector<PointRecord>& points) {
  ResultFile file;
  file.name = name;
  file.is_sweep = true;
  file.points = points;
  return file;
}

PointRecord at(const std::string& cores, const std::string& block, double max_us) {
  return simple_point({{"device.cores", cores}, {"fabric.atomic_block_bytes", block}},
                      simple_result("put", max_us));
}

PointRecord failed(PointRecord point, const std::string& outcome, const std::string& error) {
  point.set_outcome(outcome);
  point.set_error(error);
  point.clear_result();
  return point;
}

// --- Two sweeps ---

TEST(CompareSweeps, MatchesPointsByWhatWasVaried) {
  const ResultFile first =
      sweep_of("a", {at("1", "64", 8), at("2", "64", 4), at("3", "64", 5), at("4", "64", 2)});
  PointRecord swapped = simple_point({{"fabric.atomic_block_bytes", "64"}, {"device.cores", "1"}},
                                     simple_result("put", 4));
  const ResultFile other =
      sweep_of("b", {failed(at("3", "64", 1), "hang", "hang: no event is left"), at("2", "64", 8),
                     swapped, at("5", "64", 1)});
  const SweepPair pair = compare_sweeps("A", first, "B", other);
  EXPECT_EQ(pair.matched(), 2u);
  EXPECT_THAT(pair.only_in_first(), ElementsAre("device.cores=4 fabric.atomic_block_bytes=64"));
  EXPECT_THAT(pair.only_in_other(), ElementsAre("device.cores=5 fabric.atomic_block_bytes=64"));
  EXPECT_THAT(pair.not_ok(), ElementsAre("device.cores=3 fabric.atomic_block_bytes=64: hang in B"));
  ASSERT_EQ(pair.operations_size(), 1);
  const OperationRatios& put = pair.operations(0);
  ASSERT_EQ(put.points_size(), 2);
  EXPECT_EQ(put.points(0).ratio(), 0.5);
  EXPECT_EQ(put.points(1).ratio(), 2);
  EXPECT_DOUBLE_EQ(put.geometric_mean(), 1);
  EXPECT_EQ(put.best(), "device.cores=1 fabric.atomic_block_bytes=64");
  EXPECT_EQ(put.worst(), "device.cores=2 fabric.atomic_block_bytes=64");
}

TEST(CompareSweeps, SaysInWhatTheyDiffer) {
  PointRecord slow = at("1", "64", 9);
  (*slow.mutable_result()->mutable_settings())["device.poll_ns"] = "40";
  slow.mutable_result()->set_seed(7);
  const SweepPair pair =
      compare_sweeps("A", sweep_of("a", {at("1", "64", 8)}), "B", sweep_of("b", {slow}));
  EXPECT_THAT(pair.differing_inputs(), ElementsAre("seed", "device.poll_ns"));
  EXPECT_THAT(pair.statement(), HasSubstr("differ in 2 inputs: seed, device.poll_ns"));
  EXPECT_EQ(pair.no_effect_size(), 0);

  const SweepPair same = compare_sweeps("A", sweep_of("a", {slow}), "B", sweep_of("b", {slow}));
  EXPECT_EQ(same.statement(), "have the same inputs and the same digests");
  EXPECT_EQ(same.unchanged(), 1u);
}

TEST(CompareSweeps, SaysWhenNothingChanged) {
  PointRecord other = at("1", "64", 8);
  (*other.mutable_result()->mutable_settings())["workload.layers"] = "40";
  const Comparison comparison =
      compare({sweep_of("a", {at("1", "64", 8)}), sweep_of("b", {other})});
  const SweepPair& pair = comparison.sweep_pairs(0);
  ASSERT_EQ(pair.no_effect_size(), 1);
  EXPECT_EQ(pair.no_effect(0).could(), NoEffect::COULD_NOT);
  EXPECT_THAT(to_table(comparison),
              HasSubstr("changed nothing: all latencies of all points are equal\n"
                        "  workload.layers could not have: "));
}

TEST(CompareSweeps, WithoutACommonPointSaySo) {
  const Comparison comparison =
      compare({sweep_of("a", {at("1", "64", 8)}), sweep_of("b", {at("2", "64", 8)})});
  EXPECT_THAT(to_table(comparison),
              HasSubstr("A and B have no point in common that is ok in both"));
}

TEST(CompareSweeps, TableHasAColumnForEachKey) {
  const std::string table =
      to_table(compare({sweep_of("a", {at("1", "64", 8), at("16", "128", 4)}),
                        sweep_of("b", {at("1", "64", 6), at("16", "128", 5)})}));
  EXPECT_THAT(table, HasSubstr("max of put, us\n"
                               "  cores  atomic_block_bytes            A            B       B/A\n"
                               "  1      64                        8.000        6.000    0.7500\n"
                               "  16     128                       4.000        5.000    1.2500\n"
                               "  geometric mean 0.9682; least 0.7500 at device.cores=1 "
                               "fabric.atomic_block_bytes=64; most 1.2500 at device.cores=16 "
                               "fabric.atomic_block_bytes=128\n"));
}

TEST(CompareSweeps, KeysWithTheSameEndAreTold) {
  const PointRecord point = simple_point(
      {{"fabric.clos.uplink.latency_ns", "1"}, {"fabric.clos.device_link.latency_ns", "2"}},
      simple_result("put", 4));
  EXPECT_THAT(to_table(compare({sweep_of("a", {point}), sweep_of("b", {point})})),
              HasSubstr("\n  uplink.latency_ns  device_link.latency_ns "));
}

// --- One sweep ---

TEST(LookInto, ComparesEachKeyWithTheOthersHeldFixed) {
  const Comparison comparison =
      compare({sweep_of("a", {at("1", "64", 8), at("1", "128", 8), at("2", "64", 4),
                              at("2", "128", 4), at("4", "64", 4), at("4", "128", 1)})});
  ASSERT_EQ(comparison.effects_size(), 2);
  const KeyEffect& cores = comparison.effects(0);
  EXPECT_EQ(cores.key(), "device.cores");
  EXPECT_EQ(cores.first_value(), "1");
  EXPECT_EQ(cores.pairs(), 4u);
  EXPECT_EQ(cores.unchanged_pairs(), 0u);
  ASSERT_EQ(cores.values_size(), 3);
  EXPECT_EQ(cores.values(1).value(), "2");
  EXPECT_EQ(cores.values(1).pairs(), 2u);
  EXPECT_DOUBLE_EQ(cores.values(1).operations(0).geometric_mean(), 0.5);
  EXPECT_DOUBLE_EQ(cores.values(2).operations(0).geometric_mean(), 0.25);  // of 1/2 and 1/8
  EXPECT_EQ(cores.values(2).operations(0).smallest(), 0.125);
  EXPECT_EQ(cores.values(2).operations(0).largest(), 0.5);
  const KeyEffect& block = comparison.effects(1);
  EXPECT_EQ(block.pairs(), 3u);
  EXPECT_EQ(block.unchanged_pairs(), 2u);
  EXPECT_FALSE(block.has_no_effect());
  EXPECT_THAT(to_table(comparison), HasSubstr("changed nothing in 2 of 3 pairs of points"));
}

TEST(LookInto, TheFirstValueIsTheFirstOneAskedFor) {
  ResultFile sweep = sweep_of("a", {at("1", "64", 8), at("1", "512", 4)});
  sweep.order =
      SweepOrder(R"({"vary": [{"key": "fabric.atomic_block_bytes", "values": ["512", "64"]}]})");
  const Comparison comparison = compare({sweep});
  EXPECT_EQ(comparison.effects(1).first_value(), "512");
  EXPECT_DOUBLE_EQ(comparison.effects(1).values(1).operations(0).geometric_mean(), 2);
}

TEST(LookInto, NamesKeysThatChangedNothingAndWhy) {
  const Comparison comparison = compare(
      {sweep_of("a", {at("1", "64", 8), at("1", "128", 8), at("2", "64", 4), at("2", "128", 4)})});
  const KeyEffect& block = comparison.effects(1);
  EXPECT_EQ(block.unchanged_pairs(), block.pairs());
  EXPECT_EQ(block.no_effect().could(), NoEffect::COULD);
  EXPECT_THAT(to_table(comparison), HasSubstr("changed nothing in any of 2 pairs of points\n"
                                              "  fabric.atomic_block_bytes could have: "));
}

TEST(LookInto, KeysThatNeverVaryAlone) {
  const Comparison comparison = compare({sweep_of("a", {at("1", "64", 8), at("2", "128", 4)})});
  EXPECT_EQ(comparison.effects(0).pairs(), 0u);
  EXPECT_THAT(to_table(comparison), HasSubstr("device.cores: no two points differ in it alone"));
}

TEST(LookInto, SaysWhichOtherInputsMoveWithAKey) {
  PointRecord a = simple_point({{"topology", "t"}}, simple_result("put", 4));
  PointRecord b = simple_point({{"topology", "u"}}, simple_result("put", 2));
  for (PointRecord* point : {&a, &b}) point->mutable_result()->clear_settings();
  b.mutable_result()->set_topology("u");
  b.mutable_result()->set_devices(8);
  const Comparison comparison = compare({sweep_of("a", {a, b})});
  EXPECT_THAT(comparison.effects(0).also_differ(), ElementsAre("devices"));
  EXPECT_THAT(to_table(comparison), HasSubstr("with it differ: devices;"));
}

TEST(LookInto, LeavesOutAndNamesPointsThatAreNotOk) {
  const Comparison comparison = compare(
      {sweep_of("a", {at("1", "64", 8), failed(at("2", "64", 4), "error", "no memory\nat all")})});
  EXPECT_EQ(comparison.compared(0).points(), 2u);
  EXPECT_EQ(comparison.compared(0).points_ok(), 1u);
  EXPECT_FALSE(comparison.compared(0).verified());
  EXPECT_THAT(
      to_table(comparison),
      HasSubstr("not ok in A: device.cores=2 fabric.atomic_block_bytes=64: error: no memory\n"));
  EXPECT_EQ(comparison.effects(0).pairs(), 0u);
}

TEST(LookInto, FixedInputsAreNamed) {
  PointRecord a = at("1", "64", 8);
  PointRecord b = at("2", "64", 4);
  for (PointRecord* point : {&a, &b}) {
    (*point->mutable_result()->mutable_settings())["device.poll_ns"] = "40";
  }
  const Comparison comparison = compare({sweep_of("a", {a, b})});
  std::vector<std::string> names;
  for (const InputDifference& input : comparison.fixed_inputs()) names.push_back(input.input());
  EXPECT_THAT(names, ::testing::IsSupersetOf({"topology", "seed", "device.poll_ns"}));
  EXPECT_THAT(names, ::testing::Not(::testing::Contains("device.cores")));
}

}  // namespace
}  // namespace orrery::cli
