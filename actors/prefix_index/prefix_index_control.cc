// Purge with its receipt, status, and who waits for whom.
#include "actors/prefix_index/prefix_index.h"
#include "runtime/core/gauges.h"

#include <algorithm>
#include <string>

namespace troupe {

std::vector<uint32_t> PrefixIndex::purge_roots(wire::Purge::Reader purge) const {
  std::vector<uint32_t> roots;
  const auto scope = purge.getScope();
  if (scope == wire::PurgeScope::PREFIX) {
    const auto keys = span_of<BlockKey>(purge.getKeys());
    // The path may be of any make and in any domain: an operator names content alone.
    for (uint32_t root = 0; root < tree_.capacity() && !keys.empty(); ++root) {
      if (!tree_.live(root) || tree_.parent(root) != kNoBlock || tree_.key(root) != keys[0]) {
        continue;
      }
      uint32_t at = root;
      for (size_t i = 1; i < keys.size() && at != kNoBlock; ++i) {
        at = tree_.find_child(at, keys[i], tree_.make(root), tree_.domain(root));
      }
      if (at != kNoBlock) {
        roots.push_back(at);
      }
    }
    return roots;
  }
  for (uint32_t block = 0; block < tree_.capacity(); ++block) {
    if (tree_.live(block) &&
        (scope == wire::PurgeScope::ALL ||
         (scope == wire::PurgeScope::TENANT && tree_.tenant(block) == purge.getId()) ||
         (scope == wire::PurgeScope::DOMAIN && tree_.domain(block) == purge.getId()))) {
      roots.push_back(block);
    }
  }
  return roots;
}

void PrefixIndex::on_purge(wire::Purge::Reader purge, StepContext& cx) {
  const uint64_t leases = tree_.live_leases();
  uint64_t before[kTierCount];
  for (uint8_t tier = 0; tier < kTierCount; ++tier) {
    before[tier] = tree_.live_on(tier);
  }
  const uint64_t blocks_before = tree_.live_blocks();
  // What hangs on a purged block goes with it, whoever's it is: without its parent it can't be
  // found.
  std::vector<uint32_t> gone;
  std::vector<bool> taken(tree_.capacity(), false);
  std::vector<uint32_t> roots = purge_roots(purge);
  std::stable_sort(roots.begin(), roots.end(),
                   [&](uint32_t a, uint32_t b) { return tree_.depth(a) < tree_.depth(b); });
  for (const uint32_t root : roots) {
    if (taken[root]) {
      continue;
    }
    const size_t begin = gone.size();
    tree_.collect_subtree(root, gone);
    for (size_t i = begin; i < gone.size(); ++i) {
      taken[gone[i]] = true;
    }
  }
  remove_blocks(gone, kTierCount);
  events_.flush(cx.out);
  send_released(0, false, cx);
  send_ready(cx);
  const Gauge receipt[] = {
      {"purged.blocks", blocks_before - tree_.live_blocks()},
      {"purged.device", before[0] - tree_.live_on(0)},
      {"purged.host", before[1] - tree_.live_on(1)},
      {"purged.disk", before[2] - tree_.live_on(2)},
      {"purged.remote", before[3] - tree_.live_on(3)},
      {"purged.detached", leases - tree_.live_leases()},
  };
  send_gauges(cx, purge.getControl(), receipt);
}

void PrefixIndex::answer_status(uint64_t control, StepContext& cx) {
  const Gauge gauges[] = {
      {"prefix_index.blocks", tree_.live_blocks()},
      {"prefix_index.device", tree_.live_on(0)},
      {"prefix_index.host", tree_.live_on(1)},
      {"prefix_index.disk", tree_.live_on(2)},
      {"prefix_index.remote", tree_.live_on(3)},
      {"prefix_index.runs", tree_.runs()},
      {"prefix_index.leases", tree_.live_leases()},
      {"prefix_index.requests", rows_.size()},
      {"prefix_index.pending", pending_.size()},
      {"prefix_index.waiting", waiting_},
      {"prefix_index.waits", waits_},
      {"prefix_index.folded", folded_},
      {"prefix_index.refused", refused_},
      {"prefix_index.mismatched", mismatched_},
      {"prefix_index.stage_asked", stage_asked_},
      {"prefix_index.stage_came", stage_came_},
      {"prefix_index.stage_used", stage_used_},
      {"prefix_index.stage_missed", stage_missed_},
      {"prefix_index.stray", stray_},
      {"prefix_index.unexpected", unexpected_.count},
  };
  send_gauges(cx, control, gauges);
}

void PrefixIndex::set_pending(Row& row) {
  clear_pending(row);
  const uint32_t next = row.reach();
  if (row.cut || next >= row.publishable()) {
    return;
  }
  row.pending_key = row.keys[next];
  row.pending =
      pending_.emplace(PendingKey{row.make, row.domain, row.pending_key}, row.request).second;
}

void PrefixIndex::clear_pending(Row& row) {
  if (row.pending) {
    pending_.erase({row.make, row.domain, row.pending_key});
    row.pending = false;
  }
}

void PrefixIndex::start_waiting(Row& row) {
  row.waiting = true;
  ++waiting_;
  if (row.waits_block != kNoBlock) {
    block_waiters_.emplace(row.waits_block, row.request);
  } else {
    request_waiters_.emplace(row.waits_request, row.request);
  }
}

void PrefixIndex::stop_waiting(Row& row) {
  if (row.waiting) {
    row.waiting = false;
    --waiting_;
    block_waiters_.erase({row.waits_block, row.request});
    request_waiters_.erase({row.waits_request, row.request});
  }
  row.waits_request = 0;
  row.waits_block = kNoBlock;
}

void PrefixIndex::wake_for_block(uint32_t block) {
  for (auto at = block_waiters_.lower_bound({block, 0});
       at != block_waiters_.end() && at->first == block;
       at = block_waiters_.lower_bound({block, 0})) {
    Row& row = *rows_.find(at->second);
    stop_waiting(row);
    ready_.push_back(row.request);
  }
}

void PrefixIndex::wake_for_request(const Row& computing, bool gone) {
  const uint32_t next = computing.reach();
  std::vector<uint64_t> waiters;
  for (auto at = request_waiters_.lower_bound({computing.request, 0});
       at != request_waiters_.end() && at->first == computing.request; ++at) {
    waiters.push_back(at->second);
  }
  for (const uint64_t id : waiters) {
    Row& row = *rows_.find(id);
    // While the other computes what this one needs next as well, it would only be held again.
    const bool still = !gone && computing.pending && row.make == computing.make &&
                       row.domain == computing.domain && next < row.publishable() &&
                       row.keys[next] == computing.pending_key;
    if (!still) {
      stop_waiting(row);
      ready_.push_back(id);
    }
  }
}

void PrefixIndex::send_ready(StepContext& cx) {
  if (ready_.empty()) {
    return;
  }
  std::sort(ready_.begin(), ready_.end());
  cx.out.send(Kind::READY, data_words(ready_.size() * sizeof(uint64_t)),
              [&](wire::Message::Builder m) { m.initReady().setRequests(data_of(ready_)); });
  ready_.clear();
}

}  // namespace troupe
