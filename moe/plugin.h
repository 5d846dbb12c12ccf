// A plug-in: a shared library whose registration lines add algorithms to the program.
//
// It is built against an installed Orrery (find_package(orrery), moe/examples/) and holds no engine
// of its own: what it calls is resolved from the program that loads it.
#pragma once

#include <string>

namespace orrery::moe {

/// Loads `file` unless it is loaded already; it stays loaded. Throws ConfigError (naming --plugin
/// and the file) if it does not load, was built against another Orrery, registers nothing or a
/// taken name.
void load_plugin(const std::string& file);

/// The stamp that a plug-in must have been built against.
std::string plugin_abi();

}  // namespace orrery::moe
