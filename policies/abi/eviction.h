/* Extension "troupe.eviction/1": which blocks to give up. The host sends events in batches and asks
 * for an ordered list of victims. Blocks are dense handles below the capacity; a handle is reused
 * after its `remove`, so a policy needs arrays, not hash maps. Content keys outlive handles: ghosts
 * are kept by key.
 *
 * A block's life: insert (in use) → release → [hit → release]* → named by victims → remove, or
 * refused. uses = 1 after insert, +1 at hit, -1 at release. A block may be named when uses = 0 and
 * no child is resident, where children that the same answer named before no longer count: a parent
 * may follow its last child. Naming is a proposal: `remove` confirms it, `refused` withdraws it.
 *
 * In a prefix tree the host lists the blocks of one event deepest first. In object order
 * (TROUPE_EVENT_IDLE) blocks have no parents, come in the order of access and are idle at once.
 */
#ifndef TROUPE_EVICTION_H
#define TROUPE_EVICTION_H

#include "policies/abi/troupe_policy.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TROUPE_EVICTION_1 "troupe.eviction/1"

#define TROUPE_EVENT_INSERT 1u     /* came into the tier, in use; parents, depths, keys … */
#define TROUPE_EVENT_HIT 2u        /* a lookup used the block */
#define TROUPE_EVENT_RELEASE 3u    /* that use ended */
#define TROUPE_EVENT_REMOVE 4u     /* left the tier, as a victim or for another reason */
#define TROUPE_EVENT_REFUSED 5u    /* named as a victim, but stays */
#define TROUPE_EVENT_PROMOTED 6u   /* came up from a lower tier; an insert went before */
#define TROUPE_EVENT_DEMOTED 7u    /* came down from a higher tier; an insert went before */
#define TROUPE_EVENT_PAUSE 8u      /* the session waits for a tool, expected back at `at` */
#define TROUPE_EVENT_RESUME 9u     /* the session is back */
#define TROUPE_EVENT_SUPERSEDE 10u /* the session's blocks will not be used again */
#define TROUPE_EVENT_PIN 11u       /* in use without a lookup (a copy reads it); ends by release */

#define TROUPE_EVENT_IDLE 1u /* flag on insert and hit: the use ended at once, no release follows \
                              */

/* Equal events of one request. Arrays have `count` elements or are null. */
typedef struct troupe_events {
  uint32_t struct_size;
  uint32_t kind;    /* TROUPE_EVENT_; an unknown one is ignored */
  uint64_t ordinal; /* of the request, in admission order; never falls */
  uint64_t session; /* all ones: none */
  int64_t at;       /* tick [ns] of the event, or for pause of the expected return */
  uint64_t block_bytes;
  uint32_t tenant, hints, flags, count;
  const uint32_t* blocks;
  const uint32_t* parents; /* insert: TROUPE_NO_BLOCK for a root */
  const uint32_t* depths;  /* insert: 0 for a root */
  const uint32_t* tokens;  /* insert: tokens in the block */
  const uint64_t* keys;    /* insert: content keys */
  const uint64_t* costs;   /* insert: nanoseconds to compute the block again */
} troupe_events;

/* What the host knows of every handle. */
typedef struct troupe_block_view {
  uint32_t struct_size;
  uint32_t capacity;
  const uint32_t* uses;
  const uint32_t* children;
  const uint32_t* parents;
  const uint8_t* resident;
} troupe_block_view;

typedef struct troupe_victims_call {
  uint32_t struct_size;
  uint32_t want; /* victims needed */
  uint32_t room; /* elements in victims and scores; ≥ want, more where over-eviction is allowed */
  uint32_t named; /* out: how many */
  uint32_t* victims;
  int64_t* scores; /* null, or out: why, one a victim; for the explain record */
  uint32_t scored; /* out: 1 when scores were written */
  uint32_t wanted_count;
  const uint64_t* wanted_keys; /* blocks that wait for room, in the order in which they enter */
  uint32_t free_blocks; /* room that is there already: want = wanted_count - free_blocks, or more */
  uint32_t events_stride;
  const void* events; /* events that happened before the question, given with it to save a call */
  uint64_t events_count;
  const troupe_block_view* view; /* null when the host keeps it to itself */
} troupe_victims_call;

typedef struct troupe_eviction {
  uint32_t struct_size;
  uint32_t reserved;
  /* [actor & created] `count` events, element i at events + i * stride. */
  int32_t (*on_events)(void* self, const void* events, uint64_t count, uint32_t stride);
  /* [actor & created] Fewer than wanted means that there are no more, or that none is worth it. */
  int32_t (*victims)(void* self, troupe_victims_call* call);
  /* [actor & created] A digest of the state: equal histories give equal values. */
  uint64_t (*digest)(void* self);
} troupe_eviction;

#ifdef __cplusplus
}
#endif

#endif
