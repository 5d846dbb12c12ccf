#include "moe/contract_notes.h"

#include <fmt/format.h>

#include <algorithm>

#include "fabric/rules.h"

namespace orrery::moe {

namespace {

using fabric::Fabric;

Contract::Order given_order(const fabric::PathRules& rules) {
  if (rules.order_scope != Fabric::NONE && rules.order_kind == Fabric::SIGNALS) {
    return Contract::Order::kSignals;
  }
  switch (rules.order_scope) {
    case Fabric::DEVICE_PAIR:
      return Contract::Order::kDevicePair;
    case Fabric::CORE_PAIR:
    case Fabric::QUEUE_PAIR:  // a core's puts take one queue pair to every device
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
    case Contract::Order::kSignals:
      return "of signals after the puts of their core to one device";
    case Contract::Order::kNone:
      break;
  }
  return "none";
}

const char* words_of(Contract::Order given) {
  switch (given) {
    case Contract::Order::kNone:
      return "orders no puts";
    case Contract::Order::kSignals:
      return "orders signals alone";
    default:
      return "orders only those of one core";
  }
}

void add_notes(const std::string& algorithm, Contract contract, const fabric::PathRules& rules,
               const char* network, std::vector<std::string>& notes) {
  const Contract::Order given = given_order(rules);
  if (contract.needs_visible_acknowledgements && rules.ack_at == Fabric::RECEIVED &&
      given < Contract::Order::kDevicePair) {
    notes.push_back(
        fmt::format("{} relies on acknowledgements that say that a put is visible; {} acknowledges "
                    "what is received: expect flags of one core before the data of another",
                    algorithm, network));
  }
  if (given < contract.order) {
    const char* const instead = words_of(given);
    notes.push_back(fmt::format("{} relies on order {}; {} {}: expect flags before their data",
                                algorithm, text_of(contract.order), network, instead));
  } else if (contract.order != Contract::Order::kNone &&
             rules.order_kind == Fabric::FIRST_FRAGMENT) {
    notes.push_back(fmt::format(
        "{} relies on order {}; {} orders only the first fragment of a put after the put before "
        "it: expect data of several packets after later flags",
        algorithm, text_of(contract.order), network));
  }
  if (rules.block_bytes < contract.atomic_block_bytes) {
    notes.push_back(
        fmt::format("{} relies on atomic blocks of {} bytes; {} gives {}: expect torn reads",
                    algorithm, contract.atomic_block_bytes, network, rules.block_bytes));
  }
}

}  // namespace

std::vector<std::string> contract_notes(const std::string& algorithm, const Contract& contract,
                                        const Fabric& fabric) {
  std::vector<std::string> notes;
  const bool two = fabric.has_scale_out_rules();
  add_notes(algorithm, contract, fabric::path_rules(fabric, false),
            two ? "this fabric's scale-up network" : "this fabric", notes);
  if (two) {
    Contract of_nics = contract;
    of_nics.order = std::max(contract.order, contract.scale_out_order);
    add_notes(algorithm, of_nics, fabric::path_rules(fabric, true),
              "this fabric's scale-out network", notes);
  }
  return notes;
}

}  // namespace orrery::moe
