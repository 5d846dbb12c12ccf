// The routing of one iteration: which experts each token of each device goes to, with which
// weights.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace orrery::moe {

/// Flat arrays by (device, token, k). An *entry* is one (token, k); id -1 marks a masked entry,
/// which goes nowhere and adds nothing. Token counts may differ per device and be zero.
class RoutingTable {
 public:
  static constexpr std::int32_t kMasked = -1;

  RoutingTable(std::uint32_t experts, std::uint32_t top_k, std::span<const std::uint32_t> tokens)
      : experts_(experts), top_k_(top_k), first_token_(tokens.size() + 1, 0) {
    for (std::size_t device = 0; device < tokens.size(); ++device) {
      first_token_[device + 1] = first_token_[device] + tokens[device];
    }
    ids_.assign(first_token_.back() * top_k, kMasked);
    weights_.assign(ids_.size(), 0.0f);
  }

  std::uint32_t experts() const { return experts_; }
  std::uint32_t top_k() const { return top_k_; }
  std::uint32_t devices() const { return static_cast<std::uint32_t>(first_token_.size() - 1); }
  std::uint32_t tokens(std::uint32_t device) const {
    return static_cast<std::uint32_t>(first_token_[device + 1] - first_token_[device]);
  }
  std::uint64_t total_tokens() const { return first_token_.back(); }
  /// Tokens on all devices before `device`.
  std::uint64_t first_token(std::uint32_t device) const { return first_token_[device]; }
  std::uint32_t max_tokens() const {
    std::uint32_t most = 0;
    for (std::uint32_t device = 0; device < devices(); ++device) {
      most = std::max(most, tokens(device));
    }
    return most;
  }

  /// The top_k ids (weights) of one token.
  std::span<const std::int32_t> ids(std::uint32_t device, std::uint32_t token) const {
    return {ids_.data() + at(device, token), top_k_};
  }
  std::span<std::int32_t> ids(std::uint32_t device, std::uint32_t token) {
    return {ids_.data() + at(device, token), top_k_};
  }
  std::span<const float> weights(std::uint32_t device, std::uint32_t token) const {
    return {weights_.data() + at(device, token), top_k_};
  }
  std::span<float> weights(std::uint32_t device, std::uint32_t token) {
    return {weights_.data() + at(device, token), top_k_};
  }
  /// All ids of one device, tokens(device) * top_k of them, token by token.
  std::span<const std::int32_t> ids(std::uint32_t device) const {
    return {ids_.data() + at(device, 0), std::size_t{tokens(device)} * top_k_};
  }

  /// Calls visit(token, k, expert, weight) for each entry of `device` that is not masked, tokens
  /// and k ascending.
  template <typename Visit>
  void for_each_entry(std::uint32_t device, Visit&& visit) const {
    for (std::uint32_t token = 0; token < tokens(device); ++token) {
      const std::size_t first = at(device, token);
      for (std::uint32_t k = 0; k < top_k_; ++k) {
        const std::int32_t id = ids_[first + k];
        if (id >= 0) visit(token, k, static_cast<std::uint32_t>(id), weights_[first + k]);
      }
    }
  }

  /// Rows each expert receives from one device, by expert. One pass over the device's entries.
  std::vector<std::uint32_t> counts(std::uint32_t device) const {
    std::vector<std::uint32_t> rows(experts_, 0);
    for (const std::int32_t id : ids(device)) {
      if (id >= 0) ++rows[static_cast<std::size_t>(id)];
    }
    return rows;
  }
  /// Rows each expert receives from all devices, by expert. One pass over all entries.
  std::vector<std::uint64_t> counts() const {
    std::vector<std::uint64_t> rows(experts_, 0);
    for (const std::int32_t id : ids_) {
      if (id >= 0) ++rows[static_cast<std::size_t>(id)];
    }
    return rows;
  }
  /// Entries that are not masked, over all devices.
  std::uint64_t total_entries() const {
    return static_cast<std::uint64_t>(
        std::count_if(ids_.begin(), ids_.end(), [](std::int32_t id) { return id >= 0; }));
  }

  bool operator==(const RoutingTable&) const = default;

 private:
  std::size_t at(std::uint32_t device, std::uint32_t token) const {
    return (first_token_[device] + token) * top_k_;
  }

  std::uint32_t experts_;
  std::uint32_t top_k_;
  std::vector<std::uint64_t> first_token_;
  std::vector<std::int32_t> ids_;
  std::vector<float> weights_;
};

}  // namespace orrery::moe
