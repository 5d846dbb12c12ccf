#include "moe/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "moe/share.h"

namespace orrery::moe {

namespace {

using devices::Core;

constexpr int kSoftmaxPasses = 4;  // largest, exponents, their sum, division
constexpr int kIndexPasses = 2;    // negative scores to 0, weighted sum over the heads
constexpr int kSelectPasses = 4;   // the best by their 32 bits, 8 at a time

bool is_prefill(const Workload& workload) { return workload.phase() == Workload::PREFILL; }
bool is_sparse(const Workload& workload) { return workload.attention().has_sparse_top_k(); }
bool is_absorbed(const Workload& workload) {
  return workload.attention().kind() == Attention::MLA &&
         (!is_prefill(workload) || is_sparse(workload));
}

// Heads whose keys differ, and what a key is to each of them.
struct KeyHeads {
  std::uint32_t count;
  std::uint32_t queries;  // rows that a token has in each
  Keys keys;
};

KeyHeads key_heads(const Workload& workload) {
  const Attention& a = workload.attention();
  const auto keys = [&a](std::uint32_t kept, std::uint32_t depth) {
    return Keys{kept * a.kv_bytes(), depth, kSoftmaxPasses};
  };
  if (a.kind() == Attention::GQA) {
    return {a.kv_heads(), a.heads() / a.kv_heads(), keys(2 * a.head_dim(), 2 * a.head_dim())};
  }
  const std::uint32_t rope = a.qk_rope_head_dim();
  if (is_absorbed(workload)) {
    const std::uint32_t kept = a.kv_lora_rank() + rope;
    return {1, a.heads(), keys(kept, kept + a.kv_lora_rank())};
  }
  const std::uint32_t made = a.qk_nope_head_dim() + rope + a.v_head_dim();
  return {a.heads(), 1, keys(made, made)};
}

// Of a device's tokens, `rows` for each. `most`: keys that a token attends to at most.
std::vector<Queries> queries_of(const Workload& workload, std::uint32_t tokens, std::uint32_t block,
                                std::uint32_t rows, std::uint32_t most) {
  const std::uint32_t context = context_tokens(workload);
  std::vector<Queries> queries;
  if (!is_prefill(workload)) {
    const std::uint32_t keys = std::min(context, most);
    queries.assign(tokens, {rows, keys, keys});
    return queries;
  }
  const bool chosen = most != ~std::uint32_t{0};
  // Tokens with a choice of their own attend alone.
  if (chosen) block = 1;
  for (std::uint32_t first = 0; first < tokens; first += block) {
    const std::uint32_t count = std::min(block, tokens - first);
    const std::uint32_t keys = std::min(context + first + count, most);
    const std::uint32_t fresh = chosen || first == 0 ? keys : count;
    queries.push_back({count * rows, keys, fresh});
  }
  return queries;
}

// Scores of all keys for each token, and the best of them.
emu::Task choose(Core& core, const Workload& workload, std::uint32_t tokens) {
  constexpr std::uint32_t kAll = ~std::uint32_t{0};
  const Attention& a = workload.attention();
  core.phase("index");
  const Keys keys{a.index_head_dim() * a.index_bytes(), a.index_head_dim(), kIndexPasses};
  std::vector<Queries> queries =
      queries_of(workload, tokens, core.costs().tile_rows, a.index_heads(), kAll);
  co_await attend(core, std::move(queries), keys);
  co_await core.barrier();
  core.phase("top k");
  const Share mine = share(tokens, core.count(), core.index());
  const std::uint32_t context = context_tokens(workload);
  emu::Time passes = 0;
  for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
    passes += core.costs().vector(is_prefill(workload) ? context + token + 1 : context);
  }
  co_await core.compute(kSelectPasses * passes);
  co_await core.barrier();
}

// Products of which each step needs the one before.
emu::Task products(Core& core, std::vector<std::vector<GemmGroup>> steps, double weight_bytes) {
  for (std::size_t step = 0; step < steps.size(); ++step) {
    if (step > 0) co_await core.barrier();
    co_await grouped_gemm(core, std::move(steps[step]), weight_bytes);
  }
}

}  // namespace

std::uint32_t context_tokens(const Workload& workload) {
  constexpr std::uint32_t kDecodeContext = 4096;
  if (workload.has_context()) return workload.context();
  return is_prefill(workload) ? 0 : kDecodeContext;
}

Projections projections(const Workload& workload, std::uint32_t tokens) {
  const Attention& a = workload.attention();
  const std::uint32_t hidden = workload.hidden();
  Projections out;
  if (a.kind() == Attention::GQA) {
    out.before = {{{tokens, (a.heads() + 2 * a.kv_heads()) * a.head_dim(), hidden}}};
    out.after = {{{tokens, hidden, a.heads() * a.head_dim()}}};
    return out;
  }
  const std::uint32_t nope = a.qk_nope_head_dim();
  const std::uint32_t queries = a.heads() * (nope + a.qk_rope_head_dim());
  const std::uint32_t kept = a.kv_lora_rank() + a.qk_rope_head_dim();
  std::vector<GemmGroup> second;
  if (a.has_q_lora_rank()) {
    const std::uint32_t index =
        is_sparse(workload) ? a.index_head_dim() + a.index_heads() : 0;  // a key, and weights
    out.before = {{{tokens, a.q_lora_rank() + kept + index, hidden}}};
    second.push_back({tokens, queries, a.q_lora_rank()});
    if (index > 0)
      second.push_back({tokens, a.index_heads() * a.index_head_dim(), a.q_lora_rank()});
  } else {
    out.before = {{{tokens, queries + kept, hidden}}};
  }
  if (is_absorbed(workload)) {
    if (!second.empty()) out.before.push_back(second);
    out.before.emplace_back(a.heads(), GemmGroup{tokens, a.kv_lora_rank(), nope});
    out.after.emplace_back(a.heads(), GemmGroup{tokens, a.v_head_dim(), a.kv_lora_rank()});
  } else {
    second.push_back(
        {context_tokens(workload) + tokens, a.heads() * (nope + a.v_head_dim()), a.kv_lora_rank()});
    out.before.push_back(second);
  }
  out.after.push_back({{tokens, hidden, a.heads() * a.v_head_dim()}});
  return out;
}

emu::Task attend(Core& core, std::vector<Queries> queries, Keys keys) {
  const devices::Costs& costs = core.costs();
  const std::uint64_t block = costs.tile_columns;
  const auto blocks = [block](const Queries& each) { return (each.keys + block - 1) / block; };
  std::uint64_t total = 0;
  for (const Queries& each : queries) total += blocks(each);
  const std::uint64_t begin = total * core.index() / core.count();
  const std::uint64_t end = total * (core.index() + 1) / core.count();
  std::uint64_t first = 0;
  for (const Queries& each : queries) {
    const std::uint64_t from = std::max(begin, first);
    const std::uint64_t to = std::min(end, first + blocks(each));
    if (from < to) {
      const std::uint64_t key = (from - first) * block;
      const std::uint64_t last = std::min<std::uint64_t>((to - first) * block, each.keys);
      const std::uint64_t fresh = std::max<std::uint64_t>(key, each.keys - each.fresh);
      const auto columns = static_cast<std::uint32_t>(last - key);
      const emu::Time start = core.now();
      if (fresh < last) {
        const double bytes = static_cast<double>(last - fresh) * keys.bytes;
        co_await core.stream(static_cast<std::uint64_t>(std::ceil(bytes)));
      }
      const emu::Time passes = keys.passes * costs.vector(std::uint64_t{each.rows} * columns);
      const emu::Time busy = std::max(costs.tile(each.rows, columns, keys.depth), passes);
      co_await core.compute(std::max<emu::Time>(busy - (core.now() - start), 0));
    }
    first += blocks(each);
  }
}

emu::Task attention(Core& core, const Workload& workload, std::uint32_t tokens) {
  const double weight_bytes = workload.attention().weight_bytes();
  Projections steps = projections(workload, tokens);
  core.phase("projections");
  co_await products(core, std::move(steps.before), weight_bytes);
  co_await core.next_kernel();
  if (is_sparse(workload)) co_await choose(core, workload, tokens);
  core.phase("attend");
  const std::uint32_t most =
      is_sparse(workload) ? workload.attention().sparse_top_k() : ~std::uint32_t{0};
  const KeyHeads heads = key_heads(workload);
  const std::vector<Queries> of_a_head =
      queries_of(workload, tokens, core.costs().tile_rows, heads.queries, most);
  std::vector<Queries> queries;
  for (std::uint32_t head = 0; head < heads.count; ++head) {
    queries.insert(queries.end(), of_a_head.begin(), of_a_head.end());
  }
  co_await attend(core, std::move(queries), heads.keys);
  co_await core.next_kernel();
  core.phase("output projections");
  co_await products(core, std::move(steps.after), weight_bytes);
}

}  // namespace orrery::moe
