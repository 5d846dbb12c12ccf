#include "devices/timeline.h"

namespace orrery::devices {

std::string_view name_of(Category category) {
  switch (category) {
    case Category::kLaunch:
      return "launch";
    case Category::kHostSync:
      return "host_sync";
    case Category::kIssue:
      return "issue";
    case Category::kStoreWindow:
      return "store_window";
    case Category::kSourceWait:
      return "source_wait";
    case Category::kFenceStall:
      return "fence_stall";
    case Category::kBarrierWait:
      return "barrier_wait";
    case Category::kFlagWait:
      return "flag_wait";
    case Category::kPoll:
      return "poll";
    case Category::kRemoteRead:
      return "remote_read";
    case Category::kLocalCopy:
      return "local_copy";
    case Category::kLocalAtomic:
      return "local_atomic";
    case Category::kCompute:
      return "compute";
    case Category::kIdle:
      return "idle";
    case Category::kHang:
      return "hang";
    case Category::kCount:
      break;
  }
  return "?";
}

std::array<emu::Time, kCategories> sum_by_category(const Timeline& timeline) {
  std::array<emu::Time, kCategories> sums{};
  emu::Time from = timeline.start;
  for (const Segment& segment : timeline.segments) {
    sums[static_cast<std::size_t>(segment.category)] += segment.end - from;
    from = segment.end;
  }
  return sums;
}

}  // namespace orrery::devices
