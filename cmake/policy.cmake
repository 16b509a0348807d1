# troupe_add_policy(ID source [VERSION v]): policy ID as a shared library (ID.so in <build>/policies) with
# the flags that make it safe to load, replace and unload, and, inside this tree, also as the static library
# troupe_policy_ID_static for tests, built from the same source.
#   -fno-gnu-unique, hidden visibility and the version script keep std templates from becoming process-wide
#   symbols, which would pin the library after dlclose; -z defs finds missing symbols when linking;
#   -ffp-contract=off makes decisions equal on every machine.
function(troupe_add_policy id source)
  cmake_parse_arguments(ARG "" "VERSION" "" ${ARGN})
  if(NOT ARG_VERSION)
    set(ARG_VERSION 1)
  endif()
  set(root "${TROUPE_POLICY_ROOT}")
  set(flags -ffp-contract=off -fvisibility=hidden -fvisibility-inlines-hidden)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND flags -fno-gnu-unique)
  endif()
  add_library(troupe_policy_${id} MODULE ${source})
  target_include_directories(troupe_policy_${id} PRIVATE "${root}")
  target_compile_features(troupe_policy_${id} PRIVATE cxx_std_20)
  target_compile_options(troupe_policy_${id} PRIVATE ${flags})
  target_compile_definitions(troupe_policy_${id} PRIVATE TROUPE_POLICY_ID="${id}"
    TROUPE_POLICY_VERSION="${ARG_VERSION}")
  target_link_options(troupe_policy_${id} PRIVATE -Wl,-z,defs
    -Wl,-z,relro,-z,now "-Wl,--version-script=${root}/policies/abi/exports.map")
  set_target_properties(troupe_policy_${id} PROPERTIES PREFIX "" OUTPUT_NAME ${id}
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/policies" LINK_DEPENDS "${root}/policies/abi/exports.map")
  if(TARGET troupe_flags)
    target_link_libraries(troupe_policy_${id} PRIVATE troupe_flags)
    add_library(troupe_policy_${id}_static STATIC ${source})
    target_link_libraries(troupe_policy_${id}_static PRIVATE troupe_flags)
    target_compile_options(troupe_policy_${id}_static PRIVATE ${flags})
    target_compile_definitions(troupe_policy_${id}_static PRIVATE TROUPE_POLICY_STATIC=${id})
  endif()
endfunction()
