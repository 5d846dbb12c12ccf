// main() of the tests that run under mpirun: PROGRAM --transport=NAME [GoogleTest's flags].
// Rank 0 prints the usual report; other ranks print their failures alone; all return the same code.
#include <gtest/gtest.h>

#include <cstdio>
#include <string_view>

#include "tests/emu/mpi/mpi_test.h"

namespace orrery::emu {

const ProcessGroup* MpiTest::group = nullptr;
std::string MpiTest::transport_name = "auto";

namespace {

class FailurePrinter : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank_, result.file_name(), result.line_number(),
                 result.message());
  }

 private:
  int rank_;
};

int run_tests(int argc, char** argv) {
  const ProcessGroup processes(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFlag = "--transport=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kFlag)) MpiTest::transport_name = argument.substr(kFlag.size());
  }
  MpiTest::group = &processes;
  if (processes.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(processes.rank()));
  }
  const int failed = RUN_ALL_TESTS();
  return processes.max(failed) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace orrery::emu

int main(int argc, char** argv) { return orrery::emu::run_tests(argc, argv); }
