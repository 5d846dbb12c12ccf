// Any bytes as a trace: either routes that fit the workload, or one ConfigError.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "emu/errors.h"
#include "moe/gate.h"
#include "moe/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orrery;
  moe::Workload workload;
  workload.set_hidden(8);
  workload.set_expert_intermediate(8);
  workload.set_experts(8);
  workload.set_top_k(2);
  workload.set_tokens(3);
  workload.mutable_gate()->set_kind(moe::Gate::TRACE);
  workload.mutable_gate()->set_trace_file("fuzz.jsonl");
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const moe::Trace trace = moe::Trace::read(in, "fuzz.jsonl", workload);
    const moe::RoutingTable table = moe::route(workload, 2, 1, 1, &trace);
    for (const std::int32_t id : table.ids(1)) {
      if (id < -1 || id >= 8) __builtin_trap();
    }
  } catch (const emu::ConfigError&) {
  }
  return 0;
}
