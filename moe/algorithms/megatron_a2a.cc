// Megatron's MoEAlltoAllTokenDispatcher (nccl_layer.h, with its source): the weights travel in an
// all-to-all of their own, and with drop_and_pad every expert takes the same number of rows of each
// device, so that nobody needs counts and no host is waited for.
//
// Unlike there, with drop_and_pad
//   - the router has masked what is beyond the capacity: of an expert's rows the later choices,
//   then
//     tokens (Tutel's rule), not those of least weight;
//   - padding is told from rows and left out of the experts' rows, by a pass that the source has
//     not; its products are paid for.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "emu/errors.h"
#include "moe/algorithms/nccl_layer.h"
#include "moe/capacity.h"
#include "moe/share.h"

namespace orrery::moe {

namespace {

class MegatronA2a final : private Admitted, public NcclLayer {
 public:
  MegatronA2a(const Problem& problem, const Options& options)
      : Admitted(problem, factor(options)),
        NcclLayer(admitted(), options, Precision::kBf16, sizes(problem, capacity())),
        fixed_(capacity()) {
    if (!fixed_) return;
    if (sizes(problem, fixed_).taken * message_bytes() >> 32 != 0) {
      throw emu::ConfigError("--set", "algorithm.capacity_factor", options.text("capacity_factor"),
                             "buffers of less than 4 GiB per device");
    }
    const std::uint64_t lists = std::uint64_t{max_local_experts()} * problem.devices;
    block_rows_ = layout_.flat(lists * 4);
  }

  static std::vector<OptionSpec> options() {
    std::vector<OptionSpec> specs = nccl_options("true");
    specs.push_back({"drop_and_pad",
                     "false",
                     "a fixed number of rows per expert and device: no counts, no host",
                     {"false", "true"}});
    specs.push_back({"capacity_factor",
                     "1",
                     "with drop_and_pad, rows per expert and device: top-k * int(factor * tokens / "
                     "experts); what is beyond is dropped",
                     {}});
    return specs;
  }

  std::vector<std::string> notes() const override {
    if (!fixed_) return {};
    return {fmt::format(
        "megatron-a2a: {} of {} rows were beyond the capacity of {} per expert and device, and "
        "dropped",
        dropped(), dropped() + admitted_rows(), *fixed_)};
  }
  void set_up(devices::DeviceProcess& device) override {
    if (fixed_) counts_.assume(device, *fixed_);
  }
  std::uint64_t touched_bytes(std::uint32_t device) const override {
    const std::uint64_t padded =
        fixed_ ? sizes(problem_, fixed_).own + sizes(problem_, fixed_).taken : 0;
    return NcclLayer::touched_bytes(device) + padded * row_stride();
  }

 private:
  static double factor(const Options& options) {
    const double factor = options.decimal("capacity_factor", 0, 1000);
    if (!options.flag("drop_and_pad")) return 0;
    if (factor > 0) return factor;
    throw emu::ConfigError("--set", "algorithm.capacity_factor", options.text("capacity_factor"),
                           "more than 0 with drop_and_pad");
  }
  static Sizes sizes(const Problem& problem, std::optional<std::uint32_t> capacity) {
    if (!capacity) return Sizes::of(problem);
    return {std::uint64_t{problem.placement.experts()} * *capacity,
            std::uint64_t{problem.devices} * problem.placement.max_local() * *capacity, 2};
  }

  // Padding is multiplied like any other row.
  std::vector<GemmGroup> expert_groups(std::uint32_t device, std::uint32_t iteration,
                                       bool up) const override {
    std::vector<GemmGroup> groups = MoeLayer::expert_groups(device, iteration, up);
    for (std::uint32_t local = 0; fixed_ && local < local_experts(device); ++local) {
      groups[local].rows = *fixed_ * problem_.devices;
    }
    return groups;
  }

  emu::Task plan(Core& core, std::uint32_t iteration) override {
    if (!fixed_) co_await NcclLayer::plan(core, iteration);
  }

  // Calls visit(row of the permuted list) for the padding of this core's share of the experts.
  template <typename Visit>
  std::uint64_t for_padding(Core& core, std::uint32_t iteration, Visit&& visit) {
    const std::uint32_t entries = tokens(core.rank(), iteration) * problem_.top_k();
    const auto ids = core.array<std::int32_t>(this->ids(), entries);
    const Share mine = share(problem_.placement.experts(), core.count(), core.index());
    std::uint64_t padding = 0;
    for (std::uint32_t expert = mine.begin; expert < mine.end; ++expert) {
      const auto used = static_cast<std::uint32_t>(
          std::count(ids.begin(), ids.end(), static_cast<std::int32_t>(expert)));
      for (std::uint32_t i = used; i < *fixed_; ++i, ++padding) {
        visit(std::uint64_t{expert} * *fixed_ + i);
      }
    }
    return padding;
  }

  emu::Task pad(Core& core, std::uint32_t iteration) override {
    if (!fixed_) co_return;
    const std::uint64_t padding = for_padding(core, iteration, [&](std::uint64_t row) {
      write_padding(core, permuted(row));
      core.write(permuted_probs(row), 0.0f);
    });
    co_await core.stream(padding * message_bytes());
  }

  void drop_padding(Core& core, std::uint32_t iteration) override {
    if (!fixed_) return;
    for_padding(core, iteration,
                [&](std::uint64_t row) { core.discard(returned(row), row_stride()); });
  }

  // A block is a source's rows for a local expert, numbered by expert.
  Share own_blocks(Core& core) const {
    return share(local_experts(core.rank()) * core.ranks(), core.count(), core.index());
  }
  std::uint64_t place(Core& core, std::uint32_t block, std::uint32_t i) const {
    const std::uint64_t source = block % core.ranks();
    return (source * local_experts(core.rank()) + block / core.ranks()) * *fixed_ + i;
  }

  emu::Task sort_chunks(Core& core, std::uint32_t iteration) override {
    if (!fixed_) {
      co_await NcclLayer::sort_chunks(core, iteration);
      co_return;
    }
    core.phase("count rows");
    const Share mine = own_blocks(core);
    for (std::uint32_t block = mine.begin; block < mine.end; ++block) {
      std::uint32_t rows = 0;
      while (rows < *fixed_ && !is_padding(core, by_source(iteration)(place(core, block, rows))))
        ++rows;
      core.write(block_rows_ + block * 4ull, rows);
    }
    co_await core.barrier();
    core.phase("sort chunks");
    std::uint64_t row = 0;
    const auto rows_of = core.array<std::uint32_t>(block_rows_, mine.end);
    for (std::uint32_t block = 0; block < mine.begin; ++block) row += rows_of[block];
    for (std::uint32_t block = mine.begin; block < mine.end; ++block) {
      for (std::uint32_t i = 0; i < rows_of[block]; ++i, ++row) {
        co_await take_message(core, by_source(iteration)(place(core, block, i)), row);
        take_prob(core, iteration, place(core, block, i), row);
      }
      for (std::uint32_t i = rows_of[block]; i < *fixed_; ++i) {
        core.discard(by_source(iteration)(place(core, block, i)), row_stride());
      }
      co_await core.stream(std::uint64_t{2} * (*fixed_ - rows_of[block]) * message_bytes());
    }
    co_await count_experts(core);
  }

  emu::Task count_experts(Core& core) {
    const Share mine = share(local_experts(core.rank()), core.count(), core.index());
    for (std::uint32_t local = mine.begin; local < mine.end; ++local) {
      std::uint32_t rows = 0;
      for (std::uint32_t source = 0; source < core.ranks(); ++source) {
        rows += core.load<std::uint32_t>(block_rows_ + (local * core.ranks() + source) * 4ull);
      }
      core.write(expert_rows(local), rows);
    }
    co_return;
  }

  emu::Task unsort_chunks(Core& core) override {
    if (!fixed_) {
      co_await NcclLayer::unsort_chunks(core);
      co_return;
    }
    core.phase("unsort chunks");
    const Share mine = own_blocks(core);
    std::uint64_t row = 0;
    const auto rows_of = core.array<std::uint32_t>(block_rows_, mine.end);
    for (std::uint32_t block = 0; block < mine.begin; ++block) row += rows_of[block];
    for (std::uint32_t block = mine.begin; block < mine.end; ++block) {
      for (std::uint32_t i = 0; i < rows_of[block]; ++i, ++row) {
        co_await core.move(unsorted(place(core, block, i)), expert_output(row), output_row_bytes());
      }
      for (std::uint32_t i = rows_of[block]; i < *fixed_; ++i) {
        write_padding(core, unsorted(place(core, block, i)));
      }
      co_await core.stream(std::uint64_t{2} * (*fixed_ - rows_of[block]) * output_row_bytes());
    }
  }

  const std::optional<std::uint32_t> fixed_;
  fabric::Address block_rows_ = 0;  // uint32 [block]: rows that are not padding
};

}  // namespace

ORRERY_ALGORITHM(
    megatron_a2a, "megatron-a2a",
    "Megatron's all-to-all dispatcher: counts, host, rows and weights; or drop and pad",
    MegatronA2a, MegatronA2a::options())

}  // namespace orrery::moe
