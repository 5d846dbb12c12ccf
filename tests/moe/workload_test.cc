#include "moe/workload.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "emu/errors.h"
#include "moe/gate.h"
#include "tests/moe/test_workload.h"

namespace orrery::moe {
namespace {

TEST(Workload, EveryShippedFileLoadsRoutesAndIsNamedAsItsFile) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("workloads")) {
    if (entry.path().extension() != ".textproto") continue;
    ++files;
    const Workload workload = load_workload(entry.path().string());
    EXPECT_EQ(workload.name(), entry.path().stem().string());
    if (workload.gate().kind() != Gate::TRACE) {
      EXPECT_EQ(route(workload, 2, 1, 0).total_entries(), 2u * workload.tokens() * workload.top_k())
          << entry.path();
    }
  }
  EXPECT_GE(files, 20);
}

TEST(Workload, TraceFileIsFoundBesideItsWorkload) {
  EXPECT_EQ(load_workload("workloads/sample-trace.textproto").gate().trace_file(),
            "workloads/sample-trace.jsonl");
}

TEST(Workload, ChecksNameTheFile) {
  const auto path = std::filesystem::path(testing::TempDir()) / "bad.textproto";
  std::ofstream(path) << "hidden: 64 expert_intermediate: 32 experts: 8 top_k: 9";
  try {
    load_workload(path.string());
    FAIL();
  } catch (const emu::ConfigError& error) {
    EXPECT_EQ(std::string(error.what()),
              path.string() +
                  ": top_k: got '9', expected at most experts (8) unless gate.allow_duplicates");
  }
  std::filesystem::remove(path);
  EXPECT_THROW(load_workload("workloads/none.textproto"), emu::ConfigError);
}

TEST(Workload, TokenBound) {
  Workload workload = make_workload(8, 2, 0);
  EXPECT_EQ(token_bound(workload, 3, "w"), 1u);
  for (const std::uint32_t tokens : {0u, 5u, 3u}) workload.add_tokens_per_device(tokens);
  EXPECT_EQ(token_bound(workload, 3, "w"), 5u);
  workload.set_max_tokens(9);
  EXPECT_EQ(token_bound(workload, 3, "w"), 9u);
  EXPECT_THROW(token_bound(workload, 2, "w"), emu::ConfigError);
}

}  // namespace
}  // namespace orrery::moe
