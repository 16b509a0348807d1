// Subcommands of a few lines: config, version.
#include <cstdio>
#include <cstring>

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

int version_main(int, char**) {
  std::printf("troupe %s\n", TROUPE_VERSION);
  return 0;
}

}  // namespace troupe
