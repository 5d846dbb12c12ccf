#include "devices/machine.h"

#include <filesystem>

#include "emu/errors.h"
#include "emu/text_config.h"
#include "fabric/rules.h"

namespace orrery::devices {

namespace {

void check_packets(const fabric::Fabric& fabric, bool scale_out, const std::string& where) {
  const fabric::PathRules rules = fabric::path_rules(fabric, scale_out);
  if (rules.packet_bytes % rules.block_bytes == 0) return;
  const std::string in = scale_out ? "fabric.scale_out_rules." : "fabric.";
  throw emu::ConfigError(
      where, in + "packet_bytes", std::to_string(rules.packet_bytes),
      "a multiple of " + in + "atomic_block_bytes (" + std::to_string(rules.block_bytes) + ")");
}

void check_nic(const Machine& machine, const std::string& where) {
  const Nic& nic = machine.device().nic();
  const fabric::PathRules rules = fabric::path_rules(machine.fabric(), true);
  if (nic.put_signal() == Nic::QUEUE_PAIR && (rules.order_scope == fabric::Fabric::NONE ||
                                              rules.order_kind == fabric::Fabric::FIRST_FRAGMENT)) {
    throw emu::ConfigError(
        where, "device.nic.put_signal", "QUEUE_PAIR",
        "FENCE or FENCE_FLAG: fabric.scale_out_rules keep no order of a put and its signal");
  }
  if (nic.posting() == Nic::PROXY) {
    if (nic.fence() != Nic::NOTHING || rules.orders_all()) return;
    throw emu::ConfigError(
        where, "device.nic.fence", "NOTHING",
        "DESTINATION or ENDPOINT: fabric.scale_out_rules do not order all puts of a queue pair");
  }
  if (nic.put_signal() == Nic::FENCE) {
    throw emu::ConfigError(where, "device.nic.put_signal", "FENCE",
                           "QUEUE_PAIR or FENCE_FLAG: there is no proxy (device.nic.posting)");
  }
  if (nic.add_by() == Nic::PEER_PROXY) {
    throw emu::ConfigError(where, "device.nic.add_by", "PEER_PROXY",
                           "NIC: there is no proxy (device.nic.posting)");
  }
  if (nic.signal_by() == Nic::PEER_PROXY) {
    throw emu::ConfigError(where, "device.nic.signal_by", "PEER_PROXY",
                           "NIC: there is no proxy (device.nic.posting)");
  }
}

}  // namespace

void check_machine(const Machine& machine, const std::string& where) {
  emu::check_ranges(machine, where);
  check_packets(machine.fabric(), false, where);
  check_packets(machine.fabric(), true, where);
  if (machine.device().has_nic()) check_nic(machine, where);
}

namespace {

void set_fields(Machine& machine, const Overrides& overrides) {
  for (const auto& [field, value] : overrides) {
    if (field.rfind("fabric.", 0) == 0 || field.rfind("device.", 0) == 0) {
      emu::set_field(machine, field, value, "--set");
    }
  }
}

// Puts the preset under what `machine` says itself.
void lay_under(const std::string& preset_name, const std::string& path, Machine& machine) {
  const bool is_path = preset_name.find('/') != std::string::npos;
  const std::string file =
      is_path ? preset_name
              : (std::filesystem::path(path).parent_path() / "nics" / (preset_name + ".textproto"))
                    .string();
  if (!is_path && !std::filesystem::exists(file)) {
    throw emu::ConfigError(path, "device.nic_preset", preset_name,
                           "the name of a file in nics/ beside the topology file, or a path");
  }
  NicPreset preset;
  emu::load_text_file(file, preset);
  emu::check_ranges(preset, file);
  Nic nic = preset.nic();
  nic.MergeFrom(machine.device().nic());
  *machine.mutable_device()->mutable_nic() = nic;
  fabric::Rules rules = preset.scale_out_rules();
  rules.MergeFrom(machine.fabric().scale_out_rules());
  *machine.mutable_fabric()->mutable_scale_out_rules() = rules;
}

}  // namespace

Machine load_machine(const std::string& path, const Overrides& overrides) {
  Machine machine;
  emu::load_text_file(path, machine);
  set_fields(machine, overrides);
  if (!machine.device().nic_preset().empty()) {
    lay_under(machine.device().nic_preset(), path, machine);
  }
  check_machine(machine, path);
  return machine;
}

}  // namespace orrery::devices
