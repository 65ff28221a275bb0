# One folder below src/ is one module is one static library.
#
#   coxswain_add_module(kvcache
#     SOURCES block_pool.cc prefix_index.cc
#     PUBLIC  base              # modules our headers include
#     PRIVATE telemetry         # modules only our .cc files include
#     LIBS    PkgConfig::XXHASH # third-party libraries of our .cc files
#     TESTS   block_pool_test.cc prefix_index_test.cc
#     TEST_MODULES json         # modules only our tests include
#     TEST_LIBS    rapidcheck)
#
# scripts/check_layers.py reads these rows and compares every #include with them; keep the
# keywords and names literal. A module without SOURCES is header-only.

function(coxswain_add_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE;LIBS;PUBLIC_LIBS;TESTS;TEST_MODULES;TEST_LIBS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "coxswain_add_module(${name}): unknown words ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  set(target coxswain_${name})
  # What CoxswainLibrary.cmake gathers.
  set_property(GLOBAL PROPERTY coxswain_${name}_modules ${ARG_PUBLIC} ${ARG_PRIVATE})
  set_property(GLOBAL PROPERTY coxswain_${name}_libs ${ARG_LIBS} ${ARG_PUBLIC_LIBS})
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    set(scope PUBLIC)
    set(inner PRIVATE)
    target_link_libraries(${target} PRIVATE coxswain_warnings Threads::Threads ${ARG_LIBS})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
    set(inner INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  if(ARG_PUBLIC_LIBS)
    target_link_libraries(${target} ${scope} ${ARG_PUBLIC_LIBS})
  endif()
  foreach(module IN LISTS ARG_PUBLIC)
    target_link_libraries(${target} ${scope} coxswain_${module})
  endforeach()
  foreach(module IN LISTS ARG_PRIVATE)
    target_link_libraries(${target} ${inner} coxswain_${module})
  endforeach()

  if(COXSWAIN_BUILD_TESTS AND ARG_TESTS)
    set(test ${target}_test)
    add_executable(${test} ${ARG_TESTS})
    target_link_libraries(${test} PRIVATE ${target} coxswain_warnings GTest::gtest_main GTest::gmock ${ARG_TEST_LIBS})
    foreach(module IN LISTS ARG_TEST_MODULES)
      target_link_libraries(${test} PRIVATE coxswain_${module})
    endforeach()
    target_include_directories(${test} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    if(COXSWAIN_SANITIZE)
      # A third of the time that it takes to build; what tests look at is optimised as ever.
      target_compile_options(${test} PRIVATE -O0)
    endif()
    add_test(NAME ${name} COMMAND ${test} --gtest_brief=1)
    set_tests_properties(${name} PROPERTIES TIMEOUT 900
      ENVIRONMENT "COXSWAIN_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
  endif()
endfunction()

# coxswain_add_program(text-generation-router SOURCES text_generation_router.cc MODULES router options)
#
# Every program prints its help for --help and -h and exits 0 (test help_NAME).
function(coxswain_add_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;MODULES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE coxswain_warnings ${ARG_LIBS})
  foreach(module IN LISTS ARG_MODULES)
    target_link_libraries(${name} PRIVATE coxswain_${module})
  endforeach()
  if(COXSWAIN_BUILD_TESTS)
    add_test(NAME help_${name} COMMAND ${CMAKE_SOURCE_DIR}/scripts/check_help.py $<TARGET_FILE:${name}>)
  endif()
endfunction()
