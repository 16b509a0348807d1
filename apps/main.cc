// `troupe`: one program, one line per subcommand. Each is a function in its own folder under apps/.
// Exit codes of all: 0 done, 1 it ran and found something wrong, 2 bad input.
#include <cstdio>
#include <cstring>

#include "apps/commands.h"
#include "apps/lab/lab_main.h"
#include "apps/tiers/tiers.h"

namespace {

struct Command {
  const char* name;
  int (*run)(int argc, char** argv);
  const char* what;
};

constexpr Command kCommands[] = {
    {"run", troupe::run_main, "serve a request trace with real blocks, and report"},
    {"replay", troupe::replay_main, "run a recording through fresh cores and compare"},
    {"trace", troupe::trace_main, "look into a recording: lanes, messages, a timeline"},
    {"explain", troupe::explain_main, "why blocks of a recording missed; the life of a block"},
    {"gen", troupe::gen_main, "make a multi-tenant agent and RAG workload"},
    {"lab", troupe::lab_main, "compare policies over a trace, next to the offline bound"},
    {"policy", troupe::policy_main, "list, check and start policies"},
    {"size", troupe::size_main, "bytes of a model's cache, and what fits a memory"},
    {"doctor", troupe::doctor_main, "what this machine offers and lacks"},
    {"tiers", troupe::apps::tiers_main, "look into a disk store"},
    {"fsck", troupe::apps::fsck_main, "verify every record of a disk store"},
    {"bench", troupe::bench_main, "measure the budgets: core, disk, host"},
    {"config", troupe::config_main, "print the effective configuration of a file"},
    {"version", troupe::version_main, "print the version"},
};

int usage(FILE* out) {
  std::fprintf(out,
               "troupe: a KV-cache runtime for LLM serving\n\nusage: troupe COMMAND [--help]\n\n");
  for (const Command& command : kCommands) {
    std::fprintf(out, "  %-10s %s\n", command.name, command.what);
  }
  return out == stdout ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    return usage(stderr);
  }
  if (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0) {
    return usage(stdout);
  }
  for (const Command& command : kCommands) {
    if (std::strcmp(argv[1], command.name) == 0) {
      return command.run(argc - 1, argv + 1);
    }
  }
  std::fprintf(stderr, "troupe: unknown command \"%s\"\n", argv[1]);
  return usage(stderr);
}
