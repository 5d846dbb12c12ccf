#include "devices/core.h"

#include <algorithm>

#include "devices/device_process.h"
#include "emu/errors.h"

namespace orrery::devices {

std::uint32_t Core::count() const { return device_.kernel_cores(); }
std::uint32_t Core::rank() const { return device_.rank(); }
std::uint32_t Core::ranks() const { return device_.ranks(); }
std::uint32_t Core::switches(std::uint32_t rank) const {
  const int count = device_.network().routing().switches(device_.node(), device_.node_of(rank));
  return static_cast<std::uint32_t>(std::max(count, 0));
}
emu::Time Core::now() const { return device_.shard().now(); }
const Costs& Core::costs() const { return device_.costs(); }
fabric::Memory& Core::memory() { return device_.memory(); }

bool Core::has_left(const PutHandle& handle) const {
  const bool left = device_.port().has_left(handle);
  if (left && check_ != nullptr && handle.serial != 0) {
    check_->add({.at = now(),
                 .other = handle.serial,
                 .core = static_cast<std::uint16_t>(index_),
                 .kind = CheckKind::kLeft});
  }
  return left;
}

Await<QuietOperation> Core::fence() {
  const bool stores = !device_.rules(false).orders_all();
  const bool posts = device_.has_nic() && !costs().nic->proxied;
  const bool posted = posts && !device_.rules(true).orders_all();
  ++device_.counters().fences;
  if (stores || posted) ++device_.counters().drains;
  return Await<QuietOperation>(*this, stores, posted, device_.has_nic() && costs().nic->proxied);
}

Await<QuietOperation> Core::quiet() {
  ++device_.counters().drains;
  return Await<QuietOperation>(*this, true, true);
}

namespace {
bool orders_device(const fabric::PathRules& rules) {
  return rules.orders_all() && rules.order_scope == fabric::Fabric::DEVICE_PAIR;
}
}  // namespace

Await<QuietOperation> Core::release() {
  const bool stores = !orders_device(device_.rules(false));
  const bool posted = device_.has_nic() && !orders_device(device_.rules(true));
  ++device_.counters().fences;
  if (stores || posted) ++device_.counters().drains;
  return Await<QuietOperation>(*this, stores, posted);
}

Await<QuietOperation> Core::release_stores() {
  const bool stores = !orders_device(device_.rules(false));
  ++device_.counters().fences;
  if (stores) ++device_.counters().drains;
  return Await<QuietOperation>(*this, stores, false);
}

Await<BarrierOperation> Core::barrier() {
  return Await<BarrierOperation>(*this, Meeting::kBarrier);
}
Await<BarrierOperation> Core::next_kernel() {
  return Await<BarrierOperation>(*this, Meeting::kNextKernel);
}
Await<BarrierOperation> Core::host_sync() {
  return Await<BarrierOperation>(*this, Meeting::kHostSync);
}

std::span<const std::byte> Core::probe(fabric::Address address, std::uint64_t bytes) {
  note({.address = address, .bytes = bytes, .kind = CheckKind::kProbe});
  return std::as_const(memory()).view(address, bytes);
}

void Core::accept(fabric::Address address, std::uint64_t bytes) {
  claim(address, bytes, Verb::kAccept);
}

void Core::claim(fabric::Address address, std::uint64_t bytes, Verb verb) {
  const bool in_row = memory().has_rows(address);
  const bool discarded =
      in_row ? memory().is_discarded_row(address) : device_.read_log().is_discarded(address, bytes);
  if (discarded) {
    throw emu::InvariantError("device " + std::to_string(rank()) + " core " +
                              std::to_string(index_) + " reads discarded memory at address " +
                              std::to_string(address));
  }
  if (in_row) {
    device_.read_log().claim_in_row(memory().row_begin(address), address, bytes, index_, now());
  } else {
    device_.read_log().claim(address, bytes, index_, now());
  }
  note({.address = address,
        .bytes = bytes,
        .kind = CheckKind::kAccept,
        .detail = static_cast<std::uint8_t>(verb)});
}

std::span<const std::byte> Core::consume(fabric::Address address, std::uint64_t bytes) {
  claim(address, bytes, Verb::kConsume);
  note_read(address, bytes, Verb::kConsume);
  return std::as_const(memory()).view(address, bytes);
}

void Core::discard(fabric::Address address, std::uint64_t bytes) {
  note({.address = address,
        .bytes = bytes,
        .kind = CheckKind::kDiscard,
        .detail = static_cast<std::uint8_t>(Verb::kDiscard)});
  if (!memory().has_rows(address)) device_.read_log().discard(address, bytes);
  memory().discard(address, bytes);
}

void Core::note_move(fabric::Address to, fabric::Address from) {
  if (check_ == nullptr) return;
  note({.address = memory().row_begin(to),
        .other = memory().row_begin(from),
        .bytes = memory().row_bytes(from),
        .kind = CheckKind::kMove,
        .detail = static_cast<std::uint8_t>(Verb::kMove)});
}

Await<PutOperation> Core::send(std::uint32_t rank, const Piece& piece, fabric::Address word,
                               std::uint32_t packet_bytes) {
  if (device_.hub() == nullptr || device_.posts_to(rank)) {
    throw emu::InvariantError("a row for a logical destination that no hub knows");
  }
  const std::uint64_t one = 1;
  Await<PutOperation> operation(*this, rank, piece, word, one, memory().has_rows(piece.from));
  operation.make_logical(packet_bytes);
  return operation;
}

void Core::phase(const char* name) {
  if (check_ != nullptr) note({.peer = check_->name(name), .kind = CheckKind::kPhase});
  if (device_.shard().trace() != nullptr) phases_.push_back({now(), name});
}

void Core::resume_at(emu::Time time) {
  device_.shard()
      .schedule(device_.node(), device_.node(), time, DeviceProcess::kResumeKind)
      .as<std::uint32_t>() = index_;
}

bool Core::spend(Category category, emu::Time duration) {
  if (duration == 0) return false;
  const emu::Time end = now() + duration;
  timeline_.append(category, end);
  resume_at(end);
  return true;
}

void Core::launch(emu::Task program, emu::Time start) {
  root_ = std::move(program);
  timeline_ = Timeline{};
  phases_.clear();
  timeline_.start = start;
  timeline_.append(Category::kLaunch, start + costs().launch);
  operation_ = nullptr;
  queue_ = index_;
  resume_at(start + costs().launch);
}

void Core::resume() {
  if (operation_ != nullptr) {
    if (!operation_->advance(*this)) return;
    operation_ = nullptr;
    program_.resume();
  } else {
    root_.start();
  }
  if (!root_.done()) return;
  root_.rethrow_if_failed();
  root_ = emu::Task();
  device_.core_finished(index_);
}

void Core::acknowledged(const fabric::Packet& packet, bool posted) {
  --(posted ? posted_ : outstanding_);
  if (packet.refused) ++refused_;
  if (operation_ != nullptr) operation_->on_acknowledge(*this, packet);
}

std::string Core::waiting() const {
  if (!running()) return {};
  return operation_ == nullptr ? "about to start" : operation_->describe(*this);
}

}  // namespace orrery::devices
