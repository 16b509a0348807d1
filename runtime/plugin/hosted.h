// A policy in a process of its own: the same ABI, served by troupe-policy-host over shared memory
// (hosted_wire.h). A crash, exit, hang or nonsense of the policy becomes an error of the call; from
// then on every call fails at once, and whoever hosts the instance falls back. The library is never
// mapped into the server.
#pragma once

#include "runtime/base/status.h"
#include "runtime/plugin/instance.h"
#include "runtime/plugin/loader.h"

#include <cstdint>
#include <string>

namespace troupe::plugin {

struct HostedOptions {
  std::string program;         // of the helper; empty: troupe-policy-host beside this program
  uint32_t start_ms = 5000;    // load and create
  uint32_t call_ms = 1000;     // one question
  uint32_t memory_mib = 4096;  // address space of the helper
  uint32_t starts_max = 3;     // tries, with a pause that grows fourfold from back_off_ms
  uint32_t back_off_ms = 10;
};

/// Starts a helper for policy `id` (empty: the library's first). Errors, with what happened to the
/// helper: kNotFound (no helper program), kInternal (it died or hung while loading, or could not
/// enter its sandbox), kUnsupported (the policy refused).
Expected<EvictionInstance> make_hosted(const StagedLibrary& library, const std::string& id,
                                       const InstanceOptions& options, const HostedOptions& hosted);

/// What ended the helper, empty while all is well or when the instance is not hosted.
std::string hosted_failure(const EvictionInstance& instance);
/// The helper's process, 0 for an instance that has none. For tests and reports.
int hosted_process(const EvictionInstance& instance);

/// The helper's main program: `argv` as written by make_hosted.
int serve_policy(int argc, char** argv);

}  // namespace troupe::plugin
