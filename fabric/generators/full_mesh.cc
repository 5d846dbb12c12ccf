#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "fabric/generators/generators.h"
#include "fabric/topology_builder.h"

namespace orrery::fabric {
namespace {

// "mesh" for one dimension, mesh0 … mesh3 for up to four; beyond, the last class takes the rest.
std::string class_name(int dimension, int dimensions) {
  if (dimensions == 1) return "mesh";
  const int last = static_cast<int>(Topology::kMaxLinkClasses) - 1;
  if (dimension < last) return fmt::format("mesh{}", dimension);
  return dimensions == last + 1 ? fmt::format("mesh{}", last) : fmt::format("mesh{}+", last);
}

// Cables between devices that differ in one dimension alone, whose neighbours lie `stride` apart.
void add_dimension(TopologyBuilder& builder, std::uint32_t devices, std::uint32_t size,
                   std::uint32_t stride, std::uint32_t kind) {
  for (std::uint32_t device = 0; device < devices; ++device) {
    const std::uint32_t position = device / stride % size;
    for (std::uint32_t other = position + 1; other < size; ++other) {
      builder.add_cable(device, device + (other - position) * stride, kind);
    }
  }
}

}  // namespace

Topology build_full_mesh(const FullMesh& mesh, const std::string& where) {
  TopologyBuilder builder(where, "fabric.full_mesh");
  const int dimensions = mesh.dimensions_size();
  if (dimensions == 0) builder.fail("dimensions", "nothing", "the size of each dimension, e.g. 8");
  if (mesh.links_size() != dimensions && mesh.links_size() != 1) {
    builder.fail("links", fmt::format("{} links", mesh.links_size()),
                 dimensions == 1
                     ? "1"
                     : fmt::format("1 for all dimensions or {}, one per dimension", dimensions));
  }
  std::uint64_t devices = 1;
  std::uint64_t neighbours = 0;
  for (const std::uint32_t size : mesh.dimensions()) {
    devices = saturated_product(devices, size);
    neighbours += size - 1;
  }
  const std::uint64_t links = saturated_product(devices, neighbours);
  builder.expect(devices, links == std::numeric_limits<std::uint64_t>::max() ? links : links / 2);

  const auto device_count = static_cast<std::uint32_t>(devices);
  for (std::uint32_t device = 0; device < device_count; ++device) {
    builder.add_node(0, fmt::format("device{}", device));
  }
  std::uint32_t stride = 1;
  for (int i = 0; i < dimensions; ++i) {
    const int link = mesh.links_size() == 1 ? 0 : i;
    const auto kind = builder.cable_kind(mesh.links(link), fmt::format("links.{}", link),
                                         builder.link_class(class_name(i, dimensions)));
    add_dimension(builder, device_count, mesh.dimensions(i), stride, kind);
    stride *= mesh.dimensions(i);
  }
  return builder.finish(device_count, device_count, 1);
}

}  // namespace orrery::fabric
