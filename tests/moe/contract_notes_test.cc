#include "moe/contract_notes.h"

#include <gmock/gmock.h>

#include "tests/moe/runs.h"

namespace orrery::moe {
namespace {

using fabric::Fabric;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Order = Contract::Order;

Fabric fabric_of(Fabric::OrderScope scope, std::uint32_t block,
                 Fabric::OrderKind kind = Fabric::WHOLE) {
  Fabric fabric;
  fabric.set_order_scope(scope);
  fabric.set_order_kind(kind);
  fabric.set_atomic_block_bytes(block);
  return fabric;
}

TEST(ContractNotes, NothingWhereTheFabricGivesEnough) {
  for (const Order order : {Order::kNone, Order::kCorePair, Order::kDevicePair}) {
    EXPECT_THAT(contract_notes("a", {order, 512}, fabric_of(Fabric::DEVICE_PAIR, 512)), IsEmpty());
  }
  EXPECT_THAT(contract_notes("a", {Order::kCorePair, 8}, fabric_of(Fabric::CORE_PAIR, 8)),
              IsEmpty());
  EXPECT_THAT(contract_notes("a", {Order::kCorePair, 8}, fabric_of(Fabric::QUEUE_PAIR, 16)),
              IsEmpty());
  EXPECT_THAT(contract_notes("a", {}, fabric_of(Fabric::NONE, 1, Fabric::FIRST_FRAGMENT)),
              IsEmpty());
}

TEST(ContractNotes, SayWhatIsMissing) {
  EXPECT_THAT(contract_notes("ubep", {Order::kNone, 512}, fabric_of(Fabric::NONE, 64)),
              ElementsAre("ubep relies on atomic blocks of 512 bytes; this fabric gives 64: expect "
                          "torn reads"));
  EXPECT_THAT(contract_notes("a", {Order::kDevicePair, 8}, fabric_of(Fabric::NONE, 4)),
              ElementsAre("a relies on order between the puts of all cores of a device to one "
                          "device; this fabric orders no puts: expect flags before their data",
                          HasSubstr("atomic blocks of 8 bytes; this fabric gives 4")));
  EXPECT_THAT(contract_notes("a", {Order::kDevicePair, 8}, fabric_of(Fabric::CORE_PAIR, 8)),
              ElementsAre(HasSubstr("this fabric orders only those of one core")));
  EXPECT_THAT(contract_notes("a", {Order::kCorePair, 8}, fabric_of(Fabric::NONE, 8)),
              ElementsAre(HasSubstr("relies on order between the puts of one core to one device")));
  EXPECT_THAT(contract_notes("a", {Order::kCorePair, 8},
                             fabric_of(Fabric::DEVICE_PAIR, 8, Fabric::FIRST_FRAGMENT)),
              ElementsAre(HasSubstr("orders only the first fragment")));
}

TEST(ContractNotes, StandInTheResultOfARunThatIsNoErrorForIt) {
  const Settings less = {{"fabric.order_scope", "NONE"}, {"fabric.atomic_block_bytes", "4"}};
  EXPECT_THAT(good_run(shipped_run("tiny", "cann-bsp", 4)).notes(), IsEmpty());
  EXPECT_THAT(run_alone(shipped_run("tiny", "cann-bsp", 4, less)).result.notes(),
              ElementsAre(HasSubstr("cann-bsp relies on order between"),
                          HasSubstr("cann-bsp relies on atomic blocks of 8 bytes")));
}

}  // namespace
}  // namespace orrery::moe
