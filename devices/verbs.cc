#include "devices/verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "devices/core.h"
#include "devices/cost.h"
#include "devices/device_process.h"
#include "emu/errors.h"

namespace orrery::devices {

namespace {
Cause cause_of(const fabric::Packet& packet, emu::Time time) { return {packet.journey, 0, time}; }

void log_spent(Core& core, Cost cost, emu::Time duration) {
  if (duration == 0) return;
  core.device().log(core.index(), {.amount = static_cast<std::uint64_t>(duration),
                                   .kind = fabric::CausalKind::kSpend,
                                   .detail = static_cast<std::uint8_t>(cost)});
}
}  // namespace

bool SpendOperation::begin(Core& core) {
  log_spent(core, Cost::kCompute, duration_);
  return core.spend(category_, duration_);
}

void LocalOperation::log(Core& core) const {
  if (handle_.serial == 0) return;
  core.note({.other = handle_.serial, .kind = CheckKind::kLeft});
  const auto serial = static_cast<std::uint32_t>(handle_.serial);
  core.device().log(core.index(), {.key = fabric::causal_key(core.device().node(), serial),
                                   .kind = fabric::CausalKind::kSourceWait});
}

bool LocalOperation::begin(Core& core) {
  if (core.device().port().has_left(handle_)) {
    log(core);
    return false;
  }
  core.timeline().append(Category::kSourceWait, handle_.locally_complete);
  core.resume_at(handle_.locally_complete);
  return true;
}

bool LocalOperation::advance(Core& core) {
  if (core.device().port().has_left(handle_)) {
    log(core);
    return true;
  }
  core.resume_at(core.now());  // behind the packet's own event at this very time
  return false;
}

bool CompleteOperation::is_over(Core& core) const {
  if (!core.device().port().is_acknowledged(handle_)) return false;
  if (handle_.serial == 0) return true;
  core.note({.other = handle_.serial, .kind = CheckKind::kQuiet});
  const auto serial = static_cast<std::uint32_t>(handle_.serial);
  core.device().log(core.index(), {.key = fabric::causal_key(core.device().node(), serial),
                                   .kind = fabric::CausalKind::kAckWait});
  return true;
}

bool CompleteOperation::begin(Core& core) { return !is_over(core); }

void CompleteOperation::on_acknowledge(Core& core, const fabric::Packet& packet) {
  if (resumed_ || !is_over(core)) return;
  resumed_ = true;  // further acknowledgements may come at this very time
  core.timeline().append(Category::kSourceWait, core.now(), cause_of(packet, core.now()));
  core.resume_at(core.now());
}

bool PutOperation::begin(Core& core) {
  const std::uint32_t limit = core.costs().outstanding_stores;
  if (limit > 0 && core.outstanding() >= limit) return true;
  return start(core);
}

bool PutOperation::start(Core& core) {
  started_ = true;
  DeviceProcess& device = core.device();
  if (device.loses_put()) return core.spend(Category::kIssue, core.costs().issue);
  core.count_outstanding();
  StoreRequest request;
  request.destination = device.node_of(rank_);
  request.destination_rank = rank_;
  request.core = core.index();
  request.kind = kind_;
  const std::array<Piece, 2> with_signal = {piece_, signal_piece_};
  request.pieces =
      pieces_.empty() ? std::span<const Piece>(with_signal.data(), signal_ ? 2 : 1) : pieces_;
  request.signal = signal_;
  request.queue = core.queue();
  request.epoch = core.epoch();
  request.immediate = {immediate_.data(), immediate_bytes_};
  request.give = give_;
  request.issued = core.now();
  handle_ = device.port().submit(request, core.now() + core.costs().issue);
  note_put(core, request.pieces);
  device.count_put(rank_, bytes_of(request.pieces), kind_, immediate_bytes_ > 0 && !signal_);
  return core.spend(Category::kIssue, core.costs().issue);
}

std::uint64_t PutOperation::bytes_of(std::span<const Piece> pieces) {
  std::uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

void PutOperation::note_put(Core& core, std::span<const Piece> pieces) const {
  if (!core.is_checked()) return;
  Verb verb = give_ ? Verb::kGive : Verb::kPut;
  if (immediate_bytes_ > 0) verb = signal_ ? Verb::kPutSignal : Verb::kStore;
  if (kind_ == fabric::PacketKind::kAtomicAdd) verb = Verb::kAtomicAdd;
  core.note({.address = handle_.serial,
             .other = put_identity(core.device().port().head(handle_)),
             .bytes = bytes_of(pieces),
             .peer = rank_,
             .kind = CheckKind::kPut,
             .detail = static_cast<std::uint8_t>(verb)});
  for (const Piece& piece : pieces) {
    core.note({.address = piece.to,
               .other = piece.from,
               .bytes = piece.bytes,
               .kind = CheckKind::kPiece});
  }
}

void PutOperation::on_acknowledge(Core& core, const fabric::Packet& packet) {
  if (started_) return;
  core.timeline().append(Category::kStoreWindow, core.now(), cause_of(packet, core.now()));
  if (!start(core)) core.resume_at(core.now());
}

std::string PutOperation::describe(const Core& core) const {
  return fmt::format("waits to issue a put to device {}: {} stores are outstanding", rank_,
                     core.outstanding());
}

bool QuietOperation::begin(Core& core) {
  if (!drain_) {
    log_spent(core, Cost::kFence, core.costs().fence);
    return core.spend(Category::kIssue, core.costs().fence);
  }
  if (core.outstanding() > 0) return true;
  core.begin_epoch();
  core.note({.kind = CheckKind::kQuiet});
  core.device().log(core.index(), {.kind = fabric::CausalKind::kQuiet});
  return false;
}

void QuietOperation::on_acknowledge(Core& core, const fabric::Packet& packet) {
  if (!drain_ || core.outstanding() > 0) return;
  core.begin_epoch();
  core.note({.kind = CheckKind::kQuiet});
  core.device().log(core.index(), {.kind = fabric::CausalKind::kQuiet});
  core.timeline().append(Category::kFenceStall, core.now(), cause_of(packet, core.now()));
  core.resume_at(core.now());
}

std::string QuietOperation::describe(const Core& core) const {
  return fmt::format("waits for {} acknowledgements", core.outstanding());
}

bool GetOperation::begin(Core& core) {
  if (bytes_ == 0) throw emu::InvariantError("a get of no bytes");
  issued_ = core.now();
  core.device().count_get(bytes_);
  core.timeline().append(Category::kIssue, core.now() + core.costs().issue);
  core.resume_at(core.now() + core.costs().issue);
  return true;
}

bool GetOperation::advance(Core& core) {
  if (step_ == Step::kIssuing) {
    step_ = Step::kWaiting;
    DeviceProcess& device = core.device();
    core.note({.address = from_,
               .other = to_,
               .bytes = bytes_,
               .peer = rank_,
               .kind = CheckKind::kGet,
               .detail = static_cast<std::uint8_t>(Verb::kGet)});
    device.port().request(device.node_of(rank_), core.index(), from_, to_, bytes_, issued_,
                          core.now());
    return false;
  }
  return step_ == Step::kDone;
}

void GetOperation::on_reply(Core& core, const fabric::Packet& packet) {
  step_ = Step::kDone;
  core.note({.kind = CheckKind::kGetDone});
  core.device().log(core.index(), {.key = fabric::causal_key(packet.source, packet.number),
                                   .kind = fabric::CausalKind::kGetDone});
  core.timeline().append(Category::kRemoteRead, core.now(), cause_of(packet, core.now()));
  core.device().trace_wait_end(core.index(), core.device().origin_of(packet), core.now());
  core.resume_at(core.now());
}

std::string GetOperation::describe(const Core&) const {
  return fmt::format("waits for {} bytes from address {:#x} of device {}", bytes_, from_, rank_);
}

bool CopyOperation::begin(Core& core) {
  if (bytes_ == 0) return false;
  next_chunk(core, core.now() + core.costs().copy);
  return true;
}

void CopyOperation::next_chunk(Core& core, emu::Time start) {
  const Costs& costs = core.costs();
  chunk_ =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes_ - done_, costs.copy_chunk_bytes));
  const bool stream = pieces_.empty() && to_ == from_;
  const std::uint64_t traffic = stream ? chunk_ : std::uint64_t{2} * chunk_;
  core.device().log(core.index(), {.amount = traffic,
                                   .other = chunk_,
                                   .kind = fabric::CausalKind::kCopy,
                                   .detail = static_cast<std::uint8_t>(done_ == 0)});
  const emu::Time shared = core.device().take_hbm(start, traffic);
  const emu::Time end = std::max(shared, start + costs.core_copy.serialisation(chunk_));
  core.timeline().append(Category::kLocalCopy, end);
  core.resume_at(end);
}

bool CopyOperation::advance(Core& core) {
  if (!pieces_.empty()) {
    copy_pieces(core);
  } else if (move_) {
    core.note_read(from_ + done_, chunk_, Verb::kMove);
    if (done_ + chunk_ == bytes_) {
      core.note_move(to_, from_);
      core.memory().move_row(to_, from_);
    }
  } else if (to_ != from_) {
    core.note_read(from_ + done_, chunk_, Verb::kCopy);
    core.note_write(to_ + done_, chunk_, Verb::kCopy);
    core.memory().copy(to_ + done_, from_ + done_, chunk_);
    core.device().read_log().written(to_ + done_, chunk_);
  }
  done_ += chunk_;
  if (done_ == bytes_) return true;
  next_chunk(core, core.now());
  return false;
}

// The chunk that has just ended, wherever it cuts the pieces.
void CopyOperation::copy_pieces(Core& core) {
  for (std::uint32_t left = chunk_; left > 0;) {
    const Piece& piece = pieces_[piece_];
    const std::uint32_t bytes = std::min(left, piece.bytes - offset_);
    core.note_read(piece.from + offset_, bytes, Verb::kCopy);
    core.note_write(piece.to + offset_, bytes, Verb::kCopy);
    core.memory().copy(piece.to + offset_, piece.from + offset_, bytes);
    core.device().read_log().written(piece.to + offset_, bytes);
    left -= bytes;
    offset_ += bytes;
    if (offset_ == piece.bytes) {
      ++piece_;
      offset_ = 0;
    }
  }
}

bool BarrierOperation::begin(Core& core) {
  core.note({.kind = CheckKind::kArrive});
  core.device().arrive_at_barrier(core.index(), meeting_);
  return true;
}

std::string BarrierOperation::describe(const Core& core) const {
  const auto& arrived = const_cast<Core&>(core).device().at_barrier();
  return fmt::format("waits {} with {} of {} cores",
                     meeting_ == Meeting::kBarrier ? "in the core barrier" : "for the next kernel",
                     arrived.size(), core.count());
}

bool FetchAddOperation::begin(Core& core) {
  const emu::Time takes = core.costs().local_atomic;
  if (takes == 0) {
    advance(core);
    return false;
  }
  log_spent(core, Cost::kLocalAtomic, takes);
  return core.spend(Category::kLocalAtomic, takes);
}

bool FetchAddOperation::advance(Core& core) {
  core.note({.address = address_,
             .bytes = sizeof(std::uint32_t),
             .kind = CheckKind::kFetchAdd,
             .detail = static_cast<std::uint8_t>(Verb::kFetchAdd)});
  before_ = std::as_const(core.memory()).load<std::uint32_t>(address_);
  core.memory().store(address_, before_ + value_);
  return true;
}

}  // namespace orrery::devices
