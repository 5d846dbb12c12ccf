// The lanes of a core add to a word of their own each, at once: the time of one fetch_add.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "devices/core.h"
#include "devices/operation.h"

namespace orrery::devices {

class FetchAddEachOperation : public Operation {
 public:
  FetchAddEachOperation(std::span<const fabric::Address> words, std::uint32_t value,
                        std::span<std::uint32_t> before)
      : words_(words), value_(value), before_(before) {}
  bool begin(Core& core) override;
  bool advance(Core& core) override;
  std::string describe(const Core&) const override { return "in atomics on local memory"; }
  void result() const {}

 private:
  std::span<const fabric::Address> words_;
  std::uint32_t value_;
  std::span<std::uint32_t> before_;
};

/// Core::fetch_add() of `value` to each of `words`, in this order; `before` has what they held, and
/// is as long. Both live until co_await returns. Nothing for no words.
inline Await<FetchAddEachOperation> fetch_add_each(Core& core,
                                                   std::span<const fabric::Address> words,
                                                   std::uint32_t value,
                                                   std::span<std::uint32_t> before) {
  return Await<FetchAddEachOperation>(core, words, value, before);
}

}  // namespace orrery::devices
