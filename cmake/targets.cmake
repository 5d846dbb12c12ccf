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
  target_compile_options(orrery_flags INTERFACE -fsanitize=${ORRERY_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(orrery_flags INTERFACE -fsanitize=${ORRERY_SANITIZE})
  if(ORRERY_SANITIZE MATCHES "undefined")
    target_compile_options(orrery_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()

# orrery_library(NAME [OBJECT] DEPENDS …): all of NAME/**.cc and NAME/**.proto as orrery_NAME. OBJECT keeps
# every object in a program, also those that only register themselves.
function(orrery_library name)
  cmake_parse_arguments(ARG "OBJECT" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/examples/")
  file(GLOB_RECURSE protos CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${name}/*.proto)
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

# orrery_tests(NAME): tests/NAME/*_test.cc as one GoogleTest program that ctest discovers.
function(orrery_tests name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*_test.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(orrery_${name}_tests ${sources})
  target_link_libraries(orrery_${name}_tests PRIVATE orrery_${name} GTest::gmock GTest::gtest GTest::gtest_main)
  gtest_discover_tests(orrery_${name}_tests PROPERTIES TIMEOUT 300 DISCOVERY_TIMEOUT 60
                       WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endfunction()
