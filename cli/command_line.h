// Names of the command line's library for headers that only pass them on: CLI11's own header takes
// seconds to compile.
#pragma once

namespace CLI {
class App;
class ParseError;
}  // namespace CLI
