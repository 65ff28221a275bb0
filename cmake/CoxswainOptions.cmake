# Language level, warnings and sanitizers, the same for every target of the project.

option(COXSWAIN_WERROR "Warnings are errors" ON)
option(COXSWAIN_BUILD_TESTS "Build the unit tests" ON)
option(COXSWAIN_BUILD_BENCH "Build the benchmarks" ON)
option(COXSWAIN_UCX "KV blocks between machines by UCX, where --kv-ucx-networks allows it (libucx-dev)" OFF)
option(COXSWAIN_FUZZ "Build the libFuzzer targets only (clang)" OFF)
set(COXSWAIN_SANITIZE "" CACHE STRING "Sanitizers for every target: address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

find_package(Threads REQUIRED)

# Every binary must start on any x86-64-v2 machine; faster code is chosen at run time.
add_compile_options(-march=x86-64-v2 -fno-omit-frame-pointer)
# a*b+c is never contracted behind our back: the order and rounding of sums is part of law 1.
add_compile_options(-ffp-contract=off)

add_library(coxswain_warnings INTERFACE)
target_compile_options(coxswain_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 at -O3 warns falsely on string concatenation.
  target_compile_options(coxswain_warnings INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Part of -Wconversion in clang, not in g++.
  target_compile_options(coxswain_warnings INTERFACE -Wno-sign-conversion -Wno-implicit-int-float-conversion)
endif()
if(COXSWAIN_WERROR)
  target_compile_options(coxswain_warnings INTERFACE -Werror)
endif()

if(COXSWAIN_SANITIZE)
  add_compile_options(-fsanitize=${COXSWAIN_SANITIZE})
  add_link_options(-fsanitize=${COXSWAIN_SANITIZE})
  if(COXSWAIN_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=all)
  endif()
  if(COXSWAIN_SANITIZE MATCHES "thread")
    # g++ 12 refuses the fences of Asio under the thread sanitizer.
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

if(COXSWAIN_FUZZ)
  # Coverage of our own code; the targets themselves bring the engine (tests/fuzz).
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
