# What `cmake --install` puts beside the program: headers, the CMake package `orrery` and the examples, so that an
# algorithm can be written outside this tree. Nothing installed names a path of the build.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(include_folder ${CMAKE_INSTALL_INCLUDEDIR}/orrery)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/orrery)
set(floors emu fabric devices moe)

# Only the engine itself needs these: they include MPI, UCX or libfabric.
set(internal "(/transports/|/examples/|/mpi_check\\.h$)")
set(headers)
foreach(folder ${floors})
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
       ${CMAKE_SOURCE_DIR}/${folder}/*.h ${CMAKE_SOURCE_DIR}/${folder}/*.proto)
  list(FILTER found EXCLUDE REGEX ${internal})
  list(APPEND headers ${found})
endforeach()

set(abi_headers ${headers})
list(TRANSFORM abi_headers PREPEND ${CMAKE_SOURCE_DIR}/)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/abi.done
  BYPRODUCTS ${CMAKE_BINARY_DIR}/moe/abi_stamp.h ${CMAKE_BINARY_DIR}/installed/moe/abi.h
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DFOLDER=${CMAKE_BINARY_DIR} -DVERSION=${PROJECT_VERSION}
          "-DHEADERS=${headers}" -P ${CMAKE_SOURCE_DIR}/cmake/abi.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/abi.done
  DEPENDS ${abi_headers} ${CMAKE_SOURCE_DIR}/cmake/abi.cmake VERBATIM)
add_custom_target(orrery_abi DEPENDS ${CMAKE_BINARY_DIR}/abi.done)
add_dependencies(orrery_moe orrery_abi)

# orrery::orrery: nothing to link, only how to compile. Protobuf is there for the headers of the schemas.
add_library(orrery_package INTERFACE)
set_target_properties(orrery_package PROPERTIES EXPORT_NAME orrery)
target_include_directories(orrery_package INTERFACE $<INSTALL_INTERFACE:${include_folder}>)
target_compile_features(orrery_package INTERFACE cxx_std_20)
target_compile_options(orrery_package INTERFACE -ffp-contract=off)
target_link_libraries(orrery_package INTERFACE protobuf::libprotobuf)
install(TARGETS orrery_package EXPORT orreryTargets)
install(EXPORT orreryTargets NAMESPACE orrery:: DESTINATION ${package_folder})

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/orreryConfig.cmake.in
  ${CMAKE_BINARY_DIR}/orreryConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/orreryConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/orreryConfig.cmake ${CMAKE_BINARY_DIR}/orreryConfigVersion.cmake
        DESTINATION ${package_folder})

foreach(header ${headers})
  if(header MATCHES "\\.proto$")
    string(REGEX REPLACE "\\.proto$" ".pb.h" header ${header})
    set(from ${CMAKE_BINARY_DIR})
  elseif(header STREQUAL "moe/abi.h")
    set(from ${CMAKE_BINARY_DIR}/installed)
  else()
    set(from ${CMAKE_SOURCE_DIR})
  endif()
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${from}/${header} DESTINATION ${include_folder}/${folder})
endforeach()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/moe/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/orrery
        PATTERN build EXCLUDE)
