#include "moe/algorithms/deepep_v2_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "moe/share.h"

namespace orrery::moe {

using devices::Core;
using devices::Predicate;
using devices::PutHandle;
using devices::Slots;

namespace {

// Vector passes to count ids: an atomic each on the core's own memory, a comparison of the owners
// of a token with each other, one more atomic.
constexpr int kCountPasses = 3;

Predicate no_word_is_zero(std::uint64_t words) {
  return {[](const std::byte* slot, std::uint64_t count) {
            for (std::uint64_t i = 0; i < count; ++i) {
              std::uint32_t word;
              std::memcpy(&word, slot + 4 * i, sizeof(word));
              if (word == 0) return false;
            }
            return true;
          },
          words, "counts, none of them 0"};
}

}  // namespace

DeepEpV2Counts::DeepEpV2Counts(const NodeGroups& groups, const ExpertPlacement& placement,
                               std::uint32_t counters, Layout& layout)
    : groups_(groups),
      placement_(placement),
      counters_(counters),
      width_(1 + placement.max_local()),
      parts_(layout.flat(counters * rows() * row_bytes())),
      arrived_(layout.flat(64)),
      outgoing_(layout.flat(rows() * row_bytes())),
      from_groups_(layout.flat(groups_.groups() * block_bytes())),
      summed_(layout.flat(block_bytes())),
      from_lanes_(layout.flat(block_bytes())),
      result_(layout.flat((groups_.members() + placement.max_local()) * 4ull)) {}

// Rows for all devices, of these tokens: a token counts once for each device.
DeepEpV2Counts::Counts DeepEpV2Counts::count(std::span<const std::int32_t> ids,
                                             std::uint32_t top_k) const {
  Counts counts(std::size_t{rows()} * width_, 0);
  constexpr std::uint64_t kNobody = ~std::uint64_t{0};
  std::vector<std::uint64_t> latest(rows(), kNobody);
  for (std::size_t entry = 0; entry < ids.size(); ++entry) {
    if (ids[entry] < 0) continue;
    const auto expert = static_cast<std::uint32_t>(ids[entry]);
    const std::uint32_t row = row_of(placement_.owner(expert));
    ++counts[std::size_t{row} * width_ + 1 + placement_.local_index(expert)];
    if (latest[row] == entry / top_k) continue;
    latest[row] = entry / top_k;
    ++counts[std::size_t{row} * width_];
  }
  return counts;
}

emu::Task DeepEpV2Counts::run(Core& core, std::uint32_t counter, fabric::Address ids,
                              std::uint32_t tokens, std::uint32_t top_k) const {
  core.phase("notify");
  const Share mine = share(tokens, counters_, counter);
  const std::uint64_t entries = std::uint64_t{mine.size()} * top_k;
  const auto all = core.array<std::int32_t>(ids + std::uint64_t{mine.begin} * top_k * 4, entries);
  co_await core.stream(entries * 4);
  co_await core.compute(kCountPasses * core.costs().vector(entries));
  const Counts counts = count(all, top_k);
  core.write_bytes(part(counter), std::as_bytes(std::span(counts)));
  co_await core.stream(counts.size() * 4);
  co_await core.atomic_add(core.rank(), arrived_, 1);
  if (counter != 0) co_return;
  const auto writer = [&core](std::uint32_t) {
    return fmt::format("device {}, each core that counts", core.rank());
  };
  const Slots word{arrived_};
  const Predicate all_there = devices::word_equals(counters_);
  co_await core.wait_until(word, all_there, writer);
  core.write(arrived_, std::uint64_t{0});
  co_await exchange(core);
}

emu::Task DeepEpV2Counts::wait(Core& core, fabric::Address at, std::uint64_t bytes,
                               std::uint32_t from, const char* what) const {
  const auto writer = [from, what](std::uint32_t) {
    return fmt::format("device {} ({})", from, what);
  };
  const Slots slot{at, static_cast<std::uint32_t>(bytes), bytes, 1, 0};
  const Predicate there = no_word_is_zero(bytes / 4);
  co_await core.wait_until(slot, there, writer);
}

emu::Task DeepEpV2Counts::exchange(Core& core) const {
  Counts sum(std::size_t{rows()} * width_, 1);
  for (std::uint32_t counter = 0; counter < counters_; ++counter) {
    const auto counts = core.array<std::uint32_t>(part(counter), sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += counts[i];
  }
  co_await core.stream((counters_ + 1) * sum.size() * 4);
  core.write_bytes(outgoing_, std::as_bytes(std::span(sum)));
  const std::uint32_t group = groups_.group_of(core.rank());
  const std::uint32_t member = groups_.member_of(core.rank());
  fabric::Address rows_of_group = outgoing_;
  std::vector<PutHandle> sent;
  if (groups_.groups() > 1) {
    core.phase("counts to rails");
    for (std::uint32_t i = 0; i < groups_.groups(); ++i) {
      const std::uint32_t to = (group + 1 + i) % groups_.groups();
      sent.push_back(co_await core.put(groups_.device(to, member), from_group(group),
                                       outgoing_ + to * block_bytes(),
                                       static_cast<std::uint32_t>(block_bytes())));
    }
    Counts summed(std::size_t{groups_.members()} * width_, 1);
    for (std::uint32_t from = 0; from < groups_.groups(); ++from) {
      co_await wait(core, from_group(from), block_bytes(), groups_.device(from, member),
                    "counts of its node");
      const auto counts = core.array<std::uint32_t>(from_group(from), summed.size());
      for (std::size_t i = 0; i < summed.size(); ++i) summed[i] += counts[i] - 1;
      const Counts zeros(summed.size(), 0);
      core.write_bytes(from_group(from), std::as_bytes(std::span(zeros)));
    }
    co_await core.stream(groups_.groups() * block_bytes());
    core.write_bytes(summed_, std::as_bytes(std::span(summed)));
    rows_of_group = summed_;
  }
  core.phase("counts to lanes");
  for (std::uint32_t i = 0; i < groups_.members(); ++i) {
    const std::uint32_t to = (member + 1 + i) % groups_.members();
    sent.push_back(co_await core.put(groups_.device(group, to), from_lane(member),
                                     rows_of_group + to * row_bytes(),
                                     static_cast<std::uint32_t>(row_bytes())));
  }
  Counts experts(placement_.max_local(), 0);
  for (std::uint32_t lane = 0; lane < groups_.members(); ++lane) {
    co_await wait(core, from_lane(lane), row_bytes(), groups_.device(group, lane), "counts");
    const auto counts = core.array<std::uint32_t>(from_lane(lane), width_);
    core.write(messages(lane), counts[0] - 1);
    for (std::size_t local = 0; local < experts.size(); ++local) {
      experts[local] += counts[1 + local] - 1;
    }
    const Counts zeros(width_, 0);
    core.write_bytes(from_lane(lane), std::as_bytes(std::span(zeros)));
  }
  for (std::uint32_t local = 0; local < experts.size(); ++local) {
    core.write(messages(groups_.members() + local), experts[local]);
  }
  co_await core.stream(groups_.members() * row_bytes());
  for (const PutHandle& handle : sent) co_await core.wait_local(handle);
}

}  // namespace orrery::moe
