#include "devices/put_orders.h"

#include <algorithm>

#include "devices/check_log.h"
#include "emu/errors.h"

namespace orrery::devices {

std::uint32_t PutOrders::issued(Put put, std::uint32_t source, std::uint64_t identity,
                                std::uint64_t serial) {
  const auto index = static_cast<std::uint32_t>(puts_.size());
  const std::uint32_t core = put.access.moment.core;
  const std::uint32_t channel = channel_of(identity);
  const auto [it, is_new] = stream_numbers_.try_emplace(
      {core, put.target, channel}, static_cast<std::uint32_t>(streams_.size()));
  put.stream = it->second;
  if (is_new) {
    Stream& stream = streams_.emplace_back();
    stream.core = core;
    stream.target = put.target;
    stream.channel = kNoStream;
    of_core_[core].streams.push_back(put.stream);
    if (devices::is_ordered(identity)) {
      stream.channel = channel_numbers_
                           .try_emplace({source, put.target, channel},
                                        static_cast<std::uint32_t>(channels_.size()))
                           .first->second;
      channels_.resize(std::max<std::size_t>(channels_.size(), stream.channel + 1));
      channels_[stream.channel].push_back(put.stream);
    }
  }
  Stream& stream = streams_[put.stream];
  put.number = static_cast<std::uint32_t>(stream.epochs.size());
  put.drained = of_core_[core].drained;
  put.in_order = stream.channel != kNoStream &&
                 (devices::tells(identity) || !signals_alone(source, put.target));
  put.first_alone =
      is_posted(source, put.target) ? rules_.posted_first_fragment : rules_.first_fragment;
  stream.epochs.push_back(put.access.moment.epoch);
  of_core_[core].puts.push_back(index);
  in_flight_[{source, put.target, identity}] = index;
  of_serial_[{source, serial}] = index;
  puts_.push_back(std::move(put));
  return index;
}

std::uint32_t PutOrders::asked(Put put) {
  put.is_get = true;
  put.stream = kNoStream;
  puts_.push_back(std::move(put));
  return static_cast<std::uint32_t>(puts_.size() - 1);
}

void PutOrders::placed(std::uint32_t source, std::uint32_t target, std::uint64_t identity,
                       std::uint64_t data_on, std::uint64_t word_on) {
  Put& put = puts_[in_flight_.at({source, target, identity})];
  for (Put::Piece& piece : put.pieces) piece.to += &piece == &put.pieces.back() ? word_on : data_on;
}

std::uint32_t PutOrders::became_visible(std::uint32_t source, std::uint32_t target,
                                        std::uint64_t identity, bool first, fabric::Address begin,
                                        fabric::Address end) {
  const auto it = in_flight_.find({source, target, identity});
  if (it == in_flight_.end()) throw emu::InvariantError("bytes of a put that nobody issued");
  const std::uint32_t index = it->second;
  Put& put = puts_[index];
  if (first) {
    const bool none = put.first_begin == put.first_end;
    put.first_begin = none ? begin : std::min(put.first_begin, begin);
    put.first_end = none ? end : std::max(put.first_end, end);
  }
  put.visible_bytes += end - begin;
  if (put.visible_bytes == put.bytes) in_flight_.erase(it);
  return index;
}

void PutOrders::left(std::uint32_t source, std::uint64_t serial, const Knowledge& knower) {
  const std::uint32_t index = of_serial_.at({source, serial});
  OfCore& core = of_core_[puts_[index].access.moment.core];
  while (core.left < core.puts.size() && core.puts[core.left] <= index) {
    puts_[core.puts[core.left++]].left = knower.moment();
  }
}

void PutOrders::acknowledged(const Knowledge& knower, std::uint32_t device, std::uint8_t which) {
  OfCore& core = of_core_[knower.moment().core];
  core.drained = knower.moment().epoch;
  if (which == 0) {
    while (core.left < core.puts.size()) puts_[core.puts[core.left++]].left = knower.moment();
  }
  for (const std::uint32_t each : core.streams) {
    const std::uint32_t target = streams_[each].target;
    const bool posted = is_posted(device, target);
    if (which == (posted ? CheckRecord::kStores : CheckRecord::kPosted)) continue;
    if (!says_visible(device, target)) continue;
    learn(streams_[each], knower, static_cast<std::uint32_t>(streams_[each].epochs.size()));
  }
}

void PutOrders::acknowledged(std::uint32_t source, std::uint64_t serial, const Knowledge& knower) {
  left(source, serial, knower);
  Put& put = puts_[of_serial_.at({source, serial})];
  if (says_visible(source, put.target)) put.complete.push_back(knower.moment());
}

void PutOrders::learn(Stream& stream, const Knowledge& knower, std::uint32_t number) {
  if (number == 0) return;
  auto it = std::find_if(
      stream.learned.begin(), stream.learned.end(),
      [&knower](const Stream::Learned& each) { return each.core == knower.moment().core; });
  if (it == stream.learned.end()) {
    stream.learned.push_back({knower.moment().core, {}});
    it = stream.learned.end() - 1;
  }
  if (!it->known.empty() && it->known.back().second >= number) return;
  it->known.emplace_back(knower.moment().epoch, number);
}

template <typename Each>
bool PutOrders::all_blocks(const Put& put, fabric::Address begin, fabric::Address end,
                           Each&& each) const {
  for (const Put::Piece& piece : put.pieces) {
    const fabric::Address from = std::max(begin, piece.to);
    const fabric::Address until = std::min(end, piece.to + piece.bytes);
    if (from >= until) continue;
    for (std::uint64_t block = from / block_bytes_; block <= (until - 1) / block_bytes_; ++block) {
      if (!each(piece.to, block)) return false;
    }
  }
  return true;
}

bool PutOrders::is_seen(const Put& put, fabric::Address piece, std::uint64_t block,
                        const Knowledge& knower) const {
  return std::any_of(put.looks.begin(), put.looks.end(), [&](const Put::Look& look) {
    return look.block == block && look.piece == piece && knower.knows(look.moment);
  });
}

void PutOrders::look(Put& put, fabric::Address begin, fabric::Address end,
                     const Knowledge& knower) {
  all_blocks(put, begin, end, [&](fabric::Address piece, std::uint64_t block) {
    if (!is_seen(put, piece, block, knower)) put.looks.push_back({piece, block, knower.moment()});
    return true;
  });
}

void PutOrders::acquire(Put& put, fabric::Address begin, fabric::Address end, Knowledge& core) {
  core.learn(put.issue);
  if (put.has_signal && end > put.pieces.back().to &&
      begin < put.pieces.back().to + put.pieces.back().bytes) {
    put.complete.push_back(core.moment());
  }
  if (put.drained > 0) {
    for (const std::uint32_t each : of_core_[put.access.moment.core].streams) {
      Stream& stream = streams_[each];
      if (stream.target != put.target) continue;
      const auto until = std::lower_bound(stream.epochs.begin(), stream.epochs.end(), put.drained);
      learn(stream, core, static_cast<std::uint32_t>(until - stream.epochs.begin()));
    }
  }
  if (!put.in_order) return;
  if (put.first_alone && (end <= put.first_begin || begin >= put.first_end)) return;
  for (const std::uint32_t each : channels_[streams_[put.stream].channel]) {
    Stream& stream = streams_[each];
    if (each == put.stream) {
      learn(stream, core, put.number);
      continue;
    }
    const auto issued =
        std::upper_bound(stream.epochs.begin(), stream.epochs.end(), put.issue.of(stream.core));
    learn(stream, core, static_cast<std::uint32_t>(issued - stream.epochs.begin()));
  }
}

void PutOrders::acquire_seen(Put& put, fabric::Address begin, fabric::Address end,
                             Knowledge& core) {
  all_blocks(put, begin, end, [&](fabric::Address piece, std::uint64_t block) {
    if (is_seen(put, piece, block, core)) {
      acquire(put, std::max(begin, block * block_bytes_), std::min(end, (block + 1) * block_bytes_),
              core);
    }
    return true;
  });
}

bool PutOrders::is_visible(const Put& put, const Knowledge& knower) const {
  if (std::any_of(put.complete.begin(), put.complete.end(),
                  [&knower](const Moment& each) { return knower.knows(each); })) {
    return true;
  }
  if (put.is_get) return false;
  for (const Stream::Learned& learned : streams_[put.stream].learned) {
    const std::uint32_t epoch = knower.of(learned.core);
    auto it = std::upper_bound(
        learned.known.begin(), learned.known.end(), epoch,
        [](std::uint32_t until, const auto& entry) { return until < entry.first; });
    if (it != learned.known.begin() && std::prev(it)->second > put.number) return true;
  }
  return false;
}

bool PutOrders::is_proven(const Put& put, fabric::Address begin, fabric::Address end,
                          const Knowledge& knower) const {
  return is_visible(put, knower) ||
         all_blocks(put, begin, end, [&](fabric::Address piece, std::uint64_t block) {
           return is_seen(put, piece, block, knower);
         });
}

bool PutOrders::is_ordered(const Put& earlier, const Put& put, fabric::Address begin,
                           fabric::Address end) const {
  if (earlier.is_get || put.is_get) return false;
  if (earlier.target == put.target && earlier.access.moment.core == put.access.moment.core &&
      earlier.access.moment.epoch < put.drained) {
    return true;
  }
  const std::uint32_t channel = streams_[put.stream].channel;
  if (!put.in_order || channel != streams_[earlier.stream].channel) return false;
  if (put.first_alone && (begin < put.first_begin || end > put.first_end)) return false;
  return put.issue.knows(earlier.access.moment);
}

}  // namespace orrery::devices
