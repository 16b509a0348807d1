#include "apps/config/run_config.h"

#include <toml++/toml.h>

#include <fstream>
#include <sstream>

namespace troupe {
namespace {

/// One key. Exactly one of the member pointers is set.
struct Key {
  const char* section;
  const char* name;
  const char* meaning;
  int64_t RunConfig::*integer = nullptr;
  int64_t low = 0;
  int64_t high = 0;
  std::string RunConfig::*text = nullptr;
  std::vector<const char*> choices = {};  // empty: any text
  bool RunConfig::*flag = nullptr;
};

const std::vector<Key>& keys() {
  using C = RunConfig;
  static const std::vector<Key> table = {
      {"model", "name", "a model of configs/models.toml", nullptr, 0, 0, &C::model},
      {"model", "format", "how cached values are stored", nullptr, 0, 0, &C::format},
      {"model", "block_tokens", "tokens of one block; 0: the trace's own, or 16", &C::block_tokens,
       0, 32767},
      {"engine", "gpu", "a GPU of configs/engines.toml; sets the virtual clock's rates", nullptr, 0,
       0, &C::gpu},
      {"tiers", "device_blocks", "capacity of the device tier", &C::device_blocks, 1, 1LL << 30},
      {"tiers", "host_blocks", "capacity of the host tier; 0: off", &C::host_blocks, 0, 1LL << 30},
      {"tiers", "disk_blocks", "capacity of the disk tier; 0: off", &C::disk_blocks, 0, 1LL << 30},
      {"tiers", "disk_directory", "where the disk tier's file lies; empty: a folder of its own",
       nullptr, 0, 0, &C::disk_directory},
      {"tiers", "disk_deadline_ms",
       "a batch of transfers with the disk is given up after this long; 0: never",
       &C::disk_deadline_ms, 0, 600000},
      {"tiers", "disk_latency_us", "modelled time of a batch with the disk, beside its bytes'",
       &C::disk_latency_us, 0, 600000000},
      {"tiers", "real_block_bytes",
       "bytes really kept for a block in runs; the clock uses the true layout's",
       &C::real_block_bytes, 128, 1LL << 26},
      {"tiers", "free_reserve_blocks",
       "device blocks kept free by demoting ahead of need; needs a lower tier",
       &C::free_reserve_blocks, 0, 1LL << 20},
      {"tiers", "host_reserve_percent",
       "of the host tier, kept free by writing to disk ahead of need (from half of it on); with it "
       "no step waits for a disk",
       &C::host_reserve_percent, 0, 50},
      {"scheduler",
       "order",
       "which queued request enters first",
       nullptr,
       0,
       0,
       &C::order,
       {"fcfs", "lpm"}},
      {"scheduler", "max_running", "sequences that run at the same time", &C::max_running, 1,
       65536},
      {"scheduler", "max_batch_tokens", "tokens that one step computes", &C::max_batch_tokens, 1,
       1LL << 20},
      {"scheduler", "chunk_tokens", "tokens of one prompt in one step", &C::chunk_tokens, 1,
       1LL << 20},
      {"scheduler",
       "preemption",
       "what happens to a sequence that must make room",
       nullptr,
       0,
       0,
       &C::preemption,
       {"recompute", "swap"}},
      {"scheduler", "pending_deadline_ms", "longest wait for blocks that another request computes",
       &C::pending_deadline_ms, 0, 3600000},
      {"prefix_index",
       "caching",
       "reuse of prefixes; false: every request computes all its tokens",
       nullptr,
       0,
       0,
       nullptr,
       {},
       &C::prefix_caching},
      {"prefix_index", "partial_min_tokens",
       "shortest match within a block that is worth a copy on write", &C::partial_min_tokens, 1,
       65536},
      {"prefix_index",
       "publish_partial",
       "the last, partial block of a request can be found again",
       nullptr,
       0,
       0,
       nullptr,
       {},
       &C::publish_partial},
      {"eviction", "policy", "which blocks go first", nullptr, 0, 0, &C::eviction_policy},
      {"eviction",
       "isolation",
       "process: policies other than lru run in a process of their own (troupe-policy-host)",
       nullptr,
       0,
       0,
       &C::isolation,
       {"none", "process"}},
      {"tiering",
       "load",
       "blocks found in a lower tier: by measured rates, or always loaded",
       nullptr,
       0,
       0,
       &C::load,
       {"measured", "always"}},
      {"tiering",
       "admission",
       "what is written to disk: all that leaves the tiers above, or what was looked up again",
       nullptr,
       0,
       0,
       &C::admission,
       {"all", "reused"}},
      {"tiering",
       "disk_loads",
       "blocks that lie on disk: brought to host memory while their request waits, or loaded "
       "within its step, which then waits for the disk",
       nullptr,
       0,
       0,
       &C::disk_loads,
       {"staged", "in_step"}},
      {"tiering", "disk_gib_per_day",
       "what may be written to disk in a day, in the true layout; 0: no limit",
       &C::disk_gib_per_day, 0, 1LL << 30},
      {"gateway", "tenants", "tenants that may connect; a run has at least its trace's",
       &C::tenant_count, 1, 1 << 20},
      {"gateway", "max_live", "requests admitted and not yet answered", &C::max_live, 1, 1LL << 22},
      {"gateway", "max_new_tokens", "tokens that one request may generate", &C::max_new_tokens, 1,
       1LL << 26},
      {"runtime",
       "dispatcher",
       "inline: one thread; caf: actors on a thread pool",
       nullptr,
       0,
       0,
       &C::dispatcher,
       {"inline", "caf"}},
      {"runtime", "threads", "worker threads of the caf dispatcher", &C::threads, 1, 256},
      {"runtime", "check_every_steps",
       "full invariant sweep every so many steps; 0: at the end only", &C::check_every_steps, 0,
       1LL << 40},
      {"runtime", "seed", "of keys and of policies that draw", &C::seed, 0, INT64_MAX},
  };
  return table;
}

class Reader {
 public:
  Reader(RunConfig& config, std::string name) : config_(config), name_(std::move(name)) {}

  void read(const toml::table& root) {
    for (const auto& [section, node] : root) {
      const std::string where(section.str());
      const toml::table* table = node.as_table();
      if (table == nullptr) {
        error(node.source(), where, "a top-level key; keys stand in sections such as [tiers]");
      } else if (where == "tenants") {
        read_tenants(*table);
      } else {
        read_section(where, *table);
      }
    }
  }
  const std::string& errors() const { return errors_; }

 private:
  void error(const toml::source_region& at, const std::string& key, const std::string& what) {
    errors_ += name_ + ":" + std::to_string(at.begin.line) + ": " + key + ": " + what + "\n";
  }

  void read_section(const std::string& section, const toml::table& table) {
    bool known = false;
    for (const Key& key : keys()) {
      known = known || section == key.section;
    }
    if (!known) {
      error(table.source(), "[" + section + "]", "unknown section");
      return;
    }
    for (const auto& [name, node] : table) {
      const std::string full = section + "." + std::string(name.str());
      const Key* found = nullptr;
      for (const Key& key : keys()) {
        if (section == key.section && name.str() == key.name) {
          found = &key;
        }
      }
      if (found == nullptr) {
        error(node.source(), full, "unknown key");
      } else {
        read_value(*found, full, node);
      }
    }
  }

  void read_value(const Key& key, const std::string& full, const toml::node& node) {
    if (key.integer != nullptr) {
      const toml::value<int64_t>* value = node.as_integer();
      if (value == nullptr) {
        error(node.source(), full, "wants an integer");
      } else if (value->get() < key.low || value->get() > key.high) {
        error(node.source(), full,
              std::to_string(value->get()) + " is not in " + std::to_string(key.low) + " … " +
                  std::to_string(key.high));
      } else {
        config_.*key.integer = value->get();
      }
    } else if (key.flag != nullptr) {
      const toml::value<bool>* value = node.as_boolean();
      if (value == nullptr) {
        error(node.source(), full, "wants true or false");
      } else {
        config_.*key.flag = value->get();
      }
    } else {
      const toml::value<std::string>* value = node.as_string();
      if (value == nullptr) {
        error(node.source(), full, "wants a text in quotes");
        return;
      }
      bool allowed = key.choices.empty();
      std::string choices;
      for (const char* choice : key.choices) {
        allowed = allowed || value->get() == choice;
        choices += std::string(choices.empty() ? "" : ", ") + choice;
      }
      if (allowed) {
        config_.*key.text = value->get();
      } else {
        error(node.source(), full, "\"" + value->get() + "\" is none of " + choices);
      }
    }
  }

  void read_tenants(const toml::table& tenants) {
    for (const auto& [name, node] : tenants) {
      TenantConfig tenant;
      tenant.name = std::string(name.str());
      tenant.domain = static_cast<uint32_t>(config_.tenants.size());
      const toml::table* table = node.as_table();
      if (table == nullptr) {
        error(node.source(), "tenants." + tenant.name, "wants a table");
        continue;
      }
      for (const auto& [key, value] : *table) {
        const std::string full = "tenants." + tenant.name + "." + std::string(key.str());
        const auto integer = value.value<int64_t>();
        if (key.str() == "domain" && integer && *integer >= 0 && *integer < (1LL << 31)) {
          tenant.domain = static_cast<uint32_t>(*integer);
        } else if (key.str() == "priority" && integer && *integer >= -1000 && *integer <= 1000) {
          tenant.priority = static_cast<int32_t>(*integer);
        } else {
          error(value.source(), full,
                "known are domain (0 … 2147483647) and priority (-1000 … 1000)");
        }
      }
      config_.tenants.push_back(tenant);
    }
  }

  RunConfig& config_;
  std::string name_;
  std::string errors_;
};

Status listed(std::string errors) {
  if (errors.empty()) {
    return Status::ok();
  }
  errors.pop_back();  // the last line's end
  return Status(Code::kInvalidArgument, errors);
}

std::string combination_errors(const RunConfig& c, const std::string& name) {
  std::string errors;
  const auto wrong = [&](const std::string& text) { errors += name + ": " + text + "\n"; };
  for (const Key& key : keys()) {  // a value may also come from the command line
    if (key.integer != nullptr && (c.*key.integer < key.low || c.*key.integer > key.high)) {
      wrong(std::string(key.section) + "." + key.name + ": " + std::to_string(c.*key.integer) +
            " is not in " + std::to_string(key.low) + " … " + std::to_string(key.high));
    }
  }
  if (!errors.empty()) {
    return errors;  // what follows compares values that are in range
  }
  if (c.max_batch_tokens < c.max_running) {
    wrong("scheduler.max_batch_tokens " + std::to_string(c.max_batch_tokens) +
          " is less than scheduler.max_running " + std::to_string(c.max_running) +
          ": every running sequence needs a token a step");
  }
  if (c.free_reserve_blocks > 0 && c.host_blocks + c.disk_blocks == 0) {
    wrong("tiers.free_reserve_blocks " + std::to_string(c.free_reserve_blocks) +
          " without a lower tier: blocks would be dropped ahead of need");
  }
  if (c.free_reserve_blocks >= c.device_blocks) {
    wrong("tiers.free_reserve_blocks " + std::to_string(c.free_reserve_blocks) +
          " is not below tiers.device_blocks " + std::to_string(c.device_blocks));
  }
  if (c.disk_blocks > 0 && c.real_block_bytes % 4096 != 0) {
    wrong("tiers.real_block_bytes " + std::to_string(c.real_block_bytes) +
          " with a disk tier: a multiple of 4096 is needed");
  }
  if (c.preemption == "swap" && c.host_blocks == 0) {
    wrong("scheduler.preemption \"swap\" needs tiers.host_blocks > 0");
  }
  if (c.block_tokens > 0 && c.real_block_bytes / c.block_tokens < 8) {
    wrong("tiers.real_block_bytes " + std::to_string(c.real_block_bytes) +
          " gives a token of a block of " + std::to_string(c.block_tokens) +
          " fewer than the 8 bytes that prove it");
  }
  return errors;
}

}  // namespace

Status check_config(const RunConfig& config, const std::string& name) {
  return listed(combination_errors(config, name));
}

Expected<RunConfig> parse_config(const std::string& text, const std::string& name) {
  RunConfig config;
  try {  // toml++ throws on a syntax error; it ends here
    const toml::table root = toml::parse(text, name);
    Reader reader(config, name);
    reader.read(root);
    TROUPE_TRY(listed(reader.errors()));
    TROUPE_TRY(check_config(config, name));
  } catch (const toml::parse_error& e) {
    return Status(Code::kInvalidArgument, name + ":" + std::to_string(e.source().begin.line) +
                                              ": " + std::string(e.description()));
  }
  return config;
}

Expected<RunConfig> read_config(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return Status(Code::kNotFound, "cannot read the configuration " + path);
  }
  std::stringstream text;
  text << file.rdbuf();
  return parse_config(text.str(), path);
}

std::string config_text(const RunConfig& config) {
  std::string out;
  std::string section;
  for (const Key& key : keys()) {
    if (section != key.section) {
      section = key.section;
      out += (out.empty() ? "[" : "\n[") + section + "]\n";
    }
    std::string value;
    if (key.integer != nullptr) {
      value = std::to_string(config.*key.integer);
    } else if (key.flag != nullptr) {
      value = config.*key.flag ? "true" : "false";
    } else {
      value = "\"" + config.*key.text + "\"";
    }
    out += std::string(key.name) + " = " + value + "  # " + key.meaning;
    if (key.integer != nullptr) {
      out += "; " + std::to_string(key.low) + " … " + std::to_string(key.high);
    }
    out += "\n";
  }
  for (const TenantConfig& tenant : config.tenants) {
    out += "\n[tenants." + tenant.name + "]\ndomain = " + std::to_string(tenant.domain) +
           "\npriority = " + std::to_string(tenant.priority) + "\n";
  }
  return out;
}

}  // namespace troupe
