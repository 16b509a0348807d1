// The subcommands of `troupe policy`. All return an exit code: 0 done, 1 found wrong, 2 bad input.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// argv[0] is "policy".
int policy_main(int argc, char** argv);

namespace policy_app {

struct CheckOptions {
  std::string path;
  std::string filter;  // only tests whose name contains this
  std::string one;     // run this test here, in this process
  uint64_t seed = 1;
  uint32_t seconds = 60;  // limit of one test
  bool in_process = false;
};
int check(const CheckOptions& options);

struct NewOptions {
  std::string name;
  std::string dir;  // empty: ./name
  bool build = true;
};
int create(const NewOptions& options);

}  // namespace policy_app
}  // namespace troupe
