// A core of a device, as a device program sees it.
//
//   emu::Task program(Core& core) {
//     co_await core.put(1, window + slot, buffer, bytes);      // asynchronous: returns when issued
//     co_await core.store(1, flag, std::uint32_t{1});          // a small immediate put
//     co_await core.wait_until(flag, word_equals(1), expected);
//     const auto row = core.consume(window, bytes);            // claimed complete, checked against
//     truth
//   }
//
// Between two co_awaits no time passes and no other core of the device runs.
#pragma once

#include <coroutine>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "devices/check_log.h"
#include "devices/costs.h"
#include "devices/timeline.h"
#include "devices/verbs.h"
#include "devices/wait.h"
#include "devices/wait_ready.h"
#include "emu/task.h"
#include "fabric/memory.h"

namespace orrery::devices {

class DeviceProcess;

class Core {
 public:
  Core(DeviceProcess& device, std::uint32_t index) : device_(device), index_(index) {}

  std::uint32_t index() const { return index_; }
  std::uint32_t count() const;  // cores that run this kernel
  std::uint32_t rank() const;   // of the device in the run
  std::uint32_t ranks() const;
  /// Switches on the shortest way to `rank`: 0 for a die of the same package or a direct link, 1
  /// for one tier, 3 for two.
  std::uint32_t switches(std::uint32_t rank) const;
  emu::Time now() const;
  const Costs& costs() const;
  fabric::Memory& memory();
  DeviceProcess& device() { return device_; }
  const DeviceProcess& device() const { return device_; }

  // --- Remote memory. Addresses are offsets in the device's memory; all devices have the same
  // size. ---
  /// Puts [from, from + bytes) to `to` at `rank`. The source is read packet by packet as it leaves:
  /// do not change it before the handle's local completion (wait_local).
  Await<PutOperation> put(std::uint32_t rank, fabric::Address to, fabric::Address from,
                          std::uint32_t bytes) {
    return Await<PutOperation>(*this, rank, Piece{to, from, bytes});
  }
  /// The same for a whole row of a row region that is given up at once: it need not be kept until
  /// the put has left, and the host does not copy it where it need not. Elsewhere a plain put.
  Await<PutOperation> give(std::uint32_t rank, fabric::Address to, fabric::Address from,
                           std::uint32_t bytes) {
    return Await<PutOperation>(*this, rank, Piece{to, from, bytes}, memory().has_rows(from));
  }
  /// A put and a word that tells of it: `value` is at `signal` no sooner than all bytes of this put
  /// are visible, on every fabric. Of earlier puts it tells what a later put would (fence()).
  Await<PutOperation> put_signal(std::uint32_t rank, fabric::Address to, fabric::Address from,
                                 std::uint32_t bytes, fabric::Address signal, std::uint32_t value) {
    return Await<PutOperation>(*this, rank, Piece{to, from, bytes}, signal, value);
  }
  /// The same of several pieces as one put, with a word of 8 bytes. `pieces` lives until co_await
  /// returns.
  Await<PutOperation> put_signal(std::uint32_t rank, std::span<const Piece> pieces,
                                 fabric::Address signal, std::uint64_t value) {
    Await<PutOperation> operation(*this, rank, pieces);
    operation.tell_by(signal, value);
    return operation;
  }
  /// A put and a 64-bit word that counts it: `value` is added to the word at `signal` no sooner
  /// than all bytes of this put are visible, on every fabric and in event order
  /// (NVSHMEM_SIGNAL_ADD). So the word tells how many such puts are complete, whatever order they
  /// come in: it also stands for the count of writes with immediate data that a receiver keeps. Of
  /// any other put it promises nothing. Between NICs device.nic.add_by says who adds, and how.
  /// `give`: as give() does.
  Await<PutOperation> put_signal_add(std::uint32_t rank, const Piece& piece, fabric::Address signal,
                                     std::uint64_t value, bool give = false) {
    return Await<PutOperation>(*this, rank, piece, signal, value,
                               give && memory().has_rows(piece.from));
  }
  /// The same of several pieces as one put. `pieces` lives until co_await returns.
  Await<PutOperation> put_signal_add(std::uint32_t rank, std::span<const Piece> pieces,
                                     fabric::Address signal, std::uint64_t value) {
    return Await<PutOperation>(*this, rank, pieces, signal, value);
  }
  /// A row for a logical destination of `rank` (hub.h): `piece.to` and `word` are the first row and
  /// the first word of a region there, and its hub says where it goes; 1 is added to the word of
  /// its block no sooner than all of it is visible. Or, with other addresses than those of a
  /// region, a put_signal_add that passes the hub. In packets of at most `packet_bytes`. Gives up a
  /// whole row. Machines without a hub, or with a NIC to `rank`, refuse it.
  Await<PutOperation> send(std::uint32_t rank, const Piece& piece, fabric::Address word,
                           std::uint32_t packet_bytes);
  /// Of the rows that this core sent, those that found no room and were acknowledged as such.
  std::uint32_t refused() const { return refused_; }
  /// Several pieces as one put: one issue, one acknowledgement. `pieces` lives until co_await
  /// returns.
  Await<PutOperation> put(std::uint32_t rank, std::span<const Piece> pieces) {
    return Await<PutOperation>(*this, rank, pieces);
  }
  /// A flag or another value of up to 64 bytes, taken at issue.
  template <typename T>
  Await<PutOperation> store(std::uint32_t rank, fabric::Address to, const T& value) {
    static_assert(sizeof(T) <= StoreRequest::kMaxImmediate);
    return Await<PutOperation>(*this, rank, to, std::as_bytes(std::span<const T, 1>(&value, 1)),
                               fabric::PacketKind::kPut);
  }
  /// Adds to the 64-bit word at `to`, when it arrives, in event order.
  Await<PutOperation> atomic_add(std::uint32_t rank, fabric::Address to,
                                 const std::uint64_t& value) {
    return Await<PutOperation>(*this, rank, to,
                               std::as_bytes(std::span<const std::uint64_t, 1>(&value, 1)),
                               fabric::PacketKind::kAtomicAdd);
  }
  /// A word of 4 or 8 bytes that tells `rank` of this core's earlier puts to it, as the signal of a
  /// put_signal() does: no sooner visible than they are, where the fabric orders signals. `fenced`:
  /// behind them on every fabric; a NIC does that by a flag on the request, so that nobody waits;
  /// where it is a store it is a fence() and a store.
  template <typename T>
  Await<PutOperation> signal(std::uint32_t rank, fabric::Address to, const T& value, bool fenced) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    Await<PutOperation> operation(*this, rank, to, std::as_bytes(std::span<const T, 1>(&value, 1)),
                                  fabric::PacketKind::kPut);
    operation.make_signal(fenced);
    return operation;
  }
  /// Reads [from, from + bytes) of `rank` into `to` here; returns when all of it is visible.
  Await<GetOperation> get(std::uint32_t rank, fabric::Address from, fabric::Address to,
                          std::uint32_t bytes) {
    return Await<GetOperation>(*this, rank, from, to, bytes);
  }
  /// Waits until the put's source may be reused.
  Await<LocalOperation> wait_local(const PutHandle& handle) {
    return Await<LocalOperation>(*this, handle);
  }
  /// Whether that is so already; no time passes.
  bool has_left(const PutHandle& handle) const;
  /// Waits until the put is acknowledged: for kernels that use a source again only then.
  Await<CompleteOperation> wait_complete(const PutHandle& handle) {
    return Await<CompleteOperation>(*this, handle);
  }
  /// Earlier puts, stores and atomics of this core are visible before its later ones to the same
  /// peer. Costs its issue where the fabric keeps that order anyway (order_kind WHOLE and an
  /// order_scope other than NONE); elsewhere it waits as quiet() does. With order_scope QUEUE_PAIR
  /// it is about the queue pair in use: what went through others needs a quiet(). It says nothing
  /// of what other cores put: where order_scope is DEVICE_PAIR a barrier() carries their order
  /// over, elsewhere each of them must have been quiet. Of what NICs send, fabric.scale_out_rules
  /// say the same; where a proxy posts, the core asks it to fence, in the ring of the queue in use,
  /// and goes on: whatever it issues there afterwards waits in that ring.
  Await<QuietOperation> fence();
  /// Earlier puts of this core are visible before later ones of any core of this device to the same
  /// peer, once that core knows of the release: an issue cost where the fabric orders all puts
  /// between two devices, a quiet elsewhere.
  Await<QuietOperation> release();
  /// The same for stores alone: what NICs send is left to the order of its queue pairs.
  Await<QuietOperation> release_stores();
  /// All earlier puts of this core are acknowledged, to whichever peer. With ack_at VISIBLE all
  /// their bytes are visible then, to everybody there. With RECEIVED they have arrived and will be:
  /// this core's later puts to that peer come after them, but what another core or device tells the
  /// peer may be seen before them, and so may a get.
  Await<QuietOperation> quiet();
  /// From here on this kernel's puts, stores and atomics of this core go through queue pair `queue`
  /// (modulo device.queue_pairs, between NICs device.nic.queue_pairs) instead of the one of its own
  /// number; cores may share one. For stores without effect unless order_scope is QUEUE_PAIR; of a
  /// NIC it also picks whose room is taken and which thread of a proxy posts.
  void use_queue(std::uint32_t queue) { queue_ = queue; }

  // --- Local memory and cores ---
  Await<WaitOperation> wait_until(const Slots& slots, const Predicate& predicate,
                                  ExpectedWriter expected) {
    return Await<WaitOperation>(*this, slots, predicate, expected);
  }
  /// Goes round `places`, beginning with `first`, until one is ready (wait_ready.h); gives it, by
  /// bit.
  Await<WaitReadyOperation> wait_any(std::span<const Place> places, ReadyTest test, emu::Time read,
                                     const char* wants, ExpectedWriter expected,
                                     std::uint32_t first = 0) {
    return Await<WaitReadyOperation>(*this, WaitReadyOperation::Until::kAny, places, test, read,
                                     wants, expected, first);
  }
  /// The same until all are.
  Await<WaitReadyOperation> wait_all(std::span<const Place> places, ReadyTest test, emu::Time read,
                                     const char* wants, ExpectedWriter expected) {
    return Await<WaitReadyOperation>(*this, WaitReadyOperation::Until::kAll, places, test, read,
                                     wants, expected);
  }
  /// Copies within the device's memory (read and write traffic).
  Await<CopyOperation> copy(fabric::Address to, fabric::Address from, std::uint64_t bytes) {
    return Await<CopyOperation>(*this, to, from, bytes);
  }
  /// Several pieces as one copy: one fixed part, and their bytes one after the other. `pieces`
  /// lives until co_await returns.
  Await<CopyOperation> copy(std::span<const Piece> pieces) {
    return Await<CopyOperation>(*this, pieces);
  }
  /// The same for a whole row of a row region whose source is given up afterwards: costs the time
  /// of a copy of `bytes`, and the host nothing.
  Await<CopyOperation> move(fabric::Address to, fabric::Address from, std::uint64_t bytes) {
    return Await<CopyOperation>(*this, to, from, bytes, true);
  }
  /// Time to move `bytes` between device memory and the core's own, in one direction; the program
  /// moves the bytes itself.
  Await<CopyOperation> stream(std::uint64_t bytes) {
    return Await<CopyOperation>(*this, 0, 0, bytes);
  }
  Await<SpendOperation> compute(emu::Time duration) {
    return Await<SpendOperation>(*this, Category::kCompute,
                                 costs().free_compute ? emu::Time{0} : duration);
  }
  Await<BarrierOperation> barrier();
  /// The kernel ends and a further one of the same operation begins on the same cores: all meet,
  /// then a launch passes.
  Await<BarrierOperation> next_kernel();
  /// The same where the host must read a result before it can launch: all meet, then a host
  /// synchronisation and a launch pass.
  Await<BarrierOperation> host_sync();
  /// Adds to the 32-bit word at `address` of this device's memory, atomically among its cores;
  /// gives what it held before. Cores that use one word at a time do not slow each other down.
  /// Wakes no poll.
  Await<FetchAddOperation> fetch_add(fabric::Address address, std::uint32_t value) {
    return Await<FetchAddOperation>(*this, address, value);
  }

  // --- Reading and writing local memory (no time passes). Programs reach memory through these, so
  // that every access is known for what it is. ---
  /// A value that must be complete and ordered before this core by now: after a wait, a barrier, or
  /// written by this core.
  template <typename T>
  T load(fabric::Address address) {
    note_read(address, sizeof(T), Verb::kLoad);
    return std::as_const(memory()).template load<T>(address);
  }
  /// The same for `count` elements in place; `address` is aligned for T.
  template <typename T>
  std::span<const T> array(fabric::Address address, std::uint64_t count) {
    note_read(address, count * sizeof(T), Verb::kArray);
    return std::as_const(memory()).template array<T>(address, count);
  }
  /// Writes a value; the device's other cores see it at once.
  template <typename T>
  void write(fabric::Address address, const T& value) {
    note_write(address, sizeof(T));
    memory().store(address, value);
  }
  /// The same for bytes as they are.
  void write_bytes(fabric::Address address, std::span<const std::byte> bytes) {
    note_write(address, bytes.size());
    memory().write(address, bytes);
  }
  /// Polls, flags, checksums over bytes in flight: the true mix of old and new. Never an error.
  std::span<const std::byte> probe(fabric::Address address, std::uint64_t bytes);
  /// Bytes that must be complete: remembered, and a torn read if a put into them was under way.
  std::span<const std::byte> consume(fabric::Address address, std::uint64_t bytes);
  /// Claims that a range is complete without reading it.
  void accept(fabric::Address address, std::uint64_t bytes);
  /// The contents are given up: memory returns to the host, a later read is an error.
  void discard(fabric::Address address, std::uint64_t bytes);
  /// For helpers that reach memory themselves: tells --check that this core reads or writes a
  /// range now.
  void note_read(fabric::Address address, std::uint64_t bytes, Verb verb = Verb::kRow) {
    note({.address = address,
          .bytes = bytes,
          .kind = CheckKind::kRead,
          .detail = static_cast<std::uint8_t>(verb)});
  }
  void note_write(fabric::Address address, std::uint64_t bytes, Verb verb = Verb::kWrite) {
    note({.address = address,
          .bytes = bytes,
          .kind = CheckKind::kWrite,
          .detail = static_cast<std::uint8_t>(verb)});
  }
  /// The same for Memory::move_row.
  void note_move(fabric::Address to, fabric::Address from);

  /// Names what the program does from here on, for traces. `name` is a literal. Costs nothing, in
  /// virtual time, and but a look at a pointer on the host when nothing is traced.
  void phase(const char* name);

  // --- For operations and the device ---
  /// Keeps what the core did, if --check wants to know; fills in `at` and `core`.
  void note(CheckRecord record) {
    if (check_ == nullptr) return;
    record.at = now();
    record.core = static_cast<std::uint16_t>(index_);
    check_->add(record);
  }
  bool is_checked() const { return check_ != nullptr; }
  void keep_accesses(CheckLog* log) { check_ = log; }
  Timeline& timeline() { return timeline_; }
  std::uint32_t outstanding() const { return outstanding_; }
  void count_outstanding() { ++outstanding_; }
  /// Puts that go through a NIC and are not acknowledged.
  std::uint32_t posted() const { return posted_; }
  void count_posted() { ++posted_; }
  std::uint32_t queue() const { return queue_; }
  std::uint16_t epoch() const { return epoch_; }
  /// The core has waited for all its acknowledgements.
  void begin_epoch() { ++epoch_; }
  /// What the core issues from here on is visible after all that it issued before: a NIC or a proxy
  /// sees to that.
  void note_fence() {
    begin_epoch();
    note({.kind = CheckKind::kFence});
  }
  std::vector<SlotReads>& slot_reads() { return slot_reads_; }
  /// Of each slot awaited, the packet that satisfied it, or kNoPacket; when causes are kept.
  std::vector<fabric::CausalKey>& slot_writers() { return slot_writers_; }
  static constexpr fabric::CausalKey kNoPacket = ~fabric::CausalKey{0};
  bool suspend(std::coroutine_handle<> program, Operation& operation) {
    program_ = program;
    operation_ = &operation;
    const bool suspended = operation.begin(*this);
    if (!suspended) operation_ = nullptr;
    return suspended;
  }
  /// Asks for advance() at `time`.
  void resume_at(emu::Time time);
  /// Charges [end of the timeline, now + duration] to `category` and asks for advance() then. False
  /// if no time passes.
  bool spend(Category category, emu::Time duration);

  void launch(emu::Task program, emu::Time start);
  void resume();
  void acknowledged(const fabric::Packet& packet, bool posted);
  void has_room() { operation_->on_room(*this); }
  void visible(const fabric::Packet& packet, fabric::Address address, std::uint32_t bytes) {
    operation_->on_visible(*this, packet, address, bytes);
  }
  void replied(const fabric::Packet& packet) { operation_->on_reply(*this, packet); }
  void prefetch(int step) const {
    if (step == 0) {
      emu::prefetch_bytes(this, sizeof(Core));
    } else {
      constexpr std::size_t kFrameBytes = 512;  // of the coroutine: its operation and its locals
      emu::prefetch_bytes(program_.address(), kFrameBytes);
      emu::prefetch_bytes(operation_, 64);
      if (!timeline_.segments.empty()) emu::prefetch_bytes(&timeline_.segments.back(), 64);
    }
  }
  bool running() const { return static_cast<bool>(root_); }
  /// One line for the hang report; empty if the core waits for nothing.
  std::string waiting() const;
  Timeline take_timeline() { return std::move(timeline_); }
  const std::vector<Phase>& phases() const { return phases_; }

 private:
  void claim(fabric::Address address, std::uint64_t bytes, Verb verb);

  DeviceProcess& device_;
  std::uint32_t index_;
  std::uint32_t outstanding_ = 0;  // puts that are not acknowledged: stores,
  std::uint32_t posted_ = 0;       // and those that a NIC sends
  std::uint32_t queue_ = 0;
  std::uint32_t refused_ = 0;
  std::uint16_t epoch_ = 0;
  emu::Task root_;
  std::coroutine_handle<> program_;
  Operation* operation_ = nullptr;
  Timeline timeline_;
  CheckLog* check_ = nullptr;
  std::vector<Phase> phases_;  // only when traced
  std::vector<SlotReads> slot_reads_;
  std::vector<fabric::CausalKey> slot_writers_;
};

template <typename Op>
bool Await<Op>::await_suspend(std::coroutine_handle<> program) {
  return core_.suspend(program, *this);
}

}  // namespace orrery::devices
