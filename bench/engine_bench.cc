// The event engine alone: hold model (every event schedules one other), coroutine resumption, the
// fabric's hop.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "emu/engine.h"
#include "emu/random.h"
#include "emu/task.h"
#include "fabric/network.h"
#include "fabric/routing.h"
#include "fabric/topology.h"

namespace {

using namespace orrery;

// Each event goes on to a random logical process after a random time, `budget` times in all.
class Hold final : public emu::LogicalProcess {
 public:
  Hold(emu::Engine& engine, emu::LpId self, emu::LpId lps, std::uint64_t& budget)
      : engine_(engine), self_(self), lps_(lps), random_(1, self, "hold"), budget_(budget) {}
  void handle(const emu::Event& event) override {
    if (budget_ == 0) return;
    --budget_;
    const auto to = static_cast<emu::LpId>(random_.below(lps_));
    const auto delay = static_cast<emu::Time>(500'000 + random_.below(1'000'000));
    engine_.schedule(self_, to, event.time + delay, event.kind).as<std::uint64_t>() =
        event.as<std::uint64_t>() + 1;
  }

 private:
  emu::Engine& engine_;
  emu::LpId self_;
  emu::LpId lps_;
  emu::RandomStream random_;
  std::uint64_t& budget_;
};

void hold(benchmark::State& state) {
  const auto lps = static_cast<emu::LpId>(state.range(0));
  const auto pending = static_cast<std::uint64_t>(state.range(1));
  constexpr std::uint64_t kEvents = 2'000'000;
  std::uint64_t executed = 0;
  for (auto _ : state) {
    const emu::ProcessGroup alone;
    emu::Engine engine(alone, nullptr, lps);
    std::uint64_t budget = kEvents;
    std::vector<std::unique_ptr<Hold>> objects;
    for (emu::LpId lp = 0; lp < lps; ++lp) {
      objects.push_back(std::make_unique<Hold>(engine, lp, lps, budget));
      engine.attach(lp, objects.back().get());
    }
    for (std::uint64_t i = 0; i < pending; ++i) {
      engine
          .schedule(static_cast<emu::LpId>(i % lps), static_cast<emu::LpId>(i % lps),
                    static_cast<emu::Time>(i), 0)
          .as<std::uint64_t>() = 0;
    }
    engine.run();
    executed += engine.executed();
  }
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(executed), benchmark::Counter::kIsRate);
}
BENCHMARK(hold)
    ->Args({64, 64})
    ->Args({256, 1024})
    ->Args({1024, 16384})
    ->Args({1024, 131072})
    ->Unit(benchmark::kMillisecond);

// A logical process whose coroutine sleeps again and again: what a core's awaits cost.
class Sleeper final : public emu::LogicalProcess {
 public:
  Sleeper(emu::Engine& engine, emu::LpId self, int naps) : engine_(engine), self_(self) {
    task_ = nap(naps);
    engine.schedule(self, self, static_cast<emu::Time>(self), 0);
    program_ = task_.handle();
  }
  void handle(const emu::Event&) override { program_.resume(); }

 private:
  struct Nap {
    Sleeper& sleeper;
    emu::Time duration;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> program) {
      sleeper.program_ = program;
      sleeper.engine_.schedule(sleeper.self_, sleeper.self_, sleeper.engine_.now() + duration, 0);
    }
    void await_resume() const noexcept {}
  };
  emu::Task nap(int naps) {
    for (int i = 0; i < naps; ++i) co_await Nap{*this, 1000 + i % 7};
  }

  emu::Engine& engine_;
  emu::LpId self_;
  emu::Task task_;
  std::coroutine_handle<> program_;
};

void coroutines(benchmark::State& state) {
  const auto lps = static_cast<emu::LpId>(state.range(0));
  constexpr int kNaps = 2000;
  std::uint64_t executed = 0;
  for (auto _ : state) {
    const emu::ProcessGroup alone;
    emu::Engine engine(alone, nullptr, lps);
    std::vector<std::unique_ptr<Sleeper>> objects;
    for (emu::LpId lp = 0; lp < lps; ++lp) {
      objects.push_back(std::make_unique<Sleeper>(engine, lp, kNaps));
      engine.attach(lp, objects.back().get());
    }
    engine.run();
    executed += engine.executed();
  }
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(executed), benchmark::Counter::kIsRate);
}
BENCHMARK(coroutines)->Arg(64)->Arg(1024)->Unit(benchmark::kMillisecond);

// One hop of a packet over a star: route, FIFO, the next event.
class Sink final : public emu::LogicalProcess {
 public:
  void handle(const emu::Event&) override {}
};

void packet_hops(benchmark::State& state) {
  fabric::Fabric description;
  description.mutable_star()->set_devices(256);
  description.mutable_star()->mutable_link()->set_latency_ns(350);
  description.mutable_star()->mutable_link()->set_gb_per_s(50);
  const fabric::Topology topology = fabric::build_topology(description, "bench");
  const fabric::Routing routing(topology);
  std::uint64_t executed = 0;
  for (auto _ : state) {
    const emu::ProcessGroup alone;
    emu::Engine engine(alone, nullptr, topology.nodes());
    fabric::Network network(engine, topology, routing, description);
    fabric::Switch hub(network, 256);
    Sink sink;
    for (emu::LpId lp = 0; lp < 256; ++lp) engine.attach(lp, &sink);
    engine.attach(256, &hub);
    for (std::uint32_t round = 0; round < 400; ++round) {
      for (fabric::NodeId device = 0; device < 256; ++device) {
        fabric::Packet packet;
        packet.source = device;
        packet.destination = (device + 1 + round % 255) % 256;
        packet.bytes = 4096;
        network.inject(0, packet);
      }
    }
    engine.run();
    executed += engine.executed();
  }
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(executed), benchmark::Counter::kIsRate);
}
BENCHMARK(packet_hops)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
