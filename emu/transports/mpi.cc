#include "emu/transports/mpi.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "emu/mpi_check.h"
#include "emu/transports/landing.h"

namespace orrery::emu {

namespace {

constexpr std::size_t kMaxPutBytes = std::size_t{1} << 30;  // MPI counts are int
// Open MPI starts a window of shared memory anywhere: the landing memory begins at the first whole
// line of it, and windows of whole pages keep neighbours off each other's lines.
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;

}  // namespace

MpiTransport::MpiTransport(const ProcessGroup& processes)
    : processes_(processes), reduction_(processes) {}

MpiTransport::~MpiTransport() {
  if (window_ == MPI_WIN_NULL || processes_.failed() || std::uncaught_exceptions() > 0) return;
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

std::span<std::byte> MpiTransport::expose(std::size_t bytes) {
  const std::size_t window_bytes = ((bytes + kAlignment) / kPage + 1) * kPage;
  void* base = nullptr;
  check_mpi(processes_,
            MPI_Win_allocate(static_cast<MPI_Aint>(window_bytes), 1, MPI_INFO_NULL,
                             reduction_.comm(), static_cast<void*>(&base), &window_),
            "MPI_Win_allocate");
  MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN);
  check_mpi(processes_, MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
  const auto skip = -reinterpret_cast<std::uintptr_t>(base) % kAlignment;
  landing_ = {static_cast<std::byte*>(base) + skip, bytes};
  const Peer mine{skip, bytes};
  for (const auto& peer : processes_.all_gather(std::as_bytes(std::span(&mine, 1)))) {
    std::memcpy(&peers_.emplace_back(), peer.data(), sizeof(mine));
  }
  return landing_;
}

void MpiTransport::put(int to, std::uint64_t offset, std::span<const std::byte> bytes) {
  const Peer& peer = peers_.at(static_cast<std::size_t>(to));
  check_put(to, offset, bytes.size(), peer.landing_bytes);
  if (to == processes_.rank()) {
    if (!bytes.empty()) std::memcpy(landing_.data() + offset, bytes.data(), bytes.size());
    return;
  }
  for (std::size_t at = 0; at < bytes.size(); at += kMaxPutBytes) {
    const int count = static_cast<int>(std::min(kMaxPutBytes, bytes.size() - at));
    check_mpi(
        processes_,
        MPI_Put(bytes.data() + at, count, MPI_BYTE, to,
                static_cast<MPI_Aint>(peer.landing_at + offset + at), count, MPI_BYTE, window_),
        "MPI_Put");
    unflushed_ = true;
  }
}

void MpiTransport::flush() {
  if (!unflushed_) return;
  check_mpi(processes_, MPI_Win_flush_all(window_), "MPI_Win_flush_all");
  unflushed_ = false;
}

void MpiTransport::progress() {
  int found = 0;
  check_mpi(processes_,
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, reduction_.comm(), &found, MPI_STATUS_IGNORE),
            "MPI_Iprobe");
  // What peers put is to be seen by plain loads here, in the separate memory model too.
  if (window_ != MPI_WIN_NULL) check_mpi(processes_, MPI_Win_sync(window_), "MPI_Win_sync");
}

bool MpiTransport::test_min(std::span<std::int64_t> values) {
  const bool done = reduction_.test(values);
  if (window_ != MPI_WIN_NULL) check_mpi(processes_, MPI_Win_sync(window_), "MPI_Win_sync");
  return done;
}

}  // namespace orrery::emu
