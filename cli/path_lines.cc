#include "cli/path_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "emu/errors.h"

namespace orrery::cli {

namespace {

using devices::PathStep;
using devices::PutRecord;

constexpr std::size_t kLongestPattern = 8;
const std::string kQueueing = "queueing_";

std::string us(emu::Time time) { return fmt::format("{:.3f} us", emu::to_us(time)); }

// How a part that is no journey reads in a sum.
std::string noun(const std::string& part) {
  if (part == "launch") return "kernel launch";
  if (part == "host_sync") return "host synchronisation";
  if (part == "local_atomic") return "local atomics";
  if (part == "issue") return "issuing";
  if (part == "serialisation") return "waiting until a put has left the core";
  if (part == "store_window") return "full window of outstanding stores";
  if (part == "fence_stall") return "fence";
  if (part == "barrier_wait") return "core barrier";
  if (part == "flag_wait") return "waiting for a flag";
  if (part == "poll") return "polling";
  if (part == "remote_read") return "remote read";
  if (part == "local_copy") return "local copies";
  if (part == "compute") return "computation";
  if (part == "peer_late") return "a peer that had not begun";
  return part;
}

std::string join(const std::vector<std::string>& parts, const char* separator = ", ") {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : separator) + part;
  return out;
}

}  // namespace

PathLines::PathLines(std::vector<std::string> names, std::vector<std::string> link_classes,
                     const std::vector<PutRecord>& puts, bool service_core)
    : service_core_(service_core),
      names_(std::move(names)),
      link_classes_(std::move(link_classes)),
      puts_(puts),
      poll_(index("poll")),
      flag_wait_(index("flag_wait")),
      store_window_(index("store_window")) {}

std::uint32_t PathLines::index(const std::string& name) const {
  const auto it = std::find(names_.begin(), names_.end(), name);
  if (it == names_.end()) throw emu::InvariantError("a critical path has no part " + name);
  return static_cast<std::uint32_t>(it - names_.begin());
}

const PutRecord* PathLines::find(const PathStep& step) const {
  const auto key = std::make_tuple(step.peer, step.peer_core, step.issued);
  const auto it = std::lower_bound(puts_.begin(), puts_.end(), key,
                                   [](const PutRecord& put, const auto& wanted) {
                                     return std::tie(put.rank, put.core, put.issued) < wanted;
                                   });
  const bool found = it != puts_.end() && std::tie(it->rank, it->core, it->issued) == key;
  return found ? &*it : nullptr;
}

std::vector<Stretch> PathLines::stretches(const std::vector<PathStep>& steps) const {
  std::vector<Stretch> out;
  for (const PathStep& step : steps) {
    const bool journey = step.peer != PathStep::kNobody;
    bool joins = false;
    if (!out.empty()) {
      const Stretch& last = out.back();
      const bool same_core = last.rank == step.rank && last.core == step.core;
      const bool same_put = journey && last.journey && last.step.peer == step.peer &&
                            last.step.peer_core == step.peer_core &&
                            last.step.issued == step.issued;
      const bool seen =
          last.journey && !journey && step.part == poll_ && last.step.waiting == flag_wait_;
      const bool same_part = !journey && !last.journey && last.part == step.part;
      joins = same_put || (same_core && (seen || same_part));
    }
    if (!joins) {
      Stretch next;
      next.rank = step.rank;
      next.core = step.core;
      next.from = step.from;
      next.part = step.part;
      next.parts.assign(names_.size(), 0);
      next.journey = journey;
      if (journey) {
        next.step = step;
        next.put = find(step);
      }
      out.push_back(std::move(next));
    }
    // A journey begins at the core that issues and is told as that of the one who waits.
    out.back().rank = step.rank;
    out.back().core = step.core;
    out.back().to = step.to;
    out.back().parts[step.part] += step.to - step.from;
  }
  return out;
}

bool PathLines::alike(const Stretch& a, const Stretch& b) const {
  if (a.journey != b.journey) return false;
  if (!a.journey) return a.part == b.part;
  const std::uint64_t bytes_a = a.put == nullptr ? 0 : a.put->bytes;
  const std::uint64_t bytes_b = b.put == nullptr ? 0 : b.put->bytes;
  return a.step.waiting == b.step.waiting && bytes_a == bytes_b;
}

// From the left, at each place the pattern that covers most.
std::vector<Repeated> PathLines::fold(const std::vector<Stretch>& stretches) const {
  std::vector<Repeated> out;
  std::size_t at = 0;
  while (at < stretches.size()) {
    std::size_t length = 1;
    std::size_t times = 1;
    for (std::size_t p = 1; p <= kLongestPattern && at + 2 * p <= stretches.size(); ++p) {
      std::size_t end = at + p;
      while (end < stretches.size() && alike(stretches[end], stretches[end - p])) ++end;
      const std::size_t repeats = (end - at) / p;
      if (repeats >= 2 && repeats * p > times * length) {
        length = p;
        times = repeats;
      }
    }
    Repeated repeated;
    repeated.times = times;
    for (std::size_t i = 0; i < length * times; ++i) {
      const Stretch& each = stretches[at + i];
      repeated.duration += each.to - each.from;
      repeated.same_core =
          repeated.same_core && each.rank == stretches[at].rank && each.core == stretches[at].core;
      if (i < length) {
        repeated.pattern.push_back(each);
        continue;
      }
      Stretch& sum = repeated.pattern[i % length];
      for (std::size_t part = 0; part < sum.parts.size(); ++part) {
        sum.parts[part] += each.parts[part];
      }
    }
    out.push_back(std::move(repeated));
    at += length * times;
  }
  return out;
}

// What the time of a journey went into, e.g. "0.100 us to issue, 0.256 us to serialise, …".
std::string PathLines::hops(const Stretch& stretch) const {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& name, const std::string& words) {
    const emu::Time time = stretch.parts[index(name)];
    if (time > 0) parts.push_back(us(time) + " " + words);
  };
  add("issue",
      service_core_ ? "to issue, queue and time of the service core included" : "to issue");
  add("proxy_queue", "in the ring of a proxy and the queues of a NIC");
  add("nic_queue", "in the queues of a NIC");
  add("serialisation", "to serialise");
  std::string way = "on the wire";
  if (stretch.put != nullptr) {
    std::vector<std::string> classes;
    for (std::size_t i = 0; i < link_classes_.size(); ++i) {
      if (((stretch.put->link_classes >> i) & 1) != 0) classes.push_back(link_classes_[i]);
    }
    const std::uint32_t switches = stretch.put->switches;
    way +=
        switches == 0 ? "" : fmt::format(" over {} switch{}", switches, switches == 1 ? "" : "es");
    if (!classes.empty()) way += " (" + join(classes) + ")";
  }
  if (stretch.step.waiting != flag_wait_) way += ", there and back";
  add("hop_latency", way);
  for (const std::string& link_class : link_classes_) {
    add(kQueueing + link_class, "queued behind other packets at " + link_class + " links");
  }
  return join(parts);
}

std::string PathLines::journey(const Stretch& stretch, emu::Time origin) const {
  const PathStep& step = stretch.step;
  std::string out = fmt::format("core {} of device {} ", step.peer_core, step.peer);
  const bool remote_read = step.waiting == index("remote_read");
  if (remote_read) {
    out += "asks a device for bytes";
  } else {
    out +=
        stretch.put == nullptr ? std::string("puts") : fmt::format("puts {} B", stretch.put->bytes);
    const std::uint32_t to = stretch.put != nullptr ? stretch.put->target : stretch.rank;
    if (stretch.put != nullptr || step.waiting == flag_wait_) {
      out += to == step.peer ? std::string(" to itself") : fmt::format(" to device {}", to);
    }
  }
  if (step.issued < stretch.from) {
    out += step.issued < origin
               ? " (issued before this operation began here)"
               : fmt::format(" (issued at {:.3f})", emu::to_us(step.issued - origin));
  }
  out += ": " + hops(stretch);
  const std::string since = step.since <= origin
                                ? std::string("from the start")
                                : fmt::format("since {:.3f}", emu::to_us(step.since - origin));
  if (step.waiting == flag_wait_) {
    out += fmt::format("; core {} of device {} had waited for it {}", stretch.core, stretch.rank,
                       since);
    const emu::Time poll = stretch.parts[poll_];
    if (poll > 0) out += fmt::format(" and saw it in its next poll {} later", us(poll));
  } else if (step.waiting == store_window_) {
    out +=
        fmt::format("; until its acknowledgement the core's window of stores was full, {}", since);
  } else if (remote_read) {
    out += fmt::format("; it waited for the answer {}", since);
  } else {
    out += fmt::format("; the core waited for its acknowledgement {}", since);
  }
  return out;
}

std::string PathLines::what(const Stretch& stretch, emu::Time origin) const {
  if (stretch.journey) return journey(stretch, origin);
  const std::string& part = names_[stretch.part];
  const std::string core = fmt::format("core {} of device {} ", stretch.core, stretch.rank);
  if (part == "launch") return fmt::format("device {} launches the kernel", stretch.rank);
  if (part == "host_sync") return fmt::format("the host of device {} reads a result", stretch.rank);
  if (part == "local_atomic") return core + "adds to a counter in local memory";
  if (part == "issue") return core + "issues puts";
  if (part == "serialisation") return core + "waits until its put has left, to reuse the source";
  if (part == "barrier_wait") {
    return fmt::format("device {} releases its core barrier, at which core {} was the last",
                       stretch.rank, stretch.core);
  }
  if (part == "poll") return core + "ends the sweep of its poll; what it wants is there";
  if (part == "local_copy") return core + "copies locally";
  if (part == "compute") return core + "computes";
  if (part == "peer_late") return fmt::format("device {} had not begun yet", stretch.rank);
  return core + "waits: " + noun(part);
}

std::string PathLines::summary(const Repeated& repeated) const {
  std::vector<std::string> parts;
  for (const Stretch& each : repeated.pattern) {
    if (!each.journey) {
      parts.push_back(us(each.parts[each.part]) + " " + noun(names_[each.part]));
      continue;
    }
    std::string text =
        each.put == nullptr ? std::string("a put") : fmt::format("a put of {} B", each.put->bytes);
    text += each.step.waiting == flag_wait_      ? " that was waited for ("
            : each.step.waiting == store_window_ ? " before the window has room again ("
                                                 : " and its acknowledgement (";
    text += hops(each);
    const emu::Time poll = each.parts[poll_];
    if (poll > 0) text += ", " + us(poll) + " to the end of the poll";
    parts.push_back(text + ")");
  }
  const Stretch& first = repeated.pattern.front();
  const std::string where = repeated.same_core
                                ? fmt::format("core {} of device {}", first.core, first.rank)
                                : std::string("from core to core");
  return fmt::format("x{} {}, in all: {}", repeated.times, where, join(parts, "; "));
}

std::string PathLines::text(const std::vector<PathStep>& steps, std::size_t lines) const {
  if (steps.empty()) return "  (no step takes time)\n";
  const emu::Time origin = steps.front().from;
  const std::vector<Repeated> all = fold(stretches(steps));
  // The longest are kept, in their order.
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&all](std::size_t a, std::size_t b) {
    return all[a].duration > all[b].duration;
  });
  const std::size_t kept = all.size() <= lines ? all.size() : lines - 1;
  std::vector<std::size_t> shown(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept));
  std::sort(shown.begin(), shown.end());
  std::string out;
  for (const std::size_t i : shown) {
    const Repeated& each = all[i];
    const std::string words = each.times > 1 ? summary(each) : what(each.pattern.front(), origin);
    out += fmt::format("  {:>9.3f} {:>+9.3f}  {}\n", emu::to_us(each.from() - origin),
                       emu::to_us(each.duration), words);
  }
  if (kept < all.size()) {
    emu::Time rest = 0;
    for (std::size_t i = kept; i < order.size(); ++i) rest += all[order[i]].duration;
    out += fmt::format("  ... {} shorter steps in between are left out: {} in all\n",
                       all.size() - kept, us(rest));
  }
  return out;
}

}  // namespace orrery::cli
