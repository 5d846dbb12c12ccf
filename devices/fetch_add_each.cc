#include "devices/fetch_add_each.h"

#include <utility>

#include "devices/cost.h"
#include "devices/device_process.h"

namespace orrery::devices {

bool FetchAddEachOperation::begin(Core& core) {
  if (words_.empty()) return false;
  const emu::Time takes = core.costs().local_atomic;
  if (takes == 0) {
    advance(core);
    return false;
  }
  core.device().log(core.index(), {.amount = static_cast<std::uint64_t>(takes),
                                   .kind = fabric::CausalKind::kSpend,
                                   .detail = static_cast<std::uint8_t>(Cost::kLocalAtomic)});
  return core.spend(Category::kLocalAtomic, takes);
}

bool FetchAddEachOperation::advance(Core& core) {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    core.note({.address = words_[i],
               .bytes = sizeof(std::uint32_t),
               .kind = CheckKind::kFetchAdd,
               .detail = static_cast<std::uint8_t>(Verb::kFetchAdd)});
    before_[i] = std::as_const(core.memory()).load<std::uint32_t>(words_[i]);
    core.memory().store(words_[i], before_[i] + value_);
  }
  return true;
}

}  // namespace orrery::devices
