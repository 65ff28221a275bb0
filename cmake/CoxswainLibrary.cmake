# libcoxswain, static and shared: the modules that implement the public headers (ROOTS) and all that they use.
#
#   coxswain_add_library(ROOTS library manager)
#
# Nothing is compiled for it: both are made of the modules' objects, which are position-independent already. The archive holds the
# objects of every module. The shared library is linked from the archives, whose symbols it hides; the roots are compiled with hidden
# visibility and show what says COXSWAIN_EXPORT (docs/adr/0043-one-library-of-module-objects.md).
#
# Installed, as component `library` of the install: both libraries, headers, CMake package files (targets Coxswain::engine_shared,
# Coxswain::engine_static, Coxswain::engine) and coxswain.pc. All of them may be moved.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# What a module of the library may link, and the name that pkg-config knows it by; - needs nothing when a program is linked.
set(coxswain_pkg_Boost::headers -)
set(coxswain_pkg_PkgConfig::PCRE2 libpcre2-8)
set(coxswain_pkg_PkgConfig::SIMDJSON simdjson)
set(coxswain_pkg_PkgConfig::UTF8PROC libutf8proc)
set(coxswain_pkg_PkgConfig::XXHASH libxxhash)
set(coxswain_pkg_PkgConfig::ZSTD libzstd)

# coxswain_gather(MODULES PACKAGES ROOT...): the modules that the roots use, themselves included, and what those link.
function(coxswain_gather modules_out packages_out)
  set(open ${ARGN})
  set(modules "")
  set(packages "")
  while(open)
    list(POP_FRONT open name)
    if(NOT name IN_LIST modules)
      list(APPEND modules ${name})
      get_property(used GLOBAL PROPERTY coxswain_${name}_modules)
      list(APPEND open ${used})
      get_property(libs GLOBAL PROPERTY coxswain_${name}_libs)
      foreach(lib IN LISTS libs)
        if(NOT DEFINED coxswain_pkg_${lib})
          message(FATAL_ERROR "module ${name} links ${lib}, which libcoxswain may not (cmake/CoxswainLibrary.cmake)")
        endif()
        list(APPEND packages ${coxswain_pkg_${lib}})
      endforeach()
    endif()
  endwhile()
  list(REMOVE_ITEM packages -)
  list(REMOVE_DUPLICATES packages)
  set(${modules_out} ${modules} PARENT_SCOPE)
  set(${packages_out} ${packages} PARENT_SCOPE)
endfunction()

# coxswain_library_kind(TARGET KIND LINKED...): what the two libraries have in common.
function(coxswain_library_kind target kind)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME coxswain EXPORT_NAME engine_${kind} LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS ${target} EXPORT Coxswain-${kind} COMPONENT library
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT Coxswain-${kind} NAMESPACE Coxswain:: FILE Coxswain-${kind}.cmake COMPONENT library
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Coxswain)
endfunction()

# coxswain_package_files(PACKAGES): headers and the files by which CMake and pkg-config find the library.
function(coxswain_package_files packages)
  set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/Coxswain)
  list(JOIN packages " " COXSWAIN_PACKAGES)
  file(RELATIVE_PATH COXSWAIN_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" COXSWAIN_PC_TO_PREFIX ${COXSWAIN_PC_TO_PREFIX})
  configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/CoxswainConfig.cmake.in ${CMAKE_BINARY_DIR}/CoxswainConfig.cmake
    INSTALL_DESTINATION ${folder})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/CoxswainConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/coxswain.pc.in ${CMAKE_BINARY_DIR}/coxswain.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/CoxswainConfig.cmake ${CMAKE_BINARY_DIR}/CoxswainConfigVersion.cmake
    DESTINATION ${folder} COMPONENT library)
  install(FILES ${CMAKE_BINARY_DIR}/coxswain.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/coxswain DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library FILES_MATCHING PATTERN "*.h")
endfunction()

function(coxswain_add_library)
  cmake_parse_arguments(ARG "" "" "ROOTS" ${ARGN})
  coxswain_gather(modules packages ${ARG_ROOTS})
  set(root_objects "")
  foreach(name IN LISTS ARG_ROOTS)
    list(APPEND root_objects $<TARGET_OBJECTS:coxswain_${name}>)
    set_target_properties(coxswain_${name} PROPERTIES
      C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  endforeach()
  set(archives "")
  set(all_objects "")
  foreach(name IN LISTS modules)
    get_target_property(type coxswain_${name} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND archives coxswain_${name})
      list(APPEND all_objects $<TARGET_OBJECTS:coxswain_${name}>)
    endif()
  endforeach()

  set(symbols ${CMAKE_SOURCE_DIR}/cmake/libcoxswain.map)
  add_library(coxswain_engine_shared SHARED ${root_objects})
  target_link_libraries(coxswain_engine_shared PRIVATE ${archives} Threads::Threads)
  target_link_options(coxswain_engine_shared PRIVATE
    -Wl,--exclude-libs,ALL -Wl,--version-script,${symbols} -Wl,--no-undefined -Wl,--as-needed)
  set_target_properties(coxswain_engine_shared PROPERTIES LINK_DEPENDS ${symbols})
  coxswain_library_kind(coxswain_engine_shared shared)

  add_library(coxswain_engine_static STATIC ${all_objects})
  coxswain_library_kind(coxswain_engine_static static)
  coxswain_package_files("${packages}")
endfunction()
