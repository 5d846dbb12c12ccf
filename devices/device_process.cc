#include "devices/device_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "devices/kernel_spans.h"
#include "emu/errors.h"

namespace orrery::devices {

DeviceProcess::DeviceProcess(emu::Engine& engine, fabric::Network& network, const Costs& costs,
                             const std::vector<fabric::NodeId>& ports, std::uint32_t rank,
                             const std::vector<fabric::Region>& regions,
                             const fabric::Adversary& adversary)
    : shard_(engine.shard_of(ports[rank])),
      network_(network),
      costs_(costs),
      ports_(ports),
      rank_(rank),
      node_(ports[rank]),
      memory_(regions, &shard_.buffers()),
      visibility_(engine, network.fabric(), memory_, *this, node_, network.topology().devices,
                  StorePort::channels(network, costs), adversary),
      port_(engine, network, memory_, costs, node_, static_cast<std::uint32_t>(ports.size())) {
  const auto ranks = static_cast<std::uint32_t>(ports.size());
  if (costs.nic && !network.topology().scale_up_domain.empty()) {
    nic_ = std::make_unique<NetworkInterface>(engine, port_, costs, node_, ranks);
    if (costs.nic->proxied) {
      proxy_ = std::make_unique<Proxy>(engine, *nic_, static_cast<Proxy::Sink&>(*this), counters_,
                                       costs, node_, ranks);
    }
  }
  if (costs.hub) hub_ = std::make_unique<DestinationHub>(*costs.hub, counters_);
  cores_.reserve(costs.cores);
  for (std::uint32_t core = 0; core < costs.cores; ++core) cores_.emplace_back(*this, core);
}

void DeviceProcess::handle(const emu::Event& event) {
  switch (event.kind) {
    case kResumeKind:
      cores_[event.as<std::uint32_t>()].resume();
      break;
    case StorePort::kInjectKind:
      port_.inject(event.as<std::uint32_t>(), event.time);
      break;
    case fabric::kHeadArrival:  // on its way to another device
      network_.forward(node_, event.time, event.as<fabric::Packet>());
      break;
    case fabric::kDelivery: {
      const auto& packet = event.as<fabric::Packet>();
      const bool adds = packet.kind == fabric::PacketKind::kFetchAdd;
      if (adds || packet.kind == fabric::PacketKind::kGetRequest) {
        serve(packet, adds, event.time);
      } else if (packet.kind == fabric::PacketKind::kAck) {
        acknowledged(packet);
      } else {
        deliver(packet, event.time);
      }
      break;
    }
    case kAtomicKind:
    case kHubKind:
      visibility_.deliver(event.as<fabric::Packet>());
      break;
    case kAcknowledgeKind:
      send_acknowledgement(event.as<fabric::Packet>());
      break;
    case NetworkInterface::kReadyKind:
      nic_->ready(event.as<std::uint32_t>(), event.time);
      break;
    case Proxy::kDoneKind:
      proxy_->done(event.as<std::uint32_t>(), event.time);
      break;
    case fabric::kBlockVisible:
      visibility_.block_due(event.as<fabric::Packet>());
      break;
    case fabric::kAcknowledgement:
      acknowledged(event.as<fabric::Packet>());
      break;
    case kStreamKind:
      event.as<std::coroutine_handle<>>().resume();
      stream_.rethrow_if_failed();
      break;
    default:
      throw emu::InvariantError("a device got an event of an unknown kind");
  }
}

void DeviceProcess::prefetch(const emu::Event& event, int step) const {
  switch (event.kind) {
    case kResumeKind:
      cores_[event.as<std::uint32_t>()].prefetch(step);
      break;
    case StorePort::kInjectKind:
      port_.prefetch(event.as<std::uint32_t>(), step);
      break;
    case fabric::kAcknowledgement: {
      const auto& packet = event.as<fabric::Packet>();
      port_.prefetch(packet.put, 0);
      cores_[packet.core].prefetch(step);
      break;
    }
    case fabric::kDelivery:
      visibility_.prefetch(event.as<fabric::Packet>(), step);
      break;
    default:
      break;
  }
}

// --- Kernels ---

void DeviceProcess::start_stream(emu::Task stream, emu::Time start) {
  stream_ = std::move(stream);
  shard_.schedule(node_, node_, start, kStreamKind).as<std::coroutine_handle<>>() =
      stream_.handle();
}

void DeviceProcess::wake_stream(std::coroutine_handle<> stream, emu::Time delay) {
  shard_.schedule(node_, node_, shard_.now() + delay, kStreamKind).as<std::coroutine_handle<>>() =
      stream;
}

void DeviceProcess::launch(const KernelCall& call, std::coroutine_handle<> stream) {
  kernel_ = KernelRecord{};
  kernel_.name = call.name;
  kernel_.operation = call.operation;
  kernel_.iteration = call.iteration;
  kernel_.start = shard_.now();
  finished_cores_ = 0;
  stream_handle_ = stream;
  kernel_cores_ = call.cores;
  program_ = call.program;
  log(kernel_cores_,
      {.amount = call.iteration, .other = call.operation, .kind = fabric::CausalKind::kKernel});
  if (check_log_ != nullptr) {
    check_log_->add({.at = shard_.now(),
                     .other = call.iteration,
                     .bytes = call.cores,
                     .peer = check_log_->name(call.name),
                     .kind = CheckKind::kKernel});
  }
  for (std::uint32_t core = 0; core < kernel_cores_; ++core) {
    cores_[core].launch(program_(cores_[core]), kernel_.start);
  }
}

void DeviceProcess::core_finished(std::uint32_t core) {
  kernel_.last_core = core;
  log(core, {.kind = fabric::CausalKind::kEnd});
  cores_[core].note({.kind = CheckKind::kEnd});
  if (++finished_cores_ < kernel_cores_) return;
  kernel_.end = shard_.now();
  for (std::uint32_t each = 0; each < kernel_cores_; ++each) {
    kernel_.timelines.push_back(cores_[each].take_timeline());
    kernel_.timelines.back().append(Category::kIdle, kernel_.end);
  }
  if (shard_.trace() != nullptr) trace_kernel(*shard_.trace(), kernel_.end);
  records_.push_back(std::move(kernel_));
  wake_stream(stream_handle_, 0);
}

void DeviceProcess::trace_kernel(emu::TraceSink& trace, emu::Time end) const {
  std::vector<emu::TraceSpan> spans;
  for (std::uint32_t core = 0; core < kernel_.timelines.size(); ++core) {
    append_spans(kernel_.name, kernel_.iteration, end, core, kernel_.timelines[core],
                 cores_[core].phases(), spans);
  }
  trace.on_spans(node_, spans);
}

void DeviceProcess::trace_unfinished(emu::Time now) {
  if (shard_.trace() == nullptr ||
      std::none_of(cores_.begin(), cores_.end(), [](const Core& core) { return core.running(); })) {
    return;
  }
  for (std::uint32_t core = 0; core < kernel_cores_; ++core) {
    const bool waits = cores_[core].running();
    kernel_.timelines.push_back(cores_[core].take_timeline());
    kernel_.timelines.back().append(waits ? Category::kHang : Category::kIdle, now);
  }
  emu::Time end = now;  // a barrier or a copy knows its end before it comes
  for (const Timeline& timeline : kernel_.timelines) end = std::max(end, timeline.end());
  trace_kernel(*shard_.trace(), end);
}

// --- Barrier, memory bandwidth, watches ---

void DeviceProcess::arrive_at_barrier(std::uint32_t core, Meeting meeting) {
  at_barrier_.push_back(core);
  log(core, {.kind = fabric::CausalKind::kArrive, .detail = static_cast<std::uint8_t>(meeting)});
  if (at_barrier_.size() < kernel_cores_) return;
  const emu::Time now = shard_.now();
  emu::Time met = now;  // until here it is a barrier
  if (meeting == Meeting::kBarrier) {
    ++counters_.barriers;
    met += costs_.barrier + costs_.barrier_per_core * kernel_cores_;
  }
  const emu::Time launched = meeting == Meeting::kHostSync ? met + costs_.host_sync : met;
  const emu::Time release = meeting == Meeting::kBarrier ? met : launched + costs_.launch;
  Cause cause;
  cause.core = core;
  cause.time = now;
  for (const std::uint32_t each : at_barrier_) {
    Timeline& timeline = cores_[each].timeline();
    timeline.append(Category::kBarrierWait, met, cause);
    timeline.append(Category::kHostSync, launched);
    timeline.append(Category::kLaunch, release);
    cores_[each].resume_at(release);
  }
  at_barrier_.clear();
}

emu::Time DeviceProcess::take_hbm(emu::Time now, std::uint64_t bytes) {
  hbm_free_ = std::max(now, hbm_free_) + costs_.hbm.serialisation(bytes);
  return costs_.hbm.unlimited() ? now : hbm_free_;
}

void DeviceProcess::add_watch(std::uint32_t core, fabric::Address first, fabric::Address last) {
  watches_.push_back({first, last, core});
  watched_first_ = std::min(watched_first_, first);
  watched_last_ = std::max(watched_last_, last);
}

void DeviceProcess::remove_watch(std::uint32_t core) {
  std::erase_if(watches_, [core](const Watch& watch) { return watch.core == core; });
  if (watches_.empty()) {
    watched_first_ = ~fabric::Address{0};
    watched_last_ = 0;
  }
}

std::string DeviceProcess::last_writer(fabric::Address address) const {
  const LastWrite* write = last_writes_.find(address / kGranule);
  if (write == nullptr) return "none";
  return fmt::format("device {} core {} at {:.3f} us", rank_at(write->device), write->core,
                     emu::to_us(write->time));
}

std::uint32_t DeviceProcess::rank_at(fabric::NodeId node) const {
  const auto it = std::find(ports_.begin(), ports_.end(), node);
  return static_cast<std::uint32_t>(it - ports_.begin());
}

void DeviceProcess::count_put(std::uint32_t rank, std::uint64_t bytes, fabric::PacketKind kind,
                              bool immediate, std::uint32_t packet_bytes) {
  if (kind == fabric::PacketKind::kAtomicAdd) {
    ++counters_.atomics;
  } else if (immediate) {
    ++counters_.signals;
  } else {
    ++counters_.puts;
  }
  counters_.bytes_put += bytes;
  count_wire(bytes, network_.is_scale_out(node_, ports_[rank]), packet_bytes);
  const int hops = network_.routing().switches(node_, ports_[rank]);
  ++counters_.puts_by_hops[std::min<std::size_t>(static_cast<std::size_t>(std::max(hops, 0)),
                                                 Counters::kHopClasses - 1)];
}

// The request travels as a header alone, the bytes as those of a put.
void DeviceProcess::count_get(std::uint32_t rank, std::uint64_t bytes) {
  ++counters_.gets;
  counters_.bytes_got += bytes;
  const bool scale_out = network_.is_scale_out(node_, ports_[rank]);
  kernel_.wire_bytes += rules(scale_out).header_bytes;
  count_wire(bytes, scale_out);
}

// As a get, but the request carries what is added.
void DeviceProcess::count_fetch_add(std::uint32_t rank) {
  ++counters_.atomics;
  const bool scale_out = network_.is_scale_out(node_, ports_[rank]);
  count_wire(sizeof(std::uint32_t), scale_out);
  count_wire(sizeof(std::uint32_t), scale_out);
}

void DeviceProcess::count_wire(std::uint64_t bytes, bool scale_out, std::uint32_t packet_bytes) {
  const fabric::PathRules& rules = network_.rules(scale_out);
  const std::uint32_t most = packet_bytes == 0 ? rules.packet_bytes : packet_bytes;
  kernel_.wire_bytes += bytes + (bytes + most - 1) / most * rules.header_bytes;
}

// --- The NIC ---

PutHandle DeviceProcess::post(const StoreRequest& request, bool fenced, emu::Time at) {
  const PutHandle handle = port_.prepare(request);
  const NetworkInterface::Request posted{
      handle.number, nic_->pair_to(request.destination_rank, request.queue), fenced};
  if (proxy_ == nullptr) {
    nic_->post(posted, at);
  } else {
    Proxy::Request asked;
    asked.post = posted;
    asked.rank = request.destination_rank;
    proxy_->submit(proxy_->thread_of(request.queue % costs_.nic->queue_pairs), asked, at);
  }
  return handle;
}

void DeviceProcess::fence_by_proxy(std::uint32_t queue, std::uint32_t rank, emu::Time at) {
  ++counters_.proxy_fences;
  Proxy::Request asked;
  asked.kind = Proxy::Request::Kind::kFence;
  asked.rank = rank;
  proxy_->submit(proxy_->thread_of(queue % costs_.nic->queue_pairs), asked, at);
}

// --- What --check wants to know ---

void DeviceProcess::keep_accesses(std::uint64_t limit) {
  check_log_ = std::make_unique<CheckLog>(limit);
  for (Core& core : cores_) core.keep_accesses(check_log_.get());
}

// Neighbours as one.
void DeviceProcess::note_host_writes(
    const std::vector<std::pair<fabric::Address, std::uint64_t>>& ranges) {
  for (std::size_t i = 0; i < ranges.size();) {
    auto [address, bytes] = ranges[i++];
    while (i < ranges.size() && ranges[i].first == address + bytes) bytes += ranges[i++].second;
    // What --payload control does not carry stands for itself.
    if (memory_.has_rows(address)) {
      const fabric::Address row = memory_.row_begin(address);
      const std::uint64_t length = memory_.row_bytes(address);
      if (memory_.carried(row, length) < length) {
        address = row;
        bytes = length;
      }
    }
    check_log_->add({.at = shard_.now(),
                     .address = address,
                     .bytes = bytes,
                     .kind = CheckKind::kHostWrite,
                     .detail = static_cast<std::uint8_t>(Verb::kHost)});
  }
}

std::vector<std::string> DeviceProcess::waiting() const {
  std::vector<std::string> lines;
  if (proxy_ != nullptr) {
    for (const std::string& line : proxy_->waiting()) {
      lines.push_back(fmt::format("device {} {}", rank_, line));
    }
  }
  for (const Core& core : cores_) {
    const std::string what = core.waiting();
    if (!what.empty()) {
      lines.push_back(fmt::format("device {} core {} ({}, iteration {}): {}", rank_, core.index(),
                                  kernel_.name, kernel_.iteration, what));
    }
  }
  return lines;
}

}  // namespace orrery::devices
