// Tutel's dispatch and combine: every device sends every expert the same number of rows, its
// capacity, padded with zeros, through a hierarchical all-to-all (two_level_exchange.h).
//
// Sources: microsoft/tutel, tutel/impls/fast_dispatch.py and the 2DH all-to-all of
// custom_kernel.cpp, as read for this project. Its collectives are puts here, the bounds of its
// kernels core barriers; their launches cost nothing.
//
// Not in Tutel: a row carries 32 bytes that say whose it is, by which rows are told from padding:
// experts run on rows alone, in the order in which the layer wants them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "emu/errors.h"
#include "moe/algorithms/tutel_gate.h"
#include "moe/algorithms/tutel_records.h"
#include "moe/algorithms/two_level_exchange.h"
#include "moe/capacity.h"
#include "moe/moe_layer.h"
#include "moe/share.h"

namespace orrery::moe {

namespace {

using devices::Core;

// Vector passes of the weighted sum, counted in the inner loop: widen, multiply, add. The final
// cast is one more.
constexpr int kAccumulatePasses = 3;

class Tutel2dh final : private Admitted, public MoeLayer, private TutelRecords {
 public:
  Tutel2dh(const Problem& problem, const Options& options)
      : Admitted(problem, options.decimal("capacity_factor", 0, 1000)),
        MoeLayer(admitted(), Precision::kBf16),
        TutelRecords(layout_, problem, capacity(), payload_bytes()),
        gate_(problem, capacity(), layout_),
        groups_(
            options.number("group", 0, 1u << 20) == 0
                ? NodeGroups(problem.nodes)
                : NodeGroups::consecutive(problem.devices, options.number("group", 0, 1u << 20))),
        exchange_(groups_, kChannels,
                  static_cast<std::uint32_t>(options.number("message_parts", 1, 64)),
                  max_slice_rows(), record_bytes(), row_stride(), layout_) {
    if (padded_rows() * record_bytes() >> 32 != 0) {
      throw emu::ConfigError("--set", "algorithm.capacity_factor", options.text("capacity_factor"),
                             "buffers of less than 4 GiB per device");
    }
  }

  // A fence stands between a message and its flag; a flag, and a count with its call, appear whole.
  Contract contract() const override { return {Contract::Order::kNone, 8}; }

  std::vector<std::string> notes() const override {
    std::vector<std::string> lines{
        groups_.groups() == 1
            ? fmt::format("tutel-2dh: flat all-to-all of {} devices", problem_.devices)
            : fmt::format("tutel-2dh: all-to-all of two levels, {} groups of {} devices",
                          groups_.groups(), groups_.members())};
    if (capacity()) {
      lines.push_back(
          fmt::format("tutel-2dh: {} of {} rows were beyond the capacity of {} per "
                      "expert and device, and dropped",
                      dropped(), dropped() + admitted_rows(), *capacity()));
    }
    return lines;
  }

  // What is sent and what of it has arrived.
  std::uint64_t touched_bytes(std::uint32_t device) const override {
    return MoeLayer::touched_bytes(device) + 2 * padded_rows() * row_stride();
  }

  // The device finds out by itself what is beyond the capacity.
  void prepare(devices::DeviceProcess& device, std::uint32_t iteration) override {
    MoeLayer::prepare(device, iteration);
    const auto all = given().tables[iteration].ids(device.rank());
    if (!all.empty()) device.memory().write(ids(), std::as_bytes(all));
  }

 private:
  // Calls in a row go out over channels in turn: with a fixed capacity, and no combine in between,
  // a device may send its next call's rows while another still takes in those of this one.
  enum Channel : std::uint32_t { kOut, kOtherOut, kBack, kChannels };
  static std::uint32_t out(std::uint32_t iteration) {
    return iteration % 2 == 0 ? kOut : kOtherOut;
  }

  std::uint32_t slice_rows(Core& core) const { return max_local_experts() * gate_.capacity(core); }

  emu::Task dispatch(Core& core, std::uint32_t iteration) override {
    const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
    co_await gate_.run(core, iteration + 1, ids(), entries);
    co_await encode_rows(core, entries);
    co_await pad(core);
    co_await exchange_.exchange(core, out(iteration), iteration + 1, slice_rows(core));
    co_await count_rows(core, iteration);
    co_await copy_out(core, iteration);
  }

  // Entries are split over the cores, each of which goes to its location in its expert's rows.
  emu::Task encode_rows(Core& core, std::uint32_t entries) {
    core.phase("encode");
    const std::uint32_t capacity = gate_.capacity(core);
    const Share mine = share(entries, core.count(), core.index());
    const auto ids = core.array<std::int32_t>(this->ids(), entries);
    for (std::uint32_t entry = mine.begin; entry < mine.end; ++entry) {
      if (ids[entry] < 0) continue;
      const std::uint32_t at = gate_.location(core, entry);
      if (at >= capacity) continue;
      const auto expert = static_cast<std::uint32_t>(ids[entry]);
      const std::uint32_t local = problem_.placement.local_index(expert);
      const RowTag tag{core.rank(), entry / problem_.top_k(), entry % problem_.top_k()};
      const fabric::Address record =
          exchange_.sending(problem_.placement.owner(expert), std::uint64_t{local} * capacity + at);
      co_await core.stream(output_row_bytes());
      co_await core.stream(record_bytes());
      encode(core, tag.token, record);
      core.write(trailer(record), Trailer{1, tag, {}});
    }
  }

  // Calls visit(owner, row of its slice) for the padding of this core's share of all experts, what
  // devices with fewer experts lack included. Returns how many rows that is.
  template <typename Visit>
  std::uint64_t for_padding(Core& core, Visit&& visit) {
    const std::uint32_t capacity = gate_.capacity(core);
    const Share mine = share(lists(), core.count(), core.index());
    std::uint64_t padding = 0;
    for (std::uint32_t slot = mine.begin; slot < mine.end; ++slot) {
      const std::uint32_t owner = slot / max_local_experts();
      const std::uint32_t local = slot % max_local_experts();
      std::uint32_t rows = 0;
      if (local < local_experts(owner)) {
        rows = gate_.count(core, problem_.placement.begin(owner) + local);
      }
      for (; rows < capacity; ++rows, ++padding) {
        visit(owner, std::uint64_t{local} * capacity + rows);
      }
    }
    return padding;
  }

  // Zeros throughout; a row that was given up is zero again once its trailer is written, so that
  // the host need not write all of it.
  void write_padding(Core& core, fabric::Address record) const {
    core.note_write(record, record_bytes());
    core.write(trailer(record), Trailer{});
  }

  emu::Task pad(Core& core) {
    const std::uint64_t padding = for_padding(core, [&](std::uint32_t owner, std::uint64_t row) {
      write_padding(core, exchange_.sending(owner, row));
    });
    co_await core.stream(padding * record_bytes());
  }

  fabric::Address arrived(std::uint32_t iteration, std::uint32_t list, std::uint32_t capacity,
                          std::uint32_t at) const {
    const std::uint32_t local = list / problem_.devices;
    return exchange_.received(out(iteration), list % problem_.devices,
                              std::uint64_t{local} * capacity + at);
  }

  // Lists are split over the cores. The rows of a list come first, then its padding.
  emu::Task count_rows(Core& core, std::uint32_t iteration) {
    core.phase("count rows");
    const std::uint32_t capacity = gate_.capacity(core);
    const Share mine = share(lists(), core.count(), core.index());
    for (std::uint32_t list = mine.begin; list < mine.end; ++list) {
      std::uint32_t rows = 0;
      while (rows < capacity &&
             core.load<Trailer>(trailer(arrived(iteration, list, capacity, rows))).used) {
        ++rows;
      }
      core.write(list_rows(list), rows);
      co_await core.stream((rows + 1) * sizeof(Trailer));
    }
    co_await core.barrier();
  }

  // From [source][expert] to [expert][source], as Tutel permutes after its all-to-all, and within a
  // list from order of choices to order of tokens. Padding stays behind.
  emu::Task copy_out(Core& core, std::uint32_t iteration) {
    core.phase("permute");
    const std::uint32_t capacity = gate_.capacity(core);
    const Share mine = share(lists(), core.count(), core.index());
    const auto counts = core.array<std::uint32_t>(list_rows(0), lists());
    std::uint64_t row = 0;
    for (std::uint32_t list = 0; list < mine.begin; ++list) row += counts[list];
    for (std::uint32_t list = mine.begin; list < mine.end; ++list) {
      std::vector<std::pair<std::uint32_t, std::uint32_t>> order;  // entry, place
      for (std::uint32_t at = 0; at < counts[list]; ++at) {
        const auto tail = core.load<Trailer>(trailer(arrived(iteration, list, capacity, at)));
        order.emplace_back(tail.tag.token * problem_.top_k() + tail.tag.k, at);
      }
      std::sort(order.begin(), order.end());
      for (const auto& [entry, at] : order) {
        const fabric::Address record = arrived(iteration, list, capacity, at);
        core.accept(record, record_bytes());
        co_await core.move(expanded(row), record, record_bytes());
        core.write(tag(row), core.load<Trailer>(trailer(expanded(row))).tag);
        core.write(scale(row), 0.0f);
        core.write(place(row), at);
        ++row;
      }
      co_await core.stream(std::uint64_t{2} * (capacity - counts[list]) * record_bytes());
      for (std::uint32_t at = counts[list]; at < capacity; ++at) {
        core.discard(arrived(iteration, list, capacity, at), row_stride());
      }
      if (list % problem_.devices != problem_.devices - 1) continue;
      std::uint32_t rows = 0;
      for (std::uint32_t each = list + 1 - problem_.devices; each <= list; ++each) {
        rows += counts[each];
      }
      core.write(expert_rows(list / problem_.devices), rows);
    }
  }

  emu::Task combine(Core& core, std::uint32_t iteration) override {
    co_await return_rows(core);
    co_await exchange_.exchange(core, kBack, iteration + 1, slice_rows(core));
    co_await decode(core, tokens(core.rank(), iteration));
  }

  // Every output goes back to where its input came from, every padding row as well.
  emu::Task return_rows(Core& core) {
    core.phase("permute back");
    const std::uint32_t capacity = gate_.capacity(core);
    const Share mine = share(lists(), core.count(), core.index());
    const auto counts = core.array<std::uint32_t>(list_rows(0), lists());
    std::uint64_t row = 0;
    for (std::uint32_t list = 0; list < mine.begin; ++list) row += counts[list];
    for (std::uint32_t list = mine.begin; list < mine.end; ++list) {
      const std::uint32_t source = list % problem_.devices;
      const std::uint64_t first = std::uint64_t{list / problem_.devices} * capacity;
      for (std::uint32_t i = 0; i < counts[list]; ++i, ++row) {
        const auto at = core.load<std::uint32_t>(place(row));
        const fabric::Address record = exchange_.sending(source, first + at);
        co_await core.move(record, expert_output(row), record_bytes());
        core.write(trailer(record), Trailer{1, core.load<RowTag>(tag(row)), {}});
      }
      for (std::uint32_t at = counts[list]; at < capacity; ++at) {
        write_padding(core, exchange_.sending(source, first + at));
      }
      co_await core.stream(std::uint64_t{2} * (capacity - counts[list]) * record_bytes());
    }
  }

  // Tokens are split over the cores: each one's rows are gathered and added in ascending k.
  emu::Task decode(Core& core, std::uint32_t count) {
    core.phase("decode");
    for_padding(core, [&](std::uint32_t owner, std::uint64_t row) {
      core.discard(exchange_.received(kBack, owner, row), row_stride());
    });
    const std::uint32_t capacity = gate_.capacity(core);
    const std::uint32_t top_k = problem_.top_k();
    const Share mine = share(count, core.count(), core.index());
    const auto ids = core.array<std::int32_t>(this->ids(), std::uint64_t{count} * top_k);
    std::vector<WeightedRow> rows;
    for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
      rows.clear();
      for (std::uint32_t entry = token * top_k; entry < (token + 1) * top_k; ++entry) {
        if (ids[entry] < 0) continue;
        const std::uint32_t at = gate_.location(core, entry);
        if (at >= capacity) continue;
        const auto expert = static_cast<std::uint32_t>(ids[entry]);
        const fabric::Address row = exchange_.received(
            kBack, problem_.placement.owner(expert),
            std::uint64_t{problem_.placement.local_index(expert)} * capacity + at);
        core.accept(row, output_row_bytes());
        rows.push_back({row, core.load<float>(weights() + std::uint64_t{entry} * 4)});
        co_await core.stream(output_row_bytes());
        co_await core.compute(kAccumulatePasses * core.costs().vector(problem_.hidden()));
      }
      weighted_sum(core, token, rows);
      for (const WeightedRow& each : rows) core.discard(each.row, row_stride());
      co_await core.compute(core.costs().vector(problem_.hidden()));
      co_await core.stream(output_row_bytes());
    }
  }

  const TutelGate gate_;
  const NodeGroups groups_;
  const TwoLevelExchange exchange_;
};

}  // namespace

ORRERY_ALGORITHM(
    tutel_2dh, "tutel-2dh",
    "Tutel: equal capacity for every expert, hierarchical all-to-all of two levels", Tutel2dh,
    {{"capacity_factor",
      "0",
      "rows per expert and device: top-k * int(factor * tokens / experts), what is beyond is "
      "dropped; 0: as many as the fullest expert needs",
      {}},
     {"group",
      "0",
      "devices per group of the lower level, in order; 0: those of a node. Unequal groups, one "
      "group, or groups of one: a flat all-to-all",
      {}},
     {"message_parts",
      "1",
      "puts that a message is sent in, dealt to the cores; 1: a message is one put of one core",
      {}}})

}  // namespace orrery::moe
