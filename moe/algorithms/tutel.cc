// Tutel's flat all-to-all of equal slices, with its overlap: the capacity is cut in parts, and
// experts take the rows of one while the next are on their way (pipelined_layer.h).
//
// Source: microsoft/tutel, tutel/impls/fast_dispatch.py and the scatter_async and gather_async of
// custom_kernel.cpp, as read for this project: a stream for communication and events per part. Its
// kernels' launches in the pipeline cost nothing here.
//
// Not in Tutel: a row carries 32 bytes that say which of its device's rows it is, by which rows are
// told from padding; products are those of all rows, padding included.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "emu/errors.h"
#include "moe/algorithms/pipelined_layer.h"
#include "moe/algorithms/tutel_gate.h"
#include "moe/capacity.h"

namespace orrery::moe {

namespace {

class Tutel final : private Admitted, public PipelinedLayer {
 public:
  Tutel(const Problem& problem, const Options& options)
      : Admitted(problem, options.decimal("capacity_factor", 0, 1000)),
        PipelinedLayer(admitted(), options, plan(admitted(), capacity(), options)),
        gate_(problem, capacity(), layout_) {
    if (std::uint64_t{problem.placement.experts()} * list_rows() * row_bytes_of(problem) >> 32 !=
        0) {
      throw emu::ConfigError("--set", "algorithm.capacity_factor", options.text("capacity_factor"),
                             "buffers of less than 4 GiB per device");
    }
  }

  static std::vector<OptionSpec> options() {
    std::vector<OptionSpec> specs = pipeline_options(
        "splits", "1", "parts of the capacity that overlap; 1: one step after the other");
    specs.push_back({"capacity_factor",
                     "0",
                     "rows per expert and device: top-k * int(factor * tokens / experts), what is "
                     "beyond is dropped; 0: as many as the fullest expert needs",
                     {}});
    return specs;
  }

  std::vector<std::string> notes() const override {
    if (!capacity()) return {};
    return {fmt::format(
        "tutel: {} of {} rows were beyond the capacity of {} per expert and device, and dropped",
        dropped(), dropped() + admitted_rows(), *capacity())};
  }

  // The device finds out by itself what is beyond the capacity.
  void prepare(devices::DeviceProcess& device, std::uint32_t iteration) override {
    MoeLayer::prepare(device, iteration);
    const auto all = given().tables[iteration].ids(device.rank());
    if (!all.empty()) device.memory().write(ids(), std::as_bytes(all));
  }

 private:
  // What follows a row's payload.
  struct Trailer {
    std::uint32_t used;   // 0: padding
    std::uint32_t index;  // among its device's rows for the expert, in order of tokens
    std::array<std::uint32_t, 6> unused;
  };
  static_assert(sizeof(Trailer) == 32);

  static std::uint32_t padded_payload(const Problem& problem) {
    return static_cast<std::uint32_t>(align_up(row_bytes(Precision::kBf16, problem.hidden()), 32));
  }
  static std::uint32_t row_bytes_of(const Problem& problem) {
    return padded_payload(problem) + static_cast<std::uint32_t>(sizeof(Trailer));
  }
  static Plan plan(const Problem& problem, std::optional<std::uint32_t> capacity,
                   const Options& options) {
    const std::uint32_t choices = problem.workload.gate().allow_duplicates() ? problem.top_k() : 1;
    Plan plan{static_cast<std::uint32_t>(options.number("splits", 1, 256)),
              capacity.value_or(problem.token_bound * choices), row_bytes_of(problem)};
    std::uint32_t most = capacity.value_or(0);
    for (const RoutingTable& table : problem.tables) {
      for (std::uint32_t device = 0; !capacity && device < problem.devices; ++device) {
        for (const std::uint32_t rows : table.counts(device)) most = std::max(most, rows);
      }
    }
    plan.padded_rows = std::uint64_t{problem.devices} * problem.placement.max_local() * most;
    return plan;
  }
  Address trailer(Address row) const { return row + padded_payload(problem_); }

  bool meets(std::uint32_t, std::uint32_t, std::uint32_t) const override { return true; }
  Share places(Core& core, std::uint32_t, std::uint32_t, std::uint32_t part) override {
    return share(gate_.capacity(core), parts(), part);
  }
  std::optional<std::uint32_t> index_of(Core& core, Address row, std::uint32_t) override {
    const auto tail = core.load<Trailer>(trailer(row));
    if (tail.used == 0) return std::nullopt;
    return tail.index;
  }
  std::optional<std::uint32_t> place_of(Core& core, std::uint32_t entry) override {
    const std::uint32_t place = gate_.location(core, entry);
    if (place >= gate_.capacity(core)) return std::nullopt;
    return place;
  }
  Share padding(Core& core, std::uint32_t expert) override {
    const std::uint32_t capacity = gate_.capacity(core);
    return {std::min(gate_.count(core, expert), capacity), capacity};
  }

  emu::Task begin(Core& core, std::uint32_t iteration) override {
    const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
    co_await gate_.run(core, iteration + 1, ids(), entries);
    co_await encode_rows(core, entries);
    co_await pad(core);
  }

  // Entries are split over the cores, each of which goes to its location in its expert's rows.
  emu::Task encode_rows(Core& core, std::uint32_t entries) {
    core.phase("encode");
    const std::uint32_t capacity = gate_.capacity(core);
    const Share mine = share(entries, core.count(), core.index());
    const auto ids = core.array<std::int32_t>(this->ids(), entries);
    std::vector<std::uint32_t> next(problem_.placement.experts(), 0);
    for (std::uint32_t entry = 0; entry < mine.end; ++entry) {
      if (ids[entry] < 0) continue;
      const std::uint32_t at = gate_.location(core, entry);
      if (at >= capacity) continue;
      const auto expert = static_cast<std::uint32_t>(ids[entry]);
      const std::uint32_t index = next[expert]++;
      if (entry < mine.begin) continue;
      const Address row = staged(expert, at);
      co_await core.stream(output_row_bytes());
      co_await core.stream(row_bytes_of(problem_));
      encode(core, entry / problem_.top_k(), row);
      core.write(trailer(row), Trailer{1, index, {}});
    }
  }

  // Zeros throughout; a row that was given up is zero again once its trailer is written.
  emu::Task pad(Core& core) {
    const Share mine = share(problem_.placement.experts(), core.count(), core.index());
    std::uint64_t rows = 0;
    for (std::uint32_t expert = mine.begin; expert < mine.end; ++expert) {
      const Share unused = padding(core, expert);
      for (std::uint32_t at = unused.begin; at < unused.end; ++at) {
        core.note_write(staged(expert, at), row_bytes_of(problem_));
        core.write(trailer(staged(expert, at)), Trailer{});
      }
      rows += unused.size();
    }
    co_await core.stream(rows * row_bytes_of(problem_));
  }

  const TutelGate gate_;
};

}  // namespace

ORRERY_ALGORITHM(tutel, "tutel",
                 "Tutel: equal capacity for every expert, flat all-to-all, parts of the capacity "
                 "overlap with experts",
                 Tutel, Tutel::options())

}  // namespace orrery::moe
