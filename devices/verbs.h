// The verbs of a device program that take virtual time, apart from waiting for slots (wait.h).
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <string>

#include "devices/check_log.h"
#include "devices/operation.h"
#include "devices/store_port.h"
#include "devices/timeline.h"

namespace orrery::devices {

/// Spends time on something that nobody else influences.
class SpendOperation : public Operation {
 public:
  SpendOperation(Category category, emu::Time duration)
      : category_(category), duration_(duration) {}
  bool begin(Core& core) override;
  std::string describe(const Core&) const override { return "spending time"; }
  void result() const {}

 private:
  Category category_;
  emu::Time duration_;
};

/// Waits until the port has read all of a put's source.
class LocalOperation : public Operation {
 public:
  explicit LocalOperation(const PutHandle& handle) : handle_(handle) {}
  bool begin(Core& core) override;
  bool advance(Core& core) override;
  void on_acknowledge(Core& core, const fabric::Packet& packet) override;
  std::string describe(const Core&) const override { return "waits for a put to leave"; }
  void result() const {}

 private:
  void log(Core& core) const;

  PutHandle handle_;
  bool resumed_ = false;
};

/// Waits until one put is acknowledged.
class CompleteOperation : public Operation {
 public:
  explicit CompleteOperation(const PutHandle& handle) : handle_(handle) {}
  bool begin(Core& core) override;
  void on_acknowledge(Core& core, const fabric::Packet& packet) override;
  std::string describe(const Core&) const override { return "waits for a put's acknowledgement"; }
  void result() const {}

 private:
  bool is_over(Core& core) const;

  PutHandle handle_;
  bool resumed_ = false;
};

/// Issues a put, a flag store or an atomic: waits for room in the window of outstanding stores,
/// pays the issue cost, hands over to the store port. Where a NIC sends it: waits for room in the
/// queue pair if the core itself posts, pays for posting, hands over to the NIC or to its proxy.
class PutOperation : public Operation {
 public:
  PutOperation(std::uint32_t rank, const Piece& piece, bool give = false)
      : rank_(rank), give_(give), piece_(piece) {}
  PutOperation(std::uint32_t rank, std::span<const Piece> pieces) : rank_(rank), pieces_(pieces) {}
  /// Immediate data of at most StoreRequest::kMaxImmediate bytes.
  PutOperation(std::uint32_t rank, fabric::Address to, std::span<const std::byte> data,
               fabric::PacketKind kind)
      : rank_(rank),
        kind_(kind),
        immediate_bytes_(static_cast<std::uint32_t>(data.size())),
        piece_{to, 0, static_cast<std::uint32_t>(data.size())} {
    std::memcpy(immediate_.data(), data.data(), data.size());
  }
  /// A put with a signal.
  PutOperation(std::uint32_t rank, const Piece& piece, fabric::Address signal, std::uint32_t value)
      : rank_(rank),
        immediate_bytes_(sizeof(value)),
        signal_(true),
        piece_(piece),
        signal_piece_{signal, 0, sizeof(value)} {
    std::memcpy(immediate_.data(), &value, sizeof(value));
  }
  /// Its own signal, of 8 bytes.
  void tell_by(fabric::Address signal, std::uint64_t value) {
    signal_ = true;
    immediate_bytes_ = sizeof(value);
    signal_piece_ = {signal, 0, sizeof(value)};
    std::memcpy(immediate_.data(), &value, sizeof(value));
  }
  /// A put with a signal that is added to a word.
  PutOperation(std::uint32_t rank, const Piece& piece, fabric::Address signal, std::uint64_t value,
               bool give)
      : rank_(rank), give_(give), piece_(piece) {
    add_signal(signal, value);
  }
  PutOperation(std::uint32_t rank, std::span<const Piece> pieces, fabric::Address signal,
               std::uint64_t value)
      : rank_(rank), pieces_(pieces) {
    add_signal(signal, value);
  }
  /// A signal of earlier puts.
  void make_signal(bool fenced) {
    tells_ = true;
    fenced_ = fenced;
  }
  /// To a logical destination, in packets of at most so many bytes.
  void make_logical(std::uint32_t packet_bytes) { logical_packet_bytes_ = packet_bytes; }
  bool begin(Core& core) override;
  bool advance(Core& core) override;
  void on_acknowledge(Core& core, const fabric::Packet& packet) override;
  void on_room(Core& core) override;
  std::string describe(const Core& core) const override;
  PutHandle result() const { return handle_; }

 private:
  bool must_wait(const Core& core) const;
  bool drains(const Core& core) const;
  bool start(Core& core);
  bool store(Core& core);
  bool post(Core& core);
  void add_signal(fabric::Address signal, std::uint64_t value) {
    tell_by(signal, value);
    adds_ = true;
  }
  StoreRequest request_of(Core& core) const;
  std::span<const Piece> data() const {
    return pieces_.empty() ? std::span<const Piece>(&piece_, 1) : pieces_;
  }
  static std::uint64_t bytes_of(std::span<const Piece> pieces);
  void note_put(Core& core, std::span<const Piece> pieces, const PutHandle& handle,
                Verb verb) const;
  Verb verb() const;

  std::uint32_t rank_;
  fabric::PacketKind kind_ = fabric::PacketKind::kPut;
  std::uint32_t immediate_bytes_ = 0;
  bool started_ = false;
  bool give_ = false;
  bool signal_ = false;
  bool adds_ = false;  // the signal
  bool tells_ = false;
  bool fenced_ = false;
  bool posted_ = false;                     // by a NIC
  bool fencing_ = false;                    // pays for a fence
  std::uint32_t logical_packet_bytes_ = 0;  // 0: to an address
  Piece piece_{};
  Piece signal_piece_{};
  std::span<const Piece> pieces_;  // empty: the one piece_
  PutHandle handle_;
  std::array<std::byte, StoreRequest::kMaxImmediate> immediate_;
};

/// Waits until all earlier puts of this core are acknowledged (quiet), or only its stores, or only
/// what NICs send; without either only pays the cost of a fence that the fabric's order makes
/// enough. With `proxy` the core also asks its proxy to fence, which costs it no more than that.
class QuietOperation : public Operation {
 public:
  QuietOperation(bool stores, bool posted, bool proxy = false)
      : stores_(stores), posted_(posted), proxy_(proxy) {}
  bool begin(Core& core) override;
  void on_acknowledge(Core& core, const fabric::Packet& packet) override;
  std::string describe(const Core& core) const override;
  void result() const {}

 private:
  bool is_over(const Core& core) const;
  bool ask_proxy(Core& core);
  void end(Core& core);

  bool stores_;
  bool posted_;
  bool proxy_;
  bool over_ = false;
};

/// Reads remote memory into local memory and waits for all of it.
class GetOperation : public Operation {
 public:
  GetOperation(std::uint32_t rank, fabric::Address from, fabric::Address to, std::uint32_t bytes)
      : rank_(rank), from_(from), to_(to), bytes_(bytes) {}
  bool begin(Core& core) override;
  bool advance(Core& core) override;
  void on_reply(Core& core, const fabric::Packet& packet) override;
  std::string describe(const Core& core) const override;
  void result() const {}

 private:
  std::uint32_t rank_;
  fabric::Address from_;
  fabric::Address to_;
  std::uint32_t bytes_;
  emu::Time issued_ = 0;
  enum class Step { kIssuing, kWaiting, kDone } step_ = Step::kIssuing;
};

/// Copies within the device's memory chunk by chunk, or moves a row (its source is given up at the
/// end), or streams between memory and the core (to == from: no bytes move, one direction of
/// traffic).
class CopyOperation : public Operation {
 public:
  CopyOperation(fabric::Address to, fabric::Address from, std::uint64_t bytes, bool move = false)
      : to_(to), from_(from), bytes_(bytes), move_(move) {}
  explicit CopyOperation(std::span<const Piece> pieces) : pieces_(pieces) {
    for (const Piece& piece : pieces) bytes_ += piece.bytes;
  }
  bool begin(Core& core) override;
  bool advance(Core& core) override;
  std::string describe(const Core&) const override { return "copying"; }
  void result() const {}

 private:
  void next_chunk(Core& core, emu::Time start);
  void copy_pieces(Core& core);

  fabric::Address to_ = 0;
  fabric::Address from_ = 0;
  std::uint64_t bytes_ = 0;
  bool move_ = false;
  std::span<const Piece> pieces_;  // empty: the one from from_ to to_
  std::size_t piece_ = 0;          // the next of them, and its bytes that are copied
  std::uint32_t offset_ = 0;
  std::uint64_t done_ = 0;
  std::uint32_t chunk_ = 0;
};

/// Where all cores of a kernel meet, and what passes until they go on.
enum class Meeting : std::uint8_t {
  kBarrier,     // the core barrier
  kNextKernel,  // the kernel ends and a further one of the operation is launched
  kHostSync,    // the same, and the host waits for the first and reads its result in between
};

/// Meets all other cores of the kernel.
class BarrierOperation : public Operation {
 public:
  explicit BarrierOperation(Meeting meeting) : meeting_(meeting) {}
  bool begin(Core& core) override;
  std::string describe(const Core& core) const override;
  void result() const {}

 private:
  Meeting meeting_;
};

/// Adds to a 32-bit word of the device's own memory.
class FetchAddOperation : public Operation {
 public:
  FetchAddOperation(fabric::Address address, std::uint32_t value)
      : address_(address), value_(value) {}
  bool begin(Core& core) override;
  bool advance(Core& core) override;
  std::string describe(const Core&) const override { return "in an atomic on local memory"; }
  std::uint32_t result() const { return before_; }

 private:
  fabric::Address address_;
  std::uint32_t value_;
  std::uint32_t before_ = 0;
};

}  // namespace orrery::devices
