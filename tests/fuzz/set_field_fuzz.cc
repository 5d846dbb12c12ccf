// Any "path=value" on a fabric, and any placement: a ConfigError or a message that still passes its
// checks.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "emu/errors.h"
#include "emu/text_config.h"
#include "fabric/placement.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orrery;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t equals = text.find('=');
  const std::string value = equals == std::string::npos ? text : text.substr(equals + 1);
  fabric::Fabric fabric;
  emu::parse_text("full_mesh { dimensions: 4 links { latency_ns: 1 gb_per_s: 1 } }", "fuzz",
                  fabric);
  static const fabric::Topology topology = fabric::build_topology(fabric, "fuzz");
  bool set = true;
  try {
    emu::set_field(fabric, text.substr(0, equals), value, "--set");
  } catch (const emu::ConfigError&) {
    set = false;
  }
  try {
    emu::check_ranges(fabric, "fuzz");
  } catch (const emu::ConfigError&) {
    std::abort();  // set_field let a bad value through
  }
  if (set && fabric.generator_case() != fabric::Fabric::kFullMesh) std::abort();
  try {
    fabric::place(topology, 1 + static_cast<std::uint32_t>(size % 4), value);
  } catch (const emu::ConfigError&) {
  }
  return 0;
}
