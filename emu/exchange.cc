#include "emu/exchange.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "emu/errors.h"
#include "emu/idle.h"

namespace orrery::emu {

// Landing memory of a process, once per peer: four words that the peer writes, each on a cache line
// of its own, then the ring of what the peer sends.
//
// A ring holds records that start at multiples of 8 and never wrap: RecordHeader, then an event or
// a payload; a pad fills the end. Positions (tails and heads) count bytes since the start and are
// never reset.
//
// Tails. Within window k data and the word tail[k & 1] are put together; one flush and the
// completion of the reduction of window k, which every process joins after its flush, say that both
// are in place. A peer that is already in window k+1 writes the other word, and cannot reach window
// k+2 before this process has joined reduction k+1, long after it has read tail[k & 1]. A peer that
// sent nothing leaves an older, smaller tail.
//
// Full rings. The sender flushes, puts its tail into the word mid_tail, flushes again and takes in
// what others sent it until the target has returned room by putting its head into the sender's word
// credit. So whatever mid_tail says is in place whenever it is read. A target returns credit for
// every quarter of a ring: a sender, who needs at most a chunk and a pad (half a ring) at once,
// never waits for the rest.
namespace {

constexpr std::size_t kLine = 64;
enum WordAt : std::size_t { kTailEven, kTailOdd, kMidTail, kCredit, kWords };
constexpr std::size_t kWordsBytes = kWords * kLine;

enum RecordKind : std::uint32_t { kPad, kEvent, kPayload };
struct RecordHeader {
  std::uint32_t kind;
  std::uint32_t bytes;  // what follows, without the filling to a multiple of 8
};
static_assert(sizeof(RecordHeader) == 8);

constexpr std::size_t record_bytes(std::size_t bytes) {
  return (sizeof(RecordHeader) + bytes + 7) / 8 * 8;
}
constexpr std::size_t kMaxRecordBytes = record_bytes(Exchange::kMaxPayloadBytes);
constexpr std::size_t kMinRingBytes = (4 * kMaxRecordBytes + kLine - 1) / kLine * kLine;
constexpr std::size_t kMaxRingBytes = std::size_t{4} << 20;
constexpr std::size_t kLandingBytes = std::size_t{32} << 20;  // per process, before the two limits
// Staged bytes of a chunk are put when the next record would exceed this: small enough to be still
// in the cache and under the sizes where TCP transports change to a slower protocol (measured: 16
// to 48 KiB are alike).
constexpr std::size_t kPutBytes = std::size_t{32} << 10;
// Room for the largest record, alone in its chunk, and for the pad that may follow a chunk.
constexpr std::size_t kChunkBytes = kMaxRecordBytes + sizeof(RecordHeader);
static_assert(kPutBytes <= kMaxRecordBytes);
constexpr std::size_t kMaxChunksInFlight = 32;

/// A position as peers put it. A put is not atomic everywhere (the kernel may copy it byte by
/// byte): a word counts only if its check fits.
struct alignas(16) Word {
  std::uint64_t value = 0;
  std::uint64_t check = 0;

  void set(std::uint64_t position) {
    value = position;
    check = ~position;
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(this, 1)); }
};

/// Raises `position` to what the word at `at` says.
void read_word(std::byte* at, std::uint64_t& position) {
  auto* word = reinterpret_cast<std::uint64_t*>(at);
  const std::uint64_t value = std::atomic_ref(word[0]).load(std::memory_order_acquire);
  const std::uint64_t check = std::atomic_ref(word[1]).load(std::memory_order_acquire);
  if (check == ~value && value > position) position = value;
}

std::size_t pick_ring_bytes(std::size_t wanted, int processes) {
  if (wanted == 0) {
    wanted = std::min(kLandingBytes / static_cast<std::size_t>(processes), kMaxRingBytes);
  }
  return (std::max(wanted, kMinRingBytes) + kLine - 1) / kLine * kLine;
}

}  // namespace

struct Exchange::Peer {
  // What this process sends: the chunk being filled, whose first byte belongs at `tail` of the ring
  // there.
  std::byte* chunk = nullptr;
  std::size_t used = 0;
  std::uint64_t tail = 0;
  std::size_t tail_at = 0;  // tail modulo ring
  std::uint64_t tail_published = 0;
  std::uint64_t mid_tail_published = 0;
  std::uint64_t credit = 0;  // how far the peer has read
  std::uint64_t payloads_sent = 0;
  // What the peer sends: the ring here, read up to `head`, in place up to `limit`.
  std::byte* words = nullptr;
  std::byte* ring = nullptr;
  std::uint64_t head = 0;
  std::size_t head_at = 0;
  std::uint64_t limit = 0;
  std::uint64_t credited = 0;
  std::uint64_t payloads_received = 0;
  // Sources of puts: unchanged until the flush that follows each.
  Word tail_word;
  Word mid_tail_word;
  Word credit_word;
};

Exchange::Exchange(const ProcessGroup& processes, Transport& transport, ExchangeSink& sink,
                   std::size_t ring_bytes)
    : processes_(processes),
      transport_(transport),
      sink_(sink),
      ring_bytes_(pick_ring_bytes(ring_bytes, processes.size())),
      peers_(std::make_unique<Peer[]>(static_cast<std::size_t>(processes.size()))) {
  if (processes_.size() == 1) return;
  const std::size_t block = kWordsBytes + ring_bytes_;
  const auto count = static_cast<std::size_t>(processes_.size());
  const auto landing = transport_.expose(count * block);
  for (std::size_t i = 0; i < count; ++i) {
    peers_[i].words = landing.data() + i * block;
    peers_[i].ring = peers_[i].words + kWordsBytes;
    std::memset(peers_[i].words, 0, kWordsBytes);
  }
  if (processes_.max(static_cast<std::int64_t>(ring_bytes_)) !=
      static_cast<std::int64_t>(ring_bytes_)) {
    throw InvariantError("ring_bytes differs between processes");
  }
  processes_.barrier();  // nobody puts before all words are zero
}

Exchange::~Exchange() = default;

Event& Exchange::send_event(int process) {
  return *new (reserve(process, kEvent, sizeof(Event))) Event;
}

std::uint64_t Exchange::send_payload(int process, std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxPayloadBytes) throw InvariantError("payload larger than kMaxPayloadBytes");
  std::byte* to = reserve(process, kPayload, static_cast<std::uint32_t>(bytes.size()));
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return peers_[static_cast<std::size_t>(process)].payloads_sent++;
}

/// Room for a record's content in the chunk for `process`.
std::byte* Exchange::reserve(int process, std::uint32_t kind, std::uint32_t bytes) {
  if (process < 0 || process >= processes_.size() || process == processes_.rank()) {
    throw InvariantError("exchange: no way to process " + std::to_string(process));
  }
  Peer& peer = peers_[static_cast<std::size_t>(process)];
  const std::size_t record = record_bytes(bytes);
  const std::size_t to_end = ring_bytes_ - peer.tail_at - peer.used;
  if (record > to_end) {
    put_chunk(process, to_end);
  } else if (peer.used > 0 && peer.used + record > kPutBytes) {
    put_chunk(process, 0);
  }
  if (peer.chunk == nullptr) peer.chunk = take_chunk();
  std::byte* at = peer.chunk + peer.used;
  new (at) RecordHeader{kind, bytes};
  peer.used += record;
  return at + sizeof(RecordHeader);
}

std::byte* Exchange::take_chunk() {
  if (free_chunks_.empty()) {
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(kChunkBytes));
    free_chunks_.push_back(chunks_.back().get());
  }
  std::byte* chunk = free_chunks_.back();
  free_chunks_.pop_back();
  return chunk;
}

/// Puts the chunk for `process`, followed by a pad over the last `skip` bytes of the ring, if any.
void Exchange::put_chunk(int process, std::size_t skip) {
  Peer& peer = peers_[static_cast<std::size_t>(process)];
  wait_for_room(process, peer.used + skip);
  std::size_t bytes = peer.used;
  if (skip > 0) {
    if (peer.chunk == nullptr) peer.chunk = take_chunk();
    new (peer.chunk + bytes)
        RecordHeader{kPad, static_cast<std::uint32_t>(skip - sizeof(RecordHeader))};
    bytes += sizeof(RecordHeader);
  }
  if (bytes == 0) return;
  const std::size_t block = kWordsBytes + ring_bytes_;
  const std::size_t ring = static_cast<std::size_t>(processes_.rank()) * block + kWordsBytes;
  transport_.put(process, ring + peer.tail_at, {peer.chunk, bytes});
  peer.tail += peer.used + skip;
  peer.tail_at = (peer.tail_at + peer.used + skip) % ring_bytes_;
  peer.used = 0;
  chunks_in_flight_.push_back(peer.chunk);
  peer.chunk = nullptr;
  if (chunks_in_flight_.size() > kMaxChunksInFlight) flush();
}

/// Returns once `bytes` more fit the ring at `process`.
void Exchange::wait_for_room(int process, std::size_t bytes) {
  Peer& peer = peers_[static_cast<std::size_t>(process)];
  const auto fits = [&] {
    read_word(peer.words + kCredit * kLine, peer.credit);
    return peer.tail + bytes <= peer.credit + ring_bytes_;
  };
  if (fits()) return;
  if (peer.mid_tail_published != peer.tail) {
    flush();
    peer.mid_tail_word.set(peer.tail);
    put_word(process, kMidTail, peer.mid_tail_word.bytes());
    flush();
    peer.mid_tail_published = peer.tail;
  }
  Idle idle(processes_.oversubscribed());
  while (!fits()) {
    poll();
    idle.pause();
  }
}

void Exchange::put_word(int process, std::size_t word, std::span<const std::byte> bytes) {
  const std::size_t block = kWordsBytes + ring_bytes_;
  transport_.put(process, static_cast<std::size_t>(processes_.rank()) * block + word * kLine,
                 bytes);
}

void Exchange::flush() {
  transport_.flush();
  free_chunks_.insert(free_chunks_.end(), chunks_in_flight_.begin(), chunks_in_flight_.end());
  chunks_in_flight_.clear();
}

void Exchange::close_window(std::span<std::int64_t> values) {
  if (processes_.size() == 1) {
    transport_.reduce_min(values);
    return;
  }
  const std::size_t word = (window_ & 1) == 0 ? kTailEven : kTailOdd;
  ++window_;
  for (int process = 0; process < processes_.size(); ++process) {
    Peer& peer = peers_[static_cast<std::size_t>(process)];
    if (peer.used > 0) put_chunk(process, 0);
    if (peer.tail == peer.tail_published) continue;
    peer.tail_word.set(peer.tail);
    put_word(process, word, peer.tail_word.bytes());
    peer.tail_published = peer.tail;
  }
  flush();
  transport_.start_min(values);
  while (!transport_.test_min(values)) take_in();
  for (int process = 0; process < processes_.size(); ++process) {
    Peer& peer = peers_[static_cast<std::size_t>(process)];
    if (peer.words != nullptr) read_word(peer.words + word * kLine, peer.limit);
  }
  take_in();
}

void Exchange::poll() {
  transport_.progress();
  if (processes_.size() > 1) take_in();
}

/// Hands what is known to be in place to the sink and returns credit.
void Exchange::take_in() {
  bool credited = false;
  for (int process = 0; process < processes_.size(); ++process) {
    if (process == processes_.rank()) continue;
    Peer& peer = peers_[static_cast<std::size_t>(process)];
    read_word(peer.words + kMidTail * kLine, peer.limit);
    if (peer.head == peer.limit) continue;
    consume(process);
    if (peer.head - peer.credited < ring_bytes_ / 4) continue;
    peer.credited = peer.head;
    peer.credit_word.set(peer.head);
    put_word(process, kCredit, peer.credit_word.bytes());
    credited = true;
  }
  if (credited) flush();
}

void Exchange::consume(int process) {
  Peer& peer = peers_[static_cast<std::size_t>(process)];
  while (peer.head != peer.limit) {
    const std::byte* at = peer.ring + peer.head_at;
    RecordHeader header;
    std::memcpy(&header, at, sizeof(header));
    at += sizeof(header);
    if (header.kind == kEvent) {
      sink_.on_event(*reinterpret_cast<const Event*>(at));
    } else if (header.kind == kPayload) {
      sink_.on_payload(process, peer.payloads_received++, {at, header.bytes});
    }
    const std::size_t record = record_bytes(header.bytes);
    peer.head += record;
    peer.head_at += record;
    if (peer.head_at == ring_bytes_) peer.head_at = 0;
  }
}

}  // namespace orrery::emu
