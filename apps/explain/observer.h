// Watches the prefix index while it is run again; see story.h.
#pragma once

#include "apps/explain/story.h"
#include "runtime/core/frame.h"
#include "runtime/core/outbox.h"

#include <unordered_map>

namespace troupe {

class StoryObserver {
 public:
  /// All outlive the observer. `tree`: of the core that is stepped.
  StoryObserver(Story& story, const prefix::BlockTree& tree, uint32_t block_tokens);
  /// After each step of the core.
  void on_step(uint64_t seq, const Frame& in, const std::vector<Outgoing>& out);
  /// After the last one.
  void finish();

 private:
  struct Row {  // a request that lives
    std::vector<uint32_t> tokens;
    std::vector<BlockKey> keys;
    uint32_t domain = 0;
    uint8_t make = 0;
    uint32_t full = 0;  // leading keys that are of full blocks
    std::vector<BlockName> computing;
  };
  struct Named {  // by a policy's answer
    uint32_t answer = kNoAnswer;
    uint32_t place = 0;
  };
  void admit(wire::Admit::Reader admit);
  void commit(wire::Commit::Reader commit);
  void unlink(wire::Unlink::Reader unlink);
  void events(wire::EventBatch::Reader events);
  void stored(wire::Events::Reader batch);
  void left(wire::Events::Reader batch);
  void changed(wire::Events::Reader batch, LifeChange what);
  LifeEvent ending_of(uint32_t block) const;
  void looked_up(wire::Step::Reader step);
  void look(wire::NewRow::Reader found);
  void explain(const Row& row, RequestStory& story) const;
  MissRun why(const Row& row, const RequestStory& story, uint32_t index, uint64_t chain,
              uint64_t differs_at) const;
  /// Token at which the prompt leaves what is cached, or kNowhere: nothing is near.
  uint64_t branch_of(const Row& row, uint32_t hits) const;
  void replied(wire::Reply::Reader reply);
  std::span<const uint32_t> tokens_of(const Row& row, uint32_t index) const;
  BlockName name_of(const Row& row, uint32_t index) const {
    return {row.keys[index], row.domain, row.make};
  }
  uint32_t life_of(uint32_t handle) const;

  static constexpr uint64_t kNowhere = UINT64_MAX;
  Story& story_;
  const prefix::BlockTree& tree_;
  uint32_t block_tokens_;
  std::unordered_map<uint64_t, Row> rows_;
  std::unordered_map<uint32_t, uint32_t> by_handle_;                  // live blocks
  std::unordered_map<uint32_t, Named> named_;                         // blocks on their way out
  std::unordered_map<BlockName, uint64_t, BlockNameHash> computing_;  // by which request
  // Of the step that is looked at:
  uint64_t seq_ = 0;
  Tick now_;
  Kind kind_ = Kind::INVALID;
  std::unordered_map<uint32_t, wire::Outcome> settled_;
  bool settles_reclaim_ = false;
  bool loses_ = false;
};

}  // namespace troupe
