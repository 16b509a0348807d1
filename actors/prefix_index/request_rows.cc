#include "actors/prefix_index/request_rows.h"

#include <tuple>

namespace troupe::prefix {

RequestRow* RequestRows::add(uint64_t request) {
  if (full()) {
    return nullptr;
  }
  const auto [row, fresh] = rows_.try_emplace(request);
  row->second.request = request;
  if (fresh && !spare_.empty()) {
    std::tie(row->second.tokens, row->second.keys) = std::move(spare_.back());
    spare_.pop_back();
  }
  return fresh ? &row->second : nullptr;
}

void RequestRows::erase(uint64_t request) {
  constexpr size_t kSpare = 16;
  const auto row = rows_.find(request);
  if (row == rows_.end()) {
    return;
  }
  if (spare_.size() < kSpare) {
    row->second.tokens.clear();
    row->second.keys.clear();
    spare_.emplace_back(std::move(row->second.tokens), std::move(row->second.keys));
  }
  rows_.erase(row);
}

void RequestRows::digest(Digest& d) const noexcept {
  for (const auto& [id, r] : rows_) {
    d.add(id).add(r.session).add(r.parent).add(r.tenant).add(r.domain).add(r.hints).add(r.make);
    d.add(r.total).add(r.full_keys).add(r.tail_tokens).add(r.tokens.size());
    for (const BlockKey& key : r.keys) {
      d.add(key.w[0]).add(key.w[1]).add(key.w[2]).add(key.w[3]);
    }
    d.add(r.anchor).add(r.used).add(r.partial_source).add(r.waits_request).add(r.waits_block);
    d.add((r.cut ? 1U : 0U) | (r.waiting ? 2U : 0U) | (r.pending ? 4U : 0U) | (r.riding ? 8U : 0U) |
          (r.staged ? 16U : 0U));
    for (const uint32_t block : r.kept_back) {
      d.add(block);
    }
    for (const uint32_t block : r.loading) {
      d.add(block);
    }
    d.add(r.first.done).add(r.first.hit_blocks).add(r.first.loaded);
  }
}

void RequestRows::save(StateSink& sink) const {
  sink.u64(rows_.size());
  for (const auto& [id, r] : rows_) {
    sink.u64(id);
    sink.u64(r.session);
    sink.u64(r.parent);
    sink.u64(r.waits_request);
    for (const uint32_t v :
         {r.tenant, r.domain, r.hints, r.total, r.full_keys, r.tail_tokens, r.anchor, r.used,
          r.partial_source, r.waits_block, r.first.done, r.first.listed, r.first.hit_blocks,
          r.first.hit_tokens, r.first.partial_tokens, r.first.loaded}) {
      sink.u32(v);
    }
    sink.u8(r.make);
    sink.u8(static_cast<uint8_t>((r.prompt_only ? 1 : 0) | (r.cut ? 2 : 0) | (r.waiting ? 4 : 0) |
                                 (r.pending ? 8 : 0) | (r.riding ? 16 : 0) |
                                 (r.staged ? 32 : 0)));
    sink.array(r.tokens);
    sink.array(r.keys);
    sink.array(r.loading);
    sink.array(r.kept_back);
    sink.array(r.doomed_loads);
    for (const uint64_t word : r.pending_key.w) {
      sink.u64(word);
    }
  }
}

Status RequestRows::load(StateSource& source) {
  rows_.clear();
  const uint64_t count = source.u64();
  for (uint64_t i = 0; i < count && source.status(); ++i) {
    RequestRow r;
    r.request = source.u64();
    r.session = source.u64();
    r.parent = source.u64();
    r.waits_request = source.u64();
    for (uint32_t* v :
         {&r.tenant, &r.domain, &r.hints, &r.total, &r.full_keys, &r.tail_tokens, &r.anchor,
          &r.used, &r.partial_source, &r.waits_block, &r.first.done, &r.first.listed,
          &r.first.hit_blocks, &r.first.hit_tokens, &r.first.partial_tokens, &r.first.loaded}) {
      *v = source.u32();
    }
    r.make = source.u8();
    const uint8_t flags = source.u8();
    r.prompt_only = (flags & 1) != 0;
    r.cut = (flags & 2) != 0;
    r.waiting = (flags & 4) != 0;
    r.pending = (flags & 8) != 0;
    r.riding = (flags & 16) != 0;
    r.staged = (flags & 32) != 0;
    r.tokens = source.array<uint32_t>();
    r.keys = source.array<BlockKey>();
    r.loading = source.array<uint32_t>();
    r.kept_back = source.array<uint32_t>();
    r.doomed_loads = source.array<uint32_t>();
    for (uint64_t& word : r.pending_key.w) {
      word = source.u64();
    }
    if (r.full_keys > r.keys.size()) {
      return Status(Code::kCorrupt, "prefix_index: request " + std::to_string(r.request) + " has " +
                                        std::to_string(r.keys.size()) + " keys, fewer than " +
                                        std::to_string(r.full_keys));
    }
    rows_.emplace(r.request, std::move(r));
  }
  return source.status();
}

}  // namespace troupe::prefix
