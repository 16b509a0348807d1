// tiering: owns transfers between tiers. On a request's way it decides how many of the blocks that
// lie lower are loaded and how many are computed again; on a victim's way, whether it is dropped,
// kept as a clean lower copy, or demoted. Decisions go through policy::TieringPolicy, from measured
// rates.
//   prefix_index -load-> tiering -reserve-> allocator
//   prefix_index -unlinked-> tiering (-place-> allocator -placed-> tiering -transfer-> mover
//   -transferDone-> tiering)
//     -settle-> prefix_index
//   prefix_index -stage-> tiering (as above, from disk to host) -settle-> prefix_index
// Invariants: every block of an `unlinked` is settled exactly once; a batch that answers a reclaim
// is settled by one message, so that every reclaim is answered once.
#pragma once

#include "runtime/base/block_key.h"
#include "runtime/base/ids.h"
#include "runtime/base/tick.h"
#include "runtime/core/actor_core.h"
#include "runtime/core/policy.h"
#include "runtime/core/wire.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace troupe {

struct TieringConfig {
  std::array<bool, kTierCount> enabled = {true, false, false, false};
  std::array<uint64_t, kTierCount> bytes_per_s{};  // first guesses; measured from then on
  std::array<uint64_t, kTierCount> latency_ns{};
  uint64_t prefill_tokens_per_s = 0;
  // Tokens that a step computes in the time that it takes anyway, since it reads the weights: where
  // no more are saved, a load only adds to it.
  uint64_t step_free_tokens = 0;
  uint64_t block_bytes = 0;  // of one block in the true layout
  std::vector<uint32_t> class_tokens = {16};
  // A tier that fails so often within the window is left alone for a while, then tried again: one
  // failure of the trial closes it anew, one success opens it for all.
  uint32_t breaker_errors = 8;
  Tick breaker_window = from_ms(60000);
  Tick breaker_pause = from_ms(30000);
  // A step that is short of room does not wait for a disk: what would go there is dropped. What is
  // demoted ahead of need goes there in its own time.
  bool drop_for_step = false;
  // Bytes that may be written to disk in a day, as a bucket that holds one hour's share; 0: no
  // limit.
  uint64_t disk_bytes_per_day = 0;
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
    BlockKey key{};        // of what may be demoted
    bool on_disk = false;  // admitted there
  };
  struct Batch {
    uint8_t tier = 0;
    uint8_t asked_tier = kTierCount;  // where places were asked for; kTierCount: nowhere now
    uint64_t question = 0;            // of that asking; answers come in the order of the questions
    bool reclaim = false;
    bool ahead = false;  // of that reclaim: nobody waits for its room
    bool stage = false;  // brings blocks up: they stay where they are
    uint32_t open = 0;  // items whose outcome is unknown
    std::vector<Item> items;
    std::vector<uint32_t> asked;  // items that wait for a place in asked_tier
  };
  struct Copying {  // a transfer on its way
    uint64_t batch = 0;
    uint32_t item = 0;
  };

  struct Breaker {
    uint32_t errors = 0;  // since window_begin
    int64_t window_begin = 0;
    int64_t shut_until = INT64_MIN;
    bool trial = false;  // the pause is over, and nothing came back since
  };

  void on_load(wire::Step::Reader step, StepContext& cx);
  /// How many of the leading blocks are loaded; `tiers`: where they lie.
  uint32_t blocks_to_load(uint32_t tokens_a_block, std::span<const uint8_t> tiers,
                          uint64_t free_tokens, Tick now);
  bool wants_place(wire::Leaving::Reader leaving, const Batch& batch, Item& item, Tick now);
  void on_stage(wire::Stage::Reader stage, StepContext& cx);
  void on_unplaced(Batch& batch, uint32_t index, uint8_t next, Tick now,
                   std::vector<uint32_t>& lower);
  /// Whether the day's budget has room for one more block on disk; it is taken then.
  bool take_write(Tick now);
  void note_health(wire::TransferResult::Reader result, Tick now);
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
  /// The same, of those that are not shut.
  uint8_t usable_below(uint8_t tier, Tick now) const noexcept;
  bool is_shut(uint8_t tier, Tick now) const noexcept {
    return now.ns < breakers_[tier].shut_until;
  }

  TieringConfig config_;
  std::unique_ptr<policy::TieringPolicy> policy_;
  std::map<uint64_t, Batch> batches_;
  std::map<uint64_t, Copying> copying_;  // by transfer id
  std::array<uint32_t, kTierCount> depth_{};  // of these, by the lower tier of the two
  uint64_t next_batch_ = 1;
  uint64_t next_transfer_ = 1;
  uint64_t next_question_ = 1;
  std::array<uint64_t, kTierCount> rate_{};  // bytes/s of loads from that tier, moving average
  std::array<uint64_t, kTierCount> moved_bytes_{};  // out of that tier
  uint64_t demoted_ = 0;
  uint64_t dropped_ = 0;
  uint64_t loaded_ = 0;
  uint64_t staged_ = 0;      // brought from disk to host memory before their step
  uint64_t unwritten_ = 0;   // blocks that were not admitted to disk
  uint64_t over_budget_ = 0;  // of these, since the day's bytes were written
  uint64_t unhurried_ = 0;   // dropped, since a step would have waited for the disk
  uint64_t bucket_ = 0;      // bytes that may be written now
  int64_t bucket_at_ = INT64_MIN;  // tick of the last refill; INT64_MIN: full
  std::array<int64_t, kTierCount> probe_at_{};  // a tier too slow to load from is tried again then
  uint64_t recomputed_ = 0;  // blocks that lay lower and were not worth a load
  uint64_t lost_ = 0;
  std::array<Breaker, kTierCount> breakers_{};
  uint64_t errors_ = 0;  // of lower tiers' devices
  uint64_t shuts_ = 0;
  uint64_t stray_ = 0;
  Unexpected unexpected_;
};

/// Loads what is faster to load than to compute again, and demotes everything.
std::unique_ptr<policy::TieringPolicy> make_measured_tiering();
/// Loads everything that was found, and demotes everything.
std::unique_ptr<policy::TieringPolicy> make_always_tiering();
/// As `inner`, but writes to disk only what was looked up again since it was computed: most blocks
/// of a flood are never asked for twice, and drives wear by what is written.
std::unique_ptr<policy::TieringPolicy> make_reuse_admission(
    std::unique_ptr<policy::TieringPolicy> inner);

}  // namespace troupe
