// --payload control: rows are not carried, and nothing else changes; what is wrong is still found.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using testing::HasSubstr;

struct Size {
  std::string algorithm;
  std::string topology;
  std::uint32_t devices;
  std::uint32_t tokens;
  Settings settings;
};

void PrintTo(const Size& size, std::ostream* out) {
  *out << size.algorithm << " on " << size.devices << " of " << size.topology;
  for (const auto& [field, value] : size.settings) *out << " " << field << "=" << value;
}

class ControlPayload : public testing::TestWithParam<Size> {};

// Everything in the result, to the last bit, but what it says of itself and of output bytes.
TEST_P(ControlPayload, ChangesNoEventAndNoLatency) {
  const Size& size = GetParam();
  for (const bool adversary : {false, true}) {
    RunConfig config = shipped_run(size.topology, size.algorithm, size.devices, size.settings,
                                   make_workload(8, 2, size.tokens));
    config.iterations = 3;
    config.adversary = adversary;
    Result full = good_run(config);
    config.control = true;
    Result control = good_run(config);
    EXPECT_EQ(control.payload(), "control");
    EXPECT_EQ(control.digest(), full.digest());
    EXPECT_NE(control.output_digest(), full.output_digest());
    for (Result* each : {&full, &control}) {
      each->clear_host();
      each->clear_payload();
      each->clear_output_digest();
    }
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(full, control));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, ControlPayload,
    testing::Values(
        Size{"cann-bsp", "tiny", 4, 4, {}}, Size{"cann-bsp", "tiny", 3, 9, {}},
        Size{"cann-bsp", "tiny", 4, 4, {{"algorithm.quantise", "bf16"}}},
        Size{"cann-bsp", "cm384", 18, 8, {{"workload.gate.masked_share", "0.3"}}},
        Size{"ubep", "cm384", 18, 8, {}}, Size{"ubep", "cm384", 18, 8, {{"algorithm.flag", "sp"}}},
        Size{
            "ubep", "cm384", 5, 8, {{"algorithm.flag", "dc"}, {"fabric.atomic_block_bytes", "64"}}},
        Size{"ubep", "cm384", 5, 8, {{"algorithm.flag", "stop-and-wait"}}},
        Size{"ubep", "tiny", 4, 9, {{"algorithm.flag", "fence"}, {"algorithm.quantise", "bf16"}}},
        Size{"ubep", "tiny", 4, 9, {{"algorithm.block_bytes", "64"}, {"workload.hidden", "500"}}},
        // Packets and blocks that cut rows where nothing of them is carried.
        Size{"cann-bsp",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"}, {"workload.hidden", "333"}}},
        Size{"cann-bsp", "tiny", 2, 5, {{"fabric.packet_bytes", "64"}, {"workload.hidden", "3"}}},
        Size{"cann-bsp",
             "star",
             6,
             5,
             {{"workload.hidden", "1"}, {"fabric.order_scope", "DEVICE_PAIR"}}},
        Size{"sgl-normal", "tiny", 4, 4, {}},
        Size{"sgl-normal", "cm384", 18, 8, {{"workload.gate.masked_share", "0.3"}}},
        Size{"sgl-normal",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.per_round_tokens", "2"}}},
        Size{"tutel-2dh", "tiny", 4, 4, {}},
        Size{"tutel-2dh", "cm384", 18, 8, {{"workload.gate.masked_share", "0.3"}}},
        Size{"tutel-2dh",
             "cm384",
             12,
             5,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.group", "3"},
              {"algorithm.capacity_factor", "1"}}},
        Size{"deepep-ll", "tiny", 4, 4, {}}, Size{"deepep-ll", "cm384", 18, 8, {}},
        Size{"deepep-ll", "star", 6, 5, {{"workload.hidden", "1"}}},
        Size{"deepep-ll",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.quantise", "bf16"}}},
        Size{"pplx", "tiny", 4, 4, {}}, Size{"pplx", "star", 6, 5, {{"workload.hidden", "1"}}},
        Size{"pplx",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"workload.gate.masked_share", "0.3"}}},
        Size{"pplx-garden", "tiny", 4, 4, {}},
        Size{"pplx-garden", "cm384", 18, 8, {{"algorithm.max_private_tokens", "2"}}},
        Size{"pplx-garden",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.quantise", "bf16"},
              {"algorithm.max_private_tokens", "1"}}},
        Size{"pplx", "h100-ib", 10, 4, {}},
        Size{"pplx-garden", "h100-ib", 10, 6, {{"algorithm.max_private_tokens", "2"}}},
        Size{"deepep-v2", "tiny", 4, 4, {}},
        Size{"deepep-v2", "star", 6, 5, {{"workload.hidden", "1"}}},
        Size{"deepep-v2",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.group", "6"},
              {"algorithm.quantise", "int8"}}},
        Size{"moe-hub", "tiny", 4, 4, {{"device.hub.service_ns", "2"}}},
        Size{"moe-hub",
             "cm384",
             18,
             3,
             {{"device.hub.service_ns", "20"},
              {"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.hub", "allocation"}}},
        Size{"hybrid-ep", "tiny", 4, 4, {}},
        Size{"hybrid-ep", "star", 6, 5, {{"workload.hidden", "1"}, {"algorithm.group", "2"}}},
        Size{"hybrid-ep",
             "cm384",
             18,
             70,
             {{"workload.hidden", "333"},
              {"algorithm.group", "6"},
              {"algorithm.chunk_tokens", "64"}}},
        Size{"trtllm-onesided", "tiny", 4, 4, {}},
        Size{"trtllm-onesided", "star", 6, 5, {{"workload.hidden", "1"}}},
        Size{"trtllm-onesided",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.quantise", "nvfp4"}}},
        Size{"trtllm-twosided", "tiny", 4, 4, {{"fabric.atomic_block_bytes", "128"}}},
        Size{"trtllm-twosided",
             "star",
             6,
             5,
             {{"workload.hidden", "1"}, {"fabric.atomic_block_bytes", "128"}}},
        Size{"trtllm-twosided",
             "cm384",
             18,
             5,
             {{"fabric.packet_bytes", "512"},
              {"fabric.atomic_block_bytes", "128"},
              {"workload.hidden", "333"},
              {"algorithm.quantise", "nvfp4"},
              {"algorithm.fifo_entries", "2"},
              {"algorithm.entry_bytes", "1024"}}},
        Size{"deepep-normal", "tiny", 4, 4, {}},
        Size{"deepep-normal", "star", 6, 5, {{"workload.hidden", "1"}}},
        Size{"deepep-normal",
             "cm384",
             18,
             5,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.group", "6"},
              {"algorithm.quantise", "int8"}}},
        Size{"triton-a2a", "tiny", 4, 4, {}},
        Size{"triton-a2a", "cm384", 18, 8, {{"algorithm.version", "v2"}}},
        Size{"triton-a2a", "star", 6, 5, {{"workload.hidden", "1"}}},
        Size{"triton-a2a",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.quantise", "bf16"},
              {"algorithm.signaling", "decoupled"},
              {"algorithm.group", "5"}}},
        Size{"nccl-bsp", "tiny", 4, 4, {}}, Size{"nccl-bsp", "cm384", 18, 8, {}},
        Size{"nccl-bsp", "star", 6, 5, {{"workload.hidden", "1"}}},
        Size{"nccl-bsp",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.quantise", "int8"},
              {"algorithm.probs", "true"}}},
        Size{"megatron-a2a", "tiny", 4, 4, {}},
        Size{"megatron-a2a",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.drop_and_pad", "true"}}},
        Size{"flashmoe", "tiny", 4, 4, {}},
        Size{"flashmoe",
             "cm384",
             18,
             8,
             {{"algorithm.signaling", "decoupled"}, {"workload.gate.masked_share", "0.3"}}},
        Size{"flashmoe", "tiny", 4, 5, {{"algorithm.row_block", "2"}, {"workload.hidden", "1"}}},
        Size{"flashmoe",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.signaling", "reordered"}}},
        Size{"tutel", "tiny", 4, 4, {}},
        Size{"tutel",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.splits", "2"},
              {"algorithm.capacity_factor", "1"}}},
        Size{"tutel", "star", 6, 5, {{"workload.hidden", "1"}}},
        Size{"fastermoe", "tiny", 4, 4, {}},
        Size{"fastermoe",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.parts", "4"},
              {"workload.gate.masked_share", "0.3"}}},
        Size{"fastermoe", "tiny", 4, 5, {{"workload.hidden", "1"}}},
        Size{"comet", "tiny", 4, 4, {}},
        Size{"comet",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"device.tile_columns", "64"},
              {"workload.gate.masked_share", "0.3"}}},
        Size{"comet", "tiny", 4, 5, {{"workload.hidden", "5"}, {"device.tile_columns", "1"}}},
        Size{"put-signal", "cm384", 18, 4, {{"algorithm.bytes", "500"}}},
        Size{"put-signal", "tiny", 4, 4, {{"algorithm.signaling", "none"}}},
        Size{"p2p", "tiny", 4, 4, {{"algorithm.bytes", "500"}}},
        Size{"ring", "tiny", 4, 4, {{"algorithm.bytes", "70000"}, {"fabric.packet_bytes", "512"}}},
        Size{"alltoall", "star", 12, 4, {}}, Size{"nccl-alltoall", "star", 12, 4, {}},
        Size{"mori", "tiny", 4, 4, {}}, Size{"mori", "cm384", 18, 8, {}},
        Size{"mori", "star", 6, 5, {{"workload.hidden", "1"}}},
        Size{"mori",
             "cm384",
             18,
             3,
             {{"fabric.packet_bytes", "512"},
              {"workload.hidden", "333"},
              {"algorithm.quantise", "int8"}}},
        Size{"alltoall", "tiny", 4, 4, {{"algorithm.bytes", "3000000"}}}));

RunConfig sabotaged(const std::string& how) {
  RunConfig config = small_run("cann-bsp", 4, 4, make_workload(8, 2, 8));
  config.settings = {{"algorithm.sabotage", how}};
  config.control = true;
  return config;
}

TEST(ControlPayload, FindsARowInAWrongPlace) {
  RunConfig config = sabotaged("wrong-slot");
  config.iterations = 1;  // in the next call the row would be read where none is
  EXPECT_FALSE(run_alone(config).result.verified());
}

TEST(ControlPayload, HangsWhereFullPayloadDoes) {
  EXPECT_THAT(run_alone(sabotaged("drop-status")).hang, HasSubstr("status of expert 7"));
}

}  // namespace
}  // namespace orrery::moe
