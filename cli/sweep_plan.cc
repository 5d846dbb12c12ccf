#include "cli/sweep_plan.h"

#include <fmt/format.h>

#include <unordered_set>

#include "cli/value_list.h"
#include "emu/errors.h"

namespace orrery::cli {

namespace {
constexpr const char* kVary = "--vary";

void refuse_twice(const std::vector<std::string>& names, const std::string& field) {
  std::unordered_set<std::string> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) throw emu::ConfigError(kVary, field, name, "each only once");
  }
}
}  // namespace

SweepPlan::SweepPlan(const SweepRequest& request) : axes_(request.axes), zip_(request.zip) {
  if (axes_.empty()) {
    throw emu::ConfigError(kVary, "", "nothing", "at least one key=value,value,…");
  }
  for (const auto& [key, value] : request.fixed) set_key(fixed_, "--" + key, key, value);
  if (zip_) {
    size_ = axes_.front().values.size();
    for (const Axis& axis : axes_) {
      if (axis.values.size() == size_) continue;
      throw emu::ConfigError("--zip", axis.key, fmt::format("{} of them", axis.values.size()),
                             fmt::format("as many values as {} has, {}", axes_.front().key, size_));
    }
  } else {
    for (const Axis& axis : axes_) {
      refuse_twice(axis.values, axis.key);
      size_ *= axis.values.size();
      if (size_ > kMostPoints) {
        throw emu::ConfigError(kVary, axis.key, fmt::format("{} values", axis.values.size()),
                               fmt::format("at most {} points in all", kMostPoints));
      }
    }
  }
  if (zip_) {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < size_; ++i) keys.push_back(key(i));
    refuse_twice(keys, "");
  }
  RunOptions first = fixed_;
  for (const Axis& axis : axes_) set_key(first, kVary, axis.key, axis.values.front());
  for (const auto& [name, value] :
       {std::pair("--topology", &first.topology), std::pair("--algorithm", &first.algorithm)}) {
    if (value->empty()) {
      throw emu::ConfigError(name, "", "nothing",
                             fmt::format("this flag, or it among those of {}", kVary));
    }
  }
  check_axes(axes_, first, kVary);
}

std::vector<std::size_t> SweepPlan::coordinates(std::size_t number) const {
  std::vector<std::size_t> at(axes_.size(), number);
  if (zip_) return at;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    at[i] = number % axes_[i].values.size();
    number /= axes_[i].values.size();
  }
  return at;
}

std::vector<std::pair<std::string, std::string>> SweepPlan::varied(std::size_t number) const {
  const std::vector<std::size_t> at = coordinates(number);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    pairs.emplace_back(axes_[i].key, axes_[i].values[at[i]]);
  return pairs;
}

std::string SweepPlan::key(std::size_t number) const {
  std::string key;
  for (const auto& [name, value] : varied(number))
    key += fmt::format("{}{}={}", key.empty() ? "" : " ", name, value);
  return key;
}

RunOptions SweepPlan::options(std::size_t number) const {
  RunOptions options = fixed_;
  for (const auto& [name, value] : varied(number)) set_key(options, kVary, name, value);
  return options;
}

}  // namespace orrery::cli
