// TensorRT-LLM's one-sided all-to-all over NVLink (NVLinkOneSided; FlashInfer has it, too):
// dispatch puts, combine gets.
//
// Read in NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/communicationKernels/moeAlltoAllKernels.cu:
// a small kernel clears the counters and counts the call; then a block per token loads its row once
// and stores it to every device that has any of its experts, in the next slot that a local counter
// gives for that device. Whoever has sent the last token writes the counts to all devices, then, a
// system fence later, the call's number to all, and waits for theirs. Combine is a small kernel
// that counts the call, and one that tells all peers that the outputs may be read (they are in
// the symmetric buffer already), waits for all peers, reads a token's rows from where they lie and
// adds them in pairs in the payload's type. Rows come quantised; weights are applied by the
// experts.
//
// Assumed: a core (SM) has 8 blocks at once, whose loads and stores overlap. The fence of the
// source is that of one thread, though other blocks stored the rows; here every core waits for its
// own (Core::release) before it counts its tokens. The source has one buffer for messages, which a
// device that is a whole call ahead would overwrite; here calls take two in turn. It wants at least
// one token on every device; here the first core stands in for the last token's. Where K is none of
// those that the source has kernels for (1, 2, 4, 6, 8, 10, 16) pairs are added in the same way.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "devices/fetch_add_each.h"
#include "devices/get_each.h"
#include "moe/algorithms/trtllm_onesided_buffers.h"
#include "moe/dedup_layer.h"

namespace orrery::moe {

namespace {

using devices::Core;
using devices::Predicate;
using devices::PutHandle;
using devices::Slots;
using fabric::Address;

// Blocks of 256 threads that an SM holds.
constexpr std::uint32_t kResident = 8;
// Elements of the payload's type that one lane adds at once.
constexpr std::uint64_t kPacked = 2;

class TrtllmOneSided final : public DedupLayer, private TrtllmOneSidedBuffers {
 public:
  TrtllmOneSided(const Problem& problem, const Options& options)
      : DedupLayer(problem, precision_named(options.text("quantise"))),
        TrtllmOneSidedBuffers(layout_,
                              {problem.devices, problem.token_bound, problem.top_k(),
                               problem.costs.cores, kResident, message_stride(), taken_bytes()},
                              [this](std::uint64_t count) { return message_rows(count); }),
        order_of_sums_(ReductionOrder::in_pairs(problem.placement, problem.top_k())),
        sabotage_(options.text("sabotage")) {
    reduce_in(order_of_sums_);
  }

  // Flags are words, ordered by fences and acknowledgements alone.
  Contract contract() const override { return {Contract::Order::kNone, 4}; }

  void set_up(devices::DeviceProcess& device) override {
    device.memory().store(round(), std::uint32_t{0});
  }

 private:
  // The devices of a token's choices, in the order of those, each once: (device, first choice).
  std::vector<std::pair<std::uint32_t, std::uint32_t>> targets(Core& core,
                                                               std::uint32_t token) const {
    const auto ids = ids_of(core, token);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
    for (std::uint32_t k = 0; k < ids.size(); ++k) {
      if (ids[k] < 0) continue;
      const std::uint32_t owner = problem_.placement.owner(static_cast<std::uint32_t>(ids[k]));
      const auto same = [owner](const auto& each) { return each.first == owner; };
      if (std::none_of(found.begin(), found.end(), same)) found.emplace_back(owner, k);
    }
    return found;
  }

  // Blocks store to, and read from, all of their token's devices side by side: not all devices
  // begin with the same one.
  template <typename Each>
  void spread(const Core& core, std::uint32_t token, std::vector<Each>& list) const {
    if (list.empty()) return;
    std::rotate(list.begin(), list.begin() + (core.rank() + token) % list.size(), list.end());
  }

  // The tokens that a core works on at once, from its `first`; block n of the grid is token n.
  std::vector<std::uint32_t> next_tokens(const Core& core, std::uint32_t first,
                                         std::uint32_t tokens) const {
    std::vector<std::uint32_t> batch;
    for (; first < tokens && batch.size() < kResident; first += core.count()) {
      batch.push_back(first);
    }
    return batch;
  }

  // The call's number, from 1.
  std::uint32_t next_call(Core& core) const {
    const auto call = core.load<std::uint32_t>(round()) + 1;
    core.write(round(), call);
    return call;
  }

  // --- Dispatch ---

  emu::Task dispatch(Core& core, std::uint32_t iteration) override {
    core.phase("prepare");
    if (core.index() == 0) {
      core.write(dispatched(), next_call(core));
      for (std::uint32_t peer = 0; peer < problem_.devices; ++peer) {
        core.write(send_count(peer), std::uint32_t{0});
      }
      core.write(tokens_sent(), std::uint32_t{0});
    }
    for (std::uint32_t local = core.index(); local < local_experts(core.rank());
         local += core.count()) {
      core.write(expert_rows(local), std::uint32_t{0});
    }
    co_await core.next_kernel();
    const auto call = core.load<std::uint32_t>(round());
    const std::uint32_t half = call % 2;
    const std::uint32_t count = tokens(core.rank(), iteration);
    bool last = count == 0 && core.index() == 0;
    core.phase("send tokens");
    for (std::uint32_t token = core.index(); token < count; token += kResident * core.count()) {
      co_await send(core, next_tokens(core, token, count), half, count, last);
    }
    if (last) co_await finish(core, call, half);
  }

  emu::Task send(Core& core, std::vector<std::uint32_t> batch, std::uint32_t half,
                 std::uint32_t count, bool& last) {
    struct Message {
      std::uint32_t token;
      std::uint32_t peer;
      std::uint32_t k;
    };
    std::vector<Message> sends;
    std::vector<Address> counters;
    for (const std::uint32_t token : batch) {
      auto peers = targets(core, token);
      spread(core, token, peers);
      for (const auto& [peer, k] : peers) {
        sends.push_back({token, peer, k});
        counters.push_back(send_count(peer));
      }
      write_token(core, token, staged(token));
    }
    co_await core.stream(batch.size() * std::uint64_t{problem_.top_k()} * 4);
    std::vector<std::uint32_t> slots(counters.size());
    co_await devices::fetch_add_each(core, counters, 1, slots);
    co_await core.stream(batch.size() * std::uint64_t{message_bytes()});
    std::vector<PutHandle> leaving;
    for (std::size_t i = 0; i < sends.size(); ++i) {
      const Message& each = sends[i];
      core.write(place(each.token, each.k), slots[i]);
      const Address to = received(half, core.rank(), slots[i]);
      const Address from = staged(each.token);
      leaving.push_back(co_await core.put(each.peer, to, from, message_bytes()));
    }
    for (const PutHandle& handle : leaving) co_await core.wait_local(handle);
    for (const std::uint32_t token : batch) {
      core.discard(staged(token), message_stride());
    }
    if (sabotage_ != "no-release") co_await core.release();
    const auto sent = static_cast<std::uint32_t>(batch.size());
    const std::uint32_t before = co_await core.fetch_add(tokens_sent(), sent);
    last = before + sent == count;
  }

  // Of the core that sent the last token.
  emu::Task finish(Core& core, std::uint32_t call, std::uint32_t half) {
    core.phase("counts and flags");
    for (std::uint32_t i = 1; i <= problem_.devices; ++i) {
      const std::uint32_t peer = (core.rank() + i) % problem_.devices;
      const auto sent = core.load<std::uint32_t>(send_count(peer));
      co_await core.store(peer, messages(half, core.rank()), sent);
    }
    if (sabotage_ != "early-flag") co_await core.fence();
    for (std::uint32_t i = 1; i <= problem_.devices; ++i) {
      const std::uint32_t peer = (core.rank() + i) % problem_.devices;
      if (sabotage_ == "drop-flag" && core.rank() == 0 && peer == problem_.devices - 1) continue;
      co_await core.store(peer, complete(half, core.rank()), call);
    }
    core.phase("wait for all");
    const auto writer = [](std::uint32_t source) {
      return fmt::format("device {} (whichever core sends its last token)", source);
    };
    const Slots flags{complete(half, 0), 4, 4, problem_.devices, 0};
    const Predicate all = devices::word_equals(call);
    co_await core.wait_until(flags, all, writer);
    for (std::uint32_t source = 0; source < problem_.devices; ++source) {
      const auto sent = core.load<std::uint32_t>(messages(half, source));
      for (std::uint32_t slot = 0; slot < sent; ++slot) {
        hand_over(core, received(half, source, slot), taken(source, slot));
      }
    }
  }

  // --- Combine ---

  emu::Task combine(Core& core, std::uint32_t iteration) override {
    core.phase("prepare");
    add_outputs(core);
    if (core.index() == 0) next_call(core);
    co_await core.next_kernel();
    const auto call = core.load<std::uint32_t>(round());
    core.phase("ready flags");
    for (std::uint32_t i = 1; core.index() == 0 && i <= problem_.devices; ++i) {
      const std::uint32_t peer = (core.rank() + i) % problem_.devices;
      co_await core.store(peer, ready(core.rank()), call);
    }
    const std::uint32_t count = tokens(core.rank(), iteration);
    if (core.index() < count || core.index() == 0) co_await wait_ready(core, call);
    core.phase("read and add");
    for (std::uint32_t token = core.index(); token < count; token += kResident * core.count()) {
      co_await reduce(core, next_tokens(core, token, count));
    }
  }

  // Of all messages here: the experts' own doing, and so without time.
  void add_outputs(Core& core) {
    const std::uint32_t half = core.load<std::uint32_t>(dispatched()) % 2;
    std::uint32_t number = 0;
    for (std::uint32_t source = 0; source < problem_.devices; ++source) {
      const auto sent = core.load<std::uint32_t>(messages(half, source));
      for (std::uint32_t slot = 0; slot < sent; ++slot, ++number) {
        if (number % core.count() != core.index()) continue;
        add_taken(core, taken(source, slot), outputs(source, slot));
      }
    }
  }

  emu::Task wait_ready(Core& core, std::uint32_t call) {
    if (sabotage_ == "skip-ready") co_return;
    const auto writer = [](std::uint32_t source) {
      return fmt::format("device {} core 0 (its outputs are ready)", source);
    };
    const Slots flags{ready(0), 4, 4, problem_.devices, 0};
    const Predicate all = devices::word_equals(call);
    co_await core.wait_until(flags, all, writer);
  }

  emu::Task reduce(Core& core, std::vector<std::uint32_t> batch) {
    using Item = ReductionOrder::Item<Address>;
    std::vector<devices::Fetch> fetches;
    std::vector<std::vector<Item>> rows(batch.size());
    std::uint64_t near = 0;  // rows of this device's own
    for (std::uint32_t n = 0; n < batch.size(); ++n) {
      auto peers = targets(core, batch[n]);
      spread(core, batch[n], peers);
      for (const auto& [peer, k] : peers) {
        const Address there = outputs(core.rank(), core.load<std::uint32_t>(place(batch[n], k)));
        const bool own = peer == core.rank();
        const Address here = own ? there : fetched(core.index(), n, k);
        if (!own) fetches.push_back({peer, there, here, output_row_bytes()});
        near += own ? 1 : 0;
        rows[n].push_back({0, 1.0f, here, k});
      }
    }
    co_await core.stream(batch.size() * std::uint64_t{problem_.top_k()} * 8);
    if (near > 0) co_await core.stream(near * output_row_bytes());
    co_await devices::get_each(core, fetches);
    std::uint64_t added = 0;
    for (std::uint32_t n = 0; n < batch.size(); ++n) {
      std::uint32_t sums = problem_.top_k();
      const auto add = [&](std::span<const Item> pair) {
        const Address to = fetched(core.index(), n, sums++);
        add_rows_of(core, to, pair);
        return to;
      };
      added += rows[n].size();
      order_of_sums_.add_pairs(rows[n], add);
      add_rows_of(core, output(batch[n]), rows[n]);
    }
    co_await core.compute(core.costs().vector(added * problem_.hidden() / kPacked));
    co_await core.stream(batch.size() * std::uint64_t{output_row_bytes()});
  }

  // The rows are given up.
  void add_rows_of(Core& core, Address to, std::span<const ReductionOrder::Item<Address>> rows) {
    std::vector<WeightedRow> weighted;
    for (const auto& each : rows) weighted.push_back({each.row, each.weight});
    sum_rows(core, to, weighted);
    for (const auto& each : rows) core.discard(each.row, message_stride());
  }

  const ReductionOrder order_of_sums_;
  const std::string sabotage_;
};

}  // namespace

ORRERY_ALGORITHM(
    trtllm_onesided, "trtllm-onesided",
    "TensorRT-LLM's NVLinkOneSided: puts there, behind them one flag a device, gets back",
    TrtllmOneSided,
    {{"quantise",
      "bf16",
      "dispatch payload, quantised before: nvfp4, int8 with one scale per row, or bf16",
      {"bf16", "int8", "nvfp4"}},
     {"sabotage",
      "none",
      "break it on purpose, to see how that looks",
      {"none", "no-release", "early-flag", "drop-flag", "skip-ready"}}})

}  // namespace orrery::moe
