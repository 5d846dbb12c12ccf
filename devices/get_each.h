// The warps of a core read several stretches of remote memory at once: get()s that are all on their
// way before the first is waited for.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "devices/core.h"
#include "devices/operation.h"

namespace orrery::devices {

/// [from, from + bytes) of `rank`, to `to` here.
struct Fetch {
  std::uint32_t rank;
  fabric::Address from;
  fabric::Address to;
  std::uint32_t bytes;
};

class GetEachOperation : public Operation {
 public:
  explicit GetEachOperation(std::span<const Fetch> fetches) : fetches_(fetches) {}
  bool begin(Core& core) override;
  bool advance(Core& core) override;
  void on_reply(Core& core, const fabric::Packet& packet) override;
  std::string describe(const Core& core) const override;
  void result() const {}

 private:
  void issue(Core& core);

  std::span<const Fetch> fetches_;
  std::size_t asked_ = 0;
  std::size_t answered_ = 0;
  emu::Time issued_ = 0;        // of the one that is being issued
  fabric::CausalKey last_ = 0;  // a packet of the latest answer
};

/// Core::get() of each of `fetches`, issued one after the other; returns when all bytes of all are
/// visible. None is of no bytes. `fetches` lives until co_await returns. Nothing for none.
inline Await<GetEachOperation> get_each(Core& core, std::span<const Fetch> fetches) {
  return Await<GetEachOperation>(core, fetches);
}

}  // namespace orrery::devices
