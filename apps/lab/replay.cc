#include "apps/lab/replay.h"

namespace troupe::lab {

PrefixCache::PrefixCache(const Trace& trace, uint32_t capacity, plugin::EvictionInstance& policy)
    : trace_(trace), cache_(capacity, trace.unique, policy), cached_of_(trace.requests(), 0) {
  hits_of_.reserve(trace.requests());
}

uint32_t PrefixCache::begin(size_t r, uint64_t ordinal) {
  const auto entered =
      cache_.begin({trace_.blocks(r), {}, ordinal, session(r), trace_.block_tokens});
  cached_of_[r] = entered.cached;
  hits_of_.push_back(entered.hits);
  return entered.hits;
}

void PrefixCache::end(size_t r, uint64_t ordinal) {
  cache_.end(trace_.blocks(r).first(cached_of_[r]), ordinal, session(r));
}

Counts PrefixCache::counts() const {
  Counts out;
  static_cast<policy::GhostCounts&>(out) = cache_.counts();
  out.hits_of = hits_of_;
  return out;
}

Expected<Counts> replay_prefix(const Trace& trace, uint32_t capacity,
                               plugin::EvictionInstance& policy) {
  PrefixCache cache(trace, capacity, policy);
  for (size_t r = 0; r < trace.requests() && cache.status(); ++r) {
    cache.begin(r, r);
    cache.end(r, r);
  }
  cache.finish();
  if (!cache.status()) {
    return cache.status();
  }
  return cache.counts();
}

}  // namespace troupe::lab
