// All puts of a run, and who knows of which that its bytes are visible: the part of the
// happens-before checker that knows the fabric's order rules.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "devices/shadow_memory.h"
#include "devices/vector_clock.h"
#include "fabric/packet.h"

namespace orrery::devices {

/// A put, an atomic, or a get (whose answer is a put into the asking device's memory).
struct Put {
  struct Piece {
    fabric::Address to;
    std::uint64_t bytes;
  };
  struct Look {
    fabric::Address piece;  // where it begins
    std::uint64_t block;
    Moment moment;
  };
  Access access;             // its issue
  Knowledge issue;           // and what happened before
  std::uint32_t target = 0;  // rank whose memory it writes
  std::uint32_t stream = 0;
  std::uint32_t number = 0;  // in the stream
  bool is_get = false;
  bool in_order = false;         // its channel keeps it behind all earlier puts
  bool first_alone = false;      // and says so of its first packet alone
  bool has_signal = false;       // its last piece, visible after all others
  std::uint32_t drained = 0;     // the core's step at which all puts before were acknowledged
  Moment left;                   // when a core knew that its source was read; epoch 0: never
  std::vector<Moment> complete;  // when cores knew from the put itself that all of it was visible
  std::vector<Piece> pieces;
  std::uint64_t bytes = 0;
  std::uint64_t noted_bytes = 0;  // of the pieces
  std::uint64_t visible_bytes = 0;
  fabric::Address first_begin = 0;  // what its first packet wrote
  fabric::Address first_end = 0;
  std::vector<Look> looks;
};

class PutOrders {
 public:
  struct Rules {
    std::uint32_t cores = 0;  // of all devices
    std::uint32_t block_bytes = 64;
    bool first_fragment = false;
    bool posted_first_fragment = false;  // of what NICs send: to other domains
    bool acknowledged_visible = true;
    bool posted_acknowledged_visible = true;  // of what NICs send: to other domains
    bool signals_alone = false;         // a channel keeps only signals and atomics behind others
    bool posted_signals_alone = false;  // of what NICs send
    std::vector<std::uint32_t> domains = {};  // by device; empty: one
  };
  explicit PutOrders(const Rules& rules)
      : rules_(rules), block_bytes_(rules.block_bytes), of_core_(rules.cores) {}

  Put& operator[](std::uint32_t index) { return puts_[index]; }
  const Put& operator[](std::uint32_t index) const { return puts_[index]; }

  /// Keeps a put of device `source` that is issued now, of `identity` there (check_log.h). Returns
  /// its index.
  std::uint32_t issued(Put put, std::uint32_t source, std::uint64_t identity, std::uint64_t serial);
  /// The same of a get, which has no place in any order.
  std::uint32_t asked(Put put);
  /// A hub gives that put its place: so far on from what it named, its data and its last piece.
  void placed(std::uint32_t source, std::uint32_t target, std::uint64_t identity,
              std::uint64_t data_on, std::uint64_t word_on);
  /// The put that `identity` of `source` to `target` names, some of whose bytes are visible now;
  /// they are [begin, end).
  std::uint32_t became_visible(std::uint32_t source, std::uint32_t target, std::uint64_t identity,
                               bool first, fabric::Address begin, fabric::Address end);

  /// The core knows that a put of device `source` has left, and so all earlier ones of its core.
  void left(std::uint32_t source, std::uint64_t serial, const Knowledge& knower);
  /// Puts of a core of `device` are acknowledged: all, or those that `which` (CheckRecord::kStores,
  /// kPosted) says.
  void acknowledged(const Knowledge& knower, std::uint32_t device, std::uint8_t which);
  /// Later puts of the core become visible after all that it has issued. Of a NIC's flag and a
  /// proxy's fence that is too much: they are about one queue pair, or one thread, and a core that
  /// goes on through another has no such promise. That is not seen here.
  void fenced(const Knowledge& knower) {
    of_core_[knower.moment().core].drained = knower.moment().epoch;
  }
  /// One put of device `source` is, which says the same of no other.
  void acknowledged(std::uint32_t source, std::uint64_t serial, const Knowledge& knower);
  /// The core looks at visible bytes [begin, end) of the put.
  void look(Put& put, fabric::Address begin, fabric::Address end, const Knowledge& knower);
  /// The core saw [begin, end) of the put and relies on it: it learns what happened before, and
  /// which other puts are visible.
  void acquire(Put& put, fabric::Address begin, fabric::Address end, Knowledge& core);

  /// The same for those blocks of [begin, end) that it looked at.
  void acquire_seen(Put& put, fabric::Address begin, fabric::Address end, Knowledge& core);

  /// Whether all bytes of the put are visible, as far as order and acknowledgements tell.
  bool is_visible(const Put& put, const Knowledge& knower) const;
  /// Whether those of [begin, end) are, looks included.
  bool is_proven(const Put& put, fabric::Address begin, fabric::Address end,
                 const Knowledge& knower) const;
  /// Whether [begin, end) of `put` becomes visible after all of `earlier` by the channel's order,
  /// or since the core waited for acknowledgements in between.
  bool is_ordered(const Put& earlier, const Put& put, fabric::Address begin,
                  fabric::Address end) const;

 private:
  static constexpr std::uint32_t kNoStream = ~std::uint32_t{0};
  // The puts of one core through one channel to one device, in the order of their issue; and which
  // cores knew when that so many of them are visible.
  struct Stream {
    struct Learned {
      std::uint32_t core;
      std::vector<std::pair<std::uint32_t, std::uint32_t>> known;  // epoch, number of puts
    };
    std::uint32_t core = 0;
    std::uint32_t target = 0;
    std::uint32_t channel = 0;  // index in channels_, or kNoStream where nothing is ordered
    std::vector<std::uint32_t> epochs;
    std::vector<Learned> learned;
  };
  using Channel = std::vector<std::uint32_t>;  // streams

  static void learn(Stream& stream, const Knowledge& knower, std::uint32_t number);
  bool is_seen(const Put& put, fabric::Address piece, std::uint64_t block,
               const Knowledge& knower) const;
  // Calls each(piece, block) for the blocks that [begin, end) touches, until it returns false.
  template <typename Each>
  bool all_blocks(const Put& put, fabric::Address begin, fabric::Address end, Each&& each) const;

  struct OfCore {
    std::uint32_t drained = 0;  // the step of its latest quiet
    std::vector<std::uint32_t> puts;
    std::size_t left = 0;  // so many of them are known to have left
    std::vector<std::uint32_t> streams;
  };

  bool is_posted(std::uint32_t source, std::uint32_t target) const {
    return !rules_.domains.empty() && rules_.domains[source] != rules_.domains[target];
  }
  bool says_visible(std::uint32_t source, std::uint32_t target) const {
    return is_posted(source, target) ? rules_.posted_acknowledged_visible
                                     : rules_.acknowledged_visible;
  }

  bool signals_alone(std::uint32_t source, std::uint32_t target) const {
    return is_posted(source, target) ? rules_.posted_signals_alone : rules_.signals_alone;
  }

  const Rules rules_;
  const std::uint32_t block_bytes_;
  std::vector<Put> puts_;
  std::vector<OfCore> of_core_;
  std::vector<Stream> streams_;
  std::vector<Channel> channels_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> stream_numbers_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> channel_numbers_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>, std::uint32_t> in_flight_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> of_serial_;
};

}  // namespace orrery::devices
