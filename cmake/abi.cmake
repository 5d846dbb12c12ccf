# The stamp that program and plug-in must share: the release and a digest of all installed headers. Writes
# FOLDER/moe/abi_stamp.h for the program and FOLDER/installed/moe/abi.h, the copy of moe/abi.h for plug-ins.
#   cmake -DSOURCE=… -DFOLDER=… -DVERSION=… -DHEADERS=a.h;b.h -P abi.cmake
set(digests)
foreach(header ${HEADERS})
  file(SHA256 ${SOURCE}/${header} digest)
  string(APPEND digests "${header} ${digest}\n")
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 12 digest)
set(stamp "${VERSION}-${digest}")

file(CONFIGURE OUTPUT ${FOLDER}/moe/abi_stamp.h CONTENT [[
// Made by cmake/abi.cmake.
#pragma once

namespace orrery::moe {

constexpr char kAbiStamp[] = "@stamp@";

}  // namespace orrery::moe
]] @ONLY)

file(READ ${SOURCE}/moe/abi.h text)
string(REPLACE "\"built in\"" "\"${stamp}\"" stamped "${text}")
if(stamped STREQUAL text)
  message(FATAL_ERROR "moe/abi.h has no \"built in\" to replace")
endif()
file(CONFIGURE OUTPUT ${FOLDER}/installed/moe/abi.h CONTENT "${stamped}" @ONLY)
