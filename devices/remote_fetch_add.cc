#include "devices/remote_fetch_add.h"

#include <fmt/format.h>

#include "devices/device_process.h"

namespace orrery::devices {

namespace {
constexpr std::uint32_t kWordBytes = sizeof(std::uint32_t);
}

bool RemoteFetchAddOperation::begin(Core& core) {
  if (additions_.empty()) return false;
  issued_ = core.now();
  for (const RemoteAddition& each : additions_) core.device().count_fetch_add(each.rank);
  core.timeline().append(Category::kIssue, core.now() + core.costs().issue);
  core.resume_at(core.now() + core.costs().issue);
  return true;
}

bool RemoteFetchAddOperation::advance(Core& core) {
  if (asked_) return true;
  asked_ = true;
  DeviceProcess& device = core.device();
  core.note({.address = additions_[0].address,
             .other = here_,
             .bytes = additions_.size() * kWordBytes,
             .peer = additions_[0].rank,
             .kind = CheckKind::kGet,
             .detail = static_cast<std::uint8_t>(Verb::kRemoteFetchAdd)});
  fabric::Address here = here_;
  for (const RemoteAddition& each : additions_) {
    const StorePort::Addition addition{each.value, here != here_};
    device.port().request(device.node_of(each.rank), core.index(), each.address, here, kWordBytes,
                          issued_, core.now(), addition);
    here += kWordBytes;
  }
  return false;
}

void RemoteFetchAddOperation::on_reply(Core& core, const fabric::Packet& packet) {
  core.device().log(core.index(), {.key = fabric::causal_key(packet.source, packet.number),
                                   .kind = fabric::CausalKind::kGetDone});
  if (++replies_ < additions_.size()) return;
  core.note({.kind = CheckKind::kGetDone});
  core.timeline().append(Category::kRemoteRead, core.now(), {packet.journey, 0, core.now()});
  core.device().trace_wait_end(core.index(), core.device().origin_of(packet), core.now());
  core.resume_at(core.now());
}

std::string RemoteFetchAddOperation::describe(const Core&) const {
  return fmt::format("waits for {} of {} additions to words of other devices",
                     additions_.size() - replies_, additions_.size());
}

}  // namespace orrery::devices
