// An algorithm: a layout of device memory, the programs of its operations, and how to check what
// they did.
//
// Adding one takes one file, in moe/algorithms/ or as a plug-in outside (moe/examples/), and its
// registration line at file scope:
//   ORRERY_ALGORITHM(mine, "mine", "what it is, in a line", Mine,
//                    {{"option", "default", "help", {}}})
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "devices/core.h"
#include "devices/device_process.h"
#include "emu/task.h"
#include "moe/abi.h"
#include "moe/layout.h"
#include "moe/options.h"
#include "moe/problem.h"

namespace orrery::moe {

/// What a check of one device's operation found.
struct Verdict {
  bool ok = true;
  std::string what;          // the first difference, in words, if not ok
  std::uint64_t digest = 0;  // over the operation's output bytes on this device; 0 if it has none
};

/// What of a fabric an algorithm's correctness rests on (design section 6). Where the fabric gives
/// less, expect torn reads, stale data or hangs.
struct Contract {
  /// Puts that become visible in the order of their issue without a fence between them.
  enum class Order {
    kNone,        // none: fences and acknowledgements do it all
    kSignals,     // signals (Core::signal, put_signal) after their core's puts to that device
    kCorePair,    // those of one core to one device
    kDevicePair,  // those of all cores of a device to one device
  };
  Order order = Order::kNone;
  /// Blocks of this size, aligned, must appear whole.
  std::uint32_t atomic_block_bytes = 1;
  /// The same as `order`, of what NICs send alone.
  Order scale_out_order = Order::kNone;
  /// An acknowledgement must mean that a put is visible, unless all puts of a device to another are
  /// ordered.
  bool needs_visible_acknowledgements = false;
};

/// One run of an algorithm on all devices of this process. Programs of all its devices share the
/// object, on several threads at once if asked for: state that changes belongs into device
/// memory.
class Algorithm {
 public:
  virtual ~Algorithm() = default;

  /// Does it move the rows of tokens? Then their size alone can rule a run out before any table is
  /// made.
  static constexpr bool kMovesRows = false;

  /// Names of the operations of one iteration, in the order in which a device runs them.
  virtual std::vector<std::string> operations() const = 0;
  virtual Contract contract() const { return {}; }
  /// Whether it puts to logical destinations.
  virtual bool uses_hub() const { return false; }
  /// The regions of a device's memory, the same on all devices.
  virtual const Layout& layout() const = 0;
  /// Bytes that `device` will touch at most over the run: for the check against the host's memory.
  /// The whole layout, unless the algorithm knows better.
  virtual std::uint64_t touched_bytes(std::uint32_t /*device*/) const;
  /// Payload that the operation must move in all of an iteration, in bytes: rows without any
  /// overhead.
  virtual std::uint64_t useful_bytes(std::uint32_t operation, std::uint32_t iteration) const = 0;
  /// Cores that run an operation; 0: all of the device.
  virtual std::uint32_t cores(std::uint32_t /*operation*/, std::uint32_t /*iteration*/) const {
    return 0;
  }

  /// What the reader of a result should know, a line each.
  virtual std::vector<std::string> notes() const { return {}; }

  /// Before the first kernel: constants in the device's memory. Costs no virtual time.
  virtual void set_up(devices::DeviceProcess& /*device*/) {}
  /// Before an iteration's first operation: its inputs in the device's memory. Costs no virtual
  /// time.
  virtual void prepare(devices::DeviceProcess& /*device*/, std::uint32_t /*iteration*/) {}
  /// Whether its operations are a MoE layer without its gate, which gate() then is: the layer as a
  /// whole can be run and measured (stages.h).
  virtual bool has_gate() const { return false; }
  /// What each core of the device runs to choose the experts of its tokens.
  virtual emu::Task gate(devices::Core& /*core*/, std::uint32_t /*iteration*/) { return {}; }
  /// What each core runs.
  virtual emu::Task program(devices::Core& core, std::uint32_t operation,
                            std::uint32_t iteration) = 0;
  /// When the device's kernel has ended: is its output right (R10)? Looks at this device's memory
  /// alone.
  virtual Verdict verify(devices::DeviceProcess& device, std::uint32_t operation,
                         std::uint32_t iteration) = 0;
};

struct AlgorithmEntry {
  std::string name;
  std::string description;
  std::vector<OptionSpec> options;
  bool moves_rows = false;
  std::function<std::unique_ptr<Algorithm>(const Problem&, const Options&)> make;
};

/// All registered algorithms, by name. The table is filled before main() and by load_plugin().
const std::vector<AlgorithmEntry>& algorithms();
/// Throws ConfigError for an unknown name, listing the known ones.
const AlgorithmEntry& find_algorithm(const std::string& name);

/// Called by the registration line, where nobody could catch an exception: so it throws none, and
/// load_plugin() reports what was wrong. `describe` is not called when `abi` is another one than
/// the program's.
bool register_algorithm(const char* abi, AlgorithmEntry (*describe)()) noexcept;

/// What the registration lines of a plug-in came to: how many there were, and what was wrong with
/// the first one that was refused, as the expectation that it failed.
struct Registration {
  std::uint32_t lines = 0;
  std::string refused;
};
/// Until the end registration lines belong to a plug-in, built against an installed Orrery: their
/// abi must be `stamp`. Outside, a line that is refused ends the program.
void begin_registration(const std::string& stamp);
Registration end_registration();

#define ORRERY_ALGORITHM(id, name, description, Type, ...)                                        \
  extern const bool orrery_algorithm_##id;                                                        \
  const bool orrery_algorithm_##id = ::orrery::moe::register_algorithm(::orrery::moe::kAbi, [] {  \
    return ::orrery::moe::AlgorithmEntry{                                                         \
        name, description, std::vector<::orrery::moe::OptionSpec>(__VA_ARGS__), Type::kMovesRows, \
        [](const ::orrery::moe::Problem& problem,                                                 \
           const ::orrery::moe::Options& options) -> std::unique_ptr<::orrery::moe::Algorithm> {  \
          return std::make_unique<Type>(problem, options);                                        \
        }};                                                                                       \
  });

}  // namespace orrery::moe
