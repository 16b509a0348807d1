/* Bad plug-ins, one per value of ZOO (names in tests/plugin/CMakeLists.txt). Each is right except
 * for one thing, so that what catches it is the check for that thing. The right part: a first-in
 * first-out queue over leaves, small enough to read. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if ZOO_CLOCK
#include <time.h>
#endif
#if ZOO_OPENS_FILE
#include <fcntl.h>
#elif ZOO_OPENS_SOCKET
#include <sys/socket.h>
#endif

#include "policies/abi/eviction.h"

#define CAPACITY_MAX 65536

typedef struct state {
  uint32_t capacity, count;
  uint32_t order[CAPACITY_MAX]; /* residents, oldest first */
  uint32_t uses[CAPACITY_MAX], children[CAPACITY_MAX], parents[CAPACITY_MAX];
  uint8_t here[CAPACITY_MAX];
  uint32_t calls;
} state;

#if ZOO_GLOBAL_STATE
static uint32_t shared_calls;
#endif
#if ZOO_TLS
static _Thread_local uint32_t per_thread;
#endif

#if !ZOO_NO_NOTE
#if ZOO_NOTE_OTHER_ID
TROUPE_POLICY_NOTE(TROUPE_KIND_EVICTION, 1, "other", "1");
#elif ZOO_NOTE_OTHER_ABI
__attribute__((section(TROUPE_NOTE_SECTION), used,
               aligned(4))) static const troupe_note_section note = {
    7u, (uint32_t)sizeof(troupe_note), TROUPE_NOTE_TYPE, TROUPE_NOTE_NAME,
    {TROUPE_ABI_MAJOR + 1, 0, TROUPE_KIND_EVICTION, 1, "zoo", "1"}};
#elif ZOO_NOTE_OTHER_KIND
TROUPE_POLICY_NOTE(TROUPE_KIND_TIERING, 1, "zoo", "1");
#elif ZOO_NOTE_SHORT
__attribute__((section(TROUPE_NOTE_SECTION), used,
               aligned(4))) static const uint32_t note[] = {
    7, 4, TROUPE_NOTE_TYPE, 0x756f7254, 0x00006570, 1};
#else
TROUPE_POLICY_NOTE(TROUPE_KIND_EVICTION, 1, "zoo", "1");
#endif
#endif

static void forget(state *s, uint32_t b) {
  uint32_t at = 0;
  while (at < s->count && s->order[at] != b) {
    at++;
  }
  if (at == s->count) {
    return;
  }
  memmove(s->order + at, s->order + at + 1, (s->count - at - 1) * sizeof *s->order);
  s->count--;
  s->here[b] = 0;
  if (s->parents[b] != TROUPE_NO_BLOCK) {
    s->children[s->parents[b]]--;
  }
}

static void enter(state *s, uint32_t b, uint32_t parent, uint32_t uses) {
  s->here[b] = 1;
  s->parents[b] = parent;
  s->uses[b] = uses;
  s->order[s->count++] = b;
  if (parent != TROUPE_NO_BLOCK) {
    s->children[parent]++;
  }
}

static int32_t on_events(void *self, const void *events, uint64_t count, uint32_t stride) {
  state *s = self;
#if ZOO_EVENTS_FAIL
  if (++s->calls > 50) {
    return TROUPE_E_INTERNAL;
  }
#endif
#if ZOO_CRASH_EVENTS
  if (++s->calls > 50) {
    *(volatile int *)8 = 1;
  }
#endif
  for (uint64_t i = 0; i < count; i++) {
    const troupe_events *e = (const troupe_events *)((const char *)events + i * stride);
#if ZOO_REFUSES_UNKNOWN_KIND
    if (e->kind > TROUPE_EVENT_PIN) {
      return TROUPE_E_INVALID;
    }
#endif
    for (uint32_t k = 0; k < e->count; k++) {
      const uint32_t b = e->blocks[k];
#if !ZOO_TRUSTS_HANDLES
      if (b >= s->capacity) {
        return TROUPE_E_INVALID;
      }
#endif
      switch (e->kind) {
        case TROUPE_EVENT_INSERT:
          enter(s, b, e->parents ? e->parents[k] : TROUPE_NO_BLOCK, 1);
          break;
        case TROUPE_EVENT_HIT: s->uses[b]++; break;
        case TROUPE_EVENT_RELEASE:
          if (s->uses[b] > 0) {
            s->uses[b]--;
          }
          break;
        case TROUPE_EVENT_REMOVE: forget(s, b); break;
        case TROUPE_EVENT_REFUSED:
#if !ZOO_LOSES_REFUSED
          enter(s, b, s->parents[b], 0);
#endif
          break;
        default: break;
      }
    }
  }
  return TROUPE_OK;
}

static uint32_t choose(state *s) {
  for (uint32_t i = 0; i < s->count; i++) {
    const uint32_t b = s->order[i];
#if ZOO_NAMES_PINNED
    if (s->children[b] == 0) {
      return b;
    }
#elif ZOO_NAMES_PARENTS
    if (s->uses[b] == 0) {
      return b;
    }
#else
    if (s->uses[b] == 0 && s->children[b] == 0) {
      return b;
    }
#endif
  }
  return TROUPE_NO_BLOCK;
}

static int32_t misbehave(state *s) {
#if ZOO_HANGS
  for (volatile uint32_t spin = 0; s->calls > 20; spin = spin + 1) {
  }
#elif ZOO_CRASHES
  if (s->calls > 20) {
    *(volatile int *)8 = 1;
  }
#elif ZOO_ABORTS
  if (s->calls > 20) {
    abort();
  }
#elif ZOO_EXITS
  if (s->calls > 20) {
    _exit(0);
  }
#elif ZOO_RECURSES
  if (s->calls > 20) {
    volatile char frame[65536];
    frame[0] = (char)s->calls;
    return misbehave(s) + frame[0];
  }
#elif ZOO_FAILS
  if (s->calls > 20) {
    return TROUPE_E_INTERNAL;
  }
#endif
#if ZOO_OPENS_FILE
  if (s->calls > 20) {
    close(open("/etc/hostname", O_RDONLY));
  }
#elif ZOO_OPENS_SOCKET
  if (s->calls > 20) {
    close(socket(AF_INET, SOCK_STREAM, 0));
  }
#elif ZOO_FORKS
  if (s->calls > 20 && fork() == 0) {
    _exit(0);
  }
#endif
#if ZOO_CLOCK
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
#endif
#if ZOO_TLS
  per_thread++;
#endif
  (void)s;
  return TROUPE_OK;
}

static void spoil(state *s, troupe_victims_call *call) {
  (void)s;
#if ZOO_OUT_OF_RANGE
  if (call->named > 0) {
    call->victims[0] = s->capacity + 7;
  }
#elif ZOO_TWICE
  if (call->named > 1) {
    call->victims[1] = call->victims[0];
  }
#elif ZOO_REVERSED
  for (uint32_t i = 0; i < call->named / 2; i++) {
    const uint32_t other = call->victims[i];
    call->victims[i] = call->victims[call->named - 1 - i];
    call->victims[call->named - 1 - i] = other;
  }
#elif ZOO_COUNT_TOO_LARGE
  call->named = call->room + 1;
#elif ZOO_OVERRUNS_VICTIMS
  for (uint32_t i = 0; i < 4000000; i++) {
    call->victims[call->room + i] = 0xABABABAB;
  }
#elif ZOO_BY_ADDRESS
  if (call->named > 1 && ((uintptr_t)s >> 12) % 2 == 0) {
    call->named--;
    enter(s, call->victims[call->named], s->parents[call->victims[call->named]], 0);
  }
#elif ZOO_GLOBAL_STATE
  if (call->named > 1 && ++shared_calls % 3 == 0) {
    const uint32_t last = call->victims[--call->named];
    enter(s, last, s->parents[last], 0);
  }
#endif
}

static int32_t victims(void *self, troupe_victims_call *call) {
  state *s = self;
  call->named = 0;
  s->calls++;
  const int32_t status = misbehave(s);
  if (status != TROUPE_OK) {
    return status;
  }
  uint32_t want = call->want;
#if ZOO_TOO_FEW
  want /= 2;
#elif ZOO_NONE
  want = 0;
#endif
  while (call->named < want) {
    const uint32_t b = choose(s);
    if (b == TROUPE_NO_BLOCK) {
      break;
    }
    forget(s, b);
    call->victims[call->named++] = b;
  }
  spoil(s, call);
  return TROUPE_OK;
}

static uint64_t digest(void *self) {
  const state *s = self;
  uint64_t h = s->count;
  for (uint32_t i = 0; i < s->count; i++) {
    h = h * 0x100000001B3ULL + s->order[i] + 1;
  }
  return h;
}

static const void *extension(void *self, const char *name) {
  static const troupe_eviction kTable = {sizeof kTable, 0, on_events, victims, digest};
  (void)self;
#if ZOO_NO_EXTENSION
  return NULL;
#elif ZOO_HALF_TABLE
  static const troupe_eviction kHalf = {16, 0, on_events, victims, digest};
  return strcmp(name, TROUPE_EVICTION_1) == 0 ? &kHalf : NULL;
#endif
  return strcmp(name, TROUPE_EVICTION_1) == 0 ? &kTable : NULL;
}

static void destroy(void *self) {
#if ZOO_CRASHES_AT_END
  *(volatile int *)8 = 1;
#endif
#if ZOO_FREES_TWICE
  free(self);
#endif
  free(self);
}

#if ZOO_STATE_NOT_CANONICAL || ZOO_STATE_TAKES_ANYTHING || ZOO_STATE_LOST || ZOO_GLOBAL_TOO_LARGE
#define RECORD 8
static int32_t save_blocks(void *self, const troupe_state_range *r) {
  const state *s = self;
  for (uint32_t i = 0; i < r->count; i++) {
    uint64_t v = s->here[r->first + i];
#if ZOO_STATE_NOT_CANONICAL
    v |= (uint64_t)(uintptr_t)self << 1;
#endif
    memcpy((char *)r->records + i * RECORD, &v, RECORD);
  }
  return TROUPE_OK;
}
static int32_t save_global(void *self, void *bytes, uint64_t *length) {
  (void)self;
  (void)bytes;
#if ZOO_GLOBAL_TOO_LARGE
  *length = 1 << 20;
#else
  *length = 0;
#endif
  return TROUPE_OK;
}
static int32_t load_blocks(void *self, uint32_t schema, const troupe_state_range *r) {
  (void)self;
  (void)r;
#if ZOO_STATE_TAKES_ANYTHING
  (void)schema;
  return TROUPE_OK;
#else
  return schema == 1 ? TROUPE_OK : TROUPE_E_UNSUPPORTED;
#endif
}
static int32_t load_global(void *self, uint32_t schema, const void *bytes, uint64_t length) {
  (void)self;
  (void)bytes;
  return schema == 1 && length == 0 ? TROUPE_OK : TROUPE_E_UNSUPPORTED;
}
#else
#define RECORD 0
static int32_t save_blocks(void *self, const troupe_state_range *r) {
  (void)self;
  (void)r;
  return TROUPE_E_UNSUPPORTED;
}
static int32_t save_global(void *self, void *bytes, uint64_t *length) {
  (void)self;
  (void)bytes;
  (void)length;
  return TROUPE_E_UNSUPPORTED;
}
static int32_t load_blocks(void *self, uint32_t schema, const troupe_state_range *r) {
  (void)self;
  (void)schema;
  (void)r;
  return TROUPE_E_UNSUPPORTED;
}
static int32_t load_global(void *self, uint32_t schema, const void *bytes, uint64_t length) {
  (void)self;
  (void)schema;
  (void)bytes;
  (void)length;
  return TROUPE_E_UNSUPPORTED;
}
#endif

#define PUBLIC __attribute__((visibility("default")))

#if !ZOO_NO_DESCRIBE
PUBLIC const troupe_policy_desc *troupe_policy_describe(uint32_t index) {
  static troupe_policy_desc d = {.struct_size = sizeof d,
                                 .abi_major = TROUPE_ABI_MAJOR,
                                 .abi_minor = TROUPE_ABI_MINOR,
                                 .kind = TROUPE_KIND_EVICTION,
                                 .state_schema = 1,
                                 .oldest_schema = 1,
                                 .id = "zoo",
                                 .version = "1",
                                 .paper = "none: it is wrong on purpose",
                                 .block_state_bytes = RECORD};
#if ZOO_DESC_OTHER_ABI
  d.abi_major = TROUPE_ABI_MAJOR + 1;
#elif ZOO_DESC_SHORT
  d.struct_size = 16;
#elif ZOO_DESC_NO_ID
  d.id = NULL;
#elif ZOO_DESC_UNKNOWN_KIND
  d.kind = 77;
#elif ZOO_DESC_NEEDS_UNKNOWN
  d.needs = 1ULL << 40;
#elif ZOO_DESC_NEVER_ENDS
  return index < 100000 ? &d : NULL;
#elif ZOO_DESC_NONE
  return NULL;
#elif ZOO_DESC_CRASHES
  *(volatile int *)8 = 1;
#endif
  return index == 0 ? &d : NULL;
}
#endif

#if !ZOO_NO_CREATE
PUBLIC int32_t troupe_policy_create(const char *id, const troupe_host *host,
                                    const troupe_config *config, troupe_policy *out) {
  troupe_policy p = {sizeof p,    0,           NULL,        extension, save_blocks,
                     save_global, load_blocks, load_global, destroy};
  (void)host;
#if ZOO_CREATE_REFUSES
  return TROUPE_E_INTERNAL;
#elif ZOO_CREATE_HANGS
  for (volatile uint32_t spin = 0;; spin = spin + 1) {
  }
#endif
#if ZOO_ID_PREFIX
  if (strncmp(id, "zoo", 3) != 0) {
#else
  if (strcmp(id, "zoo") != 0) {
#endif
    return TROUPE_E_INVALID;
  }
#if !ZOO_IGNORES_PARAMS
  if (config->params_length > 0) {
    return TROUPE_E_UNSUPPORTED;
  }
#endif
  if (config->capacity_blocks > CAPACITY_MAX) {
    return TROUPE_E_UNSUPPORTED;
  }
  state *s = calloc(1, sizeof *s);
  if (s == NULL) {
    return TROUPE_E_INTERNAL;
  }
  s->capacity = config->capacity_blocks;
  p.self = s;
#if ZOO_CREATE_NO_DESTROY
  p.destroy = NULL;
#endif
#if ZOO_WRITES_PAST_STRUCT
  memcpy(out, &p, sizeof p);
#else
  p.struct_size = out->struct_size < sizeof p ? out->struct_size : (uint32_t)sizeof p;
  memcpy(out, &p, p.struct_size);
#endif
  return TROUPE_OK;
}
#endif

#if ZOO_EXTRA_EXPORT
PUBLIC int one_more_symbol(void) { return 1; }
#endif
