// The FIFOs that rows travel through in TensorRT-LLM's two-sided all-to-all: one for every (peer,
// channel), in the memory of its receiver. An entry has room for several rows, each a record that
// says itself that it is there (ll128.h); a sender goes on to the next entry when the receiver has
// taken so many that it is free.
//
// Read in NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/fusedMoeCommKernels.{h,cu}: a block sends
// to or receives from up to 8 peers, a warp each, through its channel, whose rows are every n-th of
// those for the peer; half of the SMs take part; entries of 256 KiB, four of them. Assumed: the
// warps of a block work in step, so that a round of theirs has the fixed costs of one; a receiver
// adds to the count of what it has taken (the source stores it, which here could be overtaken).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/core.h"
#include "emu/task.h"
#include "moe/algorithms/ll128.h"
#include "moe/layout.h"

namespace orrery::moe {

class TrtllmFifos {
 public:
  struct Sizes {
    std::uint32_t devices;
    std::uint32_t cores;        // of a device
    std::uint32_t channels;     // 0: as many as half of the cores have room for
    std::uint32_t entries;      // of a FIFO
    std::uint32_t entry_bytes;  // room for one row at least, however long
  };
  /// What goes wrong on purpose.
  enum class Fault : std::uint8_t { kNone, kIgnoreCredits, kLastLine, kDropRow, kDropCredit };

  /// What is sent and received. Rows to and from a peer are numbered; all are of the wire's size.
  class Rows {
   public:
    virtual ~Rows() = default;
    virtual std::uint32_t to(devices::Core& core, std::uint32_t peer) const = 0;
    virtual std::uint32_t from(devices::Core& core, std::uint32_t peer) const = 0;
    /// Where a row to send is, or has just been written; `buffer` is free for it.
    virtual fabric::Address outgoing(devices::Core& core, std::uint32_t peer, std::uint32_t row,
                                     fabric::Address buffer) = 0;
    /// Where a received row is to be written.
    virtual fabric::Address incoming(devices::Core& core, std::uint32_t peer,
                                     std::uint32_t row) const = 0;
  };

  /// Rows are `row_stride` apart in their regions; of each `row_carried` exists, with `control`.
  /// `name` is a literal for the hang report. Throws ConfigError for more than 64 warps a core.
  TrtllmFifos(Layout& layout, const Sizes& sizes, Ll128 wire, bool control, Fault fault,
              std::uint64_t row_stride, std::vector<fabric::Carried::Range> row_carried,
              const char* name);

  /// Before the first call.
  void set_up(fabric::Memory& memory) const;
  std::uint32_t channels() const { return channels_; }
  /// Cores that have anything to do.
  std::uint32_t workers() const;
  const Ll128& wire() const { return wire_; }
  std::uint64_t record_stride() const { return stride_; }

  /// Of all cores: sends and receives all rows. A row sent is given up where it was, `stride`
  /// bytes.
  emu::Task run(devices::Core& core, Rows& rows, std::uint64_t stride) const;

 private:
  static constexpr std::uint32_t kWarps = 8;  // of a block

  struct Lane {
    bool sends;
    std::uint32_t peer;
    std::uint32_t channel;
    std::uint32_t rows;   // of this lane
    std::uint64_t entry;  // of its first row, counted over all calls
    std::uint32_t next = 0;
    std::uint32_t number = 0;  // among the core's
    // Of the rows packed in odd and in even turns; of what gave back the latest entry.
    devices::PutHandle leaving[2] = {};
  };

  std::uint32_t groups() const { return (sizes_.devices + kWarps - 1) / kWarps; }
  std::uint32_t blocks() const { return 2 * groups() * channels_; }
  std::uint32_t lanes_per_core() const;
  std::vector<Lane> lanes(devices::Core& core, const Rows& rows) const;
  std::uint64_t entry_of(const Lane& lane) const { return lane.entry + lane.next / per_entry_; }
  std::uint32_t row_of(const Lane& lane) const { return lane.next * channels_ + lane.channel; }
  fabric::Address record_of(const Lane& lane, std::uint32_t from) const {
    return slot(from, lane.channel, entry_of(lane), lane.next % per_entry_);
  }
  bool is_ready(devices::Core& core, const Lane& lane) const;
  emu::Task await_any(devices::Core& core, const std::vector<Lane*>& lanes) const;
  emu::Task send(devices::Core& core, Rows& rows, std::uint64_t stride,
                 const std::vector<Lane*>& lanes) const;
  emu::Task wait_free(devices::Core& core, const Lane& lane) const;
  emu::Task receive(devices::Core& core, Rows& rows, const std::vector<Lane*>& lanes) const;
  emu::Task give_back(devices::Core& core, Lane& lane) const;
  std::string writer(const Lane& lane) const;

  // --- Device memory ---
  /// Records from device `from`, at their receiver.
  fabric::Address slot(std::uint32_t from, std::uint32_t channel, std::uint64_t entry,
                       std::uint32_t row) const {
    const std::uint64_t fifo = std::uint64_t{from} * channels_ + channel;
    return fifos_ + ((fifo * sizes_.entries + entry % sizes_.entries) * per_entry_ + row) * stride_;
  }
  /// Of the FIFO to a peer: entries begun here, entries that the peer has taken; of the one from
  /// it: entries taken. 8 bytes each.
  enum Word : std::uint32_t { kHead, kTaken, kTail, kWords };
  fabric::Address word(Word which, std::uint32_t peer, std::uint32_t channel) const {
    return words_ + ((std::uint64_t{peer} * channels_ + channel) * kWords + which) * 8;
  }
  fabric::Address packed(std::uint32_t core, const Lane& lane) const {
    return packed_ + (2ull * (core * lanes_per_core() + lane.number) + lane.next % 2) * stride_;
  }
  fabric::Address buffer(std::uint32_t core, const Lane& lane) const {
    return buffers_ + (std::uint64_t{core} * lanes_per_core() + lane.number) * row_stride_;
  }

  Sizes sizes_;
  Ll128 wire_;
  Fault fault_;
  const char* name_;
  std::uint32_t channels_;
  std::uint32_t per_entry_;
  std::uint64_t stride_;
  std::uint64_t row_stride_;
  fabric::Address fifos_;
  fabric::Address words_;
  fabric::Address packed_;
  fabric::Address buffers_;
};

}  // namespace orrery::moe
