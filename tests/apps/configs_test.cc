// The configurations that come with Troupe are read without an error and name models and formats
// that exist.
#include "apps/config/run_config.h"
#include "apps/models/models.h"

#include <catch2/catch.hpp>

#include <filesystem>

namespace troupe {

TEST_CASE("every configuration is valid and differs from the defaults") {
  size_t seen = 0;
  const std::string defaults = config_text(RunConfig{});
  for (const char* goal :
       {"throughput", "long_context", "long_session", "multi_tenant", "agent_rag"}) {
    CAPTURE(goal);
    const Expected<RunConfig> config = read_config(std::string("configs/") + goal + ".toml");
    INFO(config.status().text());
    REQUIRE(config.is_ok());
    CHECK(find_model(known_models(), config->model).is_ok());
    CHECK(parse_format(config->format).is_ok());
    CHECK(config_text(*config) != defaults);
    // what `troupe config` prints is itself a configuration, and the same one
    const Expected<RunConfig> again = parse_config(config_text(*config), "printed");
    INFO(again.status().text());
    REQUIRE(again.is_ok());
    CHECK(config_text(*again) == config_text(*config));
    ++seen;
  }
  CHECK(seen == 5);
  CHECK(find_model(known_models(), RunConfig{}.model).is_ok());
  CHECK(parse_format(RunConfig{}.format).is_ok());
}

TEST_CASE("all errors of a configuration come at once, with file, line, key, value and range") {
  const std::string text = parse_config(
                               "[tiers]\ndevice_blocks = 0\nhost_block = 3\n\n[scheduler]\n"
                               "order = \"lifo\"\nmax_running = \"many\"\n[cache]\nx = 1\n",
                               "bad.toml")
                               .status()
                               .text();
  CAPTURE(text);
  for (const char* part : {"bad.toml:2: tiers.device_blocks: 0 is not in 1 … ",
                           "bad.toml:3: tiers.host_block: unknown key",
                           "bad.toml:6: scheduler.order: \"lifo\" is none of fcfs, lpm",
                           "bad.toml:7: scheduler.max_running: wants an integer",
                           "bad.toml:8: [cache]: unknown section"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(parse_config("[tiers\n", "syntax.toml").status().text().find("syntax.toml:1: ") == 0);
  CHECK(read_config("configs/none.toml").status().code() == Code::kNotFound);
  const auto combination = [](const char* toml) { return parse_config(toml, "c").status().text(); };
  CHECK(combination("[scheduler]\npreemption = \"swap\"\n").find("needs tiers.host_blocks") !=
        std::string::npos);
  CHECK(combination("[tiers]\nfree_reserve_blocks = 1\n").find("without a lower tier") !=
        std::string::npos);
  CHECK(combination("[scheduler]\nmax_running = 64\nmax_batch_tokens = 63\n")
            .find("max_running 64") != std::string::npos);
}

}  // namespace troupe
