// The checks behind `troupe doctor`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

enum class Health : uint8_t {
  kOk = 0,
  kLacking,  // Troupe runs without it, slower or smaller
  kBroken,   // what was asked for can't work
};
std::string_view health_name(Health health) noexcept;

struct Finding {
  std::string name;  // stable: a key of --json
  Health health = Health::kOk;
  std::string found;   // what is there
  std::string remedy;  // empty when ok
};

/// All checks. `directory`: where a disk tier would live. [any thread; tries system calls]
std::vector<Finding> examine(const std::string& directory);

/// Single checks, for tests.
Finding check_direct_io(const std::string& directory);
Finding check_memlock(uint64_t soft_bytes, bool unlimited);
/// Text of /proc/meminfo and of /sys/kernel/mm/transparent_hugepage/enabled.
Finding check_huge_pages(std::string_view meminfo, std::string_view transparent);

}  // namespace troupe
