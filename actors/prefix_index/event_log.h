// Collects what one step has to tell the eviction policies and sends it as one message, batches in
// the order in which things happened.
#pragma once

#include "actors/prefix_index/block_tree.h"
#include "actors/prefix_index/request_rows.h"
#include "runtime/core/outbox.h"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::prefix {

/// By so much of its key those know a block who have no part in what is true of it: policies and
/// understudies. Two blocks that agree in it cost a wrong guess, never a wrong byte.
uint64_t short_key(const BlockKey& key) noexcept;

class EventLog {
 public:
  /// `class_bytes`: bytes of one block, by class.
  explicit EventLog(std::vector<uint64_t> class_bytes) : class_bytes_(std::move(class_bytes)) {}

  /// Opens a batch; `row` may be nullptr (nobody's request). A batch that stays empty is not sent.
  void open(wire::EventKind kind, uint8_t tier, const RequestRow* row);
  /// Adds a block to the open batch; nobody's blocks of another tenant or size begin the next one.
  /// Inserts, promotions and demotions carry the tree's facts.
  void add(const BlockTree& tree, uint32_t block);
  void add(const BlockTree& tree, std::span<const uint32_t> blocks);
  /// One block; goes on with the last batch where that is of the same kind, tier and request.
  void one(wire::EventKind kind, uint8_t tier, const RequestRow* row, const BlockTree& tree,
           uint32_t block) {
    if (batches_.empty() || batches_.back().kind != kind || batches_.back().tier != tier ||
        batches_.back().request != (row != nullptr ? row->request : 0)) {
      open(kind, tier, row);
    }
    add(tree, block);
  }
  /// Sends what was collected, if anything, and starts anew.
  void flush(Outbox& out);

 private:
  struct Batch {
    wire::EventKind kind = wire::EventKind::INVALID;
    uint8_t tier = 0;
    bool described = false;  // has parents, depths, tokens and keys
    uint64_t request = 0;
    uint64_t session = 0;
    uint32_t tenant = 0;
    uint32_t hints = 0;
    uint64_t bytes = 0;
    uint32_t begin = 0;  // in blocks_
    uint32_t facts = 0;  // in parents_, depths_ and tokens_, where it is described
    uint32_t count = 0;
  };
  uint64_t bytes_of(const BlockTree& tree, uint32_t block) const noexcept;

  std::vector<uint64_t> class_bytes_;
  std::vector<Batch> batches_;
  std::vector<uint32_t> blocks_;
  // Of described batches only.
  std::vector<uint32_t> parents_;
  std::vector<uint32_t> depths_;
  std::vector<uint32_t> tokens_;
  std::vector<uint64_t> keys_;
};

}  // namespace troupe::prefix
