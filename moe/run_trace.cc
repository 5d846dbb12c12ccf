#include "moe/run_trace.h"

#include "devices/critical_path.h"

namespace orrery::moe {

emu::RecordLimits record_limits(const TraceRequest& request, const devices::Cluster& cluster) {
  emu::RecordLimits limits;
  for (const std::uint32_t rank : request.devices) limits.lps.push_back(cluster.ports()[rank]);
  if (request.devices.empty()) limits.lps = cluster.ports();
  limits.from = request.from;
  limits.to = request.to;
  limits.max_events = request.max_events;
  return limits;
}

std::optional<RunTrace> collect_trace(emu::Recorder& recorder, const devices::Cluster& cluster) {
  const emu::ProcessGroup& processes = cluster.processes();
  const fabric::Topology& topology = cluster.topology();
  RunTrace trace;
  trace.share = recorder.share();
  trace.recording = recorder.collect(processes);
  std::vector<std::int64_t> used(topology.link_classes.size(), 0);
  for (fabric::LinkId link = 0; link < topology.links.size(); ++link) {
    // Counted where it is sent from: nowhere else.
    if (cluster.network().use(link).packets > 0) ++used[topology.links[link].link_class];
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    trace.link_classes.push_back(
        {topology.link_classes[i], static_cast<std::uint64_t>(processes.sum(used[i]))});
  }
  if (processes.rank() != 0) return std::nullopt;
  trace.parts = devices::part_names(topology);
  for (emu::Recording::Span& span : trace.recording.spans) span.lp = cluster.rank_at(span.lp);
  for (emu::Recording::Flow& flow : trace.recording.flows) {
    flow.from.lp = cluster.rank_at(flow.from.lp);
    flow.to = cluster.rank_at(flow.to);
  }
  trace.recording.first_full = cluster.rank_at(trace.recording.first_full);
  trace.recording.sort();
  return trace;
}

}  // namespace orrery::moe
