#include "moe/algorithms/ubep_whitening.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "moe/row_checksum.h"
#include "moe/row_identity.h"

namespace orrery::moe::ubep {

using devices::Core;
using fabric::Address;

namespace {

// Vector passes over 32-bit elements: xor; add, mix for the sum.
constexpr int kWhitenPasses = 1;
constexpr int kChecksumPasses = 2;

std::vector<std::byte>& scratch(std::size_t bytes) {
  thread_local std::vector<std::byte> buffer;
  buffer.resize(bytes);
  return buffer;
}

// The round's sequence, kept for the next row.
const std::vector<std::uint64_t>& whitening(std::uint32_t round, std::size_t words) {
  thread_local std::vector<std::uint64_t> sequence;
  thread_local std::uint32_t of_round = 0;
  if (of_round != round) sequence.clear();
  of_round = round;
  while (sequence.size() < words) sequence.push_back(whitening_word(round, sequence.size()));
  return sequence;
}

}  // namespace

Whitening::Whitening(std::uint32_t payload_bytes, bool control, std::uint32_t fabric_block)
    : payload_bytes_(payload_bytes),
      control_(control),
      unit_(std::clamp(fabric_block, kOfUnit, kLargestUnit)) {}

std::uint32_t Whitening::present_bytes() const {
  return control_ ? std::min(kIdentityBytes, payload_bytes_) : payload_bytes_;
}

std::vector<fabric::Carried::Range> Whitening::carried() const {
  std::vector<fabric::Carried::Range> ranges;
  for (std::uint32_t unit = std::max(unit_, kIdentityBytes); unit < padded(); unit += unit_) {
    ranges.push_back({unit, unit + kOfUnit});
  }
  return ranges;
}

// Its own inverse.
void Whitening::add_sequence(std::span<std::byte> bytes, std::uint32_t round) const {
  const auto& sequence = whitening(round, padded() / 8);
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, &bytes[at], 8);
    word ^= sequence[at / 8];
    std::memcpy(&bytes[at], &word, 8);
  }
}

void Whitening::whiten(Core& core, Address to, Address from, std::uint32_t round) const {
  std::vector<std::byte>& bytes = scratch(padded());
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  const auto payload = core.array<std::byte>(from, present_bytes());
  std::memcpy(bytes.data(), payload.data(), payload.size());
  add_sequence(bytes, round);
  if (!control_) {
    core.write_bytes(to, bytes);
    return;
  }
  for (std::uint32_t unit = 0; unit < padded(); unit += unit_) {
    core.write_bytes(to + unit, std::span(&bytes[unit], kOfUnit));
  }
}

void Whitening::restore(Core& core, Address row, std::uint32_t round) const {
  const auto whitened = core.array<std::byte>(row, present_bytes());
  std::vector<std::byte>& bytes = scratch(padded());
  std::memcpy(bytes.data(), whitened.data(), whitened.size());
  // Whole words: what follows the payload in `bytes` is not written back.
  add_sequence(std::span(bytes).first(align_up(whitened.size(), 8)), round);
  core.write_bytes(row, std::span(bytes).first(whitened.size()));
}

Trailer Whitening::whitened(Trailer trailer) const {
  std::array<std::uint64_t, 2> words;
  std::memcpy(words.data(), &trailer, sizeof(words));
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] ^= whitening_word(trailer.round, padded() / 8 + i);
  }
  std::memcpy(static_cast<void*>(&trailer), words.data(), sizeof(words));
  return trailer;
}

std::uint64_t Whitening::checksum(Core& core, Address slot, Trailer trailer) const {
  trailer.checksum = 0;
  std::uint64_t sum = 0;
  if (control_) {
    // What is not carried counts as looked at, too.
    core.note({.address = slot, .bytes = padded(), .kind = devices::CheckKind::kProbe});
    std::vector<std::byte>& bytes = scratch(padded() / unit_ * kOfUnit);
    for (std::uint32_t unit = 0; unit < padded(); unit += unit_) {
      const auto part = core.probe(slot + unit, kOfUnit);
      std::memcpy(&bytes[unit / unit_ * kOfUnit], part.data(), kOfUnit);
    }
    sum = row_checksum(bytes, trailer.round);
  } else {
    sum = row_checksum(core.probe(slot, padded()), trailer.round);
  }
  return row_checksum(std::as_bytes(std::span(&trailer, 1)), sum);
}

emu::Time Whitening::whiten_time(const devices::Costs& costs) const {
  return kWhitenPasses * costs.vector(padded() / 4);
}

emu::Time Whitening::checksum_time(const devices::Costs& costs) const {
  return kChecksumPasses * costs.vector(padded() / 4);
}

}  // namespace orrery::moe::ubep
