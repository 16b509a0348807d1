#include "runtime/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <string>

namespace troupe {
namespace {

spdlog::logger& logger() {
  // Standard error: standard output belongs to reports and JSON.
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = spdlog::stderr_color_mt("troupe");
    made->set_pattern("%H:%M:%S.%e %^%l%$ %v");
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void log_line(LogLevel level, const char* format, ...) {
  char line[1024];  // longer lines are cut: a log line is one sentence
  va_list args;
  va_start(args, format);
  std::vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  logger().log(to_spdlog(level), "{}", line);
}

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

}  // namespace troupe
