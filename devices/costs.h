// A device's costs in virtual time, from its description.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "devices/device.pb.h"
#include "emu/time.h"

namespace orrery::devices {

/// Of a NIC and its proxy.
struct NicCosts {
  /// `device_queue_pairs`: those of the device, where the NIC has none of its own number.
  NicCosts(const Nic& nic, std::uint32_t device_queue_pairs)
      : queue_pairs(nic.queue_pairs() == 0 ? device_queue_pairs : nic.queue_pairs()),
        proxied(nic.posting() == Nic::PROXY),
        post(emu::from_ns(nic.post_ns())),
        doorbell(emu::from_ns(nic.doorbell_ns())),
        descriptor_fetch(emu::from_ns(nic.descriptor_fetch_ns())),
        payload_fetch(emu::from_ns(nic.payload_fetch_ns())),
        message(emu::from_ns(nic.message_ns())),
        packet(emu::from_ns(nic.packet_ns())),
        rate(emu::Rate::from_gb_per_s(nic.gb_per_s())),
        queue_depth(nic.queue_depth()),
        window(nic.window()),
        atomic(emu::from_ns(nic.atomic_ns())),
        atomic_gap(emu::from_ns(nic.atomic_gap_ns())),
        acknowledge(emu::from_ns(nic.acknowledge_ns())),
        completion(emu::from_ns(nic.completion_ns())),
        put_signal(nic.put_signal()),
        signal_by_peer(nic.signal_by() == Nic::PEER_PROXY),
        add_by_peer((nic.has_add_by() ? nic.add_by() : nic.signal_by()) == Nic::PEER_PROXY),
        proxies(nic.proxies()),
        proxy_post(emu::from_ns(nic.proxy_post_ns())),
        proxy_apply(emu::from_ns(nic.proxy_apply_ns())),
        fence(nic.fence()) {}

  std::uint32_t queue_pairs;  // to each peer
  bool proxied;
  emu::Time post;
  emu::Time doorbell;
  emu::Time descriptor_fetch;
  emu::Time payload_fetch;
  emu::Time message;
  emu::Time packet;
  emu::Rate rate;
  std::uint32_t queue_depth;
  std::uint32_t window;
  emu::Time atomic;
  emu::Time atomic_gap;
  emu::Time acknowledge;
  emu::Time completion;
  Nic::PutSignal put_signal;
  bool signal_by_peer;
  bool add_by_peer;
  /// Whether a proxy of the peer writes a signal, or one that is added.
  bool by_peer(bool adds) const { return adds ? add_by_peer : signal_by_peer; }
  std::uint32_t proxies;
  emu::Time proxy_post;
  emu::Time proxy_apply;
  Nic::Fence fence;
};

/// Of a hub.
struct HubCosts {
  explicit HubCosts(const Hub& hub)
      : service(emu::from_ns(hub.service_ns())),
        packet_bytes(hub.packet_bytes()),
        fragment_bytes(hub.fragment_bytes()),
        entries(hub.entries()),
        miss(emu::from_ns(hub.miss_ns())) {}

  emu::Time service;
  std::uint32_t packet_bytes;
  std::uint32_t fragment_bytes;
  std::uint32_t entries;
  emu::Time miss;
};

struct Costs {
  explicit Costs(const Device& device, bool computes_at_once = false)
      : cores(device.cores()),
        launch(emu::from_ns(device.launch_ns())),
        host_sync(emu::from_ns(device.host_sync_ns())),
        issue(emu::from_ns(device.issue_ns())),
        core_store(emu::Rate::from_gb_per_s(device.core_store_gb_per_s())),
        outstanding_stores(device.outstanding_stores()),
        fence(emu::from_ns(device.fence_ns())),
        queue_pairs(device.queue_pairs() == 0 ? device.cores() : device.queue_pairs()),
        service_core_put(emu::from_ns(device.service_core_put_ns())),
        hbm(emu::Rate::from_gb_per_s(device.hbm_gb_per_s())),
        core_copy(emu::Rate::from_gb_per_s(device.core_copy_gb_per_s())),
        copy(emu::from_ns(device.copy_ns())),
        copy_chunk_bytes(device.copy_chunk_bytes()),
        poll(emu::from_ns(device.poll_ns())),
        barrier(emu::from_ns(device.barrier_ns())),
        barrier_per_core(emu::from_ns(device.barrier_per_core_ns())),
        local_atomic(emu::from_ns(device.local_atomic_ns())),
        vector_pass(emu::from_ns(device.vector_pass_ns())),
        vector_elements_per_ns(device.vector_elements_per_ns()),
        scalar_step(emu::from_ns(device.scalar_step_ns())),
        search_step(emu::from_ns(device.search_step_ns())),
        matrix_flop_per_ns(device.matrix_tflop_per_s() * 1e3 * device.matrix_efficiency()),
        tile_rows(device.tile_rows()),
        tile_columns(device.tile_columns()),
        matrix_rows(device.matrix_rows()),
        tile_overhead(emu::from_ns(device.tile_ns())),
        free_compute(computes_at_once) {
    if (device.has_nic()) nic.emplace(device.nic(), queue_pairs);
    if (device.has_hub()) hub.emplace(device.hub());
  }

  /// One vector pass over `elements` of 4 bytes.
  emu::Time vector(std::uint64_t elements) const {
    return vector_pass + ratio(static_cast<double>(elements), vector_elements_per_ns);
  }
  /// `flop` floating point operations on the matrix units of the whole device.
  emu::Time matrix(double flop) const { return ratio(flop, matrix_flop_per_ns); }
  /// One tile of a matrix product, `rows` x `columns` over `depth`, on one core's share of the
  /// matrix units. They take rows by matrix_rows at a time.
  emu::Time tile(std::uint32_t rows, std::uint32_t columns, std::uint32_t depth) const {
    const std::uint32_t steps = (rows + matrix_rows - 1) / matrix_rows;
    const double flop = 2.0 * steps * matrix_rows * columns * depth;
    return tile_overhead + ratio(flop * cores, matrix_flop_per_ns);
  }

  std::uint32_t cores;
  emu::Time launch;
  emu::Time host_sync;
  emu::Time issue;
  emu::Rate core_store;
  std::uint32_t outstanding_stores;
  emu::Time fence;
  std::uint32_t queue_pairs;
  emu::Time service_core_put;
  emu::Rate hbm;
  emu::Rate core_copy;
  emu::Time copy;
  std::uint32_t copy_chunk_bytes;
  emu::Time poll;
  emu::Time barrier;
  emu::Time barrier_per_core;
  emu::Time local_atomic;
  emu::Time vector_pass;
  double vector_elements_per_ns;
  emu::Time scalar_step;
  emu::Time search_step;
  double matrix_flop_per_ns;
  std::uint32_t tile_rows;
  std::uint32_t tile_columns;
  std::uint32_t matrix_rows;
  emu::Time tile_overhead;
  bool free_compute;  // what cores compute takes no time; for what-if runs
  std::optional<NicCosts> nic;
  std::optional<HubCosts> hub;

 private:
  static emu::Time ratio(double work, double per_ns) {
    return per_ns == 0 ? 0 : static_cast<emu::Time>(std::ceil(work * 1e3 / per_ns));
  }
};

}  // namespace orrery::devices
