// tiering: owns transfers between tiers. On a request's way it decides how many of the blocks that
// lie lower are loaded and how many are computed again; on a victim's way, whether it is dropped,
// kept as a clean lower copy, or demoted. Decisions go through policy::TieringPolicy, from measured
// rates.
//   prefix_index -load-> tiering -reserve-> allocator
//   prefix_index -unlinked-> tiering (-place-> allocator -placed-> tiering -transfer-> mover
//   -transferDone-> tiering)
//     -settle-> prefix_index
// Invariants: every block of an `unlinked` is settled exactly once; a batch that answers a reclaim
// is settled by one message, so that every reclaim is answered once.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/core/actor_core.h"
#include "runtime/core/policy.h"
#include "runtime/core/wire.h"

namespace troupe {

struct TieringConfig {
  std::array<bool, kTierCount> enabled = {true, false, false, false};
  std::array<uint64_t, kTierCount> bytes_per_s{};   // first guesses; measured from then on
  std::array<uint64_t, kTierCount> latency_ns{};
  uint64_t prefill_tokens_per_s = 0;
  uint64_t block_bytes = 0;         // of one block in the true layout
  std::vector<uint32_t> class_tokens = {16};
};

class Tiering {
 public:
  Tiering(TieringConfig config, std::unique_ptr<policy::TieringPolicy> policy);

  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept;
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  struct Item {  // one settlement of a batch; outcome unknown until its copy is done
    uint32_t block = 0;
    uint8_t from = 0;
    uint8_t to = 0;
    wire::Outcome outcome = wire::Outcome::UNKNOWN;
  };
  struct Batch {
    uint8_t tier = 0;
    uint8_t asked_tier = kTierCount;  // where places were asked for; kTierCount: nowhere now
    uint64_t question = 0;            // of that asking; answers come in the order of the questions
    bool reclaim = false;
    uint32_t open = 0;                // items whose outcome is unknown
    std::vector<Item> items;
    std::vector<uint32_t> asked;      // items that wait for a place in asked_tier
  };
  struct Copying {  // a transfer on its way
    uint64_t batch = 0;
    uint32_t item = 0;
  };

  void on_load(wire::Step::Reader step, StepContext& cx);
  uint32_t blocks_to_load(wire::NewRow::Reader row);
  void on_unlinked(wire::Unlinked::Reader unlinked, StepContext& cx);
  void ask_places(Batch& batch, std::vector<uint32_t> items, uint8_t to, StepContext& cx);
  void on_placed(wire::Placed::Reader placed, StepContext& cx);
  void send_transfer(wire::Placed::Reader placed,
                     const std::vector<std::pair<unsigned, uint64_t>>& going, StepContext& cx);
  void on_transfer_done(const Envelope& in, StepContext& cx);
  void settle(uint64_t id, StepContext& cx);
  void measure(wire::TransferResult::Reader result);
  void answer_status(uint64_t control, StepContext& cx);
  /// The next tier below `tier` that is there, or kTierCount.
  uint8_t below(uint8_t tier) const noexcept;

  TieringConfig config_;
  std::unique_ptr<policy::TieringPolicy> policy_;
  std::map<uint64_t, Batch> batches_;
  std::map<uint64_t, Copying> copying_;  // by transfer id
  uint64_t next_batch_ = 1;
  uint64_t next_transfer_ = 1;
  uint64_t next_question_ = 1;
  std::array<uint64_t, kTierCount> rate_{};    // bytes/s of loads from that tier, moving average
  std::array<uint64_t, kTierCount> moved_bytes_{};  // out of that tier
  uint64_t demoted_ = 0;
  uint64_t dropped_ = 0;
  uint64_t loaded_ = 0;
  uint64_t recomputed_ = 0;  // blocks that lay lower and were not worth a load
  uint64_t lost_ = 0;
  uint64_t stray_ = 0;
  Unexpected unexpected_;
};

/// Loads what is faster to load than to compute again, and demotes everything.
std::unique_ptr<policy::TieringPolicy> make_measured_tiering();
/// Loads everything that was found, and demotes everything.
std::unique_ptr<policy::TieringPolicy> make_always_tiering();

}  // namespace troupe
