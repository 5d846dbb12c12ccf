// The points of a sweep, and what is wrong with one before any point runs.
#include "cli/sweep_plan.h"

#include <gmock/gmock.h>

#include "emu/errors.h"

namespace orrery::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

SweepRequest tiny(const std::vector<std::string>& axes) {
  SweepRequest request;
  request.fixed = {{"topology", "tiny"}, {"algorithm", "cann-bsp"}};
  for (const std::string& axis : axes) request.add_axis("--vary", axis);
  return request;
}

std::string error_of(const SweepRequest& request) {
  try {
    request.check("--vary");
    const SweepPlan plan(request);
  } catch (const emu::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SweepPlan, IsTheProductWithTheFirstKeySlowest) {
  const SweepPlan plan(tiny({"tokens=1,2", "fabric.atomic_block_bytes=512,128,64"}));
  ASSERT_EQ(plan.size(), 6u);
  EXPECT_EQ(plan.key(0), "tokens=1 fabric.atomic_block_bytes=512");
  EXPECT_EQ(plan.key(1), "tokens=1 fabric.atomic_block_bytes=128");
  EXPECT_EQ(plan.key(5), "tokens=2 fabric.atomic_block_bytes=64");
  EXPECT_THAT(plan.coordinates(4), ElementsAre(1, 1));
  EXPECT_THAT(plan.varied(4),
              ElementsAre(Pair("tokens", "2"), Pair("fabric.atomic_block_bytes", "128")));
  const RunOptions options = plan.options(4);
  EXPECT_EQ(options.topology, "tiny");
  EXPECT_EQ(options.tokens, "2");
  EXPECT_THAT(options.settings, ElementsAre("fabric.atomic_block_bytes=128"));
}

TEST(SweepPlan, PairsWithZip) {
  SweepRequest request = tiny({"tokens=1,2,2", "seed=7,7,8"});
  request.zip = true;
  const SweepPlan plan(request);
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan.key(2), "tokens=2 seed=8");
  EXPECT_EQ(plan.options(1).seed, "7");
}

TEST(SweepPlan, EveryFlagThatCanBeVariedReachesItsOption) {
  const SweepPlan plan(tiny({"workload=deepseek-r1", "devices=2", "placement=spread", "tokens=3",
                             "iterations=4", "seed=5", "align=true", "adversary=true",
                             "max-virtual-ms=6", "payload=control", "check=true"}));
  const RunOptions options = plan.options(0);
  EXPECT_EQ(options.workload, "deepseek-r1");
  EXPECT_EQ(options.devices, "2");
  EXPECT_EQ(options.placement, "spread");
  EXPECT_EQ(options.tokens, "3");
  EXPECT_EQ(options.iterations, "4");
  EXPECT_EQ(options.seed, "5");
  EXPECT_TRUE(options.align);
  EXPECT_TRUE(options.adversary);
  EXPECT_TRUE(options.check);
  EXPECT_EQ(options.max_virtual_ms, "6");
  EXPECT_EQ(options.payload, "control");
}

TEST(SweepPlan, RefusesWhatNoPointCanTake) {
  EXPECT_THAT(error_of(tiny({})), HasSubstr("at least one"));
  EXPECT_THAT(error_of(tiny({"tokens=1,many"})), HasSubstr("'many'"));
  EXPECT_THAT(error_of(tiny({"tokenz=1"})), HasSubstr("did you mean 'tokens'"));
  EXPECT_THAT(error_of(tiny({"transport=ucx"})), HasSubstr("'transport'"));
  EXPECT_THAT(error_of(tiny({"fabrik.clos.planes=1"})), HasSubstr("did you mean 'fabric'"));
  EXPECT_THAT(error_of(tiny({"fabric.packet_byte=64"})), HasSubstr("did you mean 'packet_bytes'"));
  EXPECT_THAT(error_of(tiny({"fabric.packet_bytes=512,8"})), HasSubstr("16 to 65536"));
  EXPECT_THAT(error_of(tiny({"workload.top_q=2"})), HasSubstr("did you mean 'top_k'"));
  EXPECT_THAT(error_of(tiny({"algorithm.quantise=int8,int4"})), HasSubstr("'int4'"));
  EXPECT_THAT(error_of(tiny({"align=maybe"})), HasSubstr("true or false"));
  EXPECT_THAT(error_of(tiny({"workload=tiny,teeny"})), HasSubstr("'teeny'"));
  EXPECT_THAT(error_of(tiny({"topology=tiny,star"})), HasSubstr("fixed to 'tiny'"));
  EXPECT_THAT(error_of(tiny({"tokens=4,8,4"})), HasSubstr("'4', expected each only once"));
  EXPECT_THAT(error_of(tiny({"tokens=1:1000", "seed=1:101"})), HasSubstr("at most 100000 points"));
  SweepRequest uneven = tiny({"tokens=1,2", "seed=1,2,3"});
  uneven.zip = true;
  EXPECT_THAT(error_of(uneven), HasSubstr("as many values as tokens has, 2"));
  SweepRequest twice = tiny({"tokens=1,1", "seed=2,2"});
  twice.zip = true;
  EXPECT_THAT(error_of(twice), HasSubstr("'tokens=1 seed=2', expected each only once"));
  SweepRequest bare;
  bare.add_axis("--vary", "algorithm=cann-bsp,ring");
  EXPECT_THAT(error_of(bare), HasSubstr("--topology: got 'nothing'"));
}

TEST(SweepPlan, AcceptsWhatSomePointMayTake) {
  // Devices beyond a topology and paths that only one of two fabrics has are a matter of the point.
  EXPECT_EQ(error_of(tiny({"devices=4,5"})), "accepted");
  SweepRequest two;
  two.fixed = {{"algorithm", "p2p"}};
  two.add_axis("--vary", "topology=star,tiny");
  two.add_axis("--vary", "fabric.clos.planes=1,2");
  EXPECT_EQ(error_of(two), "accepted");
  SweepRequest algorithms;
  algorithms.fixed = {{"topology", "tiny"}};
  algorithms.add_axis("--vary", "algorithm=ring,cann-bsp");
  algorithms.add_axis("--vary", "algorithm.quantise=int8");
  EXPECT_EQ(error_of(algorithms), "accepted");
}

}  // namespace
}  // namespace orrery::cli
