#include "emu/process_group.h"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

#include "emu/errors.h"
#include "emu/mpi_check.h"

namespace orrery::emu {

namespace {

// One MPI call moves at most INT_MAX elements.
constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;

/// Variables that a launcher sets for every process it starts. SLURM_PROCID is not among them:
/// sbatch sets it for plain scripts too; srun with MPI support sets PMIX_RANK or PMI_RANK.
constexpr const char* kLauncherVariables[] = {
    "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",       "PMI_RANK",           "PMI_SIZE",
    "MPI_LOCALNRANKS",      "MPI_LOCALRANKID", "MV2_COMM_WORLD_SIZE"};

bool started_by_launcher() {
  return std::any_of(std::begin(kLauncherVariables), std::end(kLauncherVariables),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

int environment_number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

/// Cores that any process of `comm` may run on, by the affinity masks.
int usable_cores(const ProcessGroup& processes, MPI_Comm comm) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof(mask), &mask);
  cpu_set_t all;
  check_mpi(processes, MPI_Allreduce(&mask, &all, sizeof(mask), MPI_BYTE, MPI_BOR, comm),
            "MPI_Allreduce");
  return std::max(1, CPU_COUNT(&all));
}

}  // namespace

ProcessGroup::ProcessGroup(int* argc, char*** argv) {
  if (!started_by_launcher()) return;
  // Without this, Open MPI's own waits spin through whole time slices that the awaited process
  // needs.
  const int expected_local = environment_number("OMPI_COMM_WORLD_LOCAL_SIZE");
  cpu_set_t mask;
  if (expected_local > 1 && sched_getaffinity(0, sizeof(mask), &mask) == 0 &&
      expected_local > CPU_COUNT(&mask)) {
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  }
  int provided = 0;
  if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
    fail("MPI_Init_thread failed");
  }
  uses_mpi_ = true;
  communicator_ = std::make_unique<Communicator>(Communicator{MPI_COMM_WORLD});
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check_mpi(*this, MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(*this, MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  const int launched =
      std::max({environment_number("OMPI_COMM_WORLD_SIZE"), environment_number("PMI_SIZE"),
                environment_number("MV2_COMM_WORLD_SIZE")});
  if (size_ == 1 && launched > 1) {
    throw ConfigError("mpirun", "",
                      std::to_string(launched) + " processes that do not know each other",
                      "the launcher of the MPI library that this program is linked with");
  }
  MPI_Comm local = MPI_COMM_NULL;
  check_mpi(*this,
            MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local),
            "MPI_Comm_split_type");
  check_mpi(*this, MPI_Comm_size(local, &local_size_), "MPI_Comm_size");
  oversubscribed_ = local_size_ > usable_cores(*this, local);
  MPI_Comm_free(&local);
}

ProcessGroup::ProcessGroup() = default;

ProcessGroup::ProcessGroup(const ProcessGroup& parent, int colour)
    : oversubscribed_(parent.oversubscribed_), parent_(&parent) {
  if (!parent.uses_mpi_) return;
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(*this, MPI_Comm_split(comm_of(parent), colour, parent.rank_, &part), "MPI_Comm_split");
  check_mpi(*this, MPI_Comm_rank(part, &rank_), "MPI_Comm_rank");
  check_mpi(*this, MPI_Comm_size(part, &size_), "MPI_Comm_size");
  if (size_ == 1) {
    MPI_Comm_free(&part);
    return;
  }
  uses_mpi_ = true;
  communicator_ = std::make_unique<Communicator>(Communicator{part});
  MPI_Comm local = MPI_COMM_NULL;
  check_mpi(*this, MPI_Comm_split_type(part, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local),
            "MPI_Comm_split_type");
  check_mpi(*this, MPI_Comm_size(local, &local_size_), "MPI_Comm_size");
  MPI_Comm_free(&local);
}

ProcessGroup::~ProcessGroup() {
  if (!uses_mpi_ || failed_ || std::uncaught_exceptions() > 0) return;
  if (parent_ == nullptr) {
    MPI_Finalize();
  } else {
    MPI_Comm_free(&communicator_->handle);
  }
}

void ProcessGroup::fail(const std::string& what) const {
  int rank = rank_;
  for (const ProcessGroup* group = this; group != nullptr; group = group->parent_) {
    group->failed_ = true;
    rank = group->rank_;
  }
  throw TransportError("process " + std::to_string(rank) + ": " + what);
}

std::vector<std::vector<std::byte>> ProcessGroup::all_gather(
    std::span<const std::byte> mine) const {
  if (size_ == 1) return {{mine.begin(), mine.end()}};
  const auto count = static_cast<std::size_t>(size_);
  const std::uint64_t my_bytes = mine.size();
  std::vector<std::uint64_t> bytes(count);
  check_mpi(
      *this,
      MPI_Allgather(&my_bytes, 1, MPI_UINT64_T, bytes.data(), 1, MPI_UINT64_T, comm_of(*this)),
      "MPI_Allgather");
  std::vector<int> counts(count);
  std::vector<int> offsets(count);
  std::size_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    counts[i] = static_cast<int>(bytes[i]);
    offsets[i] = static_cast<int>(total);
    total += bytes[i];
    if (total > kMaxMessageBytes) throw InvariantError("all_gather of more than 1 GiB");
  }
  std::vector<std::byte> all(total);
  check_mpi(*this,
            MPI_Allgatherv(mine.data(), counts[static_cast<std::size_t>(rank_)], MPI_BYTE,
                           all.data(), counts.data(), offsets.data(), MPI_BYTE, comm_of(*this)),
            "MPI_Allgatherv");
  std::vector<std::vector<std::byte>> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i].assign(all.begin() + offsets[i], all.begin() + offsets[i] + counts[i]);
  }
  return out;
}

std::vector<std::vector<std::byte>> ProcessGroup::gather(std::span<const std::byte> mine) const {
  if (size_ == 1) return {{mine.begin(), mine.end()}};
  constexpr int kTag = 1;
  const std::uint64_t my_bytes = mine.size();
  std::vector<std::uint64_t> bytes(rank_ == 0 ? static_cast<std::size_t>(size_) : 0);
  check_mpi(
      *this,
      MPI_Gather(&my_bytes, 1, MPI_UINT64_T, bytes.data(), 1, MPI_UINT64_T, 0, comm_of(*this)),
      "MPI_Gather");
  if (rank_ != 0) {
    for (std::size_t at = 0; at < mine.size(); at += kMaxMessageBytes) {
      const auto part = mine.subspan(at, std::min(kMaxMessageBytes, mine.size() - at));
      check_mpi(
          *this,
          MPI_Send(part.data(), static_cast<int>(part.size()), MPI_BYTE, 0, kTag, comm_of(*this)),
          "MPI_Send");
    }
    return {};
  }
  std::vector<std::vector<std::byte>> out(static_cast<std::size_t>(size_));
  out[0].assign(mine.begin(), mine.end());
  for (int source = 1; source < size_; ++source) {
    auto& piece = out[static_cast<std::size_t>(source)];
    piece.resize(bytes[static_cast<std::size_t>(source)]);
    for (std::size_t at = 0; at < piece.size(); at += kMaxMessageBytes) {
      const auto part = std::min(kMaxMessageBytes, piece.size() - at);
      check_mpi(*this,
                MPI_Recv(piece.data() + at, static_cast<int>(part), MPI_BYTE, source, kTag,
                         comm_of(*this), MPI_STATUS_IGNORE),
                "MPI_Recv");
    }
  }
  return out;
}

void ProcessGroup::broadcast(std::span<std::byte> data, int root) const {
  if (size_ == 1) return;
  for (std::size_t at = 0; at < data.size(); at += kMaxMessageBytes) {
    const auto part = std::min(kMaxMessageBytes, data.size() - at);
    check_mpi(*this,
              MPI_Bcast(data.data() + at, static_cast<int>(part), MPI_BYTE, root, comm_of(*this)),
              "MPI_Bcast");
  }
}

std::int64_t ProcessGroup::max(std::int64_t value) const {
  if (size_ == 1) return value;
  std::int64_t out = 0;
  check_mpi(*this, MPI_Allreduce(&value, &out, 1, MPI_INT64_T, MPI_MAX, comm_of(*this)),
            "MPI_Allreduce");
  return out;
}

std::int64_t ProcessGroup::sum(std::int64_t value) const {
  if (size_ == 1) return value;
  std::int64_t out = 0;
  check_mpi(*this, MPI_Allreduce(&value, &out, 1, MPI_INT64_T, MPI_SUM, comm_of(*this)),
            "MPI_Allreduce");
  return out;
}

void ProcessGroup::barrier() const {
  if (size_ > 1) check_mpi(*this, MPI_Barrier(comm_of(*this)), "MPI_Barrier");
}

void ProcessGroup::patient_barrier(const std::function<void()>& waiting) const {
  if (size_ == 1) return;
  constexpr auto kNap = std::chrono::milliseconds(2);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(*this, MPI_Ibarrier(comm_of(*this), &request), "MPI_Ibarrier");
  for (;;) {
    int done = 0;
    check_mpi(*this, MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return;
    if (waiting) waiting();
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace orrery::emu
