#include "devices/get_each.h"

#include <fmt/format.h>

#include "devices/device_process.h"
#include "emu/errors.h"

namespace orrery::devices {

bool GetEachOperation::begin(Core& core) {
  if (fetches_.empty()) return false;
  for (const Fetch& fetch : fetches_) {
    if (fetch.bytes == 0) throw emu::InvariantError("a get of no bytes");
  }
  issue(core);
  return true;
}

void GetEachOperation::issue(Core& core) {
  issued_ = core.now();
  core.device().count_get(fetches_[asked_].rank, fetches_[asked_].bytes);
  core.timeline().append(Category::kIssue, core.now() + core.costs().issue);
  core.resume_at(core.now() + core.costs().issue);
}

// An issue is paid, or, when all have been, the last answer has come.
bool GetEachOperation::advance(Core& core) {
  if (asked_ < fetches_.size()) {
    const Fetch& fetch = fetches_[asked_++];
    core.note({.address = fetch.from,
               .other = fetch.to,
               .bytes = fetch.bytes,
               .peer = fetch.rank,
               .kind = CheckKind::kGet,
               .detail = static_cast<std::uint8_t>(Verb::kGet)});
    DeviceProcess& device = core.device();
    device.port().request(device.node_of(fetch.rank), core.index(), fetch.from, fetch.to,
                          fetch.bytes, issued_, core.now());
    if (asked_ < fetches_.size()) {
      issue(core);
      return false;
    }
    if (answered_ < fetches_.size()) return false;
  }
  core.note({.kind = CheckKind::kGetDone});
  core.device().log(core.index(), {.key = last_, .kind = fabric::CausalKind::kGetDone});
  return true;
}

void GetEachOperation::on_reply(Core& core, const fabric::Packet& packet) {
  ++answered_;
  last_ = fabric::causal_key(packet.source, packet.number);
  if (answered_ < fetches_.size() || asked_ < fetches_.size()) {
    core.device().log(core.index(),
                      {.key = last_, .kind = fabric::CausalKind::kGetDone, .detail = 1});
    return;
  }
  core.timeline().append(Category::kRemoteRead, core.now(), {packet.journey, 0, core.now()});
  core.device().trace_wait_end(core.index(), core.device().origin_of(packet), core.now());
  core.resume_at(core.now());
}

std::string GetEachOperation::describe(const Core&) const {
  std::string from;
  for (const Fetch& fetch : fetches_) {
    const std::string device = fmt::format("{}device {}", from.empty() ? "" : ", ", fetch.rank);
    if (from.find(device.substr(from.empty() ? 0 : 2)) == std::string::npos) from += device;
  }
  return fmt::format("waits for {} of {} answers from {}", fetches_.size() - answered_,
                     fetches_.size(), from);
}

}  // namespace orrery::devices
