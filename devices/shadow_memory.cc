#include "devices/shadow_memory.h"

#include <algorithm>

namespace orrery::devices {

// No cell crosses `at` afterwards.
void ShadowMemory::split(fabric::Address at) {
  const auto it = cells_.upper_bound(at);
  if (it == cells_.begin()) return;
  const auto crossing = std::prev(it);
  if (crossing->first == at || crossing->second.end <= at) return;
  Cell behind = crossing->second;
  crossing->second.end = at;
  cells_.emplace_hint(it, at, std::move(behind));
}

void ShadowMemory::write(fabric::Address address, std::uint64_t bytes, Writer writer) {
  if (bytes == 0) return;
  const fabric::Address end = address + bytes;
  split(address);
  split(end);
  auto next = cells_.erase(cells_.lower_bound(address), cells_.lower_bound(end));
  // What one writes piece by piece is one cell.
  if (next != cells_.begin()) {
    const auto before = std::prev(next);
    if (before->second.end == address && before->second.writer == writer &&
        before->second.reads.empty()) {
      before->second.end = end;
      return;
    }
  }
  cells_.emplace_hint(next, address, Cell{end, writer, {}});
}

void ShadowMemory::read(fabric::Address address, std::uint64_t bytes, const CellRead& read) {
  if (bytes == 0) return;
  const fabric::Address end = address + bytes;
  split(address);
  split(end);
  for (auto it = cells_.lower_bound(address); it != cells_.end() && it->first < end; ++it) {
    std::vector<CellRead>& reads = it->second.reads;
    const auto same = std::find_if(reads.begin(), reads.end(), [&read](const CellRead& each) {
      return each.kind == read.kind && each.access.moment.core == read.access.moment.core;
    });
    if (same != reads.end()) {
      *same = read;
    } else {
      reads.push_back(read);
    }
  }
}

}  // namespace orrery::devices
