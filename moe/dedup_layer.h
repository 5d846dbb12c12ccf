// A MoE layer whose tokens travel once to every device that has any of their experts, whatever
// number of them: a message is a row and all that its token's experts need to know. Each device
// hands it to its experts ("expansion") and, on the way back, may add their outputs up before it
// sends one row.
//
//   class Mine final : public DedupLayer {
//     Mine(const Problem& problem, const Options&) : DedupLayer(problem, Precision::kBf16) {
//       received_ = message_rows(…);  taken_ = layout_.flat(… * taken_bytes());
//       reduce_in(ReductionOrder::by_device(problem.placement));
//     }
//     dispatch: write_token(…), put to each of owners(…); there expand(…)
//     combine:  sum_taken(…), put; at the origin add_rows(…)
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "moe/moe_layer.h"

namespace orrery::moe {

class DedupLayer : public MoeLayer {
 public:
  /// MoeLayer's, and messages: those of the device's tokens as they leave, those for it, and as
  /// many rows on their way back.
  std::uint64_t touched_bytes(std::uint32_t device) const override;

 protected:
  DedupLayer(const Problem& problem, Precision precision)
      : MoeLayer(problem, precision, RowOrder::kAsTheyCome) {}

  // --- Messages: a payload, then these ---
  struct Header {
    std::uint32_t source;
    std::uint32_t token;
    float scale;
    std::uint32_t choices;  // top-k
  };
  struct Choice {
    std::int32_t expert;  // -1: masked
    float weight;
  };
  static_assert(sizeof(Header) == 16 && sizeof(Choice) == 8);

  std::uint32_t message_bytes() const {
    return static_cast<std::uint32_t>(align_up(payload_bytes(), 16) + sizeof(Header) +
                                      problem_.top_k() * sizeof(Choice));
  }
  /// Distance of messages, and of rows that take their places: an output fits as well.
  std::uint64_t message_stride() const {
    return align_up(std::max<std::uint64_t>(message_bytes(), output_row_bytes()), 512);
  }
  /// Of the messages that pass through a device in one direction, sent by one of each of `groups`.
  std::uint64_t passing_bytes(std::uint32_t device, std::uint32_t groups) const;
  /// A region of `count` rows of message_stride(). For constructors.
  fabric::Address message_rows(std::uint64_t count);
  /// The message of a token of this device, written to `to`. Takes no time.
  void write_token(devices::Core& core, std::uint32_t token, fabric::Address to) const;
  Header header_of(devices::Core& core, fabric::Address message) const {
    return core.load<Header>(header(message));
  }
  std::span<const Choice> choices_of(devices::Core& core, fabric::Address message) const {
    return core.array<Choice>(header(message) + sizeof(Header), problem_.top_k());
  }
  /// The time of a token's cast to the dispatched format, its row already with the core.
  emu::Time cast_time() const;

  // --- Where tokens go ---
  /// The devices that own any of these experts, each once, ascending; -1 is nobody's.
  std::vector<std::uint32_t> owners(std::span<const std::int32_t> ids) const;
  std::vector<std::uint32_t> owners(std::span<const Choice> choices) const;

  // --- At a token's experts ---
  /// Bytes of what expand() notes of a message.
  std::uint64_t taken_bytes() const { return sizeof(Taken) + problem_.top_k() * sizeof(TakenRow); }
  /// The complete message at `from` is given to each of this device's experts that it names and
  /// given up. What became of it is noted at `taken`. Experts' counts (expert_rows()) must be zero
  /// before the first.
  emu::Task expand(devices::Core& core, fabric::Address from, fabric::Address taken);
  /// The same at once, in no time, by one core of the device alone: for kernels whose experts read
  /// messages where they lie.
  void hand_over(devices::Core& core, fabric::Address from, fabric::Address taken);
  struct Taken {
    std::uint32_t source;
    std::uint32_t token;
    std::uint32_t rows;
    std::uint32_t unused;
  };
  struct TakenRow {
    std::uint64_t row;  // of the experts' outputs
    float weight;
    std::uint32_t k;
  };
  Taken taken_at(devices::Core& core, fabric::Address taken) const {
    return core.load<Taken>(taken);
  }
  /// Its rows, k ascending.
  std::span<const TakenRow> taken_rows(devices::Core& core, fabric::Address taken) const {
    return core.array<TakenRow>(taken + sizeof(Taken), taken_at(core, taken).rows);
  }
  /// Adds the outputs for a message up, weighted, k ascending, and writes their sum to `to`, a row
  /// of at least output_row_bytes(). With the time to read and add; that to write is up to whoever
  /// sends it. The outputs are given up.
  emu::Task sum_taken(devices::Core& core, fabric::Address taken, fabric::Address to);

  /// The same in no time: for kernels whose experts add their outputs up before they write them.
  void add_taken(devices::Core& core, fabric::Address taken, fabric::Address to);

  /// Reads complete rows, adds them in this order, writes the sum to `to`; with the time to read
  /// and add. The rows, `stride` bytes apart in their region, are given up.
  emu::Task add_rows(devices::Core& core, fabric::Address to, std::vector<WeightedRow> rows,
                     std::uint64_t stride);

 private:
  // The rows of the message at `from` for this device's experts, places not yet known, and the
  // words that count their experts' rows.
  std::vector<TakenRow> rows_here(devices::Core& core, fabric::Address from,
                                  std::vector<fabric::Address>& counters) const;
  // Writes them, each at the place before which `before` of its expert lie, and what is noted of
  // them.
  void write_rows(devices::Core& core, fabric::Address from, fabric::Address taken,
                  std::span<TakenRow> rows, std::span<const std::uint32_t> before) const;
  std::vector<WeightedRow> outputs_of(devices::Core& core, fabric::Address taken) const;

  fabric::Address header(fabric::Address message) const {
    return message + align_up(payload_bytes(), 16);
  }
};

}  // namespace orrery::moe
