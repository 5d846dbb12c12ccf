#include "fabric/rules.h"

namespace orrery::fabric {

PathRules path_rules(const Fabric& fabric, bool scale_out) {
  PathRules rules{fabric.atomic_block_bytes(), fabric.order_scope(),
                  fabric.order_kind(),         fabric.ack_at(),
                  fabric.ack_bytes(),          fabric.packet_bytes(),
                  fabric.header_bytes(),       fabric.plane_choice(),
                  fabric.choice_per(),         fabric.switch_choice()};
  if (!scale_out) return rules;
  const Rules& other = fabric.scale_out_rules();
  if (other.has_atomic_block_bytes()) rules.block_bytes = other.atomic_block_bytes();
  if (other.has_order_scope()) rules.order_scope = other.order_scope();
  if (other.has_order_kind()) rules.order_kind = other.order_kind();
  if (other.has_ack_at()) rules.ack_at = other.ack_at();
  if (other.has_ack_bytes()) rules.ack_bytes = other.ack_bytes();
  if (other.has_packet_bytes()) rules.packet_bytes = other.packet_bytes();
  if (other.has_header_bytes()) rules.header_bytes = other.header_bytes();
  if (other.has_plane_choice()) rules.plane_choice = other.plane_choice();
  if (other.has_choice_per()) rules.choice_per = other.choice_per();
  if (other.has_switch_choice()) rules.switch_choice = other.switch_choice();
  return rules;
}

Fabric as_seen_by_nics(const Fabric& fabric) {
  const PathRules rules = path_rules(fabric, true);
  Fabric seen = fabric;
  seen.clear_scale_out_rules();
  seen.set_atomic_block_bytes(rules.block_bytes);
  const bool signals = rules.order_kind == Fabric::SIGNALS;
  seen.set_order_scope(signals ? Fabric::NONE : rules.order_scope);
  seen.set_order_kind(signals ? Fabric::WHOLE : rules.order_kind);
  seen.set_ack_at(rules.ack_at);
  seen.set_ack_bytes(rules.ack_bytes);
  seen.set_packet_bytes(rules.packet_bytes);
  seen.set_header_bytes(rules.header_bytes);
  seen.set_plane_choice(rules.plane_choice);
  seen.set_choice_per(rules.choice_per);
  seen.set_switch_choice(rules.switch_choice);
  return seen;
}

}  // namespace orrery::fabric
