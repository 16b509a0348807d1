// Rows of the scheduler's state: requests in the order of their ids, sequences by dense handle.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/tick.h"
#include "runtime/core/wire.h"

namespace troupe {

struct SchedulerConfig {
  uint32_t max_running = 256;          // sequences with a table
  uint32_t max_batch_tokens = 8192;    // tokens that one step computes
  uint32_t chunk_tokens = 2048;        // of one prompt in one step
  uint32_t order_window = 256;         // queued requests that one ordering question covers
  Tick pending_deadline = from_ms(500);  // longest wait for another request's blocks
  bool swap_on_preempt = false;  // demote a preempted sequence's blocks instead of dropping them
  bool ask_order = true;               // ask the scheduling policy; false: arrival order
  std::vector<uint32_t> class_tokens = {16};
};

/// Where a request stands.
enum class Phase : uint8_t {
  kQueued = 1,  // may enter a step
  kWaiting,   // another request computes or moves what it needs; `ready` or its deadline ends that
  kEntering,  // new row of the step in flight
  kRunning,   // has a sequence and a table
  kEnding,    // its terminal row waits for the next commit
};

struct RequestRow {
  uint64_t request = 0;
  uint32_t tenant = 0;
  int32_t priority = 0;
  uint32_t prompt = 0;       // tokens
  uint32_t max_new = 0;      // tokens
  uint32_t probe = 0;        // tokens cached at admission
  uint32_t generated = 0;    // tokens so far
  Tick arrival;
  Tick deadline;             // 0: none
  Tick wait_until;           // while waiting
  uint64_t parent = 0;
  uint8_t block_class = 0;
  bool prompt_only = false;
  bool seal_partial = false;
  bool force = false;        // waited long enough: enters without waiting for others
  bool cancelled = false;
  Phase phase = Phase::kQueued;
  uint32_t sequence = kNoSequence;
  uint32_t trim = 0;         // generated tokens to withdraw once the step in flight is done
  uint32_t failed_loads = 0; // in a row
  uint32_t drops = 0;        // times in a row that it found no room although nothing else ran
  // usage
  uint32_t reused = 0;
  uint32_t computed = 0;
  uint32_t preemptions = 0;
  Tick scheduled;
  Tick first_token;
};

/// A running sequence. Invariant: computed ≤ target(); sealed ≤ computed.
struct SequenceRow {
  uint64_t request = 0;              // 0: free
  RequestRow* row = nullptr;         // of that request; map nodes stay where they are
  uint32_t computed = 0;             // tokens whose cache is valid
  uint32_t sealed = 0;               // tokens given to `commit`
  uint32_t in_step = 0;              // tokens that the step in flight computes
  bool entered = false;              // its first step is done
  std::vector<uint32_t> new_tokens;  // generated, not yet handed to the prefix index
  std::vector<BlockKey> new_keys;
};

}  // namespace troupe
