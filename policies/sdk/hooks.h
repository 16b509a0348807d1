// What the callbacks of a policy get and what it says about itself (eviction.h has the callbacks).
#pragma once

#include "policies/sdk/params.h"

#include <stdint.h>

namespace troupe::sdk {

struct Describe {
  const char* id = "";
  const char* version = "1";
  const char* paper = "";
  uint32_t flags = 0;
  uint32_t schema = 1;
};

struct Config {
  uint32_t capacity = 0;
  uint64_t seed = 0;
  Params params;
};

struct NewBlock {
  uint32_t block, parent, depth, tokens;
  uint64_t key, cost;
};

struct Moment {  // which request, when
  uint64_t ordinal = 0, session = ~uint64_t{0};
  int64_t at = 0;
  uint32_t tenant = 0, hints = 0;
};

struct NoRecord {};

template <class P>
struct RecordOf {
  using type = NoRecord;
};
template <class P>
requires requires {
  typename P::Record;
}
struct RecordOf<P> {
  using type = typename P::Record;
};

}  // namespace troupe::sdk
