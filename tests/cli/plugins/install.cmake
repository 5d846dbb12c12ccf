# Installs the build into a scratch prefix, moves that, and builds the examples outside the tree against it, as a user
# does: a copy of the installed folder, find_package(orrery). Also what must be refused (this folder's CMakeLists.txt).
#   cmake -DBUILD=… -DSOURCE=… -DSCRATCH=… -DGENERATOR=… -DCOMPILER=… -DLAUNCHER=… -P install.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${code}\n${out}")
  endif()
endfunction()

# build(FOLDER DEFINITION…)
function(build folder)
  run(${CMAKE_COMMAND} -S ${folder} -B ${folder}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${SCRATCH}/orrery
      -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
      "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wshadow -Werror" ${ARGN})
  run(${CMAKE_COMMAND} --build ${folder}/build --parallel 2)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/first)
file(RENAME ${SCRATCH}/first ${SCRATCH}/orrery)
file(GLOB_RECURSE texts ${SCRATCH}/orrery/include/* ${SCRATCH}/orrery/lib*/* ${SCRATCH}/orrery/share/*)
foreach(text ${texts})
  file(READ ${text} content)
  foreach(path ${SOURCE} ${BUILD} ${SCRATCH})
    string(FIND "${content}" "${path}/" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${text} names ${path}: it would not do elsewhere")
    endif()
  endforeach()
endforeach()

file(COPY ${SCRATCH}/orrery/share/orrery/examples DESTINATION ${SCRATCH})
build(${SCRATCH}/examples)

# The answer to the third example is a patch: apply it as its page says.
file(COPY ${SCRATCH}/orrery/share/orrery/examples/ DESTINATION ${SCRATCH}/repaired)
execute_process(COMMAND patch small_dispatch.cc 03-answer.patch WORKING_DIRECTORY ${SCRATCH}/repaired
  RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "03-answer.patch does not apply: ${out}")
endif()
file(COPY ${SOURCE}/tests/cli/plugins/ DESTINATION ${SCRATCH}/refused)
build(${SCRATCH}/refused -DREPAIRED=${SCRATCH}/repaired/small_dispatch.cc)
