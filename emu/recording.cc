#include "emu/recording.h"

#include <algorithm>
#include <tuple>

namespace orrery::emu {

void Recording::sort() {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.lp, a.track, a.start, a.level) < std::tie(b.lp, b.track, b.start, b.level);
  });
  std::sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) {
    return std::tie(a.from, a.to) < std::tie(b.from, b.to);
  });
}

}  // namespace orrery::emu
