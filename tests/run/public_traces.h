// Where the public traces lie, and a main for tests that need them: without them it says why it
// skips and ends with 4, which counts as skipped.
#pragma once

#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

namespace troupe::test {

inline std::string trace_dir() {
  const char* dir = std::getenv("TROUPE_TRACES");
  return dir != nullptr ? dir : "../shared/traces";
}

inline int run_where_traces_are(int argc, char** argv) {
  if (!std::ifstream(trace_dir() + "/expected_dev.json")) {
    std::cout << "skipped: no request traces in " << trace_dir()
              << " (README says where they come from; TROUPE_TRACES names another folder)\n";
    return 4;
  }
  return Catch::Session().run(argc, argv);
}

}  // namespace troupe::test
