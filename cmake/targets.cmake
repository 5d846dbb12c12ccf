# Compiler flags and the rules that make one library, or one test program, of a folder.
add_library(orrery_flags INTERFACE)
target_include_directories(orrery_flags INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}>)
# R7: the same numbers on every host, so no fused multiply-add and no value-changing optimisation.
target_compile_options(orrery_flags INTERFACE -Wall -Wextra -Wshadow -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlaps in std::string that are not there (GCC bug 105651).
  target_compile_options(orrery_flags INTERFACE -Wno-restrict)
endif()
target_compile_definitions(orrery_flags INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
if(ORRERY_WERROR)
  target_compile_options(orrery_flags INTERFACE -Werror)
endif()
if(ORRERY_MARCH AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(orrery_flags INTERFACE -march=${ORRERY_MARCH})
endif()
if(ORRERY_SANITIZE)
  target_compile_options(orrery_flags INTERFACE -fsanitize=${ORRERY_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(orrery_flags INTERFACE -fsanitize=${ORRERY_SANITIZE})
  if(ORRERY_SANITIZE MATCHES "undefined")
    target_compile_options(orrery_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()

# orrery_library(NAME [OBJECT] [EXCEPT FILE] DEPENDS …): all of NAME/**.cc and NAME/**.proto as orrery_NAME, but
# for FILE. OBJECT keeps every object in a program, also those that only register themselves.
function(orrery_library name)
  cmake_parse_arguments(ARG "OBJECT" "EXCEPT" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/examples/")
  if(ORRERY_FUZZ)
    # Parsers know no algorithm and no command, and clang takes minutes for all of them.
    list(FILTER sources EXCLUDE REGEX "/moe/algorithms/|/cli/.*_command.cc")
  endif()
  file(GLOB_RECURSE protos CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${name}/*.proto)
  if(ARG_EXCEPT)
    list(REMOVE_ITEM sources ${CMAKE_SOURCE_DIR}/${name}/${ARG_EXCEPT})
  endif()
  set(generated)
  foreach(proto ${protos})
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    set(out ${CMAKE_BINARY_DIR}/${stem}.pb.cc ${CMAKE_BINARY_DIR}/${stem}.pb.h)
    add_custom_command(OUTPUT ${out}
      COMMAND protobuf::protoc --cpp_out=${CMAKE_BINARY_DIR} -I${CMAKE_SOURCE_DIR} -I${Protobuf_INCLUDE_DIRS}
              ${CMAKE_SOURCE_DIR}/${proto}
      DEPENDS ${CMAKE_SOURCE_DIR}/${proto} VERBATIM)
    list(APPEND generated ${out})
    set_source_files_properties(${CMAKE_BINARY_DIR}/${stem}.pb.cc PROPERTIES
      COMPILE_OPTIONS "-Wno-shadow;-Wno-unused-parameter;-Wno-array-bounds")
  endforeach()
  if(ARG_OBJECT)
    add_library(orrery_${name} OBJECT ${sources} ${generated})
  else()
    add_library(orrery_${name} STATIC ${sources} ${generated})
  endif()
  if(generated)
    add_custom_target(orrery_${name}_protos DEPENDS ${generated})
    add_dependencies(orrery_${name} orrery_${name}_protos)
  endif()
  target_link_libraries(orrery_${name} PUBLIC orrery_flags Threads::Threads ${ARG_DEPENDS})
  foreach(dependency ${ARG_DEPENDS})
    if(TARGET ${dependency}_protos)
      add_dependencies(orrery_${name} ${dependency}_protos)
    endif()
  endforeach()
  set_target_properties(orrery_${name} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

# Tests are compiled in half the time where they are optimised less, under sanitizers not at all; what they test is.
function(orrery_test_options target)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -O1 -foptimize-sibling-calls)
  elseif(ORRERY_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# Precompiles, for a program of tests, GoogleTest's headers and the given ones of the project.
function(orrery_precompile target)
  if(NOT ORRERY_PRECOMPILE)
    return()
  endif()
  # GCC forgets with a precompiled header what is a system's, and warns of its inlined code.
  target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/)
  target_precompile_headers(${target} PRIVATE <gmock/gmock.h> <gtest/gtest.h> ${ARGN})
endfunction()

# orrery_tests(NAME [SHARDS N] [PRECOMPILE HEADER]): tests/NAME/*_test.cc as one GoogleTest program; HEADER is what most of
# them include. ctest discovers every test, or deals them to N processes: starting a process takes longer than most of
# these tests.
function(orrery_tests name)
  cmake_parse_arguments(ARG "" "SHARDS;PRECOMPILE" "" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*_test.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(orrery_${name}_tests ${sources})
  target_link_libraries(orrery_${name}_tests PRIVATE orrery_${name} GTest::gmock GTest::gtest GTest::gtest_main)
  orrery_test_options(orrery_${name}_tests)
  orrery_precompile(orrery_${name}_tests ${ARG_PRECOMPILE})
  set(environment)
  if(ORRERY_SANITIZE MATCHES "thread")
    # UCX's memory hooks would run in threads that the sanitizer has already left.
    set(environment UCX_MEM_EVENTS=no)
  endif()
  if(NOT ARG_SHARDS)
    gtest_discover_tests(orrery_${name}_tests DISCOVERY_TIMEOUT 60 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                         PROPERTIES TIMEOUT 300 ENVIRONMENT "${environment}")
    return()
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(test ${name}.tests.${shard})
    add_test(NAME ${test} COMMAND orrery_${name}_tests --gtest_brief=1 WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${test} PROPERTIES TIMEOUT 600
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard};${environment}")
  endforeach()
endfunction()
