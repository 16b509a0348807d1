// How troupe-policy-host gives up what a policy does not need: files, network, processes,
// privileges.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::plugin {

/// Limits and no new privileges, then a filter that leaves what loading a library needs: opening
/// and mapping files. Anything else ends the process. Empty text when done, else what failed.
std::string enter_sandbox_to_load(uint64_t memory_bytes);
/// After loading: memory and futexes only, nothing executable any more.
std::string enter_sandbox_to_run();
/// False in builds with a sanitizer, whose runtime needs more than the filters leave.
bool sandbox_is_built_in();

}  // namespace troupe::plugin
