// What a litmus program sees beside its core: where things lie, what the fabric looks like, and a
// place to note what it saw.
//
// Every program has a window of its own in each device's memory, which reads as zero at first: rows
// at kData…, sources at kSource…, flags at kFlag…, each flag far from all others.
#pragma once

#include <array>
#include <cstdint>

#include "devices/core.h"
#include "emu/random.h"
#include "fabric/fabric.pb.h"

namespace orrery::litmus {

using devices::Core;
using fabric::Address;

/// What a range of memory holds.
enum Holds : int { kNew = 0, kOld = 1, kTorn = 2 };

class Scene {
 public:
  static constexpr Address kWindow = Address{8} << 20;       // bytes per program
  static constexpr Address kFlagStride = Address{64} << 10;  // the largest atomic block
  static constexpr std::uint32_t kNotes = 8;

  /// `number`: the program's place among all, which is where its window lies; with `seed` it names
  /// its random numbers.
  Scene(const fabric::Fabric& fabric, std::uint32_t number, std::uint64_t seed)
      : fabric_(fabric), base_(number * kWindow), random_(seed, number, "litmus") {
    notes_.fill(kNothing);
  }

  // --- Where things are ---
  /// Row `i` of four, at the border of an atomic block.
  Address data(std::uint32_t i = 0) const { return base_ + i * kRow; }
  /// Where the sender keeps what row `i` shall become.
  Address source(std::uint32_t i = 0) const { return base_ + (4 + i) * kRow; }
  /// Flag `i` of sixteen, a word.
  Address flag(std::uint32_t i = 0) const { return base_ + 8 * kRow + i * kFlagStride; }
  /// A row of several atomic blocks: in one packet, unless the fabric's are very small.
  std::uint32_t row_bytes() const;
  /// A row of two packets.
  std::uint32_t long_row_bytes() const { return 2 * fabric_.packet_bytes(); }
  std::uint32_t block_bytes() const { return fabric_.atomic_block_bytes(); }

  // --- What programs do again and again ---
  /// Fills [address, address + bytes) of the core's device with words of `value`.
  static void fill(Core& core, Address address, std::uint32_t bytes, std::uint32_t value = 1);
  /// Whether the range holds words of `value` and nothing else, none of them, or some.
  static Holds look(Core& core, Address address, std::uint32_t bytes, std::uint32_t value = 1);
  static std::uint32_t word(Core& core, Address address);
  /// Waits until the word at `address` is `value`.
  static devices::Await<devices::WaitOperation> see(Core& core, Address address,
                                                    std::uint32_t value = 1);
  /// Lets time pass, another with every seed: up to `most_ns` nanoseconds, and two puts of a
  /// service core besides; short times as often as long ones.
  devices::Await<devices::SpendOperation> pause(Core& core, double most_ns);

  // --- What was seen ---
  static constexpr int kNothing = -1;
  void note(int value, std::uint32_t i = 0) { notes_[i] = value; }
  int noted(std::uint32_t i = 0) const { return notes_[i]; }

 private:
  static constexpr Address kRow = Address{512} << 10;  // four of the largest blocks

  const fabric::Fabric& fabric_;
  const Address base_;
  emu::RandomStream random_;
  std::array<int, kNotes> notes_;
};

}  // namespace orrery::litmus
