#include "moe/attention.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "emu/errors.h"
#include "moe/workload.h"
#include "tests/moe/runs.h"
#include "tests/moe/test_workload.h"

namespace orrery::moe {
namespace {

Workload with(const std::string& fields, int tokens) {
  Workload workload = make_workload(2, 1, tokens, 64, 32);
  emu::parse_text("hidden: 64 expert_intermediate: 32 experts: 2 top_k: 1 tokens: " +
                      std::to_string(tokens) + " layers: 2 vocabulary: 10 " + fields,
                  "test", workload);
  check_workload(workload, "test");
  return workload;
}

// Four heads, two to a key: 64 columns of queries, keys and values.
Workload grouped(int tokens, const std::string& fields = "context: 100 ") {
  return with("attention { heads: 4 kv_heads: 2 head_dim: 8 } " + fields, tokens);
}

Workload latent(int tokens, const std::string& fields, const std::string& more = "") {
  return with(
      "attention { kind: MLA heads: 4 q_lora_rank: 16 kv_lora_rank: 8 qk_nope_head_dim: 4 "
      "qk_rope_head_dim: 2 v_head_dim: 4 " +
          more + "} " + fields,
      tokens);
}

// Of a stage of one device whose kernels cost nothing else.
emu::Time time_of(const std::string& stage, const std::string& device, std::uint32_t cores,
                  const Workload& workload) {
  RunConfig config = small_run("cann-bsp", 1, cores, workload);
  config.machine.clear_device();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "cores: " + std::to_string(cores) + " " + device, config.machine.mutable_device()));
  config.iterations = 1;
  config.operation = "model";
  const Result result = good_run(config);
  for (const Operation& operation : result.operations()) {
    if (operation.name() == stage) return to_ps(operation.latency_us().max());
  }
  ADD_FAILURE() << "no stage " << stage;
  return 0;
}

// A byte takes a nanosecond, products nothing.
emu::Time bytes_read(const Workload& workload, const std::string& stage = "attention") {
  return time_of(stage, "core_copy_gb_per_s: 1 ", 1, workload) / 1'000;
}

// A floating point operation takes a picosecond, bytes nothing.
constexpr const char* kProducts =
    "matrix_tflop_per_s: 1 tile_rows: 4 tile_columns: 32 matrix_rows: 4 tile_ns: 7 ";

TEST(Attention, ReadsWeightsAndEveryKeyOfEveryToken) {
  const int weights = 64 * 64 + 64 * 32;
  EXPECT_EQ(bytes_read(grouped(3)), weights + 3 * 2 * 100 * (8 + 8) * 2);
  Workload small = grouped(3);
  small.mutable_attention()->set_kv_bytes(1);
  small.mutable_attention()->set_weight_bytes(2);
  EXPECT_EQ(bytes_read(small), 2 * weights + 3 * 2 * 100 * (8 + 8));
}

// Two heads of a token share keys, and the matrix units take rows by four.
TEST(Attention, ProductsGoOverKeysAndValues) {
  const emu::Time before = 2 * (7'000 + 2 * 4 * 32 * 64);
  const emu::Time each = 7'000 + 2 * 4 * 100 * (8 + 8);
  const emu::Time behind = 2 * (7'000 + 2 * 4 * 32 * 32);
  EXPECT_EQ(time_of("attention", kProducts, 1, grouped(3)), before + 3 * 2 * each + behind);
}

TEST(Attention, ReadingProductsAndSoftmaxOverlap) {
  const std::string passes = "vector_pass_ns: 10 vector_elements_per_ns: 1 ";
  const emu::Time softmax = 3 * 2 * 4 * (10 + 2 * 100) * 1'000;
  EXPECT_EQ(time_of("attention", passes, 1, grouped(3)), softmax);
  // 3,200 bytes of a token and a key head take longer than its 840 ns.
  EXPECT_EQ(time_of("attention", passes + "core_copy_gb_per_s: 1 ", 1, grouped(3)),
            time_of("attention", "core_copy_gb_per_s: 1 ", 1, grouped(3)));
  EXPECT_EQ(time_of("attention", passes + "core_copy_gb_per_s: 100 ", 1, grouped(3)),
            softmax + (64 * 64 + 64 * 32) * 10);
}

// 24 blocks of 32 keys or the 4 that are left: two cores have 100 and 64 keys, two 36 and 100.
TEST(Attention, KeysAreDealtEvenlyInBlocks) {
  const emu::Time before = 7'000 + 4 * 2 * 4 * 32 * 32;
  const emu::Time most = 2 * 7'000 + 4 * 2 * 4 * 164 * (8 + 8);
  const emu::Time behind = 7'000 + 4 * 2 * 4 * 32 * 16;
  EXPECT_EQ(time_of("attention", kProducts, 4, grouped(3)), before + most + behind);
}

// Blocks of four tokens look back at all before them; what earlier ones read is in a cache.
TEST(Attention, APromptAttendsToItself) {
  const int weights = 64 * 64 + 64 * 32;
  EXPECT_EQ(bytes_read(grouped(5, "phase: PREFILL ")), weights + 2 * 5 * 32);
  const std::string blocks = "core_copy_gb_per_s: 1 tile_rows: 4 ";
  EXPECT_EQ(time_of("attention", blocks, 1, grouped(5, "phase: PREFILL context: 10 ")),
            (weights + 2 * 15 * 32) * 1'000);
  const emu::Time before = 2 * (2 * 7'000 + 2 * 8 * 32 * 64);
  const emu::Time first = 7'000 + 2 * 8 * 4 * 16;   // 4 tokens of 2 heads, 4 keys
  const emu::Time second = 7'000 + 2 * 4 * 5 * 16;  // one token, 5 keys
  const emu::Time behind = 2 * (2 * 7'000 + 2 * 8 * 32 * 32);
  EXPECT_EQ(time_of("attention", kProducts, 1, grouped(5, "phase: PREFILL ")),
            before + 2 * (first + second) + behind);
}

// All heads read a token's kept vector once; queries go there, results come back, head by head.
TEST(Attention, LatentVectorsAreReadOnceWhereEachTokenLooksBack) {
  const int before = (16 + 10) * 64 + 4 * 6 * 16 + 4 * 8 * 4;
  const int behind = 4 * 4 * 8 + 64 * 16;
  EXPECT_EQ(bytes_read(latent(2, "context: 100 ")), before + 2 * 100 * 10 * 2 + behind);
}

TEST(Attention, APromptMakesKeysAndValuesOfLatentVectors) {
  const int before = (16 + 10) * 64 + 4 * 6 * 16 + 4 * 8 * 8;
  EXPECT_EQ(bytes_read(latent(2, "phase: PREFILL context: 3 ")),
            before + 4 * 5 * (4 + 2 + 4) * 2 + 64 * 16);
}

// The indexer looks at a small key of every token, attention at the chosen seven.
TEST(Attention, ASparseChoiceIsPaidForAndReadsLess) {
  const std::string sparse = "sparse_top_k: 7 index_heads: 2 index_head_dim: 4 ";
  const int before = (16 + 10 + 4 + 2) * 64 + (4 * 6 + 2 * 4) * 16 + 4 * 8 * 4;
  const int behind = 4 * 4 * 8 + 64 * 16;
  EXPECT_EQ(bytes_read(latent(2, "context: 100 ", sparse)),
            before + 2 * 100 * 4 + 2 * 7 * 10 * 2 + behind);
  // Two passes over the scores of two heads and four over the sums, of 100 keys; softmax over 7.
  EXPECT_EQ(
      time_of("attention", "vector_elements_per_ns: 1 ", 1, latent(2, "context: 100 ", sparse)),
      2 * (2 * 2 * 100 + 4 * 100 + 4 * 4 * 7) * 1'000);
}

// With no more tokens than it may choose, all are read.
TEST(Attention, ASparseChoiceOfAllIsAll) {
  const std::string sparse = "sparse_top_k: 700 index_heads: 2 index_head_dim: 4 ";
  EXPECT_EQ(bytes_read(latent(2, "context: 100 ", sparse)) -
                bytes_read(latent(2, "context: 90 ", sparse)),
            2 * 10 * (4 + 10 * 2));
}

// The parameters of DeepSeek-V3's attention: 187 million a layer, as counted from its config.json.
TEST(Attention, ProjectionsHaveTheParametersOfTheModel) {
  Workload workload = load_workload("workloads/deepseek-r1.textproto");
  for (const auto phase : {Workload::DECODE, Workload::PREFILL}) {
    workload.set_phase(phase);
    const Projections steps = projections(workload, 1);
    std::uint64_t parameters = 0;
    for (const auto* half : {&steps.before, &steps.after}) {
      for (const auto& step : *half) {
        for (const GemmGroup& group : step) {
          parameters += std::uint64_t{group.columns} * group.depth;
        }
      }
    }
    EXPECT_EQ(parameters, 187'105'280u);
  }
}

TEST(Attention, ContextHasADefaultForEachPhase) {
  EXPECT_EQ(context_tokens(grouped(1, "")), 4096u);
  EXPECT_EQ(context_tokens(grouped(1, "phase: PREFILL ")), 0u);
  EXPECT_EQ(context_tokens(grouped(1, "context: 7 ")), 7u);
}

TEST(Attention, WithoutTokensItReadsNothing) {
  EXPECT_EQ(bytes_read(grouped(0)), 0);
  EXPECT_EQ(bytes_read(grouped(0, "phase: PREFILL ")), 0);
}

// --- What is on every device beside it (dense_layer.h) ---

TEST(DenseLayer, IsAttentionAndAnFfn) {
  const std::string dense = "context: 100 dense_layers: 1 dense_intermediate: 48 ";
  EXPECT_EQ(bytes_read(grouped(3, dense), "dense"), bytes_read(grouped(3)) + 3 * 48 * 64);
}

TEST(ModelHead, IsOfAllTokensOrOfThePromptsLast) {
  EXPECT_EQ(bytes_read(grouped(3), "head"), 10 * 64 * 2);
  const std::string passes = "vector_elements_per_ns: 1 ";
  EXPECT_EQ(time_of("head", passes, 1, grouped(5)), 50'000);
  EXPECT_EQ(time_of("head", passes, 1, grouped(5, "phase: PREFILL ")), 10'000);
}

// Where no operation of the algorithm has them, they are a stage of their own.
TEST(SharedExperts, AreAStageWhereTheLayerIsOneKernel) {
  Workload workload = grouped(3, "context: 100 shared_experts: 2 shared_intermediate: 16 ");
  RunConfig config = small_run("flashmoe", 1, 3, workload);
  config.iterations = 1;
  config.operation = "model";
  const Result fused = good_run(config);
  ASSERT_EQ(fused.operations(3).name(), "shared");
  config.algorithm = "cann-bsp";
  const Result parted = good_run(config);
  for (const Operation& operation : parted.operations()) {
    EXPECT_NE(operation.name(), "shared");
  }
}

}  // namespace
}  // namespace orrery::moe
