#include "moe/algorithms/nccl_alltoall.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emu/digest.h"
#include "emu/errors.h"
#include "moe/pattern.h"

namespace orrery::moe {

using devices::Core;
using devices::Place;

namespace {

std::uint32_t bytes_of(const Options& options) {
  const auto bytes = options.number("bytes", 16, std::uint64_t{1} << 30);
  if (bytes % 16 != 0) {
    throw emu::ConfigError("--set", "algorithm.bytes", options.text("bytes"),
                           "a multiple of 16, the bytes of a store");
  }
  return static_cast<std::uint32_t>(bytes);
}

// A warp for each device, in one block of at most 32.
std::uint32_t threads_of(const Problem& problem, const Options& options) {
  const auto asked = static_cast<std::uint32_t>(options.number("threads", 0, 1024));
  return asked != 0 ? asked : std::min(problem.devices * 32, 1024u);
}

std::uint32_t windows_of(const Options& options) {
  const std::string& sabotage = options.text("sabotage");
  if (options.text("sync") == "barrier") return options.text("barriers") == "both" ? 1 : 2;
  return sabotage == "one-window" ? 1 : sabotage == "two-windows" ? 2 : 3;
}

std::uint32_t word_at(const std::byte* bytes) {
  std::uint32_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

}  // namespace

NcclAllToAll::NcclAllToAll(const Problem& problem, const Options& options)
    : problem_(problem),
      bytes_(bytes_of(options)),
      by_sentinel_(options.text("sync") == "sentinel"),
      opens_(!by_sentinel_ && options.text("barriers") == "both"),
      replaces_(by_sentinel_ && options.text("clash") == "replace"),
      all_sentinels_(options.text("payload") == "sentinels"),
      blocks_(std::min(static_cast<std::uint32_t>(options.number("blocks", 1, 1024)),
                       problem.costs.cores)),
      threads_(threads_of(problem, options)),
      barrier_(emu::from_ns(options.decimal("barrier_ns", 0, 1e6))),
      sabotage_(options.text("sabotage")),
      rounds_(windows_of(options)),
      stride_(align_up(bytes_, 512)) {
  if (problem_.control && !by_sentinel_) layout_.carry_only({{0, held_bytes()}});
  out_ = layout_.rows(problem.devices, stride_);
  in_ = layout_.rows(std::uint64_t{rounds_} * problem.devices, stride_);
  words_ = layout_.flat(std::uint64_t{kPoints} * blocks_ * problem.devices * 4);
}

Contract NcclAllToAll::contract() const {
  return {Contract::Order::kNone, by_sentinel_ ? kLineBytes : 4};
}

std::uint64_t NcclAllToAll::touched_bytes(std::uint32_t) const {
  const std::uint64_t windows = by_sentinel_ ? rounds_ : std::min(rounds_, problem_.iterations);
  return problem_.devices * ((1 + windows) * stride_ + std::uint64_t{kPoints} * blocks_ * 4);
}

std::uint64_t NcclAllToAll::useful_bytes(std::uint32_t, std::uint32_t) const {
  return std::uint64_t{problem_.devices} * (problem_.devices - 1) * bytes_;
}

NcclAllToAll::Share NcclAllToAll::share_of(std::uint32_t block) const {
  const std::uint32_t lines = bytes_ / kLineBytes;
  const std::uint32_t each = (lines + blocks_ - 1) / blocks_;
  const std::uint32_t first = std::min(block * each, lines);
  return {first, std::min(each, lines - first)};
}

void NcclAllToAll::fill_row(std::uint32_t iteration, std::uint32_t source,
                            std::uint32_t destination, std::span<std::byte> row) const {
  fill_pattern(problem_.seed, iteration, source, destination, row);
  if (!all_sentinels_) return;
  for (std::size_t at = kLastWord; at < row.size(); at += kLineBytes) {
    std::memcpy(&row[at], &kSentinel, sizeof(kSentinel));
  }
}

void NcclAllToAll::fill_expected(std::uint32_t iteration, std::uint32_t source,
                                 std::uint32_t destination, std::span<std::byte> row) const {
  fill_row(iteration, source, destination, row);
  if (!replaces_) return;
  const std::uint32_t other = kSentinel ^ 1;
  for (std::size_t at = kLastWord; at < row.size(); at += kLineBytes) {
    if (word_at(&row[at]) == kSentinel) std::memcpy(&row[at], &other, sizeof(other));
  }
}

void NcclAllToAll::set_up(devices::DeviceProcess& device) {
  if (!by_sentinel_) return;  // the words of a barrier are 0 from the beginning
  for (std::uint32_t window = 0; window < rounds_; ++window) {
    for (std::uint32_t source = 0; source < problem_.devices; ++source) {
      for (std::uint64_t at = kLastWord; at < bytes_; at += kLineBytes) {
        device.memory().store(in(window, source) + at, kSentinel);
      }
    }
  }
}

void NcclAllToAll::prepare(devices::DeviceProcess& device, std::uint32_t iteration) {
  for (std::uint32_t peer = 0; peer < problem_.devices; ++peer) {
    fill_row(iteration, device.rank(), peer, device.memory().view(out(peer), held_bytes()));
  }
}

emu::Task NcclAllToAll::program(Core& core, std::uint32_t, std::uint32_t iteration) {
  const Share share = share_of(core.index());
  if (share.lines == 0) co_return;
  const std::uint32_t round = iteration % rounds_;
  // Before its first calls a sentinel's window may be used that not everybody has filled yet.
  const bool opens = opens_ || (by_sentinel_ && iteration < kOpenedCalls);
  if (opens && sabotage_ != "no-opening") co_await meet(core, kOpening, iteration + 1);
  co_await put_to_all(core, share, round);
  if (by_sentinel_) {
    co_await wait_for_data(core, share, round);
    if (sabotage_ != "skip-refill") {
      co_await fill_with_sentinels(core, share, (round + rounds_ - 1) % rounds_);
    }
    co_return;
  }
  if (sabotage_ != "no-fence") co_await core.fence();
  if (sabotage_ != "no-closing") co_await meet(core, kClosing, iteration + 1);
  for (std::uint32_t source = 0; source < problem_.devices; ++source) {
    core.accept(in(round, source) + share.first * std::uint64_t{kLineBytes},
                share.lines * std::uint64_t{kLineBytes});
  }
}

// Warps share the destinations: here one after the other, each device beginning with the next one.
// Sources have left when the kernel ends, so that the next one's input may take their place.
emu::Task NcclAllToAll::put_to_all(Core& core, Share share, std::uint32_t window) {
  core.phase("put to peers");
  const std::uint64_t first = share.first * std::uint64_t{kLineBytes};
  std::vector<devices::PutHandle> puts;
  for (std::uint32_t shift = 1; shift <= problem_.devices; ++shift) {
    const std::uint32_t peer = (core.rank() + shift) % problem_.devices;
    if (replaces_) replace_sentinels(core, out(peer), share);
    puts.push_back(co_await core.put(peer, in(window, core.rank()) + first, out(peer) + first,
                                     share.lines * kLineBytes));
  }
  for (const devices::PutHandle& put : puts) co_await core.wait_local(put);
}

// In registers, as the words pass through them: no time.
void NcclAllToAll::replace_sentinels(Core& core, fabric::Address row, Share share) const {
  const fabric::Address begin = row + share.first * std::uint64_t{kLineBytes};
  const auto words = core.array<std::uint32_t>(begin, share.lines * std::uint64_t{kLineBytes / 4});
  for (std::uint32_t line = 0; line < share.lines; ++line) {
    if (words[line * 4 + 3] != kSentinel) continue;
    core.write(begin + line * std::uint64_t{kLineBytes} + kLastWord, kSentinel ^ 1);
  }
}

emu::Time NcclAllToAll::read_time(const Core& core, std::uint32_t places,
                                  std::uint32_t lines) const {
  const emu::Time sweep = core.costs().poll * turns(std::uint64_t{places} * lines);
  return std::max<emu::Time>(1, sweep / places);
}

// The own words of all devices, a thread each.
emu::Task NcclAllToAll::meet(Core& core, Point point, std::uint32_t call) {
  core.phase(point == kOpening ? "opening barrier" : "closing barrier");
  co_await core.compute(barrier_);
  for (std::uint32_t shift = 1; shift <= problem_.devices; ++shift) {
    const std::uint32_t peer = (core.rank() + shift) % problem_.devices;
    co_await core.store(peer, word(point, core.index(), core.rank()), call);
  }
  constexpr std::uint32_t kMost = devices::WaitReadyOperation::kMostPlaces;
  for (std::uint32_t from = 0; from < problem_.devices; from += kMost) {
    std::vector<Place> places;
    for (std::uint32_t i = from; i < std::min(from + kMost, problem_.devices); ++i) {
      places.push_back({word(point, core.index(), i), 4});
    }
    const auto arrived = [&core, &places, call](std::uint32_t place) {
      return word_at(core.probe(places[place].address, 4).data()) >= call;
    };
    const auto writer = [&core, from](std::uint32_t place) {
      return fmt::format("device {} core {} (barrier)", from + place, core.index());
    };
    const auto read = read_time(core, static_cast<std::uint32_t>(places.size()), 1);
    auto wait = core.wait_all(places, arrived, read, "the number of the call", writer);
    wait.make_growing();
    co_await wait;
  }
}

// All lines that are to come, dealt to the block's threads.
emu::Task NcclAllToAll::wait_for_data(Core& core, Share share, std::uint32_t window) {
  core.phase("poll the data");
  constexpr std::uint32_t kMost = devices::WaitReadyOperation::kMostPlaces;
  const std::uint32_t bytes = share.lines * kLineBytes;
  for (std::uint32_t from = 0; from < problem_.devices; from += kMost) {
    std::vector<Place> places;
    for (std::uint32_t i = from; i < std::min(from + kMost, problem_.devices); ++i) {
      places.push_back({in(window, i) + share.first * std::uint64_t{kLineBytes}, bytes});
    }
    const auto complete = [&core, &places](std::uint32_t place) {
      const auto row = core.probe(places[place].address, places[place].bytes);
      for (std::size_t at = kLastWord; at < row.size(); at += kLineBytes) {
        if (word_at(&row[at]) == kSentinel) return false;
      }
      return true;
    };
    const auto writer = [&core, from](std::uint32_t place) {
      return fmt::format("device {} core {} (data)", from + place, core.index());
    };
    const auto read = read_time(core, static_cast<std::uint32_t>(places.size()), share.lines);
    co_await core.wait_all(places, complete, read, "no word that is the sentinel", writer);
    for (const Place& place : places) core.accept(place.address, place.bytes);
  }
}

// A store of each thread in every round; nobody waits for them.
emu::Task NcclAllToAll::fill_with_sentinels(Core& core, Share share, std::uint32_t window) {
  core.phase("fill with sentinels");
  const std::uint64_t lines = std::uint64_t{problem_.devices} * share.lines;
  co_await core.compute(core.costs().issue * turns(lines));
  for (std::uint32_t source = 0; source < problem_.devices; ++source) {
    const fabric::Address begin = in(window, source) + share.first * std::uint64_t{kLineBytes};
    for (std::uint32_t line = 0; line < share.lines; ++line) {
      core.write(begin + line * std::uint64_t{kLineBytes} + kLastWord, kSentinel);
    }
  }
}

Verdict NcclAllToAll::verify(devices::DeviceProcess& device, std::uint32_t,
                             std::uint32_t iteration) {
  thread_local std::vector<std::byte> expected;
  Verdict verdict;
  for (std::uint32_t source = 0; source < problem_.devices; ++source) {
    const auto bytes =
        std::as_const(device.memory()).view(in(iteration % rounds_, source), held_bytes());
    expected.resize(bytes.size());
    fill_expected(iteration, source, device.rank(), expected);
    if (verdict.ok && !std::equal(bytes.begin(), bytes.end(), expected.begin())) {
      verdict.ok = false;
      verdict.what =
          fmt::format("the {} bytes from device {} are not what it sent", bytes_, source);
    }
    verdict.digest = emu::digest_bytes(bytes, verdict.digest);
  }
  return verdict;
}

ORRERY_ALGORITHM(
    nccl_alltoall, "nccl-alltoall",
    "NCCL's sample all-to-all over a symmetric window, completed by a barrier or by sentinels",
    NcclAllToAll,
    {{"bytes", "4096", "bytes per pair, a multiple of 16", {}},
     {"sync",
      "barrier",
      "complete when all devices have met behind the stores, or when no sentinel is left in the "
      "data",
      {"barrier", "sentinel"}},
     {"barriers",
      "closing",
      "for sync=barrier: behind the stores, into two windows in turn, or around them, into one",
      {"closing", "both"}},
     {"clash",
      "replace",
      "for sync=sentinel: payload words that equal the sentinel have their lowest bit flipped, or "
      "must not be",
      {"replace", "forbid"}},
     {"payload",
      "random",
      "random words, or sentinels wherever a sentinel is looked for",
      {"random", "sentinels"}},
     {"blocks", "4", "thread blocks, a core each, among which a row is divided", {}},
     {"threads", "0", "threads of a block; 0: 32 for each device, at most 1024", {}},
     {"barrier_ns", "0", "of a block's threads at a barrier, beside fence, words and polls", {}},
     {"sabotage",
      "none",
      "break it on purpose, to see how that looks",
      {"none", "skip-refill", "two-windows", "one-window", "no-fence", "no-closing",
       "no-opening"}}})

}  // namespace orrery::moe
