// A transport that uses every freedom its contract leaves, over one that behaves too well to show
// mistakes.
#pragma once

#include <sched.h>

#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "emu/transport.h"

namespace orrery::emu {

/// Keeps puts back, reads their source as late as it may, and carries them out in any order: some
/// while it progresses, the rest by flush(), each cut in two anywhere, and other processes run in
/// between.
class HostileTransport final : public Transport {
 public:
  HostileTransport(std::unique_ptr<Transport> transport, unsigned seed)
      : transport_(std::move(transport)), random_(seed) {}

  std::string name() const override { return transport_->name(); }
  std::span<std::byte> expose(std::size_t bytes) override { return transport_->expose(bytes); }
  void put(int peer, std::uint64_t offset, std::span<const std::byte> bytes) override {
    const std::size_t cut = bytes.empty() ? 0 : random_() % bytes.size();
    held_.push_back({peer, offset, bytes.first(cut)});
    held_.push_back({peer, offset + cut, bytes.subspan(cut)});
  }
  void flush() override {
    while (!held_.empty()) {
      release_one();
      transport_->flush();
      if (random_() % 4 == 0) sched_yield();
    }
    transport_->flush();
  }
  void progress() override {
    if (!held_.empty() && random_() % 8 == 0) release_one();
    transport_->progress();
  }
  void start_min(std::span<const std::int64_t> values) override { transport_->start_min(values); }
  bool test_min(std::span<std::int64_t> values) override {
    if (!held_.empty() && random_() % 8 == 0) release_one();
    return transport_->test_min(values);
  }

 private:
  struct Held {
    int peer;
    std::uint64_t offset;
    std::span<const std::byte> bytes;
  };

  void release_one() {
    std::swap(held_[random_() % held_.size()], held_.back());
    const Held put = held_.back();
    held_.pop_back();
    transport_->put(put.peer, put.offset, put.bytes);
  }

  std::unique_ptr<Transport> transport_;
  std::minstd_rand random_;
  std::vector<Held> held_;
};

}  // namespace orrery::emu
