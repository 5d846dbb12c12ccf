// The data side of moe/ at DeepSeek's sizes: hidden 7168, 256 experts, top 8, 128 tokens per
// device.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "moe/experts.h"
#include "moe/gate.h"
#include "moe/quantise.h"
#include "moe/reduce.h"
#include "moe/reference.h"
#include "moe/rows.h"

namespace orrery::moe {
namespace {

constexpr std::uint32_t kHidden = 7168;
constexpr std::int64_t kRowBytes = 2 * kHidden;

Workload deepseek() {
  Workload workload;
  workload.set_hidden(kHidden);
  workload.set_expert_intermediate(2048);
  workload.set_experts(256);
  workload.set_top_k(8);
  workload.set_tokens(128);
  return workload;
}

/// A token whose row is not a special one.
std::vector<std::uint16_t> ordinary_row() {
  std::vector<std::uint16_t> row(kHidden);
  input_row(1, 0, 0, 5, row);
  return row;
}

void set_row_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * kRowBytes);
}

void InputRow(benchmark::State& state) {
  std::vector<std::uint16_t> row(kHidden);
  std::uint32_t token = 0;
  for (auto _ : state) {
    input_row(1, 0, 0, token++, row);
    benchmark::DoNotOptimize(row.data());
    benchmark::ClobberMemory();
  }
  set_row_bytes(state);
}
BENCHMARK(InputRow);

void Quantise(benchmark::State& state) {
  const auto row = ordinary_row();
  std::vector<std::int8_t> q(kHidden);
  for (auto _ : state) {
    benchmark::DoNotOptimize(quantise_int8(row, q));
    benchmark::ClobberMemory();
  }
  set_row_bytes(state);
}
BENCHMARK(Quantise);

void Accumulate(benchmark::State& state) {
  const auto row = ordinary_row();
  std::vector<float> acc(kHidden);
  for (auto _ : state) {
    accumulate(acc, row, 0.125f);
    benchmark::ClobberMemory();
  }
  set_row_bytes(state);
}
BENCHMARK(Accumulate);

void RoundToBf16(benchmark::State& state) {
  const std::vector<float> acc(kHidden, 1.25f);
  std::vector<std::uint16_t> row(kHidden);
  for (auto _ : state) {
    round_to_bf16(acc, row);
    benchmark::ClobberMemory();
  }
  set_row_bytes(state);
}
BENCHMARK(RoundToBf16);

void CheapTransformInt8(benchmark::State& state) {
  const Experts experts(deepseek(), 1, ExpertKind::kCheapTransform);
  std::vector<std::int8_t> q(kHidden);
  const float scale = quantise_int8(ordinary_row(), q);
  std::vector<std::uint16_t> out(kHidden);
  for (auto _ : state) {
    experts.apply(3, q, scale, out);
    benchmark::ClobberMemory();
  }
  set_row_bytes(state);
}
BENCHMARK(CheapTransformInt8);

void CheapTransformBf16(benchmark::State& state) {
  const Experts experts(deepseek(), 1, ExpertKind::kCheapTransform);
  const auto row = ordinary_row();
  std::vector<std::uint16_t> out(kHidden);
  for (auto _ : state) {
    experts.apply(3, row, out);
    benchmark::ClobberMemory();
  }
  set_row_bytes(state);
}
BENCHMARK(CheapTransformBf16);

void SwiGluRow(benchmark::State& state) {
  Workload workload = deepseek();
  workload.set_hidden(1024);
  workload.set_expert_intermediate(512);
  const Experts experts(workload, 1, ExpertKind::kSwiGlu);
  std::vector<std::uint16_t> row(1024), out(1024);
  input_row(1, 0, 0, 5, row);
  experts.apply(3, row, out);
  for (auto _ : state) {
    experts.apply(3, row, out);
    benchmark::ClobberMemory();
  }
  state.counters["flops"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(ffn_flops(workload)),
      benchmark::Counter::kIsRate);
}
BENCHMARK(SwiGluRow);

/// All tokens of one device.
void ReferenceDevice(benchmark::State& state) {
  const Workload workload = deepseek();
  const RoutingTable table = route(workload, 1, 1, 0);
  const Experts experts(workload, 1, ExpertKind::kCheapTransform);
  ReferenceScratch scratch;
  std::vector<std::uint16_t> out(kHidden);
  for (auto _ : state) {
    for (std::uint32_t token = 0; token < 128; ++token) {
      reference_row(table, experts, 1, 0, 0, token, Precision::kInt8, scratch, out);
      benchmark::ClobberMemory();
    }
  }
}
BENCHMARK(ReferenceDevice)->Unit(benchmark::kMillisecond);

/// One iteration of 768 devices.
void Route(benchmark::State& state) {
  Workload workload = deepseek();
  workload.mutable_gate()->set_kind(static_cast<Gate::Kind>(state.range(0)));
  if (state.range(1) > 0) {
    workload.set_expert_groups(8);
    workload.set_top_groups(4);
  }
  for (auto _ : state) benchmark::DoNotOptimize(route(workload, 768, 1, 0));
}
BENCHMARK(Route)
    ->ArgNames({"kind", "groups"})
    ->ArgsProduct({{Gate::UNIFORM, Gate::ZIPF}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery::moe
BENCHMARK_MAIN();
