// The folder of a sweep: lines that are whole, numbers that are claimed once, one sweep at a time.
#include "cli/sweep_folder.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include "cli/point_record.h"
#include "emu/errors.h"
#include "tests/cli/program.h"

namespace orrery::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::string line_of(const std::string& key, const std::string& outcome = "ok") {
  PointRecord record;
  record.set_key(key);
  record.set_outcome(outcome);
  return to_line(record);
}

SweepRequest request_of(const std::string& axis = "tokens=1,2") {
  SweepRequest request;
  request.fixed = {{"topology", "tiny"}, {"seed", "7"}};
  request.add_axis("--vary", axis);
  return request;
}

class SweepFolderTest : public ::testing::Test {
 protected:
  SweepFolderTest() { std::filesystem::remove_all(path_); }
  std::unique_ptr<SweepFolder> open(Resumption resumption = {},
                                    const SweepRequest& request = request_of()) {
    return std::make_unique<SweepFolder>(alone_, path_, request, inputs_, resumption);
  }
  std::string error_of(Resumption resumption = {}, const SweepRequest& request = request_of()) {
    try {
      open(resumption, request);
    } catch (const emu::ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }
  std::string points() const {
    std::ostringstream text;
    text << std::ifstream(path_ + "/points.jsonl").rdbuf();
    return text.str();
  }
  void write_points(const std::string& text) const {
    std::ofstream(path_ + "/points.jsonl", std::ios::trunc) << text;
  }

  const emu::ProcessGroup alone_;
  SweepFolder::Inputs inputs_ = {{"tiny.textproto", "aa"}};
  const std::string path_ = (scratch_folder() / "sweep").string();
};

TEST_F(SweepFolderTest, KeepsLinesAndKnowsWhatIsFinished) {
  {
    const auto folder = open();
    EXPECT_TRUE(folder->finished().empty());
    folder->append(line_of("tokens=1"));
    EXPECT_EQ(folder->added(), 1u);
    folder->append(line_of("tokens=2"));
    EXPECT_EQ(folder->added(), 2u);
  }
  EXPECT_EQ(points(), line_of("tokens=1") + line_of("tokens=2"));
  const auto again = open({.resume = true});
  EXPECT_THAT(again->finished(), UnorderedElementsAre("tokens=1", "tokens=2"));
  EXPECT_EQ(again->added(), 0u);
}

TEST_F(SweepFolderTest, ResumingCutsATornLineOff) {
  open();
  const std::string torn = line_of("tokens=2").substr(0, 20);
  for (const std::string& tail : {torn, std::string(10000, 'x')}) {
    write_points(line_of("tokens=1") + tail);
    const auto folder = open({.resume = true});
    EXPECT_THAT(folder->finished(), UnorderedElementsAre("tokens=1"));
    EXPECT_EQ(points(), line_of("tokens=1"));
  }
  write_points(torn);
  EXPECT_TRUE(open({.resume = true})->finished().empty());
  EXPECT_EQ(points(), "");
}

TEST_F(SweepFolderTest, AppendingCutsATornLineOff) {
  // A process was killed within its write while others go on.
  const auto folder = open();
  folder->append(line_of("tokens=1"));
  std::ofstream(path_ + "/points.jsonl", std::ios::app) << line_of("tokens=3").substr(0, 30);
  folder->append(line_of("tokens=2"));
  EXPECT_EQ(points(), line_of("tokens=1") + line_of("tokens=2"));
}

TEST_F(SweepFolderTest, APointThatTwoReportIsThereOnce) {
  const auto folder = open();
  folder->append_once("tokens=1", line_of("tokens=1", "error"));
  folder->append_once("tokens=1", line_of("tokens=1", "error"));
  EXPECT_EQ(points(), line_of("tokens=1", "error"));
}

TEST_F(SweepFolderTest, NothingFinishedIsLostByStartingAnew) {
  open()->append(line_of("tokens=1"));
  EXPECT_THAT(error_of(), HasSubstr("--resume: this one holds finished points"));
  EXPECT_EQ(points(), line_of("tokens=1"));
}

TEST_F(SweepFolderTest, ASweepThatNeverFinishedAPointMayBeginAnew) {
  open();
  EXPECT_EQ(error_of(), "accepted");
  EXPECT_EQ(error_of({}, request_of("seed=1,2")), "accepted");
}

TEST_F(SweepFolderTest, BelongsToOneSweep) {
  open()->append(line_of("tokens=1"));
  EXPECT_THAT(error_of({.resume = true}, request_of("devices=1,2")),
              HasSubstr("it varies tokens, not devices"));
  SweepRequest other = request_of();
  other.fixed[1].second = "8";
  EXPECT_THAT(error_of({.resume = true}, other), HasSubstr("seed is '7', not '8'"));
  other.fixed.pop_back();
  EXPECT_THAT(error_of({.resume = true}, other), HasSubstr("seed is '7', not left out"));
  other = request_of();
  other.fixed.emplace_back("align", "true");
  EXPECT_THAT(error_of({.resume = true}, other), HasSubstr("align is left out, not 'true'"));
  // Further values of the same keys are further points of the same sweep.
  EXPECT_EQ(error_of({.resume = true}, request_of("tokens=1,2,3")), "accepted");
  EXPECT_EQ(points(), line_of("tokens=1"));
}

TEST_F(SweepFolderTest, BelongsToTheContentsOfItsInputs) {
  open()->append(line_of("tokens=1"));
  inputs_["more.textproto"] = "cc";
  EXPECT_EQ(error_of({.resume = true}), "accepted");
  inputs_["tiny.textproto"] = "bb";
  EXPECT_THAT(error_of({.resume = true}), HasSubstr("tiny.textproto has been changed since"));
}

TEST_F(SweepFolderTest, ErrorsAreFinishedUnlessTheyAreRetried) {
  open()->append(line_of("tokens=1", "error"));
  {
    const auto folder = open({.resume = true});
    EXPECT_THAT(folder->finished(), UnorderedElementsAre("tokens=1"));
    folder->append(line_of("tokens=2", "hang"));
  }
  const auto folder = open({.resume = true, .retry_errors = true});
  EXPECT_THAT(folder->finished(), UnorderedElementsAre("tokens=2"));
  EXPECT_EQ(points(), line_of("tokens=2", "hang"));
  folder->append(line_of("tokens=1"));
  EXPECT_EQ(folder->added(), 1u);
  EXPECT_EQ(points(), line_of("tokens=2", "hang") + line_of("tokens=1"));
}

TEST_F(SweepFolderTest, OneSweepAtATime) {
  const auto folder = open();
  EXPECT_THAT(error_of({.resume = true}), HasSubstr("no other sweep is at work"));
}

TEST_F(SweepFolderTest, AProcessThatOutlivesItsSweepKeepsOthersOut) {
  open();
  LockFile survivor(path_ + "/lock");
  ASSERT_TRUE(survivor.try_lock(1, LockFile::Mode::kShared));
  EXPECT_THAT(error_of({.resume = true}), HasSubstr("no other sweep is at work"));
  survivor.unlock(1);
  EXPECT_EQ(error_of({.resume = true}), "accepted");
}

TEST_F(SweepFolderTest, SaysWhichLineIsNoPoint) {
  open();
  for (const char* bad : {"\n", "[]\n", "{}\n", "{\"key\":1}\n", "nonsense\n"}) {
    write_points(line_of("tokens=1") + bad);
    EXPECT_THAT(error_of({.resume = true}), HasSubstr("points.jsonl:2")) << bad;
  }
  write_points(line_of("tokens=1"));
  std::ofstream(path_ + "/sweep.json") << "[1]";
  EXPECT_THAT(error_of({.resume = true}), HasSubstr("sweep.json"));
}

TEST_F(SweepFolderTest, NumbersAreClaimedOnceAndLinesNeverMix) {
  const auto folder = open();
  constexpr std::uint64_t kEach = 200;
  std::vector<std::vector<std::uint64_t>> claimed(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : claimed) {
      threads.emplace_back([&mine, &folder] {
        for (std::uint64_t i = 0; i < kEach; ++i) {
          mine.push_back(folder->claim());
          folder->append(line_of("tokens=" + std::to_string(mine.back()) + std::string(999, ' ')));
        }
      });
    }
  }
  std::vector<std::uint64_t> all;
  for (const auto& mine : claimed) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  std::vector<std::uint64_t> expected(4 * kEach);
  std::iota(expected.begin(), expected.end(), 0u);
  EXPECT_EQ(all, expected);
  std::uint64_t lines = 0;
  folder->for_each_point([&](const nlohmann::json&) { ++lines; });
  EXPECT_EQ(lines, 4 * kEach);
}

TEST_F(SweepFolderTest, AFullDiskIsSaid) {
  LineFile full("/dev/full");
  EXPECT_THROW(full.append("line\n"), emu::ConfigError);
}

}  // namespace
}  // namespace orrery::cli
