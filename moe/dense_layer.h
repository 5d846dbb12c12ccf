// What of a model is on every device: layers without experts, shared experts, the head.
#pragma once

#include <cstdint>

#include "devices/core.h"
#include "emu/task.h"
#include "moe/workload.pb.h"

namespace orrery::moe {

/// Attention, and an FFN of workload.dense_intermediate: two kernels, as an expert's.
emu::Task dense_layer(devices::Core& core, const Workload& workload, std::uint32_t tokens);

/// Two kernels.
emu::Task shared_experts(devices::Core& core, const Workload& workload, std::uint32_t tokens);

/// Logits of the tokens, of a prompt's last one alone, and a pass over them for the largest.
emu::Task model_head(devices::Core& core, const Workload& workload, std::uint32_t tokens);

}  // namespace orrery::moe
