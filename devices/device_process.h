// A device as a logical process: its memory, its cores, its port, and the kernels that run on it.
// device_process.cc has the kernels and what cores ask for, device_process_arrivals.cc what comes
// from the fabric.
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "devices/check_log.h"
#include "devices/core.h"
#include "devices/costs.h"
#include "devices/counters.h"
#include "devices/hub.h"
#include "devices/nic.h"
#include "devices/proxy.h"
#include "devices/store_port.h"
#include "emu/engine.h"
#include "emu/flat_map.h"
#include "emu/task.h"
#include "fabric/memory.h"
#include "fabric/network.h"
#include "fabric/read_log.h"
#include "fabric/visibility.h"

namespace orrery::devices {

/// One kernel's run on one device.
struct KernelRecord {
  std::string name;  // of the operation
  std::uint32_t operation = 0;
  std::uint32_t iteration = 0;
  emu::Time start = 0;  // launch
  emu::Time end = 0;    // its last core's end
  std::uint32_t last_core = 0;
  std::uint64_t wire_bytes = 0;  // put and got by the kernel's cores, packet headers included
  std::vector<Timeline> timelines;
};

class DeviceProcess final : public emu::LogicalProcess,
                            private fabric::VisibilitySink,
                            private Proxy::Sink {
 public:
  static constexpr std::uint32_t kResumeKind = fabric::kFirstDeviceKind + 1;
  static constexpr std::uint32_t kStreamKind = fabric::kFirstDeviceKind + 2;
  static constexpr std::uint32_t kAtomicKind = fabric::kFirstDeviceKind + 5;
  static constexpr std::uint32_t kAcknowledgeKind = fabric::kFirstDeviceKind + 6;
  static constexpr std::uint32_t kHubKind = fabric::kFirstDeviceKind + 7;

  /// `ports`: the node of every rank; `rank`: this device's.
  DeviceProcess(emu::Engine& engine, fabric::Network& network, const Costs& costs,
                const std::vector<fabric::NodeId>& ports, std::uint32_t rank,
                const std::vector<fabric::Region>& regions, const fabric::Adversary& adversary);

  void handle(const emu::Event& event) override;
  void prefetch(const emu::Event& event, int step) const override;

  // --- Kernels ---
  /// The device's stream: kernels one after the other. Started at virtual time `start`.
  void start_stream(emu::Task stream, emu::Time start);
  bool stream_done() const { return stream_.done(); }
  void rethrow_if_failed() const { stream_.rethrow_if_failed(); }

  struct KernelCall {
    DeviceProcess& device;
    std::uint32_t operation;
    std::uint32_t iteration;
    std::uint32_t cores;
    std::string name;
    std::function<emu::Task(Core&)> program;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> stream) { device.launch(*this, stream); }
    void await_resume() const noexcept {}
  };
  /// Runs `program` on the first `cores` cores (0: all); awaited by the stream until the last one
  /// ended.
  KernelCall kernel(std::uint32_t operation, std::uint32_t iteration, std::uint32_t cores,
                    std::function<emu::Task(Core&)> program, std::string name = "kernel") {
    return {*this,           operation,         iteration, cores == 0 ? costs_.cores : cores,
            std::move(name), std::move(program)};
  }
  /// Cores of the running kernel.
  std::uint32_t kernel_cores() const { return kernel_cores_; }
  struct Sleep {
    DeviceProcess& device;
    emu::Time duration;
    bool await_ready() const noexcept { return duration == 0; }
    void await_suspend(std::coroutine_handle<> stream) { device.wake_stream(stream, duration); }
    void await_resume() const noexcept {}
  };
  /// The stream pauses.
  Sleep sleep(emu::Time duration) { return {*this, duration}; }

  // --- State ---
  emu::Shard& shard() { return shard_; }
  fabric::Network& network() { return network_; }
  const Costs& costs() const { return costs_; }
  fabric::Memory& memory() { return memory_; }
  const fabric::Memory& memory() const { return memory_; }
  fabric::ReadLog& read_log() { return read_log_; }
  StorePort& port() { return port_; }
  Counters& counters() { return counters_; }
  /// Of the network between devices of one scale-up domain, or of different ones.
  const fabric::PathRules& rules(bool scale_out) const { return network_.rules(scale_out); }
  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(ports_.size()); }
  fabric::NodeId node_of(std::uint32_t rank) const { return ports_[rank]; }
  fabric::NodeId node() const { return node_; }
  std::uint32_t rank_at(fabric::NodeId node) const;
  std::deque<KernelRecord>& records() { return records_; }
  const std::vector<fabric::TornRead>& torn_reads() const { return torn_reads_; }
  std::uint64_t torn_read_count() const { return torn_read_count_; }

  /// Null without one.
  DestinationHub* hub() { return hub_.get(); }

  // --- The NIC ---
  bool has_nic() const { return nic_ != nullptr; }
  /// Whether puts to `rank` go through the NIC.
  bool posts_to(std::uint32_t rank) const {
    return nic_ != nullptr && network_.is_scale_out(node_, ports_[rank]);
  }
  /// Whether a core may post to queue pair `queue` to `rank`; always where a proxy posts for it.
  bool has_room(std::uint32_t rank, std::uint32_t queue) const {
    return proxy_ != nullptr || nic_->has_room(nic_->pair_to(rank, queue));
  }
  /// Calls Core::has_room when that is so again, for one waiting core after the other.
  void wait_for_room(std::uint32_t core, std::uint32_t rank, std::uint32_t queue) {
    waiting_for_room_.push_back({core, rank, queue});
  }
  /// Hands a put over to the NIC or its proxy at time `at` (≥ now).
  PutHandle post(const StoreRequest& request, bool fenced, emu::Time at);
  /// Asks the proxy to fence what it posted to `rank`, or to all (Proxy::kEveryRank).
  void fence_by_proxy(std::uint32_t queue, std::uint32_t rank, emu::Time at);

  // --- Faults ---
  /// The device's `number`-th put from now on, flags and atomics counted, is never sent: as if its
  /// program had forgotten it.
  void lose_put(std::uint64_t number) { puts_to_loss_ = number; }
  bool has_lost_put() const { return has_lost_put_; }

  // --- For the cores ---
  /// Counts a put that is issued now; true if that is the one to lose.
  bool loses_put() {
    if (puts_to_loss_ == 0 || --puts_to_loss_ > 0) return false;
    has_lost_put_ = true;
    return true;
  }
  void add_watch(std::uint32_t core, fabric::Address first, fabric::Address last);
  void remove_watch(std::uint32_t core);
  void arrive_at_barrier(std::uint32_t core, Meeting meeting);
  void core_finished(std::uint32_t core);
  /// `packet_bytes`: of its largest packet; 0: the network's.
  void count_put(std::uint32_t rank, std::uint64_t bytes, fabric::PacketKind kind, bool immediate,
                 std::uint32_t packet_bytes = 0);
  void count_get(std::uint32_t rank, std::uint64_t bytes);
  void count_fetch_add(std::uint32_t rank);
  /// Takes `bytes` of the device's shared memory bandwidth from `now`; returns when they are
  /// through.
  emu::Time take_hbm(emu::Time now, std::uint64_t bytes);
  /// Keeps what a core did, if anybody wants to know (causal_log.h); fills in `at` and `core`.
  void log(std::uint32_t core, fabric::CausalEntry entry) {
    fabric::CausalLog* log = network_.causal_log();
    if (log == nullptr) return;
    entry.at = shard_.now();
    entry.core = static_cast<std::uint16_t>(core);
    log->add(node_, entry);
  }
  bool keeps_causes() const { return network_.causal_log() != nullptr; }
  /// The latest small puts into a word of 4 bytes, latest first, and what it held after each.
  struct Writers {
    static constexpr std::size_t kKept = 4;
    struct Write {
      fabric::CausalKey packet = 0;
      std::uint32_t value = 0;
    };
    std::array<Write, kKept> writes;
    std::size_t count = 0;
  };
  /// Of the word at `address`; null if there are none or no causes are kept.
  const Writers* writers_of(fabric::Address address) const {
    return writers_.find(address / kWord);
  }
  /// The packet that wrote last into the row, or the word, at `address`; Core::kNoPacket if there
  /// is none or no causes are kept.
  fabric::CausalKey latest_writer(fabric::Address address, std::uint32_t bytes) const;
  std::string last_writer(fabric::Address address) const;
  /// The message of a packet that arrived here, for traces. The answer to a get counts as sent by
  /// the core that asked.
  emu::TraceOrigin origin_of(const fabric::Packet& packet) const {
    return {packet.kind == fabric::PacketKind::kGetReply ? node_ : packet.source, packet.core,
            packet.sequence, packet.issued};
  }
  /// A wait of `core` ends now, since bytes of `origin` became visible at `visible`.
  void trace_wait_end(std::uint32_t core, const emu::TraceOrigin& origin, emu::Time visible) {
    if (shard_.trace() != nullptr) [[unlikely]]
      shard_.trace()->on_wait_end(node_, core, origin, visible, shard_.now());
  }
  const std::vector<std::uint32_t>& at_barrier() const { return at_barrier_; }

  /// From here on keeps at most `limit` accesses to memory, for --check.
  void keep_accesses(std::uint64_t limit);
  /// What was kept; null if nothing is.
  CheckLog* check_log() { return check_log_.get(); }
  /// Calls `write`, which writes to memory for the host, while no kernel runs.
  template <typename Write>
  void as_host(Write&& write) {
    if (check_log_ == nullptr) return write();
    std::vector<std::pair<fabric::Address, std::uint64_t>> ranges;
    memory_.report_writes(&ranges);
    write();
    memory_.report_writes(nullptr);
    note_host_writes(ranges);
  }

  /// Traces the kernel that hangs, as far as it came, until `now`; nothing if none runs.
  void trace_unfinished(emu::Time now);

  /// Hang report: a line per core that waits; empty if none does.
  std::vector<std::string> waiting() const;

 private:
  void count_wire(std::uint64_t bytes, bool scale_out, std::uint32_t packet_bytes = 0);
  void log_visible(const fabric::Packet& packet, fabric::Address address, std::uint32_t bytes);
  void note_visible(const fabric::Packet& packet, fabric::Address address, std::uint32_t bytes);
  void note_host_writes(const std::vector<std::pair<fabric::Address, std::uint64_t>>& ranges);
  void trace_kernel(emu::TraceSink& trace, emu::Time end) const;
  void launch(const KernelCall& call, std::coroutine_handle<> stream);
  void wake_stream(std::coroutine_handle<> stream, emu::Time delay);
  void on_visible(const fabric::Packet& packet, fabric::Address address,
                  std::uint32_t bytes) override;
  void on_complete(const fabric::Packet& packet) override;
  void on_acknowledge(const fabric::Packet& packet) override;
  void send_acknowledgement(const fabric::Packet& packet);
  void on_message(const fabric::Packet& packet) override;
  void applied(const fabric::Packet& packet) override;
  void deliver(const fabric::Packet& packet, emu::Time now);
  void deliver_to_hub(const fabric::Packet& packet, emu::Time now);
  void serve(const fabric::Packet& packet, bool adds, emu::Time now);
  void acknowledged(const fabric::Packet& packet);
  void check_claims(const fabric::Packet& packet, fabric::Address address, std::uint32_t bytes);

  static constexpr fabric::Address kWord = 4;
  static constexpr fabric::Address kGranule = 32;  // of last_writes_

  struct Watch {
    fabric::Address first;
    fabric::Address last;
    std::uint32_t core;
  };
  struct LastWrite {
    fabric::NodeId device;
    std::uint32_t core;
    emu::Time time;
  };

  emu::Shard& shard_;
  fabric::Network& network_;
  const Costs& costs_;
  const std::vector<fabric::NodeId>& ports_;
  const std::uint32_t rank_;
  const fabric::NodeId node_;
  fabric::Memory memory_;
  fabric::Visibility visibility_;
  fabric::ReadLog read_log_;
  StorePort port_;
  std::unique_ptr<NetworkInterface> nic_;
  std::unique_ptr<Proxy> proxy_;
  std::unique_ptr<DestinationHub> hub_;
  struct WaitingForRoom {
    std::uint32_t core;
    std::uint32_t rank;
    std::uint32_t queue;
  };
  std::deque<WaitingForRoom> waiting_for_room_;
  std::vector<Core> cores_;
  Counters counters_;
  emu::Time atomics_free_ = 0;  // when the NIC may carry out the next one
  emu::Time hbm_free_ = 0;

  std::vector<Watch> watches_;
  fabric::Address watched_first_ = ~fabric::Address{0};
  fabric::Address watched_last_ = 0;
  emu::FlatMap<LastWrite> last_writes_;          // small writes only, by 32-byte granule
  emu::FlatMap<Writers> writers_;                // the same by word, when causes are kept
  emu::FlatMap<fabric::CausalKey> row_writers_;  // of larger writes, by row, when causes are kept

  std::vector<std::uint32_t> at_barrier_;
  std::uint32_t kernel_cores_ = 0;
  std::uint32_t finished_cores_ = 0;
  KernelRecord kernel_;
  std::function<emu::Task(Core&)>
      program_;  // of the running kernel: its captures outlive the coroutines
  emu::Task stream_;
  std::coroutine_handle<> stream_handle_;
  std::deque<KernelRecord> records_;
  std::unique_ptr<CheckLog> check_log_;
  std::vector<fabric::TornRead> torn_reads_;
  std::uint64_t torn_read_count_ = 0;
  std::uint64_t puts_to_loss_ = 0;  // 0: none will be lost
  bool has_lost_put_ = false;
  std::unordered_set<std::uint64_t> torn_puts_;  // on their way: each is reported once
};

}  // namespace orrery::devices
