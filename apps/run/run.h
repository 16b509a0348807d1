// A run as a function: configuration and workload in, report out. Used by `troupe run`, by tests
// and by benches.
#pragma once

#include "actors/movers/disk_tier.h"
#include "apps/config/run_config.h"
#include "apps/run/operator.h"
#include "apps/run/stats.h"
#include "apps/run/workload.h"
#include "runtime/base/status.h"

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>

namespace troupe {

struct RunOptions {
  bool serial = false;
  bool prompt_only = false;
  double speed = 1;           // 0: as credits allow
  std::string record;         // directory for the lanes; empty: not recorded
  bool record_edges = false;  // only what came from outside; the rest is made again at replay
  std::string lookup_log;     // file: the lookups that understudies saw, as a trace
  uint32_t max_length =
      0;  // contiguous preallocation compared with; 0: 4096, or the longest request
  std::function<void(uint64_t done, uint64_t total)> on_progress;
  /// Tests: called after every reply with the device tier's memory, to damage it.
  std::function<void(uint64_t done, std::span<std::byte> device)> tamper;
  /// The same with the host tier's memory.
  std::function<void(uint64_t done, std::span<std::byte> host)> tamper_host;
  /// What an operator does about policies meanwhile.
  std::vector<Command> script;
  /// Policies that take turns on the device tier, one swap by message after `swap_every` replies.
  std::vector<std::string> swap_policies;
  uint64_t swap_every = 0;
  /// Once it is true nothing more is sent and what is live is cancelled; the report says so.
  const std::atomic<bool>* stop = nullptr;
  DiskUnder disk{};  // the backend and the deadline of the disk tier; in tests its faults
};

/// Runs the whole workload. Errors: kInternal for a broken invariant or a request without an
/// answer, else bad input. Wrong bytes are no error here: the report counts them.
Expected<RunReport> run_trace(RunConfig config, const Workload& work, const RunOptions& options);

int run_main(int argc, char** argv);

}  // namespace troupe
