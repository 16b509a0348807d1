# The C++ Actor Framework without a package file of its own (Debian's libcaf-dev has none). Only
# libcaf_core is used. Defines CAF::core, CAF_FOUND, CAF_VERSION.
find_path(CAF_INCLUDE_DIR NAMES caf/actor_system.hpp)
find_library(CAF_CORE_LIBRARY NAMES caf_core)
if(CAF_INCLUDE_DIR AND EXISTS "${CAF_INCLUDE_DIR}/caf/config.hpp")
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" caf_version_line REGEX "^#define CAF_VERSION [0-9]+")
  string(REGEX REPLACE "^#define CAF_VERSION ([0-9]+)$" "\\1" caf_number "${caf_version_line}")
  if(caf_number MATCHES "^[0-9]+$") # 1706 is 0.17.6
    math(EXPR caf_major "${caf_number} / 10000")
    math(EXPR caf_minor "(${caf_number} / 100) % 100")
    math(EXPR caf_patch "${caf_number} % 100")
    set(CAF_VERSION "${caf_major}.${caf_minor}.${caf_patch}")
  endif()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_INCLUDE_DIR
  VERSION_VAR CAF_VERSION)
if(CAF_FOUND AND NOT TARGET CAF::core)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES IMPORTED_LOCATION "${CAF_CORE_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}")
endif()
mark_as_advanced(CAF_INCLUDE_DIR CAF_CORE_LIBRARY)
