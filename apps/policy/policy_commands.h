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

struct DebugOptions {
  std::string policy;  // path or name, with parameters behind a colon as in the lab
  std::string trace;
  uint64_t until = 1;  // decision to stop at, counted from 1: questions for victims
  std::string size = "3%";
  std::string semantics = "prefix";
  uint64_t seed = 1;
  bool print = false;  // only show the debugger's command line
  bool batch = false;  // stop, print the stack, end
  bool here = false;   // this process is the one under the debugger
};
int debug(const DebugOptions& options);

}  // namespace policy_app
}  // namespace troupe
