// FlashMoE's options, roles and registration; flashmoe.h says where the rest is.
#include "moe/algorithms/flashmoe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "emu/errors.h"

namespace orrery::moe::flashmoe {

namespace {

constexpr std::uint32_t kFlagsAtOnce = devices::WaitReadyOperation::kMostPlaces;

[[noreturn]] void refuse(const std::string& field, const std::string& value,
                         const std::string& expectation) {
  throw emu::ConfigError("--set", field, value, expectation);
}

}  // namespace

Flashmoe::Flashmoe(const Problem& problem, const Options& options)
    : FusedLayer(problem),
      block_rows_(static_cast<std::uint32_t>(options.number("row_block", 1, 1u << 20))),
      tile_columns_(static_cast<std::uint32_t>(options.number("tile_columns", 1, 1u << 20))),
      signaling_(signaling_of(options.text("signaling"))),
      ordering_(ordering_of(options.text("ordering"))),
      group_(GroupSize::of(options)),
      first_round_(static_cast<std::uint16_t>(options.number("first_round", 1, 0xffff))),
      sabotage_(options.text("sabotage")),
      senders_(signaling_ == Signaling::kDecoupled
                   ? static_cast<std::uint32_t>(options.number("senders", 1, 1024))
                   : 0),
      subscribers_(subscribers(options)),
      parcels_([&problem] {
        std::vector<Parcel> parcels;
        for (std::uint32_t device = 0; device < problem.devices; ++device) {
          const std::uint32_t first = problem.placement.begin(device);
          const std::uint32_t count = problem.placement.count(device);
          for (std::uint32_t local = 0; local < count; ++local) {
            parcels.push_back({device, local, first + local});
          }
          if (count == 0) parcels.push_back({device, 0, Parcel::kNoExpert});
        }
        return parcels;
      }()),
      first_parcel_([this, &problem] {
        std::vector<std::uint32_t> first(problem.devices, 0);
        for (std::uint32_t n = number_of_parcels(); n-- > 0;) first[parcels_[n].device] = n;
        return first;
      }()),
      at_(layout_,
          {problem.devices, problem.placement.experts(), std::max(max_local_experts(), 1u),
           most_list_rows(), blocks_of(most_list_rows()), problem.token_bound * problem.top_k(),
           processors(), senders_, up_columns() + down_columns(), row_stride()}) {
  if (at_.units() > kMostUnits) {
    refuse("workload.experts", std::to_string(problem.placement.experts()),
           fmt::format("at most {} (device, local expert) pairs", kMostUnits));
  }
  if (blocks_of(most_list_rows()) > kMostBlocks) {
    refuse("algorithm.row_block", std::to_string(block_rows_),
           fmt::format("blocks so large that {} rows are at most {} of them", most_list_rows(),
                       kMostBlocks));
  }
  if (std::max(up_columns(), down_columns()) > kMostColumns) {
    refuse("algorithm.tile_columns", std::to_string(tile_columns_),
           fmt::format("tiles so wide that at most {} cover a row", kMostColumns));
  }
}

// A subscriber watches 64 flags at a time; more of them cost processors.
std::uint32_t Flashmoe::subscribers(const Options& options) const {
  const std::uint32_t cores = problem_.costs.cores;
  if (cores < senders_ + 3) {
    refuse("device.cores", std::to_string(cores),
           fmt::format("at least {}: a scheduler, a subscriber, {}a processor", senders_ + 3,
                       senders_ > 0 ? fmt::format("{} senders, ", senders_) : ""));
  }
  const std::uint32_t most = cores - 2 - senders_;
  if (options.text("subscribers") != "auto") {
    return static_cast<std::uint32_t>(options.number("subscribers", 1, most));
  }
  const std::uint64_t flags =
      std::uint64_t{problem_.devices} * std::max(max_local_experts(), 1u) +
      std::uint64_t{problem_.placement.experts()} * blocks_of(most_list_rows());
  const auto wanted = static_cast<std::uint32_t>((flags + kFlagsAtOnce - 1) / kFlagsAtOnce);
  return std::clamp(wanted, 1u, std::min(most, std::max(cores / 16, 1u)));
}

// Flags are words that the fabric must not cut. Without fences a signal follows the puts of its own
// core.
Contract Flashmoe::contract() const {
  return {ordering_ == Ordering::kNone ? Contract::Order::kCorePair : Contract::Order::kNone,
          sizeof(Announcement)};
}

std::uint64_t Flashmoe::touched_bytes(std::uint32_t device) const {
  std::uint64_t entries = 0;
  std::uint64_t most_rows = 0;
  for (std::uint32_t i = 0; i < problem_.iterations; ++i) {
    entries = std::max<std::uint64_t>(entries, std::uint64_t{tokens(device, i)} * problem_.top_k());
    most_rows = std::max(most_rows, rows(device, i));
  }
  // Staged and returned rows of its tokens; rows of its experts, of the next call as well, and
  // their outputs.
  return FusedLayer::touched_bytes(device) + (2 * entries + 3 * most_rows) * row_stride() +
         std::uint64_t{problem_.costs.cores} * 2 * 4096;
}

std::uint16_t Flashmoe::round(std::uint32_t iteration) const {
  // 0 is what memory holds that nobody wrote.
  return static_cast<std::uint16_t>((first_round_ - 1u + iteration) % 0xffff + 1);
}

Note Flashmoe::note(std::uint32_t iteration, Note::Kind kind, std::uint32_t unit,
                    std::uint32_t block) const {
  Note note{};
  note.round = round(iteration);
  note.block = static_cast<std::uint16_t>(block);
  note.kind = kind;
  note.unit = unit & (kMostUnits - 1);
  return note;
}

std::uint64_t Flashmoe::announcement(std::uint32_t iteration, std::uint32_t rows) const {
  return std::bit_cast<std::uint64_t>(
      Announcement{round(iteration), static_cast<std::uint16_t>(blocks_of(rows)), rows});
}

const Flashmoe::Parcel& Flashmoe::parcel(std::uint32_t device, std::uint32_t n) const {
  const std::uint32_t first = first_parcel_[(device + 1) % problem_.devices];
  return parcels_[(first + n) % number_of_parcels()];
}

// Of its parcel n for a device that is not near, among those.
std::uint32_t Flashmoe::group_of_parcel(std::uint32_t device, std::uint32_t n) const {
  if (group_.puts == 0) return parcel(device, n).device;
  std::uint32_t before = 0;
  for (std::uint32_t i = 0; i < n; ++i) before += is_near(device, parcel(device, i).device) ? 0 : 1;
  return before / group_.puts;
}

// Of the rows that it sends back to the source of a unit, in the order of its parcels.
std::uint32_t Flashmoe::group_of_unit(std::uint32_t device, std::uint32_t unit) const {
  const std::uint32_t source = at_.source_of(unit);
  if (group_.puts == 0) return source;
  std::uint32_t before = 0;
  for (std::uint32_t shift = 0; shift < turn(device, source); ++shift) {
    before += is_near(device, (device + 1 + shift) % problem_.devices) ? 0 : 1;
  }
  const std::uint32_t locals = std::max(local_experts(device), 1u);
  return (before * locals + at_.local_of(unit)) / group_.puts;
}

emu::Task Flashmoe::layer(Core& core, std::uint32_t iteration) {
  if (core.index() + 1 == core.count()) {
    co_await scheduler(core, iteration);
  } else if (core.index() >= first_subscriber()) {
    co_await subscriber(core, iteration);
  } else if (core.index() >= processors()) {
    co_await sender(core, iteration);
  } else {
    co_await processor(core, iteration);
  }
}

// --- Notes ---

emu::Task Flashmoe::post(Core& core, std::uint32_t inbox, Note note) const {
  const std::uint32_t slot = co_await core.fetch_add(at_.tail(inbox), 1);
  co_await core.store(core.rank(), at_.note(inbox, slot), note);
}

emu::Task Flashmoe::next_note(Core& core, Address slot, std::uint32_t iteration,
                              Note& found) const {
  const devices::Predicate is_of_round{[](const std::byte* held, std::uint64_t round) {
                                         std::uint16_t value;
                                         std::memcpy(&value, held, sizeof(value));
                                         return value == round;
                                       },
                                       round(iteration), "note of round"};
  const auto writer = [&core](std::uint32_t) {
    return fmt::format("device {}, another core of it", core.rank());
  };
  const devices::Slots word{slot, sizeof(Note), sizeof(Note)};
  co_await core.wait_until(word, is_of_round, writer);
  found = core.load<Note>(slot);
}

// --- Signals ---

emu::Task Flashmoe::order(Core& core, bool near, bool back) {
  if (skips_fences(back)) co_return;
  co_await order_signals(core, near ? Ordering::kProxyFence : ordering_);
}

emu::Task Flashmoe::tell(Core& core, const Signal& each) {
  const bool fenced = each.behind_put && ordering_ == Ordering::kNicFence &&
                      !is_near(core.rank(), each.device) && !skips_fences(each.back);
  co_await signal(core, each.device, each.to, each.value, fenced);
}

// Fence and signal in turn, for all that this core has put.
emu::Task Flashmoe::flush(Core& core, Outgoing& out) {
  for (const Signal& each : out.signals) {
    if (each.behind_put) co_await order(core, false, each.back);
    co_await tell(core, each);
  }
  out.signals.clear();
}

// --- Puts ---

// One put of several rows. Sources of earlier ones that have left are given up on the way.
emu::Task Flashmoe::put(Core& core, std::uint32_t device, std::vector<devices::Piece> pieces,
                        Outgoing& out, const Signal* signal) {
  while (!out.puts.empty() && core.has_left(out.puts.front().handle)) give_up(core, out);
  out.puts.push_back({{}, std::move(pieces)});
  Outgoing::Put& put = out.puts.back();
  const std::span<const devices::Piece> all(put.pieces);
  if (signal != nullptr) {
    put.handle = co_await core.put_signal(device, all, signal->to, signal->value);
  } else {
    put.handle = co_await core.put(device, all);
  }
}

emu::Task Flashmoe::give_up_sources(Core& core, Outgoing& out) {
  core.phase("wait for sources");
  while (!out.puts.empty()) {
    co_await core.wait_local(out.puts.front().handle);
    give_up(core, out);
  }
}

void Flashmoe::give_up(Core& core, Outgoing& out) const {
  for (const devices::Piece& piece : out.puts.front().pieces) {
    core.discard(piece.from, row_stride());
  }
  out.puts.pop_front();
}

std::vector<OptionSpec> flashmoe_options() {
  std::vector<OptionSpec> options = signal_options(false);
  for (OptionSpec each : std::vector<OptionSpec>{
           {"row_block", "128", "rows of a tile", {}},
           {"tile_columns", "256", "columns of a tile, of either projection", {}},
           {"subscribers", "auto", "cores that poll flags, or auto: one for 64 of them", {}},
           {"senders", "1", "cores that put and signal, for signaling=decoupled", {}},
           {"first_round", "1", "number of the first call, e.g. 65534 for its wrap", {}},
           {"sabotage",
            "none",
            "break it on purpose, to see how that looks",
            {"none", "skip-fence", "skip-fence-out", "skip-fence-back", "drop-signal"}}}) {
    options.push_back(std::move(each));
  }
  return options;
}

ORRERY_ALGORITHM(flashmoe, "flashmoe",
                 "FlashMoE: the layer as one kernel, with the signalling that Perseus compares",
                 Flashmoe, flashmoe_options())

}  // namespace orrery::moe::flashmoe
