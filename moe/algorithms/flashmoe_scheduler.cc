// FlashMoE, scheduler: makes tiles of what subscribers and processors report and hands them to idle
// processors, first come, first served, until all are done.
#include <algorithm>
#include <deque>
#include <vector>

#include "moe/algorithms/flashmoe.h"

namespace orrery::moe::flashmoe {

using devices::Core;

struct Flashmoe::Tasks {
  std::deque<Note> ready;
  std::vector<std::uint32_t> idle;      // processors
  std::vector<std::uint32_t> handed;    // tasks, by processor
  std::vector<std::uint32_t> to_flush;  // processors
  std::vector<std::uint8_t> warm_up;    // by local expert: its first projections were read
  std::vector<std::uint8_t> warm_down;
  std::uint64_t bound = 0;  // tasks so far, tiles that follow from them included
  std::uint64_t done = 0;
  std::uint64_t tiles = 0;  // of them, of experts
  std::uint64_t tiles_done = 0;
  std::uint32_t packets_ended = 0;  // subscribers
  std::uint32_t ended = 0;

  // The tiles over one block.
  void add_tiles(Note note, std::uint32_t columns, std::vector<std::uint8_t>& warm,
                 std::uint32_t local) {
    note.cold = warm[local] == 0 ? 1 : 0;
    warm[local] = 1;
    for (std::uint32_t column = 0; column < columns; ++column) {
      note.column = column & (kMostColumns - 1);
      ready.push_back(note);
    }
  }
};

emu::Task Flashmoe::hand_out(Core& core, Tasks& tasks, std::uint32_t processor, const Note& task) {
  const std::uint32_t slot = tasks.handed[processor]++;
  co_await core.store(core.rank(), at_.doorbell(processor, slot), task);
}

emu::Task Flashmoe::scheduler(Core& core, std::uint32_t iteration) {
  core.phase("schedule");
  const std::uint32_t processors = this->processors();
  Tasks tasks;
  tasks.handed.assign(processors, 0);
  tasks.warm_up.assign(std::max(max_local_experts(), 1u), 0);
  tasks.warm_down = tasks.warm_up;
  // Processors come when they have dispatched: a doorbell waits for them.
  for (std::uint32_t i = processors; i-- > 0;) tasks.idle.push_back(i);
  bool flushed = signaling_ != Signaling::kReordered;
  for (std::uint32_t slot = 0;; ++slot) {
    if (!flushed && tasks.packets_ended == subscribers_ && tasks.tiles_done == tasks.tiles) {
      flushed = true;
      tasks.bound += processors;
      for (std::uint32_t i = 0; i < processors; ++i) tasks.to_flush.push_back(i);
    }
    for (std::size_t i = 0; i < tasks.to_flush.size();) {
      const std::uint32_t processor = tasks.to_flush[i];
      const auto found = std::find(tasks.idle.begin(), tasks.idle.end(), processor);
      if (found == tasks.idle.end()) {
        ++i;
        continue;
      }
      tasks.idle.erase(found);
      tasks.to_flush.erase(tasks.to_flush.begin() + static_cast<std::ptrdiff_t>(i));
      co_await hand_out(core, tasks, processor, note(iteration, Note::kFlush));
    }
    while (!tasks.ready.empty() && !tasks.idle.empty()) {
      const Note task = tasks.ready.front();
      const std::uint32_t processor = tasks.idle.back();
      tasks.ready.pop_front();
      tasks.idle.pop_back();
      co_await hand_out(core, tasks, processor, task);
    }
    if (flushed && tasks.ended == subscribers_ && tasks.done == tasks.bound) break;
    Note found;
    co_await next_note(core, at_.note(0, slot), iteration, found);
    const std::uint32_t local = at_.local_of(found.unit);
    switch (found.kind) {
      case Note::kPacket: {
        const std::uint64_t tiles = std::uint64_t{found.block} * (up_columns() + down_columns());
        tasks.bound += tiles;
        tasks.tiles += tiles;
        for (std::uint32_t block = 0; block < found.block; ++block) {
          tasks.add_tiles(note(iteration, Note::kUp, found.unit, block), up_columns(),
                          tasks.warm_up, local);
        }
        break;
      }
      case Note::kReturned: {
        ++tasks.bound;
        tasks.ready.push_back(note(iteration, Note::kCombine, found.unit, found.block));
        break;
      }
      case Note::kPacketsEnd:
        ++tasks.packets_ended;
        break;
      case Note::kEnd:
        ++tasks.ended;
        break;
      default:  // a processor is idle again
        tasks.idle.push_back(found.column);
        ++tasks.done;
        if (found.kind != Note::kDone) ++tasks.tiles_done;
        if (found.kind == Note::kUpDone) {
          tasks.add_tiles(note(iteration, Note::kDown, found.unit, found.block), down_columns(),
                          tasks.warm_down, local);
        }
    }
  }
  core.phase("stop");
  for (std::uint32_t i = 0; i < processors; ++i) {
    co_await hand_out(core, tasks, i, note(iteration, Note::kStop));
  }
  core.write(at_.tail(0), std::uint32_t{0});
}

}  // namespace orrery::moe::flashmoe
