// What a core does while its program is suspended: the common shape of all verbs that take virtual
// time.
#pragma once

#include <coroutine>
#include <string>

#include "emu/time.h"
#include "fabric/packet.h"

namespace orrery::devices {

class Core;

/// Lives in the suspended coroutine's frame. A verb either finishes at once or arranges to be
/// advanced.
class Operation {
 public:
  /// Starts; false if no time passes, so that the program goes on at once.
  virtual bool begin(Core& core) = 0;
  /// A time that the operation asked for has come. True if it is finished.
  virtual bool advance(Core&) { return true; }
  /// A put of this core was acknowledged just now.
  virtual void on_acknowledge(Core&, const fabric::Packet&) {}
  /// The queue pair whose room the operation awaits has some.
  virtual void on_room(Core&) {}
  /// [address, address + bytes) of the device's memory changed just now.
  virtual void on_visible(Core&, const fabric::Packet&, fabric::Address, std::uint32_t) {}
  /// The answer to this core's get is wholly visible.
  virtual void on_reply(Core&, const fabric::Packet&) {}
  /// For the hang report: what is awaited, one line.
  virtual std::string describe(const Core& core) const = 0;

 protected:
  ~Operation() = default;
};

/// Makes an operation awaitable. Op::result() is what co_await gives.
template <typename Op>
class Await final : public Op {
 public:
  template <typename... Args>
  explicit Await(Core& core, Args&&... args) : Op(std::forward<Args>(args)...), core_(core) {}

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> program);  // core.h
  auto await_resume() const { return Op::result(); }

 private:
  Core& core_;
};

}  // namespace orrery::devices
