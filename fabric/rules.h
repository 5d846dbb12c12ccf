// How packets travel and become visible in one network of a fabric: the scale-up network, or what
// its NICs are joined by.
#pragma once

#include <cstdint>

#include "fabric/fabric.pb.h"

namespace orrery::fabric {

struct PathRules {
  std::uint32_t block_bytes;  // visible at once
  Fabric::OrderScope order_scope;
  Fabric::OrderKind order_kind;
  Fabric::AckAt ack_at;
  std::uint32_t ack_bytes;
  std::uint32_t packet_bytes;
  std::uint32_t header_bytes;
  Fabric::PlaneChoice plane_choice;
  Fabric::ChoicePer choice_per;
  Fabric::SwitchChoice switch_choice;

  /// Whether all messages of a channel become visible in the order of their issue.
  bool orders_all() const { return order_scope != Fabric::NONE && order_kind == Fabric::WHOLE; }
};

/// Of the scale-up network (or the only one), or of the scale-out network.
PathRules path_rules(const Fabric& fabric, bool scale_out);

/// `fabric` as devices of different scale-up domains see it: its rules are those between NICs.
/// Where only signals are ordered, puts and flags are not.
Fabric as_seen_by_nics(const Fabric& fabric);

}  // namespace orrery::fabric
