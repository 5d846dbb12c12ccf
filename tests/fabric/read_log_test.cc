#include "fabric/read_log.h"

#include <gtest/gtest.h>

namespace orrery::fabric {
namespace {

Packet put_issued_at(emu::Time issued) {
  Packet packet;
  packet.source = 3;
  packet.core = 5;
  packet.issued = issued;
  return packet;
}

TEST(ReadLog, AClaimWhileAPutIsUnderWayIsTorn) {
  ReadLog log;
  log.claim(100, 50, 7, 20);
  const auto torn = log.shown(0, 1000, put_issued_at(10), 30);
  ASSERT_TRUE(torn);
  EXPECT_EQ(torn->address, 100u);
  EXPECT_EQ(torn->bytes, 50u);
  EXPECT_EQ(torn->writer, 3u);
  EXPECT_EQ(torn->writer_core, 5u);
  EXPECT_EQ(torn->reader_core, 7u);
  EXPECT_EQ(torn->issued, 10);
  EXPECT_EQ(torn->read, 20);
  EXPECT_EQ(torn->visible, 30);
}

TEST(ReadLog, OutsideThatTimeIsNot) {
  for (const auto& [claim, torn] :
       {std::pair{10, false}, std::pair{11, true}, std::pair{29, true}, std::pair{30, false}}) {
    ReadLog log;
    log.claim(100, 50, 0, claim);
    EXPECT_EQ(log.shown(100, 50, put_issued_at(10), 30).has_value(), torn) << claim;
  }
}

TEST(ReadLog, OverlapsByASingleByte) {
  for (const auto& [address, bytes, torn] :
       {std::tuple{0, 100, false}, std::tuple{0, 101, true}, std::tuple{149, 1, true},
        std::tuple{150, 10, false}, std::tuple{120, 1, true}, std::tuple{0, 1000, true}}) {
    ReadLog log;
    log.claim(100, 50, 0, 20);
    EXPECT_EQ(log.shown(static_cast<Address>(address), static_cast<std::uint64_t>(bytes),
                        put_issued_at(10), 30)
                  .has_value(),
              torn)
        << address << "+" << bytes;
  }
}

TEST(ReadLog, ALaterClaimReplacesWhatItCovers) {
  ReadLog log;
  log.claim(100, 100, 0, 20);
  log.claim(140, 20, 1, 40);  // in the middle
  EXPECT_TRUE(log.shown(100, 40, put_issued_at(10), 30));
  EXPECT_FALSE(log.shown(140, 20, put_issued_at(10), 30));
  EXPECT_TRUE(log.shown(160, 40, put_issued_at(10), 30));
  EXPECT_TRUE(log.shown(140, 20, put_issued_at(35), 50));
}

TEST(ReadLog, TheSameRangeAgain) {
  ReadLog log;
  for (emu::Time time = 0; time < 100; time += 10) log.claim(100, 100, 0, time);
  EXPECT_FALSE(log.shown(100, 100, put_issued_at(10), 80));
  EXPECT_TRUE(log.shown(100, 100, put_issued_at(10), 95));
}

TEST(ReadLog, ReportsTheEarliestOfSeveral) {
  ReadLog log;
  log.claim(100, 10, 1, 25);
  log.claim(200, 10, 2, 15);
  log.claim(300, 10, 3, 20);
  EXPECT_EQ(log.shown(0, 1000, put_issued_at(10), 30)->reader_core, 2u);
}

TEST(ReadLog, DiscardedRangesUntilWritten) {
  ReadLog log;
  EXPECT_FALSE(log.is_discarded(0, 1000));
  log.discard(100, 100);
  EXPECT_TRUE(log.is_discarded(0, 101));
  EXPECT_FALSE(log.is_discarded(0, 100));
  EXPECT_TRUE(log.is_discarded(199, 1));
  EXPECT_FALSE(log.is_discarded(200, 1));
  log.written(120, 40);
  EXPECT_FALSE(log.is_discarded(120, 40));
  EXPECT_TRUE(log.is_discarded(119, 1));
  EXPECT_TRUE(log.is_discarded(160, 1));
  log.written(0, 1000);
  EXPECT_FALSE(log.is_discarded(0, 1000));
}

}  // namespace
}  // namespace orrery::fabric
