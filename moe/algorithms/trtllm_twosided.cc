// TensorRT-LLM's two-sided all-to-all over NVLink (NVLinkTwoSided, MnnvlMoe): rows go through FIFOs
// in their receiver's memory, there and back.
//
// Read in NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/fusedMoeCommKernels.{h,cu}: prepare finds
// out which tokens go where and exchanges the counts; dispatch sends a token once to each device
// that has any of its experts, with its ids and weights, and that device copies it out of the FIFO;
// combine clears a buffer of tokens x top-k rows, and sends a row for each row that came the other
// way, into the place of the token's first choice there; whoever called it adds a token's rows up.
// trtllm_fifos.h says what of the FIFOs was read, trtllm_counts.h what prepare is here.
//
// Assumed: FIFOs of their own for either direction (the source uses the same); rows are added in
// the order of choices, in fp32. The kernel behind the clearing is launched before that has ended
// (programmatic dependent launch, as in the source), and so costs a meeting of the cores. Rows come
// quantised; weights are applied by the experts.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/device_process.h"
#include "moe/algorithms/trtllm_counts.h"
#include "moe/algorithms/trtllm_fifos.h"
#include "moe/dedup_layer.h"
#include "moe/row_identity.h"
#include "moe/share.h"

namespace orrery::moe {

namespace {

using devices::Core;
using fabric::Address;

TrtllmFifos::Fault fault_of(const Options& options) {
  using Fault = TrtllmFifos::Fault;
  const std::string& name = options.text("sabotage");
  if (name == "ignore-credits") return Fault::kIgnoreCredits;
  if (name == "last-line") return Fault::kLastLine;
  if (name == "drop-row") return Fault::kDropRow;
  return name == "drop-credit" ? Fault::kDropCredit : Fault::kNone;
}

class TrtllmTwoSided final : public DedupLayer {
 public:
  static constexpr std::uint32_t kPrepare = 0;  // operations: then those of every layer
  static constexpr std::uint32_t kOthers = 1;

  TrtllmTwoSided(const Problem& problem, const Options& options)
      : DedupLayer(problem, precision_named(options.text("quantise"))),
        reduces_(options.flag("do_reduce")),
        counts_(layout_, problem.placement, problem.token_bound, problem.top_k()),
        there_(fifos(options, message_bytes(), in_message(), "dispatch")),
        back_(fifos(options, output_row_bytes(), in_output(), "combine")) {
    const std::uint64_t slots = std::uint64_t{problem.devices} * problem.token_bound;
    received_ = message_rows(slots);
    sums_ = message_rows(slots);
    returned_ = message_rows(std::uint64_t{problem.token_bound} * problem.top_k());
    taken_ = layout_.flat(slots * taken_bytes());
    done_ = layout_.flat(4);
    reduce_in(ReductionOrder::in_places(problem.placement));
  }

  std::vector<std::string> operations() const override {
    return {"prepare", "dispatch", "experts", "combine"};
  }
  std::uint32_t cores(std::uint32_t operation, std::uint32_t iteration) const override {
    if (operation == kPrepare) return 0;
    if (operation == kOthers + kDispatch) return there_.workers();
    return MoeLayer::cores(operation - kOthers, iteration);
  }
  std::uint64_t useful_bytes(std::uint32_t operation, std::uint32_t iteration) const override {
    return operation == kPrepare ? 0 : MoeLayer::useful_bytes(operation - kOthers, iteration);
  }
  std::uint64_t touched_bytes(std::uint32_t device) const override {
    std::uint64_t most = 0;
    for (std::uint32_t iteration = 0; iteration < problem_.iterations; ++iteration) {
      most = std::max<std::uint64_t>(most, tokens(device, iteration));
    }
    return DedupLayer::touched_bytes(device) +
           most * problem_.top_k() * (there_.record_stride() + back_.record_stride());
  }
  // A line appears whole. Nothing else, not even an acknowledgement, is waited for.
  Contract contract() const override { return {Contract::Order::kNone, Ll128::kLine}; }
  std::vector<std::string> notes() const override {
    return {fmt::format("trtllm-twosided: {} channels, on {} cores", there_.channels(),
                        there_.workers())};
  }
  void set_up(devices::DeviceProcess& device) override {
    counts_.set_up(device.memory());
    there_.set_up(device.memory());
    back_.set_up(device.memory());
    device.memory().store(done_, std::uint32_t{0});
  }
  emu::Task program(Core& core, std::uint32_t operation, std::uint32_t iteration) override {
    if (operation > kPrepare) return MoeLayer::program(core, operation - kOthers, iteration);
    return counts_.run(core, ids(), tokens(core.rank(), iteration));
  }
  Verdict verify(devices::DeviceProcess& device, std::uint32_t operation,
                 std::uint32_t iteration) override {
    if (operation == kPrepare) return {};
    return MoeLayer::verify(device, operation - kOthers, iteration);
  }

 private:
  // --- Rows of the FIFOs ---

  class Messages final : public TrtllmFifos::Rows {
   public:
    explicit Messages(TrtllmTwoSided& layer) : layer_(layer) {}
    std::uint32_t to(Core& core, std::uint32_t peer) const override {
      return layer_.counts_.to(core, peer);
    }
    std::uint32_t from(Core& core, std::uint32_t peer) const override {
      return layer_.counts_.from(core, peer);
    }
    Address outgoing(Core& core, std::uint32_t peer, std::uint32_t row, Address buffer) override {
      layer_.write_token(core, layer_.counts_.token(core, peer, row), buffer);
      return buffer;
    }
    Address incoming(Core&, std::uint32_t peer, std::uint32_t row) const override {
      return layer_.received(peer, row);
    }

   private:
    TrtllmTwoSided& layer_;
  };

  class Outputs final : public TrtllmFifos::Rows {
   public:
    explicit Outputs(TrtllmTwoSided& layer) : layer_(layer) {}
    std::uint32_t to(Core& core, std::uint32_t peer) const override {
      return layer_.counts_.from(core, peer);
    }
    std::uint32_t from(Core& core, std::uint32_t peer) const override {
      return layer_.counts_.to(core, peer);
    }
    Address outgoing(Core&, std::uint32_t peer, std::uint32_t row, Address) override {
      return layer_.sum(peer, row);
    }
    Address incoming(Core& core, std::uint32_t peer, std::uint32_t row) const override {
      const std::uint32_t token = layer_.counts_.token(core, peer, row);
      const auto ids = layer_.ids_of(core, token);
      const auto first = std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) {
        return id >= 0 && layer_.problem_.placement.owner(static_cast<std::uint32_t>(id)) == peer;
      });
      return layer_.returned(token, static_cast<std::uint32_t>(first - ids.begin()));
    }

   private:
    TrtllmTwoSided& layer_;
  };

  using Stretches = std::vector<fabric::Carried::Range>;
  // Of a message what is written, or exists: there is a gap in front of its header.
  Stretches in_message() const {
    const auto behind = static_cast<std::uint32_t>(align_up(payload_bytes(), 16));
    const std::uint32_t payload =
        problem_.control ? std::min(kIdentityBytes, payload_bytes()) : payload_bytes();
    return {{0, payload}, {behind, message_bytes()}};
  }
  Stretches in_output() const {
    return {{0, problem_.control ? kIdentityBytes : output_row_bytes()}};
  }

  TrtllmFifos fifos(const Options& options, std::uint32_t bytes, Stretches stretches,
                    const char* name) {
    const auto number = [&options](const char* option, std::uint64_t least, std::uint64_t most) {
      return static_cast<std::uint32_t>(options.number(option, least, most));
    };
    const TrtllmFifos::Sizes sizes{problem_.devices, problem_.costs.cores,
                                   number("channels", 0, 1024), number("fifo_entries", 1, 1024),
                                   number("entry_bytes", 1, 1u << 26)};
    const bool control = problem_.control;
    return TrtllmFifos(layout_, sizes, Ll128(bytes, std::move(stretches), control), control,
                       fault_of(options), message_stride(), in_message(), name);
  }

  // --- Dispatch ---

  emu::Task dispatch(Core& core, std::uint32_t) override {
    for (std::uint32_t local = core.index(); local < local_experts(core.rank());
         local += core.count()) {
      core.write(expert_rows(local), std::uint32_t{0});
    }
    Messages rows(*this);
    co_await there_.run(core, rows, message_stride());
    bool last = false;
    co_await end(core, there_, last);
    for (std::uint32_t source = 0; last && source < problem_.devices; ++source) {
      const std::uint32_t count = counts_.from(core, source);
      for (std::uint32_t row = 0; row < count; ++row) {
        hand_over(core, received(source, row), taken(source, row));
      }
    }
  }

  // Whether all others that move rows are through: then what follows without time may begin.
  emu::Task end(Core& core, const TrtllmFifos& fifos, bool& last) {
    if (core.index() >= fifos.workers()) co_return;
    const std::uint32_t before = co_await core.fetch_add(done_, 1);
    last = before + 1 == fifos.workers();
    if (last) core.write(done_, std::uint32_t{0});
  }

  // --- Combine ---

  emu::Task combine(Core& core, std::uint32_t iteration) override {
    core.phase("clear");
    const std::uint32_t count = tokens(core.rank(), iteration);
    const std::uint32_t rows_to_clear = count * problem_.top_k();
    co_await core.stream(share(rows_to_clear, core.count(), core.index()).size() *
                         std::uint64_t{output_row_bytes()});
    add_outputs(core);
    co_await core.barrier();
    Outputs rows(*this);
    co_await back_.run(core, rows, message_stride());
    if (reduces_) {
      co_await core.next_kernel();
      core.phase("reduce");
      for (std::uint32_t token = core.index(); token < count; token += core.count()) {
        co_await core.stream(std::uint64_t{problem_.top_k()} * output_row_bytes());
        co_await core.compute(
            core.costs().vector(std::uint64_t{problem_.top_k()} * problem_.hidden()));
        reduce(core, token);
        co_await core.stream(output_row_bytes());
      }
      co_return;
    }
    bool last = false;
    co_await end(core, back_, last);
    for (std::uint32_t token = 0; last && token < count; ++token) reduce(core, token);
  }

  // Of all messages here: the experts' own doing, and so without time.
  void add_outputs(Core& core) {
    std::uint32_t number = 0;
    for (std::uint32_t source = 0; source < problem_.devices; ++source) {
      const std::uint32_t count = counts_.from(core, source);
      for (std::uint32_t row = 0; row < count; ++row, ++number) {
        if (number % core.count() != core.index()) continue;
        add_taken(core, taken(source, row), sum(source, row));
      }
    }
  }

  void reduce(Core& core, std::uint32_t token) {
    std::vector<WeightedRow> rows;
    std::vector<std::uint32_t> seen;
    const auto ids = ids_of(core, token);
    for (std::uint32_t k = 0; k < ids.size(); ++k) {
      if (ids[k] < 0) continue;
      const std::uint32_t owner = problem_.placement.owner(static_cast<std::uint32_t>(ids[k]));
      if (std::find(seen.begin(), seen.end(), owner) != seen.end()) continue;
      seen.push_back(owner);
      rows.push_back({returned(token, k), 1.0f});
    }
    sum_rows(core, output(token), rows);
    for (const WeightedRow& each : rows) core.discard(each.row, message_stride());
  }

  // --- Device memory: by (source, row), and by (token, choice) ---
  std::uint64_t slot(std::uint32_t source, std::uint32_t row) const {
    return std::uint64_t{source} * problem_.token_bound + row;
  }
  Address received(std::uint32_t source, std::uint32_t row) const {
    return received_ + slot(source, row) * message_stride();
  }
  Address sum(std::uint32_t source, std::uint32_t row) const {
    return sums_ + slot(source, row) * message_stride();
  }
  Address taken(std::uint32_t source, std::uint32_t row) const {
    return taken_ + slot(source, row) * taken_bytes();
  }
  Address returned(std::uint32_t token, std::uint32_t k) const {
    return returned_ + (std::uint64_t{token} * problem_.top_k() + k) * message_stride();
  }

  const bool reduces_;
  const TrtllmCounts counts_;
  const TrtllmFifos there_;
  const TrtllmFifos back_;
  Address received_;
  Address sums_;
  Address returned_;
  Address taken_;
  Address done_;
};

}  // namespace

ORRERY_ALGORITHM(
    trtllm_twosided, "trtllm-twosided",
    "TensorRT-LLM's NVLinkTwoSided: FIFOs of 128-byte lines with flags, there and back",
    TrtllmTwoSided,
    {{"quantise",
      "bf16",
      "dispatch payload, quantised before: nvfp4, int8 with one scale per row, or bf16",
      {"bf16", "int8", "nvfp4"}},
     {"channels", "0", "FIFOs to each peer; 0: as many as half of the cores can serve", {}},
     {"fifo_entries", "4", "entries of a FIFO", {}},
     {"entry_bytes", "262144", "of an entry, which holds as many rows as fit, at least one", {}},
     {"do_reduce",
      "true",
      "a token's rows are added up in combine's time, or after it, which is then not timed",
      {"true", "false"}},
     {"sabotage",
      "none",
      "break it on purpose, to see how that looks",
      {"none", "ignore-credits", "last-line", "drop-row", "drop-credit"}}})

}  // namespace orrery::moe
