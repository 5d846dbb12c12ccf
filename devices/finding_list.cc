#include "devices/finding_list.h"

namespace orrery::devices {

std::uint32_t FindingList::place(const std::string& operation, const std::string& phase) {
  const auto [it, is_new] =
      place_numbers_.try_emplace({operation, phase}, static_cast<std::uint32_t>(places_.size()));
  if (is_new) places_.emplace_back(operation, phase);
  return it->second;
}

FindingSide FindingList::side(const Access& access) const {
  const auto& [operation, phase] = places_[access.place];
  return {access.moment.core / cores_,
          access.moment.core % cores_,
          access.verb,
          operation,
          phase,
          access.iteration,
          access.time};
}

void FindingList::add(FindingKind kind, std::uint32_t rank, fabric::Address begin,
                      fabric::Address end, const Access& second, const Access* first) {
  const auto [it, is_new] = numbers_.try_emplace(
      {kind, second.place, second.verb, first != nullptr ? first->place : ~std::uint32_t{0},
       first != nullptr ? first->verb : Verb::kHost},
      findings_.size());
  if (is_new) {
    Finding finding;
    finding.kind = kind;
    finding.second = side(second);
    finding.has_first = first != nullptr;
    if (first != nullptr) finding.first = side(*first);
    finding.device = rank;
    finding.address = begin;
    finding.bytes = end - begin;
    findings_.push_back(std::move(finding));
  }
  ++findings_[it->second].count;
}

}  // namespace orrery::devices
