#include "devices/order_checker.h"

#include <algorithm>
#include <memory>

#include "emu/errors.h"

namespace orrery::devices {

namespace {
constexpr std::uint64_t kLargestFlag = 64;  // bytes: what a core may wait for of another's writes
}  // namespace

OrderChecker::OrderChecker(const Rules& rules)
    : rules_(rules),
      cores_(std::size_t{rules.devices} * rules.cores),
      devices_(rules.devices),
      puts_({.cores = rules.devices * rules.cores,
             .block_bytes = rules.atomic_block_bytes,
             .first_fragment = rules.first_fragment,
             .posted_first_fragment = rules.posted_first_fragment,
             .acknowledged_visible = rules.acknowledged_visible,
             .posted_acknowledged_visible = rules.posted_acknowledged_visible,
             .signals_alone = rules.signals_alone,
             .posted_signals_alone = rules.posted_signals_alone,
             .domains = rules.domains}),
      findings_(rules.cores) {
  const auto nothing = std::make_shared<std::vector<std::uint32_t>>(cores_.size(), 0);
  for (std::uint32_t index = 0; index < cores_.size(); ++index) {
    cores_[index].now = Knowledge(index, nothing);
    cores_[index].place = findings_.place("", "");
  }
}

void OrderChecker::take(std::uint32_t rank, const CheckRecord& record,
                        const std::vector<std::string>& names) {
  Core& by = core(rank, record.kind == CheckKind::kVisible || record.kind == CheckKind::kServe ||
                                record.kind == CheckKind::kPlaced
                            ? 0
                            : record.core);
  switch (record.kind) {
    case CheckKind::kKernel:
      start_kernel(rank, record, names);
      break;
    case CheckKind::kEnd:
      if (++devices_[rank].ended == devices_[rank].kernel_cores) meet(rank);
      break;
    case CheckKind::kPhase:
      by.place = findings_.place(names[by.kernel], names[record.peer]);
      break;
    case CheckKind::kHostWrite:
      meet(rank);
      write(core(rank, 0), rank, record, false);
      meet(rank);
      break;
    case CheckKind::kRead: {
      const Access access = access_of(by, record);
      const Range range{record.address, record.address + record.bytes};
      // Rows may have gaps that nobody wrote and nobody looks at where they end up.
      const bool all = access.verb != Verb::kCopy && access.verb != Verb::kMove;
      check_read(rank, range, {by.now, access}, all);
      devices_[rank].memory.read(record.address, record.bytes, {access, CellRead::kPlain, 0});
      break;
    }
    case CheckKind::kWrite:
      write(by, rank, record, false);
      break;
    case CheckKind::kDiscard:
      write(by, rank, record, true);
      break;
    case CheckKind::kFetchAdd:
      fetch_add(by, rank, record);
      break;
    case CheckKind::kProbe:
      probe(by, rank, record);
      break;
    case CheckKind::kAccept:
      accept(by, rank, record);
      break;
    case CheckKind::kMove:
      move(by, rank, record);
      break;
    case CheckKind::kPut:
      issue(by, rank, record);
      break;
    case CheckKind::kPiece:
      add_piece(by, rank, record);
      break;
    case CheckKind::kVisible:
      visible(rank, record);
      break;
    case CheckKind::kPlaced:
      puts_.placed(record.peer, rank, record.other, record.address, record.bytes);
      break;
    case CheckKind::kLeft:
      puts_.left(rank, record.other, by.now);
      break;
    case CheckKind::kQuiet:
      if (record.other == 0) {
        puts_.acknowledged(by.now, rank, record.detail);
      } else {
        puts_.acknowledged(rank, record.other, by.now);
      }
      break;
    case CheckKind::kFence:
      puts_.fenced(by.now);
      break;
    case CheckKind::kWait:
      wait(by, rank, record);
      break;
    case CheckKind::kArrive: {
      std::vector<Knowledge*>& arrived = devices_[rank].at_barrier;
      arrived.push_back(&by.now);
      if (arrived.size() < devices_[rank].kernel_cores) break;
      Knowledge::meet(arrived);
      arrived.clear();
      break;
    }
    case CheckKind::kGet:
      get(by, rank, record);
      break;
    case CheckKind::kServe:
      serve(rank, record);
      break;
    case CheckKind::kGetDone:
      for (const Get& each : by.gets) {
        puts_[each.index].left = by.now.moment();
        puts_[each.index].complete.push_back(by.now.moment());
      }
      by.got = true;
      break;
  }
}

// --- Programs ---

Access OrderChecker::access_of(const Core& core, const CheckRecord& record) const {
  return {core.now.moment(), core.place, core.iteration, record.at,
          static_cast<Verb>(record.detail)};
}

void OrderChecker::meet(std::uint32_t rank) {
  std::vector<Knowledge*> all;
  for (std::uint32_t index = 0; index < rules_.cores; ++index) {
    all.push_back(&core(rank, index).now);
  }
  Knowledge::meet(all);
}

void OrderChecker::start_kernel(std::uint32_t rank, const CheckRecord& record,
                                const std::vector<std::string>& names) {
  meet(rank);
  devices_[rank].kernel_cores = static_cast<std::uint32_t>(record.bytes);
  devices_[rank].ended = 0;
  const std::uint32_t where = findings_.place(names[record.peer], "");
  for (std::uint32_t index = 0; index < rules_.cores; ++index) {
    Core& each = core(rank, index);
    each.kernel = record.peer;
    each.place = where;
    each.iteration = static_cast<std::uint32_t>(record.other);
  }
}

// --- Puts and gets ---

void OrderChecker::issue(Core& core, std::uint32_t rank, const CheckRecord& record) {
  Put put;
  put.access = access_of(core, record);
  put.issue = core.now;
  put.target = record.peer;
  put.bytes = record.bytes;
  put.has_signal = has_signal(put.access.verb);
  core.put = puts_.issued(std::move(put), rank, record.other, record.address);
  core.now.step();
}

void OrderChecker::add_piece(Core& core, std::uint32_t rank, const CheckRecord& record) {
  Put& put = puts_[core.put];
  put.pieces.push_back({record.address, record.bytes});
  const Access access = put.access;
  put.noted_bytes += record.bytes;
  const bool is_signal = put.has_signal && put.noted_bytes == put.bytes;
  if (access.verb == Verb::kStore || access.verb == Verb::kAtomicAdd || is_signal) return;
  const Range source{record.other, record.other + record.bytes};
  check_read(rank, source, {core.now, access}, false);
  if (!gives(access.verb)) {
    devices_[rank].memory.read(source.begin, record.bytes, {access, CellRead::kSource, core.put});
    return;
  }
  CheckRecord given = record;  // its contents belong to the put from here on
  given.address = record.other;
  given.detail = static_cast<std::uint8_t>(Verb::kGive);
  write(core, rank, given, true);
}

void OrderChecker::get(Core& core, std::uint32_t rank, const CheckRecord& record) {
  Put put;
  put.access = access_of(core, record);
  put.issue = core.now;
  put.target = rank;
  put.bytes = record.bytes;
  put.pieces.push_back({record.other, record.bytes});
  if (core.got) core.gets.clear();
  core.got = false;
  core.gets.push_back(
      {puts_.asked(std::move(put)), record.peer, record.address, record.other, record.bytes});
  core.now.step();
}

// The one of the core's gets that reads from `rank` what begins at `from`.
std::uint32_t OrderChecker::get_from(const Core& core, std::uint32_t rank, fabric::Address from) {
  for (const Get& each : core.gets) {
    if (each.rank == rank && each.from == from) return each.index;
  }
  throw emu::InvariantError("an answer to a get that nobody issued");
}

// The one that writes at `to`.
std::uint32_t OrderChecker::get_to(const Core& core, fabric::Address to) {
  for (const Get& each : core.gets) {
    if (each.to <= to && to < each.to + each.bytes) return each.index;
  }
  throw emu::InvariantError("bytes of a get that nobody issued");
}

void OrderChecker::serve(std::uint32_t rank, const CheckRecord& record) {
  if (static_cast<Verb>(record.detail) == Verb::kRemoteFetchAdd) {
    fetch_add(core(record.peer, record.core), rank, record);
    return;
  }
  const std::uint32_t index = get_from(core(record.peer, record.core), rank, record.address);
  const Put& put = puts_[index];
  check_read(rank, {record.address, record.address + record.bytes}, {put.issue, put.access}, false);
  devices_[rank].memory.read(record.address, record.bytes, {put.access, CellRead::kServed, index});
}

void OrderChecker::visible(std::uint32_t rank, const CheckRecord& record) {
  const Range range{record.address, record.address + record.bytes};
  const bool reply = (record.detail & CheckRecord::kGetReply) != 0;
  const std::uint32_t index = reply
                                  ? get_to(core(rank, record.core), record.address)
                                  : puts_.became_visible(record.peer, rank, record.other,
                                                         (record.detail & CheckRecord::kFirst) != 0,
                                                         range.begin, range.end);
  const Put& put = puts_[index];
  const bool atomic = put.access.verb == Verb::kAtomicAdd ||
                      (adds_signal(put.access.verb) && range.begin == put.pieces.back().to);
  check_overwrite(rank, range, {put.issue, put.access, &put}, atomic);
  ShadowMemory& memory = devices_[rank].memory;
  if (!atomic) {
    memory.write(range.begin, record.bytes, {Writer::kPut, index});
    return;
  }
  // The word's waits stay: a later add may still count in place of one that they are for.
  std::vector<CellRead> reads;
  Writer writer;
  memory.for_each(range.begin, record.bytes,
                  [&](fabric::Address, fabric::Address, const ShadowMemory::Cell& cell) {
                    writer = cell.writer;
                    for (const CellRead& read : cell.reads) {
                      if (read.kind == CellRead::kGrowingWait) reads.push_back(read);
                    }
                  });
  if (writer.kind != Writer::kAtomics) {
    writer = {Writer::kAtomics, static_cast<std::uint32_t>(atomics_.size())};
    atomics_.emplace_back();
  }
  atomics_[writer.index].push_back(index);
  memory.write(range.begin, record.bytes, writer);
  for (const CellRead& read : reads) memory.read(range.begin, record.bytes, read);
}

// --- Cores and memory ---

template <typename Each>
void OrderChecker::for_each_put(const Writer& writer, Each&& each) {
  if (writer.kind == Writer::kPut) each(puts_[writer.index]);
  if (writer.kind != Writer::kAtomics) return;
  for (const std::uint32_t index : atomics_[writer.index]) each(puts_[index]);
}

void OrderChecker::probe(Core& core, std::uint32_t rank, const CheckRecord& record) {
  devices_[rank].memory.for_each(
      record.address, record.bytes,
      [&](fabric::Address begin, fabric::Address end, const ShadowMemory::Cell& cell) {
        for_each_put(cell.writer, [&](Put& put) { puts_.look(put, begin, end, core.now); });
      });
}

void OrderChecker::wait(Core& core, std::uint32_t rank, const CheckRecord& record) {
  ShadowMemory& memory = devices_[rank].memory;
  memory.for_each(
      record.address, record.bytes,
      [&](fabric::Address begin, fabric::Address end, const ShadowMemory::Cell& cell) {
        if (cell.writer.kind == Writer::kCore && writes_[cell.writer.index].has_before) {
          core.now.learn(writes_[cell.writer.index].before);
        }
        for_each_put(cell.writer, [&](Put& put) {
          if ((record.detail & CheckRecord::kProbed) != 0) {
            puts_.acquire_seen(put, begin, end, core.now);
            return;
          }
          puts_.look(put, begin, end, core.now);
          puts_.acquire(put, begin, end, core.now);
        });
      });
  Access access = access_of(core, record);
  access.verb = Verb::kWait;
  memory.read(
      record.address, record.bytes,
      {access,
       (record.detail & CheckRecord::kGrows) != 0 ? CellRead::kGrowingWait : CellRead::kWait, 0});
}

void OrderChecker::accept(Core& core, std::uint32_t rank, const CheckRecord& record) {
  const Access access = access_of(core, record);
  const Range range{record.address, record.address + record.bytes};
  check_read(rank, range, {core.now, access}, true);
  devices_[rank].memory.for_each(
      record.address, record.bytes,
      [&](fabric::Address begin, fabric::Address end, const ShadowMemory::Cell& cell) {
        for_each_put(cell.writer, [&](Put& put) {
          if (!puts_.is_proven(put, begin, end, core.now)) {
            puts_.look(put, begin, end, core.now);  // reported; not once more when it is read
          }
          puts_.acquire(put, begin, end, core.now);
        });
      });
}

void OrderChecker::write(Core& core, std::uint32_t rank, const CheckRecord& record, bool discard) {
  CoreWrite write;
  write.access = access_of(core, record);
  write.discard = discard;
  write.has_before = record.bytes <= kLargestFlag;
  if (write.has_before) write.before = core.now;
  check_overwrite(rank, {record.address, record.address + record.bytes}, {core.now, write.access},
                  false);
  devices_[rank].memory.write(record.address, record.bytes,
                              {Writer::kCore, static_cast<std::uint32_t>(writes_.size())});
  writes_.push_back(std::move(write));
  core.now.step();
}

// Those on one word, of whichever device's cores, take place one after the other: each knows what
// happened before all before it.
void OrderChecker::fetch_add(Core& core, std::uint32_t rank, const CheckRecord& record) {
  devices_[rank].memory.for_each(
      record.address, record.bytes,
      [&](fabric::Address, fabric::Address, const ShadowMemory::Cell& cell) {
        if (cell.writer.kind == Writer::kCore && writes_[cell.writer.index].fetch_add) {
          core.now.learn(writes_[cell.writer.index].before);
        }
      });
  write(core, rank, record, false);
  writes_.back().fetch_add = true;
}

// Whole rows: what nobody wrote stays so at its new address.
void OrderChecker::move(Core& core, std::uint32_t rank, const CheckRecord& record) {
  ShadowMemory& memory = devices_[rank].memory;
  const Access access = access_of(core, record);
  std::vector<Range> unwritten;
  memory.for_each(record.other, record.bytes,
                  [&](fabric::Address begin, fabric::Address end, const ShadowMemory::Cell& cell) {
                    const bool none =
                        cell.writer.kind == Writer::kNobody ||
                        (cell.writer.kind == Writer::kCore && writes_[cell.writer.index].discard);
                    if (none) {
                      unwritten.push_back({begin - record.other + record.address,
                                           end - record.other + record.address});
                    } else {
                      check_read(rank, {begin, end}, {core.now, access}, true);
                    }
                  });
  write(core, rank, record, false);
  for (const Range& each : unwritten) memory.write(each.begin, each.end - each.begin, {});
  CheckRecord left = record;
  left.address = record.other;
  write(core, rank, left, true);
}

// --- Checks ---

bool OrderChecker::is_before(const Put& put, Range range, const Actor& actor) const {
  return puts_.is_proven(put, range.begin, range.end, actor.knowledge) ||
         (actor.put != nullptr && puts_.is_ordered(put, *actor.put, range.begin, range.end));
}

bool OrderChecker::has_left(const Put& put, const Knowledge& knowledge) const {
  return (put.left.epoch > 0 && knowledge.knows(put.left)) || puts_.is_visible(put, knowledge);
}

// `all_written`: every byte; else it is enough that one is.
void OrderChecker::check_read(std::uint32_t rank, Range range, const Actor& actor,
                              bool all_written) {
  bool some = false;
  bool all = true;
  const Access* gave_up = nullptr;
  Range hole{range.begin, range.begin};
  devices_[rank].memory.for_each(
      range.begin, range.end - range.begin,
      [&](fabric::Address begin, fabric::Address end, const ShadowMemory::Cell& cell) {
        const Writer writer = cell.writer;
        const CoreWrite* write = writer.kind == Writer::kCore ? &writes_[writer.index] : nullptr;
        if (writer.kind == Writer::kNobody || (write != nullptr && write->discard)) {
          if (all) hole = {begin, end};
          all = false;
          if (write != nullptr && gave_up == nullptr) gave_up = &write->access;
          return;
        }
        some = true;
        if (write != nullptr && !actor.knowledge.knows(write->access.moment)) {
          report(FindingKind::kUnorderedRead, rank, {begin, end}, actor.access, &write->access);
        }
        for_each_put(writer, [&](Put& put) {
          if (puts_.is_proven(put, begin, end, actor.knowledge)) return;
          const bool claim =
              actor.access.verb == Verb::kAccept || actor.access.verb == Verb::kConsume;
          report(claim ? FindingKind::kUnproven : FindingKind::kUnorderedRead, rank, {begin, end},
                 actor.access, &put.access);
        });
      });
  if (range.begin < range.end && (all_written ? !all : !some)) {
    report(FindingKind::kUnwritten, rank, hole, actor.access, gave_up);
  }
}

void OrderChecker::check_overwrite(std::uint32_t rank, Range range, const Actor& actor,
                                   bool atomic) {
  devices_[rank].memory.for_each(
      range.begin, range.end - range.begin,
      [&](fabric::Address begin, fabric::Address end, const ShadowMemory::Cell& cell) {
        const Range part{begin, end};
        if (cell.writer.kind == Writer::kCore) {
          const Access& write = writes_[cell.writer.index].access;
          if (!actor.knowledge.knows(write.moment)) {
            report(FindingKind::kUnorderedOverwrite, rank, part, actor.access, &write);
          }
        }
        // Adds commute.
        if (!atomic || cell.writer.kind != Writer::kAtomics) {
          for_each_put(cell.writer, [&](Put& put) {
            if (&put != actor.put && !is_before(put, part, actor)) {
              report(FindingKind::kUnorderedOverwrite, rank, part, actor.access, &put.access);
            }
          });
        }
        check_reads(rank, part, cell, actor, atomic);
      });
}

void OrderChecker::check_reads(std::uint32_t rank, Range range, const ShadowMemory::Cell& cell,
                               const Actor& actor, bool atomic) {
  for (const CellRead& read : cell.reads) {
    const bool known = actor.knowledge.knows(read.access.moment);
    switch (read.kind) {
      case CellRead::kPlain:
        if (!known) {
          report(FindingKind::kOverwriteOfRead, rank, range, actor.access, &read.access);
        }
        break;
      case CellRead::kSource:
        if (!has_left(puts_[read.put], actor.knowledge)) {
          report(FindingKind::kSourceReuse, rank, range, actor.access, &read.access);
        }
        break;
      case CellRead::kServed:
        if (!has_left(puts_[read.put], actor.knowledge)) {
          report(FindingKind::kOverwriteOfRead, rank, range, actor.access, &read.access);
        }
        break;
      case CellRead::kWait:
        if (!known) report(FindingKind::kFlagReuse, rank, range, actor.access, &read.access);
        break;
      case CellRead::kGrowingWait: {
        if (known) break;
        if (actor.put == nullptr) {  // what a core sets may be less
          report(FindingKind::kFlagReuse, rank, range, actor.access, &read.access);
          break;
        }
        bool another = false;
        if (atomic) {
          for_each_put(cell.writer, [&](Put& put) { another |= !is_before(put, range, actor); });
        }
        if (another) {
          report(FindingKind::kCounterReuse, rank, range, actor.access, &read.access);
        }
        break;
      }
    }
  }
}

}  // namespace orrery::devices
