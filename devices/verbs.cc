#include "devices/verbs.h"

#include <fmt/format.h>

#include <algorithm>

#include "devices/core.h"
#include "devices/cost.h"
#include "devices/device_process.h"

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

bool PutOperation::begin(Core& core) {
  const std::uint32_t limit = core.costs().outstanding_stores;
  if (limit > 0 && core.outstanding() >= limit) return true;
  return start(core);
}

bool PutOperation::start(Core& core) {
  started_ = true;
  core.count_outstanding();
  DeviceProcess& device = core.device();
  StoreRequest request;
  request.destination = device.node_of(rank_);
  request.destination_rank = rank_;
  request.core = core.index();
  request.kind = kind_;
  request.pieces = pieces_.empty() ? std::span<const Piece>(&piece_, 1) : pieces_;
  request.immediate = {immediate_.data(), immediate_bytes_};
  request.give = give_;
  request.issued = core.now();
  handle_ = device.port().submit(request, core.now() + core.costs().issue);
  std::uint64_t bytes = 0;
  for (const Piece& piece : request.pieces) bytes += piece.bytes;
  device.count_put(rank_, bytes, kind_, immediate_bytes_ > 0);
  return core.spend(Category::kIssue, core.costs().issue);
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
  core.device().log(core.index(), {.kind = fabric::CausalKind::kQuiet});
  return false;
}

void QuietOperation::on_acknowledge(Core& core, const fabric::Packet& packet) {
  if (!drain_ || core.outstanding() > 0) return;
  core.device().log(core.index(), {.kind = fabric::CausalKind::kQuiet});
  core.timeline().append(Category::kFenceStall, core.now(), cause_of(packet, core.now()));
  core.resume_at(core.now());
}

std::string QuietOperation::describe(const Core& core) const {
  return fmt::format("waits for {} acknowledgements", core.outstanding());
}

bool GetOperation::begin(Core& core) {
  issued_ = core.now();
  ++core.device().counters().gets;
  core.timeline().append(Category::kIssue, core.now() + core.costs().issue);
  core.resume_at(core.now() + core.costs().issue);
  return true;
}

bool GetOperation::advance(Core& core) {
  if (step_ == Step::kIssuing) {
    step_ = Step::kWaiting;
    DeviceProcess& device = core.device();
    device.port().request(device.node_of(rank_), core.index(), from_, to_, bytes_, issued_,
                          core.now());
    return false;
  }
  return step_ == Step::kDone;
}

void GetOperation::on_reply(Core& core, const fabric::Packet& packet) {
  step_ = Step::kDone;
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
  const std::uint64_t traffic = to_ == from_ ? chunk_ : std::uint64_t{2} * chunk_;
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
  if (move_) {
    if (done_ + chunk_ == bytes_) core.memory().move_row(to_, from_);
  } else if (to_ != from_) {
    core.memory().copy(to_ + done_, from_ + done_, chunk_);
    core.device().read_log().written(to_ + done_, chunk_);
  }
  done_ += chunk_;
  if (done_ == bytes_) return true;
  next_chunk(core, core.now());
  return false;
}

bool BarrierOperation::begin(Core& core) {
  core.device().arrive_at_barrier(core.index());
  return true;
}

std::string BarrierOperation::describe(const Core& core) const {
  const auto& arrived = const_cast<Core&>(core).device().at_barrier();
  return fmt::format("waits in the core barrier with {} of {} cores", arrived.size(), core.count());
}

}  // namespace orrery::devices
