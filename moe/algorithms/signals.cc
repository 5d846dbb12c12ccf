#include "moe/algorithms/signals.h"

#include "devices/device_process.h"

namespace orrery::moe {

using devices::Core;

Signaling signaling_of(const std::string& text) {
  if (text == "coupled") return Signaling::kCoupled;
  if (text == "reordered") return Signaling::kReordered;
  return text == "decoupled" ? Signaling::kDecoupled : Signaling::kNone;
}

Ordering ordering_of(const std::string& text) {
  if (text == "proxy-fence") return Ordering::kProxyFence;
  return text == "nic-fence" ? Ordering::kNicFence : Ordering::kNone;
}

GroupSize GroupSize::of(const Options& options) {
  if (options.text("group") == "destination") return {0};
  return {static_cast<std::uint32_t>(options.number("group", 1, std::uint64_t{1} << 30))};
}

std::vector<OptionSpec> signal_options(bool with_none) {
  std::vector<std::string> kinds = {"coupled", "reordered", "decoupled"};
  if (with_none) kinds.emplace_back("none");
  return {
      {"signaling", "coupled",
       with_none ? "signals right behind their puts, behind all puts, per group, or none"
                 : "signals right behind their puts, behind all puts of a phase, or per group",
       std::move(kinds)},
      {"group", "destination", "puts of a group for signaling=decoupled, or by destination", {}},
      {"ordering",
       "proxy-fence",
       "what keeps a signal behind its puts: fences, a fence flag, or the fabric alone",
       {"proxy-fence", "nic-fence", "none"}}};
}

bool is_one_request(Core& core, std::uint32_t rank, Ordering ordering) {
  return ordering == Ordering::kProxyFence && core.device().posts_to(rank);
}

emu::Task order_signals(Core& core, Ordering ordering) {
  if (ordering == Ordering::kProxyFence) co_await core.fence();
}

emu::Task signal(Core& core, std::uint32_t rank, fabric::Address to, std::uint64_t value,
                 bool fenced) {
  co_await core.signal(rank, to, value, fenced);
}

}  // namespace orrery::moe
