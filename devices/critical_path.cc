#include "devices/critical_path.h"

#include <algorithm>
#include <cstring>

#include "emu/errors.h"

namespace orrery::devices {

namespace {

enum Part : std::uint32_t {
  kLaunch,
  kHostSync,
  kIssue,
  kSerialisation,
  kHopLatency,
  kStoreWindow,
  kFenceStall,
  kProxyQueue,
  kNicQueue,
  kHub,
  kBarrierWait,
  kFlagWait,
  kPoll,
  kRemoteRead,
  kLocalCopy,
  kLocalAtomic,
  kCompute,
  kPeerLate,
  kFirstQueueing,  // one per link class
};
constexpr std::size_t kParts = kFirstQueueing + fabric::Topology::kMaxLinkClasses;

Part part_of(Category category) {
  switch (category) {
    case Category::kLaunch:
      return kLaunch;
    case Category::kHostSync:
      return kHostSync;
    case Category::kIssue:
      return kIssue;
    case Category::kStoreWindow:
      return kStoreWindow;
    case Category::kSourceWait:
      return kSerialisation;
    case Category::kFenceStall:
      return kFenceStall;
    case Category::kBarrierWait:
      return kBarrierWait;
    case Category::kFlagWait:
      return kFlagWait;
    case Category::kPoll:
      return kPoll;
    case Category::kRemoteRead:
      return kRemoteRead;
    case Category::kLocalCopy:
      return kLocalCopy;
    case Category::kLocalAtomic:
      return kLocalAtomic;
    case Category::kCompute:
      return kCompute;
    case Category::kIdle:
    case Category::kHang:
    case Category::kCount:
      break;
  }
  return kPeerLate;
}

// Where the walk is; plain data, so that it can go from process to process.
struct Walk {
  std::uint32_t rank;
  std::uint32_t core;
  emu::Time time;
  emu::Time floor;  // start of the slowest device's first kernel
  bool done;
  emu::Time parts[kParts];
};

const KernelRecord* find_record(DeviceProcess& device, std::uint32_t operation,
                                std::uint32_t iteration) {
  for (const KernelRecord& record : device.records()) {
    if (record.operation == operation && record.iteration == iteration) return &record;
  }
  return nullptr;
}

class Walker {
 public:
  Walker(Cluster& cluster, Walk& walk, std::vector<PathStep>& steps, KernelRange kernels,
         std::uint32_t iteration)
      : cluster_(cluster), walk_(walk), steps_(steps), kernels_(kernels), iteration_(iteration) {}

  // Walks until the path leaves this process or ends.
  void advance() {
    while (!walk_.done && cluster_.is_local(walk_.rank)) step();
  }

 private:
  // Of the kernels that had begun by then on the device where the walk is; null before the first.
  const KernelRecord* latest_record() const {
    const KernelRecord* latest = nullptr;
    for (std::uint32_t kernel = kernels_.first; kernel <= kernels_.last; ++kernel) {
      const KernelRecord* record = find_record(cluster_.device(walk_.rank), kernel, iteration_);
      if (record == nullptr)
        throw emu::InvariantError("a kernel on the critical path left no record");
      if (record->start < walk_.time) latest = record;
    }
    return latest;
  }

  // Charges [max(from, floor), time] to `part` and goes there.
  void take(std::uint32_t part, emu::Time from) { take(part, from, walk_.rank); }
  void take(std::uint32_t part, emu::Time from, std::uint32_t source) {
    const emu::Time to = std::min(walk_.time, std::max(from, walk_.floor));
    walk_.parts[part] += walk_.time - to;
    if (steps_.size() < CriticalPath::kMaxSteps && to < walk_.time) {
      PathStep step = journey_;
      step.rank = walk_.rank;
      step.core = walk_.core;
      step.part = part;
      step.source = source;
      step.from = to;
      step.to = walk_.time;
      steps_.push_back(step);
    }
    walk_.time = to;
    if (walk_.time <= walk_.floor) walk_.done = true;
  }

  void step() {
    const KernelRecord* record = latest_record();
    if (record == nullptr) return take(kPeerLate, walk_.floor);
    if (walk_.time > record->end && record->operation != kernels_.last) {
      return take(kPeerLate, record->end);  // between two kernels
    }
    if (walk_.time == record->end) walk_.core = record->last_core;
    // A packet of another call of that device, as broken algorithms send them, leads nowhere.
    if (walk_.core >= record->timelines.size() || walk_.time > record->end) {
      return take(kPeerLate, walk_.floor);
    }
    const Timeline& timeline = record->timelines[walk_.core];
    const auto& segments = timeline.segments;
    const auto it =
        std::lower_bound(segments.begin(), segments.end(), walk_.time,
                         [](const Segment& segment, emu::Time time) { return segment.end < time; });
    if (it == segments.end()) throw emu::InvariantError("the critical path left a core's timeline");
    const emu::Time start = it == segments.begin() ? timeline.start : std::prev(it)->end;
    const std::uint32_t part = part_of(it->category);
    if (it->cause == kNoCause) {
      take(part, start);
      return;
    }
    const Cause& cause = timeline.causes[it->cause];
    if (cause.time <= start || cause.time > walk_.time) {
      take(part, start);
    } else if (cause.journey.device == fabric::kNoNode) {
      take(part, cause.time);
      walk_.core = cause.core;
    } else {
      take(part, cause.time);
      journey_.waiting = part;
      journey_.since = start;
      follow(cause.journey);
      journey_ = PathStep{};
    }
  }

  // Backwards along a packet's journey to the moment its core began to issue.
  void follow(const fabric::Journey& journey) {
    if (walk_.done) return;
    journey_.peer = cluster_.rank_at(journey.device);
    journey_.peer_core = journey.core;
    journey_.issued = journey.issued;
    const emu::Time end = walk_.time;
    emu::Time rest = end - journey.issued - journey.latency - journey.issuing;
    for (const emu::Time queued : journey.queueing) rest -= queued;
    const std::uint32_t source = cluster_.rank_at(journey.device);
    take(kHopLatency, end - journey.latency, source);
    for (std::size_t i = 0; i < journey.queueing.size() && !walk_.done; ++i) {
      if (journey.queueing[i] > 0) {
        const bool hub = i == fabric::Journey::kHub && cluster_.costs().hub;
        const auto queue = static_cast<std::uint32_t>(kFirstQueueing + i);
        take(hub ? std::uint32_t{kHub} : queue, walk_.time - journey.queueing[i], source);
      }
    }
    if (!walk_.done && rest > 0) take(kSerialisation, walk_.time - rest, source);
    walk_.rank = source;
    walk_.core = journey.core;
    if (!walk_.done && journey.posted) {
      const NicCosts& nic = *cluster_.costs().nic;
      take(nic.proxied ? kProxyQueue : kNicQueue, journey.issued + nic.post, source);
    }
    if (!walk_.done) take(kIssue, journey.issued);
  }

  Cluster& cluster_;
  Walk& walk_;
  std::vector<PathStep>& steps_;
  const KernelRange kernels_;
  const std::uint32_t iteration_;
  PathStep journey_{};  // whose stretches the next ones are
};

}  // namespace

namespace {

// Every process's stretches to process 0. They do not overlap, so that their times order them.
std::vector<PathStep> gather_steps(const emu::ProcessGroup& processes,
                                   const std::vector<PathStep>& mine) {
  std::vector<PathStep> all;
  for (const auto& part : processes.all_gather(std::as_bytes(std::span<const PathStep>(mine)))) {
    const std::size_t count = part.size() / sizeof(PathStep);
    if (processes.rank() != 0 || count == 0) continue;
    all.resize(all.size() + count);
    std::memcpy(&all[all.size() - count], part.data(), part.size());
  }
  std::sort(all.begin(), all.end(),
            [](const PathStep& a, const PathStep& b) { return a.from < b.from; });
  if (all.size() > CriticalPath::kMaxSteps) {
    all.erase(all.begin(), all.end() - CriticalPath::kMaxSteps);
  }
  return all;
}

}  // namespace

std::vector<std::string> part_names(const fabric::Topology& topology) {
  std::vector<std::string> names = {
      "launch",      "host_sync",   "issue",      "serialisation", "hop_latency",  "store_window",
      "fence_stall", "proxy_queue", "nic_queue",  "hub",           "barrier_wait", "flag_wait",
      "poll",        "remote_read", "local_copy", "local_atomic",  "compute",      "peer_late"};
  for (const std::string& link_class : topology.link_classes)
    names.push_back("queueing_" + link_class);
  return names;
}

CriticalPath critical_path(Cluster& cluster, KernelRange kernels, std::uint32_t iteration) {
  const emu::ProcessGroup& processes = cluster.processes();
  // The slowest device: largest latency, then smallest rank.
  struct Slowest {
    emu::Time latency = -1;
    Walk walk{};
  } mine;
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    if (!cluster.is_local(rank)) continue;
    const KernelRecord* first = find_record(cluster.device(rank), kernels.first, iteration);
    const KernelRecord* last = find_record(cluster.device(rank), kernels.last, iteration);
    if (first == nullptr || last == nullptr || last->end - first->start <= mine.latency) continue;
    mine.latency = last->end - first->start;
    mine.walk = Walk{rank, last->last_core, last->end, first->start, false, {}};
  }
  Slowest slowest;
  for (const auto& part :
       processes.all_gather(std::as_bytes(std::span<const Slowest, 1>(&mine, 1)))) {
    Slowest other;
    std::memcpy(&other, part.data(), sizeof(other));
    if (other.latency > slowest.latency) slowest = other;
  }
  CriticalPath path;
  path.rank = slowest.walk.rank;
  Walk walk = slowest.walk;
  walk.done = slowest.latency <= 0;
  while (!walk.done) {
    const int owner = cluster.process_of(walk.rank);
    if (owner == processes.rank()) Walker(cluster, walk, path.steps, kernels, iteration).advance();
    processes.broadcast(std::as_writable_bytes(std::span<Walk, 1>(&walk, 1)), owner);
  }
  path.parts.assign(walk.parts, walk.parts + kParts);
  path.parts.resize(kFirstQueueing + cluster.topology().link_classes.size());
  path.steps = gather_steps(processes, path.steps);
  return path;
}

}  // namespace orrery::devices
