// What a sweep is asked to do: files, command line, and both together.
#include "cli/sweep_request.h"

#include <gmock/gmock.h>

#include "emu/errors.h"
#include "emu/text_config.h"

namespace orrery::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

SweepRequest from_text(const std::string& text) {
  Sweep sweep;
  emu::parse_text(text, "study", sweep);
  return to_request(sweep, "study");
}

std::string error_of(const std::string& text) {
  try {
    from_text(text);
  } catch (const emu::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SweepRequest, EveryFieldOfAFileIsAFlagAsTyped) {
  const SweepRequest request = from_text(R"(
      description: "all of them"
      topology: "cm384" workload: "deepseek-r1" algorithm: "cann-bsp" devices: 64
      placement: "spread" tokens: 0 iterations: 3 seed: 9007199254740991 align: true
      adversary: false max_virtual_ms: 2.5 payload: "control" check: true
      set: "fabric.clos.planes=6"
      vary { key: "device.cores" values: "24,48" }
      vary { key: "algorithm.quantise" values: "int8,bf16" }
      zip: true
      metric: "dispatch.latency_us.p50")");
  EXPECT_THAT(request.fixed,
              UnorderedElementsAre(Pair("topology", "cm384"), Pair("workload", "deepseek-r1"),
                                   Pair("algorithm", "cann-bsp"), Pair("devices", "64"),
                                   Pair("placement", "spread"), Pair("tokens", "0"),
                                   Pair("iterations", "3"), Pair("seed", "9007199254740991"),
                                   Pair("align", "true"), Pair("adversary", "false"),
                                   Pair("max-virtual-ms", "2.5"), Pair("payload", "control"),
                                   Pair("check", "true"), Pair("fabric.clos.planes", "6")));
  ASSERT_EQ(request.axes.size(), 2u);
  EXPECT_EQ(request.axes[0].key, "device.cores");
  EXPECT_THAT(request.axes[0].values, ElementsAre("24", "48"));
  EXPECT_THAT(request.axes[1].values, ElementsAre("int8", "bf16"));
  EXPECT_TRUE(request.zip);
  EXPECT_THAT(request.metrics, ElementsAre("dispatch.latency_us.p50"));
}

// Whoever adds a flag to the sweep's keys adds it to the file's schema.
TEST(SweepRequest, EveryFlagThatCanBeVariedStandsInTheSchema) {
  for (std::string name : varied_flags()) {
    std::replace(name.begin(), name.end(), '-', '_');
    EXPECT_NE(Sweep::descriptor()->FindFieldByName(name), nullptr) << name;
  }
}

TEST(SweepRequest, SaysWhatIsWrongWithAFile) {
  EXPECT_THAT(error_of("topologie: \"tiny\""), HasSubstr("did you mean 'topology'"));
  EXPECT_THAT(error_of("vary { values: \"1\" }"), HasSubstr("vary.0.key"));
  EXPECT_THAT(error_of("vary { key: \"tokens\" }"), HasSubstr("vary.0.values"));
  EXPECT_THAT(error_of("vary { key: \"tokens\" values: \"1:x\" }"),
              HasSubstr("study: tokens: got '1:x'"));
  EXPECT_THAT(error_of("set: \"fabric.clos\""), HasSubstr("path.to.field=value"));
  EXPECT_THAT(error_of("set: \"tokens=5\""), HasSubstr("begins with fabric."));
  EXPECT_THAT(error_of("tokens: 4 vary { key: \"tokens\" values: \"1\" }"),
              HasSubstr("fixed to '4'"));
  EXPECT_THAT(error_of("vary { key: \"tokens\" values: \"1\" } vary { key: \"tokens\" values: "
                       "\"2\" }"),
              HasSubstr("only once"));
}

TEST(SweepRequest, TheCommandLineGoesBeforeTheFile) {
  const SweepRequest file = from_text(R"(
      topology: "tiny" seed: 3 set: "device.cores=2" metric: "verified"
      vary { key: "tokens" values: "1,2" }
      vary { key: "placement" values: "packed,spread" }
      vary { key: "fabric.packet_bytes" values: "512,1024" })");
  SweepRequest typed;
  typed.fixed = {{"topology", "star"}, {"placement", "spread"}};
  typed.add_axis("--vary", "fabric.packet_bytes=2048");
  typed.add_axis("--vary", "seed=1:2");
  typed.add_axis("--vary", "device.cores=4,8");
  const SweepRequest both = merge(file, typed);
  EXPECT_THAT(both.fixed, ElementsAre(Pair("topology", "star"), Pair("placement", "spread")));
  std::vector<std::string> keys;
  for (const Axis& axis : both.axes) keys.push_back(axis.key);
  EXPECT_THAT(keys, ElementsAre("tokens", "fabric.packet_bytes", "seed", "device.cores"));
  EXPECT_THAT(both.axes[1].values, ElementsAre("2048"));
  EXPECT_THAT(both.metrics, ElementsAre("verified"));
  both.check("both");
}

TEST(SweepRequest, OfOneSettingTwiceTheLaterCounts) {
  SweepRequest request;
  request.add_setting("--set", "device.cores=2");
  request.add_setting("--set", "device.cores=4");
  EXPECT_THAT(request.fixed, ElementsAre(Pair("device.cores", "4")));
}

}  // namespace
}  // namespace orrery::cli
