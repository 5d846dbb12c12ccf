// Which sender core sends which entries, in which order: UBEP's hop-aware scheduler and those that
// it is compared with. Pure functions of a device's routing (arXiv 2607.06202; formulation: notes
// on algorithms 3.5).
//
// An entry is one (token, k). Positions number the valid entries expert by expert, in the order
// that a schedule wants, and inside an expert as the batch lists them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace orrery::moe::ubep {

enum class Schedule : std::uint8_t {
  kExpertMajor,  // whole experts per core; what is left over is shared by groups of cores
  kEntryCyclic,  // entry i to core i mod n
  kRandom,       // a random permutation, cut evenly
  kBalanced,     // positions cut evenly, whatever their way is like
  kHopAware,     // positions of each hop class cut evenly, and all of them together, too
};
/// By its name as an option; the name is one of them.
Schedule schedule_kind(const std::string& name);

/// Hop classes: 0 the own package, 1 one switch, 2 more of them.
inline constexpr std::uint32_t kHopClasses = 3;

/// One device's entries.
struct Batch {
  std::span<const std::int32_t> ids;        // by entry, -1 masked
  std::span<const std::uint32_t> counts;    // entries of each expert
  std::span<const std::uint8_t> hop_class;  // of each expert's owner
  std::uint32_t first_expert = 0;           // where going round the experts begins: rotated by rank
  std::uint64_t seed = 0;                   // of the random schedule
  std::uint32_t experts() const { return static_cast<std::uint32_t>(counts.size()); }
};

/// An entry to send: its place among the batch's entries for its expert, in the order of the batch.
struct Send {
  std::uint32_t entry;
  std::uint32_t place;
  bool operator==(const Send&) const = default;
};

/// What core `core` of `cores` sends, in order. Every valid entry is some core's, once.
std::vector<Send> sends(Schedule schedule, const Batch& batch, std::uint32_t cores,
                        std::uint32_t core);

// --- Positions ---

/// Experts in the order of positions, and the positions before each: experts + 1 of them.
struct Positions {
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> before;
  std::uint32_t total() const { return before.back(); }
};
/// By rotation alone, or far classes first and by rotation inside each.
Positions positions(const Batch& batch, bool by_class);

/// Positions [begin, end).
struct Range {
  std::uint32_t begin;
  std::uint32_t end;
  std::uint32_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};
/// The ranges of one core, hop_aware: one per class, far ones first. `in_class`: entries of each
/// class. Each core has floor or ceil of an even share of every class, and of all.
std::vector<Range> hop_aware_ranges(std::span<const std::uint32_t, kHopClasses> in_class,
                                    std::uint32_t cores, std::uint32_t core);

/// Where a position is: expert order[index], its `place`-th entry.
struct Located {
  std::uint32_t index;
  std::uint32_t place;
  bool operator==(const Located&) const = default;
};
/// Of each of `wanted` (below the total), by a quaternary search for all of them at once, in SIMD
/// lanes.
std::vector<Located> locate_by_search(const Positions& positions,
                                      std::span<const std::uint32_t> wanted);
/// The same from the sorted entries. `keys`: the index in the order of each entry's expert.
std::vector<Located> locate_by_sort(std::span<const std::uint32_t> keys,
                                    std::span<const std::uint32_t> wanted);
/// Steps of the search over `experts`: the least n with 4^n >= experts.
std::uint32_t search_steps(std::uint32_t experts);
/// Compare-exchange passes of a bitonic sort of `entries`: n (n + 1) / 2 with 2^n >= entries.
std::uint32_t sort_passes(std::uint32_t entries);

}  // namespace orrery::moe::ubep
