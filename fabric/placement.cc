#include "fabric/placement.h"

#include <charconv>
#include <string_view>

#include "emu/errors.h"

namespace orrery::fabric {
namespace {

constexpr const char* kWhere = "--placement";

std::vector<NodeId> spread(const Topology& topology, std::uint32_t count) {
  std::vector<NodeId> ports;
  ports.reserve(count);
  for (std::uint32_t slot = 0; slot < topology.devices_per_node; ++slot) {
    for (std::uint32_t port = slot; port < topology.devices; port += topology.devices_per_node) {
      if (ports.size() == count) return ports;
      ports.push_back(port);
    }
  }
  return ports;
}

// One item of a list: "7" or "16-23".
class Item {
 public:
  Item(std::string_view text, std::uint32_t devices) : text_(text) {
    const std::size_t dash = text.find('-');
    first = number(text.substr(0, dash), devices);
    last = dash == std::string_view::npos ? first : number(text.substr(dash + 1), devices);
    if (last < first) fail("a range that runs upwards");
  }
  std::uint32_t first;
  std::uint32_t last;

 private:
  [[noreturn]] void fail(const std::string& expectation) const {
    throw emu::ConfigError(kWhere, "", std::string(text_), expectation);
  }
  std::uint32_t number(std::string_view digits, std::uint32_t devices) const {
    std::uint32_t value = 0;
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, value);
    if (digits.empty() || parsed.ptr != end ||
        (parsed.ec != std::errc() && parsed.ec != std::errc::result_out_of_range)) {
      fail("packed, spread, or a list of device ports as 0-7,16,20-23");
    }
    if (parsed.ec != std::errc() || value >= devices) {
      fail("device ports from 0 to " + std::to_string(devices - 1));
    }
    return value;
  }

  std::string_view text_;
};

std::vector<NodeId> listed(const Topology& topology, std::uint32_t count, const std::string& how) {
  std::vector<NodeId> ports;
  std::vector<bool> used(topology.devices, false);
  for (std::string_view rest = how;;) {
    const std::size_t comma = rest.find(',');
    const Item item(rest.substr(0, comma), topology.devices);
    for (std::uint32_t port = item.first; port <= item.last; ++port) {
      if (used[port]) {
        throw emu::ConfigError(kWhere, "", how,
                               "each device port once, not " + std::to_string(port) + " twice");
      }
      used[port] = true;
      ports.push_back(port);
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (ports.size() != count) {
    throw emu::ConfigError(kWhere, "", std::to_string(ports.size()) + " device ports",
                           std::to_string(count) + ", one per device of the run");
  }
  return ports;
}

}  // namespace

std::vector<NodeId> place(const Topology& topology, std::uint32_t count, const std::string& how) {
  if (count == 0 || count > topology.devices) {
    throw emu::ConfigError(
        "--devices", "", std::to_string(count),
        "from 1 to " + std::to_string(topology.devices) + ", the devices of the topology");
  }
  if (how == "spread") return spread(topology, count);
  if (how != "packed") return listed(topology, count, how);
  // Devices are numbered node by node.
  std::vector<NodeId> ports(count);
  for (std::uint32_t rank = 0; rank < count; ++rank) ports[rank] = rank;
  return ports;
}

}  // namespace orrery::fabric
