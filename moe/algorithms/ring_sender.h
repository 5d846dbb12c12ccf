// The sending role of ring queues: rows of several lists, each into a queue of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "moe/algorithms/roles.h"

namespace orrery::moe {

class RingSender final : public Role {
 public:
  struct Stream {
    SendRing ring;
    std::vector<fabric::Address> rows;
    std::uint32_t next = 0;
  };
  /// Puts of this core are visible before what it tells the same peers later.
  using Order = std::function<emu::Task(devices::Core&)>;
  /// How senders of real libraries came to a standstill.
  enum class Fault : std::uint8_t {
    kNone,
    kInOrder,  // one list after the other
    kSpin,     // waits for room in a queue, and all of its core with it
  };

  RingSender(std::vector<Stream> streams, std::uint32_t row_bytes, Order order, Fault fault)
      : streams_(std::move(streams)),
        row_bytes_(row_bytes),
        order_(std::move(order)),
        fault_(fault) {}

  bool is_done() const override { return done_; }
  /// Puts a chunk of every list whose queue has room for one, orders them, tells the receivers.
  emu::Task step(devices::Core& core, bool& progress) override;
  void add_watches(std::vector<Watch>& watches) const override;

 private:
  emu::Task put(devices::Core& core, Stream& stream, std::uint32_t rows);
  emu::Task finish(devices::Core& core);

  std::vector<Stream> streams_;
  std::uint32_t row_bytes_;
  Order order_;
  Fault fault_;
  std::vector<devices::PutHandle> handles_;
  bool done_ = false;
};

}  // namespace orrery::moe
