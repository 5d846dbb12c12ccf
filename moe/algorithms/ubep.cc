// UBEP's options, roles and registration; ubep.h says where the rest is.
#include "moe/algorithms/ubep.h"

#include <algorithm>

namespace orrery::moe::ubep {

namespace {

// Vector passes of quantisation, counted in the kernels' inner loop: widen, abs, reduce max, scale,
// narrow twice.
constexpr int kQuantisePasses = 6;

std::uint32_t next_round(std::uint32_t round) {
  // 0 is what memory holds that nobody wrote. Halves go on in turn.
  return round == ~std::uint32_t{0} ? 2 : round + 1;
}

std::uint32_t block_of(const Options& options) {
  return static_cast<std::uint32_t>(std::stoul(options.text("block_bytes")));
}

}  // namespace

Ubep::Ubep(const Problem& problem, const Options& options)
    : MoeLayer(problem, precision_named(options.text("quantise"))),
      schedule_(schedule_kind(options.text("schedule"))),
      sort_(options.text("mapper") == "sort"),
      sabotage_(options.text("sabotage")),
      first_round_(static_cast<std::uint32_t>(options.number("first_round", 1, 0xffffffff))),
      // A token may name an expert several times only where the gate allows it.
      list_rows_(problem.token_bound *
                 (problem.workload.gate().allow_duplicates() ? problem.top_k() : 1)),
      wire_(flag_kind(options.text("flag")), block_of(options), payload_bytes(), problem.control,
            problem.atomic_block_bytes),
      back_(wire_.kind(), block_of(options), output_row_bytes(), problem.control,
            problem.atomic_block_bytes),
      count_cores_(counting(options)),
      at_(layout_,
          {problem.devices, problem.costs.cores, count_cores_, problem.placement.experts(),
           std::max(max_local_experts(), 1u), list_rows_, problem.token_bound, problem.top_k(),
           row_stride()},
          wire_, back_, problem.control) {}

std::uint32_t Ubep::begin_round(Core& core, Operation operation) const {
  const Address address = at_.round(core.index(), operation == kCombine);
  const auto round = core.load<std::uint32_t>(address);
  core.write(address, next_round(round));
  return round;
}

emu::Task Ubep::dispatch(Core& core, std::uint32_t iteration) {
  const std::uint32_t round = begin_round(core, kDispatch);
  if (counts(core)) co_await count_tokens(core, iteration, round);
  if (sends_tokens(core)) co_await send_tokens(core, iteration, round);
  if (counts(core)) co_await sum_counts(core, round);
  co_await copy_out(core, round);
}

emu::Task Ubep::combine(Core& core, std::uint32_t iteration) {
  const std::uint32_t round = begin_round(core, kCombine);
  co_await send_outputs(core, round);
  co_await reduce(core, iteration, round);
}

// Statuses, flags and rows may come in any order; a status is 8 bytes.
Contract Ubep::contract() const { return {Contract::Order::kNone, wire_.atomic_block_bytes()}; }

std::uint64_t Ubep::touched_bytes(std::uint32_t device) const {
  // Live at once: outputs on their way back and what they become at their origins.
  std::uint64_t entries = 0;
  std::uint64_t most_rows = 0;
  for (std::uint32_t i = 0; i < problem_.iterations; ++i) {
    entries = std::max<std::uint64_t>(entries, tokens(device, i) * problem_.top_k());
    most_rows = std::max(most_rows, rows(device, i));
  }
  return MoeLayer::touched_bytes(device) + entries * back_.slot_bytes() +
         most_rows * wire_.slot_bytes() +
         std::uint64_t{problem_.costs.cores} *
             (2 * (wire_.slot_bytes() + back_.slot_bytes()) + row_stride());
}

void Ubep::set_up(devices::DeviceProcess& device) {
  for (std::uint32_t core = 0; core < problem_.costs.cores; ++core) {
    device.memory().store(at_.round(core, 0), first_round_);
    device.memory().store(at_.round(core, 1), first_round_);
  }
}

std::uint32_t Ubep::counting(const Options& options) const {
  const std::uint32_t cores = problem_.costs.cores;
  if (options.text("count_cores") != "auto") {
    return static_cast<std::uint32_t>(options.number("count_cores", 1, std::max(cores - 1, 1u)));
  }
  const auto& costs = problem_.costs;
  const emu::Time entry =
      costs.copy + costs.core_copy.serialisation(output_row_bytes()) + encode_time() + costs.issue;
  return count_cores(costs, {cores, problem_.devices, problem_.placement.experts(),
                             max_local_experts(), problem_.token_bound * problem_.top_k(),
                             wire_.slot_bytes(), entry, 2 * problem_.latency});
}

emu::Time Ubep::encode_time() const {
  const emu::Time quantise = precision_ == Precision::kInt8
                                 ? kQuantisePasses * problem_.costs.vector(problem_.hidden())
                                 : 0;
  return quantise + wire_.pack_time(problem_.costs);
}

ORRERY_ALGORITHM(
    ubep, "ubep", "UBEP: groups of cores, rows that carry their own flags, no SyncAll", Ubep,
    {{"flag",
      "tff",
      "how a row says that it has arrived",
      {"tff", "dc", "sp", "stop-and-wait", "fence"}},
     {"schedule",
      "hop-aware",
      "which core sends what",
      {"expert-major", "entry-cyclic", "random", "balanced", "hop-aware"}},
     {"mapper",
      "quaternary",
      "how a core finds its part, for balanced and hop-aware",
      {"quaternary", "sort"}},
     {"count_cores",
      "auto",
      "cores that count while the others send, or auto: by a cost model",
      {}},
     {"block_bytes",
      "512",
      "block that tff and sp take to be atomic, whatever the fabric's is",
      {"512", "256", "128", "64"}},
     {"quantise",
      "int8",
      "dispatch payload: int8 with one scale per row, or bf16",
      {"int8", "bf16"}},
     {"first_round", "1", "number of the first call, e.g. 4294967294 for its wrap", {}},
     {"sabotage",
      "none",
      "break it on purpose, to see how that looks",
      {"none", "drop-status", "drop-row"}}})

}  // namespace orrery::moe::ubep
