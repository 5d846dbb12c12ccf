// What p2p, ring and alltoall share: every device puts `bytes` to some peers and tells them with a
// flag. They differ in who the peers are. With completion=flag each put is followed by its flag,
// and the operation ends when the flags of those that put to a device are there. With
// completion=flush it ends at the sender, when all its puts are acknowledged, and an operation of
// its own then sends the flags: what benchmarks time that stop at a flush.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "moe/algorithm.h"
#include "moe/layout.h"

namespace orrery::moe {

/// The option that all of them have.
inline OptionSpec completion_option() {
  return {"completion",
          "flag",
          "an operation ends when the flags have arrived, or when the sender's puts are flushed",
          {"flag", "flush"}};
}

class ExchangeBenchmark : public Algorithm {
 public:
  /// `rounds` buffers in turn: an iteration may begin while peers are still up to rounds-1 behind.
  ExchangeBenchmark(const Problem& problem, const Options& options, std::uint32_t rounds);

  std::vector<std::string> operations() const override {
    return flush_ ? std::vector<std::string>{"put", "signal"} : std::vector<std::string>{"put"};
  }
  const Layout& layout() const override { return layout_; }
  std::uint64_t touched_bytes(std::uint32_t device) const override;
  std::uint64_t useful_bytes(std::uint32_t operation, std::uint32_t iteration) const override;
  std::uint32_t cores(std::uint32_t, std::uint32_t) const override { return 1; }
  void prepare(devices::DeviceProcess& device, std::uint32_t iteration) override;
  emu::Task program(devices::Core& core, std::uint32_t operation, std::uint32_t iteration) override;
  Verdict verify(devices::DeviceProcess& device, std::uint32_t operation,
                 std::uint32_t iteration) override;

 protected:
  /// Peers that `device` puts to, in order of issue. The n-th put lands in slot n of the peer's
  /// buffer.
  virtual std::vector<std::uint32_t> targets(std::uint32_t device) const = 0;
  /// The device whose put lands in slot n of `device`.
  virtual std::uint32_t source_of(std::uint32_t device, std::uint32_t slot) const = 0;
  /// Slots of `device` that peers put into.
  virtual std::uint32_t slots(std::uint32_t device) const = 0;
  /// Called by the constructor of the concrete benchmark.
  void make_layout(std::uint32_t max_slots);

  const Problem& problem_;

 private:
  fabric::Address out(std::uint32_t slot) const { return out_ + slot * stride_; }
  fabric::Address in(std::uint32_t round, std::uint32_t slot) const {
    return in_ + (std::uint64_t{round} * max_slots_ + slot) * stride_;
  }
  fabric::Address flag(std::uint32_t slot) const {
    return flags_ + slot * std::uint64_t{kFlagStride};
  }
  /// Bytes of a put that are carried: all of them, or with --payload control its beginning.
  std::uint32_t held_bytes() const { return problem_.control ? std::min(bytes_, 16u) : bytes_; }
  emu::Task put(devices::Core& core, std::uint32_t iteration);
  emu::Task signal(devices::Core& core, std::uint32_t iteration);
  emu::Task wait_for_flags(devices::Core& core, std::uint32_t iteration);

  static constexpr std::uint32_t kFlagStride =
      512;  // the largest atomic block of any shipped fabric
  std::uint32_t bytes_;
  bool flush_;
  std::uint32_t rounds_;
  std::uint32_t max_slots_ = 0;
  std::uint64_t stride_ = 0;
  Layout layout_;
  fabric::Address out_ = 0;
  fabric::Address in_ = 0;
  fabric::Address flags_ = 0;
};

}  // namespace orrery::moe
