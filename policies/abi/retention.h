/* Extension "troupe.retention/1": which tokens of a long sequence stay. Positions are ascending on
 * the way in and out. */
#ifndef TROUPE_RETENTION_H
#define TROUPE_RETENTION_H

#include "policies/abi/troupe_policy.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TROUPE_RETENTION_1 "troupe.retention/1"

typedef struct troupe_retention_question {
  uint32_t struct_size;
  uint32_t tokens; /* cached now */
  uint64_t request;
  uint32_t budget;       /* tokens that may stay */
  uint32_t head;         /* key-value head, or all ones for all of them */
  const int64_t* scores; /* one a token in fixed point, or null where the scheme reads none */
} troupe_retention_question;

typedef struct troupe_retention {
  uint32_t struct_size;
  uint32_t reserved;
  /* [actor & created] Writes positions to keep, ascending, at most `budget`; returns how many, or a
   * negative status. */
  int64_t (*keep)(void* self, const troupe_retention_question* question, uint32_t* out);
} troupe_retention;

#ifdef __cplusplus
}
#endif

#endif
