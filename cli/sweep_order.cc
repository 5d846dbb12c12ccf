#include "cli/sweep_order.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

namespace orrery::cli {

namespace {

std::optional<double> to_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

SweepOrder::SweepOrder(const std::string& sweep_json) {
  try {
    const auto json = nlohmann::json::parse(sweep_json);
    for (const auto& axis : json.at("vary")) {
      values_[axis.at("key").get<std::string>()] =
          axis.at("values").get<std::vector<std::string>>();
    }
  } catch (const nlohmann::json::exception&) {
    values_.clear();
  }
}

bool SweepOrder::is_before(const std::string& key, const std::string& a,
                           const std::string& b) const {
  if (const auto it = values_.find(key); it != values_.end()) {
    const auto& values = it->second;
    const auto x = std::find(values.begin(), values.end(), a);
    const auto y = std::find(values.begin(), values.end(), b);
    if (x != y) return x < y;  // what is not among them comes last
  }
  const auto x = to_number(a);
  const auto y = to_number(b);
  if (x && y && *x != *y) return *x < *y;
  return x.has_value() != y.has_value() ? x.has_value() : a < b;
}

bool SweepOrder::is_before(const PointRecord& a, const PointRecord& b) const {
  for (int i = 0; i < std::min(a.varied_size(), b.varied_size()); ++i) {
    const Varied& x = a.varied(i);
    const Varied& y = b.varied(i);
    if (x.name() != y.name()) return x.name() < y.name();
    if (x.value() != y.value()) return is_before(x.name(), x.value(), y.value());
  }
  return a.varied_size() != b.varied_size() ? a.varied_size() < b.varied_size() : a.key() < b.key();
}

}  // namespace orrery::cli
