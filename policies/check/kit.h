// The conformance kit: named tests of one policy library, each to be run in a process of its own,
// since a bad policy crashes, hangs or exits. `kit_tests` lists them; `run_test` runs one here; the
// command (apps/policy) starts the processes and counts.
#pragma once

#include "runtime/base/status.h"
#include "runtime/plugin/loader.h"

#include <span>
#include <string>
#include <string_view>

namespace troupe::check {

struct Context {
  std::string path;
  uint64_t seed = 1;
};

struct Test {
  std::string_view name;
  std::string_view what;
  Status (*run)(const Context& context);
};

/// All tests, static ones first.
std::span<const Test> kit_tests();
/// Error kNotFound for an unknown name.
Status run_test(std::string_view name, const Context& context);
/// What a passed library is known by: digest of kit version and file. The loader may ask for it.
Expected<std::string> pass_digest(const std::string& path);
/// The value that determinism tests compare between processes.
Expected<uint64_t> script_answers(const Context& context);

// The tests themselves, by file.
Status file_is_a_policy(const Context&);
Status exports_entry_points_only(const Context&);
Status imports_are_allowed(const Context&);
Status describes_itself(const Context&);
Status refuses_unknown_ids(const Context&);
Status host_structs_of_other_sizes(const Context&);
Status lives_and_dies(const Context&);
Status instances_are_independent(const Context&);
Status empty_and_unknown_calls(const Context&);
Status victims_are_legal(const Context&);
Status survives_refusal(const Context&);
Status empties_the_cache(const Context&);
Status tiny_capacities(const Context&);
Status same_script_same_answers(const Context&);
Status answers_in_time(const Context&);
Status unloads(const Context&);
Status state_round_trip(const Context&);
Status state_in_odd_ranges(const Context&);
Status state_continues(const Context&);
Status state_refuses_damage(const Context&);

}  // namespace troupe::check
