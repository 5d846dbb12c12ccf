// A litmus program: a few lines for a few devices, the outcomes that it tells apart, and which of
// them a fabric allows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emu/task.h"
#include "fabric/fabric.pb.h"
#include "litmus/scene.h"

namespace orrery::litmus {

/// What a fabric's rules make of a program.
struct Verdict {
  std::vector<bool> allowed;  // by outcome
  std::string because;        // the rule, in a line
};

struct Program {
  std::string name;
  std::string question;  // in a line
  std::uint32_t devices = 2;
  std::uint32_t cores = 1;  // of each device
  std::vector<std::string> outcomes;
  /// Runs on every core of the program's devices and notes what it sees.
  emu::Task (*code)(Core&, Scene&);
  /// What the fabric allows, from its parameters alone.
  Verdict (*judge)(const fabric::Fabric&);
  /// The outcome by what was noted; by default the first note is its number.
  int (*outcome)(const Scene&) = [](const Scene& scene) { return scene.noted(); };
  /// Runs on one core of each device when the fabric has long been silent: looks at what remained.
  emu::Task (*after)(Core&, Scene&) = nullptr;
};

/// All programs, family by family, in the order in which they are printed. A new family is a file
/// in programs/, and a line here and in programs.cc.
const std::vector<Program>& programs();

// The families.
std::vector<Program> message_passing();
std::vector<Program> counts();
std::vector<Program> blocks();
std::vector<Program> same_address();
std::vector<Program> reading_back();

}  // namespace orrery::litmus
