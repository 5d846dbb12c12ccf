#include "emu/buffer_pool.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace orrery::emu {

namespace {
constexpr std::uint64_t kHugePage = 2 << 20;
}  // namespace

static_assert(BufferPool::capacity_of(BufferPool::class_of(1)) == 256);
static_assert(BufferPool::capacity_of(BufferPool::class_of(257)) == 320);
static_assert(BufferPool::capacity_of(BufferPool::class_of(14336)) == 14336);
static_assert(BufferPool::capacity_of(BufferPool::class_of(7200)) == 8192);
static_assert(BufferPool::capacity_of(BufferPool::class_of(8192)) == 8192);

// A thread that keeps a few blocks committed ahead of their use.
class BlockSource::CommitAhead {
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
      auto block = std::make_unique<HostRange>(BlockSource::kBlock);
      block->commit(0, BlockSource::kBlock);
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

BlockSource::BlockSource(bool spare_core) : spare_core_(spare_core) {}
BlockSource::~BlockSource() = default;

void BlockSource::expect(std::uint64_t bytes) {
  constexpr std::uint64_t kLarge = 256 << 20;
  if (spare_core_ && !ahead_ && bytes >= kLarge)
    ahead_ = std::make_unique<CommitAhead>(bytes / kBlock);
}

std::byte* BlockSource::take(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes >= kBlock) return take_block(bytes);
  if (left_ < bytes) {
    cursor_ = take_block(kBlock);
    left_ = kBlock;
  }
  left_ -= bytes;
  return std::exchange(cursor_, cursor_ + bytes);
}

std::byte* BlockSource::take_block(std::uint64_t bytes) {
  std::unique_ptr<HostRange> block;
  // Small runs need no helper; it begins when a run turns out to be large.
  constexpr std::size_t kLargeRun = 4;
  if (spare_core_ && !ahead_ && blocks_.size() == kLargeRun)
    ahead_ = std::make_unique<CommitAhead>(0);
  if (ahead_ && bytes == kBlock) block = ahead_->take();
  if (!block) block = std::make_unique<HostRange>(bytes);
  blocks_.push_back(std::move(block));
  return blocks_.back()->data();
}

BufferPool::BufferPool(int index, int pools, BlockSource& blocks)
    : index_(static_cast<std::uint32_t>(index)),
      block_bytes_(pools == 1 ? BlockSource::kBlock : kHugePage),
      source_(blocks) {
  for (auto& lists : returned_) lists.resize(static_cast<std::size_t>(pools), nullptr);
}

Buffer* BufferPool::allocate(std::uint32_t size_class) {
  const std::uint64_t bytes = capacity_of(size_class) + Buffer::kHeaderBytes;
  if (left_ < bytes) {
    left_ = std::max(block_bytes_, (bytes + kHugePage - 1) / kHugePage * kHugePage);
    reserved_ += left_;
    cursor_ = source_.take(left_);
  }
  auto* buffer = reinterpret_cast<Buffer*>(cursor_);
  cursor_ += bytes;
  left_ -= bytes;
  buffer->size_class = size_class;
  buffer->home = index_;
  return buffer;
}

}  // namespace orrery::emu
