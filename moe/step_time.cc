#include "moe/step_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery::moe {

namespace {

double us(double ps) { return std::round(ps) / 1e6; }

std::string extrapolation(std::uint32_t layers, std::uint32_t emulated, std::uint32_t dense) {
  std::string text =
      emulated == layers
          ? fmt::format("all {} layers with experts were emulated", layers)
          : fmt::format(
                "{} of {} layers with experts were emulated; the other {} are taken as their mean",
                emulated, layers, layers - emulated);
  if (dense > 1) text += fmt::format("; one of {} layers without was, for all", dense);
  return text;
}

}  // namespace

StepTime::StepTime(const Stages& stages, const Problem& problem)
    : stages_(stages), problem_(problem), once_(stages.first_of_layer(), 0) {}

void StepTime::add(std::uint32_t iteration,
                   const std::vector<const devices::KernelRecord*>& records) {
  const std::uint32_t first = stages_.first_of_layer();
  if (iteration == 0) {
    for (std::uint32_t stage = 0; stage < first; ++stage) {
      once_[stage] = std::max(once_[stage], records[stage]->end - records[stage]->start);
    }
    begin_ += records[first - 1]->end;
  }
  layers_.resize(std::max<std::size_t>(layers_.size(), iteration + 1));
  Layer& layer = layers_[iteration];
  layer.stages.resize(stages_.size(), 0);
  for (std::uint32_t stage = first; stage < stages_.size(); ++stage) {
    layer.stages[stage] += records[stage]->end - records[stage]->start;
  }
  layer.end += records.back()->end;
}

ModelTime StepTime::finish(const emu::ProcessGroup& processes) const {
  const Workload& workload = problem_.workload;
  const std::uint32_t emulated = problem_.iterations;
  const std::uint32_t layers = workload.layers() - workload.dense_layers();
  const double devices = problem_.devices;
  ModelTime out;
  double total = 0;
  const auto part = [&](const std::string& name, double ps) {
    (*out.mutable_parts_us())[name] = us(ps);
    total += std::round(ps);
  };

  for (std::uint32_t stage = 0; stage < once_.size(); ++stage) {
    const bool dense = stages_.stages()[stage].kind == Stage::Kind::kDenseLayer;
    part(stages_.stages()[stage].name,
         static_cast<double>(processes.max(once_[stage])) * (dense ? workload.dense_layers() : 1));
  }

  // A process without devices has no layers.
  const auto sum = [&](std::uint32_t layer, auto&& value) {
    return processes.sum(layer < layers_.size() ? value(layers_[layer]) : emu::Time{0});
  };
  std::vector<double> lengths;  // mean over devices
  std::vector<emu::Time> stages(stages_.size(), 0);
  emu::Time in_stages = 0;
  emu::Time begin = processes.sum(begin_);
  const emu::Time first_begin = begin;
  for (std::uint32_t layer = 0; layer < emulated; ++layer) {
    const emu::Time end = sum(layer, [](const Layer& each) { return each.end; });
    lengths.push_back(static_cast<double>(end - begin) / devices);
    out.add_layer_us(us(lengths.back()));
    begin = end;
    for (std::uint32_t stage = stages_.first_of_layer(); stage < stages_.size(); ++stage) {
      const emu::Time time = sum(layer, [stage](const Layer& each) { return each.stages[stage]; });
      stages[stage] += time;
      in_stages += time;
    }
  }
  const double share = layers / (devices * emulated);  // of a sum over devices and layers
  for (std::uint32_t stage = stages_.first_of_layer(); stage < stages_.size(); ++stage) {
    part(stages_.stages()[stage].name, static_cast<double>(stages[stage]) * share);
  }
  const emu::Time between = begin - first_begin - in_stages;
  if (between > 0) part("between kernels", static_cast<double>(between) * share);

  const double mean = static_cast<double>(begin - first_begin) / devices / emulated;
  const double others = layers - emulated;
  const auto [least, most] = std::ranges::minmax(lengths);
  if (workload.phase() == Workload::PREFILL) {
    out.set_ttft_us(us(total));
  } else {
    out.set_tpot_us(us(total));
  }
  out.set_least_us(us(total + others * (least - mean)));
  out.set_most_us(us(total + others * (most - mean)));
  out.set_layers(layers);
  out.set_dense_layers(workload.dense_layers());
  out.set_emulated_layers(emulated);
  out.set_extrapolation(extrapolation(layers, emulated, workload.dense_layers()));
  out.set_mean_layer_us(us(mean));
  return out;
}

}  // namespace orrery::moe
