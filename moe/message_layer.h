// A MoE layer whose dispatched rows travel as messages, payload first and 16 bytes of header behind
// it, and whose combined rows are summed at their origin.
#pragma once

#include <cstdint>
#include <vector>

#include "moe/moe_layer.h"

namespace orrery::moe {

class MessageLayer : public MoeLayer {
 public:
  /// MoeLayer's, and one row for each of the device's entries: what is on its way there or back.
  std::uint64_t touched_bytes(std::uint32_t device) const override;

 protected:
  using MoeLayer::MoeLayer;

  struct Header {
    RowTag tag;
    float scale;
  };
  static_assert(sizeof(Header) == 16);

  std::uint32_t message_bytes() const {
    return static_cast<std::uint32_t>(align_up(payload_bytes(), 16) + sizeof(Header));
  }
  /// Writes the message of a token's k-th choice to the row at `to`: from the input, or from
  /// another message of the token at `other` whose scale is known. Returns the scale. Takes no
  /// time.
  float write_message(devices::Core& core, std::uint32_t token, std::uint32_t k,
                      fabric::Address to) const;
  void write_message(devices::Core& core, std::uint32_t token, std::uint32_t k, fabric::Address to,
                     fabric::Address other, float scale) const;
  /// A message that stands for no row, as long as any other; and whether the complete message at
  /// `from` is one. Take no time.
  void write_padding(devices::Core& core, fabric::Address to) const;
  bool is_padding(devices::Core& core, fabric::Address from) const;
  /// The time of a token's cast to the dispatched format, its row already with the core.
  emu::Time cast_time() const;

  /// Takes the message at `from`, which must be complete, as row `row` of the experts: moves it and
  /// keeps its tag and scale.
  emu::Task take_message(devices::Core& core, fabric::Address from, std::uint64_t row);

  /// Reads complete rows of a token, all of them at once, adds them in this order, writes the
  /// token's combined row; with the time that takes. The rows are given up.
  emu::Task add_rows(devices::Core& core, std::uint32_t token, std::vector<WeightedRow> rows);

 private:
  fabric::Address header(fabric::Address row) const { return row + align_up(payload_bytes(), 16); }
};

}  // namespace orrery::moe
