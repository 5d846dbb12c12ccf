#include "cli/no_effect.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/shipped_values.h"
#include "moe/algorithm.h"

namespace orrery::cli {

namespace {

NoEffect verdict(const std::string& input, NoEffect::Could could, const std::string& reason) {
  NoEffect effect;
  effect.set_input(input);
  effect.set_could(could);
  effect.set_reason(reason);
  return effect;
}

// What two results show about what their runs did.
class Evidence {
 public:
  Evidence(const moe::Result& first, const moe::Result& other) : results_{&first, &other} {}

  /// Both counted, and neither did any of these.
  bool none(std::initializer_list<const char*> counters) const {
    return all([&](const moe::Result& result) {
      return result.counters().contains("puts") &&
             std::all_of(counters.begin(), counters.end(), [&](const char* counter) {
               const auto it = result.counters().find(counter);
               return it == result.counters().end() || it->second == 0;
             });
    });
  }
  bool sent_nothing() const { return none({"puts", "signals", "atomics", "gets"}); }
  /// No packet passed as many switches as this. Gets are not counted by their way.
  bool none_over(unsigned switches) const {
    return none({"gets"}) && all([switches](const moe::Result& result) {
             for (unsigned n = switches; n < 8; ++n) {
               const auto it = result.counters().find(fmt::format("puts_over_{}_switches", n));
               if (it != result.counters().end() && it->second > 0) return false;
             }
             return true;
           });
  }
  bool none_direct() const { return none({"gets", "puts_over_0_switches"}); }
  bool no_core_time(const char* category) const {
    return all([category](const moe::Result& result) {
      return std::all_of(result.operations().begin(), result.operations().end(),
                         [category](const moe::Operation& operation) {
                           return !operation.core_time_us().empty() &&
                                  !operation.core_time_us().contains(category);
                         });
    });
  }
  bool no_adversary() const {
    return all([](const moe::Result& result) { return !result.adversary(); });
  }
  bool one_iteration() const {
    return all([](const moe::Result& result) { return result.iterations() == 1; });
  }
  bool one_start() const {
    return all([](const moe::Result& result) {
      return result.iterations() == 1 && result.operations_size() == 1;
    });
  }
  bool no_rows() const {
    return all([](const moe::Result& result) {
      const moe::AlgorithmEntry* entry = registered_algorithm(result.algorithm());
      return entry != nullptr && !entry->moves_rows;
    });
  }
  bool no_model() const {
    return all([](const moe::Result& result) { return !result.has_model(); });
  }
  bool gate_is_not(moe::Gate::Kind kind) const {
    return all([kind](const moe::Result& result) {
      const auto workload = shipped_workload(result.workload(), settings_of(result));
      return workload && workload->gate().kind() != kind;
    });
  }
  bool other_paths() const {
    for (unsigned n = 0; n < 8; ++n) {
      const std::string name = fmt::format("puts_over_{}_switches", n);
      const auto count = [&name](const moe::Result& result) {
        const auto it = result.counters().find(name);
        return it == result.counters().end() ? 0.0 : it->second;
      };
      if (count(*results_[0]) != count(*results_[1])) return true;
    }
    return false;
  }

 private:
  template <typename Check>
  bool all(Check&& check) const {
    return check(*results_[0]) && check(*results_[1]);
  }
  const moe::Result* results_[2];
};

// The first rule that begins the input's name and whose evidence holds decides.
struct Rule {
  std::string_view prefix;
  bool (*holds)(const Evidence&);
  NoEffect::Could could;
  const char* reason;
};

constexpr auto kCould = NoEffect::COULD;
constexpr auto kCouldNot = NoEffect::COULD_NOT;
constexpr bool (*kAlways)(const Evidence&) = [](const Evidence&) { return true; };
constexpr bool (*kNoSwitch)(const Evidence&) = [](const Evidence& e) { return e.none_over(1); };
constexpr bool (*kNoUplink)(const Evidence&) = [](const Evidence& e) { return e.none_over(2); };
constexpr bool (*kNothingSent)(const Evidence&) = [](const Evidence& e) {
  return e.sent_nothing();
};
constexpr bool (*kNoRows)(const Evidence&) = [](const Evidence& e) { return e.no_rows(); };
constexpr bool (*kNoCopy)(const Evidence&) = [](const Evidence& e) {
  return e.no_core_time("local_copy");
};
constexpr bool (*kNoCompute)(const Evidence&) = [](const Evidence& e) {
  return e.no_core_time("compute");
};
constexpr bool (*kNoBarrier)(const Evidence&) = [](const Evidence& e) {
  return e.none({"core_barriers"});
};
constexpr bool (*kNoAdversary)(const Evidence&) = [](const Evidence& e) {
  return e.no_adversary();
};

constexpr bool (*kNoModel)(const Evidence&) = [](const Evidence& e) { return e.no_model(); };

constexpr char kNoModelReason[] = "only a run of the whole model reads it (--operation model)";
constexpr char kNoSwitchReason[] = "no put crossed a switch (counters puts_over_N_switches)";
constexpr char kNoUplinkReason[] =
    "no put crossed more than one switch, so none took an uplink (counters puts_over_N_switches)";
constexpr char kNoCopyReason[] = "no core copied in local memory (core_time_us)";
constexpr char kNoComputeReason[] = "no core computed (core_time_us)";
constexpr char kNoBarrierReason[] = "no kernel has a core barrier (counters)";
constexpr char kNothingSentReason[] = "nothing was sent (counters)";

const Rule kRules[] = {
    {"fabric.adversary_delay_ns", kNoAdversary, kCouldNot,
     "it is read only with --adversary, and neither run had it"},
    {"fabric.atomic_block_bytes", kNoAdversary, kCould,
     "without --adversary the block size only decides where a put is cut into packets, and every "
     "put was cut alike"},
    {"fabric.clos.uplink.", kNoUplink, kCouldNot, kNoUplinkReason},
    {"fabric.clos.spines_per_plane", kNoUplink, kCouldNot, kNoUplinkReason},
    {"fabric.clos.device_link.", kNoSwitch, kCouldNot, kNoSwitchReason},
    {"fabric.clos.planes", kNoSwitch, kCouldNot, kNoSwitchReason},
    {"fabric.failed_planes", kNoSwitch, kCouldNot, kNoSwitchReason},
    {"fabric.plane_choice", kNoSwitch, kCouldNot, kNoSwitchReason},
    {"fabric.switch_choice", kNoUplink, kCouldNot, kNoUplinkReason},
    {"fabric.choice_per", kNoSwitch, kCouldNot, kNoSwitchReason},
    {"fabric.star.link.", kNoSwitch, kCouldNot, kNoSwitchReason},
    {"fabric.clos.package_link.", [](const Evidence& e) { return e.none_direct(); }, kCouldNot,
     "every put crossed a switch (counters puts_over_N_switches)"},
    {"fabric.self_latency_ns", [](const Evidence& e) { return e.none_direct(); }, kCouldNot,
     "every put crossed a switch, so no device stored to itself (counters puts_over_N_switches)"},
    {"fabric.", kNothingSent, kCouldNot, kNothingSentReason},
    {"device.host_sync_ns", [](const Evidence& e) { return e.no_core_time("host_sync"); },
     kCouldNot, "no core waited for the host (no host_sync in core_time_us)"},
    {"device.local_atomic_ns", [](const Evidence& e) { return e.no_core_time("local_atomic"); },
     kCouldNot, "no core spent time in local atomics (no local_atomic in core_time_us)"},
    {"device.fence_ns", [](const Evidence& e) { return e.none({"fences"}); }, kCouldNot,
     "no core issued a fence (counters)"},
    {"device.barrier_", kNoBarrier, kCouldNot, kNoBarrierReason},
    {"device.poll_ns", [](const Evidence& e) { return e.none({"polls"}); }, kCouldNot,
     "no core polled (counters)"},
    {"device.outstanding_stores", [](const Evidence& e) { return e.no_core_time("store_window"); },
     kCould,
     "no core ever had all its outstanding stores on their way (no store_window in core_time_us)"},
    {"device.issue_ns", kNothingSent, kCouldNot, kNothingSentReason},
    {"device.core_store_gb_per_s", kNothingSent, kCouldNot, kNothingSentReason},
    {"device.outstanding_stores", kNothingSent, kCouldNot, kNothingSentReason},
    {"device.service_core_put_ns", kNothingSent, kCouldNot, kNothingSentReason},
    {"device.hbm_gb_per_s", kNoCopy, kCouldNot, kNoCopyReason},
    {"device.core_copy_gb_per_s", kNoCopy, kCouldNot, kNoCopyReason},
    {"device.copy_", kNoCopy, kCouldNot, kNoCopyReason},
    {"device.vector_", kNoCompute, kCouldNot, kNoComputeReason},
    {"device.scalar_step_ns", kNoCompute, kCouldNot, kNoComputeReason},
    {"device.search_step_ns", kNoCompute, kCouldNot, kNoComputeReason},
    {"device.matrix_", kNoCompute, kCouldNot, kNoComputeReason},
    {"device.hub.", [](const Evidence& e) { return e.none({"hub_packets"}); }, kCouldNot,
     "no packet passed a hub (counters): only algorithm moe-hub sends to one"},
    {"device.hub.miss_ns", [](const Evidence& e) { return e.none({"hub_misses"}); }, kCouldNot,
     "hubs had the state of every region at hand (counter hub_misses, device.hub.entries)"},
    {"workload.layers", kNoModel, kCouldNot, kNoModelReason},
    {"workload.dense_", kNoModel, kCouldNot, kNoModelReason},
    {"workload.attention.", kNoModel, kCouldNot, kNoModelReason},
    {"workload.vocabulary", kNoModel, kCouldNot, kNoModelReason},
    {"workload.phase", kNoModel, kCouldNot, kNoModelReason},
    {"workload.context", kNoModel, kCouldNot, kNoModelReason},
    {"workload.name", kAlways, kCouldNot, "it is a name"},
    {"workload.description", kAlways, kCouldNot, "it is a text"},
    {"workload.real_ffn_limit", kAlways, kCouldNot,
     "it decides how the host computes the experts' bytes, never virtual time"},
    {"workload.gate.zipf_s", [](const Evidence& e) { return e.gate_is_not(moe::Gate::ZIPF); },
     kCouldNot, "only a ZIPF gate reads it"},
    {"workload.gate.hot_", [](const Evidence& e) { return e.gate_is_not(moe::Gate::HOT_EXPERTS); },
     kCouldNot, "only a HOT_EXPERTS gate reads it"},
    {"workload.gate.trace_", [](const Evidence& e) { return e.gate_is_not(moe::Gate::TRACE); },
     kCouldNot, "only a TRACE gate reads it"},
    {"workload.gate.", kNoRows, kCouldNot, "the algorithm moves no rows of tokens"},
    {"workload.tokens", kNoRows, kCouldNot, "the algorithm moves no rows of tokens"},
    {"tokens", kNoRows, kCouldNot, "the algorithm moves no rows of tokens"},
    {"align-iterations", [](const Evidence& e) { return e.one_iteration(); }, kCouldNot,
     "one iteration starts everywhere at once anyway"},
    {"align", [](const Evidence& e) { return e.one_start(); }, kCouldNot,
     "one operation of one iteration starts everywhere at once anyway"},
    {"payload", kAlways, kCouldNot, "control has the events of full by design"},
    {"topology", [](const Evidence& e) { return e.other_paths(); }, kCould,
     "the paths differ (counters puts_over_N_switches), and yet all times are the same"},
};

std::string owner(const std::string& input, const moe::Result& result) {
  if (input.starts_with("algorithm.")) return "algorithm " + result.algorithm();
  if (input.starts_with("workload.")) return "workload " + result.workload();
  return "topology " + result.topology();
}

}  // namespace

NoEffect explain_no_effect(const std::string& input, const moe::Result& first,
                           const moe::Result& other) {
  if (first.digest() != other.digest()) {
    return verdict(input, kCould, "events moved, as the digests show, but no latency did");
  }
  const Evidence evidence(first, other);
  NoEffect effect = verdict(input, NoEffect::UNKNOWN,
                            "the event digests are equal: no event of the run depended on it");
  for (const Rule& rule : kRules) {
    if (!input.starts_with(rule.prefix) || !rule.holds(evidence)) continue;
    effect = verdict(input, rule.could, rule.reason);
    break;
  }
  // The rules first: this one reads files.
  if (effect.could() != kCouldNot && is_same_value(input, first, other)) {
    effect =
        verdict(input, kCouldNot, fmt::format("{} has that value anyway", owner(input, first)));
  }
  return effect;
}

NoEffect explain_no_effect(const std::string& input, const std::vector<ResultPointers>& pairs) {
  NoEffect effect;
  for (const auto& [first, other] : pairs) {
    effect = explain_no_effect(input, *first, *other);
    if (effect.could() != kCouldNot) break;
  }
  return effect;
}

}  // namespace orrery::cli
