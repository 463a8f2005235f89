# Tests: one GoogleTest binary per library, run by ctest in shards.

# Test sources compile at -O1, and at -O0 where a sanitizer watches the libraries: optimising what only
# calls them would take most of the build.
set(SLUICE_TEST_OPTIMISATION $<IF:$<CONFIG:Debug>,,-O1>)
set(SLUICE_TEST_LIBRARY_OPTIMISATION ${SLUICE_TEST_OPTIMISATION})
if(SLUICE_SANITIZE)
  set(SLUICE_TEST_OPTIMISATION -O0)
endif()

# Options that ccache needs to see through a precompiled header.
set(SLUICE_PCH_OPTIONS
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
    "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")

set(SLUICE_SLOW_SUITES "Slow*:*/Slow*")

# _sluice_test_target(TARGET OPTIMISATION): options, packages and folders that all tests share.
function(_sluice_test_target target optimisation)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gmock absl::statusor absl::cord fmt::fmt
                        sluice_warnings)
  target_compile_options(${target} PRIVATE ${optimisation})
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  endif()
endfunction()

# sluice_test(NAME [SLOW] SOURCES a_test.cc ... LINKS targets...
#             [COMPUTES b_test.cc ...] [LABELS runtime threads]
#             [SHARDS n])
#
# One GoogleTest binary. COMPUTES are sources that compute for long, optimised as the libraries are.
# SLOW says that there are suites whose names begin with Slow: they run in the long mode only, without
# sanitizers. Each label has a target tests_LABEL that builds its binaries. NAME is a label, too.
function(sluice_test name)
  cmake_parse_arguments(ARG "SLOW" "SHARDS" "SOURCES;COMPUTES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  _sluice_test_target(${name} "${SLUICE_TEST_OPTIMISATION}")
  target_compile_options(${name} PRIVATE ${SLUICE_PCH_OPTIONS})
  target_precompile_headers(${name} REUSE_FROM sluice_test_headers)
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} sluice_test_support GTest::gtest_main)
  if(ARG_COMPUTES)
    add_library(${name}_computing OBJECT ${ARG_COMPUTES})
    _sluice_test_target(${name}_computing "")
    target_link_libraries(${name}_computing PRIVATE ${ARG_LINKS} sluice_test_support)
    target_link_libraries(${name} PRIVATE ${name}_computing)
  endif()
  foreach(label IN LISTS ARG_LABELS)
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${name})
  endforeach()
  _sluice_test_runs(${name} ${name} "-${SLUICE_SLOW_SUITES}" "unit;${name};${ARG_LABELS}" "${ARG_SHARDS}" 600)
  if(ARG_SLOW AND NOT SLUICE_SANITIZE)
    _sluice_test_runs(${name}_slow ${name} "${SLUICE_SLOW_SUITES}" "slow;${name}" 2 1800)
  endif()
endfunction()

# _sluice_test_runs(RUN BINARY FILTER LABELS SHARDS TIMEOUT): the ctests of the suites that match.
function(_sluice_test_runs run binary filter labels shards timeout)
  # Time limit that a hang exceeds, but no slow machine: sanitizers take up to twenty times as long.
  if(SLUICE_SANITIZE)
    math(EXPR timeout "${timeout} * 3")
  endif()
  if(NOT shards)
    set(shards 1)
  endif()
  foreach(shard RANGE 1 ${shards})
    set(test ${run})
    if(shards GREATER 1)
      set(test ${run}_${shard}_of_${shards})
    endif()
    math(EXPR index "${shard} - 1")
    set(environment "GTEST_TOTAL_SHARDS=${shards}" "GTEST_SHARD_INDEX=${index}")
    if(SLUICE_SANITIZE STREQUAL "thread")
      list(APPEND environment
           "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/tsan_suppressions.txt")
    endif()
    add_test(NAME ${test} COMMAND ${binary} --gtest_brief=1 --gtest_filter=${filter})
    set_tests_properties(${test} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout}
      ENVIRONMENT "${environment}")
  endforeach()
endfunction()

# sluice_test_library(NAME [OBJECT] SOURCES a.cc ... LINKS targets...): what several test binaries share.
# OBJECT is for sources with tests: a binary takes of a static library only what it calls. Sanitizers watch
# them optimised: they simulate and compare for longer than their build takes.
function(sluice_test_library name)
  cmake_parse_arguments(ARG "OBJECT" "" "SOURCES;LINKS" ${ARGN})
  set(kind STATIC)
  if(ARG_OBJECT)
    set(kind OBJECT)
  endif()
  add_library(${name} ${kind} ${ARG_SOURCES})
  _sluice_test_target(${name} "${SLUICE_TEST_LIBRARY_OPTIMISATION}")
  target_link_libraries(${name} PUBLIC ${ARG_LINKS})
  if(NOT name STREQUAL "sluice_test_support")
    target_link_libraries(${name} PUBLIC sluice_test_support)
  endif()
endfunction()
