# Target `headers`: compiles each of our headers alone, to nothing, through the compiler cache like everything else.
#
# The headers are found, not listed: one that no list names is the one that would be forgotten. src/kernels/cpu/*/ holds fragments
# instead: they are included inside an anonymous namespace of files with flags of one instruction set, and may include C headers only.

file(GLOB_RECURSE headers RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
  include/*.h src/*.h tests/*.h bench/*.h)
list(FILTER headers EXCLUDE REGEX "^src/kernels/cpu/[^/]+/")

set(header_sources "")
foreach(header IN LISTS headers)
  set(source ${CMAKE_BINARY_DIR}/headers/${header}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
  list(APPEND header_sources ${source})
endforeach()

add_library(headers OBJECT EXCLUDE_FROM_ALL ${header_sources})
target_include_directories(headers PRIVATE
  ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
target_compile_options(headers PRIVATE -O0)
# Some headers include code that is generated, which must be there first.
target_link_libraries(headers PRIVATE
  coxswain_warnings $<TARGET_NAME_IF_EXISTS:coxswain_proto> $<TARGET_NAME_IF_EXISTS:coxswain_otlp_proto>)
