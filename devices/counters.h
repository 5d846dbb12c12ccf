// What a device did, counted (design section 9).
#pragma once

#include <array>
#include <cstdint>

namespace orrery::devices {

struct Counters {
  static constexpr std::size_t kHopClasses =
      8;  // switches on the path; the last class takes the rest
  std::uint64_t puts = 0;
  std::uint64_t signals = 0;  // immediate stores
  std::uint64_t atomics = 0;
  std::uint64_t gets = 0;
  std::uint64_t fences = 0;
  std::uint64_t drains = 0;  // quiets, and fences that had to drain
  std::uint64_t barriers = 0;
  std::uint64_t proxy_fences = 0;       // that proxies were asked for,
  std::uint64_t proxy_fence_waits = 0;  // those that had to wait,
  std::uint64_t proxy_fence_ps = 0;     // and for how long
  std::uint64_t hub_packets = 0;
  std::uint64_t hub_refused = 0;  // puts for which there was no room
  std::uint64_t hub_misses = 0;   // regions whose state was not at hand
  std::uint64_t polls = 0;
  std::uint64_t bytes_put = 0;
  std::uint64_t bytes_got = 0;
  std::array<std::uint64_t, kHopClasses> puts_by_hops{};

  void add(const Counters& other) {
    puts += other.puts;
    signals += other.signals;
    atomics += other.atomics;
    gets += other.gets;
    fences += other.fences;
    drains += other.drains;
    barriers += other.barriers;
    proxy_fences += other.proxy_fences;
    proxy_fence_waits += other.proxy_fence_waits;
    proxy_fence_ps += other.proxy_fence_ps;
    hub_packets += other.hub_packets;
    hub_refused += other.hub_refused;
    hub_misses += other.hub_misses;
    polls += other.polls;
    bytes_put += other.bytes_put;
    bytes_got += other.bytes_got;
    for (std::size_t i = 0; i < kHopClasses; ++i) puts_by_hops[i] += other.puts_by_hops[i];
  }
};

}  // namespace orrery::devices
