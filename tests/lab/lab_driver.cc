// `troupe lab` and `troupe policy` without the rest of troupe, for tests that run them as a
// program.
#include "apps/lab/lab_main.h"
#include "apps/policy/policy_commands.h"

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "lab") == 0) {
    return troupe::lab_main(argc - 1, argv + 1);
  }
  if (argc > 1 && std::strcmp(argv[1], "policy") == 0) {
    return troupe::policy_main(argc - 1, argv + 1);
  }
  std::fputs("usage: lab_driver lab|policy …\n", stderr);
  return 2;
}
