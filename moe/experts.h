// The experts of a layer: rows in, rows out, with real bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "moe/expert_placement.h"
#include "moe/quantise.h"
#include "moe/routing_table.h"
#include "moe/strided_rows.h"
#include "moe/swiglu.h"
#include "moe/workload.pb.h"

namespace orrery::moe {

enum class ExpertKind : std::uint8_t { kSwiGlu, kCheapTransform };

/// Whether the real network is affordable: the most loaded device's rows x hidden x intermediate
/// are at most workload.real_ffn_limit, and the weights of all experts (a verifying process needs
/// all) at most 512 MiB. All processes decide alike, since the table is the same everywhere.
bool uses_real_ffn(const Workload& workload, const RoutingTable& table,
                   const ExpertPlacement& placement);

/// Modelled floating point operations per row: gate, up and down projection, two each per weight.
/// Does not depend on what the emulator computes instead.
std::uint64_t ffn_flops(const Workload& workload);

/// All experts of a layer. A row's output depends on (seed, expert, row) alone: batch-invariant,
/// any number of threads. SwiGLU weights are made at first use; copies share them. Safe from
/// several threads.
class Experts {
 public:
  Experts(const Workload& workload, std::uint64_t seed, ExpertKind kind);

  std::uint32_t hidden() const { return hidden_; }
  ExpertKind kind() const { return kind_; }

  /// One row of `hidden` elements, int8 with its scale or bf16, to a bf16 row of `hidden`.
  void apply(std::uint32_t expert, std::span<const std::int8_t> q, float scale,
             std::span<std::uint16_t> out) const;
  void apply(std::uint32_t expert, std::span<const std::uint16_t> row,
             std::span<std::uint16_t> out) const;

  /// One encoded row (encode_row), of any precision. `payload` is aligned for its elements.
  void apply(std::uint32_t expert, Precision precision, std::span<const std::byte> payload,
             float scale, std::span<std::uint16_t> out) const;

  /// All rows of `q` (`rows`), through OpenMP with `num_threads` threads. Scales are rows of one
  /// column.
  void apply(std::uint32_t expert, StridedRows<const std::int8_t> q,
             StridedRows<const float> scales, StridedRows<std::uint16_t> out,
             int num_threads) const;
  void apply(std::uint32_t expert, StridedRows<const std::uint16_t> rows,
             StridedRows<std::uint16_t> out, int num_threads) const;

 private:
  struct Slot;
  const SwiGlu& network(std::uint32_t expert) const;

  std::uint64_t seed_;
  std::uint32_t hidden_;
  std::uint32_t intermediate_;
  ExpertKind kind_;
  std::shared_ptr<Slot[]> slots_;
};

}  // namespace orrery::moe
