// FasterMoE's smart schedule: the all-to-all is cut along a ring of groups of devices. In step s
// every device sends to the group s behind its own; experts take the rows of a step while those of
// the next are on their way, and their outputs go back when all rows are out (pipelined_layer.h).
//
// Source: the schedule as it is generally told of FasterMoE (PPoPP 2022): sends, products and
// returns of each step, on a stream for communication and one for products. Neither the paper nor
// the code was read for this project. Its pairwise sends are puts here. Counts are gathered by
// everybody, and the host reads them before it can launch the exchange. Shadowed experts are left
// out.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "moe/algorithms/count_gather.h"
#include "moe/algorithms/pipelined_layer.h"

namespace orrery::moe {

namespace {

// Vector passes to find the places of entries in their experts' lists.
constexpr int kPlacePasses = 4;

class Fastermoe final : public PipelinedLayer {
 public:
  Fastermoe(const Problem& problem, const Options& options)
      : PipelinedLayer(problem, options, plan(problem, options)), counts_(problem, layout_) {
    places_ = layout_.flat(std::uint64_t{problem.token_bound} * problem.top_k() * 4);
  }

  static std::vector<OptionSpec> options() {
    return pipeline_options(
        "parts", "0",
        "groups that devices are dealt to, a step each; 0: every device is one; "
        "1: nothing overlaps");
  }

  std::vector<std::string> notes() const override {
    return {fmt::format("fastermoe: {} groups of devices, a step each", parts())};
  }

 private:
  static Plan plan(const Problem& problem, const Options& options) {
    const auto wanted = static_cast<std::uint32_t>(options.number("parts", 0, 1u << 20));
    const std::uint32_t choices = problem.workload.gate().allow_duplicates() ? problem.top_k() : 1;
    return {wanted == 0 ? problem.devices : std::min(wanted, problem.devices),
            problem.token_bound * choices,
            static_cast<std::uint32_t>(row_bytes(Precision::kBf16, problem.hidden()))};
  }

  std::uint32_t group_of(std::uint32_t device) const {
    return share_of(problem_.devices, parts(), device);
  }
  bool meets(std::uint32_t source, std::uint32_t owner, std::uint32_t part) const override {
    return (group_of(source) + part) % parts() == group_of(owner);
  }
  Share places(Core& core, std::uint32_t source, std::uint32_t expert, std::uint32_t) override {
    const auto counts = counts_.counts(core);
    return {0, counts[std::size_t{source} * problem_.placement.experts() + expert]};
  }
  std::optional<std::uint32_t> index_of(Core&, Address, std::uint32_t place) override {
    return place;
  }
  std::optional<std::uint32_t> place_of(Core& core, std::uint32_t entry) override {
    return core.load<std::uint32_t>(places_ + entry * 4ull);
  }

  emu::Task begin(Core& core, std::uint32_t iteration) override {
    const std::uint32_t call = iteration + 1;
    const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
    co_await counts_.histogram(core, ids(), entries);
    co_await core.next_kernel();
    co_await counts_.gather(core, call);
    co_await counts_.wait_counts(core, call);
    counts_.read(core);
    co_await core.host_sync();
    co_await stage(core, entries);
  }

  // Tokens are split over the cores; an expert's rows are in order of tokens.
  emu::Task stage(Core& core, std::uint32_t entries) {
    core.phase("permute");
    const std::uint32_t top_k = problem_.top_k();
    const auto ids = core.array<std::int32_t>(this->ids(), entries);
    const Share mine = share(entries / top_k, core.count(), core.index());
    std::vector<std::uint32_t> next(problem_.placement.experts(), 0);
    for (std::uint32_t entry = 0; entry < mine.begin * top_k; ++entry) {
      if (ids[entry] >= 0) ++next[static_cast<std::size_t>(ids[entry])];
    }
    co_await core.stream(entries * sizeof(std::int32_t));
    co_await core.compute(kPlacePasses * core.costs().vector(entries));
    for (std::uint32_t token = mine.begin; token < mine.end; ++token) {
      co_await core.stream(output_row_bytes());
      for (std::uint32_t entry = token * top_k; entry < (token + 1) * top_k; ++entry) {
        if (ids[entry] < 0) continue;
        const auto expert = static_cast<std::uint32_t>(ids[entry]);
        const std::uint32_t place = next[expert]++;
        encode(core, token, staged(expert, place));
        core.write(places_ + entry * 4ull, place);
        co_await core.stream(payload_bytes());
      }
    }
  }

  const CountGather counts_;
  Address places_;  // uint32 [entry]: in its expert's list
};

}  // namespace

ORRERY_ALGORITHM(fastermoe, "fastermoe",
                 "FasterMoE's schedule: a ring of groups, rows, products and outputs of its steps "
                 "overlap",
                 Fastermoe, Fastermoe::options())

}  // namespace orrery::moe
