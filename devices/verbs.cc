#include "devices/verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

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
  if (handle_.locally_complete == emu::kNever) return true;  // until it is acknowledged
  core.timeline().append(Category::kSourceWait, handle_.locally_complete);
  core.resume_at(handle_.locally_complete);
  return true;
}

void LocalOperation::on_acknowledge(Core& core, const fabric::Packet& packet) {
  if (handle_.locally_complete != emu::kNever || resumed_) return;
  if (!core.device().port().has_left(handle_)) return;
  resumed_ = true;  // further acknowledgements may come at this very time
  core.timeline().append(Category::kSourceWait, core.now(), cause_of(packet, core.now()));
  core.resume_at(core.now());
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

bool PutOperation::must_wait(const Core& core) const {
  const DeviceProcess& device = core.device();
  if (posted_) return !device.has_room(rank_, core.queue());
  if (drains(core) && core.outstanding() > 0) return true;
  const std::uint32_t limit = core.costs().outstanding_stores;
  return limit > 0 && core.outstanding() >= limit;
}

// A fence before it, which takes waiting.
bool PutOperation::drains(const Core& core) const {
  return fenced_ && !posted_ && !core.device().rules(false).orders_all();
}

bool PutOperation::begin(Core& core) {
  posted_ = core.device().posts_to(rank_);
  if (fenced_ && !posted_ && !drains(core) && core.costs().fence > 0) {
    fencing_ = true;
    log_spent(core, Cost::kFence, core.costs().fence);
    return core.spend(Category::kIssue, core.costs().fence);
  }
  if (!must_wait(core)) return start(core);
  if (posted_) core.device().wait_for_room(core.index(), rank_, core.queue());
  return true;
}

bool PutOperation::advance(Core& core) {
  if (!fencing_) return true;
  fencing_ = false;
  return !must_wait(core) && !start(core);
}

bool PutOperation::start(Core& core) {
  started_ = true;
  if (!core.device().loses_put()) return posted_ ? post(core) : store(core);
  return core.spend(Category::kIssue, posted_ ? core.costs().nic->post : core.costs().issue);
}

namespace {

// The pieces of a put with its signal behind them; no heap for those of one piece.
class PiecesAndSignal {
 public:
  std::span<const Piece> of(std::span<const Piece> data, const Piece& signal) {
    if (data.size() == 1) return two_ = {data[0], signal};
    several_.assign(data.begin(), data.end());
    several_.push_back(signal);
    return several_;
  }

 private:
  std::array<Piece, 2> two_{};
  std::vector<Piece> several_;
};

}  // namespace

StoreRequest PutOperation::request_of(Core& core) const {
  StoreRequest request;
  request.destination = core.device().node_of(rank_);
  request.destination_rank = rank_;
  request.core = core.index();
  request.kind = kind_;
  request.queue = core.queue();
  request.epoch = core.epoch();
  request.give = give_;
  const bool adds = kind_ == fabric::PacketKind::kAtomicAdd;
  request.tells = tells_ || adds;
  request.by_proxy = request.tells && posted_ && core.costs().nic->by_peer(adds);
  request.issued = core.now();
  request.logical = logical_packet_bytes_ > 0;
  request.packet_bytes = logical_packet_bytes_;
  return request;
}

bool PutOperation::store(Core& core) {
  DeviceProcess& device = core.device();
  const Costs& costs = core.costs();
  const emu::Time takes = costs.issue;
  if (drains(core)) {
    core.begin_epoch();
    core.note({.kind = CheckKind::kQuiet,
               .detail = device.has_nic() ? CheckRecord::kStores : std::uint8_t{0}});
    device.log(core.index(), {.kind = fabric::CausalKind::kQuiet});
  }
  core.count_outstanding();
  StoreRequest request = request_of(core);
  PiecesAndSignal both;
  request.pieces = signal_ ? both.of(data(), signal_piece_) : data();
  request.signal = signal_;
  request.signal_adds = adds_;
  request.immediate = {immediate_.data(), immediate_bytes_};
  handle_ = device.port().submit(request, core.now() + takes);
  note_put(core, request.pieces, handle_, verb());
  device.count_put(rank_, bytes_of(request.pieces), kind_, immediate_bytes_ > 0 && !signal_,
                   logical_packet_bytes_);
  return core.spend(Category::kIssue, takes);
}

// A put and its signal are two requests; but what a proxy of the peer adds travels as immediate
// data of the put.
bool PutOperation::post(Core& core) {
  DeviceProcess& device = core.device();
  const NicCosts& costs = *core.costs().nic;
  const emu::Time at = core.now() + costs.post;
  if (fenced_) core.note_fence();
  const bool immediate = adds_ && costs.add_by_peer;
  const bool apart = signal_ && !immediate;
  StoreRequest request = request_of(core);
  PiecesAndSignal both;
  request.pieces = immediate ? both.of(data(), signal_piece_) : data();
  if (immediate) {
    request.signal = true;
    request.signal_adds = true;
    request.by_proxy = true;
  }
  if (!apart) request.immediate = {immediate_.data(), immediate_bytes_};
  core.count_posted();
  handle_ = device.post(request, fenced_, at);
  note_put(core, request.pieces, handle_, !apart ? verb() : give_ ? Verb::kGive : Verb::kPut);
  std::uint64_t bytes = bytes_of(request.pieces);
  if (apart) {
    const bool flag = costs.put_signal == Nic::FENCE_FLAG;
    if (costs.put_signal == Nic::FENCE) device.fence_by_proxy(core.queue(), rank_, at);
    if (costs.put_signal != Nic::QUEUE_PAIR) core.note_fence();
    StoreRequest signal = request_of(core);
    signal.pieces = {&signal_piece_, 1};
    signal.immediate = {immediate_.data(), immediate_bytes_};
    signal.give = false;
    signal.tells = true;
    signal.by_proxy = costs.by_peer(adds_);
    if (adds_) signal.kind = fabric::PacketKind::kAtomicAdd;
    core.count_posted();
    const PutHandle handle = device.post(signal, flag, at);
    note_put(core, signal.pieces, handle, adds_ ? Verb::kAtomicAdd : Verb::kStore);
    bytes += bytes_of(signal.pieces);
  }
  device.count_put(rank_, bytes, kind_, immediate_bytes_ > 0 && !signal_);
  return core.spend(Category::kIssue, costs.post);
}

std::uint64_t PutOperation::bytes_of(std::span<const Piece> pieces) {
  std::uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

Verb PutOperation::verb() const {
  if (kind_ == fabric::PacketKind::kAtomicAdd) return Verb::kAtomicAdd;
  if (adds_) return give_ ? Verb::kGiveSignalAdd : Verb::kPutSignalAdd;
  if (immediate_bytes_ > 0) return signal_ ? Verb::kPutSignal : Verb::kStore;
  return give_ ? Verb::kGive : Verb::kPut;
}

void PutOperation::note_put(Core& core, std::span<const Piece> pieces, const PutHandle& handle,
                            Verb verb) const {
  if (!core.is_checked()) return;
  core.note({.address = handle.serial,
             .other = put_identity(core.device().port().head(handle)),
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
  if (started_ || posted_ || fencing_ || must_wait(core)) return;
  core.timeline().append(drains(core) ? Category::kFenceStall : Category::kStoreWindow, core.now(),
                         cause_of(packet, core.now()));
  if (!start(core)) core.resume_at(core.now());
}

void PutOperation::on_room(Core& core) {
  core.timeline().append(Category::kStoreWindow, core.now());
  if (!start(core)) core.resume_at(core.now());
}

std::string PutOperation::describe(const Core& core) const {
  if (posted_) return fmt::format("waits for room in a queue pair to device {}", rank_);
  return fmt::format("waits to issue a put to device {}: {} stores are outstanding", rank_,
                     core.outstanding());
}

bool QuietOperation::is_over(const Core& core) const {
  return (!stores_ || core.outstanding() == 0) && (!posted_ || core.posted() == 0);
}

// What no acknowledgement is waited for costs: the fence of an ordered network, the request to the
// proxy. True if that takes time.
bool QuietOperation::ask_proxy(Core& core) {
  const Costs& costs = core.costs();
  emu::Time takes = stores_ ? 0 : costs.fence;
  if (proxy_) {
    takes += costs.nic->post;
    core.device().fence_by_proxy(core.queue(), Proxy::kEveryRank, core.now() + costs.nic->post);
    core.note_fence();
  }
  if (!proxy_) log_spent(core, Cost::kFence, takes);
  return core.spend(Category::kIssue, takes);
}

void QuietOperation::end(Core& core) {
  over_ = true;
  core.begin_epoch();
  std::uint8_t of = 0;
  if (core.device().has_nic() && !posted_) of = CheckRecord::kStores;
  if (core.device().has_nic() && !stores_) of = CheckRecord::kPosted;
  core.note({.kind = CheckKind::kQuiet, .detail = of});
  core.device().log(core.index(), {.kind = fabric::CausalKind::kQuiet});
}

bool QuietOperation::begin(Core& core) {
  if (!stores_ && !posted_) return ask_proxy(core);
  if (!is_over(core)) return true;
  end(core);
  return proxy_ && ask_proxy(core);
}

void QuietOperation::on_acknowledge(Core& core, const fabric::Packet& packet) {
  if (over_ || (!stores_ && !posted_) || !is_over(core)) return;
  end(core);
  core.timeline().append(Category::kFenceStall, core.now(), cause_of(packet, core.now()));
  emu::Time learns = 0;
  if (posted_ && core.device().has_nic()) {
    learns = core.costs().nic->proxied ? core.costs().nic->doorbell : core.costs().nic->completion;
  }
  if (learns > 0) core.timeline().append(Category::kFenceStall, core.now() + learns);
  if (proxy_ && ask_proxy(core)) return;
  core.resume_at(core.now() + learns);
}

std::string QuietOperation::describe(const Core& core) const {
  return fmt::format("waits for {} acknowledgements",
                     (stores_ ? core.outstanding() : 0) + (posted_ ? core.posted() : 0));
}

bool GetOperation::begin(Core& core) {
  if (bytes_ == 0) throw emu::InvariantError("a get of no bytes");
  issued_ = core.now();
  core.device().count_get(rank_, bytes_);
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
