#include "moe/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "emu/errors.h"
#include "emu/text_config.h"

namespace orrery::moe {
namespace {

template <typename Value>
void expect(bool condition, const std::string& where, const char* field, const Value& value,
            const std::string& expectation) {
  if (!condition) throw emu::ConfigError(where, field, fmt::format("{}", value), expectation);
}

void check_groups(const Workload& workload, const std::string& where) {
  const std::uint32_t groups = workload.expert_groups();
  if (groups == 0) {
    expect(workload.top_groups() == 0, where, "top_groups", workload.top_groups(),
           "0 where expert_groups is 0");
    return;
  }
  expect(groups <= 1024, where, "expert_groups", groups, "at most 1024");
  expect(workload.experts() % groups == 0, where, "expert_groups", groups,
         fmt::format("a divisor of experts ({})", workload.experts()));
  expect(workload.top_groups() >= 1 && workload.top_groups() <= groups, where, "top_groups",
         workload.top_groups(), fmt::format("1 to expert_groups ({})", groups));
  const std::uint32_t reachable = workload.top_groups() * (workload.experts() / groups);
  expect(workload.gate().allow_duplicates() || reachable >= workload.top_k(), where, "top_groups",
         workload.top_groups(),
         fmt::format("groups with at least top_k ({}) experts together, not {}", workload.top_k(),
                     reachable));
}

void check_gate(const Workload& workload, const std::string& where) {
  const Gate& gate = workload.gate();
  const double share = gate.masked_share();
  expect(share >= 0 && share <= 1, where, "gate.masked_share", share, "0 to 1");
  switch (gate.kind()) {
    case Gate::UNIFORM:
    case Gate::BALANCED:
      break;
    case Gate::ZIPF:
      expect(gate.zipf_s() >= 0 && gate.zipf_s() <= 10, where, "gate.zipf_s", gate.zipf_s(),
             "0 to 10");
      break;
    case Gate::HOT_EXPERTS:
      expect(gate.hot_experts() >= 1 && gate.hot_experts() <= workload.experts(), where,
             "gate.hot_experts", gate.hot_experts(),
             fmt::format("1 to experts ({})", workload.experts()));
      expect(gate.hot_factor() >= 0 && gate.hot_factor() <= 1e6, where, "gate.hot_factor",
             gate.hot_factor(), "0 to 1e6");
      break;
    case Gate::TRACE:
      expect(!gate.trace_file().empty(), where, "gate.trace_file", "",
             "a JSON-lines file of routes where gate.kind is TRACE");
      break;
  }
}

void check_attention(const Attention& attention, const std::string& where) {
  const auto given = [&where](bool present, const char* field, const char* kind) {
    expect(present, where, field, "nothing", fmt::format("a number with attention.kind {}", kind));
  };
  if (attention.kind() == Attention::GQA) {
    given(attention.has_kv_heads(), "attention.kv_heads", "GQA");
    given(attention.has_head_dim(), "attention.head_dim", "GQA");
    expect(attention.heads() % attention.kv_heads() == 0, where, "attention.kv_heads",
           attention.kv_heads(),
           fmt::format("a divisor of attention.heads ({})", attention.heads()));
  } else {
    given(attention.has_kv_lora_rank(), "attention.kv_lora_rank", "MLA");
    given(attention.has_qk_nope_head_dim(), "attention.qk_nope_head_dim", "MLA");
    given(attention.has_qk_rope_head_dim(), "attention.qk_rope_head_dim", "MLA");
    given(attention.has_v_head_dim(), "attention.v_head_dim", "MLA");
  }
  if (!attention.has_sparse_top_k()) return;
  expect(attention.kind() == Attention::MLA && attention.has_q_lora_rank(), where,
         "attention.sparse_top_k", attention.sparse_top_k(),
         "nothing unless attention is MLA with a q_lora_rank");
  for (const auto& [present, field] :
       {std::pair(attention.has_index_heads(), "attention.index_heads"),
        std::pair(attention.has_index_head_dim(), "attention.index_head_dim")}) {
    expect(present, where, field, "nothing", "a number where attention.sparse_top_k is set");
  }
}

}  // namespace

Workload load_workload(const std::string& path) {
  Workload workload;
  emu::load_text_file(path, workload);
  emu::check_ranges(workload, path);
  check_workload(workload, path);
  if (workload.gate().has_trace_file()) {
    const auto beside = std::filesystem::path(path).parent_path() / workload.gate().trace_file();
    workload.mutable_gate()->set_trace_file(beside.string());
  }
  return workload;
}

void check_workload(const Workload& workload, const std::string& where) {
  expect(workload.hidden() >= 1, where, "hidden", workload.hidden(), "at least 1");
  expect(workload.expert_intermediate() >= 1, where, "expert_intermediate",
         workload.expert_intermediate(), "at least 1");
  expect(workload.experts() >= 1 && workload.experts() <= 65536, where, "experts",
         workload.experts(), "1 to 65536");
  expect(workload.top_k() >= 1 && workload.top_k() <= kMaxTopK, where, "top_k", workload.top_k(),
         fmt::format("1 to {}", kMaxTopK));
  expect(workload.gate().allow_duplicates() || workload.top_k() <= workload.experts(), where,
         "top_k", workload.top_k(),
         fmt::format("at most experts ({}) unless gate.allow_duplicates", workload.experts()));
  check_groups(workload, where);
  check_gate(workload, where);
  if (workload.has_attention()) check_attention(workload.attention(), where);
}

void check_model(const Workload& workload, std::uint32_t emulated, const std::string& where) {
  const auto given = [&where](bool present, const char* field) {
    expect(present, where, field, "nothing", "one, for --operation model");
  };
  given(workload.has_attention(), "attention");
  given(workload.has_vocabulary(), "vocabulary");
  given(workload.has_dense_intermediate() || workload.dense_layers() == 0, "dense_intermediate");
  expect(workload.dense_layers() < workload.layers(), where, "dense_layers",
         workload.dense_layers(),
         fmt::format("less than layers ({}), for --operation model", workload.layers()));
  const std::uint32_t layers = workload.layers() - workload.dense_layers();
  expect(emulated <= layers, "--iterations", "", emulated,
         fmt::format("at most the {} layers with experts of {}, for --operation model", layers,
                     where));
}

std::vector<std::uint32_t> token_counts(const Workload& workload, std::uint32_t devices,
                                        const std::string& where) {
  std::vector<std::uint32_t> tokens(devices, workload.tokens());
  const bool per_device = workload.tokens_per_device_size() > 0;
  if (per_device) {
    expect(static_cast<std::uint32_t>(workload.tokens_per_device_size()) == devices, where,
           "tokens_per_device", fmt::format("{} numbers", workload.tokens_per_device_size()),
           fmt::format("as many as devices ({})", devices));
    tokens.assign(workload.tokens_per_device().begin(), workload.tokens_per_device().end());
  }
  if (workload.has_max_tokens()) {
    for (std::uint32_t device = 0; device < devices; ++device) {
      const std::string field =
          per_device ? fmt::format("tokens_per_device.{}", device) : std::string("tokens");
      expect(tokens[device] <= workload.max_tokens(), where, field.c_str(), tokens[device],
             fmt::format("at most max_tokens ({})", workload.max_tokens()));
    }
  }
  return tokens;
}

std::uint32_t token_bound(const Workload& workload, std::uint32_t devices,
                          const std::string& where) {
  const std::vector<std::uint32_t> tokens = token_counts(workload, devices, where);
  if (workload.has_max_tokens()) return workload.max_tokens();
  return std::max<std::uint32_t>(1, tokens.empty() ? 1 : *std::ranges::max_element(tokens));
}

std::uint32_t shared_intermediate(const Workload& workload) {
  return workload.has_shared_intermediate() ? workload.shared_intermediate()
                                            : workload.expert_intermediate();
}

std::string workload_label(const Workload& workload) {
  return workload.name().empty() ? "workload" : "workload " + workload.name();
}

}  // namespace orrery::moe
