// A policy whose template keeps static data: with GCC's default that is a UNIQUE symbol, and the
// library could never be unloaded.
#include "policies/abi/troupe_policy.h"

TROUPE_POLICY_NOTE(TROUPE_KIND_EVICTION, 1, "unique", "1");

template <class T>
struct Counter {
  static inline int count = 0;
};

extern "C" const troupe_policy_desc* troupe_policy_describe(uint32_t) {
  ++Counter<long>::count;
  return nullptr;
}

extern "C" int32_t troupe_policy_create(const char*, const troupe_host*, const troupe_config*,
                                        troupe_policy*) {
  return Counter<long>::count;
}
