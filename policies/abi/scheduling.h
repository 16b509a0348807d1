/* Extension "troupe.scheduling/1": who enters the next batch first. */
#ifndef TROUPE_SCHEDULING_H
#define TROUPE_SCHEDULING_H

#include "policies/abi/troupe_policy.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TROUPE_SCHEDULING_1 "troupe.scheduling/1"

typedef struct troupe_queued_row {
  uint32_t struct_size;
  uint32_t tenant;
  uint64_t request;
  int64_t arrival; /* tick [ns] */
  int32_t priority;
  uint32_t remaining; /* tokens to compute, less those probed as cached */
  uint32_t probe;     /* tokens cached at admission */
  uint32_t reserved;
} troupe_queued_row;

typedef struct troupe_scheduling {
  uint32_t struct_size;
  uint32_t reserved;
  /* [actor & created] Writes a permutation of 0 … count-1 to `out`: who enters first. */
  int32_t (*order)(void* self, int64_t now, const void* rows, uint64_t count, uint32_t stride,
                   uint32_t* out);
} troupe_scheduling;

#ifdef __cplusplus
}
#endif

#endif
