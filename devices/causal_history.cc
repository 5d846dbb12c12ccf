#include "devices/causal_history.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <tuple>
#include <unordered_map>

#include "emu/errors.h"
#include "emu/flat_map.h"

namespace orrery::devices {

namespace {

using emu::Time;
using fabric::CausalEntry;
using fabric::CausalKind;
using fabric::Fabric;
using fabric::NodeId;

constexpr PointId kNowhere = ~PointId{0};

struct Located {
  CausalEntry entry;
  NodeId node;
};

// All entries of all processes on process 0, in an order in which causes come first: by time, then
// by node (what reaches another node takes time), then as logged.
std::vector<Located> gather(Cluster& cluster, const fabric::CausalLog& log) {
  std::vector<Located> mine;
  for (NodeId node = 0; node < log.nodes(); ++node) {
    for (const CausalEntry& entry : log.of(node)) mine.push_back({entry, node});
  }
  std::vector<Located> all;
  for (const auto& part :
       cluster.processes().gather(std::as_bytes(std::span<const Located>(mine)))) {
    const std::size_t count = part.size() / sizeof(Located);
    if (count == 0) continue;
    all.resize(all.size() + count);
    std::memcpy(&all[all.size() - count], part.data(), part.size());
  }
  std::stable_sort(all.begin(), all.end(), [](const Located& a, const Located& b) {
    return a.entry.at != b.entry.at ? a.entry.at < b.entry.at : a.node < b.node;
  });
  return all;
}

// Goes through a run's entries in order and keeps, of everything that serves, the point at which it
// is next free: what Network, StorePort, Visibility and the verbs do with times, done with points.
class Builder {
 public:
  Builder(Cluster& cluster, Alignment alignment, CausalHistory& history)
      : cluster_(cluster),
        topology_(cluster.topology()),
        fabric_(cluster.network().fabric()),
        costs_(cluster.costs()),
        alignment_(alignment),
        history_(history),
        graph_(history.graph),
        links_(topology_.links.size(), kNowhere),
        devices_(topology_.devices) {
    for (Device& device : devices_) {
      device.cores.resize(costs_.cores);
      device.service = graph_.add_server();
      device.service_pipe = graph_.add_server();
      device.memory = graph_.add_server();
    }
  }

  void take(const Located& located) {
    const CausalEntry& entry = located.entry;
    switch (entry.kind) {
      case CausalKind::kHop:
        return hop(entry);
      case CausalKind::kSelf:
        return self(entry);
      case CausalKind::kVisible:
        return visible(entry);
      case CausalKind::kReply:
        return reply(entry);
      case CausalKind::kAckLeave:
        return acknowledgement_leaves(entry);
      case CausalKind::kKernel:
        return kernel(located.node, entry);
      case CausalKind::kLeave:
        return leave(located.node, entry);
      case CausalKind::kSlot:
        slots_.push_back(entry);
        return;
      default:
        return of_core(located.node, entry);
    }
  }

 private:
  struct Packet {
    std::uint32_t put = kNowhere;  // index into puts_; none for a get
    bool first = true;             // of its put
    bool signal = false;           // visible after all others of its put
    PointId head = kNowhere;       // where it is: its head may enter the next link
    PointId tail = kNowhere;       // its tail has left the link before
    Dependency wire;               // of that link: the lag of head and tail to the next node
    PointId arrived = kNowhere;
    PointId visible = kNowhere;
    std::array<Time, fabric::Topology::kMaxLinkClasses> latency{};
    Time self_latency = 0;
  };
  struct Put {
    PointId ready = kNowhere;
    PointId left = kNowhere;  // its latest packet has
    PointId complete = kNowhere;
    PointId received = kNowhere;
    PointId begun_at = kNowhere;  // the core began to issue
    CausalGraph::ServerId channel = kNowhere;
    PointId turn = kNowhere;     // in its channel
    std::uint32_t served = 0;    // by its channel
    std::uint32_t streamed = 0;  // by the pipe of a service core
    std::uint32_t core = 0;
    NodeId target = 0;
    fabric::CausalKey last_packet = 0;
    bool begun = false;
    PointId acknowledged = kNowhere;
  };
  struct CoreState {
    PointId at = kNowhere;
    PointId pipe = kNowhere;
    std::vector<PointId> acks;  // in the order in which they came
    std::uint64_t puts = 0;
    std::vector<PointId> pending;  // acknowledgements since the last quiet
    std::vector<PointId> answers;  // to gets of the same verb, so far
  };
  struct Device {
    std::vector<CoreState> cores;
    std::vector<PointId> at_barrier;
    std::vector<PointId> ended;
    std::vector<std::uint32_t> puts;  // by number, from 1; answers to gets have some, too
    std::vector<Packet> packets;      // by number
    CausalGraph::ServerId service = 0;
    CausalGraph::ServerId memory = 0;
    CausalGraph::ServerId service_pipe = 0;
    PointId kernel_end = kNowhere;
    std::uint32_t kernel_cores = 0;
    std::size_t kernel = 0;
  };

  static Dependency after(PointId from, Time lag = 0, Cost cost = Cost::kNone) {
    return {lag, from, cost, Dependency::Rule::kShorten};
  }

  // A point that depends on all of `causes`; that point itself where it is only one without lag.
  PointId join(std::span<const Dependency> causes) {
    if (causes.size() == 1 && causes[0].lag == 0) return causes[0].from;
    return graph_.add(causes);
  }
  PointId join(std::initializer_list<Dependency> causes) {
    return join(std::span<const Dependency>(causes.begin(), causes.size()));
  }

  // `point`, unless it happened at another time than `at` says.
  PointId pinned(PointId point, Time at) {
    const Time missing = at - graph_.time(point);
    if (missing == 0) return point;
    if (missing < 0) {
      history_.misplaced -= missing;
      return point;
    }
    history_.unexplained += missing;
    return graph_.add(after(point, missing));
  }

  Packet& packet(fabric::CausalKey key) {
    auto& packets = devices_[key >> 32].packets;
    const auto number = static_cast<std::uint32_t>(key);
    if (packets.size() <= number) packets.resize(number + 1);
    return packets[number];
  }
  std::uint32_t put_index(fabric::CausalKey key) const {
    return devices_[key >> 32].puts[static_cast<std::uint32_t>(key)];
  }

  // --- The fabric ---

  void hop(const CausalEntry& entry) {
    Packet& at = packet(entry.key);
    const fabric::Link& link = topology_.links[entry.other];
    const Time serialisation = link.rate.serialisation(entry.amount);
    const PointId head =
        at.tail == kNowhere ? at.head : join({after(at.head, at.wire.lag, at.wire.cost)});
    std::uint32_t& server = links_[entry.other];
    if (server == kNowhere) server = graph_.add_server();
    causes_.assign(1, after(head));
    const auto [start, served] = graph_.add_served(causes_, server, head, 0, Cost::kNone);
    causes_.clear();
    causes_.push_back(after(start, serialisation, link_bandwidth(link.link_class)));
    if (at.tail != kNowhere) causes_.push_back(after(at.tail, at.wire.lag, at.wire.cost));
    const PointId tail = join(causes_);
    graph_.release(served, tail);
    at.head = start;
    at.tail = tail;
    at.wire = after(0, link.latency, link_latency(link.link_class));
    at.latency[link.link_class] += link.latency;
    if (at.put != kNowhere) history_.puts[at.put].link_classes |= 1u << link.link_class;
    if (topology_.is_device(link.to)) {
      at.arrived = graph_.add(after(tail, link.latency, link_latency(link.link_class)));
      received(entry.key, at, link.to);
    }
  }

  // Bytes of a put are at `node`, be it where they go.
  void received(fabric::CausalKey key, const Packet& at, NodeId node) {
    if (at.put == kNowhere || puts_[at.put].target != node) return;
    Put& put = puts_[at.put];
    put.received =
        put.received == kNowhere ? at.arrived : join({after(put.received), after(at.arrived)});
    put.last_packet = key;
  }

  void self(const CausalEntry& entry) {
    Packet& at = packet(entry.key);
    at.self_latency = cluster_.network().self_latency();
    at.arrived = join({after(at.head, at.self_latency, Cost::kSelfLatency)});
    received(entry.key, at, static_cast<NodeId>(entry.key >> 32));
  }

  void visible(const CausalEntry& entry) {
    Packet& at = packet(entry.key);
    Put* put = at.put == kNowhere ? nullptr : &puts_[at.put];
    causes_.assign(1, after(at.arrived));
    if (put != nullptr && put->channel != kNowhere &&
        (fabric_.order_kind() == Fabric::WHOLE || at.first)) {
      if (put->turn == kNowhere) take_turn(*put);
      causes_.push_back(after(put->turn));
    }
    if (at.signal) causes_.push_back(after(put->complete));
    at.visible = pinned(join(causes_), entry.at);
    if (put == nullptr) return;
    put->complete =
        put->complete == kNowhere ? at.visible : join({after(put->complete), after(at.visible)});
    if (put->turn != kNowhere) graph_.release(put->served, put->complete);
  }

  // A channel serves its puts in the order of their issue: one is its turn when the one before is
  // wholly visible.
  void take_turn(Put& put) {
    const Dependency own = after(put.begun_at);
    const auto [turn, served] =
        graph_.add_served(std::span(&own, 1), put.channel, put.begun_at, 0, Cost::kNone);
    put.turn = turn;
    put.served = served;
  }

  // --- The store port ---

  void put(NodeId node, CoreState& core, const CausalEntry& entry) {
    causes_.clear();
    causes_.push_back(after(core.at));
    if (costs_.outstanding_stores > 0 && core.puts >= costs_.outstanding_stores) {
      const PointId room = core.acks[core.puts - costs_.outstanding_stores];
      causes_.push_back({0, room, Cost::kStoreWindow, Dependency::Rule::kDrop});
    }
    ++core.puts;
    const PointId begun = pinned(join(causes_), entry.at);
    core.at = join({after(begun, costs_.issue, Cost::kIssue)});

    Put put;
    put.core = entry.core;
    put.target = entry.other;
    put.begun_at = begun;
    put.ready = core.at;
    Device& device = devices_[node];
    if (costs_.service_core_put > 0) {
      const Time takes = costs_.service_core_put;
      causes_.assign(1, after(put.ready, takes, Cost::kServiceCore));
      put.ready =
          graph_.add_served(causes_, device.service, begun, takes, Cost::kServiceCore).point;
    }
    const auto index = static_cast<std::uint32_t>(puts_.size());
    if (fabric_.order_scope() != Fabric::NONE) {
      const std::uint64_t channel = (static_cast<std::uint64_t>(node) << 42) |
                                    (static_cast<std::uint64_t>(entry.other) << 20) |
                                    (entry.amount >> 32);
      std::uint32_t& server = channels_[channel];  // 0: none yet
      if (server == 0) server = graph_.add_server() + 1;
      put.channel = server - 1;
    }
    const auto number = static_cast<std::uint32_t>(entry.key);
    if (device.puts.size() <= number) device.puts.resize(number + 1, kNowhere);
    device.puts[number] = index;
    puts_.push_back(put);
    const int switches = cluster_.network().routing().switches(node, entry.other);
    history_.puts.push_back({cluster_.rank_at(node), entry.core, entry.at,
                             cluster_.rank_at(entry.other), entry.amount & 0xffffffff,
                             static_cast<std::uint32_t>(std::max(switches, 0)), 0});
  }

  void leave(NodeId node, const CausalEntry& entry) {
    Device& device = devices_[node];
    const std::uint32_t index = device.puts[entry.other];
    Put& put = puts_[index];
    const Time streaming = costs_.core_store.serialisation(entry.amount);
    PointId left = put.left;
    if (put.begun) {
      left = join({after(put.left, streaming, Cost::kCoreStore)});
    } else {
      left = begin_streaming(device, put, after(put.ready, streaming, Cost::kCoreStore));
    }
    put.left = pinned(left, entry.at);
    if (costs_.service_core_put > 0) {
      graph_.release(put.streamed, put.left);
    } else {
      device.cores[put.core].pipe = put.left;
    }
    Packet& leaving = packet(entry.key);
    leaving.put = index;
    leaving.first = !put.begun;
    leaving.signal = entry.detail != 0;
    leaving.head = put.left;
    put.begun = true;
  }

  // A core's pipe takes its puts in the order of its program; that of a service core takes all of
  // the device's in the order of their issue.
  PointId begin_streaming(Device& device, Put& put, const Dependency& ready) {
    if (costs_.service_core_put > 0) {
      const auto [point, streamed] = graph_.add_served(std::span(&ready, 1), device.service_pipe,
                                                       put.begun_at, ready.lag, Cost::kCoreStore);
      put.streamed = streamed;
      return point;
    }
    const PointId pipe = device.cores[put.core].pipe;
    if (pipe == kNowhere) return join({ready});
    return join({ready, after(pipe, ready.lag, Cost::kCoreStore)});
  }

  void reply(const CausalEntry& entry) {
    const PointId asked = packet(entry.amount).arrived;
    packet(entry.key).head = asked;
  }

  // --- Cores ---

  void kernel(NodeId node, const CausalEntry& entry) {
    Device& device = devices_[node];
    const auto iteration = static_cast<std::uint32_t>(entry.amount);
    const std::uint32_t turn = iteration * kOperations + entry.other;
    const bool aligned = alignment_ == Alignment::kOperations ||
                         (alignment_ == Alignment::kIterations && entry.other == 0);
    const bool free = aligned || device.kernel_end == kNowhere;
    const PointId from = free ? 0 : device.kernel_end;
    const Time late = entry.at - graph_.time(from);
    const Dependency begin = after(from, late, aligned ? Cost::kNone : Cost::kLateStart);
    const PointId start = graph_.add_start(std::span(&begin, 1), turn);
    const PointId running = join({after(start, costs_.launch, Cost::kLaunch)});
    device.kernel_cores = entry.core;
    for (std::uint32_t core = 0; core < entry.core; ++core) device.cores[core].at = running;
    device.kernel = history_.kernels.size();
    history_.kernels.push_back({entry.other, iteration, cluster_.rank_at(node), start, start});
  }

  void of_core(NodeId node, const CausalEntry& entry) {
    Device& device = devices_[node];
    CoreState& core = device.cores[entry.core];
    switch (entry.kind) {
      case CausalKind::kSpend:
        core.at = pinned(core.at, entry.at);
        core.at = graph_.add(
            after(core.at, static_cast<Time>(entry.amount), static_cast<Cost>(entry.detail)));
        break;
      case CausalKind::kPut:
        put(node, core, entry);
        break;
      case CausalKind::kAck:
        acknowledge(core, entry);
        break;
      case CausalKind::kWait:
        wait(core, entry);
        break;
      case CausalKind::kArrive:
        arrive(device, core, entry);
        break;
      case CausalKind::kCopy:
        copy(device, core, entry);
        break;
      case CausalKind::kSourceWait:
        core.at = pinned(join({after(core.at), after(puts_[put_index(entry.key)].left)}), entry.at);
        break;
      case CausalKind::kAckWait:
        core.at = pinned(join({after(core.at), after(puts_[put_index(entry.key)].acknowledged)}),
                         entry.at);
        break;
      case CausalKind::kQuiet:
        causes_.assign(1, after(core.at));
        for (const PointId each : core.pending) causes_.push_back(after(each));
        core.pending.clear();
        core.at = pinned(join(causes_), entry.at);
        break;
      case CausalKind::kGet:
        if (entry.detail == 0) {
          core.at = pinned(join({after(core.at, costs_.issue, Cost::kIssue)}), entry.at);
        }
        packet(entry.key).head = core.at;
        break;
      case CausalKind::kGetDone:
        core.answers.push_back(packet(entry.key).visible);
        if (entry.detail != 0) break;
        causes_.assign(1, after(core.at));
        for (const PointId each : core.answers) causes_.push_back(after(each));
        core.answers.clear();
        core.at = pinned(join(causes_), entry.at);
        break;
      case CausalKind::kEnd:
        core.at = pinned(core.at, entry.at);
        device.ended.push_back(core.at);
        if (device.ended.size() == device.kernel_cores) end_kernel(device);
        break;
      default:
        throw emu::InvariantError("a causal log has an entry of an unknown kind");
    }
  }

  PointId acknowledged(const Put& put) const {
    return fabric_.ack_at() == Fabric::RECEIVED ? put.received : put.complete;
  }
  void acknowledgement_leaves(const CausalEntry& entry) {
    const Put& put = puts_[packet(entry.amount).put];
    packet(entry.key).head = pinned(acknowledged(put), entry.at);
  }

  // The way back takes the latencies of the way there.
  void acknowledge(CoreState& core, const CausalEntry& entry) {
    Put& put = puts_[put_index(entry.key)];
    if (fabric_.ack_bytes() > 0) {
      put.acknowledged = pinned(packet(entry.amount).arrived, entry.at);
      core.acks.push_back(put.acknowledged);
      core.pending.push_back(put.acknowledged);
      return;
    }
    const Packet& last = packet(put.last_packet);
    PointId back = acknowledged(put);
    for (std::size_t i = 0; i < last.latency.size(); ++i) {
      if (last.latency[i] > 0) back = graph_.add(after(back, last.latency[i], link_latency(i)));
    }
    back = join({after(back, last.self_latency, Cost::kSelfLatency)});
    back = pinned(back, entry.at);
    put.acknowledged = back;
    core.acks.push_back(back);
    core.pending.push_back(back);
  }

  // Slot i of n is read at the i-th poll of a sweep; the wait ends with the sweep, or, for any
  // slot, with the poll that saw it. What remains of the sweep that saw the last slot is as it was.
  void wait(CoreState& core, const CausalEntry& entry) {
    const auto sweep = static_cast<Time>(entry.amount);
    const Time poll = sweep / entry.other;
    causes_.assign(1, after(core.at, entry.detail != 0 ? poll : sweep, Cost::kPoll));
    for (const CausalEntry& slot : slots_) {
      const PointId written = packet(slot.key).visible;
      const Time rest = (entry.other - slot.other) * poll;
      if (written == kNowhere || graph_.time(written) + rest > entry.at) continue;
      causes_.push_back(after(written, rest, Cost::kPoll));
    }
    slots_.clear();
    const PointId seen = graph_.add(causes_);
    core.at = seen;
    const Time rest = entry.at - graph_.time(seen);
    if (rest > sweep) history_.unexplained += rest - sweep;
    if (rest > 0) core.at = graph_.add(after(seen, rest, Cost::kPoll));
  }

  void arrive(Device& device, CoreState& core, const CausalEntry& entry) {
    device.at_barrier.push_back(pinned(core.at, entry.at));
    if (device.at_barrier.size() < device.kernel_cores) return;
    causes_.clear();
    for (const PointId each : device.at_barrier) causes_.push_back(after(each));
    device.at_barrier.clear();
    PointId released = join(causes_);
    const auto meeting = static_cast<Meeting>(entry.detail);
    if (meeting == Meeting::kBarrier) {
      const Time takes = costs_.barrier + costs_.barrier_per_core * device.kernel_cores;
      released = join({after(released, takes, Cost::kBarrier)});
    } else {
      if (meeting == Meeting::kHostSync) {
        released = join({after(released, costs_.host_sync, Cost::kHostSync)});
      }
      released = join({after(released, costs_.launch, Cost::kLaunch)});
    }
    for (std::uint32_t each = 0; each < device.kernel_cores; ++each) {
      device.cores[each].at = released;
    }
  }

  void copy(Device& device, CoreState& core, const CausalEntry& entry) {
    const PointId at = pinned(core.at, entry.at);
    const PointId start = entry.detail != 0 ? join({after(at, costs_.copy, Cost::kCopyStart)}) : at;
    causes_.assign(1, after(start, costs_.core_copy.serialisation(entry.other), Cost::kCoreCopy));
    if (!costs_.hbm.unlimited()) {
      const Time traffic = costs_.hbm.serialisation(entry.amount);
      const Dependency own = after(start, traffic, Cost::kMemory);
      causes_.push_back(after(
          graph_.add_served(std::span(&own, 1), device.memory, at, traffic, Cost::kMemory).point));
    }
    core.at = join(causes_);
  }

  void end_kernel(Device& device) {
    causes_.clear();
    for (const PointId each : device.ended) causes_.push_back(after(each));
    device.ended.clear();
    device.kernel_end = join(causes_);
    history_.kernels[device.kernel].end = device.kernel_end;
  }

  static constexpr std::uint32_t kOperations = 64;  // more than an algorithm has

  Cluster& cluster_;
  const fabric::Topology& topology_;
  const Fabric& fabric_;
  const Costs& costs_;
  const Alignment alignment_;
  CausalHistory& history_;
  CausalGraph& graph_;
  std::vector<CausalGraph::ServerId> links_;  // kNowhere: not used yet
  std::vector<Device> devices_;
  std::vector<Put> puts_;
  emu::FlatMap<std::uint32_t> channels_;
  std::vector<CausalEntry> slots_;
  std::vector<Dependency> causes_;
};

}  // namespace

CausalHistory causal_history(Cluster& cluster, Alignment alignment) {
  const fabric::CausalLog* log = cluster.network().causal_log();
  if (log == nullptr) throw emu::InvariantError("a run kept no causes");
  CausalHistory history;
  const std::int64_t total = cluster.processes().sum(static_cast<std::int64_t>(log->count()));
  history.complete = total <= static_cast<std::int64_t>(log->limit());
  if (!history.complete) return history;
  const std::vector<Located> entries = gather(cluster, *log);
  if (cluster.processes().rank() != 0) return history;
  Builder builder(cluster, alignment, history);
  for (const Located& each : entries) builder.take(each);
  std::sort(history.puts.begin(), history.puts.end(), [](const PutRecord& a, const PutRecord& b) {
    return std::tie(a.rank, a.core, a.issued) < std::tie(b.rank, b.core, b.issued);
  });
  return history;
}

emu::Time slowest(const CausalHistory& history, const std::vector<emu::Time>& times,
                  KernelRange kernels, std::uint32_t iteration) {
  std::unordered_map<std::uint32_t, Time> starts;  // by rank
  for (const KernelPoints& kernel : history.kernels) {
    if (kernel.operation != kernels.first || kernel.iteration != iteration) continue;
    starts[kernel.rank] = times[kernel.start];
  }
  Time latency = 0;
  for (const KernelPoints& kernel : history.kernels) {
    if (kernel.operation != kernels.last || kernel.iteration != iteration) continue;
    latency = std::max(latency, times[kernel.end] - starts.at(kernel.rank));
  }
  return latency;
}

}  // namespace orrery::devices
