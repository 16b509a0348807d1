// State that moves keeps decisions: a script that goes on with a moved instance gives the answers
// of one that never moved. Where a policy remembers more than the record holds, it is named here,
// and then only legal answers are asked for.
#include "policies/check/scripted_host.h"
#include "runtime/plugin/registry.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <set>
#include <string>

using namespace troupe;

namespace {

constexpr uint32_t kCapacity = 200;

// What each forgets on the way.
const std::set<std::string> kForgets = {
    "lirs",      // the places of ghosts between the blocks of its stack
    "wtinylfu",  // its sketch
    "lhd",       // densities by age
    "troupe",    // counts of fine classes, ghosts, and what LRU would hold
};

plugin::EvictionInstance make(const plugin::Registry& registry, const std::string& name) {
  plugin::InstanceOptions options;
  options.capacity = kCapacity;
  options.seed = 7;
  auto made = registry.make_instance(name, options);
  REQUIRE(made);
  return std::move(made).value();
}

}  // namespace

TEST_CASE("a moved instance decides as the old one would have") {
  const plugin::Registry registry(TROUPE_POLICIES, {});
  for (const auto& entry : std::filesystem::directory_iterator(TROUPE_POLICIES)) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() != ".so") {
      continue;
    }
    INFO(name);
    auto stays = make(registry, name);
    auto old = make(registry, name);
    auto next = make(registry, name);
    check::ScriptedHost one(stays, kCapacity, 11);
    check::ScriptedHost two(old, kCapacity, 11);
    REQUIRE(one.run(600));
    REQUIRE(two.run(600));
    const uint32_t schema = old.desc().state_schema;
    const auto blocks = old.save_blocks(0, kCapacity);
    const auto global = old.save_global();
    REQUIRE(blocks);
    REQUIRE(global);
    REQUIRE(next.load_blocks(schema, 0, kCapacity, *blocks));
    REQUIRE(next.load_global(schema, *global));
    two.hand_over(next);
    REQUIRE(one.run(600));
    REQUIRE(two.run(600));
    if (kForgets.count(name) == 0) {
      CHECK(one.answers() == two.answers());
    }
  }
}
