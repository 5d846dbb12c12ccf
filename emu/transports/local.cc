#include "emu/transports/local.h"

#include <algorithm>
#include <cstring>

#include "emu/errors.h"
#include "emu/transports/landing.h"

namespace orrery::emu {

std::span<std::byte> LocalTransport::expose(std::size_t bytes) {
  landing_ = MappedMemory(bytes);
  return landing_.bytes();
}

void LocalTransport::put(int peer, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (peer != 0) throw InvariantError("the local transport has no process " + std::to_string(peer));
  check_put(peer, offset, bytes.size(), landing_.bytes().size());
  if (!bytes.empty()) std::memcpy(landing_.bytes().data() + offset, bytes.data(), bytes.size());
}

void LocalTransport::start_min(std::span<const std::int64_t> values) {
  values_.assign(values.begin(), values.end());
}

bool LocalTransport::test_min(std::span<std::int64_t> values) {
  if (values.size() != values_.size()) throw InvariantError("a reduction changed its length");
  std::copy(values_.begin(), values_.end(), values.begin());
  return true;
}

}  // namespace orrery::emu
