#include "devices/device_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "devices/kernel_spans.h"
#include "emu/errors.h"

namespace orrery::devices {

namespace {
constexpr fabric::Address kGranule = 32;
constexpr std::uint32_t kSmallWrite = 64;
constexpr std::size_t kTornReadsKept = 8;
}  // namespace

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

// The reply takes its bytes at once: what was there before an addition.
void DeviceProcess::serve(const fabric::Packet& packet, bool adds, emu::Time now) {
  const Verb verb = adds ? Verb::kRemoteFetchAdd : Verb::kGet;
  if (check_log_ != nullptr) {
    check_log_->add({.at = now,
                     .address = packet.address,
                     .bytes = packet.put_bytes,
                     .peer = rank_at(packet.source),
                     .core = packet.core,
                     .kind = CheckKind::kServe,
                     .detail = static_cast<std::uint8_t>(verb)});
  }
  port_.reply(packet, now);
  if (!adds) return;
  const auto before = std::as_const(memory_).load<std::uint32_t>(packet.address);
  memory_.store(packet.address, before + packet.offset);
  last_writes_[packet.address / kGranule] = {packet.source, packet.core, now};
}

void DeviceProcess::deliver_to_hub(const fabric::Packet& packet, emu::Time now) {
  fabric::Packet placed = packet;
  DestinationHub::Place place;
  const emu::Time served = hub_->take(placed, now, place);
  if (place.is_new && check_log_ != nullptr) {
    check_log_->add({.at = now,
                     .address = place.rows_on,
                     .other = put_identity(packet),
                     .bytes = place.words_on,
                     .peer = rank_at(packet.source),
                     .kind = CheckKind::kPlaced});
  }
  shard_.schedule(node_, node_, served, kHubKind).as<fabric::Packet>() = placed;
}

void DeviceProcess::deliver(const fabric::Packet& packet, emu::Time now) {
  if (packet.logical) return deliver_to_hub(packet, now);
  const bool by_nic = packet.scale_out && packet.tells && !packet.by_proxy && nic_ != nullptr;
  if (by_nic && costs_.nic->atomic + costs_.nic->atomic_gap > 0) {
    atomics_free_ = std::max(now, atomics_free_) + costs_.nic->atomic_gap;
    shard_.schedule(node_, node_, atomics_free_ + costs_.nic->atomic, kAtomicKind)
        .as<fabric::Packet>() = packet;
  } else {
    visibility_.deliver(packet);
  }
}

void DeviceProcess::on_message(const fabric::Packet& packet) {
  proxy_->receive(packet, shard_.now());
}

void DeviceProcess::applied(const fabric::Packet& packet) { visibility_.apply(packet); }

// --- What arrives ---

void DeviceProcess::on_visible(const fabric::Packet& packet, fabric::Address address,
                               std::uint32_t bytes) {
  read_log_.written(address, bytes);
  if (keeps_causes()) log_visible(packet, address, bytes);
  if (check_log_ != nullptr) note_visible(packet, address, bytes);
  if (packet.kind != fabric::PacketKind::kAtomicAdd && packet.put_bytes > kSmallWrite) {
    check_claims(packet, address, bytes);
  }
  if (bytes <= kSmallWrite) {
    last_writes_[address / kGranule] = {packet.source, packet.core, shard_.now()};
  }
  if (address >= watched_last_ || address + bytes <= watched_first_) return;
  for (std::size_t i = 0; i < watches_.size(); ++i) {
    const Watch& watch = watches_[i];
    if (address < watch.last && address + bytes > watch.first) {
      cores_[watch.core].visible(packet, address, bytes);
    }
  }
}

void DeviceProcess::log_visible(const fabric::Packet& packet, fabric::Address address,
                                std::uint32_t bytes) {
  const fabric::CausalKey key = fabric::causal_key(packet.source, packet.number);
  log(0, {.key = key, .kind = fabric::CausalKind::kVisible});
  if (memory_.has_rows(address)) row_writers_[memory_.row_begin(address)] = key;
  if (bytes > kSmallWrite) return;
  for (fabric::Address word = address / kWord; word * kWord < address + bytes; ++word) {
    Writers& writers = writers_[word];
    std::move_backward(writers.writes.begin(), writers.writes.end() - 1, writers.writes.end());
    const auto held = std::as_const(memory_).view(word * kWord, kWord);
    writers.writes[0].packet = key;
    std::memcpy(&writers.writes[0].value, held.data(), kWord);
    writers.count = std::min(writers.count + 1, Writers::kKept);
  }
}

fabric::CausalKey DeviceProcess::latest_writer(fabric::Address address, std::uint32_t bytes) const {
  if (!memory_.has_rows(address)) {
    const Writers* writers = bytes <= kSmallWrite ? writers_of(address) : nullptr;
    return writers == nullptr ? Core::kNoPacket : writers->writes[0].packet;
  }
  const fabric::CausalKey* writer = row_writers_.find(memory_.row_begin(address));
  return writer == nullptr ? Core::kNoPacket : *writer;
}

void DeviceProcess::keep_accesses(std::uint64_t limit) {
  check_log_ = std::make_unique<CheckLog>(limit);
  for (Core& core : cores_) core.keep_accesses(check_log_.get());
}

void DeviceProcess::note_visible(const fabric::Packet& packet, fabric::Address address,
                                 std::uint32_t bytes) {
  const bool reply = packet.kind == fabric::PacketKind::kGetReply;
  check_log_->add({.at = shard_.now(),
                   .address = address,
                   .other = put_identity(packet),
                   .bytes = bytes,
                   .peer = rank_at(packet.source),
                   .core = packet.core,
                   .kind = CheckKind::kVisible,
                   .detail = static_cast<std::uint8_t>((packet.first ? CheckRecord::kFirst : 0) |
                                                       (reply ? CheckRecord::kGetReply : 0))});
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

void DeviceProcess::on_complete(const fabric::Packet& packet) {
  if (shard_.trace() != nullptr) {
    shard_.trace()->on_message(node_, origin_of(packet), packet.put_bytes, shard_.now());
  }
  if (packet.kind == fabric::PacketKind::kGetReply) cores_[packet.put].replied(packet);
  if (!torn_puts_.empty()) torn_puts_.erase(fabric::causal_key(packet.source, packet.put));
}

// Nobody may have said of these bytes that they were complete while they were on their way.
void DeviceProcess::check_claims(const fabric::Packet& packet, fabric::Address address,
                                 std::uint32_t bytes) {
  const auto torn =
      memory_.has_rows(address)
          ? read_log_.shown_in_row(memory_.row_begin(address), address, bytes, packet, shard_.now())
          : read_log_.shown(address, bytes, packet, shard_.now());
  if (!torn) return;
  if (!torn_puts_.insert(fabric::causal_key(packet.source, packet.put)).second) return;
  ++torn_read_count_;
  if (torn_reads_.size() < kTornReadsKept) torn_reads_.push_back(*torn);
}

void DeviceProcess::on_acknowledge(const fabric::Packet& packet) {
  if (packet.kind == fabric::PacketKind::kGetReply) return;
  if (packet.scale_out && nic_ != nullptr && costs_.nic->acknowledge > 0) {
    shard_.schedule(node_, node_, shard_.now() + costs_.nic->acknowledge, kAcknowledgeKind)
        .as<fabric::Packet>() = packet;
  } else {
    send_acknowledgement(packet);
  }
}

void DeviceProcess::send_acknowledgement(const fabric::Packet& packet) {
  const std::uint32_t ack_bytes = rules(packet.scale_out).ack_bytes;
  if (ack_bytes > 0) {
    port_.send_acknowledgement(packet, ack_bytes, shard_.now());
    return;
  }
  const emu::Time latency = packet.path_latency;
  fabric::Packet& acknowledgement =
      shard_.schedule(node_, packet.source, shard_.now() + latency, fabric::kAcknowledgement)
          .as<fabric::Packet>();
  acknowledgement = packet;
  acknowledgement.journey.latency += latency;
}

void DeviceProcess::acknowledged(const fabric::Packet& packet) {
  const std::uint32_t serial = port_.serial(packet.put);
  const bool posted = port_.is_posted(packet.put);
  if (posted) {
    nic_->acknowledged(packet.put, shard_.now());
    if (proxy_ != nullptr) proxy_->acknowledged(packet.put, shard_.now());
  }
  const std::uint32_t core = port_.acknowledge(packet.put);
  log(core, {.key = fabric::causal_key(node_, serial),
             .amount = packet.kind == fabric::PacketKind::kAck
                           ? fabric::causal_key(packet.source, packet.number)
                           : 0,
             .kind = fabric::CausalKind::kAck});
  cores_[core].acknowledged(packet, posted);
  if (!posted) return;
  const auto next =
      std::find_if(waiting_for_room_.begin(), waiting_for_room_.end(),
                   [this](const auto& each) { return has_room(each.rank, each.queue); });
  if (next == waiting_for_room_.end()) return;
  const std::uint32_t waits = next->core;
  waiting_for_room_.erase(next);
  cores_[waits].has_room();
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
