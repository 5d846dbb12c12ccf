#include "devices/machine.h"

#include "emu/errors.h"
#include "emu/text_config.h"

namespace orrery::devices {

void check_machine(const Machine& machine, const std::string& where) {
  emu::check_ranges(machine, where);
  const auto& fabric = machine.fabric();
  if (fabric.packet_bytes() % fabric.atomic_block_bytes() != 0) {
    throw emu::ConfigError(where, "fabric.packet_bytes", std::to_string(fabric.packet_bytes()),
                           "a multiple of fabric.atomic_block_bytes (" +
                               std::to_string(fabric.atomic_block_bytes()) + ")");
  }
}

Machine load_machine(const std::string& path, const Overrides& overrides) {
  Machine machine;
  emu::load_text_file(path, machine);
  for (const auto& [field, value] : overrides) {
    if (field.rfind("fabric.", 0) == 0 || field.rfind("device.", 0) == 0) {
      emu::set_field(machine, field, value, "--set");
    }
  }
  check_machine(machine, path);
  return machine;
}

}  // namespace orrery::devices
