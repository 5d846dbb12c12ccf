// Which Orrery a registration line was compiled for. In the program there is nothing to compare;
// the installed copy of this header holds the stamp of its release and of all installed headers
// (cmake/abi.cmake), so that a plug-in built against other headers is refused, not run.
#pragma once

namespace orrery::moe {

// Not inline: the program exports its inline variables, and a plug-in would find the wrong one.
constexpr char kAbi[] = "built in";

}  // namespace orrery::moe
