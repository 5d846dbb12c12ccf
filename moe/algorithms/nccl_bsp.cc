// Collectives with a host between them (nccl_layer.h), in any format of rows and without weights.
#include <vector>

#include "moe/algorithms/nccl_layer.h"

namespace orrery::moe {

namespace {

class NcclBsp final : public NcclLayer {
 public:
  NcclBsp(const Problem& problem, const Options& options)
      : NcclLayer(problem, options, precision_named(options.text("quantise")), Sizes::of(problem)) {
  }
  static std::vector<OptionSpec> options() {
    std::vector<OptionSpec> specs = nccl_options("false");
    specs.push_back({"quantise",
                     "bf16",
                     "dispatch payload: bf16, or int8 with one scale per row",
                     {"bf16", "int8"}});
    return specs;
  }
};

}  // namespace

ORRERY_ALGORITHM(nccl_bsp, "nccl-bsp",
                 "count exchange, host synchronisation, variable all-to-all, as on collectives",
                 NcclBsp, NcclBsp::options())

}  // namespace orrery::moe
