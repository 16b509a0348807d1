// The configuration of a troupe, as TOML: one declarative table of keys with default, range and
// meaning (keys.cc) drives reading, checking and printing. Unknown keys, values out of range and
// impossible combinations are errors that name file, line, key, value and range; all of them at
// once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace troupe {

struct TenantConfig {
  std::string name;
  uint32_t domain = 0;    // isolation domain: tenants with the same number share a cache
  int32_t priority = 0;
};

struct RunConfig {
  // [model]
  std::string model = "llama-3.1-8b";
  std::string format = "bf16";
  int64_t block_tokens = 0;           // 0: the trace's, or 16
  // [engine]
  std::string gpu = "H100-SXM";
  // [tiers]
  int64_t device_blocks = 16384;
  int64_t host_blocks = 0;
  int64_t disk_blocks = 0;
  std::string disk_directory;  // empty: one of its own in the temporary folder
  int64_t disk_deadline_ms = 30000;
  int64_t disk_latency_us = 100;
  int64_t real_block_bytes = 4096;
  int64_t free_reserve_blocks = 0;
  int64_t host_reserve_percent = 12;
  // [scheduler]
  std::string order = "fcfs";
  int64_t max_running = 256;
  int64_t max_batch_tokens = 8192;
  int64_t chunk_tokens = 2048;
  std::string preemption = "recompute";
  int64_t pending_deadline_ms = 500;
  // [prefix_index]
  bool prefix_caching = true;
  int64_t partial_min_tokens = 4;
  bool publish_partial = true;
  // [eviction]
  std::string eviction_policy = "lru";
  std::string isolation = "none";
  // [tiering]
  std::string load = "measured";
  std::string admission = "all";
  std::string disk_loads = "staged";
  int64_t disk_gib_per_day = 0;
  // [gateway]
  int64_t tenant_count = 1;
  int64_t max_live = 65536;
  int64_t max_new_tokens = 131072;
  // [runtime]
  std::string dispatcher = "inline";
  int64_t threads = 2;
  int64_t check_every_steps = 1000;
  int64_t seed = 1;
  // [tenants.NAME]
  std::vector<TenantConfig> tenants;
};

/// Reads and checks a file. The status lists every error, one a line.
Expected<RunConfig> read_config(const std::string& path);
/// The same from text; `name` stands for the file in errors.
Expected<RunConfig> parse_config(const std::string& text, const std::string& name);
/// Checks combinations again, after command-line overrides.
Status check_config(const RunConfig& config, const std::string& name);
/// The effective configuration as TOML, every key with its meaning.
std::string config_text(const RunConfig& config);

}  // namespace troupe
