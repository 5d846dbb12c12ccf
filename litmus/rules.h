// What a fabric promises, as questions that the verdicts of litmus tests ask. Each answer follows
// from the fabric's parameters and from the contracts of the verbs (devices/core.h) alone.
#pragma once

#include <string>
#include <vector>

#include "fabric/fabric.pb.h"
#include "litmus/program.h"

namespace orrery::litmus {

using fabric::Fabric;

/// Puts of one core to one peer stay in order: at least their first packets.
inline bool orders_a_core(const Fabric& fabric) { return fabric.order_scope() != Fabric::NONE; }
/// The same for a message of several packets: all of it.
inline bool orders_whole(const Fabric& fabric) {
  return orders_a_core(fabric) && fabric.order_kind() == Fabric::WHOLE;
}
/// Puts of different cores of a device stay in the order in which they were issued.
inline bool orders_a_device(const Fabric& fabric) {
  return fabric.order_scope() == Fabric::DEVICE_PAIR;
}

/// A fence waits for acknowledgements (Core::fence).
inline bool waits_in_fence(const Fabric& fabric) { return !orders_whole(fabric); }

/// "order_scope DEVICE_PAIR", "order_kind FIRST_FRAGMENT" and so on, as a file says it.
std::string scope_text(const Fabric& fabric);
std::string kind_text(const Fabric& fabric);
std::string ack_text(const Fabric& fabric);
std::string block_text(const Fabric& fabric);

/// All of these and what else shapes visibility, one text each.
std::vector<std::string> promises(const Fabric& fabric);

}  // namespace orrery::litmus
