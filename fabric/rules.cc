#include "fabric/rules.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <vector>

#include "emu/errors.h"

namespace orrery::fabric {

namespace {

// Lays scale_out_rules over their namesakes.
Fabric overlaid(Fabric fabric) {
  const Rules rules = fabric.scale_out_rules();
  fabric.clear_scale_out_rules();
  std::vector<const google::protobuf::FieldDescriptor*> given;
  rules.GetReflection()->ListFields(rules, &given);
  for (const auto* field : given) {
    const auto* namesake = Fabric::descriptor()->FindFieldByName(field->name());
    if (namesake == nullptr) throw emu::InvariantError("Fabric has no " + field->name());
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_ENUM) {
      fabric.GetReflection()->SetEnumValue(&fabric, namesake,
                                           rules.GetReflection()->GetEnumValue(rules, field));
    } else if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_UINT32) {
      throw emu::InvariantError("scale_out_rules." + field->name() + " is of another type");
    } else {
      fabric.GetReflection()->SetUInt32(&fabric, namesake,
                                        rules.GetReflection()->GetUInt32(rules, field));
    }
  }
  return fabric;
}

}  // namespace

PathRules path_rules(const Fabric& fabric, bool scale_out) {
  if (scale_out && fabric.has_scale_out_rules()) return path_rules(overlaid(fabric), false);
  return {fabric.atomic_block_bytes(), fabric.order_scope(),
          fabric.order_kind(),         fabric.ack_at(),
          fabric.ack_bytes(),          fabric.packet_bytes(),
          fabric.header_bytes(),       fabric.plane_choice(),
          fabric.choice_per(),         fabric.switch_choice()};
}

Fabric as_seen_by_nics(const Fabric& fabric) {
  Fabric seen = overlaid(fabric);
  if (seen.order_kind() == Fabric::SIGNALS) {
    seen.set_order_scope(Fabric::NONE);
    seen.set_order_kind(Fabric::WHOLE);
  }
  return seen;
}

}  // namespace orrery::fabric
