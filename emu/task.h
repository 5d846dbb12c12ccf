// Task: the coroutine type of device programs. A Task is lazy; awaiting it runs it to its end and
// resumes the awaiter. Exceptions travel to the awaiter, or out of rethrow_if_failed() at the root.
//
// A coroutine's parameters live in its frame; what they refer to must outlive it. Never make a
// coroutine of a capturing lambda: the captures die with the lambda.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace orrery::emu {

class [[nodiscard]] Task {
 public:
  struct promise_type {
    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        const auto& promise = self.promise();
        return promise.continuation ? promise.continuation : std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }

    std::coroutine_handle<> continuation;
    std::exception_ptr error;
  };
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Task() { destroy(); }

  explicit operator bool() const { return static_cast<bool>(handle_); }
  bool done() const { return !handle_ || handle_.done(); }
  /// For a root task that a scheduler resumes.
  std::coroutine_handle<> handle() const { return handle_; }
  /// Runs a root task until its first suspension.
  void start() { handle_.resume(); }
  void rethrow_if_failed() const {
    if (handle_ && handle_.promise().error) std::rethrow_exception(handle_.promise().error);
  }

  bool await_ready() const noexcept { return done(); }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
    handle_.promise().continuation = awaiter;
    return handle_;
  }
  void await_resume() const { rethrow_if_failed(); }

 private:
  explicit Task(Handle handle) : handle_(handle) {}
  void destroy() {
    if (handle_) handle_.destroy();
  }

  Handle handle_;
};

}  // namespace orrery::emu
