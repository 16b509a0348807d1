// The built-in policies as linked-in entry points, for tests and for hosts that must not depend on
// files.
#pragma once

#include "policies/abi/troupe_policy.h"

#include <span>

namespace troupe {

struct StaticPolicy {
  troupe_policy_describe_fn describe;
  troupe_policy_create_fn create;
};

/// All built-ins, in the order of policies/CMakeLists.txt.
std::span<const StaticPolicy> static_policies();

}  // namespace troupe
