// Experts that take no more than so many rows of each device: what comes beyond is dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "moe/problem.h"
#include "moe/routing_table.h"

namespace orrery::moe {

/// Tutel's location of every entry (token * top_k + k) among those of its device for the same
/// expert: all first choices in order of tokens, then all second ones, and so on. `ids`: int32
/// [tokens][top_k], -1 masked; `top_k` ≥ 1. Masked entries have location 0. Experts outside
/// [first, last) are passed over.
std::vector<std::uint32_t> locations(std::span<const std::int32_t> ids, std::uint32_t top_k,
                                     std::uint32_t first, std::uint32_t last);

/// `problem` without the entries whose location is `capacity` or more: they are masked in its
/// tables, so that nothing expects them to arrive. `dropped`, if not null: how many there were.
Problem with_capacity(Problem problem, std::uint32_t capacity, std::uint64_t* dropped);

/// A problem, and what of it a capacity factor lets through: an expert takes top_k * int(factor *
/// ceil(tokens / experts)) rows of each device, with the tokens of the fullest device. Without a
/// factor (0) that is everything. Refers to `problem`.
class Admitted {
 public:
  Admitted(const Problem& problem, double factor);

  const Problem& given() const { return given_; }
  const Problem& admitted() const { return capped_ ? *capped_ : given_; }
  std::optional<std::uint32_t> capacity() const { return capacity_; }
  std::uint64_t dropped() const { return dropped_; }
  /// Rows that it lets through, of all calls.
  std::uint64_t admitted_rows() const;

 private:
  const Problem& given_;
  std::optional<std::uint32_t> capacity_;
  std::uint64_t dropped_ = 0;
  std::optional<Problem> capped_;
};

}  // namespace orrery::moe
