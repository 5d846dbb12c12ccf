#include "fabric/adversary.h"

#include <algorithm>

#include "emu/random.h"

namespace orrery::fabric {

namespace {

using emu::Time;

enum class Style { kFlagsEarly, kEveryBlock, kChannels, kPuts };

// By turns, so that eight seeds in a row meet them all.
Style style_of(std::uint64_t seed) {
  switch (seed % 8) {
    case 5:
      return Style::kEveryBlock;
    case 6:
      return Style::kChannels;
    case 7:
      return Style::kPuts;
    default:
      return Style::kFlagsEarly;
  }
}

// Uniform in [0, most].
Time below(std::uint64_t hash, Time most) {
  return static_cast<Time>(emu::mix64(hash) % (static_cast<std::uint64_t>(most) + 1));
}

// How late a block is within its put, up to `most`. `put` and `number` are hashes of the put and
// the block's number in memory. Puts of a channel in a row are later and later, up to eight of them
// from wherever in eight the channel begins: where it keeps their order, each is complete only
// after the one before, and would else be all there by then.
Time within_put(std::uint64_t put, std::uint64_t channel, const Packet& block, std::uint64_t number,
                Time most) {
  const Time step = most / 8;
  const std::uint32_t turn = (block.sequence + static_cast<std::uint32_t>(channel % 8)) % 8;
  const Time far = most - step * (7 - turn) - below(put + 1, step / 2);
  const auto share = [&block, far](std::uint32_t bytes) {
    return static_cast<Time>(static_cast<__int128>(far) * bytes / block.put_bytes);
  };
  const std::uint64_t pick = emu::mix64(put + 2);
  switch (put % 16) {
    case 10:
    case 11:
      return below(emu::combine64(put, number), far);
    case 12: {  // every second, fourth or eighth block in memory, or all but these
      const std::uint64_t odd = (number >> (pick / 4 % 3)) & 1;
      return odd == (pick % 4 == 0 ? 1u : 0u) ? far : 0;
    }
    case 13: {  // the block with this byte
      const auto byte = static_cast<std::uint32_t>(pick % block.put_bytes);
      return byte >= block.offset && byte - block.offset < block.bytes ? far : 0;
    }
    case 14:
      return share(block.offset);
    case 9:
      return far;
    case 15:
      return 0;
    default:  // 9 of 16 puts: the first block is the latest
      return share(block.put_bytes - block.offset);
  }
}

}  // namespace

Time Adversary::late(NodeId node, const Packet& block, std::uint32_t block_bytes) const {
  const std::uint64_t channel = emu::combine64(
      emu::combine64(seed, node), (static_cast<std::uint64_t>(block.source) << 16) | block.core);
  const std::uint64_t put =
      emu::combine64(channel, (static_cast<std::uint64_t>(block.channel) << 32) | block.sequence);
  const Style style = style_of(seed);
  const bool one_block = block.bytes == block.put_bytes || block.signal;
  Time whole = 0;
  Time very_late = 0;
  if (style == Style::kEveryBlock && one_block) whole = below(put, delay);
  if (style == Style::kChannels && channel % 2 == 0) whole = below(channel, delay);
  if (style == Style::kPuts) {
    const std::uint64_t turn = emu::mix64(put + 3) % 8;
    if (turn == 0) return 0;
    if (turn <= (one_block ? 1u : 3u)) very_late = delay - delay / 8 - below(put + 4, delay / 8);
    if (turn >= 6) whole = below(put + 4, delay);
  }
  if (one_block) return std::max(whole, very_late);
  whole = std::max(whole / 2, very_late);  // the rest is for tearing it apart
  return whole + within_put(put, channel, block, block.address / block_bytes, delay - whole);
}

}  // namespace orrery::fabric
