// Where Tutel puts every row: its location among the rows of this device for its expert, and how
// many of them an expert takes from a device.
#pragma once

#include <cstdint>
#include <optional>

#include "devices/core.h"
#include "moe/layout.h"
#include "moe/problem.h"

namespace orrery::moe {

class TutelGate {
 public:
  /// `capacity`: rows that every expert takes of every device; if none, as many as the largest
  /// count of all needs, which devices agree on in every call.
  TutelGate(const Problem& problem, std::optional<std::uint32_t> capacity, Layout& layout);

  /// All cores; ends in a core barrier. `call` counts from 1; `ids`: int32 [entries], of an
  /// (expert) or -1 each. Without a fixed capacity no device ends a call before every device has
  /// begun it.
  emu::Task run(devices::Core& core, std::uint32_t call, fabric::Address ids,
                std::uint32_t entries) const;

  // --- What every core knows afterwards ---
  std::uint32_t capacity(devices::Core& core) const { return core.load<std::uint32_t>(capacity_); }
  /// Of an entry that is not masked; what is not below the capacity is dropped.
  std::uint32_t location(devices::Core& core, std::uint32_t entry) const {
    return core.load<std::uint32_t>(location_at(entry));
  }
  /// Rows of this device for `expert`, dropped ones included.
  std::uint32_t count(devices::Core& core, std::uint32_t expert) const {
    return core.load<std::uint32_t>(count_at(expert));
  }

 private:
  fabric::Address location_at(std::uint32_t entry) const {
    return locations_ + std::uint64_t{entry} * 4;
  }
  fabric::Address count_at(std::uint32_t expert) const {
    return counts_ + std::uint64_t{expert} * 4;
  }
  emu::Task locate(devices::Core& core, fabric::Address ids, std::uint32_t entries) const;
  emu::Task agree(devices::Core& core, std::uint32_t call) const;

  const Problem& problem_;
  const std::optional<std::uint32_t> fixed_;
  fabric::Address locations_;  // uint32 [entry]
  fabric::Address counts_;     // uint32 [expert]
  fabric::Address maxima_;     // uint64 [source]: a call and its largest count
  fabric::Address capacity_;   // uint32
};

}  // namespace orrery::moe
