#include "moe/stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "emu/errors.h"
#include "emu/near_match.h"
#include "moe/attention.h"
#include "moe/dense_layer.h"
#include "moe/workload.h"

namespace orrery::moe {

namespace {
constexpr const char* kLayer = "layer";
constexpr const char* kModel = "model";
constexpr const char* kExperts = "experts";
}  // namespace

Stages::Stages(const Problem& problem, Algorithm& algorithm, const std::string& operation)
    : problem_(problem), algorithm_(algorithm) {
  using Kind = Stage::Kind;
  const Workload& workload = problem.workload;
  const std::vector<std::string> names = algorithm.operations();
  const bool model = operation == kModel && algorithm.has_gate();
  const bool layer = model || (operation == kLayer && algorithm.has_gate());
  if (model) {
    check_model(workload, problem.iterations, workload_label(workload));
    stages_.push_back({"head", Kind::kHead, 0, true});
    if (workload.dense_layers() > 0) stages_.push_back({"dense", Kind::kDenseLayer, 0, true});
    stages_.push_back({"attention", Kind::kAttention});
  }
  if (layer) stages_.push_back({"gate", Kind::kGate});
  if (model && workload.shared_experts() > 0 &&
      std::find(names.begin(), names.end(), kExperts) == names.end()) {
    stages_.push_back({"shared", Kind::kShared});
  }
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    stages_.push_back({layer && names[i] == kLayer ? "kernel" : names[i], Kind::kOperation, i});
  }
  if (!layer && !operation.empty()) {
    const auto found = std::find(names.begin(), names.end(), operation);
    if (found == names.end()) {
      std::vector<std::string> known = names;
      if (algorithm.has_gate()) known.insert(known.end(), {kLayer, kModel});
      throw emu::ConfigError(
          "--operation", "", operation,
          fmt::format("an operation of the algorithm: {}{}", fmt::join(known, ", "),
                      emu::did_you_mean(operation, known)));
    }
    stages_.resize(static_cast<std::size_t>(found - names.begin()) + 1);
  }
  for (std::uint32_t i = 0; i < size(); ++i)
    spans_.push_back({stages_[i].name, devices::KernelRange::only(i)});
  if (layer) spans_.push_back({kLayer, {first_of_layer(), size() - 1}});
}

std::uint32_t Stages::first_of_layer() const {
  const auto first =
      std::find_if(stages_.begin(), stages_.end(), [](const Stage& stage) { return !stage.once; });
  return static_cast<std::uint32_t>(first - stages_.begin());
}

std::uint32_t Stages::cores(std::uint32_t index, std::uint32_t iteration) const {
  const Stage& stage = stages_[index];
  return stage.kind == Stage::Kind::kOperation ? algorithm_.cores(stage.operation, iteration) : 0;
}

emu::Task Stages::program(devices::Core& core, std::uint32_t index, std::uint32_t iteration) const {
  const Stage& stage = stages_[index];
  const Workload& workload = problem_.workload;
  const std::uint32_t tokens = problem_.tables[iteration].tokens(core.rank());
  switch (stage.kind) {
    case Stage::Kind::kHead:
      return model_head(core, workload, tokens);
    case Stage::Kind::kDenseLayer:
      return dense_layer(core, workload, tokens);
    case Stage::Kind::kAttention:
      return attention(core, workload, tokens);
    case Stage::Kind::kShared:
      return shared_experts(core, workload, tokens);
    case Stage::Kind::kGate:
      return algorithm_.gate(core, iteration);
    case Stage::Kind::kOperation:
      break;
  }
  return algorithm_.program(core, stage.operation, iteration);
}

Verdict Stages::verify(devices::DeviceProcess& device, std::uint32_t index,
                       std::uint32_t iteration) const {
  const Stage& stage = stages_[index];
  if (stage.kind != Stage::Kind::kOperation) return {};
  return algorithm_.verify(device, stage.operation, iteration);
}

std::uint64_t Stages::useful_bytes(const Span& span, std::uint32_t iteration) const {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = span.stages.first; i <= span.stages.last; ++i) {
    if (stages_[i].kind != Stage::Kind::kOperation) continue;
    bytes += algorithm_.useful_bytes(stages_[i].operation, iteration);
  }
  return bytes;
}

}  // namespace orrery::moe
