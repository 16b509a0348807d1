// Subcommands of a few lines: bench (which hands on), config, version.
#include <cstdio>
#include <cstring>

#include "apps/bench_core/bench_core.h"
#include "apps/bench_disk/bench_disk.h"
#include "apps/bench_host/bench_host.h"
#include "apps/bench_messages/bench_messages.h"
#include "apps/commands.h"
#include "apps/config/run_config.h"

namespace troupe {

int config_main(int argc, char** argv) {
  if (argc != 2 || std::strcmp(argv[1], "--help") == 0) {
    std::printf("usage: troupe config FILE\nPrints the effective configuration, every key with its "
                "meaning and range.\nExample: troupe config configs/agent_rag.toml\n");
    return argc == 2 ? 0 : 2;
  }
  const auto config = read_config(argv[1]);
  if (!config) {
    std::fprintf(stderr, "%s\n", config.status().text().c_str());
    return 2;
  }
  std::fputs(config_text(*config).c_str(), stdout);
  return 0;
}

int bench_main(int argc, char** argv) {
  struct Bench {
    const char* name;
    int (*run)(int argc, char** argv);
  };
  constexpr Bench kBenches[] = {{"core", bench_core_main},
                                {"disk", apps::bench_disk_main},
                                {"host", apps::bench_host_main},
                                {"messages", bench_messages_main}};
  for (const Bench& bench : kBenches) {
    if (argc >= 2 && std::strcmp(argv[1], bench.name) == 0) {
      return bench.run(argc - 1, argv + 1);
    }
  }
  std::printf("usage: troupe bench NAME [--json] [--help]\nEach prints ratios measured in one run, "
              "beside their budget.\nNames:");
  for (const Bench& bench : kBenches) {
    std::printf(" %s", bench.name);
  }
  std::printf("\nExample: troupe bench host --json\n");
  return argc >= 2 && std::strcmp(argv[1], "--help") == 0 ? 0 : 2;
}

int version_main(int, char**) {
  std::printf("troupe %s\n", TROUPE_VERSION);
  return 0;
}

}  // namespace troupe
