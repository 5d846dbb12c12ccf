// The transport of a run with one process: a put is a copy to itself, everything is immediate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emu/transport.h"
#include "emu/transports/mapped_memory.h"

namespace orrery::emu {

class LocalTransport final : public Transport {
 public:
  std::string name() const override { return "local"; }
  std::span<std::byte> expose(std::size_t bytes) override;
  void put(int peer, std::uint64_t offset, std::span<const std::byte> bytes) override;
  void flush() override {}
  void progress() override {}
  void start_min(std::span<const std::int64_t> values) override;
  bool test_min(std::span<std::int64_t> values) override;

 private:
  MappedMemory landing_;
  std::vector<std::int64_t> values_;
};

}  // namespace orrery::emu
