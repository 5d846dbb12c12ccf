#include "emu/buffer_pool.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace orrery::emu {

namespace {
constexpr std::uint64_t kHugePage = 2 << 20;
constexpr std::uint64_t kBlock = 32 << 20;
}  // namespace

static_assert(BufferPool::capacity_of(BufferPool::class_of(1)) == 256);
static_assert(BufferPool::capacity_of(BufferPool::class_of(257)) == 320);
static_assert(BufferPool::capacity_of(BufferPool::class_of(14336)) == 14336);
static_assert(BufferPool::capacity_of(BufferPool::class_of(7200)) == 8192);
static_assert(BufferPool::capacity_of(BufferPool::class_of(8192)) == 8192);

// A thread that keeps a few blocks committed ahead of their use.
class BufferPool::CommitAhead {
 public:
  /// Commits `blocks` blocks at once, and then keeps kBlocks ahead.
  explicit CommitAhead(std::size_t blocks) : eager_(blocks), thread_([this] { work(); }) {}
  ~CommitAhead() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  /// The next committed block, if there is one already.
  std::unique_ptr<HostRange> take() {
    std::unique_ptr<HostRange> block;
    {
      const std::lock_guard lock(mutex_);
      if (!ready_.empty()) {
        block = std::move(ready_.back());
        ready_.pop_back();
      }
    }
    changed_.notify_all();
    return block;
  }

 private:
  static constexpr std::size_t kBlocks = 8;

  void work() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || eager_ > 0 || ready_.size() < kBlocks; });
        if (stop_) return;
        if (eager_ > 0) --eager_;
      }
      auto block = std::make_unique<HostRange>(kBlock);
      block->commit(0, kBlock);
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(block));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<HostRange>> ready_;
  std::size_t eager_;
  bool stop_ = false;
  std::thread thread_;
};

BufferPool::BufferPool(bool spare_core) : spare_core_(spare_core) {}
BufferPool::~BufferPool() = default;

void BufferPool::expect(std::uint64_t bytes) {
  constexpr std::uint64_t kLarge = 256 << 20;
  if (spare_core_ && !ahead_ && bytes >= kLarge)
    ahead_ = std::make_unique<CommitAhead>(bytes / kBlock);
}

std::byte* BufferPool::take_block(std::uint64_t bytes) {
  std::unique_ptr<HostRange> block;
  // Small runs need no helper; it begins when a run turns out to be large.
  constexpr std::size_t kLargeRun = 4;
  if (spare_core_ && !ahead_ && blocks_.size() == kLargeRun)
    ahead_ = std::make_unique<CommitAhead>(0);
  if (ahead_ && bytes == kBlock) block = ahead_->take();
  if (!block) block = std::make_unique<HostRange>(bytes);
  reserved_ += bytes;
  blocks_.push_back(std::move(block));
  return blocks_.back()->data();
}

Buffer* BufferPool::allocate(std::uint32_t size_class) {
  const std::uint64_t bytes = capacity_of(size_class) + Buffer::kHeaderBytes;
  if (left_ < bytes) {
    left_ = std::max(kBlock, (bytes + kHugePage - 1) / kHugePage * kHugePage);
    cursor_ = take_block(left_);
  }
  auto* buffer = reinterpret_cast<Buffer*>(cursor_);
  cursor_ += bytes;
  left_ -= bytes;
  buffer->size_class = size_class;
  return buffer;
}

}  // namespace orrery::emu
