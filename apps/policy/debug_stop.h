// The place where `troupe policy debug` has its breakpoint.
#pragma once

#include "policies/abi/eviction.h"

/// Called before decision `number` only. `victims` is the policy's function that decides.
extern "C" void troupe_policy_decision(uint64_t number, const troupe_victims_call* call,
                                       int32_t (*victims)(void*, troupe_victims_call*));
