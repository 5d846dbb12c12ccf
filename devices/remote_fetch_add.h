// Lanes of a core add to words of other devices' memory, a word each and all at once, and learn
// what those held before: how blocks of several devices reserve room in one of them without a word
// to its cores.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "devices/core.h"
#include "devices/operation.h"

namespace orrery::devices {

/// Adds `value` to the 32-bit word at `address` of `rank`.
struct RemoteAddition {
  std::uint32_t rank;
  fabric::Address address;
  std::uint32_t value;
};

class RemoteFetchAddOperation : public Operation {
 public:
  RemoteFetchAddOperation(std::span<const RemoteAddition> additions, fabric::Address here)
      : additions_(additions), here_(here) {}
  bool begin(Core& core) override;
  bool advance(Core& core) override;
  void on_reply(Core& core, const fabric::Packet& packet) override;
  std::string describe(const Core& core) const override;
  void result() const {}

 private:
  std::span<const RemoteAddition> additions_;
  fabric::Address here_;
  std::size_t replies_ = 0;
  emu::Time issued_ = 0;
  bool asked_ = false;
};

/// Each addition takes place when its request arrives, in event order; what word i held before
/// lands in the 32-bit word i at `here` of this device. Returns when all have: a round trip, of the
/// issue of one verb, requests of a header and 4 bytes, and answers as large. Takes no time of the
/// other devices' cores and wakes none of their polls. A word may be this device's own; with
/// Core::fetch_add() on the same word the additions take place one after the other. As gets, they
/// pass no NIC. `additions` lives until co_await returns; nothing for none.
inline Await<RemoteFetchAddOperation> remote_fetch_add(Core& core,
                                                       std::span<const RemoteAddition> additions,
                                                       fabric::Address here) {
  return Await<RemoteFetchAddOperation>(core, additions, here);
}

}  // namespace orrery::devices
