// Ring: every device puts to the next one, all at once.
#include "moe/algorithms/exchange_benchmark.h"

namespace orrery::moe {

namespace {

class Ring final : public ExchangeBenchmark {
 public:
  // A device hears from its predecessor alone and may run ahead of its successor by the whole ring:
  // so every iteration has a buffer of its own.
  Ring(const Problem& problem, const Options& options)
      : ExchangeBenchmark(problem, options, problem.iterations) {
    make_layout(1);
  }

 private:
  std::vector<std::uint32_t> targets(std::uint32_t device) const override {
    return {(device + 1) % problem_.devices};
  }
  std::uint32_t source_of(std::uint32_t device, std::uint32_t) const override {
    return (device + problem_.devices - 1) % problem_.devices;
  }
  std::uint32_t slots(std::uint32_t) const override { return 1; }
};

}  // namespace

ORRERY_ALGORITHM(ring, "ring", "every device puts to the next one", Ring,
                 {{"bytes", "14336", "bytes of each put", {}}, completion_option()})

}  // namespace orrery::moe
