// Lines of a report for people, beside its JSON: printf's formats, appended to a string.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace troupe {

/// Appends one line; what is longer than 511 bytes is cut.
[[gnu::format(printf, 2, 3)]] inline void append_text(std::string& out, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  out += line;
}

}  // namespace troupe
