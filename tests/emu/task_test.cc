#include "emu/task.h"

#include <gtest/gtest.h>

#include <coroutine>
#include <stdexcept>
#include <utility>
#include <vector>

namespace orrery::emu {
namespace {

// Suspends and leaves its handle to the test.
struct Pause {
  std::coroutine_handle<>& resume;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) { resume = handle; }
  void await_resume() const noexcept {}
};

Task note(std::vector<int>& log, int value) {
  log.push_back(value);
  co_return;
}
Task pausing(std::vector<int>& log, std::coroutine_handle<>& resume) {
  log.push_back(1);
  co_await Pause{resume};
  log.push_back(2);
}
Task outer(std::vector<int>& log, std::coroutine_handle<>& resume) {
  log.push_back(0);
  co_await pausing(log, resume);
  log.push_back(3);
}
Task throwing() {
  throw std::runtime_error("inside");
  co_return;
}
Task catching(std::vector<int>& log) {
  try {
    co_await throwing();
  } catch (const std::runtime_error&) {
    log.push_back(1);
  }
}
Task passing() { co_await throwing(); }
Task deep(int levels) {
  if (levels > 0) co_await deep(levels - 1);
}

TEST(Task, IsLazy) {
  std::vector<int> log;
  Task task = note(log, 5);
  EXPECT_TRUE(log.empty());
  EXPECT_FALSE(task.done());
  task.start();
  EXPECT_EQ(log, std::vector<int>{5});
  EXPECT_TRUE(task.done());
}

TEST(Task, AwaitingRunsItToItsEndAndGoesOn) {
  std::vector<int> log;
  std::coroutine_handle<> resume;
  Task task = outer(log, resume);
  task.start();
  EXPECT_EQ(log, (std::vector<int>{0, 1}));
  EXPECT_FALSE(task.done());
  resume.resume();
  EXPECT_EQ(log, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_TRUE(task.done());
}

TEST(Task, ExceptionsTravelToTheAwaiter) {
  std::vector<int> log;
  Task task = catching(log);
  task.start();
  EXPECT_EQ(log, std::vector<int>{1});
  EXPECT_NO_THROW(task.rethrow_if_failed());
}

TEST(Task, ExceptionsLeaveTheRoot) {
  Task task = passing();
  task.start();
  EXPECT_TRUE(task.done());
  EXPECT_THROW(task.rethrow_if_failed(), std::runtime_error);
}

TEST(Task, DestroyedBeforeItsEndFreesWhatItAwaits) {
  std::vector<int> log;
  std::coroutine_handle<> resume;
  {
    Task task = outer(log, resume);
    task.start();
  }
  EXPECT_EQ(log, (std::vector<int>{0, 1}));
}

TEST(Task, Moves) {
  std::vector<int> log;
  Task first = note(log, 1);
  Task second = std::move(first);
  EXPECT_FALSE(static_cast<bool>(first));  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_TRUE(first.done());
  second.start();
  second = note(log, 2);
  second.start();
  EXPECT_EQ(log, (std::vector<int>{1, 2}));
}

TEST(Task, DeepChainsDoNotGrowTheStack) {
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  Task task = deep(100'000);
#else
  Task task = deep(1'000);  // no call is a tail call, or the sanitizer keeps its stack
#endif
  task.start();
  EXPECT_TRUE(task.done());
}

}  // namespace
}  // namespace orrery::emu
