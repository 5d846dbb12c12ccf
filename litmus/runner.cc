#include "litmus/runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "devices/cluster.h"
#include "emu/errors.h"
#include "fabric/placement.h"
#include "fabric/rules.h"

namespace orrery::litmus {

namespace {

using devices::DeviceProcess;

// Devices begin up to so much apart, and two puts of a service core more.
constexpr double kLateStartNs = 2000;

// Virtual time is free: each program has so much that nothing is under way when half of it is over.
emu::Time time_of_a_program(const fabric::Fabric& fabric) {
  return emu::from_ns(20e6 + 16 * fabric.adversary_delay_ns());
}

// A device's part in all programs: `mine` are their numbers.
emu::Task stream(DeviceProcess& device, const std::vector<const Program*>& programs,
                 const std::vector<std::uint32_t>& mine, std::vector<Scene>& scenes,
                 std::uint64_t seed) {
  const emu::RandomStream late(seed, device.rank(), "litmus start");
  const auto latest =
      static_cast<std::uint64_t>(emu::from_ns(kLateStartNs) + 2 * device.costs().service_core_put);
  const emu::Time period = time_of_a_program(device.network().fabric());
  for (const std::uint32_t i : mine) {
    const Program& program = *programs[i];
    Scene& scene = scenes[i];
    const emu::Time start = static_cast<emu::Time>(i) * period;
    const auto jitter = static_cast<emu::Time>(late.at(i) % latest);
    auto begin = device.sleep(start + jitter - device.shard().now());
    co_await begin;
    auto kernel = device.kernel(
        i, 0, program.cores, [&program, &scene](Core& core) { return program.code(core, scene); },
        program.name);
    co_await kernel;
    if (program.after == nullptr) continue;
    auto silence = device.sleep(start + period / 2 - device.shard().now());
    co_await silence;
    auto look = device.kernel(
        i, 0, 1, [&program, &scene](Core& core) { return program.after(core, scene); },
        program.name);
    co_await look;
  }
}

std::uint32_t most_devices(const std::vector<const Program*>& programs) {
  std::uint32_t most = 1;
  for (const Program* program : programs) most = std::max(most, program->devices);
  return most;
}

}  // namespace

bool Tally::forbidden_seen() const {
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].total() > 0 && !verdict.allowed[i]) return true;
  }
  return false;
}

namespace {

// Of two networks the one that all of the devices talk over.
fabric::Fabric seen_by(const fabric::Fabric& fabric, const fabric::Topology& topology,
                       const std::vector<fabric::NodeId>& ports, const std::string& placement) {
  std::size_t pairs = 0;
  std::size_t scale_out = 0;
  for (const fabric::NodeId a : ports) {
    for (const fabric::NodeId b : ports) {
      if (a == b) continue;
      ++pairs;
      scale_out += topology.is_scale_out(a, b) ? 1 : 0;
    }
  }
  if (scale_out == 0) return fabric;
  if (scale_out == pairs) return fabric::as_seen_by_nics(fabric);
  throw emu::ConfigError("--placement", "", placement,
                         fmt::format("{} devices of one node, or of as many nodes", ports.size()));
}

}  // namespace

Runner::Runner(const devices::Machine& machine, const std::string& where,
               std::vector<const Program*> programs, const std::string& placement)
    : machine_(machine),
      where_(where),
      programs_(std::move(programs)),
      placement_(placement),
      wiring_(std::make_shared<const fabric::Wiring>(machine.fabric(), where)),
      ranks_(std::min(most_devices(programs_), wiring_->topology.devices)),
      fabric_(seen_by(machine.fabric(), wiring_->topology,
                      fabric::place(wiring_->topology, ranks_, placement_), placement_)) {}

bool Runner::fits(const Program& program) const {
  return program.devices <= ranks_ && program.cores <= machine_.device().cores();
}

Runner::Run Runner::run(RunId id) const {
  const emu::ProcessGroup alone;
  devices::ClusterOptions options;
  options.ranks = ranks_;
  options.placement = placement_;
  options.wiring = wiring_;
  options.memory_bytes = programs_.size() * Scene::kWindow;
  options.adversary = {id.adversary, id.seed, emu::from_ns(fabric_.adversary_delay_ns())};
  devices::Cluster cluster(alone, nullptr, machine_, where_, options);
  std::vector<Scene> scenes;
  for (std::uint32_t i = 0; i < programs_.size(); ++i) scenes.emplace_back(fabric_, i, id.seed);
  std::vector<std::vector<std::uint32_t>> parts(cluster.ranks());
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    for (std::uint32_t i = 0; i < programs_.size(); ++i) {
      if (rank < programs_[i]->devices && fits(*programs_[i])) parts[rank].push_back(i);
    }
    DeviceProcess& device = cluster.device(rank);
    device.start_stream(stream(device, programs_, parts[rank], scenes, id.seed), 0);
  }
  Run run{id, std::vector<int>(programs_.size(), Scene::kNothing), cluster.run()};
  if (!run.hang.empty()) return run;
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    if (fits(*programs_[i])) run.outcomes[i] = programs_[i]->outcome(scenes[i]);
  }
  return run;
}

std::vector<Tally> Runner::tallies() const {
  std::vector<Tally> tallies;
  for (const Program* program : programs_) {
    Tally tally;
    tally.program = program;
    tally.verdict = program->judge(fabric_);
    tally.outcomes.resize(program->outcomes.size());
    if (!fits(*program)) {
      tally.skipped = fmt::format("needs {} devices of {} cores", program->devices, program->cores);
    }
    tallies.push_back(std::move(tally));
  }
  return tallies;
}

void count(std::vector<Tally>& tallies, const Runner::Run& run) {
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    if (run.outcomes[i] == Scene::kNothing) continue;
    OutcomeCount& outcome = tallies[i].outcomes.at(static_cast<std::size_t>(run.outcomes[i]));
    if (outcome.total() == 0) outcome.first = run.id;
    ++(run.id.adversary ? outcome.adversary : outcome.plain);
  }
}

}  // namespace orrery::litmus
