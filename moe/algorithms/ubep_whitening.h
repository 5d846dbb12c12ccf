// What of UBEP's wire is DC's alone (ubep_wire.h): records whitened with a sequence of the round's
// own, so that bytes that have not arrived never pass for those that should, and their checksums.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "devices/core.h"
#include "moe/algorithms/ubep_trailer.h"
#include "moe/layout.h"

namespace orrery::moe::ubep {

class Whitening {
 public:
  /// `control`: of a row only what --payload control needs is there: 8 bytes of every unit, at most
  /// 32 bytes long and no more than what the fabric may let arrive by itself (`fabric_block`), so
  /// that the checksum covers that all the same.
  Whitening(std::uint32_t payload_bytes, bool control, std::uint32_t fabric_block);

  /// What --payload control carries of a payload, behind its identity.
  std::vector<fabric::Carried::Range> carried() const;

  /// The payload at `from`, filled up with zeros, xor the round's sequence.
  void whiten(devices::Core& core, fabric::Address to, fabric::Address from,
              std::uint32_t round) const;
  /// Makes the whitened payload at `row` what it was.
  void restore(devices::Core& core, fabric::Address row, std::uint32_t round) const;
  /// Scale and tag whitened, or what they were: what else would be zeros where nothing has arrived.
  Trailer whitened(Trailer trailer) const;
  /// Of a whitened payload at `slot` and all else in its trailer, which is not whitened.
  std::uint64_t checksum(devices::Core& core, fabric::Address slot, Trailer trailer) const;

  emu::Time whiten_time(const devices::Costs& costs) const;
  emu::Time checksum_time(const devices::Costs& costs) const;

 private:
  static constexpr std::uint32_t kLargestUnit = 32;
  static constexpr std::uint32_t kOfUnit = 8;

  std::uint32_t padded() const { return static_cast<std::uint32_t>(align_up(payload_bytes_, 32)); }
  std::uint32_t present_bytes() const;
  void add_sequence(std::span<std::byte> bytes, std::uint32_t round) const;

  std::uint32_t payload_bytes_;
  bool control_;
  std::uint32_t unit_;
};

}  // namespace orrery::moe::ubep
