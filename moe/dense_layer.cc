#include "moe/dense_layer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "moe/attention.h"
#include "moe/grouped_gemm.h"
#include "moe/workload.h"

namespace orrery::moe {

namespace {

// `count` FFNs of the same tokens.
emu::Task ffn(devices::Core& core, const Workload& workload, std::uint32_t tokens,
              std::uint32_t count, std::uint32_t intermediate) {
  std::vector<GemmGroup> up(count, GemmGroup{tokens, 2 * intermediate, workload.hidden()});
  std::vector<GemmGroup> down(count, GemmGroup{tokens, workload.hidden(), intermediate});
  core.phase("up projections");
  co_await grouped_gemm(core, std::move(up), workload.weight_bytes());
  co_await core.next_kernel();
  core.phase("down projections");
  co_await grouped_gemm(core, std::move(down), workload.weight_bytes());
}

}  // namespace

emu::Task dense_layer(devices::Core& core, const Workload& workload, std::uint32_t tokens) {
  co_await attention(core, workload, tokens);
  co_await core.next_kernel();
  co_await ffn(core, workload, tokens, 1, workload.dense_intermediate());
}

emu::Task shared_experts(devices::Core& core, const Workload& workload, std::uint32_t tokens) {
  return ffn(core, workload, tokens, workload.shared_experts(), shared_intermediate(workload));
}

emu::Task model_head(devices::Core& core, const Workload& workload, std::uint32_t tokens) {
  constexpr double kHeadBytes = 2;
  const std::uint32_t rows = workload.phase() == Workload::PREFILL ? std::min(tokens, 1u) : tokens;
  std::vector<GemmGroup> head = {{rows, workload.vocabulary(), workload.hidden()}};
  core.phase("head");
  co_await grouped_gemm(core, std::move(head), kHeadBytes);
  co_await core.barrier();
  core.phase("sample");
  const std::uint64_t logits = std::uint64_t{rows} * workload.vocabulary();
  co_await core.compute(core.costs().vector((logits + core.count() - 1) / core.count()));
}

}  // namespace orrery::moe
