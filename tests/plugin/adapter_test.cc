// The C ABI as policy::EvictionPolicy: every built-in, linked in, under the events of the runtime.
#include "runtime/plugin/adapter.h"

#include "policies/builtin/table.h"

#include <catch2/catch.hpp>

using namespace troupe;

namespace {

constexpr uint32_t kNone = TROUPE_NO_BLOCK;

struct World {  // a chain 0 ← 1 ← 2 and a root 3
  std::vector<uint32_t> uses = {0, 0, 0, 0, 0, 0, 0, 0};
  std::vector<uint32_t> children = {1, 1, 0, 0, 0, 0, 0, 0};
  std::vector<uint32_t> parents = {kNone, 0, 1, kNone, kNone, kNone, kNone, kNone};
  std::vector<uint8_t> resident = {1, 1, 1, 1, 0, 0, 0, 0};
  policy::HostView view() const { return {uses, children, parents, resident}; }
};

void tell(policy::EvictionPolicy& p, policy::Event kind, uint64_t request,
          const std::vector<uint32_t>& blocks, const std::vector<uint32_t>& parents = {},
          const std::vector<uint32_t>& depths = {}) {
  policy::Events e;
  e.kind = kind;
  e.request = request;
  e.blocks = blocks;
  e.parents = parents;
  e.depths = depths;
  p.on_events(e);
}

void fill(policy::EvictionPolicy& p) {
  tell(p, policy::Event::kInsert, 1, {0, 1, 2}, {kNone, 0, 1}, {0, 1, 2});
  tell(p, policy::Event::kRelease, 1, {2, 1, 0});
  tell(p, policy::Event::kInsert, 2, {3}, {kNone}, {0});
}

std::unique_ptr<policy::EvictionPolicy> make(const StaticPolicy& s) {
  plugin::InstanceOptions options;
  options.capacity = 8;
  auto made = plugin::make_eviction_policy(s.create, s.describe(0), options, nullptr);
  REQUIRE(made);
  return std::move(made).value();
}

}  // namespace

TEST_CASE("every built-in gives up a chain deepest first and leaves used blocks alone") {
  REQUIRE(static_policies().size() >= 21);
  for (const StaticPolicy& s : static_policies()) {
    const auto p = make(s);
    INFO(p->name());
    fill(*p);
    World world;
    world.uses[3] = 1;
    std::vector<uint32_t> victims;
    std::vector<int64_t> scores;
    p->victims(3, world.view(), victims, scores);
    CHECK(victims == std::vector<uint32_t>{2, 1, 0});
    CHECK((scores.empty() || scores.size() == victims.size()));
    victims.clear();
    p->victims(1, world.view(), victims, scores);
    CHECK(victims.empty());
  }
}

TEST_CASE("a refused victim comes back, and state moves to another instance") {
  for (const StaticPolicy& s : static_policies()) {
    const auto p = make(s);
    INFO(p->name());
    fill(*p);
    World world;
    std::vector<uint32_t> victims;
    std::vector<int64_t> scores;
    p->victims(3, world.view(), victims, scores);
    REQUIRE(victims.size() == 3);
    tell(*p, policy::Event::kRefused, 3, {0, 1, 2});
    tell(*p, policy::Event::kRelease, 2, {3});
    StateSink sink;
    REQUIRE(p->save(sink));
    const auto next = make(s);
    StateSource source(sink.data());
    REQUIRE(next->load(source));
    CHECK(source.at_end());
    CHECK(next->digest() == p->digest());
    victims.clear();
    next->victims(4, world.view(), victims, scores);
    CHECK(victims.size() == 4);
    StateSink other_sink;
    other_sink.u32(7);
    StateSource damaged(other_sink.data());
    CHECK_FALSE(make(s)->load(damaged));
  }
}
