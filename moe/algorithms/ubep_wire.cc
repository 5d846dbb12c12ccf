#include "moe/algorithms/ubep_wire.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "moe/row_identity.h"

namespace orrery::moe::ubep {

using devices::Core;
using fabric::Address;

namespace {

// Vector passes over 32-bit elements. TFF: two strided copies lay the payload out around flags that
// are there already, each half of it. SP: compare the tails, reduce.
constexpr int kSpreadPasses = 2;
constexpr int kTailPasses = 2;

using Tail = std::array<std::uint32_t, 8>;

Tail tail_in(std::span<const std::byte> bytes) {
  Tail tail;
  std::memcpy(tail.data(), bytes.data(), sizeof(tail));
  return tail;
}
// All but the first word.
bool ends_in_zeros(const Tail& tail) {
  return std::all_of(tail.begin() + 1, tail.end(), [](std::uint32_t word) { return word == 0; });
}

}  // namespace

FlagKind flag_kind(const std::string& name) {
  if (name == "tff") return FlagKind::kTff;
  if (name == "dc") return FlagKind::kDc;
  if (name == "sp") return FlagKind::kSp;
  return name == "fence" ? FlagKind::kFence : FlagKind::kStopAndWait;
}

Wire::Wire(FlagKind kind, std::uint32_t block, std::uint32_t payload_bytes, bool control,
           std::uint32_t fabric_block)
    : kind_(kind),
      block_(block),
      payload_bytes_(payload_bytes),
      control_(control),
      whitening_(payload_bytes, control, fabric_block) {
  const auto record = static_cast<std::uint32_t>(padded() + sizeof(Trailer));
  if (kind == FlagKind::kTff) {
    slot_bytes_ = (record + data_bytes() - 1) / data_bytes() * block;
  } else if (kind == FlagKind::kSp) {
    slot_bytes_ = static_cast<std::uint32_t>(align_up(record, block));
  } else {
    slot_bytes_ = record;
    block_ = record;  // one piece
  }
}

std::uint32_t Wire::head_bytes() const { return std::min(kIdentityBytes, payload_bytes_); }

std::vector<fabric::Carried::Range> Wire::carried() const {
  std::vector<fabric::Carried::Range> ranges{{0, kIdentityBytes}};
  if (kind_ == FlagKind::kTff || kind_ == FlagKind::kSp) {
    for (std::uint32_t block = 0; block < blocks(); ++block) {
      ranges.push_back({flag_at(block), flag_at(block) + kFlagBytes});
    }
  } else if (kind_ == FlagKind::kDc) {
    const auto whitened = whitening_.carried();
    ranges.insert(ranges.end(), whitened.begin(), whitened.end());
  }
  if (kind_ != FlagKind::kSp) {
    ranges.push_back({trailer_at(), trailer_at() + static_cast<std::uint32_t>(sizeof(Trailer))});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return ranges;
}

// --- Sender ---

void Wire::pack(Core& core, Address record, Address plain, Trailer trailer,
                std::uint32_t round) const {
  trailer.round = round;
  if (control_) core.note_write(record, slot_bytes_);  // what is not carried stands for itself
  if (kind_ == FlagKind::kDc) {
    whitening_.whiten(core, record, plain, round);
  } else {
    const std::uint32_t bytes = control_ ? head_bytes() : payload_bytes_;
    for (std::uint32_t done = 0; done < bytes; done += data_bytes()) {
      const std::uint32_t piece = std::min(data_bytes(), bytes - done);
      core.write_bytes(record + at(done), core.array<std::byte>(plain + done, piece));
    }
  }
  if (kind_ == FlagKind::kTff) {
    Tail flag;
    flag.fill(round);
    for (std::uint32_t block = 0; block < blocks(); ++block) {
      core.write(record + flag_at(block), flag);
    }
  }
  if (kind_ == FlagKind::kSp) trailer.stand_in = stand_in_for_sentinel(core, record);
  if (kind_ == FlagKind::kDc) {
    trailer.checksum = whitening_.checksum(core, record, trailer);
    trailer = whitening_.whitened(trailer);
  }
  core.write(record + trailer_at(), trailer);
}

// A tail that is the sentinel gets another first word, one that no other tail of the row has alone.
std::uint32_t Wire::stand_in_for_sentinel(Core& core, Address record) const {
  thread_local std::vector<std::uint32_t> taken;
  taken.clear();
  bool needed = false;
  for (std::uint32_t block = 0; block + 1 < blocks(); ++block) {
    const Tail tail = tail_in(core.array<std::byte>(record + flag_at(block), kFlagBytes));
    if (!ends_in_zeros(tail)) continue;
    needed = needed || tail[0] == 0;
    taken.push_back(tail[0]);
  }
  if (!needed) return 0;
  std::uint32_t stand_in = 1;
  while (std::find(taken.begin(), taken.end(), stand_in) != taken.end()) ++stand_in;
  for (std::uint32_t block = 0; block + 1 < blocks(); ++block) {
    const Tail tail = tail_in(core.array<std::byte>(record + flag_at(block), kFlagBytes));
    if (tail == Tail{}) core.write(record + flag_at(block), Tail{stand_in});
  }
  return stand_in;
}

emu::Time Wire::pack_time(const devices::Costs& costs) const {
  switch (kind_) {
    case FlagKind::kTff:
      return kSpreadPasses * costs.vector(padded() / 4 / kSpreadPasses);
    case FlagKind::kSp:
      return kTailPasses * costs.vector(blocks() * kFlagBytes / 4);
    case FlagKind::kDc:
      return whitening_.whiten_time(costs) + whitening_.checksum_time(costs);
    default:
      return 0;
  }
}

// --- Receiver ---

bool Wire::arrived(Core& core, const devices::Place& place, std::uint32_t round) const {
  const auto word = [&core](Address address) {
    std::uint32_t value;
    std::memcpy(&value, core.probe(address, sizeof(value)).data(), sizeof(value));
    return value;
  };
  switch (kind_) {
    case FlagKind::kTff:
      for (std::uint32_t block = 0; block < blocks(); ++block) {
        if (word(place.address + flag_at(block)) != round) return false;
      }
      return true;
    case FlagKind::kSp:
      for (std::uint32_t block = 0; block < blocks(); ++block) {
        if (tail_in(core.probe(place.address + flag_at(block), kFlagBytes)) == Tail{}) return false;
      }
      return true;
    case FlagKind::kDc: {
      Trailer trailer;
      const auto bytes = core.probe(place.address + trailer_at(), sizeof(trailer));
      std::memcpy(&trailer, bytes.data(), sizeof(trailer));
      return trailer.round == round &&
             whitening_.checksum(core, place.address, whitening_.whitened(trailer)) ==
                 trailer.checksum;
    }
    default:
      return word(place.address) == round;
  }
}

// A flag in every block is a slot of a vector read each; DC reads and sums the whole row.
emu::Time Wire::read_time(const devices::Costs& costs) const {
  switch (kind_) {
    case FlagKind::kTff:
    case FlagKind::kSp:
      return costs.poll * blocks();
    case FlagKind::kDc:
      return costs.poll + costs.core_copy.serialisation(slot_bytes_) +
             whitening_.checksum_time(costs);
    default:
      return costs.poll;
  }
}

const char* Wire::wants() const {
  switch (kind_) {
    case FlagKind::kTff:
      return "the round in the flags of all blocks";
    case FlagKind::kSp:
      return "no sentinel at the end of any block";
    case FlagKind::kDc:
      return "a row whose checksum is right";
    default:
      return "the round in its flag";
  }
}

void Wire::add_pieces(Address slot, Address row, std::vector<devices::Piece>& out) const {
  const std::uint32_t most = kind_ == FlagKind::kTff ? data_bytes() : payload_bytes_;
  for (std::uint32_t done = 0; done < payload_bytes_; done += most) {
    out.push_back({row + done, slot + at(done), std::min(most, payload_bytes_ - done)});
  }
}

Trailer Wire::restore(Core& core, Address row, Address slot, std::uint32_t round) const {
  auto trailer = core.load<Trailer>(slot + trailer_at());
  if (kind_ == FlagKind::kDc) {
    trailer = whitening_.whitened(trailer);
    whitening_.restore(core, row, round);
  }
  if (kind_ == FlagKind::kSp && trailer.stand_in != 0 && !control_) {
    for (std::uint32_t block = 0; block + 1 < blocks(); ++block) {
      const std::uint32_t begin = flag_at(block);
      const Tail tail = tail_in(core.array<std::byte>(slot + begin, kFlagBytes));
      if (tail != Tail{trailer.stand_in}) continue;
      const Tail zeros{};
      core.write_bytes(
          row + begin,
          std::as_bytes(std::span(zeros)).first(std::min(kFlagBytes, payload_bytes_ - begin)));
    }
  }
  return trailer;
}

emu::Time Wire::restore_time(const devices::Costs& costs) const {
  if (kind_ == FlagKind::kSp) return kTailPasses * costs.vector(blocks() * kFlagBytes / 4);
  return kind_ == FlagKind::kDc ? whitening_.whiten_time(costs) : 0;
}

Trailer Wire::unpack(Core& core, Address row, Address slot, std::uint32_t round) const {
  const std::uint32_t bytes = control_ ? head_bytes() : payload_bytes_;
  if (control_) core.note_write(row, payload_bytes_);
  for (std::uint32_t done = 0; done < bytes; done += data_bytes()) {
    const std::uint32_t piece = std::min(data_bytes(), bytes - done);
    core.write_bytes(row + done, core.array<std::byte>(slot + at(done), piece));
  }
  return restore(core, row, slot, round);
}

std::uint32_t Wire::reset_bytes() const {
  return flag_beside() || kind_ == FlagKind::kDc ? kFlagBytes : blocks() * kFlagBytes;
}

}  // namespace orrery::moe::ubep
