#include "litmus/scene.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace orrery::litmus {

namespace {
const auto kWriter = [](std::uint32_t) -> std::string { return "another device of the program"; };
}  // namespace

std::uint32_t Scene::row_bytes() const {
  constexpr std::uint32_t kBlocks = 4;
  return std::max(kBlocks * block_bytes(), std::uint32_t{64});
}

void Scene::fill(Core& core, Address address, std::uint32_t bytes, std::uint32_t value) {
  for (std::uint32_t at = 0; at < bytes; at += sizeof(value)) core.write(address + at, value);
}

Holds Scene::look(Core& core, Address address, std::uint32_t bytes, std::uint32_t value) {
  const auto held = core.probe(address, bytes);
  std::uint32_t matches = 0;
  const std::uint32_t words = bytes / static_cast<std::uint32_t>(sizeof(value));
  for (std::uint32_t i = 0; i < words; ++i) {
    matches += std::memcmp(held.data() + i * sizeof(value), &value, sizeof(value)) == 0 ? 1 : 0;
  }
  return matches == words ? kNew : matches == 0 ? kOld : kTorn;
}

std::uint32_t Scene::word(Core& core, Address address) {
  std::uint32_t value;
  std::memcpy(&value, core.probe(address, sizeof(value)).data(), sizeof(value));
  return value;
}

devices::Await<devices::WaitOperation> Scene::see(Core& core, Address address,
                                                  std::uint32_t value) {
  return core.wait_until({address, 4, 4, 1, 0}, devices::word_equals(value), kWriter);
}

devices::Await<devices::SpendOperation> Scene::pause(Core& core, double most_ns) {
  constexpr std::uint64_t kScales = 6;
  const emu::Time longest = emu::from_ns(most_ns) + 2 * core.costs().service_core_put;
  const auto most = static_cast<std::uint64_t>(longest) >> random_.below(kScales);
  return core.compute(static_cast<emu::Time>(random_.below(most + 1)));
}

}  // namespace orrery::litmus
