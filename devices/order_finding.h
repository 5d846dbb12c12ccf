// What the happens-before checker has to say: two accesses that nothing orders.
#pragma once

#include <cstdint>
#include <string>

#include "devices/check_log.h"
#include "emu/time.h"
#include "fabric/packet.h"

namespace orrery::devices {

enum class FindingKind : std::uint8_t {
  kUnorderedRead,       // the write that it saw is not ordered before it
  kUnproven,            // bytes accepted as complete that nothing proves complete
  kUnwritten,           // nothing wrote what it reads, or it was given up
  kUnorderedOverwrite,  // of what another access wrote
  kOverwriteOfRead,     // of what another access may still read
  kSourceReuse,         // of a put's source before the put is known to have left
  kFlagReuse,           // a flag gets a new value while a core may still wait for the old one
  kCounterReuse,        // an atomic counter may count this add in place of another that is awaited
};
/// "unordered read"
const char* to_string(FindingKind kind);

/// One of the two accesses.
struct FindingSide {
  std::uint32_t device = 0;
  std::uint32_t core = 0;
  Verb verb = Verb::kHost;
  std::string operation;  // of the kernel
  std::string phase;      // empty if the program names none
  std::uint32_t iteration = 0;
  emu::Time time = 0;  // of an access; of a put, when the core began to issue
};

struct Finding {
  FindingKind kind = FindingKind::kUnorderedRead;
  FindingSide second;        // the access that is not ordered after
  FindingSide first;         // this one
  bool has_first = true;     // false: nothing wrote there
  std::uint32_t device = 0;  // whose memory
  fabric::Address address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  // of this kind between the same places of the program
};

/// One line.
std::string to_text(const Finding& finding);

}  // namespace orrery::devices
