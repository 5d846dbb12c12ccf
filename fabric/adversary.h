// The adversary (design section 6): an enemy that may delay the visibility of blocks, by no more
// than a bound and never against the fabric's rules, so that whoever relies on more than the rules
// fails soon, and again with the same seed.
#pragma once

#include <cstdint>

#include "emu/time.h"
#include "fabric/packet.h"

namespace orrery::fabric {

struct Adversary {
  bool on = false;
  std::uint64_t seed = 0;
  emu::Time delay = 0;  // at most

  /// How late `block`, a packet cut down to one atomic block, is at `node`: in [0, delay], a hash
  /// of the seed, the channel, the put and the block. A seed has a style, one of eight by turns:
  ///
  /// - *flags early* (seeds 0 to 4): puts of one block are never late, so flags overtake data;
  /// - *every block* (5): each put of one block is late by itself;
  /// - *channels* (6): half the cores of each device are late with all they put here;
  /// - *puts* (7): of 8 puts 3 (1 of one block) are very late as a whole, 2 late, 1 not at all.
  ///
  /// In every style the blocks of a put are torn apart in a way that is the put's own: for 9 of 16
  /// puts the first block is the latest, for the others blocks are late at random, every second
  /// (fourth, eighth) one, a single one, the last ones, all alike, or none.
  emu::Time late(NodeId node, const Packet& block, std::uint32_t block_bytes) const;
};

}  // namespace orrery::fabric
