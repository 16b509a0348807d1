// An eviction policy of the C ABI as the runtime's own policy::EvictionPolicy: what policy_slot
// hosts.
#pragma once

#include "runtime/core/policy.h"
#include "runtime/plugin/instance.h"

#include <memory>

namespace troupe::plugin {

std::unique_ptr<policy::EvictionPolicy> adapt(EvictionInstance instance);
/// Errors as EvictionInstance::create.
Expected<std::unique_ptr<policy::EvictionPolicy>> make_eviction_policy(
    troupe_policy_create_fn create, const troupe_policy_desc* desc, const InstanceOptions& options,
    std::shared_ptr<const Library> keep);

}  // namespace troupe::plugin
