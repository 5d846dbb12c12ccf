// pplx-garden's all-to-all (fabric-lib): a worker exchanges full counts while the first rows for
// every peer of another node are on their way already, to private slots whose addresses depend on
// no count; the rest follows when the counts are known. Every write counts itself at its receiver
// (immediate data there, Core::put_signal_add here), so nothing is ordered after anything.
//
// Source: perplexityai/pplx-garden, p2p-all-to-all/src/a2a_worker.rs and
// a2a-kernels/src/a2a/*.cu, as read for this project. Differences: its worker is a thread of the
// host, which posts all requests and works out the routes; here core 0 stands for it, and what it
// posts goes as the NIC's preset says. Rows of a node's devices count themselves, instead of a flag
// behind a barrier of all cores; counts and barriers within a node go over its network as well. The
// worker meets its device's cores between the two kernels of an operation. A write is one request
// to one NIC. Peers take turns as peers_of() says, which there is left to the NIC.
//
// pplx_garden.cc has what calls share, pplx_garden_dispatch.cc and pplx_garden_combine.cc the
// operations, pplx_garden_routes.h which row goes where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "moe/algorithms/pplx_garden_layout.h"
#include "moe/algorithms/pplx_garden_routes.h"
#include "moe/message_layer.h"

namespace orrery::moe {

class PplxGarden final : public MessageLayer, private PplxGardenBuffers {
 public:
  PplxGarden(const Problem& problem, const Options& options);

  // Puts that count themselves, and flags within a device.
  Contract contract() const override { return {Contract::Order::kNone, 4}; }
  void set_up(devices::DeviceProcess& device) override;
  std::uint64_t touched_bytes(std::uint32_t device) const override;

 private:
  using Handles = std::vector<devices::PutHandle>;

  // --- Calls (pplx_garden.cc) ---
  static bool is_worker(const devices::Core& core) { return core.index() == 0; }
  // The other cores move rows, a core that is alone does both.
  static bool copies(const devices::Core& core) { return core.count() == 1 || core.index() > 0; }
  static std::uint32_t copiers(const devices::Core& core) {
    return core.count() == 1 ? 1 : core.count() - 1;
  }
  static std::uint32_t copier(const devices::Core& core) {
    return core.count() == 1 ? 0 : core.index() - 1;
  }
  static bool is_mine(const devices::Core& core, std::size_t number) {
    return number % copiers(core) == copier(core);
  }
  std::uint32_t next_call(devices::Core& core) const;
  SendPlan plan_of(devices::Core& core, std::uint32_t iteration);
  emu::Task wait_peers(devices::Core& core, std::uint32_t call);
  emu::Task wait_sent(devices::Core& core);
  emu::Task wait_slabs(devices::Core& core, std::uint32_t expected);
  emu::Task wait_near(devices::Core& core, std::uint32_t source, std::uint32_t expected);
  emu::Task wait_worker(devices::Core& core, fabric::Address flag, std::uint32_t call);
  // `pieces` as one write that counts itself at `peer`; without any, the count alone.
  emu::Task write_slab(devices::Core& core, std::uint32_t peer, std::vector<devices::Piece> pieces,
                       Handles& handles);
  emu::Task end_call(devices::Core& core, std::uint32_t call);

  // --- Dispatch ---
  emu::Task dispatch(devices::Core& core, std::uint32_t iteration) override;
  emu::Task count_rows(devices::Core& core, const SendPlan& plan, std::uint32_t iteration);
  emu::Task send_counts(devices::Core& core, Handles& handles);
  emu::Task copy_to_send(devices::Core& core, const SendPlan& plan, std::uint32_t iteration);
  emu::Task send_private(devices::Core& core, const SendPlan& plan, Handles& handles);
  emu::Task work_out_routes(devices::Core& core);
  emu::Task send_overflow(devices::Core& core, const SendPlan& plan, Handles& handles);
  emu::Task exchange(devices::Core& core, const SendPlan& plan, std::uint32_t call,
                     Handles& handles);
  emu::Task receive(devices::Core& core, const SendPlan& plan, std::uint32_t call);
  bool is_direct(std::uint32_t rank, const SendPlan& plan, std::uint32_t owner,
                 std::uint32_t position) const;
  std::uint32_t rows_between(devices::Core& core, std::uint32_t source, std::uint32_t owner);
  std::uint64_t first_overflow(devices::Core& core, std::uint32_t source, std::uint32_t owner);

  // --- Combine ---
  emu::Task combine(devices::Core& core, std::uint32_t iteration) override;
  void discard_overflow(devices::Core& core, const SendPlan& plan);
  std::uint32_t first_at(devices::Core& core, std::uint32_t source);
  emu::Task copy_outputs(devices::Core& core);
  emu::Task send_outputs(devices::Core& core, Handles& handles);
  emu::Task finish_outputs(devices::Core& core, std::uint32_t call, const Handles& handles);
  emu::Task reduce(devices::Core& core, const SendPlan& plan, std::uint32_t iteration);
  std::vector<ComingRow> rows_from(devices::Core& core, const std::vector<std::uint32_t>& sources,
                                   std::vector<std::uint32_t>& taken);

  const std::vector<std::vector<std::uint32_t>> far_;         // by device: peers of other nodes
  const std::vector<std::vector<std::uint32_t>> near_peers_;  // and of its own
  const emu::Time worker_step_;
  const std::string sabotage_;
};

}  // namespace orrery::moe
