#include "moe/algorithms/roles.h"

#include <algorithm>
#include <string>

namespace orrery::moe {

using devices::Core;

namespace {

// In order of address, and of a word that several look at the least that any wants.
void merge(std::vector<Watch>& watches) {
  std::sort(watches.begin(), watches.end(), [](const Watch& a, const Watch& b) {
    return a.address != b.address ? a.address < b.address : a.at_least < b.at_least;
  });
  const auto same = [](const Watch& a, const Watch& b) { return a.address == b.address; };
  watches.erase(std::unique(watches.begin(), watches.end(), same), watches.end());
}

// All of them: any would do.
std::string writers(const std::vector<Watch>& watches) {
  constexpr std::size_t kMost = 16;
  std::string text;
  for (std::size_t i = 0; i < std::min(watches.size(), kMost); ++i) {
    text += (i > 0 ? " or expected writer: " : "") + watches[i].writer();
  }
  return watches.size() > kMost ? text + " or others" : text;
}

emu::Task await_progress(Core& core, std::vector<Watch> watches) {
  merge(watches);
  std::vector<devices::Place> places;
  for (const Watch& each : watches) places.push_back({each.address, each.words * 4});
  const auto ready = [&core, &watches](std::uint32_t place) {
    return watches[place].is_ready(core);
  };
  const auto writer = [&watches](std::uint32_t) { return writers(watches); };
  const std::span<const devices::Place> all = places;
  const emu::Time read = core.costs().poll;
  auto any = core.wait_any(all, ready, read, "rows or room in a ring", writer);
  any.make_growing();
  co_await any;
}

}  // namespace

emu::Task run_roles(Core& core, const std::vector<std::unique_ptr<Role>>& roles) {
  for (;;) {
    bool progress = false;
    bool done = true;
    for (const auto& role : roles) {
      if (role->is_done()) continue;
      co_await role->step(core, progress);
      done = done && role->is_done();
    }
    if (done) co_return;
    if (progress) continue;
    std::vector<Watch> watches;
    for (const auto& role : roles) {
      if (!role->is_done()) role->add_watches(watches);
    }
    co_await await_progress(core, std::move(watches));
  }
}

}  // namespace orrery::moe
