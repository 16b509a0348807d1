# troupe_library(NAME SOURCES … LINKS … [DETERMINISTIC]): one static library per folder.
# DETERMINISTIC (cores and policies): no fused multiply-add, so that decisions are equal on every machine.
function(troupe_library name)
  cmake_parse_arguments(ARG "DETERMINISTIC" "" "SOURCES;LINKS" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PUBLIC troupe_flags ${ARG_LINKS})
    if(ARG_DETERMINISTIC)
      target_compile_options(${name} PRIVATE -ffp-contract=off)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE troupe_flags ${ARG_LINKS})
  endif()
endfunction()

# troupe_test(NAME SOURCES … LINKS … [LABELS …]): one Catch2 program, registered with CTest.
# Tests whose name has the tag [skip] print why and exit 4, which CTest counts as skipped.
function(troupe_test name)
  troupe_test_main(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE troupe_catch_main)
endfunction()

# The same for a program with a main of its own (one that skips as a whole when its data is missing).
function(troupe_test_main name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE troupe_flags ${ARG_LINKS})
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    SKIP_RETURN_CODE 4)
endfunction()
