#include "policies/check/kit.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace troupe::check {
namespace {

constexpr std::string_view kKitVersion = "troupe-policy-check/1";

constexpr Test kTests[] = {
    {"file_is_a_policy", "ELF, note, symbols, nothing that pins it", &file_is_a_policy},
    {"exports_entry_points_only", "two symbols and no more", &exports_entry_points_only},
    {"imports_are_allowed", "no clock, entropy, file, thread or process", &imports_are_allowed},
    {"describes_itself", "description whole, equal to the note, null past the end",
     &describes_itself},
    {"refuses_unknown_ids", "ids with trailing text, unknown extensions, wrong parameters",
     &refuses_unknown_ids},
    {"host_structs_of_other_sizes", "older and newer hosts", &host_structs_of_other_sizes},
    {"lives_and_dies", "create and destroy a thousand times", &lives_and_dies},
    {"instances_are_independent", "two interleaved equal two apart", &instances_are_independent},
    {"empty_and_unknown_calls", "no events, no blocks, unknown kinds, wrong handles",
     &empty_and_unknown_calls},
    {"victims_are_legal", "every answer of a long script", &victims_are_legal},
    {"survives_refusal", "victims that may not go", &survives_refusal},
    {"empties_the_cache", "all blocks, children first", &empties_the_cache},
    {"tiny_capacities", "1, 2, 3 … blocks", &tiny_capacities},
    {"same_script_same_answers", "twice in one process", &same_script_same_answers},
    {"answers_in_time", "no call of a long script takes over a second", &answers_in_time},
    {"unloads", "gone from the address space after dlclose", &unloads},
    {"state_round_trip", "save, load, save: equal bytes", &state_round_trip},
    {"state_in_odd_ranges", "the same in ranges of 7", &state_in_odd_ranges},
    {"state_continues", "a moved instance answers as the old one would", &state_continues},
    {"state_refuses_damage", "other schemas, cut and random bytes", &state_refuses_damage},
};

}  // namespace

std::span<const Test> kit_tests() {
  return kTests;
}

Status run_test(std::string_view name, const Context& context) {
  for (const Test& test : kTests) {
    if (test.name == name) {
      return test.run(context);
    }
  }
  return Status(Code::kNotFound, "no test is called '" + std::string(name) + "'");
}

Expected<std::string> pass_digest(const std::string& path) {
  FILE* f = fopen(path.c_str(), "rbe");
  if (f == nullptr) {
    return Status(Code::kNotFound, path + ": cannot be read");
  }
  std::vector<uint8_t> bytes(kKitVersion.begin(), kKitVersion.end());
  uint8_t chunk[1 << 16];
  for (size_t n = fread(chunk, 1, sizeof chunk, f); n > 0; n = fread(chunk, 1, sizeof chunk, f)) {
    bytes.insert(bytes.end(), chunk, chunk + n);
  }
  fclose(f);
  return plugin::hex(plugin::sha256(bytes));
}

}  // namespace troupe::check
