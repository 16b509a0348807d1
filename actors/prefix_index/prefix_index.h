// prefix_index: owns what is true of a block: its key, parent, children, tiers, leases, and hence
// whether it may be evicted. Third on a request's way:
//   gateway -admit-> prefix_index -queued-> scheduler -match-> prefix_index -load/reserve-> …
//   … allocator -publish-> prefix_index -reply-> gateway;  eviction -unlink-> prefix_index -settle…
// Invariants: those of block_tree.h; a request's leases are its anchor (deepest block that it uses
// on the device) and at most one source of a partial copy; a block that moves is used by no lookup;
// every block that a policy counts as used by a request is released when the request's path ends.
// Keys come from the ingress port: this actor compares them, and tokens, and hashes nothing.
#pragma once

#include "actors/prefix_index/block_tree.h"
#include "actors/prefix_index/event_log.h"
#include "actors/prefix_index/request_rows.h"
#include "runtime/core/actor_core.h"

#include <map>
#include <set>
#include <span>
#include <vector>

namespace troupe {

struct PrefixIndexConfig {
  std::vector<uint32_t> class_tokens = {16};  // tokens of one block, by block class
  std::vector<uint64_t> class_bytes = {0};  // bytes of one block, by block class; told to policies
  uint32_t capacity_blocks = 0;             // block handles are below
  uint32_t max_requests = 4096;             // rows; at least the gateway's credits
  uint32_t partial_min_tokens = 8;          // least tokens worth a copy on write; 0: never
  bool publish_partial = true;              // a partial tail is published when its request ends
  bool verify_tokens = true;                // compare tokens on a hit, not keys alone
  uint8_t tiers = 1;                        // mask of the tiers that are there
  uint64_t unread_lookups = 4096;           // told to understudies and not yet read, at most
  bool stage = false;  // what lies on disk is brought to host memory before its step, or computed
};

class PrefixIndex {
 public:
  using Config = PrefixIndexConfig;
  /// Names the first field that is out of its range.
  static Status validate(const Config& config);
  /// `config` must be valid.
  explicit PrefixIndex(Config config);

  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept;
  Status check_quick() const;
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

  const prefix::BlockTree& tree() const noexcept { return tree_; }

 private:
  using Row = prefix::RequestRow;
  struct PendingKey {
    uint8_t make = 0;
    uint32_t domain = 0;
    BlockKey key;
    friend auto operator<=>(const PendingKey&, const PendingKey&) noexcept = default;
  };
  struct Found {  // result of one lookup; its blocks lie in blocks_ from `offset`
    uint32_t offset = 0;
    uint32_t hits = 0;    // leading resident blocks, a partial last one included
    uint32_t device = 0;  // of these, leading ones on the device
    uint32_t tokens = 0;  // tokens of the hits
    uint32_t last_partial = 0;
    uint32_t obstacle = kNoBlock;  // the block behind the hits moves
    prefix::BlockTree::Partial partial;
  };
  struct RunIn {  // a running row rides along
    uint64_t request = 0;
    uint32_t sequence = 0;
    uint32_t before = 0;
    uint32_t tokens = 0;
    uint32_t unused = 0;  // no padding: saved as bytes
  };
  struct NewIn {
    uint64_t request = 0;
    uint32_t sequence = 0;
    uint32_t budget = 0;
    uint32_t total = 0;
    uint32_t parent = 0;
    uint32_t force = 0;
    uint32_t block_class = 0;
  };
  struct NewOut {  // a new row as it goes on
    NewIn in;
    Found found;
    uint32_t listed = 0;
    uint32_t fork_tokens = 0;
    uint32_t tokens = 0;
  };
  struct Arrival {  // one published block
    uint32_t block = kNoBlock;
    uint32_t index = 0;  // place in the table
    uint32_t count = 0;  // tokens
    uint32_t sequence = 0;
  };
  struct Fold {
    uint64_t request = 0;
    uint32_t sequence = 0;
    uint32_t index = 0;
    uint32_t duplicate = 0;
    uint32_t canonical = kNoBlock;
  };
  enum class RoomFor : uint8_t { kNobody, kStep, kReserve };  // who asked that blocks leave
  struct Leave {
    uint32_t block = 0;
    uint8_t tier = 0;
    bool gone = false;
    bool quarantine = false;
    bool kept = false;
  };
  struct KeptBack {  // a purged block that steps on their way name
    uint32_t rows = 0;
    std::vector<Leave> leaves;
  };

  uint32_t block_tokens(const Row& row) const noexcept {
    return config_.class_tokens[row.block_class()];
  }
  // prefix_index_match.cc: a request comes in, and its lookup
  void on_admit(wire::Admit::Reader admit, StepContext& cx);
  void fill_row(Row& row, wire::Spec::Reader spec);
  void refuse(wire::Admit::Reader admit, StepContext& cx);
  /// A batch on its way, as rows of state: it may have to wait for a `publish` that is behind it.
  struct Batch {
    uint64_t step = 0;
    uint64_t commits = 0;
    std::vector<RunIn> rows;
    std::vector<NewIn> news;
  };
  void on_match(wire::Step::Reader step, StepContext& cx);
  void match_batch(StepContext& cx);
  Found look_up(const Row& row, uint32_t total);
  bool must_wait(Row& row, const Found& found);
  void tell_lookup(const Row& row, StepContext& cx);
  /// Whether the row waits until what lies on disk has been brought up.
  bool wait_for_stage(Row& row, const Found& found, StepContext& cx);
  uint32_t stage(const Found& found, StepContext& cx);
  /// Without what lies on disk and behind it: a step does not wait for a disk.
  void leave_disk(const Row& row, Found& found);
  bool on_disk_only(uint32_t block) const noexcept;
  void enter(Row& row, const Found& found, uint32_t total);
  uint32_t fork_tokens(const Row& row, uint32_t total);
  void send_held(bool empty, StepContext& cx);
  size_t lower_blocks() const noexcept;
  void fill_step(wire::Step::Builder out) const;
  // prefix_index_publish.cc: what a step filled, and endings
  void on_publish(wire::Commit::Reader commit, StepContext& cx);
  void append_content(Row& row, wire::CommitRow::Reader in, std::span<const uint32_t> tokens,
                      std::span<const BlockKey> keys);
  void publish_row(Row& row, wire::CommitRow::Reader in, std::span<const uint32_t> blocks);
  bool accept(Row& row, const Arrival& arrival);
  void take_place(Row& row, uint32_t block, uint32_t index, wire::EventKind how);
  void settle_early(Row& row, uint32_t below);
  void forget_loads(Row& row, size_t count);
  void end_row(Row& row, wire::CommitRow::Reader in, StepContext& cx);
  void swap_out(uint32_t anchor, StepContext& cx);
  void send_folds(uint64_t commit, StepContext& cx);
  void send_replies(wire::Commit::Reader commit, StepContext& cx);
  // prefix_index_residence.cc: blocks leave and change tiers
  void on_unlink(wire::Unlink::Reader unlink, StepContext& cx);
  void send_unlinked(std::span<const uint32_t> blocks, uint8_t tier, uint32_t refused,
                     RoomFor room, StepContext& cx);
  void fill_leaving(wire::Leaving::Builder out, uint32_t block, uint8_t tier) const;
  void on_settle(wire::Settle::Reader settle, StepContext& cx);
  void settle_one(wire::Settlement::Reader item);
  void settle_doomed(uint32_t block, uint8_t to);
  void settle_leaving(wire::Settlement::Reader item);
  void settle_copied(uint32_t block, uint8_t to);
  void settle_lost(wire::Settlement::Reader item);
  void void_copy(uint32_t block, uint8_t tier);
  void drop_load(uint32_t block);
  void release_all(uint32_t block, uint8_t mask, uint8_t quarantine_tier);
  /// Takes blocks (children before parents, closed under descendants) out of the tree.
  void remove_blocks(const std::vector<uint32_t>& blocks, uint8_t quarantine_tier);
  void detach_rows(const std::vector<uint32_t>& sorted);
  std::vector<Leave>& leaves_of(uint32_t block);
  void keep_back(Row& row, uint32_t block);
  void step_came_back(Row& row, bool ran);
  void send_released(uint8_t tier, bool reclaim, StepContext& cx);
  // prefix_index_control.cc: purge, status, waking
  void on_purge(wire::Purge::Reader purge, StepContext& cx);
  std::vector<uint32_t> purge_roots(wire::Purge::Reader purge) const;
  void answer_status(uint64_t control, StepContext& cx);
  void set_pending(Row& row);
  void clear_pending(Row& row);
  void wake_for_block(uint32_t block);
  void wake_for_request(const Row& row, bool gone);
  void start_waiting(Row& row);
  void stop_waiting(Row& row);
  void send_ready(StepContext& cx);
  // prefix_index_state.cc
  Status check_row(uint64_t id, const Row& row) const;
  Status check_holds() const;

  Config config_;
  prefix::BlockTree tree_;
  prefix::RequestRows rows_;
  std::map<PendingKey, uint64_t> pending_;  // block content -> request that computes it
  std::map<uint32_t, uint64_t> loads_;      // block that is being loaded -> request
  std::map<uint32_t, KeptBack> kept_back_;  // block -> its releases, until those steps came back
  uint64_t published_ = 0;                  // number of the last commit that came through
  Batch batch_;                             // step 0: none is held back
  uint32_t waiting_ = 0;                    // rows told to wait
  // The rows that wait, by what they wait for; rows hold the truth.
  std::set<std::pair<uint32_t, uint64_t>> block_waiters_;    // block that moves, request
  std::set<std::pair<uint64_t, uint64_t>> request_waiters_;  // request that computes, request
  bool watched_ = false;                                     // understudies want to hear of lookups
  uint64_t unread_ = 0;                                      // lookups told and not yet read
  uint64_t skipped_ = 0;                                     // since the last one that was told
  uint64_t waits_ = 0;                                       // times that a row was told to wait
  uint64_t folded_ = 0;
  uint64_t refused_ = 0;     // victims that were in use
  uint64_t mismatched_ = 0;  // keys that met other tokens
  std::set<uint32_t> staged_;  // brought up, not used since
  uint64_t stage_asked_ = 0, stage_came_ = 0, stage_used_ = 0;
  uint64_t stage_missed_ = 0;  // lay on disk when their request's step was formed: computed again
  uint64_t stray_ = 0;       // messages about blocks or requests that are not known (any more)
  Unexpected unexpected_;

  // Of the step at hand only; empty between steps.
  prefix::EventLog events_;
  std::vector<NewOut> news_;
  std::vector<uint32_t> blocks_;
  std::vector<uint64_t> held_;
  std::vector<uint64_t> gone_;
  std::vector<Fold> folds_;
  std::vector<Leave> releases_;
  std::vector<uint64_t> ready_;
};

}  // namespace troupe
