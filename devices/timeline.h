// Where a core's time went, without gaps, and what each wait waited for (design section 9).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "emu/time.h"
#include "fabric/packet.h"

namespace orrery::devices {

enum class Category : std::uint8_t {
  kLaunch,    // of the kernel, or of a further one of the same operation
  kHostSync,  // the host reads a result before it launches what follows
  kIssue,
  kStoreWindow,  // all of the core's outstanding stores are on their way
  kSourceWait,   // the source of a put is still being read
  kFenceStall,   // quiet, or a fence that drains
  kBarrierWait,  // core barrier, its own cost included
  kFlagWait,     // before the awaited bytes were visible
  kPoll,         // from visibility to the end of the sweep that saw it
  kRemoteRead,   // get
  kLocalCopy,
  kLocalAtomic,
  kCompute,
  kIdle,  // the program ended before its kernel did
  kHang,  // waits when the run ends; only in traces
  kCount,
};
inline constexpr std::size_t kCategories = static_cast<std::size_t>(Category::kCount);
std::string_view name_of(Category category);

/// Why a wait ended: a packet's journey, or another core of the same device.
struct Cause {
  fabric::Journey journey;  // device kNoNode: another core of this device (or this one)
  std::uint32_t core = 0;   // that other core
  emu::Time time = 0;       // when it happened: visibility, acknowledgement, arrival at the barrier
};

struct Segment {
  emu::Time end;
  Category category;
  std::uint32_t cause;  // index into Timeline::causes, or kNoCause
};
inline constexpr std::uint32_t kNoCause = ~std::uint32_t{0};

/// One core during one kernel. Segment i runs from the end of segment i-1 (the first from `start`).
struct Timeline {
  emu::Time start = 0;
  std::vector<Segment> segments;
  std::vector<Cause> causes;

  emu::Time end() const { return segments.empty() ? start : segments.back().end; }
  void append(Category category, emu::Time until) {
    if (until <= end()) return;
    if (!segments.empty() && segments.back().category == category &&
        segments.back().cause == kNoCause) {
      segments.back().end = until;
      return;
    }
    segments.push_back({until, category, kNoCause});
  }
  void append(Category category, emu::Time until, const Cause& cause) {
    if (until <= end()) return;
    causes.push_back(cause);
    segments.push_back({until, category, static_cast<std::uint32_t>(causes.size() - 1)});
  }
};

/// A part of a program that it gave a name, until the next one begins or the program ends.
struct Phase {
  emu::Time start;
  const char* name;
};

/// Sums of a timeline's segments by category.
std::array<emu::Time, kCategories> sum_by_category(const Timeline& timeline);

}  // namespace orrery::devices
