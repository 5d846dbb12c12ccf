// Each rule of the happens-before checker by itself, on logs made by hand.
#include "devices/order_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace orrery::devices {
namespace {

using fabric::Address;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

enum class Scope { kNone, kDevicePair, kCorePair };

// Three devices of two cores, and what they do one after the other.
class Replay {
 public:
  explicit Replay(Scope scope = Scope::kDevicePair, OrderChecker::Rules rules = {})
      : scope_(scope), checker_(with_sizes(rules)) {
    for (std::uint32_t device = 0; device < 3; ++device) {
      take(device, {.bytes = 2, .kind = CheckKind::kKernel});
    }
  }

  struct Sent {
    std::uint32_t source;
    std::uint32_t target;
    std::uint64_t identity;
    std::uint64_t serial;
    std::uint16_t core;
  };
  // Device and core.
  struct By {
    std::uint32_t device;
    std::uint16_t core = 0;
  };

  Sent put(By by, std::uint32_t target, Address to, std::uint64_t bytes, Address from = 0x9000,
           Verb verb = Verb::kStore, std::uint64_t further = 0) {
    const std::uint16_t channel = scope_ == Scope::kCorePair ? by.core : 0;
    const bool ordered = scope_ != Scope::kNone;
    const std::uint64_t sequence =
        ordered ? sequences_[by.device][target][channel]++ : unordered_[by.device]++;
    const Sent sent{by.device, target,
                    (std::uint64_t{ordered} << 48) | (std::uint64_t{channel} << 32) | sequence,
                    ++serials_[by.device], by.core};
    take(by.device, {.address = sent.serial,
                     .other = sent.identity,
                     .bytes = bytes + further,
                     .peer = target,
                     .core = by.core,
                     .kind = CheckKind::kPut,
                     .detail = static_cast<std::uint8_t>(verb)});
    piece(by, to, bytes, from);
    return sent;
  }
  void piece(By by, Address to, std::uint64_t bytes, Address from = 0) {
    take(
        by.device,
        {.address = to, .other = from, .bytes = bytes, .core = by.core, .kind = CheckKind::kPiece});
  }
  void visible(const Sent& sent, Address at, std::uint64_t bytes, bool first = true) {
    take(sent.target, {.address = at,
                       .other = sent.identity,
                       .bytes = bytes,
                       .peer = sent.source,
                       .core = sent.core,
                       .kind = CheckKind::kVisible,
                       .detail = first ? CheckRecord::kFirst : std::uint8_t{0}});
  }
  void access(By by, CheckKind kind, Address at, std::uint64_t bytes, Verb verb,
              std::uint64_t other = 0) {
    take(by.device, {.address = at,
                     .other = other,
                     .bytes = bytes,
                     .core = by.core,
                     .kind = kind,
                     .detail = static_cast<std::uint8_t>(verb)});
  }
  void load(By by, Address at, std::uint64_t bytes = 4) {
    access(by, CheckKind::kRead, at, bytes, Verb::kLoad);
  }
  void write(By by, Address at, std::uint64_t bytes = 4) {
    access(by, CheckKind::kWrite, at, bytes, Verb::kWrite);
  }
  void host(std::uint32_t device, Address at, std::uint64_t bytes) {
    access({device}, CheckKind::kHostWrite, at, bytes, Verb::kHost);
  }
  void accept(By by, Address at, std::uint64_t bytes) {
    access(by, CheckKind::kAccept, at, bytes, Verb::kAccept);
  }
  void probe(By by, Address at, std::uint64_t bytes = 4) {
    access(by, CheckKind::kProbe, at, bytes, Verb::kHost);
  }
  void wait(By by, Address at, std::uint64_t bytes = 4, std::uint8_t detail = 0) {
    take(by.device, {.address = at,
                     .bytes = bytes,
                     .core = by.core,
                     .kind = CheckKind::kWait,
                     .detail = detail});
  }
  void quiet(By by) { take(by.device, {.core = by.core, .kind = CheckKind::kQuiet}); }
  void acknowledged(By by, const Sent& sent) {
    take(by.device, {.other = sent.serial, .core = by.core, .kind = CheckKind::kQuiet});
  }
  void left(By by, const Sent& sent) {
    take(by.device, {.other = sent.serial, .core = by.core, .kind = CheckKind::kLeft});
  }
  void barrier(std::uint32_t device) {
    for (std::uint16_t core = 0; core < 2; ++core)
      take(device, {.core = core, .kind = CheckKind::kArrive});
  }
  void next_kernel(std::uint32_t device) {
    for (std::uint16_t core = 0; core < 2; ++core)
      take(device, {.core = core, .kind = CheckKind::kEnd});
    take(device, {.other = ++iteration_, .bytes = 2, .kind = CheckKind::kKernel});
  }
  void take(std::uint32_t device, CheckRecord record) {
    record.at = ++now_;
    checker_.take(device, record, names_);
  }
  // What was found: its kinds, with a "+" and all else left out.
  std::vector<FindingKind> found() const {
    std::vector<FindingKind> kinds;
    for (const Finding& finding : checker_.findings()) kinds.push_back(finding.kind);
    return kinds;
  }
  std::vector<Finding> findings() const { return checker_.findings(); }

 private:
  static OrderChecker::Rules with_sizes(OrderChecker::Rules rules) {
    rules.devices = 3;
    rules.cores = 2;
    return rules;
  }
  const Scope scope_;
  OrderChecker checker_;
  std::vector<std::string> names_{"kernel"};
  emu::Time now_ = 0;
  std::uint64_t iteration_ = 0;
  std::uint64_t sequences_[3][3][2] = {};
  std::uint64_t unordered_[3] = {};
  std::uint64_t serials_[3] = {};
};

constexpr Address kData = 0x1000;
constexpr Address kFlag = 0x2000;
constexpr Address kSource = 0x9000;

// --- Programs, barriers, kernels ---

TEST(OrderChecker, OneCoreIsInOrder) {
  Replay replay;
  replay.write({0}, kData);
  replay.load({0}, kData);
  replay.write({0}, kData);
  EXPECT_THAT(replay.found(), IsEmpty());
}

TEST(OrderChecker, TwoCoresAreNot) {
  Replay replay;
  replay.write({0, 0}, kData);
  replay.load({0, 1}, kData);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedRead));
  const Finding finding = replay.findings()[0];
  EXPECT_EQ(finding.second.core, 1U);
  EXPECT_EQ(finding.first.core, 0U);
  EXPECT_EQ(finding.address, kData);
  EXPECT_THAT(to_text(finding),
              HasSubstr("unordered read: load by device 0 core 1 (kernel, iteration 0) at "));
  EXPECT_THAT(to_text(finding), HasSubstr(" is not ordered after write by device 0 core 0"));
  EXPECT_THAT(to_text(finding), HasSubstr("; 4 bytes of device 0 at region 0 + 0x1000"));
}

TEST(OrderChecker, ABarrierOrdersThem) {
  Replay replay;
  replay.write({0, 0}, kData);
  replay.barrier(0);
  replay.load({0, 1}, kData);
  replay.barrier(0);
  replay.write({0, 0}, kData);
  EXPECT_THAT(replay.found(), IsEmpty());
}

TEST(OrderChecker, ABarrierOrdersOnlyWhatCameBefore) {
  Replay replay;
  replay.barrier(0);
  replay.write({0, 0}, kData);
  replay.load({0, 1}, kData);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedRead));
}

TEST(OrderChecker, KernelsOfADeviceAreInOrder) {
  Replay replay;
  replay.write({0, 0}, kData);
  replay.next_kernel(0);
  replay.write({0, 1}, kData);
  replay.next_kernel(0);
  replay.host(0, kData, 64);
  replay.load({0, 1}, kData);
  replay.load({0, 0}, kData);
  EXPECT_THAT(replay.found(), IsEmpty());
}

TEST(OrderChecker, WritesAfterUnorderedReadsAndWrites) {
  Replay replay;
  replay.host(0, kData, 64);
  replay.load({0, 0}, kData);
  replay.write({0, 1}, kData);
  replay.write({0, 0}, kData);
  EXPECT_THAT(replay.found(),
              ElementsAre(FindingKind::kOverwriteOfRead, FindingKind::kUnorderedOverwrite));
}

TEST(OrderChecker, SameFindingIsCounted) {
  Replay replay;
  for (int i = 0; i < 5; ++i) {
    replay.write({0, 0}, kData + static_cast<Address>(i) * 64);
    replay.load({0, 1}, kData + static_cast<Address>(i) * 64);
  }
  ASSERT_EQ(replay.findings().size(), 1U);
  EXPECT_EQ(replay.findings()[0].count, 5U);
  EXPECT_THAT(to_text(replay.findings()[0]), HasSubstr("; 5 times"));
}

TEST(OrderChecker, UnwrittenAndDiscardedMemory) {
  Replay replay;
  replay.load({0}, kData);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnwritten));
  replay.write({0}, kData, 64);
  replay.load({0}, kData, 64);
  replay.access({0}, CheckKind::kDiscard, kData, 64, Verb::kDiscard);
  replay.load({0}, kData, 64);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnwritten, FindingKind::kUnwritten));
  EXPECT_FALSE(replay.findings()[0].has_first);
  EXPECT_EQ(replay.findings()[1].first.verb, Verb::kDiscard);
}

TEST(OrderChecker, PollsOfUnwrittenMemoryAreFine) {
  Replay replay;
  replay.probe({0}, kData);
  replay.wait({0}, kFlag);
  EXPECT_THAT(replay.found(), IsEmpty());
}

// --- Message passing ---

// Data, then a flag of the same core, `between` in between; device 1 waits for the flag.
std::vector<FindingKind> message(
    Replay& replay, const std::function<void()>& between = [] {}) {
  const auto data = replay.put({0}, 1, kData, 64);
  between();
  const auto flag = replay.put({0}, 1, kFlag, 4);
  replay.visible(data, kData, 64);
  replay.visible(flag, kFlag, 4);
  replay.wait({1}, kFlag);
  replay.load({1}, kData, 64);
  return replay.found();
}

TEST(OrderChecker, OrderedChannelsMakeAFlagEnough) {
  for (const Scope scope : {Scope::kDevicePair, Scope::kCorePair}) {
    Replay replay(scope);
    EXPECT_THAT(message(replay), IsEmpty());
  }
}

TEST(OrderChecker, WithoutOrderTheFlagProvesNothing) {
  Replay replay(Scope::kNone);
  EXPECT_THAT(message(replay), ElementsAre(FindingKind::kUnorderedRead));
}

TEST(OrderChecker, WithoutOrderAQuietDoes) {
  Replay replay(Scope::kNone);
  EXPECT_THAT(message(replay, [&replay] { replay.quiet({0}); }), IsEmpty());
}

// That tells of the put itself, and of no other.
TEST(OrderChecker, WithoutOrderTheAcknowledgementOfThePutDoes) {
  for (const bool visible : {false, true}) {
    for (const bool its_own : {false, true}) {
      Replay replay(Scope::kNone, {.acknowledged_visible = visible});
      const auto data = replay.put({0, 0}, 1, kData, 64);
      const auto other = replay.put({0, 0}, 1, kData + 64, 64);
      replay.acknowledged({0, 0}, its_own ? data : other);
      replay.barrier(0);
      const auto flag = replay.put({0, 1}, 1, kFlag, 4);
      replay.visible(data, kData, 64);
      replay.visible(other, kData + 64, 64);
      replay.visible(flag, kFlag, 4);
      replay.wait({1}, kFlag);
      replay.load({1}, kData, 64);
      EXPECT_EQ(replay.found().empty(), visible && its_own);
    }
  }
}

// What is received will be visible before what the same core sends to the same device afterwards,
// and nothing else tells of it.
TEST(OrderChecker, WhereAnAcknowledgementMeansReceptionTheSameCoreMustTell) {
  for (const bool visible : {false, true}) {
    for (const std::uint16_t teller : {0, 1}) {
      Replay replay(Scope::kNone, {.acknowledged_visible = visible});
      const auto data = replay.put({0, 0}, 1, kData, 64);
      replay.quiet({0, 0});
      replay.barrier(0);
      const auto flag = replay.put({0, teller}, 1, kFlag, 4);
      replay.visible(data, kData, 64);
      replay.visible(flag, kFlag, 4);
      replay.wait({1}, kFlag);
      replay.load({1}, kData, 64);
      EXPECT_EQ(replay.found().empty(), visible || teller == 0);
      // The same of what it overwrites.
      const auto over = replay.put({0, teller}, 1, kData + 64, 64);
      replay.quiet({0, teller});
      const auto again = replay.put({0, 0}, 1, kData + 64, 64);
      replay.visible(over, kData + 64, 64);
      replay.visible(again, kData + 64, 64);
    }
  }
}

TEST(OrderChecker, ASignalTellsOfItsPutAndOfNoOther) {
  Replay replay(Scope::kNone);
  replay.host(0, kSource, 64);
  const auto other = replay.put({0}, 1, kData + 64, 64);
  const auto sent = replay.put({0}, 1, kData, 64, kSource, Verb::kPutSignal, 4);
  replay.piece({0}, kFlag, 4);
  replay.visible(other, kData + 64, 64);
  replay.visible(sent, kData, 64);
  replay.visible(sent, kFlag, 4, false);
  replay.wait({1}, kFlag);
  replay.load({1}, kData, 64);
  EXPECT_THAT(replay.found(), IsEmpty());
  replay.load({1}, kData + 64, 64);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedRead));
}

// Each adds to the word, in any order, and what is waited for tells of all that were added.
TEST(OrderChecker, AnAddingSignalTellsOfItsPutAndCommutes) {
  Replay replay(Scope::kNone);
  replay.host(0, kSource, 64);
  const auto plain = replay.put({0}, 1, kData + 128, 64);
  const auto one = replay.put({0}, 1, kData, 64, kSource, Verb::kPutSignalAdd, 8);
  replay.piece({0}, kFlag, 8);
  const auto two = replay.put({0}, 1, kData + 64, 64, kSource, Verb::kPutSignalAdd, 8);
  replay.piece({0}, kFlag, 8);
  for (const auto& sent : {two, one}) {
    const Address at = sent.serial == one.serial ? kData : kData + 64;
    replay.visible(sent, at, 64);
    replay.visible(sent, kFlag, 8, false);
  }
  replay.visible(plain, kData + 128, 64);
  replay.wait({1}, kFlag);
  replay.load({1}, kData, 64);
  replay.load({1}, kData + 64, 64);
  EXPECT_THAT(replay.found(), IsEmpty());
  replay.load({1}, kData + 128, 64);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedRead));
}

// What is given belongs to the put; what is not may not be written before it has left.
TEST(OrderChecker, AnAddingSignalGivesItsSourceUpIfAsked) {
  for (const Verb verb : {Verb::kGiveSignalAdd, Verb::kPutSignalAdd}) {
    Replay replay(Scope::kNone);
    replay.host(0, kSource, 64);
    const auto sent = replay.put({0}, 1, kData, 64, kSource, verb, 8);
    replay.piece({0}, kFlag, 8);
    replay.write({0}, kSource, 64);
    replay.visible(sent, kData, 64);
    replay.visible(sent, kFlag, 8, false);
    if (verb == Verb::kGiveSignalAdd) {
      EXPECT_THAT(replay.found(), IsEmpty());
    } else {
      EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kSourceReuse));
    }
  }
}

TEST(OrderChecker, LocalAtomicsCarryWhatCameBefore) {
  Replay replay;
  replay.write({0, 0}, kFlag);
  replay.write({0, 0}, kData);
  replay.barrier(0);
  replay.write({0, 0}, kData);
  replay.access({0, 0}, CheckKind::kFetchAdd, kFlag, 4, Verb::kFetchAdd);
  replay.access({0, 1}, CheckKind::kFetchAdd, kFlag, 4, Verb::kFetchAdd);
  replay.load({0, 1}, kData);
  EXPECT_THAT(replay.found(), IsEmpty());
  replay.write({0, 0}, kFlag);  // a reset that does not know of the second add
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedOverwrite));
}

TEST(OrderChecker, NorDoesTheQuietOfAnotherCore) {
  Replay replay(Scope::kNone);
  EXPECT_THAT(message(replay,
                      [&replay] {
                        replay.quiet({0, 1});
                      }),
              ElementsAre(FindingKind::kUnorderedRead));
}

TEST(OrderChecker, WithoutTheWaitNothingIsOrdered) {
  Replay replay;
  const auto data = replay.put({0}, 1, kData, 64);
  replay.visible(data, kData, 64);
  replay.load({1}, kData, 64);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedRead));
}

TEST(OrderChecker, TheOtherCoreOfTheReaderNeedsABarrier) {
  for (const bool barrier : {false, true}) {
    Replay replay;
    message(replay);
    if (barrier) replay.barrier(1);
    replay.load({1, 1}, kData, 64);
    EXPECT_EQ(replay.found().empty(), barrier);
  }
}

// Core 1 puts the data, core 0 the flag.
std::vector<FindingKind> two_cores(Scope scope, bool barrier) {
  Replay replay(scope);
  const auto data = replay.put({0, 1}, 1, kData, 64);
  if (barrier) replay.barrier(0);
  const auto flag = replay.put({0, 0}, 1, kFlag, 4);
  replay.visible(data, kData, 64);
  replay.visible(flag, kFlag, 4);
  replay.wait({1}, kFlag);
  replay.load({1}, kData, 64);
  return replay.found();
}

TEST(OrderChecker, ADevicePairOrdersAllCoresOnceABarrierOrdersTheirIssue) {
  EXPECT_THAT(two_cores(Scope::kDevicePair, true), IsEmpty());
  EXPECT_THAT(two_cores(Scope::kDevicePair, false), ElementsAre(FindingKind::kUnorderedRead));
}

TEST(OrderChecker, ACorePairOrdersOneCoreOnly) {
  EXPECT_THAT(two_cores(Scope::kCorePair, true), ElementsAre(FindingKind::kUnorderedRead));
}

TEST(OrderChecker, OrderIsBetweenTwoDevices) {
  for (const bool quiet : {false, true}) {
    Replay replay;
    const auto data = replay.put({0}, 1, kData, 64);
    if (quiet) replay.quiet({0});
    const auto first = replay.put({0}, 2, kFlag, 4);
    replay.visible(data, kData, 64);
    replay.visible(first, kFlag, 4);
    replay.wait({2}, kFlag);
    const auto second = replay.put({2}, 1, kFlag, 4);
    replay.visible(second, kFlag, 4);
    replay.wait({1}, kFlag);
    replay.load({1}, kData, 64);
    EXPECT_EQ(replay.found().empty(), quiet);
  }
}

TEST(OrderChecker, FirstFragmentsCarryTheOrder) {
  for (const bool first : {false, true}) {
    Replay replay(Scope::kDevicePair, {.first_fragment = true});
    const auto data = replay.put({0}, 1, kData, 64);
    const auto large = replay.put({0}, 1, kFlag, 8192);
    replay.visible(large, kFlag + 4096, 4096, false);
    replay.visible(data, kData, 64);
    replay.visible(large, kFlag, 4096, true);
    replay.wait({1}, first ? kFlag : kFlag + 4096);
    replay.load({1}, kData, 64);
    EXPECT_EQ(replay.found().empty(), first);
  }
}

TEST(OrderChecker, ALocalFlagCarriesWhatItsWriterKnew) {
  Replay replay;
  replay.write({0, 0}, kData);
  replay.write({0, 0}, kFlag);
  replay.wait({0, 1}, kFlag);
  replay.load({0, 1}, kData);
  EXPECT_THAT(replay.found(), IsEmpty());
  replay.write({0, 0}, kData + 64);
  replay.load({0, 1}, kData + 64);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedRead));
}

// --- Atomic blocks and claims ---

TEST(OrderChecker, ALookProvesItsBlock) {
  Replay replay(Scope::kNone);
  const auto data = replay.put({0}, 1, kData, 128);
  replay.visible(data, kData, 128);
  replay.probe({1}, kData + 60);
  replay.accept({1}, kData, 64);
  replay.load({1}, kData, 64);
  EXPECT_THAT(replay.found(), IsEmpty());
  replay.accept({1}, kData, 128);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnproven));
}

TEST(OrderChecker, ALookBeforeTheBytesCameProvesNothing) {
  Replay replay(Scope::kNone);
  const auto data = replay.put({0}, 1, kData, 64);
  replay.probe({1}, kData);
  replay.visible(data, kData, 64);
  replay.accept({1}, kData, 64);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnproven));
}

TEST(OrderChecker, BlocksAreTheFabrics) {
  Replay replay(Scope::kNone, {.atomic_block_bytes = 512});
  const auto data = replay.put({0}, 1, kData, 512);
  replay.visible(data, kData, 512);
  replay.probe({1}, kData + 508);
  replay.accept({1}, kData, 512);
  EXPECT_THAT(replay.found(), IsEmpty());
}

TEST(OrderChecker, TwoPutsInABlockAreProvenApart) {
  Replay replay(Scope::kNone);
  const auto first = replay.put({0}, 1, kData, 32);
  const auto second = replay.put({0}, 1, kData + 32, 32);
  replay.visible(first, kData, 32);
  replay.visible(second, kData + 32, 32);
  replay.probe({1}, kData);
  replay.accept({1}, kData, 64);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnproven));
}

TEST(OrderChecker, AnAcceptedPutBringsWhatCameBeforeIt) {
  Replay replay;
  const auto data = replay.put({0}, 1, kData, 64);
  const auto row = replay.put({0}, 1, kFlag, 64);
  replay.visible(data, kData, 64);
  replay.visible(row, kFlag, 64);
  replay.probe({1}, kFlag);
  replay.accept({1}, kFlag, 64);
  replay.load({1}, kData, 64);
  EXPECT_THAT(replay.found(), IsEmpty());
}

TEST(OrderChecker, AWaitForProbedPlacesSeesTheProbedBlocks) {
  Replay replay;
  const auto data = replay.put({0}, 1, kData, 64);
  const auto row = replay.put({0}, 1, kFlag, 128);
  replay.visible(data, kData, 64);
  replay.visible(row, kFlag, 128);
  replay.wait({1}, kFlag, 128, CheckRecord::kProbed);
  replay.load({1}, kData, 64);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedRead));
  replay.probe({1}, kFlag);
  replay.wait({1}, kFlag, 128, CheckRecord::kProbed);
  replay.load({1}, kData, 64);
  EXPECT_EQ(replay.findings()[0].count, 1U);
  replay.accept({1}, kFlag, 128);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedRead, FindingKind::kUnproven));
}

TEST(OrderChecker, AProbeAloneBringsNothingElse) {
  Replay replay;
  const auto data = replay.put({0}, 1, kData, 64);
  const auto row = replay.put({0}, 1, kFlag, 64);
  replay.visible(data, kData, 64);
  replay.visible(row, kFlag, 64);
  replay.probe({1}, kFlag);
  replay.load({1}, kData, 64);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedRead));
}

// --- Overwriting ---

TEST(OrderChecker, APutOverWhatIsReadNeedsTheReadersWord) {
  for (const bool credit : {false, true}) {
    Replay replay;
    message(replay);
    if (credit) {
      const auto back = replay.put({1}, 0, kFlag, 4);
      replay.visible(back, kFlag, 4);
      replay.wait({0}, kFlag);
    }
    const auto next = replay.put({0}, 1, kData, 64);
    replay.visible(next, kData, 64);
    EXPECT_EQ(replay.found().empty(), credit);
    if (!credit) {
      EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kOverwriteOfRead));
    }
  }
}

TEST(OrderChecker, TwoPutsToOneAddress) {
  for (const Scope scope : {Scope::kNone, Scope::kCorePair, Scope::kDevicePair}) {
    Replay replay(scope);
    const auto first = replay.put({0}, 1, kData, 64);
    const auto second = replay.put({0}, 1, kData, 64);
    replay.visible(first, kData, 64);
    replay.visible(second, kData, 64);
    EXPECT_EQ(replay.found().empty(), scope != Scope::kNone);
  }
}

TEST(OrderChecker, TwoDevicesToOneAddress) {
  Replay replay;
  const auto first = replay.put({0}, 1, kData, 64);
  const auto second = replay.put({2}, 1, kData, 64);
  replay.visible(first, kData, 64);
  replay.visible(second, kData, 64);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedOverwrite));
}

TEST(OrderChecker, AResetMayNotMeetTheNextFlag) {
  Replay replay;
  message(replay);
  replay.write({1}, kFlag);
  const auto next = replay.put({0}, 1, kFlag, 4);
  replay.visible(next, kFlag, 4);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedOverwrite));
}

TEST(OrderChecker, GrowingFlagsOfOneWriterMayRunAhead) {
  for (const bool growing : {false, true}) {
    Replay replay;
    const auto first = replay.put({0}, 1, kFlag, 4);
    replay.visible(first, kFlag, 4);
    replay.wait({1}, kFlag, 4, growing ? CheckRecord::kGrows : std::uint8_t{0});
    const auto next = replay.put({0}, 1, kFlag, 4);
    replay.visible(next, kFlag, 4);
    EXPECT_EQ(replay.found().empty(), growing);
    if (!growing) {
      EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kFlagReuse));
    }
  }
}

TEST(OrderChecker, CountersOfSeveralWritersMayNot) {
  for (const bool several : {false, true}) {
    Replay replay;
    const auto first = replay.put({0}, 1, kFlag, 8, 0, Verb::kAtomicAdd);
    replay.visible(first, kFlag, 8);
    if (several) {
      const auto other = replay.put({2}, 1, kFlag, 8, 0, Verb::kAtomicAdd);
      replay.visible(other, kFlag, 8);
    }
    replay.wait({1}, kFlag, 8, CheckRecord::kGrows);
    const auto ahead = replay.put({0}, 1, kFlag, 8, 0, Verb::kAtomicAdd);
    replay.visible(ahead, kFlag, 8);
    EXPECT_EQ(replay.found().empty(), !several);
    if (several) {
      EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kCounterReuse));
    }
  }
}

TEST(OrderChecker, AddsDoNotRaceAndBringAllTheirWriters) {
  Replay replay;
  const auto one = replay.put({0}, 1, kData, 64);
  const auto other = replay.put({2}, 1, kData + 64, 64);
  const auto add_one = replay.put({0}, 1, kFlag, 8, 0, Verb::kAtomicAdd);
  const auto add_other = replay.put({2}, 1, kFlag, 8, 0, Verb::kAtomicAdd);
  replay.visible(one, kData, 64);
  replay.visible(other, kData + 64, 64);
  replay.visible(add_one, kFlag, 8);
  replay.visible(add_other, kFlag, 8);
  replay.wait({1}, kFlag, 8, CheckRecord::kGrows);
  replay.load({1}, kData, 128);
  EXPECT_THAT(replay.found(), IsEmpty());
}

TEST(OrderChecker, ResettingACounterBetweenAdds) {
  Replay replay;
  replay.host(1, kFlag, 8);
  replay.write({1}, kFlag, 8);
  const auto add = replay.put({0}, 1, kFlag, 8, 0, Verb::kAtomicAdd);
  replay.visible(add, kFlag, 8);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnorderedOverwrite));
}

// --- Sources ---

TEST(OrderChecker, ASourceIsReadUntilItsPutHasLeft) {
  enum class How { kNot, kLeft, kQuiet, kLaterPut, kEcho };
  for (const How how : {How::kNot, How::kLeft, How::kQuiet, How::kLaterPut, How::kEcho}) {
    Replay replay;
    replay.host(0, kSource, 128);
    const auto data = replay.put({0}, 1, kData, 64, kSource, Verb::kPut);
    const auto flag = replay.put({0}, 1, kFlag, 4);
    if (how == How::kLeft) replay.left({0}, data);
    if (how == How::kLaterPut) replay.left({0}, flag);  // one core's puts leave in order
    if (how == How::kQuiet) replay.quiet({0});
    replay.visible(data, kData, 64);
    replay.visible(flag, kFlag, 4);
    if (how == How::kEcho) {
      replay.wait({1}, kFlag);
      const auto back = replay.put({1}, 0, kFlag, 4);
      replay.visible(back, kFlag, 4);
      replay.wait({0}, kFlag);
    }
    replay.write({0}, kSource, 64);
    EXPECT_EQ(replay.found().empty(), how != How::kNot);
    if (how == How::kNot) {
      EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kSourceReuse));
    }
  }
}

TEST(OrderChecker, AnotherCoreReusesASourceOnlyAfterABarrier) {
  for (const bool barrier : {false, true}) {
    Replay replay;
    replay.host(0, kSource, 64);
    const auto data = replay.put({0}, 1, kData, 64, kSource, Verb::kPut);
    replay.left({0}, data);
    if (barrier) replay.barrier(0);
    replay.write({0, 1}, kSource, 64);
    EXPECT_EQ(replay.found().empty(), barrier);
  }
}

TEST(OrderChecker, ASourceMustBeWrittenAndOrdered) {
  Replay replay;
  replay.put({0, 1}, 1, kData, 64, kSource, Verb::kPut);
  replay.write({0, 0}, kSource + 64, 64);
  replay.put({0, 1}, 1, kData, 64, kSource + 64, Verb::kPut);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnwritten, FindingKind::kUnorderedRead));
}

TEST(OrderChecker, WhatIsGivenMayBeWrittenAtOnce) {
  Replay replay;
  replay.host(0, kSource, 64);
  replay.put({0}, 1, kData, 64, kSource, Verb::kGive);
  replay.write({0}, kSource, 64);
  EXPECT_THAT(replay.found(), IsEmpty());
  replay.put({0}, 1, kData, 64, kSource, Verb::kGive);
  replay.load({0}, kSource, 64);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnwritten));
}

// --- Gets ---

TEST(OrderChecker, AGetReadsThereAndWritesHere) {
  for (const bool waited : {false, true}) {
    Replay replay;
    replay.write({0}, kData, 64);
    const auto flag = replay.put({0}, 1, kFlag, 4);
    replay.visible(flag, kFlag, 4);
    if (waited) replay.wait({1}, kFlag);
    replay.take(1, {.address = kData,
                    .other = kSource,
                    .bytes = 64,
                    .peer = 0,
                    .kind = CheckKind::kGet,
                    .detail = static_cast<std::uint8_t>(Verb::kGet)});
    replay.take(0, {.address = kData, .bytes = 64, .peer = 1, .kind = CheckKind::kServe});
    replay.take(1, {.address = kSource,
                    .bytes = 64,
                    .peer = 0,
                    .kind = CheckKind::kVisible,
                    .detail = CheckRecord::kFirst | CheckRecord::kGetReply});
    replay.take(1, {.kind = CheckKind::kGetDone});
    replay.load({1}, kSource, 64);
    EXPECT_EQ(replay.found().empty(), waited);
    replay.load({1, 1}, kSource, 64);  // the other core knows nothing of it
    EXPECT_EQ(replay.findings().back().second.core, 1U);
  }
}

// --- Moves ---

TEST(OrderChecker, AMoveTakesTheRowAlong) {
  Replay replay;
  replay.host(0, kSource, 64);
  replay.access({0}, CheckKind::kMove, kData, 128, Verb::kMove, kSource);
  replay.load({0}, kData, 64);
  EXPECT_THAT(replay.found(), IsEmpty());
  replay.load({0}, kData + 64, 64);  // nobody ever wrote that part
  replay.access({0}, CheckKind::kRead, kSource, 4, Verb::kArray);
  EXPECT_THAT(replay.found(), ElementsAre(FindingKind::kUnwritten, FindingKind::kUnwritten));
  EXPECT_FALSE(replay.findings()[0].has_first);
  EXPECT_EQ(replay.findings()[1].first.verb, Verb::kMove);
}

}  // namespace
}  // namespace orrery::devices
