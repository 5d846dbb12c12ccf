// Point to point: the first device puts to the last one of the run (with two devices, to its
// neighbour).
#include "emu/errors.h"
#include "moe/algorithms/exchange_benchmark.h"

namespace orrery::moe {

namespace {

class PointToPoint final : public ExchangeBenchmark {
 public:
  // Nothing flows back, so every iteration has a buffer of its own.
  PointToPoint(const Problem& problem, const Options& options)
      : ExchangeBenchmark(problem, options, problem.iterations),
        source_(pick(problem, options, "source")),
        target_(pick(problem, options, "target")) {
    make_layout(1);
  }

 private:
  static std::uint32_t pick(const Problem& problem, const Options& options,
                            const std::string& name) {
    if (options.text(name) == "last") return problem.devices - 1;
    return static_cast<std::uint32_t>(options.number(name, 0, problem.devices - 1));
  }
  std::vector<std::uint32_t> targets(std::uint32_t device) const override {
    return device == source_ ? std::vector{target_} : std::vector<std::uint32_t>{};
  }
  std::uint32_t source_of(std::uint32_t, std::uint32_t) const override { return source_; }
  std::uint32_t slots(std::uint32_t device) const override { return device == target_ ? 1 : 0; }

  std::uint32_t source_;
  std::uint32_t target_;
};

}  // namespace

ORRERY_ALGORITHM(p2p, "p2p", "one put and its flag from one device to another", PointToPoint,
                 {{"bytes", "14336", "bytes of the put", {}},
                  completion_option(),
                  {"source", "0", "device that puts", {}},
                  {"target", "last", "device that receives, or last", {}}})

}  // namespace orrery::moe
