#include "devices/wait_ready.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "devices/core.h"
#include "devices/device_process.h"
#include "emu/errors.h"

namespace orrery::devices {

namespace {
// Whether it would be seen ready. That is not a look of the program's: --check hears of a place
// when the wait ends and has seen it.
bool would_be_ready(Core& core, const ReadyTest& test, std::uint32_t place) {
  CheckLog* const log = core.is_checked() ? core.device().check_log() : nullptr;
  core.keep_accesses(nullptr);
  const bool ready = test(place);
  core.keep_accesses(log);
  return ready;
}
}  // namespace

bool WaitReadyOperation::begin(Core& core) {
  if (places_.empty()) return false;
  if (places_.size() > kMostPlaces || read_ <= 0) {
    throw emu::InvariantError("a wait for places: 1 to 64 of them, each read taking time");
  }
  start_ = core.now();
  last_ = until_ == Until::kAny ? kNever : 0;
  auto& reads = core.slot_reads();  // `from`: the first step that reads the place ready
  reads.assign(places_.size(), SlotReads{});
  for (std::uint32_t place = 0; place < places_.size(); ++place) {
    if (!would_be_ready(core, test_, place)) continue;
    ready_ |= std::uint64_t{1} << place;
    reads[place].from = step_after(place, start_);
    if (until_ == Until::kAny) last_ = std::min(last_, reads[place].from);
  }
  if (core.device().keeps_causes()) {
    core.slot_writers().assign(places_.size(), Core::kNoPacket);
    for (std::uint32_t place = 0; place < places_.size(); ++place) {
      if (((ready_ >> place) & 1) == 0) continue;
      core.slot_writers()[place] =
          core.device().latest_writer(places_[place].address, places_[place].bytes);
    }
  }
  core.device().add_watch(core.index(), places_.front().address,
                          places_.back().address + places_.back().bytes);
  schedule_end(core, 0);
  return true;
}

void WaitReadyOperation::on_visible(Core& core, const fabric::Packet& packet,
                                    fabric::Address address, std::uint32_t bytes) {
  const fabric::Address end = address + bytes;
  auto place =
      static_cast<std::uint32_t>(std::partition_point(places_.begin(), places_.end(),
                                                      [address](const Place& each) {
                                                        return each.address + each.bytes <= address;
                                                      }) -
                                 places_.begin());
  for (; place < places_.size() && places_[place].address < end; ++place) {
    if (((ready_ >> place) & 1) == 0 && would_be_ready(core, test_, place)) {
      open(core, place, packet);
    }
  }
}

void WaitReadyOperation::open(Core& core, std::uint32_t place, const fabric::Packet& packet) {
  if (core.device().keeps_causes()) {
    core.slot_writers()[place] = fabric::causal_key(packet.source, packet.number);
  }
  ready_ |= std::uint64_t{1} << place;
  const std::int64_t step = step_after(place, core.now());
  core.slot_reads()[place].from = step;
  const bool any = until_ == Until::kAny;
  const bool decides = any ? step < last_ : step > last_;
  // Of those read in the same sweep the last one to come ended the waiting.
  if (decides || (!any && (!caused_ || (step == last_ && core.now() > cause_.time)))) {
    cause_ = {packet.journey, 0, core.now()};
    caused_ = true;
    woken_by_ = core.device().origin_of(packet);
  }
  if (decides) last_ = step;
  schedule_end(core, (core.now() - start_) / step_time());
}

// One look at a time: at the end of the step that goes on now, which may turn out to be too early,
// since what comes later may be read sooner.
void WaitReadyOperation::schedule_end(Core& core, std::int64_t step) {
  const auto all = std::popcount(ready_) == count();
  if (scheduled_ >= 0 || (until_ == Until::kAny ? ready_ == 0 : !all)) return;
  scheduled_ = step;
  core.resume_at(start_ + (step + 1) * step_time());
}

bool WaitReadyOperation::advance(Core& core) {
  if (last_ > scheduled_) {
    const std::int64_t next = scheduled_ + 1;
    scheduled_ = -1;
    schedule_end(core, next);
    return false;
  }
  const auto& reads = core.slot_reads();
  for (std::uint32_t place = 0; place < places_.size(); ++place) {
    if (reads[place].from <= scheduled_) seen_ |= std::uint64_t{1} << place;
  }
  if (core.is_checked()) note_places(core);
  core.device().remove_watch(core.index());
  const std::size_t reads_per_step = until_ == Until::kAny ? 1 : places_.size();
  core.device().counters().polls += static_cast<std::uint64_t>(scheduled_ + 1) * reads_per_step;
  log(core);
  if (caused_) core.timeline().append(Category::kFlagWait, cause_.time, cause_);
  core.timeline().append(Category::kPoll, core.now());
  if (caused_) core.device().trace_wait_end(core.index(), woken_by_, cause_.time);
  return true;
}

// Of a place that was seen ready, what its test looked at counts as seen.
void WaitReadyOperation::note_places(Core& core) const {
  for (std::uint32_t place = 0; place < places_.size(); ++place) {
    if (((seen_ >> place) & 1) == 0) continue;
    test_(place);
    core.note({.address = places_[place].address,
               .bytes = places_[place].bytes,
               .kind = CheckKind::kWait,
               .detail = static_cast<std::uint8_t>(CheckRecord::kProbed |
                                                   (grows_ ? CheckRecord::kGrows : 0))});
  }
}

// The program goes on with what it saw: each of these is a cause.
void WaitReadyOperation::log(Core& core) const {
  DeviceProcess& device = core.device();
  if (!device.keeps_causes()) return;
  const bool any = until_ == Until::kAny;
  const auto count = static_cast<std::uint32_t>(places_.size());
  for (std::uint32_t place = 0; place < count; ++place) {
    const fabric::CausalKey writer = core.slot_writers()[place];
    if (((seen_ >> place) & 1) == 0 || writer == Core::kNoPacket) continue;
    device.log(
        core.index(),
        {.key = writer, .other = any ? count - 1 : place, .kind = fabric::CausalKind::kSlot});
  }
  device.log(core.index(), {.amount = static_cast<std::uint64_t>(sweep_time()),
                            .other = count,
                            .kind = fabric::CausalKind::kWait,
                            .detail = any});
}

std::string WaitReadyOperation::describe(const Core& core) const {
  const auto missing = static_cast<std::uint32_t>(std::countr_one(ready_));
  if (missing >= places_.size()) {
    return fmt::format("polls {} places that are ready", places_.size());
  }
  auto& self = const_cast<Core&>(core);
  const Place& place = places_[missing];
  return fmt::format(
      "polls {} places until {} ready: address {:#x} (place {}) is not, wants {}; last writer: {}; "
      "expected writer: {}",
      places_.size(), until_ == Until::kAny ? "one is" : "all are", place.address, missing, wants_,
      self.device().last_writer(place.address), expected_(missing));
}

}  // namespace orrery::devices
