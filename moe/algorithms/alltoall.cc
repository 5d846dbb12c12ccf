// All-to-all by shifts: in step s every device puts to the one s further on, so that no two put to
// the same.
#include "moe/algorithms/exchange_benchmark.h"

namespace orrery::moe {

namespace {

class AllToAll final : public ExchangeBenchmark {
 public:
  // Two buffers are enough: nobody begins iteration i+2 before everyone has ended iteration i,
  // since iteration i+1 needs a flag from everyone.
  AllToAll(const Problem& problem, const Options& options)
      : ExchangeBenchmark(problem, options, 2) {
    make_layout(problem.devices - 1);
  }

 private:
  std::vector<std::uint32_t> targets(std::uint32_t device) const override {
    std::vector<std::uint32_t> peers;
    for (std::uint32_t shift = 1; shift < problem_.devices; ++shift) {
      peers.push_back((device + shift) % problem_.devices);
    }
    return peers;
  }
  std::uint32_t source_of(std::uint32_t device, std::uint32_t slot) const override {
    return (device + problem_.devices - 1 - slot) % problem_.devices;
  }
  std::uint32_t slots(std::uint32_t) const override { return problem_.devices - 1; }
};

}  // namespace

ORRERY_ALGORITHM(alltoall, "alltoall", "every device puts to every other one, in shift order",
                 AllToAll, {{"bytes", "14336", "bytes per pair", {}}, completion_option()})

}  // namespace orrery::moe
