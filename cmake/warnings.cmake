# Warning, hardening and sanitizer flags, for every target of ours through the interface target troupe_flags.
add_library(troupe_flags INTERFACE)
target_include_directories(troupe_flags INTERFACE "${CMAKE_SOURCE_DIR}")
target_compile_options(troupe_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor
  $<$<BOOL:${TROUPE_WERROR}>:-Werror> -fstack-protector-strong)
target_compile_definitions(troupe_flags INTERFACE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)
if(TROUPE_SANITIZE)
  target_compile_options(troupe_flags INTERFACE -fsanitize=${TROUPE_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(troupe_flags INTERFACE -fsanitize=${TROUPE_SANITIZE})
endif()
# GCC 12 reports a memcpy overlap inside std::string's operator+ that isn't there (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  target_compile_options(troupe_flags INTERFACE -Wno-restrict)
endif()
