# coxswain_family_files(VARIABLE): the files that read config.json, relative to src/model: the rows of families.def, and what
# they share.
function(coxswain_family_files variable)
  set(list ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/families.def)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} rows REGEX "^COXSWAIN_FAMILY")
  set(files config_reader.cc rope.cc families/common.cc families/families.cc)
  foreach(row IN LISTS rows)
    string(REGEX REPLACE "^COXSWAIN_FAMILY\\([a-z0-9_]+, ([a-z0-9_]+)\\)$" "families/\\1.cc" file ${row})
    list(APPEND files ${file})
  endforeach()
  list(REMOVE_DUPLICATES files)
  set(${variable} ${files} PARENT_SCOPE)
endfunction()
