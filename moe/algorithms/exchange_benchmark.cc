#include "moe/algorithms/exchange_benchmark.h"

#include <fmt/format.h>

#include "emu/digest.h"
#include "moe/pattern.h"

namespace orrery::moe {

using devices::Core;

ExchangeBenchmark::ExchangeBenchmark(const Problem& problem, const Options& options,
                                     std::uint32_t rounds)
    : problem_(problem),
      bytes_(static_cast<std::uint32_t>(options.number("bytes", 1, std::uint64_t{1} << 30))),
      flush_(options.text("completion") == "flush"),
      rounds_(rounds) {}

void ExchangeBenchmark::make_layout(std::uint32_t max_slots) {
  max_slots_ = max_slots;
  stride_ = align_up(bytes_, 512);
  if (problem_.control) layout_.carry_only({{0, held_bytes()}});
  out_ = layout_.rows(max_slots, stride_);
  in_ = layout_.rows(std::uint64_t{rounds_} * max_slots, stride_);
  flags_ = layout_.flat(std::uint64_t{max_slots} * kFlagStride);
}

std::uint64_t ExchangeBenchmark::touched_bytes(std::uint32_t device) const {
  const std::uint64_t rounds = std::min(rounds_, problem_.iterations);
  return targets(device).size() * stride_ + slots(device) * (stride_ * rounds + kFlagStride);
}

std::uint64_t ExchangeBenchmark::useful_bytes(std::uint32_t operation, std::uint32_t) const {
  if (operation != 0) return 0;
  std::uint64_t puts = 0;
  for (std::uint32_t device = 0; device < problem_.devices; ++device)
    puts += targets(device).size();
  return puts * bytes_;
}

void ExchangeBenchmark::prepare(devices::DeviceProcess& device, std::uint32_t iteration) {
  const auto peers = targets(device.rank());
  for (std::uint32_t slot = 0; slot < peers.size(); ++slot) {
    fill_pattern(problem_.seed, iteration, device.rank(), peers[slot],
                 device.memory().view(out(slot), held_bytes()));
  }
}

emu::Task ExchangeBenchmark::program(Core& core, std::uint32_t operation, std::uint32_t iteration) {
  return operation == 0 ? put(core, iteration) : signal(core, iteration);
}

emu::Task ExchangeBenchmark::put(Core& core, std::uint32_t iteration) {
  const std::uint32_t round = iteration % rounds_;
  const std::vector<std::uint32_t> peers = targets(core.rank());
  devices::PutHandle last;
  core.phase("put to peers");
  for (std::uint32_t slot = 0; slot < peers.size(); ++slot) {
    last = co_await core.give(peers[slot], in(round, slot), out(slot), bytes_);
    if (flush_) continue;
    co_await core.fence();
    co_await core.store(peers[slot], flag(slot), std::uint32_t{iteration + 1});
  }
  if (flush_) {
    core.phase("flush");
    co_await core.quiet();
  } else {
    co_await wait_for_flags(core, iteration);
  }
  // The next iteration's input may not overwrite a source that is still being read.
  core.phase("wait for the source");
  co_await core.wait_local(last);
}

emu::Task ExchangeBenchmark::signal(Core& core, std::uint32_t iteration) {
  core.phase("send flags");
  const std::vector<std::uint32_t> peers = targets(core.rank());
  for (std::uint32_t slot = 0; slot < peers.size(); ++slot) {
    co_await core.store(peers[slot], flag(slot), std::uint32_t{iteration + 1});
  }
  co_await wait_for_flags(core, iteration);
}

emu::Task ExchangeBenchmark::wait_for_flags(Core& core, std::uint32_t iteration) {
  core.phase("wait for flags");
  const std::uint32_t expected = slots(core.rank());
  const auto writer = [this, &core](std::uint32_t slot) {
    return fmt::format("device {}", source_of(core.rank(), slot));
  };
  const devices::Slots all{flags_, 4, kFlagStride, expected, 0};
  const devices::Predicate ready = devices::word_at_least(iteration + 1);
  co_await core.wait_until(all, ready, writer);
  for (std::uint32_t slot = 0; slot < expected; ++slot) {
    core.accept(in(iteration % rounds_, slot), bytes_);
  }
}

Verdict ExchangeBenchmark::verify(devices::DeviceProcess& device, std::uint32_t operation,
                                  std::uint32_t iteration) {
  thread_local std::vector<std::byte> scratch;
  Verdict verdict;
  if (operation + 1 < operations().size()) return verdict;  // nothing is known to have arrived yet
  for (std::uint32_t slot = 0; slot < slots(device.rank()); ++slot) {
    const std::uint32_t source = source_of(device.rank(), slot);
    const auto bytes =
        std::as_const(device.memory()).view(in(iteration % rounds_, slot), held_bytes());
    if (verdict.ok &&
        !matches_pattern(problem_.seed, iteration, source, device.rank(), bytes, scratch)) {
      verdict.ok = false;
      verdict.what =
          fmt::format("the {} bytes from device {} are not what it sent", bytes_, source);
    }
    verdict.digest = emu::digest_bytes(bytes, verdict.digest);
  }
  return verdict;
}

}  // namespace orrery::moe
