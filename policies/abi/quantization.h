/* Extension "troupe.quantization/1": in which format a block lies, by tier, age and role. */
#ifndef TROUPE_QUANTIZATION_H
#define TROUPE_QUANTIZATION_H

#include "policies/abi/troupe_policy.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TROUPE_QUANTIZATION_1 "troupe.quantization/1"

typedef struct troupe_format_question {
  uint32_t struct_size;
  uint32_t block, tier;
  uint32_t role;         /* index of the layer group */
  uint32_t depth;        /* blocks from the sequence's start */
  uint32_t from_end;     /* blocks from its end */
  uint64_t age_requests; /* admissions since its last use */
  uint32_t format;       /* as it is, an index into the namespace's list */
  uint32_t format_count; /* length of that list */
} troupe_format_question;

typedef struct troupe_quantization {
  uint32_t struct_size;
  uint32_t reserved;
  /* [actor & created] Index of the format that each of `count` blocks should have; element i at
   * questions + i * stride. */
  int32_t (*formats)(void* self, const void* questions, uint64_t count, uint32_t stride,
                     uint32_t* out);
} troupe_quantization;

#ifdef __cplusplus
}
#endif

#endif
