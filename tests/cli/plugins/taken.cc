// Registers a name that the program has already.
#include "moe/algorithm.h"

namespace {

using namespace orrery;

class Taken final : public moe::Algorithm {
 public:
  Taken(const moe::Problem&, const moe::Options&) {}
  std::vector<std::string> operations() const override { return {"nothing"}; }
  const moe::Layout& layout() const override { return layout_; }
  std::uint64_t useful_bytes(std::uint32_t, std::uint32_t) const override { return 0; }
  emu::Task program(devices::Core&, std::uint32_t, std::uint32_t) override { return {}; }
  moe::Verdict verify(devices::DeviceProcess&, std::uint32_t, std::uint32_t) override { return {}; }

 private:
  moe::Layout layout_;
};

}  // namespace

ORRERY_ALGORITHM(taken, "p2p", "a name that is taken", Taken, {})
