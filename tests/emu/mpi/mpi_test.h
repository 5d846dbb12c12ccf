// What the tests that run under mpirun share: one group of processes, one transport by name, one
// verdict.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "emu/process_group.h"
#include "emu/transport.h"

namespace orrery::emu {

/// A test on all processes at once. Every process must go through the same collective calls
/// whatever it finds: use EXPECT, never ASSERT, once a transport exists.
class MpiTest : public testing::Test {
 public:
  /// Set once by main() before any test runs.
  static const ProcessGroup* group;
  static std::string transport_name;

 protected:
  static const ProcessGroup& processes() { return *group; }
  static int rank() { return group->rank(); }
  static int size() { return group->size(); }
  static std::unique_ptr<Transport> make() { return make_transport(transport_name, *group); }
};

}  // namespace orrery::emu
