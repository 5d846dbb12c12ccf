#include "moe/stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "emu/errors.h"
#include "emu/near_match.h"

namespace orrery::moe {

namespace {
constexpr const char* kLayer = "layer";
}  // namespace

Stages::Stages(Algorithm& algorithm, const std::string& operation) : algorithm_(algorithm) {
  const std::vector<std::string> names = algorithm.operations();
  const bool layer = operation == kLayer && algorithm.has_gate();
  if (layer) stages_.push_back({"gate", Stage::kGate});
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    stages_.push_back({layer && names[i] == kLayer ? "kernel" : names[i], i});
  }
  if (!layer && !operation.empty()) {
    const auto found = std::find(names.begin(), names.end(), operation);
    if (found == names.end()) {
      std::vector<std::string> known = names;
      if (algorithm.has_gate()) known.push_back(kLayer);
      throw emu::ConfigError(
          "--operation", "", operation,
          fmt::format("an operation of the algorithm: {}{}", fmt::join(known, ", "),
                      emu::did_you_mean(operation, known)));
    }
    stages_.resize(static_cast<std::size_t>(found - names.begin()) + 1);
  }
  for (std::uint32_t i = 0; i < size(); ++i)
    spans_.push_back({stages_[i].name, devices::KernelRange::only(i)});
  if (layer) spans_.push_back({kLayer, {0, size() - 1}});
}

std::uint32_t Stages::cores(std::uint32_t index, std::uint32_t iteration) const {
  const std::uint32_t operation = stages_[index].operation;
  return operation == Stage::kGate ? 0 : algorithm_.cores(operation, iteration);
}

emu::Task Stages::program(devices::Core& core, std::uint32_t index, std::uint32_t iteration) const {
  const std::uint32_t operation = stages_[index].operation;
  return operation == Stage::kGate ? algorithm_.gate(core, iteration)
                                   : algorithm_.program(core, operation, iteration);
}

Verdict Stages::verify(devices::DeviceProcess& device, std::uint32_t index,
                       std::uint32_t iteration) const {
  const std::uint32_t operation = stages_[index].operation;
  return operation == Stage::kGate ? Verdict{} : algorithm_.verify(device, operation, iteration);
}

std::uint64_t Stages::useful_bytes(const Span& span, std::uint32_t iteration) const {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = span.stages.first; i <= span.stages.last; ++i) {
    if (stages_[i].operation == Stage::kGate) continue;
    bytes += algorithm_.useful_bytes(stages_[i].operation, iteration);
  }
  return bytes;
}

}  // namespace orrery::moe
