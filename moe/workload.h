// A workload: loading its text file and the checks that go beyond one field's range.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "moe/workload.pb.h"

namespace orrery::moe {

/// The most experts a token may name; also the (range) of Workload.top_k.
inline constexpr std::uint32_t kMaxTopK = 64;

/// Reads a workload file, resolves gate.trace_file relative to it and checks the result. Throws
/// ConfigError. Callers that change fields afterwards (--set) call check_workload again.
Workload load_workload(const std::string& path);

/// Everything about the fields that does not depend on the number of devices: sizes are set, top_k
/// fits the experts, groups divide them, the gate's own parameters. Throws ConfigError naming
/// `where`.
void check_workload(const Workload& workload, const std::string& where);

/// What a run of the whole model needs beside: attention, the dense layers' FFN if there are any, a
/// vocabulary, and at least `emulated` layers with experts. Throws ConfigError naming `where`.
void check_model(const Workload& workload, std::uint32_t emulated, const std::string& where);

/// Tokens of each of `devices` devices: `tokens_per_device` if given, else `tokens` for all. Throws
/// ConfigError for a wrong count and for a device above max_tokens.
std::vector<std::uint32_t> token_counts(const Workload& workload, std::uint32_t devices,
                                        const std::string& where);

/// Tmax, the bound that buffers are laid out for, the same on all devices: max_tokens if set, else
/// the largest token count, and at least 1.
std::uint32_t token_bound(const Workload& workload, std::uint32_t devices,
                          const std::string& where);

/// Intermediate size of a shared expert.
std::uint32_t shared_intermediate(const Workload& workload);

/// The workload's name for messages where no file is known.
std::string workload_label(const Workload& workload);

}  // namespace orrery::moe
