// What a run counts, and how it is written: one plain struct filled by the driver, a table for
// people and JSON with documented keys for machines.
#pragma once

#include "actors/movers/disk_tier.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe {

/// Counts of one tenant, or of all.
struct RunTotals {
  uint64_t requests = 0;
  uint64_t completed = 0;
  uint64_t refused = 0;
  uint64_t cancelled = 0;
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
  uint64_t computed_tokens = 0;
  uint64_t reused_tokens = 0;         // prompt tokens whose cache was reused: prefill saved
  uint64_t prefix_query_blocks = 0;   // blocks that lookups asked for
  uint64_t prefix_hit_blocks = 0;     // leading resident ones
  uint64_t partial_hit_tokens = 0;    // matched within a block and copied on write
  uint64_t generated_hit_blocks = 0;  // hit blocks beyond the prompt of the turn that computed them
  uint64_t preemptions = 0;
  std::vector<double> ttft_ms;  // arrival to first token
  std::vector<double> tpot_ms;  // mean time per output token after the first, one a request
};

/// What an operator did to the policies of a run, and what the slots did by themselves.
struct OperatorFacts {
  struct Done {
    uint64_t replies = 0;  // before it was sent
    std::string command;
    bool ok = false;
    std::string text;  // of the answer
    double us = 0;     // sent to answered
    std::map<std::string, int64_t> gauges;
  };
  struct Change {
    uint64_t replies = 0;
    std::string slot;
    std::string from;
    std::string to;
    std::string cause;
    std::string why;
    uint64_t generation = 0;
    uint64_t decided = 0;  // victims that `from` named
  };
  uint64_t swaps = 0;              // turns of --swap, by message
  uint64_t swaps_failed = 0;       // answered with a reason; the policy before goes on
  std::string swap_error;          // of the last one that failed
  std::vector<double> swap_us;     // one a turn: sent to answered
  uint64_t changes = 0;            // of a live policy, whoever wanted it
  uint64_t changes_undecided = 0;  // those whose policy before had named no victim
  std::vector<Change> listed;      // without the turns
  std::vector<Done> commands;      // of the script
};

struct RunReport {
  std::string trace;
  std::string dispatcher;
  std::string config;
  std::string model;
  std::string gpu;
  uint32_t block_tokens = 0;
  uint64_t device_blocks = 0;
  uint64_t host_blocks = 0;
  uint64_t disk_blocks = 0;
  uint64_t true_block_bytes = 0;
  uint64_t real_block_bytes = 0;
  OperatorFacts operated;
  bool interrupted = false;
  uint64_t not_sent = 0;  // requests, where it was interrupted
  RunTotals all;
  std::map<std::string, RunTotals> tenants;
  std::map<std::string, int64_t> gauges;  // of the actors, at the end
  uint64_t verified_bytes = 0;            // real bytes compared when a request reused them
  uint64_t mismatches = 0;                // reused token pieces that were wrong: must be 0
  std::string first_mismatch;
  uint64_t failed_loads = 0;
  DiskCounts disk;  // of what lies under the disk tier; no backend: there is none
  uint64_t evictions = 0;
  uint64_t demoted_blocks = 0;
  uint64_t loaded_blocks = 0;
  uint64_t copied_blocks = 0;  // copy on write
  uint64_t steps = 0;
  uint64_t messages = 0;
  double virtual_s = 0;
  double wall_s = 0;
  double waste_contiguous = 0;  // share of reserved cache without a token, at requests' ends
  double waste_paged = 0;
  uint32_t contiguous_tokens = 0;           // what contiguous preallocation reserves a sequence
  std::vector<double> control_us;           // one a step: stepDone sent to plan received
  std::vector<double> changing_us;          // those of steps during a command about policies
  std::map<std::string, uint64_t> digests;  // of every actor, at the end
  uint64_t recorded_messages = 0;           // records in lanes
  uint64_t recorded_bytes = 0;              // before compression
};

/// The q-quantile (0 … 1) of `values`, nearest rank; 0 when empty. Sorts a copy.
double quantile(std::vector<double> values, double q);

/// What was brought from disk to host memory before a step: how much of it was used, and how much
/// of what was wanted it was.
struct PrefetchFigures {
  uint64_t blocks = 0;
  double precision = 0;  // share of them that a request used
  double recall = 0;     // share of what requests wanted from disk
  uint64_t wasted_bytes = 0;  // of the true layout
};
PrefetchFigures prefetch_figures(const RunReport& report);
/// How often a day the disk tier's capacity is written at this run's rate, on its clock.
double drive_writes_per_day(const RunReport& report);

/// The table of README's "report of a run explained".
std::string report_text(const RunReport& report);
/// One JSON object, keys as in README.
std::string report_json(const RunReport& report);

}  // namespace troupe
