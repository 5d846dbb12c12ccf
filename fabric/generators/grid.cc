#include "fabric/generators/grid.h"

#include <fmt/format.h>

#include <limits>

namespace orrery::fabric {
namespace {

std::string class_name(const std::string& form, int dimension, int dimensions) {
  if (dimensions == 1) return form;
  const int last = static_cast<int>(Topology::kMaxLinkClasses) - 1;
  if (dimension < last) return fmt::format("{}{}", form, dimension);
  return dimensions == last + 1 ? fmt::format("{}{}", form, last)
                                : fmt::format("{}{}+", form, last);
}

}  // namespace

Topology build_grid(TopologyBuilder& builder, const GridForm& form,
                    const google::protobuf::RepeatedField<std::uint32_t>& sizes,
                    const google::protobuf::RepeatedPtrField<LinkSpec>& links) {
  const int dimensions = sizes.size();
  if (dimensions == 0) builder.fail("dimensions", "nothing", "the size of each dimension, e.g. 8");
  if (links.size() != dimensions && links.size() != 1) {
    builder.fail("links", fmt::format("{} links", links.size()),
                 dimensions == 1
                     ? "1"
                     : fmt::format("1 for all dimensions or {}, one per dimension", dimensions));
  }
  std::uint64_t devices = 1;
  std::uint64_t neighbours = 0;
  for (const std::uint32_t size : sizes) {
    devices = saturated_product(devices, size);
    neighbours += form.neighbours(size);
  }
  const std::uint64_t ends = saturated_product(devices, neighbours);
  builder.expect(devices, ends == std::numeric_limits<std::uint64_t>::max() ? ends : ends / 2);

  const auto device_count = static_cast<std::uint32_t>(devices);
  for (std::uint32_t device = 0; device < device_count; ++device) {
    builder.add_node(0, fmt::format("device{}", device));
  }
  std::uint32_t stride = 1;  // between neighbours along the dimension
  for (int i = 0; i < dimensions; ++i) {
    const int link = links.size() == 1 ? 0 : i;
    const auto kind = builder.cable_kind(links[link], fmt::format("links.{}", link),
                                         builder.link_class(class_name(form.name, i, dimensions)));
    for (std::uint32_t device = 0; device < device_count; ++device) {
      const std::uint32_t position = device / stride % sizes[i];
      form.cables(position, sizes[i], [&](std::uint32_t other) {
        builder.add_cable(device, device - position * stride + other * stride, kind);
      });
    }
    stride *= sizes[i];
  }
  return builder.finish(device_count, device_count, 1);
}

}  // namespace orrery::fabric
