/* Extension "troupe.tiering/1": what lies where. Rates come from the host's own measurements, in
 * whole units, so that every answer is exact. */
#ifndef TROUPE_TIERING_H
#define TROUPE_TIERING_H

#include "policies/abi/troupe_policy.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TROUPE_TIERING_1 "troupe.tiering/1"

typedef struct troupe_load_question {
  uint32_t struct_size;
  uint32_t blocks; /* candidates, leading ones first */
  uint64_t block_bytes;
  uint64_t tokens; /* of all candidates */
  uint64_t tier_bytes_per_s, tier_latency_ns, prefill_tokens_per_s;
  uint32_t queue_depth; /* copies that wait there already */
  uint32_t tier;
} troupe_load_question;

typedef struct troupe_leaving_block {
  uint32_t struct_size;
  uint32_t block, depth, tokens, uses, tenant, tier;
  uint32_t also_in; /* bit per tier that keeps a copy */
} troupe_leaving_block;

typedef struct troupe_prefetch_question {
  uint32_t struct_size;
  uint32_t blocks; /* of the session, below */
  uint64_t session;
  int64_t now, back_at; /* ticks; back_at: expected return */
  uint64_t block_bytes, tier_bytes_per_s;
} troupe_prefetch_question;

typedef struct troupe_tiering {
  uint32_t struct_size;
  uint32_t reserved;
  /* [actor & created] How many of the leading blocks to load; the rest is computed again. */
  uint32_t (*load)(void* self, const troupe_load_question* question);
  /* [actor & created] 1: a block that leaves a tier deserves a place below. */
  int32_t (*demote)(void* self, const troupe_leaving_block* block);
  /* [actor & created] Tick at which to start fetching, or INT64_MAX for never. */
  int64_t (*prefetch)(void* self, const troupe_prefetch_question* question);
} troupe_tiering;

#ifdef __cplusplus
}
#endif

#endif
