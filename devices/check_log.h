// What the cores of a device did to memory, for the happens-before checker (orrery run --check):
// one small record per access, in the device's own order. Kept only when asked for; changes no
// virtual time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "emu/time.h"
#include "fabric/packet.h"

namespace orrery::devices {

/// What a record says; `at`, and `core` where it is a core's, always count. The other fields that a
/// kind uses stand beside it.
enum class CheckKind : std::uint8_t {
  kKernel,     // a kernel starts: name, bytes number of cores, other iteration
  kEnd,        // a core's program ended
  kPhase,      // name
  kHostWrite,  // between kernels: address, bytes
  kRead,       // bytes that must be ordered before: address, bytes, detail verb
  kWrite,      // address, bytes, detail verb
  kProbe,      // a look at bytes that may be in flight: address, bytes
  kAccept,     // bytes claimed as complete: address, bytes, detail verb
  kDiscard,    // contents are given up: address, bytes, detail verb
  kMove,       // rows change their address: address, bytes, other the address they had
  kPut,        // begins to issue: other identity, peer rank, address serial, bytes, detail PutBits
  kPiece,      // of the put just before: address there, bytes, other address here
  kVisible,    // address, bytes, other identity, peer rank of the source, detail VisibleBits
  kPlaced,  // a hub gives a put its place: other identity, peer rank of the source, address how far
            // on its data goes, bytes how far on its word
  kLeft,    // the core knows that a put has left: other serial
  kQuiet,   // puts of the core are acknowledged: those of detail, or one: other serial
  kFence,   // earlier puts of the core are visible before its later ones
  kWait,    // a slot that satisfied a wait: address, bytes, detail WaitBits
  kArrive,  // the core is at the core barrier
  kGet,     // issued: address there, bytes, other address here, peer rank, detail verb
  kServe,   // a get or fetch-and-add of core `core` of rank `peer`: address, bytes, detail verb
  kGetDone,
  kFetchAdd,  // an atomic of a core on its own device's memory: address, bytes, detail verb
};

/// Of an access, as reports name it.
enum class Verb : std::uint8_t {
  kHost,
  kLoad,
  kArray,
  kConsume,
  kAccept,
  kWrite,
  kCopy,
  kMove,
  kPut,
  kGive,
  kStore,
  kAtomicAdd,
  kGet,
  kWait,
  kDiscard,
  kRow,  // rows that the layer itself encodes, adds up or transforms
  kPutSignal,
  kFetchAdd,
  kPutSignalAdd,
  kGiveSignalAdd,
  kRemoteFetchAdd,
};
/// A put whose last piece is a signal; one that is added.
constexpr bool adds_signal(Verb verb) {
  return verb == Verb::kPutSignalAdd || verb == Verb::kGiveSignalAdd;
}
constexpr bool has_signal(Verb verb) { return verb == Verb::kPutSignal || adds_signal(verb); }
constexpr bool gives(Verb verb) { return verb == Verb::kGive || verb == Verb::kGiveSignalAdd; }
const char* to_string(Verb verb);

struct CheckRecord {
  emu::Time at = 0;
  fabric::Address address = 0;
  std::uint64_t other = 0;
  std::uint64_t bytes = 0;
  std::uint32_t peer = 0;  // a rank, or the index of a name
  std::uint16_t core = 0;
  CheckKind kind = CheckKind::kRead;
  std::uint8_t detail = 0;

  static constexpr std::uint8_t kGrows = 1;  // detail of kWait: more also satisfies it
  static constexpr std::uint8_t kProbed =
      2;                                     // and: of the slot only what was probed counts as seen
  static constexpr std::uint8_t kFirst = 1;  // detail of kVisible: of the put's first packet
  static constexpr std::uint8_t kGetReply = 2;  // and: the answer to a get of core `core`
  static constexpr std::uint8_t kStores = 1;    // detail of kQuiet: all but those that NICs send,
  static constexpr std::uint8_t kPosted = 2;    // or those alone; 0: all
};
static_assert(sizeof(CheckRecord) == 40 && std::is_trivially_copyable_v<CheckRecord>);

/// Tells the puts of a source device apart: the channel that orders them, and the place in it; and
/// whether it is a signal or an atomic, which order_kind SIGNALS orders.
inline std::uint64_t put_identity(const fabric::Packet& packet) {
  return (std::uint64_t{packet.tells} << 49) | (std::uint64_t{packet.ordered} << 48) |
         (std::uint64_t{packet.channel} << 32) | packet.sequence;
}
constexpr bool is_ordered(std::uint64_t identity) { return (identity >> 48 & 1) != 0; }
constexpr bool tells(std::uint64_t identity) { return (identity >> 49) != 0; }
constexpr std::uint32_t channel_of(std::uint64_t identity) {
  return static_cast<std::uint32_t>(identity >> 32) & 0xffff;
}

/// The records of one device. Belongs to its logical process.
class CheckLog {
 public:
  /// Beyond `limit` records the log is worthless: it stops growing.
  explicit CheckLog(std::uint64_t limit) : limit_(limit) {}

  void add(const CheckRecord& record) {
    if (records_.size() < limit_) {
      records_.push_back(record);
    } else {
      complete_ = false;
    }
  }
  /// The index of a name, for records that have one. Few names are ever used.
  std::uint32_t name(std::string_view text) {
    const auto it = std::find(names_.begin(), names_.end(), text);
    if (it != names_.end()) return static_cast<std::uint32_t>(it - names_.begin());
    names_.emplace_back(text);
    return static_cast<std::uint32_t>(names_.size() - 1);
  }
  const std::vector<CheckRecord>& records() const { return records_; }
  const std::vector<std::string>& names() const { return names_; }
  bool complete() const { return complete_; }

 private:
  const std::uint64_t limit_;
  bool complete_ = true;
  std::vector<CheckRecord> records_;
  std::vector<std::string> names_;
};

}  // namespace orrery::devices
