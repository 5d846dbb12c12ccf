// The findings of the happens-before checker as they come: each kind once for every pair of places
// in the program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "devices/order_finding.h"
#include "devices/shadow_memory.h"
#include "fabric/packet.h"

namespace orrery::devices {

class FindingList {
 public:
  /// `cores`: of each device, to tell devices by the numbers of their cores.
  explicit FindingList(std::uint32_t cores) : cores_(cores) {}

  /// The number of a place in a program, for Access::place.
  std::uint32_t place(const std::string& operation, const std::string& phase);
  /// `second` is not ordered after `first` (null: nothing was there) where both touch [begin, end)
  /// of device `rank`.
  void add(FindingKind kind, std::uint32_t rank, fabric::Address begin, fabric::Address end,
           const Access& second, const Access* first);
  /// In the order in which they were found.
  const std::vector<Finding>& findings() const { return findings_; }

 private:
  FindingSide side(const Access& access) const;

  const std::uint32_t cores_;
  std::map<std::pair<std::string, std::string>, std::uint32_t> place_numbers_;
  std::vector<std::pair<std::string, std::string>> places_;  // operation, phase
  std::map<std::tuple<FindingKind, std::uint32_t, Verb, std::uint32_t, Verb>, std::size_t> numbers_;
  std::vector<Finding> findings_;
};

}  // namespace orrery::devices
