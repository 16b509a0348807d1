// Names of the files in a store directory, shared by the log and by inspection.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace troupe::io {

constexpr const char* kSuperblockName = "store";
constexpr const char* kSuperblockTemp = "store.new";
constexpr const char* kSnapshotName = "snapshot";
constexpr const char* kSnapshotTemp = "snapshot.new";
constexpr const char* kLockName = "lock";

inline std::string journal_name(uint64_t index) {
  char text[32];
  std::snprintf(text, sizeof(text), "journal.%08llu", static_cast<unsigned long long>(index));
  return text;
}
/// 0 when `name` is no journal's.
inline uint64_t journal_index_of(const std::string& name) {
  const std::string prefix = "journal.";
  if (name.size() != prefix.size() + 8 || name.compare(0, prefix.size(), prefix) != 0 ||
      name.find_first_not_of("0123456789", prefix.size()) != std::string::npos) {
    return 0;
  }
  return std::strtoull(name.c_str() + prefix.size(), nullptr, 10);
}
inline std::string data_name(size_t size_class) {
  return "data." + std::to_string(size_class);
}

}  // namespace troupe::io
