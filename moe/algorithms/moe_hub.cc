#include "moe/algorithms/moe_hub.h"

#include <algorithm>
#include <string>
#include <vector>

#include "emu/errors.h"
#include "moe/node_groups.h"

namespace orrery::moe {

using devices::Core;

namespace {

std::uint32_t whole_region(const Problem& problem) {
  const std::uint64_t of_token = problem.workload.gate().allow_duplicates() ? problem.top_k() : 1;
  return static_cast<std::uint32_t>(problem.devices * of_token * problem.token_bound);
}

}  // namespace

MoeHub::MoeHub(const Problem& problem, const Options& options)
    : FusedLayer(problem, Sums::kBySlots),
      variant_(options.text("hub")),
      sabotage_(options.text("sabotage")),
      at_(layout_, sizes(problem, options)) {
  if (!problem.costs.hub) {
    throw emu::ConfigError("--algorithm", "", "moe-hub",
                           "a machine whose devices have a hub (device.hub), such as "
                           "hgx-h100-hub");
  }
  if (problem.costs.nic && NodeGroups(problem.nodes).groups() > 1) {
    throw emu::ConfigError("--devices", "", std::to_string(problem.devices),
                           "devices of one node: what moe-hub sends to a hub passes no NIC");
  }
  packet_bytes_ =
      large_packets() ? problem.costs.hub->packet_bytes : problem.costs.hub->fragment_bytes;
}

std::uint64_t MoeHub::touched_bytes(std::uint32_t device) const {
  std::uint64_t entries = 0;
  std::uint64_t most_rows = 0;
  for (std::uint32_t i = 0; i < problem_.iterations; ++i) {
    entries = std::max<std::uint64_t>(entries, std::uint64_t{tokens(device, i)} * problem_.top_k());
    most_rows = std::max(most_rows, rows(device, i));
  }
  return FusedLayer::touched_bytes(device) + (entries + 3 * most_rows) * row_stride();
}

void MoeHub::set_up(devices::DeviceProcess& device) {
  for (std::uint32_t half = 0; half < 2; ++half) {
    for (std::uint32_t local = 0; local < local_experts(device.rank()); ++local) {
      device.hub()->add(at_.region(half, local));
    }
  }
}

void MoeHub::prepare(devices::DeviceProcess& device, std::uint32_t iteration) {
  FusedLayer::prepare(device, iteration);
  std::vector<std::uint32_t> listed(problem_.placement.experts(), 0);
  for (std::uint32_t token = 0; token < tokens(device.rank(), iteration); ++token) {
    const auto ids = problem_.tables[iteration].ids(device.rank(), token);
    for (std::uint32_t k = 0; k < ids.size(); ++k) {
      if (ids[k] < 0) continue;
      device.memory().store(at_.order(token, k), listed[static_cast<std::uint32_t>(ids[k])]++);
    }
  }
}

MoeHubBuffers::Sizes MoeHub::sizes(const Problem& problem, const Options& options) const {
  const auto asked = static_cast<std::uint32_t>(options.number("region_rows", 0, 1u << 30));
  const std::uint32_t most = std::max(whole_region(problem), 1u);
  return {problem.devices,
          std::max(max_local_experts(), 1u),
          asked == 0 ? most : std::min(asked, most),
          problem.costs.tile_rows,
          problem.token_bound,
          problem.top_k(),
          problem.costs.cores,
          problem.placement.experts(),
          row_stride()};
}

emu::Task MoeHub::layer(Core& core, std::uint32_t iteration) {
  const std::uint32_t half = iteration % 2;
  co_await send_rows(core, half, iteration);
  co_await send_ends(core, half);
  if (by_blocks()) {
    co_await run_blocks(core, half);
  } else {
    co_await run_kernels(core, half);
  }
  co_await take_sums(core, iteration);
  co_await clear(core, half, iteration);
}

// Tokens are dealt to the cores.
emu::Task MoeHub::send_rows(Core& core, std::uint32_t half, std::uint32_t iteration) {
  core.phase("send rows");
  std::vector<std::uint32_t> sent(problem_.placement.experts(), 0);
  const std::uint32_t count = tokens(core.rank(), iteration);
  for (std::uint32_t token = core.index(); token < count; token += core.count()) {
    const auto ids = ids_of(core, token);
    co_await core.stream(output_row_bytes());
    for (std::uint32_t k = 0; k < ids.size(); ++k) {
      if (ids[k] < 0) continue;
      const auto expert = static_cast<std::uint32_t>(ids[k]);
      const std::uint32_t local = problem_.placement.local_index(expert);
      const fabric::Address row = at_.staged(token, k);
      encode(core, token, row);
      const auto order = core.load<std::uint32_t>(at_.order(token, k));
      core.write(name_of(row), Name{core.rank(), token, k, order});
      ++sent[expert];
      const devices::Piece piece{at_.row(half, local, 0), row, message_bytes()};
      co_await core.send(problem_.placement.owner(expert), piece, at_.word(half, local, 0),
                         packet_bytes_);
    }
  }
  for (std::uint32_t expert = 0; expert < sent.size(); ++expert) {
    core.write(at_.counts(core.index()) + expert * std::uint64_t{4}, sent[expert]);
  }
}

// Experts are dealt to the cores.
emu::Task MoeHub::send_ends(Core& core, std::uint32_t half) {
  co_await core.barrier();
  core.phase("send ends");
  const std::uint32_t experts = problem_.placement.experts();
  for (std::uint32_t expert = core.index(); expert < experts; expert += core.count()) {
    std::uint32_t rows = 0;
    for (std::uint32_t each = 0; each < core.count(); ++each) {
      rows += core.load<std::uint32_t>(at_.counts(each) + expert * std::uint64_t{4});
    }
    co_await core.compute(core.costs().vector(core.count()));
    if (sabotage_ == "drop-end" && core.rank() == 0 && expert == 0) continue;
    const std::uint32_t local = problem_.placement.local_index(expert);
    const std::uint32_t end = rows + 1;
    co_await core.store(problem_.placement.owner(expert), at_.ended(half, local, core.rank()), end);
  }
}

// Rows are dealt to the cores.
emu::Task MoeHub::return_rows(Core& core, std::uint32_t half, Block block, std::uint32_t& turns) {
  bool waited = !by_blocks();
  for (std::uint32_t i = 0; i < block.rows; ++i) {
    if (turns++ % core.count() != core.index()) continue;
    if (!waited) {
      co_await wait_tiles(core, at_.down(block.local, block.index), Projection::kDown);
    }
    waited = true;
    const std::uint32_t index = block.index * at_.block_rows() + i;
    const fabric::Address row = at_.row(half, block.local, index);
    const auto name = core.load<Name>(name_of(row));
    core.discard(row, row_stride());
    co_await core.stream(output_row_bytes());
    const devices::Piece piece{slot(name.token, name.k), at_.result(block.local, index),
                               output_row_bytes()};
    co_await core.send(name.source, piece, at_.returned(name.token), packet_bytes_);
  }
}

// Tokens are dealt to the cores.
emu::Task MoeHub::take_sums(Core& core, std::uint32_t iteration) {
  core.phase("sum");
  const std::uint32_t count = tokens(core.rank(), iteration);
  for (std::uint32_t token = core.index(); token < count; token += core.count()) {
    const auto ids = ids_of(core, token);
    const auto rows = static_cast<std::uint32_t>(
        std::count_if(ids.begin(), ids.end(), [](std::int32_t id) { return id >= 0; }));
    if (rows > 0) {
      const devices::Slots slot{at_.returned(token), 4, 8, 1, 0};
      const devices::Predicate enough = devices::word_at_least(rows);
      const auto expected = [&](std::uint32_t) { return late_experts(core, token); };
      co_await core.wait_until(slot, enough, expected);
    }
    co_await add_slots(core, token);
  }
}

emu::Task MoeHub::clear(Core& core, std::uint32_t half, std::uint32_t iteration) {
  co_await core.quiet();
  co_await core.barrier();
  core.phase("clear");
  const std::uint32_t experts = local_experts(core.rank());
  for (std::uint32_t local = core.index(); local < experts; local += core.count()) {
    for (std::uint32_t block = 0; block <= at_.blocks(); ++block) {
      core.write(at_.word(half, local, block), std::uint64_t{0});
      core.write(at_.up(local, block), std::uint64_t{0});
      core.write(at_.down(local, block), std::uint64_t{0});
    }
    for (std::uint32_t source = 0; source < problem_.devices; ++source) {
      core.write(at_.ended(half, local, source), std::uint32_t{0});
    }
    core.device().hub()->empty(half * experts + local);  // in the order of set_up()
  }
  const std::uint32_t count = tokens(core.rank(), iteration);
  for (std::uint32_t token = core.index(); token < count; token += core.count()) {
    core.write(at_.returned(token), std::uint64_t{0});
  }
}

ORRERY_ALGORITHM(
    moe_hub, "moe-hub",
    "MoE-Hub: rows go to experts by name, their places are given where they arrive", MoeHub,
    {{"hub",
      "all",
      "parts of the hub: address allocation alone, with its packet manager, with its "
      "availability manager, or all",
      {"allocation", "packets", "availability", "all"}},
     {"region_rows", "0", "rows that an expert's region has room for; 0: all that can come", {}},
     {"sabotage",
      "none",
      "break it on purpose, to see how that looks",
      {"none", "trust-end", "drop-end"}}})

}  // namespace orrery::moe
