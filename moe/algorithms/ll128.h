// Rows in lines of 128 bytes that say themselves that they are there: 120 bytes of the row and a
// flag of 8. Nothing is needed but that a line appears whole; a row is there when all its lines
// have the flag of its turn. (NCCL's LL128, and so TensorRT-LLM's two-sided all-to-all.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "devices/core.h"
#include "moe/layout.h"

namespace orrery::moe {

class Ll128 {
 public:
  static constexpr std::uint32_t kLine = 128;
  static constexpr std::uint32_t kData = 120;

  /// For rows of `bytes`, of which `stretches` are written; with `control`, --payload control,
  /// those of what is written that exist.
  Ll128(std::uint32_t bytes, std::vector<fabric::Carried::Range> stretches, bool control)
      : bytes_(bytes), control_(control), stretches_(std::move(stretches)) {
    for (auto& stretch : stretches_) stretch.end = std::min(stretch.end, bytes);
  }

  std::uint32_t row_bytes() const { return bytes_; }
  std::uint32_t lines() const { return (bytes_ + kData - 1) / kData; }
  std::uint32_t record_bytes() const { return lines() * kLine; }
  /// Of a record what --payload control carries.
  std::vector<fabric::Carried::Range> carried() const {
    std::vector<fabric::Carried::Range> ranges;
    for_each_piece([&](std::uint32_t, std::uint32_t at, std::uint32_t bytes) {
      ranges.push_back({at, at + bytes});
    });
    for (std::uint32_t line = 0; line < lines(); ++line) {
      ranges.push_back({flag_at(line), flag_at(line) + 8});
    }
    std::sort(ranges.begin(), ranges.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
    return ranges;
  }

  /// The row at `row` as a record at `record`. Takes no time.
  void pack(devices::Core& core, fabric::Address record, fabric::Address row,
            std::uint64_t flag) const {
    if (control_) core.note_write(record, record_bytes());
    for_each_piece([&](std::uint32_t from, std::uint32_t at, std::uint32_t bytes) {
      core.write_bytes(record + at, core.array<std::byte>(row + from, bytes));
    });
    for (std::uint32_t line = 0; line < lines(); ++line) core.write(record + flag_at(line), flag);
  }
  /// Whether a record's lines from `first` on have this flag. Looks from behind: what comes last
  /// is missed at once.
  bool arrived(devices::Core& core, fabric::Address record, std::uint64_t flag,
               std::uint32_t first = 0) const {
    for (std::uint32_t line = lines(); line-- > first;) {
      std::uint64_t found = 0;
      const auto bytes = core.probe(record + flag_at(line), sizeof(found));
      std::memcpy(&found, bytes.data(), sizeof(found));
      if (found != flag) return false;
    }
    return true;
  }
  /// The row of a complete record, written to `row`. Takes no time.
  void unpack(devices::Core& core, fabric::Address row, fabric::Address record) const {
    core.accept(record, record_bytes());
    core.note_write(row, bytes_);  // and what was not written stands for itself
    for_each_piece([&](std::uint32_t to, std::uint32_t at, std::uint32_t bytes) {
      core.write_bytes(row + to, core.array<std::byte>(record + at, bytes));
    });
  }

 private:
  static constexpr std::uint32_t flag_at(std::uint32_t line) { return line * kLine + kData; }

  // piece(offset in the row, offset in the record, bytes) for what exists.
  template <typename Piece>
  void for_each_piece(Piece&& piece) const {
    for (const auto& stretch : stretches_) {
      for (std::uint32_t at = stretch.begin; at < stretch.end;) {
        const std::uint32_t bytes = std::min(stretch.end - at, kData - at % kData);
        piece(at, at / kData * kLine + at % kData, bytes);
        at += bytes;
      }
    }
  }

  std::uint32_t bytes_;
  bool control_;
  std::vector<fabric::Carried::Range> stretches_;
};

}  // namespace orrery::moe
