#include "apps/policy/debug_stop.h"

extern "C" __attribute__((noinline)) void troupe_policy_decision(
    uint64_t number, const troupe_victims_call* call,
    int32_t (*victims)(void*, troupe_victims_call*)) {
  asm volatile("" : : "r"(number), "r"(call), "r"(victims));  // kept, though nobody reads it here
}
