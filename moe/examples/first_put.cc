// A first put and its flag: device 0 writes into the memory of device 1 and then raises a flag
// there; device 1 polls the flag and takes the bytes. Is that right? It depends on what the fabric
// promises (01-first-put.md).
#include "emu/errors.h"
#include "moe/algorithm.h"
#include "moe/pattern.h"

namespace {

using namespace orrery;
using devices::Core;
using fabric::Address;

class FirstPut final : public moe::Algorithm {
 public:
  FirstPut(const moe::Problem& problem, const moe::Options& options)
      : problem_(problem),
        bytes_(static_cast<std::uint32_t>(options.number("bytes", 1, 1 << 20))),
        fence_(options.flag("fence")) {
    if (problem.devices != 2) {
      throw emu::ConfigError("--devices", "", std::to_string(problem.devices), "2 for first-put");
    }
    source_ = layout_.flat(bytes_);
    inbox_ = layout_.flat(std::uint64_t{bytes_} * problem.iterations);
    flag_ = layout_.flat(sizeof(std::uint32_t));
    taken_ = layout_.flat(bytes_);
  }

  std::vector<std::string> operations() const override { return {"put"}; }
  const moe::Layout& layout() const override { return layout_; }
  std::uint64_t useful_bytes(std::uint32_t, std::uint32_t) const override { return bytes_; }
  std::uint32_t cores(std::uint32_t, std::uint32_t) const override { return 1; }

  // Before each iteration, outside of virtual time: device 0 gets fresh bytes to send.
  void prepare(devices::DeviceProcess& device, std::uint32_t iteration) override {
    const auto source = device.memory().view(source_, bytes_);
    if (device.rank() == 0) moe::fill_pattern(problem_.seed, iteration, 0, 1, source);
  }

  // What a core of each device runs.
  emu::Task program(Core& core, std::uint32_t, std::uint32_t iteration) override {
    return core.rank() == 0 ? send(core, iteration) : receive(core, iteration);
  }

  // After device 1's kernel: it took what device 0 sent.
  moe::Verdict verify(devices::DeviceProcess& device, std::uint32_t,
                      std::uint32_t iteration) override {
    moe::Verdict verdict;
    const auto taken = std::as_const(device.memory()).view(taken_, bytes_);
    std::vector<std::byte> scratch;
    if (device.rank() == 1 &&
        !moe::matches_pattern(problem_.seed, iteration, 0, 1, taken, scratch)) {
      verdict.ok = false;
      verdict.what = "the bytes taken are not those that device 0 sent";
    }
    return verdict;
  }

 private:
  // Every iteration has an inbox of its own: device 0 never hears whether device 1 has taken the
  // last one.
  Address inbox(std::uint32_t iteration) const { return inbox_ + Address{iteration} * bytes_; }

  emu::Task send(Core& core, std::uint32_t iteration) {
    const devices::PutHandle put = co_await core.put(1, inbox(iteration), source_, bytes_);
    if (fence_) co_await core.fence();  // the put is visible before anything that follows
    co_await core.store(1, flag_, std::uint32_t{iteration + 1});
    co_await core.wait_local(put);  // source_ is about to be filled again
  }

  emu::Task receive(Core& core, std::uint32_t iteration) {
    const auto writer = [](std::uint32_t) { return std::string("device 0"); };
    co_await core.wait_until(devices::Slots{flag_}, devices::word_at_least(iteration + 1), writer);
    core.accept(inbox(iteration), bytes_);  // "it is all there": Orrery knows whether that is true
    co_await core.copy(taken_, inbox(iteration), bytes_);
  }

  const moe::Problem& problem_;
  const std::uint32_t bytes_;
  const bool fence_;
  moe::Layout layout_;
  Address source_, inbox_, flag_, taken_;
};

}  // namespace

ORRERY_ALGORITHM(first_put, "first-put", "example: one put, its flag, and perhaps a fence between",
                 FirstPut,
                 {{"bytes", "4096", "bytes of the put", {}},
                  {"fence", "false", "fence between the put and its flag", {"true", "false"}}})
