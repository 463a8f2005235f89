# One library per folder, linked explicitly: the link graph is the layer diagram of ARCHITECTURE.md.

add_library(sluice_warnings INTERFACE)
# Options structs are filled with designated initialisers; what they leave out has its default.
target_compile_options(sluice_warnings INTERFACE -Wall -Wextra -Wconversion -Werror
                       # Sources that are compiled together see each other's names.
                       $<$<NOT:$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wshadow>
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

# A clone in another folder finds what this one compiled: no path of the tree is part of an object.
find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${SLUICE_CCACHE})
endif()
add_compile_options(-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)

# Several sources in one compilation (every preset but dev) take a third of the time. A target whose
# sources have local names in common is SEPARATE.
# GCC collects its garbage at every 128 MiB otherwise, a tenth of the time.
add_compile_options("$<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>")
function(sluice_compile_separately name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
endfunction()

# Sources that are compiled alone even so, by their paths in the tree: scripts/mutants.sh replaces each.
set(SLUICE_SEPARATE_SOURCES "" CACHE STRING "Sources compiled alone, for scripts/mutants.sh")

# sluice_library(NAME [SEPARATE] SOURCES a.cc ... [PUBLIC targets...] [PRIVATE targets...])
function(sluice_library name)
  cmake_parse_arguments(ARG "SEPARATE" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  foreach(source IN LISTS ARG_SOURCES)
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    if(path IN_LIST SLUICE_SEPARATE_SOURCES)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
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

# Adds kernels for GPUs to a target. nvcc compiles them; SOURCE includes headers by their paths in the tree.
set(SLUICE_CUDA_ARCHITECTURES 90 CACHE STRING "Compute capabilities of kernels, the last as PTX, too")
function(sluice_kernels name source)
  set(architectures)
  foreach(each IN LISTS SLUICE_CUDA_ARCHITECTURES)
    list(APPEND architectures -gencode arch=compute_${each},code=sm_${each})
  endforeach()
  list(GET SLUICE_CUDA_ARCHITECTURES -1 last)
  list(APPEND architectures -gencode arch=compute_${last},code=compute_${last})
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++20 -O2 -Xcompiler -fPIC ${architectures}
            -I${CMAKE_SOURCE_DIR} -MD -MF ${object}.d
            -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${source}
    DEPFILE ${object}.d
    COMMENT "Compiling ${source} for ${SLUICE_CUDA_ARCHITECTURES}")
  target_sources(${name} PRIVATE ${object})
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
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
