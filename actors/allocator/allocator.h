// allocator: owns slots, generations, operations in flight and block tables. Reserves all device
// slots that a step needs, or none of a sequence's; short of room it has eviction free what is
// idle.
//   prefix_index | tiering | scheduler -reserve-> allocator -run-> device_stream
//   scheduler -commit-> allocator -publish-> prefix_index;  tiering -place-> allocator -placed->
//   tiering
// Invariants (reliability.md §3): a block's handle is free, or it has refs > 0, or is indexed, or
// has an operation in flight; refs = entries in tables; a slot is given back only when the block's
// last operation ended; free + used + quarantined = capacity of every tier. After PagedAttention's
// block tables (Kwon et al., SOSP 2023).
#pragma once

#include "actors/allocator/id_pool.h"
#include "actors/allocator/slot_pool.h"
#include "runtime/base/ids.h"
#include "runtime/core/actor_core.h"
#include "runtime/core/wire.h"

#include <array>
#include <deque>
#include <vector>

namespace troupe {

struct AllocatorConfig {
  std::array<uint32_t, kTierCount> granules{};  // capacity of each tier; 0: the tier is not there
  std::vector<uint32_t> class_granules = {1};   // granules of one block, by block class
  std::vector<uint32_t> class_tokens = {16};    // tokens of one block, by block class
  uint32_t capacity_blocks = 0;                 // block handles are below
  uint32_t max_sequences = 256;
  uint32_t free_reserve = 0;  // device granules kept free by demoting ahead of need
  // The same for host memory, with hysteresis: below the first, room is made up to the second.
  uint32_t host_reserve_low = 0;
  uint32_t host_reserve_high = 0;
};

class Allocator {
 public:
  explicit Allocator(AllocatorConfig config);

  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept;
  Status check_quick() const;
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

  const SlotPool& pool(Tier tier) const noexcept { return pools_[static_cast<size_t>(tier)]; }
  /// Bytes of the per-block tables (capacity planning and the memory budget).
  size_t table_bytes() const noexcept;

 private:
  struct Place {  // a slot's place; count follows from the block's class
    uint32_t first = SlotPool::kNone;
    uint32_t generation = 0;
  };
  struct BlockRow {
    uint64_t born = 0;       // last commit before the handle was given out: tells its uses apart
    uint64_t named = 0;      // last commit that named it to the index, 0: none
    uint32_t refs = 0;       // table entries that name it
    uint16_t in_flight = 0;  // operations on its slots
    uint8_t block_class = 0;
    bool indexed : 1 = false;     // the prefix index knows it, or is being told
    bool leaving : 1 = false;     // its device slot is free as soon as no table names it
    bool quarantine : 1 = false;  // and is not to be used again then
    bool demoting : 1 = false;    // asked to be copied down: its device slot is about to come free
  };
  struct Sequence {
    uint64_t request = 0;  // 0: free
    uint8_t block_class = 0;
    uint32_t published = 0;  // leading blocks that were handed to the index, or came from it
    uint32_t told = 0;       // leading blocks of the table that the engine knows as they are
    uint32_t valid = 0;      // tokens that were valid before the step in flight
    std::vector<uint32_t> table;
  };
  struct RunRow {
    uint64_t request = 0;
    uint32_t sequence = 0, before = 0, tokens = 0;
    uint32_t unused = 0;  // no padding: saved as bytes
  };
  struct NewRow {
    uint64_t request = 0;
    uint32_t sequence = 0, total = 0, parent = 0, hits = 0, hit_tokens = 0, on_device = 0,
             offset = 0, partial_source = 0, partial_tokens = 0, tokens = 0, last_partial = 0,
             fork_tokens = 0;
    uint8_t block_class = 0;
    uint8_t in = 1;  // fits
    uint16_t unused = 0;
    uint32_t key_offset = 0;  // in PendingStep::keys
  };
  struct PendingStep {
    uint64_t step = 0;  // 0: none waits
    std::vector<RunRow> rows;
    std::vector<NewRow> news;
    std::vector<uint32_t> blocks;
    std::vector<BlockKey> keys;  // of what is loaded
    uint64_t last_free = 0;  // free granules when the last reclaim was sent
    uint64_t missing = 0;    // granules, of the first new row that did not fit
  };
  struct Need {            // of a new row
    uint32_t handles = 0;  // blocks that are new
    uint32_t slots = 0;    // these and the loads
  };
  struct PendingPlace {
    uint8_t from = 0;
    uint8_t to = 0;
    bool asked = false;  // reclaimed for once
    std::vector<uint32_t> blocks;
  };

  // allocator_check.cc
  struct Census {  // of the granules, by tier: how many blocks hold, and which are not free
    std::array<uint64_t, kTierCount> used{};
    std::array<std::vector<bool>, kTierCount> taken;
  };
  uint64_t held_refs() const noexcept;
  std::vector<uint32_t> count_refs() const;
  Status check_block(uint32_t block, uint32_t refs, Census& census) const;
  // allocator_state.cc
  Status load_blocks(StateSource& source);
  Status load_waiting(StateSource& source);
  // allocator_step.cc
  void on_reserve(wire::Step::Reader step, StepContext& cx);
  void try_step(StepContext& cx);
  uint32_t growth(const RunRow& row) const noexcept;
  Need needed(const NewRow& row) const noexcept;
  bool forks(const NewRow& row) const noexcept;
  bool take_ahead();
  void give_back_ahead();
  void make_room_for_runs(bool may_ask, StepContext& cx);
  void drop_new(NewRow& row);
  void cancel_step(uint64_t missing, StepContext& cx);
  void send_short(uint64_t missing, bool cancelled, StepContext& cx);
  void ask_room(uint8_t tier, uint64_t granules, bool ahead, StepContext& cx);
  // allocator_run.cc
  void run_step(StepContext& cx);
  void grow(const RunRow& row);
  void enter(const NewRow& row);
  struct CopyRow;
  void fill_copy(wire::Copy::Builder copy, const CopyRow& row) const;
  void send_run(StepContext& cx);
  // allocator_commit.cc
  void on_commit(wire::Commit::Reader commit, StepContext& cx);
  void on_folded(wire::Folded::Reader folded);
  void replace_in_tables(uint32_t index, uint32_t duplicate, uint32_t canonical);
  void name(uint32_t block);
  void release_table(Sequence& sequence);
  // allocator_tiers.cc
  void on_place(wire::Place::Reader place, StepContext& cx);
  void try_places(uint8_t tier, StepContext& cx);
  void refill_host(StepContext& cx);
  void on_released(wire::Released::Reader released, StepContext& cx);
  void answer_status(uint64_t control, StepContext& cx);

  // allocator.cc
  uint32_t new_block(uint8_t block_class, uint32_t after);
  bool take_slot(uint32_t block, Tier tier);
  void free_slot(uint32_t block, Tier tier, bool quarantine);
  void ref(uint32_t block) noexcept {
    TROUPE_ASSERT(!ids_.is_free(block));
    const bool was = is_idle(block);
    ++rows_[block].refs;
    ++refs_total_;
    note_idle(block, was);
  }
  void unref(uint32_t block);
  void free_if_unused(uint32_t block);
  void set_indexed(uint32_t block, bool indexed);
  bool is_idle(uint32_t block) const noexcept {
    const BlockRow& row = rows_[block];
    return row.indexed && row.refs == 0 && row.in_flight == 0 && !row.demoting &&
           has(block, Tier::kDevice);
  }
  void set_demoting(uint32_t block, bool demoting) noexcept {
    const bool was = is_idle(block);
    if (rows_[block].demoting != demoting) {
      rows_[block].demoting = demoting;
      demoting_granules_ += demoting ? granules_of(block) : 0;
      demoting_granules_ -= demoting ? 0 : granules_of(block);
    }
    note_idle(block, was);
  }
  void note_idle(uint32_t block, bool was) noexcept {
    const bool is = is_idle(block);
    if (is != was) {
      idle_granules_ += is ? granules_of(block) : 0;
      idle_granules_ -= was ? granules_of(block) : 0;
    }
  }
  uint32_t granules_of(uint32_t block) const noexcept {
    return config_.class_granules[rows_[block].block_class];
  }
  Place& place(uint32_t block, Tier tier) noexcept {
    return places_[static_cast<size_t>(tier)][block];
  }
  const Place& place(uint32_t block, Tier tier) const noexcept {
    return places_[static_cast<size_t>(tier)][block];
  }
  bool has(uint32_t block, Tier tier) const noexcept {
    const auto& tier_places = places_[static_cast<size_t>(tier)];
    return block < tier_places.size() && tier_places[block].first != SlotPool::kNone;
  }
  void set_slot(wire::SlotRef::Builder out, uint32_t block, Tier tier) const;
  bool has_lower_tier() const noexcept;
  uint32_t tokens_of(uint8_t block_class) const noexcept {
    return config_.class_tokens[block_class];
  }

  struct CopyRow {
    uint32_t block, row;
    uint32_t source;  // block whose device slot is copied (copy on write), or kNoBlock: a load
    Tier from = Tier::kDevice;
    BlockKey key{};  // of a load
  };

  AllocatorConfig config_;
  std::array<SlotPool, kTierCount> pools_;
  std::array<std::vector<Place>, kTierCount> places_;  // by tier, then block; empty where no tier
  std::vector<BlockRow> rows_;
  IdPool ids_;
  std::vector<std::vector<uint32_t>> ahead_;  // slots of the step at hand by class, next one last
  std::vector<Sequence> sequences_;
  PendingStep pending_;
  std::deque<PendingPlace> places_waiting_;
  std::array<bool, kTierCount> reclaim_open_{};
  std::array<bool, kTierCount> reclaim_ahead_{};  // the open one is to refill a reserve
  std::vector<CopyRow> loads_;  // of the step being built; empty between messages
  std::vector<CopyRow> cows_;
  uint32_t next_id_hint_ = 0;
  uint32_t next_slot_generation_ = 1;
  uint64_t refs_total_ = 0;
  uint64_t commits_ = 0;            // number of the last commit
  uint64_t idle_granules_ = 0;      // device granules of blocks that could be evicted
  uint64_t demoting_granules_ = 0;  // device granules of blocks on their way down
  uint32_t peak_used_ = 0;          // device granules
  uint64_t used_tick_sum_ = 0;      // used granules x ticks / 2^10, for the mean
  Tick used_since_;
  Tick first_tick_;
  uint64_t copied_ = 0;
  uint64_t evicted_ = 0;  // device slots given up by indexed blocks
  uint64_t stray_ = 0;
  Unexpected unexpected_;
};

}  // namespace troupe
