#include "moe/contract_notes.h"

#include <fmt/format.h>

namespace orrery::moe {

namespace {

using fabric::Fabric;

Contract::Order given_order(const Fabric& fabric) {
  switch (fabric.order_scope()) {
    case Fabric::DEVICE_PAIR:
      return Contract::Order::kDevicePair;
    case Fabric::CORE_PAIR:
    case Fabric::QUEUE_PAIR:  // cores have a queue of their own to every device
      return Contract::Order::kCorePair;
    case Fabric::NONE:
      break;
  }
  return Contract::Order::kNone;
}

const char* text_of(Contract::Order order) {
  switch (order) {
    case Contract::Order::kDevicePair:
      return "between the puts of all cores of a device to one device";
    case Contract::Order::kCorePair:
      return "between the puts of one core to one device";
    case Contract::Order::kNone:
      break;
  }
  return "none";
}

}  // namespace

std::vector<std::string> contract_notes(const std::string& algorithm, const Contract& contract,
                                        const Fabric& fabric) {
  std::vector<std::string> notes;
  const Contract::Order given = given_order(fabric);
  if (given < contract.order) {
    const char* const instead =
        given == Contract::Order::kNone ? "orders no puts" : "orders only those of one core";
    notes.push_back(
        fmt::format("{} relies on order {}; this fabric {}: expect flags before their "
                    "data",
                    algorithm, text_of(contract.order), instead));
  } else if (contract.order != Contract::Order::kNone &&
             fabric.order_kind() == Fabric::FIRST_FRAGMENT) {
    notes.push_back(fmt::format(
        "{} relies on order {}; this fabric orders only the first fragment of a put after the put "
        "before it: expect data of several packets after later flags",
        algorithm, text_of(contract.order)));
  }
  if (fabric.atomic_block_bytes() < contract.atomic_block_bytes) {
    notes.push_back(
        fmt::format("{} relies on atomic blocks of {} bytes; this fabric gives {}: expect torn "
                    "reads",
                    algorithm, contract.atomic_block_bytes, fabric.atomic_block_bytes()));
  }
  return notes;
}

}  // namespace orrery::moe
