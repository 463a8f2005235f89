# Installs the runtime as a CMake package: find_package(sluice) gives sluice::sluice.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Target that an application links: every installed library. The name `sluice` itself stays free for
# the command.
add_library(sluice_umbrella INTERFACE)
add_library(sluice::sluice ALIAS sluice_umbrella)
set_target_properties(sluice_umbrella PROPERTIES EXPORT_NAME sluice)
target_link_libraries(sluice_umbrella INTERFACE sluice_optim sluice_engine)
target_compile_features(sluice_umbrella INTERFACE cxx_std_20)

# The umbrella and what it reaches; an export that misses one is an error of CMake.
install(TARGETS sluice_umbrella sluice_optim sluice_engine sluice_core sluice_device sluice_io sluice_xxh3
                sluice_numa sluice_base sluice_headers
        EXPORT sluiceTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT sluiceTargets NAMESPACE sluice:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/sluiceConfig.cmake.in ${CMAKE_BINARY_DIR}/sluiceConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
write_basic_package_version_file(
  ${CMAKE_BINARY_DIR}/sluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/sluiceConfig.cmake ${CMAKE_BINARY_DIR}/sluiceConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)

if(TARGET sluice_command)
  install(TARGETS sluice_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
