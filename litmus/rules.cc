#include "litmus/rules.h"

namespace orrery::litmus {

std::string scope_text(const Fabric& fabric) {
  return "order_scope " + Fabric::OrderScope_Name(fabric.order_scope());
}
std::string kind_text(const Fabric& fabric) {
  return "order_kind " + Fabric::OrderKind_Name(fabric.order_kind());
}
std::string ack_text(const Fabric& fabric) {
  return "ack_at " + Fabric::AckAt_Name(fabric.ack_at());
}
std::string block_text(const Fabric& fabric) {
  return "atomic_block_bytes " + std::to_string(fabric.atomic_block_bytes());
}

std::vector<std::string> promises(const Fabric& fabric) {
  return {scope_text(fabric), kind_text(fabric), ack_text(fabric), block_text(fabric)};
}

}  // namespace orrery::litmus
