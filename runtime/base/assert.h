// Programmer errors stop the process, in every build. The hook (one, set by main) writes out what a
// post-mortem needs, such as the flight ring, before the abort.
#pragma once

namespace troupe {

[[noreturn]] void assert_failed(const char* condition, const char* file, int line) noexcept;

/// Called once before abort. Must not allocate much or throw. [main thread, at start]
void set_assert_hook(void (*hook)()) noexcept;

}  // namespace troupe

#define TROUPE_ASSERT(condition)                                      \
  (__builtin_expect(static_cast<bool>(condition), 1)                  \
       ? static_cast<void>(0)                                         \
       : ::troupe::assert_failed(#condition, __FILE__, __LINE__))
