#include "actors/prefix_index/event_log.h"

#include <algorithm>
#include <cstring>

namespace troupe::prefix {
uint64_t short_key(const BlockKey& key) noexcept {
  uint64_t out = 0;
  static_assert(sizeof key >= sizeof out);
  std::memcpy(&out, &key, sizeof out);
  return out;
}

void EventLog::open(wire::EventKind kind, uint8_t tier, const RequestRow* row) {
  if (!batches_.empty() && batches_.back().count == 0) {
    batches_.pop_back();
  }
  Batch batch;
  batch.kind = kind;
  batch.tier = tier;
  batch.described = kind == wire::EventKind::INSERT || kind == wire::EventKind::PROMOTED ||
                    kind == wire::EventKind::DEMOTED;
  if (row != nullptr) {
    batch.request = row->request;
    batch.session = row->session;
    batch.tenant = row->tenant;
    batch.hints = row->hints;
  }
  batch.begin = static_cast<uint32_t>(blocks_.size());
  batch.facts = static_cast<uint32_t>(parents_.size());
  batches_.push_back(batch);
}

uint64_t EventLog::bytes_of(const BlockTree& tree, uint32_t block) const noexcept {
  const size_t block_class = tree.make(block) & static_cast<uint8_t>(~kOpaqueBit);
  return block_class < class_bytes_.size() ? class_bytes_[block_class] : 0;
}

void EventLog::add(const BlockTree& tree, uint32_t block) {
  const Batch& last = batches_.back();
  if (last.request == 0 && last.count != 0 &&
      (last.tenant != tree.tenant(block) || last.bytes != bytes_of(tree, block))) {
    open(last.kind, last.tier, nullptr);
  }
  add(tree, {&block, 1});
}

void EventLog::add(const BlockTree& tree, std::span<const uint32_t> blocks) {
  if (blocks.empty()) {
    return;
  }
  Batch& batch = batches_.back();
  if (batch.count == 0) {
    batch.bytes = bytes_of(tree, blocks[0]);
    if (batch.request == 0) {
      batch.tenant = tree.tenant(blocks[0]);
    }
  }
  batch.count += static_cast<uint32_t>(blocks.size());
  blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
  if (!batch.described) {
    return;
  }
  for (const uint32_t block : blocks) {
    parents_.push_back(tree.parent(block));
    depths_.push_back(tree.depth(block));
    tokens_.push_back(tree.count(block));
    keys_.push_back(short_key(tree.key(block)));
  }
}

void EventLog::flush(Outbox& out) {
  if (!batches_.empty() && batches_.back().count == 0) {
    batches_.pop_back();
  }
  if (batches_.empty()) {
    return;
  }
  size_t words = 4;
  for (const Batch& batch : batches_) {
    words += 20 + (batch.described ? 4 : 1) * data_words(batch.count * sizeof(uint32_t)) +
             (batch.described ? data_words(batch.count * sizeof(uint64_t)) : 0);
  }
  out.send(Kind::EVENTS, words, [&](wire::Message::Builder m) {
    auto list = m.initEvents().initBatches(static_cast<unsigned>(batches_.size()));
    for (unsigned i = 0; i < batches_.size(); ++i) {
      const Batch& batch = batches_[i];
      auto events = list[i];
      events.setKind(batch.kind);
      events.setTier(batch.tier);
      events.setRequest(batch.request);
      events.setSession(batch.session);
      events.setTenant(batch.tenant);
      events.setHints(batch.hints);
      events.setBytes(batch.bytes);
      const auto part = [&](const std::vector<uint32_t>& all, uint32_t begin) {
        return data_of(std::span<const uint32_t>(all).subspan(begin, batch.count));
      };
      events.setBlocks(part(blocks_, batch.begin));
      if (batch.described) {
        events.setParents(part(parents_, batch.facts));
        events.setDepths(part(depths_, batch.facts));
        events.setTokens(part(tokens_, batch.facts));
        events.setKeys(data_of(std::span<const uint64_t>(keys_).subspan(batch.facts, batch.count)));
      }
    }
  });
  batches_.clear();
  blocks_.clear();
  parents_.clear();
  depths_.clear();
  tokens_.clear();
  keys_.clear();
}

}  // namespace troupe::prefix
