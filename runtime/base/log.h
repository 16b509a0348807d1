// Log facade: keeps spdlog out of every other translation unit. Cores do not log; movers, shell and
// apps do. Messages name the thing, the value and the limit.
#pragma once

#include <cstdarg>

namespace troupe {

enum class LogLevel { kDebug = 0, kInfo, kWarn, kError };

/// printf-style line to standard error through spdlog. [any thread]
[[gnu::format(printf, 2, 3)]] void log_line(LogLevel level, const char* format, ...);
/// Lines below `level` are dropped. Default kInfo.
void set_log_level(LogLevel level);

}  // namespace troupe

#define TROUPE_LOG_INFO(...) ::troupe::log_line(::troupe::LogLevel::kInfo, __VA_ARGS__)
#define TROUPE_LOG_WARN(...) ::troupe::log_line(::troupe::LogLevel::kWarn, __VA_ARGS__)
#define TROUPE_LOG_ERROR(...) ::troupe::log_line(::troupe::LogLevel::kError, __VA_ARGS__)
#define TROUPE_LOG_DEBUG(...) ::troupe::log_line(::troupe::LogLevel::kDebug, __VA_ARGS__)
