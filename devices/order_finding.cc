#include "devices/order_finding.h"

#include <fmt/format.h>

#include "fabric/memory.h"

namespace orrery::devices {

const char* to_string(FindingKind kind) {
  switch (kind) {
    case FindingKind::kUnorderedRead:
      return "unordered read";
    case FindingKind::kUnproven:
      return "accepted bytes that nothing proves complete";
    case FindingKind::kUnwritten:
      return "read of unwritten memory";
    case FindingKind::kUnorderedOverwrite:
      return "unordered overwrite";
    case FindingKind::kOverwriteOfRead:
      return "overwrite of what may still be read";
    case FindingKind::kSourceReuse:
      return "source reuse before the put has left";
    case FindingKind::kFlagReuse:
      return "flag reuse while it may still be awaited";
    case FindingKind::kCounterReuse:
      return "counter reuse while another add is awaited";
  }
  return "?";
}

namespace {
// What becomes visible, or is read, later than its core began to issue it.
bool is_sent(Verb verb) {
  return verb == Verb::kPut || verb == Verb::kGive || verb == Verb::kStore || has_signal(verb) ||
         verb == Verb::kAtomicAdd || verb == Verb::kGet || verb == Verb::kRemoteFetchAdd;
}

std::string to_text(const FindingSide& side) {
  const std::string where =
      side.phase.empty() ? side.operation : side.operation + ", " + side.phase;
  if (side.verb == Verb::kHost) {
    return fmt::format("the host's input of device {} at {:.3f} us", side.device,
                       emu::to_us(side.time));
  }
  return fmt::format("{} by device {} core {} ({}, iteration {}{}) at {:.3f} us",
                     to_string(side.verb), side.device, side.core, where, side.iteration,
                     is_sent(side.verb) ? ", issued" : "", emu::to_us(side.time));
}
}  // namespace

std::string to_text(const Finding& finding) {
  constexpr fabric::Address kOffset = (fabric::Address{1} << fabric::Region::kRegionBits) - 1;
  std::string text = fmt::format("{}: {}", to_string(finding.kind), to_text(finding.second));
  text += finding.has_first ? fmt::format(" is not ordered after {}", to_text(finding.first))
                            : std::string(", but nothing wrote there");
  text += fmt::format("; {} bytes of device {} at region {} + {:#x}", finding.bytes, finding.device,
                      finding.address >> fabric::Region::kRegionBits, finding.address & kOffset);
  if (finding.count > 1) text += fmt::format("; {} times", finding.count);
  return text;
}

}  // namespace orrery::devices
