// Programs with an ordering bug that this run's timing hides: the values come out right, and only
// the happens-before checker objects. Beside each stands the repaired program, which is clean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "devices/order_check.h"
#include "tests/devices/rig.h"

namespace orrery::devices {
namespace {

using fabric::Address;

constexpr Address kSource = 0x1000;
constexpr Address kData = 0x2000;
constexpr Address kOther = 0x3000;
constexpr Address kFlag = 0x8000;
constexpr Address kFlag2 = 0x8200;
constexpr Address kCredit = 0x8400;
constexpr emu::Time kLong = emu::Time{100'000'000};  // 100 us: whatever is under way has arrived
const std::pair<std::string, std::string> kNone{"fabric.order_scope", "NONE"};
const std::pair<std::string, std::string> kCorePair{"fabric.order_scope", "CORE_PAIR"};

// What a program saw, to be compared with what it should see.
struct Seen {
  std::vector<std::uint32_t> values;
  void add(std::uint32_t value) { values.push_back(value); }
};

struct Bug {
  std::string name;
  FindingKind kind;
  Verb second;  // the access that is not ordered
  Verb first;   // after this one
  // Starts the programs, broken or repaired.
  std::function<void(Rig& rig, Seen& seen, bool broken)> run;
  std::vector<std::uint32_t> expected;  // what they see, both ways
  Overrides machine = {};
  Overrides repaired_machine = {};  // further ones
  std::uint32_t second_device = 1;
  std::uint32_t first_device = 0;
};
void PrintTo(const Bug& bug, std::ostream* out) { *out << bug.name; }

// The sources of every device hold 7 in their first word, the rest is written too.
void fill_sources(Rig& rig, std::uint32_t ranks) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    DeviceProcess& device = rig.device(rank);
    device.as_host([&device] {
      for (Address at = kSource; at < kData; at += 4) {
        device.memory().store(at, std::uint32_t{7});
      }
    });
  }
}

const Predicate kOne = word_equals(1);
const Predicate kTwo = word_equals(2);
const Slots kAwaited = word_at(kFlag);
const Slots kSecondAwaited = word_at(kFlag2);
const Slots kCreditAwaited = word_at(kCredit);

// --- Producers and consumers that many bugs share ---

// Waits for the flag, then loads a word of the data.
Program reader(Seen& seen, Address data = kData) {
  return [&seen, data](Core& core) -> emu::Task {
    co_await core.wait_until(kAwaited, kOne, nobody);
    seen.add(core.load<std::uint32_t>(data));
  };
}

std::vector<Bug> bugs() {
  std::vector<Bug> all;
  const auto add = [&all](Bug bug) { all.push_back(std::move(bug)); };

  add({"RemovedFence",
       FindingKind::kUnorderedRead,
       Verb::kLoad,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0, [broken](Core& core) -> emu::Task {
           co_await core.put(1, kData, kSource, 64);
           if (!broken) co_await core.fence();
           co_await core.store(1, kFlag, std::uint32_t{1});
         });
         rig.run(1, reader(seen));
       },
       {7},
       {kNone}});

  add({"FlagBeforeData",
       FindingKind::kUnorderedRead,
       Verb::kLoad,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0, [broken](Core& core) -> emu::Task {
           if (broken) co_await core.store(1, kFlag, std::uint32_t{1});
           co_await core.put(1, kData, kSource, 64);
           if (!broken) co_await core.store(1, kFlag, std::uint32_t{1});
         });
         rig.run(1, [&seen](Core& core) -> emu::Task {
           co_await core.wait_until(kAwaited, kOne, nobody);
           co_await core.compute(kLong);
           seen.add(core.load<std::uint32_t>(kData));
         });
       },
       {7}});

  add({"RemovedSyncAllBeforeTheStatus",
       FindingKind::kUnorderedRead,
       Verb::kLoad,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(
             0,
             [broken](Core& core) -> emu::Task {
               if (core.index() == 1) {
                 co_await core.put(1, kData, kSource, 64);
               } else {
                 co_await core.compute(kLong);
               }
               if (!broken) co_await core.barrier();
               if (core.index() == 0) co_await core.store(1, kFlag, std::uint32_t{1});
             },
             2);
         rig.run(1, reader(seen));
       },
       {7}});

  add({"FlagResetTooEarly",
       FindingKind::kFlagReuse,
       Verb::kWrite,
       Verb::kWait,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0,
                 [](Core& core) -> emu::Task { co_await core.store(1, kFlag, std::uint32_t{1}); });
         rig.run(
             1,
             [&seen, broken](Core& core) -> emu::Task {
               if (core.index() == 0) {
                 co_await core.wait_until(kAwaited, kOne, nobody);
                 seen.add(1);
               } else {
                 co_await core.wait_until(kAwaited, kOne, nobody);
                 co_await core.compute(kLong);
               }
               if (!broken) co_await core.barrier();
               if (core.index() == 1) core.write(kFlag, std::uint32_t{0});
             },
             2);
       },
       {1},
       {},
       {},
       1,
       1});

  add({"FlagResetTooLate",
       FindingKind::kUnorderedOverwrite,
       Verb::kStore,
       Verb::kWrite,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0, [](Core& core) -> emu::Task {
           co_await core.store(1, kFlag, std::uint32_t{1});
           co_await core.wait_until(kCreditAwaited, kOne, nobody);
           co_await core.store(1, kFlag, std::uint32_t{1});
         });
         rig.run(1, [&seen, broken](Core& core) -> emu::Task {
           co_await core.wait_until(kAwaited, kOne, nobody);
           if (!broken) core.write(kFlag, std::uint32_t{0});
           co_await core.store(0, kCredit, std::uint32_t{1});
           if (broken) core.write(kFlag, std::uint32_t{0});
           co_await core.wait_until(kAwaited, kOne, nobody);
           seen.add(1);
         });
       },
       {1},
       {},
       {},
       0,
       1});

  // Two rounds of data and flag into one buffer; the consumer's credit comes in between, or not.
  const auto rounds = [](bool copies) {
    return [copies](Rig& rig, Seen& seen, bool broken) {
      rig.run(0, [broken](Core& core) -> emu::Task {
        for (std::uint32_t round = 1; round <= 2; ++round) {
          co_await core.put(1, kData, kSource, 64);
          co_await core.store(1, round == 1 ? kFlag : kFlag2, std::uint32_t{1});
          co_await core.compute(kLong);
          if (!broken && round == 1) co_await core.wait_until(kCreditAwaited, kOne, nobody);
        }
      });
      rig.run(1, [&seen, copies](Core& core) -> emu::Task {
        for (std::uint32_t round = 1; round <= 2; ++round) {
          const Slots& flag = round == 1 ? kAwaited : kSecondAwaited;
          co_await core.wait_until(flag, kOne, nobody);
          if (copies) {
            co_await core.copy(kOther, kData, 64);
            seen.add(core.load<std::uint32_t>(kOther));
          } else {
            seen.add(core.load<std::uint32_t>(kData));
          }
          co_await core.store(0, kCredit, std::uint32_t{1});
        }
      });
    };
  };
  add({"MissingDoubleBuffer",
       FindingKind::kOverwriteOfRead,
       Verb::kPut,
       Verb::kLoad,
       rounds(false),
       {7, 7},
       {},
       {},
       0,
       1});
  add({"OverwritesABufferStillBeingCopied",
       FindingKind::kOverwriteOfRead,
       Verb::kPut,
       Verb::kCopy,
       rounds(true),
       {7, 7},
       {},
       {},
       0,
       1});

  // T19: signals that add up over rounds. A device that is ahead stands in for one that is late.
  add({"CumulativeSignals",
       FindingKind::kCounterReuse,
       Verb::kAtomicAdd,
       Verb::kWait,
       [](Rig& rig, Seen& seen, bool broken) {
         for (const std::uint32_t sender : {1U, 2U}) {
           rig.run(sender, [broken](Core& core) -> emu::Task {
             co_await core.atomic_add(0, kFlag, 1);
             co_await core.compute(kLong);
             if (!broken) co_await core.wait_until(kCreditAwaited, kOne, nobody);
             co_await core.atomic_add(0, kFlag, 1);
           });
         }
         rig.run(0, [&seen](Core& core) -> emu::Task {
           for (std::uint32_t round = 1; round <= 2; ++round) {
             const Predicate both = word_at_least(2 * round);
             co_await core.wait_until(kAwaited, both, nobody);
             seen.add(round);
             if (round == 2) continue;
             for (const std::uint32_t sender : {1U, 2U})
               co_await core.store(sender, kCredit, std::uint32_t{1});
           }
         });
       },
       {1, 2},
       {},
       {},
       1,
       0});

  add({"FlagReusedWithoutCredit",
       FindingKind::kFlagReuse,
       Verb::kStore,
       Verb::kWait,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0, [broken](Core& core) -> emu::Task {
           co_await core.store(1, kFlag, std::uint32_t{1});
           co_await core.compute(kLong);
           if (!broken) co_await core.wait_until(kCreditAwaited, kOne, nobody);
           co_await core.store(1, kFlag, std::uint32_t{2});
         });
         rig.run(1, [&seen](Core& core) -> emu::Task {
           co_await core.wait_until(kAwaited, kOne, nobody);
           seen.add(1);
           co_await core.store(0, kCredit, std::uint32_t{1});
           co_await core.wait_until(kAwaited, kTwo, nobody);
           seen.add(2);
         });
       },
       {1, 2},
       {},
       {},
       0,
       1});

  add({"SourceReuse",
       FindingKind::kSourceReuse,
       Verb::kWrite,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0, [broken](Core& core) -> emu::Task {
           auto issue = core.put(1, kData, kSource, 64);
           const PutHandle put = co_await issue;
           co_await core.store(1, kFlag, std::uint32_t{1});
           co_await core.compute(kLong);
           if (!broken) co_await core.wait_local(put);
           core.write(kSource, std::uint32_t{9});
         });
         rig.run(1, reader(seen));
       },
       {7},
       {},
       {},
       0,
       0});

  add({"ReadOfUnwrittenMemory",
       FindingKind::kUnwritten,
       Verb::kLoad,
       Verb::kHost,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(1, [&seen, broken](Core& core) -> emu::Task {
           if (!broken) core.write(kData, std::uint32_t{0});
           co_await core.compute(1000);
           seen.add(core.load<std::uint32_t>(kData));
         });
       },
       {0}});

  add({"BarrierMissingBetweenCores",
       FindingKind::kUnorderedRead,
       Verb::kLoad,
       Verb::kWrite,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(
             1,
             [&seen, broken](Core& core) -> emu::Task {
               if (core.index() == 0) core.write(kData, std::uint32_t{5});
               if (broken) {
                 co_await core.compute(kLong);
               } else {
                 co_await core.barrier();
               }
               if (core.index() == 1) seen.add(core.load<std::uint32_t>(kData));
             },
             2);
       },
       {5},
       {},
       {},
       1,
       1});

  add({"SoftFlagMissing",
       FindingKind::kUnorderedRead,
       Verb::kArray,
       Verb::kWrite,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(
             1,
             [&seen, broken](Core& core) -> emu::Task {
               if (core.index() == 0) {
                 core.write(kData, std::uint32_t{5});
                 co_await core.store(core.rank(), kFlag, std::uint32_t{1});
                 co_return;
               }
               if (broken) {
                 co_await core.compute(kLong);
               } else {
                 co_await core.wait_until(kAwaited, kOne, nobody);
               }
               seen.add(core.array<std::uint32_t>(kData, 1)[0]);
             },
             2);
       },
       {5},
       {},
       {},
       1,
       1});

  add({"AcceptWithoutALook",
       FindingKind::kUnproven,
       Verb::kAccept,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0, [](Core& core) -> emu::Task { co_await core.put(1, kData, kSource, 64); });
         rig.run(1, [&seen, broken](Core& core) -> emu::Task {
           co_await core.compute(kLong);
           if (!broken) core.probe(kData + 60, 4);
           core.accept(kData, 64);
           seen.add(core.load<std::uint32_t>(kData));
         });
       },
       {7}});

  add({"TokenFlagOnSmallerBlocks",
       FindingKind::kUnproven,
       Verb::kAccept,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool) {
         rig.run(0, [](Core& core) -> emu::Task { co_await core.put(1, kData, kSource, 512); });
         rig.run(1, [&seen](Core& core) -> emu::Task {
           const Slots tail = word_at(kData + 508);
           const Predicate there = word_equals(7);
           co_await core.wait_until(tail, there, nobody);
           core.accept(kData, 512);
           seen.add(core.load<std::uint32_t>(kData));
         });
       },
       {7},
       {},
       {{"fabric.atomic_block_bytes", "512"}}});

  add({"FenceOfAnotherCore",
       FindingKind::kUnorderedRead,
       Verb::kLoad,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(
             0,
             [broken](Core& core) -> emu::Task {
               const std::uint32_t last = broken ? 0 : 1;
               if (core.index() == 1) co_await core.put(1, kData, kSource, 64);
               co_await core.barrier();
               if (core.index() != last) co_return;
               co_await core.compute(kLong);
               co_await core.fence();
               co_await core.store(1, kFlag, std::uint32_t{1});
             },
             2);
         rig.run(1, reader(seen));
       },
       {7},
       {kCorePair}});

  add({"QuietOfAnotherCore",
       FindingKind::kUnorderedRead,
       Verb::kLoad,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(
             0,
             [broken](Core& core) -> emu::Task {
               if (core.index() == 1) co_await core.put(1, kData, kSource, 64);
               if (core.index() == 1 && !broken) co_await core.quiet();
               co_await core.barrier();
               if (core.index() == 1) co_return;
               co_await core.compute(kLong);
               co_await core.quiet();
               co_await core.store(1, kFlag, std::uint32_t{1});
             },
             2);
         rig.run(1, reader(seen));
       },
       {7},
       {kNone}});

  // Both rows are there when the first is seen; the second was never looked at.
  add({"TakesAPlaceThatTheWaitDidNotSee",
       FindingKind::kUnproven,
       Verb::kAccept,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0, [](Core& core) -> emu::Task {
           co_await core.put(1, kData, kSource, 64);
           co_await core.put(1, kOther, kSource, 64);
         });
         rig.run(1, [&seen, broken](Core& core) -> emu::Task {
           const std::array<Place, 2> places = {Place{kData, 64}, Place{kOther, 64}};
           const auto is_seven = [&core, &places](std::uint32_t place) {
             std::uint32_t word = 0;
             std::memcpy(&word, core.probe(places[place].address, 4).data(), 4);
             return word == 7;
           };
           co_await core.wait_any(places, is_seven, kLong, "a seven", nobody);
           if (!broken) co_await core.wait_all(places, is_seven, kLong, "a seven", nobody);
           for (const Place& each : places) {
             core.accept(each.address, each.bytes);
             seen.add(core.load<std::uint32_t>(each.address));
           }
         });
       },
       {7, 7},
       {kNone}});

  add({"AcknowledgementOfAnotherPut",
       FindingKind::kUnorderedRead,
       Verb::kLoad,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(
             0,
             [broken](Core& core) -> emu::Task {
               if (core.index() == 1) {
                 auto issue_other = core.put(1, kOther, kSource, 64);
                 const PutHandle other = co_await issue_other;
                 auto issue = core.put(1, kData, kSource, 64);
                 const PutHandle data = co_await issue;
                 co_await core.wait_complete(broken ? other : data);
                 co_await core.compute(kLong);
               }
               co_await core.barrier();
               if (core.index() == 0) co_await core.store(1, kFlag, std::uint32_t{1});
             },
             2);
         rig.run(1, reader(seen));
       },
       {7},
       {kNone}});

  add({"ReceivedIsNotVisible",
       FindingKind::kUnorderedRead,
       Verb::kLoad,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool) {
         rig.run(
             0,
             [](Core& core) -> emu::Task {
               if (core.index() == 0) co_await core.put(1, kData, kSource, 64);
               if (core.index() == 0) co_await core.quiet();
               co_await core.barrier();
               if (core.index() == 0) co_return;
               co_await core.compute(kLong);
               co_await core.store(1, kFlag, std::uint32_t{1});
             },
             2);
         rig.run(1, reader(seen));
       },
       {7},
       {kNone, {"fabric.ack_at", "RECEIVED"}},
       {{"fabric.ack_at", "VISIBLE"}}});

  add({"SecondFragmentAsProof",
       FindingKind::kUnorderedRead,
       Verb::kLoad,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0, [](Core& core) -> emu::Task {
           co_await core.put(1, kOther, kSource, 64);
           co_await core.put(1, kData, kSource, 2048);
         });
         rig.run(1, [&seen, broken](Core& core) -> emu::Task {
           const Slots word = word_at(broken ? kData + 2044 : kData);
           const Predicate there = word_equals(7);
           co_await core.wait_until(word, there, nobody);
           seen.add(core.load<std::uint32_t>(kOther));
         });
       },
       {7},
       {{"fabric.order_kind", "FIRST_FRAGMENT"}, {"fabric.packet_bytes", "1024"}}});

  add({"GetBeforeTheSourceIsReady",
       FindingKind::kUnorderedRead,
       Verb::kGet,
       Verb::kWrite,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0, [](Core& core) -> emu::Task {
           core.write(kData, std::uint32_t{5});
           co_await core.store(1, kFlag, std::uint32_t{1});
         });
         rig.run(1, [&seen, broken](Core& core) -> emu::Task {
           if (broken) {
             co_await core.compute(kLong);
           } else {
             co_await core.wait_until(kAwaited, kOne, nobody);
           }
           co_await core.get(0, kData, kOther, 4);
           seen.add(core.load<std::uint32_t>(kOther));
         });
       },
       {5}});

  add({"SourceOfAGetChangesTooEarly",
       FindingKind::kOverwriteOfRead,
       Verb::kWrite,
       Verb::kGet,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0, [broken](Core& core) -> emu::Task {
           co_await core.store(1, kFlag, std::uint32_t{1});
           if (broken) {
             co_await core.compute(kLong);
           } else {
             co_await core.wait_until(kCreditAwaited, kOne, nobody);
           }
           core.write(kSource, std::uint32_t{9});
         });
         rig.run(1, [&seen](Core& core) -> emu::Task {
           co_await core.wait_until(kAwaited, kOne, nobody);
           co_await core.get(0, kSource, kOther, 4);
           co_await core.store(0, kCredit, std::uint32_t{1});
           seen.add(core.load<std::uint32_t>(kOther));
         });
       },
       {7},
       {},
       {},
       0,
       1});

  add({"TwoPutsToOneAddress",
       FindingKind::kUnorderedOverwrite,
       Verb::kPut,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0, [broken](Core& core) -> emu::Task {
           co_await core.put(1, kData, kSource, 64);
           if (!broken) co_await core.fence();
           co_await core.put(1, kData, kSource + 64, 64);
           co_await core.quiet();
           co_await core.store(1, kFlag, std::uint32_t{1});
         });
         rig.run(1, reader(seen));
       },
       {7},
       {kNone},
       {},
       0,
       0});

  add({"CounterReadTooEarly",
       FindingKind::kUnorderedRead,
       Verb::kLoad,
       Verb::kAtomicAdd,
       [](Rig& rig, Seen& seen, bool broken) {
         for (const std::uint32_t sender : {0U, 2U}) {
           rig.run(sender, [](Core& core) -> emu::Task { co_await core.atomic_add(1, kFlag, 1); });
         }
         rig.run(1, [&seen, broken](Core& core) -> emu::Task {
           if (broken) {
             co_await core.compute(kLong);
           } else {
             co_await core.wait_until(kAwaited, kTwo, nobody);
           }
           seen.add(core.load<std::uint32_t>(kFlag));
         });
       },
       {2}});

  add({"DiscardWhileAnotherCoreReads",
       FindingKind::kOverwriteOfRead,
       Verb::kDiscard,
       Verb::kLoad,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(
             1,
             [&seen, broken](Core& core) -> emu::Task {
               if (core.index() == 0) {
                 seen.add(core.load<std::uint32_t>(kSource));
               } else {
                 co_await core.compute(kLong);
               }
               if (!broken) co_await core.barrier();
               if (core.index() == 1) core.discard(kSource, 4096);
             },
             2);
       },
       {7},
       {},
       {},
       1,
       1});

  // Order holds between two devices; the third hears of the flag sooner than of the data.
  add({"FlagByWayOfAnotherDevice",
       FindingKind::kUnorderedRead,
       Verb::kLoad,
       Verb::kPut,
       [](Rig& rig, Seen& seen, bool broken) {
         rig.run(0, [broken](Core& core) -> emu::Task {
           co_await core.put(1, kData, kSource, 64);
           if (!broken) co_await core.quiet();
           co_await core.store(2, kFlag, std::uint32_t{1});
         });
         rig.run(2, [](Core& core) -> emu::Task {
           co_await core.wait_until(kAwaited, kOne, nobody);
           co_await core.store(1, kFlag, std::uint32_t{1});
         });
         rig.run(1, reader(seen));
       },
       {7}});

  return all;
}

class SeededBugs : public testing::TestWithParam<Bug> {
 protected:
  static OrderCheck checked(const Bug& bug, bool broken) {
    constexpr std::uint32_t kRanks = 3;
    Overrides overrides = bug.machine;
    if (!broken) {
      overrides.insert(overrides.end(), bug.repaired_machine.begin(), bug.repaired_machine.end());
    }
    Rig rig(machine("tiny", overrides), kRanks, {}, "packed", 8 << 20, 0, {}, {}, 1 << 20);
    fill_sources(rig, kRanks);
    Seen seen;
    bug.run(rig, seen, broken);
    EXPECT_EQ(rig.go(), "");
    EXPECT_EQ(seen.values, bug.expected) << "this run's timing was to hide it";
    return check_order(rig.cluster());
  }
};

TEST_P(SeededBugs, IsNamedThoughTheValuesAreRight) {
  const Bug& bug = GetParam();
  const OrderCheck check = checked(bug, true);
  ASSERT_TRUE(check.complete);
  ASSERT_FALSE(check.findings.empty());
  std::string texts;
  for (const Finding& finding : check.findings) texts += to_text(finding) + "\n";
  const Finding& finding = check.findings.front();
  RecordProperty("finding", to_text(finding));
  EXPECT_EQ(finding.kind, bug.kind) << texts;
  EXPECT_EQ(to_string(finding.second.verb), std::string(to_string(bug.second))) << texts;
  EXPECT_EQ(finding.second.device, bug.second_device) << texts;
  if (bug.kind == FindingKind::kUnwritten) {
    EXPECT_FALSE(finding.has_first) << texts;
  } else {
    EXPECT_EQ(to_string(finding.first.verb), std::string(to_string(bug.first))) << texts;
    EXPECT_EQ(finding.first.device, bug.first_device) << texts;
  }
}

TEST_P(SeededBugs, IsSilentOnceRepaired) {
  const OrderCheck check = checked(GetParam(), false);
  ASSERT_TRUE(check.complete);
  EXPECT_GT(check.accesses, 0U);
  for (const Finding& finding : check.findings) ADD_FAILURE() << to_text(finding);
}

INSTANTIATE_TEST_SUITE_P(All, SeededBugs, testing::ValuesIn(bugs()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace orrery::devices
