# One library per folder, linked explicitly: the link graph is the layer diagram of ARCHITECTURE.md.

add_library(sluice_warnings INTERFACE)
# Options structs are filled with designated initialisers; what they leave out has its default.
target_compile_options(sluice_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow -Werror
                       -Wno-missing-field-initializers
                       # A false alarm at "text" + std::to_string(i) (GCC bug 105651).
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                       $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety$<SEMICOLON>-Wno-sign-conversion>)
if(SLUICE_SANITIZE)
  # Address finds what null and object-size would; vptr is about casts that are not made here.
  add_compile_options(-fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all -fno-sanitize=null,object-size,vptr)
  add_link_options(-fsanitize=${SLUICE_SANITIZE})
endif()

find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SLUICE_CCACHE})
endif()

# Several sources in one compilation (every preset but dev) take half the time. A target whose
# sources have local names in common is SEPARATE.
if(CMAKE_UNITY_BUILD)
  add_compile_options(-Wno-shadow)
endif()
function(sluice_compile_separately name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
endfunction()

# sluice_library(NAME [SEPARATE] SOURCES a.cc ... [PUBLIC targets...] [PRIVATE targets...])
function(sluice_library name)
  cmake_parse_arguments(ARG "SEPARATE" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  string(REGEX REPLACE "^sluice_" "" short ${name})
  add_library(sluice::${short} ALIAS ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${short})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE}
                        $<BUILD_INTERFACE:sluice_warnings>)
  if(ARG_SEPARATE)
    sluice_compile_separately(${name})
  endif()
endfunction()

# sluice_executable(NAME OUTPUT file SOURCES a.cc ... LINKS targets...)
function(sluice_executable name)
  cmake_parse_arguments(ARG "" "OUTPUT" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  if(ARG_OUTPUT)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT})
  endif()
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} sluice_warnings)
endfunction()

# sluice_test(NAME [SEPARATE] [COMPUTES] SOURCES a_test.cc ... LINKS targets... [LABELS unit sim slow root])
# One gtest binary, run as one ctest. Slow ones run without sanitizers only.
function(sluice_test name)
  cmake_parse_arguments(ARG "SEPARATE;COMPUTES" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(SLUICE_SANITIZE AND "slow" IN_LIST ARG_LABELS)
    return()
  endif()
  sluice_executable(${name} SOURCES ${ARG_SOURCES}
                    LINKS ${ARG_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  # A sanitizer watches the libraries; optimising what calls them would take most of the build, but
  # where the test itself computes (COMPUTES).
  if(SLUICE_SANITIZE AND NOT ARG_COMPUTES)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  # The sources of a test are compiled together, but while one works on them.
  if(ARG_SEPARATE)
    sluice_compile_separately(${name})
  elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON)
    target_compile_options(${name} PRIVATE -Wno-shadow)
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  # For a hang, not for a slow machine: sanitizers take up to twenty times as long.
  if(SLUICE_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 3")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
