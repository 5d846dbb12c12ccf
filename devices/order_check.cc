#include "devices/order_check.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <queue>
#include <span>
#include <string>
#include <tuple>

#include "devices/order_checker.h"
#include "emu/errors.h"

namespace orrery::devices {

namespace {

struct DeviceRecords {
  std::vector<std::string> names;
  std::vector<CheckRecord> records;
};

// One device's log as bytes, and back.
struct Header {
  std::uint32_t rank = 0;
  std::uint32_t complete = 0;
  std::uint64_t names = 0;  // bytes, each name ends with a zero
  std::uint64_t records = 0;
};

template <typename T>
void append(std::vector<std::byte>& out, const T* from, std::size_t count) {
  const auto bytes = std::as_bytes(std::span<const T>(from, count));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> pack(Cluster& cluster) {
  std::vector<std::byte> out;
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    if (!cluster.is_local(rank)) continue;
    const CheckLog* log = cluster.device(rank).check_log();
    if (log == nullptr) throw emu::InvariantError("a run kept no accesses");
    std::string names;
    for (const std::string& name : log->names()) names += name + '\0';
    const Header header{rank, log->complete() ? 1U : 0U, names.size(), log->records().size()};
    append(out, &header, 1);
    append(out, names.data(), names.size());
    append(out, log->records().data(), log->records().size());
  }
  return out;
}

// True if all of them are complete.
bool unpack(std::span<const std::byte> from, std::vector<DeviceRecords>& devices) {
  bool complete = true;
  while (!from.empty()) {
    Header header;
    std::memcpy(&header, from.data(), sizeof(header));
    from = from.subspan(sizeof(header));
    complete &= header.complete != 0;
    DeviceRecords& device = devices[header.rank];
    const std::string names(reinterpret_cast<const char*>(from.data()), header.names);
    from = from.subspan(header.names);
    for (std::size_t at = 0; at < names.size();) {
      device.names.emplace_back(names.c_str() + at);
      at += device.names.back().size() + 1;
    }
    device.records.resize(header.records);
    if (header.records == 0) continue;
    std::memcpy(device.records.data(), from.data(), header.records * sizeof(CheckRecord));
    from = from.subspan(header.records * sizeof(CheckRecord));
  }
  return complete;
}

}  // namespace

OrderCheck check_order(Cluster& cluster) {
  OrderCheck check;
  const std::vector<std::vector<std::byte>> parts = cluster.processes().gather(pack(cluster));
  if (cluster.processes().rank() != 0) return check;
  std::vector<DeviceRecords> devices(cluster.ranks());
  check.complete = true;
  for (const auto& part : parts) check.complete &= unpack(part, devices);
  for (const DeviceRecords& each : devices) check.accesses += each.records.size();
  if (!check.complete) return check;

  // Where there are two networks, what both of them promise.
  const fabric::PathRules& up = cluster.network().rules(false);
  const fabric::PathRules& out = cluster.network().rules(true);
  std::vector<std::uint32_t> domains;
  if (!cluster.topology().scale_up_domain.empty()) {
    for (const fabric::NodeId port : cluster.ports()) {
      domains.push_back(cluster.topology().scale_up_domain[port]);
    }
  }
  OrderChecker checker({.devices = cluster.ranks(),
                        .cores = cluster.costs().cores,
                        .atomic_block_bytes = std::min(up.block_bytes, out.block_bytes),
                        .first_fragment = up.order_kind == fabric::Fabric::FIRST_FRAGMENT,
                        .posted_first_fragment = out.order_kind == fabric::Fabric::FIRST_FRAGMENT,
                        .acknowledged_visible = up.ack_at == fabric::Fabric::VISIBLE,
                        .posted_acknowledged_visible = out.ack_at == fabric::Fabric::VISIBLE,
                        .signals_alone = up.order_kind == fabric::Fabric::SIGNALS,
                        .posted_signals_alone = out.order_kind == fabric::Fabric::SIGNALS,
                        .domains = domains});
  // By time, then rank (what reaches another device takes time), then as logged.
  using Next = std::tuple<emu::Time, std::uint32_t, std::size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (std::uint32_t rank = 0; rank < devices.size(); ++rank) {
    if (!devices[rank].records.empty()) next.emplace(devices[rank].records[0].at, rank, 0);
  }
  while (!next.empty()) {
    const auto [time, rank, first] = next.top();
    next.pop();
    const DeviceRecords& device = devices[rank];
    std::size_t index = first;
    for (; index < device.records.size() && device.records[index].at == time; ++index) {
      checker.take(rank, device.records[index], device.names);
    }
    if (index < device.records.size()) next.emplace(device.records[index].at, rank, index);
  }
  check.findings = checker.findings();
  return check;
}

}  // namespace orrery::devices
