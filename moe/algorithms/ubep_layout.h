// Where UBEP keeps what: every address of its windows, flags and workspace in one place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "moe/algorithms/ubep_wire.h"
#include "moe/layout.h"

namespace orrery::moe::ubep {

/// A 32-byte cell that one core (or device) writes and another polls.
struct Cell {
  std::uint32_t round = 0;
  std::uint32_t value = 0;
  std::uint32_t unused[6] = {};
};
static_assert(sizeof(Cell) == 32);

/// What of a cell is written: both words together, which appear so on any fabric.
inline constexpr std::uint32_t kCellBytes = 8;
/// Of a cell whose round was seen.
constexpr fabric::Address value_of(fabric::Address cell) { return cell + offsetof(Cell, value); }

struct Sizes {
  std::uint32_t devices = 0;
  std::uint32_t cores = 0;
  std::uint32_t count_cores = 0;
  std::uint32_t experts = 0;
  std::uint32_t local_experts = 0;  // the most of any device, at least 1
  std::uint32_t list_rows = 0;      // that a source may send to one expert
  std::uint32_t tokens = 0;         // of a device, at most
  std::uint32_t top_k = 0;
  std::uint64_t row_stride = 0;  // of plain rows
};

/// Windows have two halves, for calls in turn. A list is the rows of one source for one local
/// expert; lists are numbered by expert, then source.
class UbepLayout {
 public:
  using Address = fabric::Address;

  /// Adds its regions to `layout`.
  UbepLayout(Layout& layout, const Sizes& sizes, const Wire& dispatch, const Wire& combine,
             bool control)
      : sizes_(sizes),
        dispatch_bytes_(dispatch.slot_bytes()),
        combine_bytes_(combine.slot_bytes()) {
    const std::uint64_t cores = sizes.cores;
    const std::uint64_t entries = std::uint64_t{sizes.tokens} * sizes.top_k;
    plain_ = layout.rows(cores, sizes.row_stride);
    unpacked_ = layout.rows(cores * sizes.top_k, sizes.row_stride);
    if (control) layout.carry_only(dispatch.carried());
    half_rows_ = std::uint64_t{lists()} * sizes.list_rows;
    window_ = layout.rows(2 * half_rows_, dispatch_bytes_);
    records_ = layout.rows(2 * cores, dispatch_bytes_);
    if (control) layout.carry_only(combine.carried());
    combine_half_ = entries;
    combine_window_ = layout.rows(2 * entries, combine_bytes_);
    combine_records_ = layout.rows(2 * cores, combine_bytes_);
    flags_ = layout.flat(dispatch.flag_beside() ? 2 * half_rows_ * sizeof(Cell) : 0);
    combine_flags_ = layout.flat(dispatch.flag_beside() ? 2 * entries * sizeof(Cell) : 0);
    status_ = layout.flat(2 * std::uint64_t{lists()} * sizeof(Cell));
    outgoing_ = layout.flat(std::uint64_t{lists()} * sizeof(Cell));
    sums_ = layout.flat(std::uint64_t{sizes.count_cores} * sizes.count_cores * sizeof(Cell));
    soft_flags_ = layout.flat(cores * sizes.count_cores * sizeof(Cell));
    staged_ = layout.flat(2 * cores * sizeof(Cell));
    inclusive_ = layout.flat(std::uint64_t{lists()} * 4);
    copies_ = layout.flat(cores * copy_stride());
    histogram_ = layout.flat(std::uint64_t{sizes.experts} * 4);
    histogram_flags_ = layout.flat(cores * sizeof(Cell));
    rounds_ = layout.flat(2 * cores * kApart);
  }

  std::uint32_t lists() const { return sizes_.devices * sizes_.local_experts; }

  // --- Windows ---
  Address slot(std::uint32_t half, std::uint32_t list, std::uint32_t n) const {
    return window_ + row(half, list, n) * dispatch_bytes_;
  }
  Address flag(std::uint32_t half, std::uint32_t list, std::uint32_t n) const {
    return flags_ + row(half, list, n) * sizeof(Cell);
  }
  Address combine_slot(std::uint32_t half, std::uint32_t token, std::uint32_t k) const {
    return combine_window_ + entry(half, token, k) * combine_bytes_;
  }
  Address combine_flag(std::uint32_t half, std::uint32_t token, std::uint32_t k) const {
    return combine_flags_ + entry(half, token, k) * sizeof(Cell);
  }
  // --- Of a core: what it sends, in wire format and plain; rows that it adds up ---
  Address record(std::uint32_t core, std::uint32_t turn) const {
    return records_ + (std::uint64_t{core} * 2 + turn) * dispatch_bytes_;
  }
  Address combine_record(std::uint32_t core, std::uint32_t turn) const {
    return combine_records_ + (std::uint64_t{core} * 2 + turn) * combine_bytes_;
  }
  Address plain(std::uint32_t core) const { return plain_ + core * sizes_.row_stride; }
  Address unpacked(std::uint32_t core, std::uint32_t k) const {
    return unpacked_ + (std::uint64_t{core} * sizes_.top_k + k) * sizes_.row_stride;
  }
  // --- Counts: statuses that came, statuses to send, and what counting cores make of them ---
  Address status(std::uint32_t half, std::uint32_t list) const {
    return status_ + (std::uint64_t{half} * lists() + list) * sizeof(Cell);
  }
  Address outgoing(std::uint32_t device, std::uint32_t local) const {
    return outgoing_ + (std::uint64_t{device} * sizes_.local_experts + local) * sizeof(Cell);
  }
  Address sum(std::uint32_t reader, std::uint32_t writer) const {
    return sums_ + (std::uint64_t{reader} * sizes_.count_cores + writer) * sizeof(Cell);
  }
  Address inclusive(std::uint32_t list) const { return inclusive_ + std::uint64_t{list} * 4; }
  Address copy(std::uint32_t core, std::uint32_t list) const {
    return copies_ + core * copy_stride() + std::uint64_t{list} * 4;
  }
  Address soft_flag(std::uint32_t core, std::uint32_t counter) const {
    return soft_flags_ + (std::uint64_t{core} * sizes_.count_cores + counter) * sizeof(Cell);
  }
  /// Of a counting core: cells that it puts to others.
  Address staged(std::uint32_t core, std::uint32_t which) const {
    return staged_ + (std::uint64_t{core} * 2 + which) * sizeof(Cell);
  }
  // --- The senders' histogram ---
  Address histogram(std::uint32_t expert) const { return histogram_ + std::uint64_t{expert} * 4; }
  Address histogram_flag(std::uint32_t core) const {
    return histogram_flags_ + core * std::uint64_t{sizeof(Cell)};
  }
  /// Each core's own count of its calls, for each of the two operations.
  Address round(std::uint32_t core, std::uint32_t operation) const {
    return rounds_ + (std::uint64_t{core} * 2 + operation) * kApart;
  }

 private:
  static constexpr std::uint64_t kApart = 512;

  std::uint64_t copy_stride() const { return align_up(std::uint64_t{lists()} * 4, kApart); }
  std::uint64_t row(std::uint32_t half, std::uint32_t list, std::uint32_t n) const {
    return half * half_rows_ + std::uint64_t{list} * sizes_.list_rows + n;
  }
  std::uint64_t entry(std::uint32_t half, std::uint32_t token, std::uint32_t k) const {
    return half * combine_half_ + std::uint64_t{token} * sizes_.top_k + k;
  }

  Sizes sizes_;
  std::uint64_t dispatch_bytes_;
  std::uint64_t combine_bytes_;
  std::uint64_t half_rows_;
  std::uint64_t combine_half_;
  Address plain_, unpacked_, window_, records_, combine_window_, combine_records_;
  Address flags_, combine_flags_;
  Address status_, outgoing_, sums_, soft_flags_, staged_, inclusive_, copies_;
  Address histogram_, histogram_flags_, rounds_;
};

}  // namespace orrery::moe::ubep
