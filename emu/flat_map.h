// A hash table from 64-bit keys to small values in one array: linear probing, no removal, a cache
// miss or so per look-up. For what a device remembers about addresses.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "emu/random.h"

namespace orrery::emu {

template <typename Value>
class FlatMap {
 public:
  /// The value of `key`, made (value-initialised) if there is none. Valid until the next call.
  Value& operator[](std::uint64_t key) {
    if (2 * (count_ + 1) > entries_.size()) grow();
    Entry& entry = entries_[slot_of(key)];
    if (!entry.used) {
      entry = {key, true, Value{}};
      ++count_;
    }
    return entry.value;
  }
  /// Null if there is none.
  const Value* find(std::uint64_t key) const {
    if (count_ == 0) return nullptr;
    const Entry& entry = entries_[slot_of(key)];
    return entry.used ? &entry.value : nullptr;
  }
  std::size_t size() const { return count_; }

 private:
  struct Entry {
    std::uint64_t key = 0;
    bool used = false;
    Value value{};
  };

  std::size_t slot_of(std::uint64_t key) const {
    const std::size_t mask = entries_.size() - 1;
    std::size_t slot = mix64(key) & mask;
    while (entries_[slot].used && entries_[slot].key != key) slot = (slot + 1) & mask;
    return slot;
  }
  void grow() {
    std::vector<Entry> old(entries_.empty() ? 16 : 2 * entries_.size());
    old.swap(entries_);
    for (Entry& entry : old) {
      if (entry.used) entries_[slot_of(entry.key)] = std::move(entry);
    }
  }

  std::vector<Entry> entries_;
  std::size_t count_ = 0;
};

}  // namespace orrery::emu
