// All-gather on a ring: every device begins with one chunk and ends with all of them. In each step
// it passes to the next device what came last from the one before: steps * (latency +
// serialisation) in all (02-ring.md).
#include "emu/digest.h"
#include "moe/algorithm.h"
#include "moe/pattern.h"

namespace {

using namespace orrery;
using devices::Core;
using fabric::Address;

class RingAllGather final : public moe::Algorithm {
 public:
  RingAllGather(const moe::Problem& problem, const moe::Options& options)
      : problem_(problem), bytes_(static_cast<std::uint32_t>(options.number("bytes", 1, 1 << 24))) {
    chunks_ = layout_.flat(2 * std::uint64_t{problem.devices} * bytes_);
    flags_ = layout_.flat(problem.devices * kFlagStride);
  }

  std::vector<std::string> operations() const override { return {"all-gather"}; }
  const moe::Layout& layout() const override { return layout_; }
  std::uint64_t useful_bytes(std::uint32_t, std::uint32_t) const override {
    return std::uint64_t{problem_.devices} * (problem_.devices - 1) * bytes_;
  }
  std::uint32_t cores(std::uint32_t, std::uint32_t) const override { return 1; }

  void prepare(devices::DeviceProcess& device, std::uint32_t iteration) override {
    const std::uint32_t rank = device.rank();
    const auto own = device.memory().view(chunk(iteration, rank), bytes_);
    moe::fill_pattern(problem_.seed, iteration, rank, 0, own);
  }

  emu::Task program(Core& core, std::uint32_t, std::uint32_t iteration) override {
    const std::uint32_t ranks = core.ranks();
    const std::uint32_t next = (core.rank() + 1) % ranks;
    const std::uint32_t before = (core.rank() + ranks - 1) % ranks;
    const auto writer = [before](std::uint32_t) { return "device " + std::to_string(before); };
    devices::PutHandle last;
    for (std::uint32_t step = 0; step + 1 < ranks; ++step) {
      const std::uint32_t out = (core.rank() + ranks - step) % ranks;  // whose chunk leaves
      const std::uint32_t in = (before + ranks - step) % ranks;        // whose chunk arrives
      last = co_await core.put(next, chunk(iteration, out), chunk(iteration, out), bytes_);
      co_await core.fence();
      co_await core.store(next, flag(step), std::uint32_t{iteration + 1});
      const devices::Slots arrived{flag(step)};
      co_await core.wait_until(arrived, devices::word_at_least(iteration + 1), writer);
      core.accept(chunk(iteration, in), bytes_);
    }
    co_await core.wait_local(last);
  }

  moe::Verdict verify(devices::DeviceProcess& device, std::uint32_t,
                      std::uint32_t iteration) override {
    moe::Verdict verdict;
    std::vector<std::byte> scratch;
    for (std::uint32_t rank = 0; rank < problem_.devices; ++rank) {
      const auto bytes = std::as_const(device.memory()).view(chunk(iteration, rank), bytes_);
      verdict.digest = emu::digest_bytes(bytes, verdict.digest);
      if (moe::matches_pattern(problem_.seed, iteration, rank, 0, bytes, scratch)) continue;
      verdict.ok = false;
      verdict.what = "the chunk of device " + std::to_string(rank) + " is not what it sent";
    }
    return verdict;
  }

 private:
  static constexpr std::uint64_t kFlagStride = 512;  // a block of its own on any shipped fabric

  // Two buffers in turn. The device before may be one call ahead, but no further: to end a call it
  // needs a chunk of this device, which this device sends when it has ended the call before.
  Address chunk(std::uint32_t iteration, std::uint32_t rank) const {
    return chunks_ + (Address{iteration % 2} * problem_.devices + rank) * bytes_;
  }
  Address flag(std::uint32_t step) const { return flags_ + step * kFlagStride; }

  const moe::Problem& problem_;
  const std::uint32_t bytes_;
  moe::Layout layout_;
  Address chunks_, flags_;
};

}  // namespace

ORRERY_ALGORITHM(ring, "ring-all-gather", "example: all-gather in steps around a ring",
                 RingAllGather, {{"bytes", "14336", "bytes of each device's chunk", {}}})
