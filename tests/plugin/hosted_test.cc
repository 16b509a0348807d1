// Policies in a process of their own: the same answers as in this process, and whatever a bad one
// does, an error with the reason here.
#include "runtime/plugin/hosted.h"

#include "policies/check/scripted_host.h"
#include "runtime/plugin/adapter.h"
#include "runtime/plugin/registry.h"

#include <catch2/catch.hpp>

#include <map>
#include <signal.h>
#include <sstream>
#include <string>

using namespace troupe;

namespace {

constexpr uint32_t kCapacity = 256;

plugin::InstanceOptions options(uint32_t capacity = kCapacity) {
  plugin::InstanceOptions o;
  o.capacity = capacity;
  o.seed = 7;
  return o;
}

plugin::HostedOptions quick() {
  plugin::HostedOptions o;
  o.program = TROUPE_POLICY_HOST;
  o.start_ms = 2000;
  o.call_ms = 500;
  o.starts_max = 1;
  return o;
}

plugin::EvictionInstance hosted(const std::string& name, uint32_t capacity = kCapacity) {
  plugin::Registry registry(TROUPE_POLICIES, {}, quick());
  auto made = registry.make_instance(name, options(capacity));
  INFO(name << (made ? "" : ": " + made.status().text()));
  REQUIRE(made);
  return std::move(made).value();
}

plugin::EvictionInstance here(const std::string& name, uint32_t capacity = kCapacity) {
  static plugin::Registry registry(TROUPE_POLICIES, {});
  auto made = registry.make_instance(name, options(capacity));
  REQUIRE(made);
  return std::move(made).value();
}

}  // namespace

TEST_CASE("a hosted policy answers as it does in this process") {
  for (const char* name : {"lru", "vllm_lru", "sglang_lru", "arc", "s3fifo_leaf", "troupe"}) {
    INFO(name);
    auto far = hosted(name);
    auto near = here(name);
    check::ScriptedHost one(far, kCapacity, 3);
    check::ScriptedHost two(near, kCapacity, 3);
    const Status status = one.run(1000);
    INFO(status.text() << " " << plugin::hosted_failure(far));
    REQUIRE(status);
    REQUIRE(two.run(1000));
    CHECK(one.answers() == two.answers());
    CHECK(far.digest() == near.digest());
    CHECK(std::string(far.desc().id) == near.desc().id);
    CHECK(far.desc().flags == near.desc().flags);
    REQUIRE(one.drain());
  }
}

TEST_CASE("state moves between a hosted instance and one in this process") {
  for (const char* name : {"lru", "lecar", "lirs"}) {
    INFO(name);
    auto far = hosted(name);
    check::ScriptedHost host(far, kCapacity, 5);
    REQUIRE(host.run(500));
    auto blocks = far.save_blocks(0, kCapacity);
    auto global = far.save_global();
    REQUIRE(blocks);
    REQUIRE(global);
    auto near = here(name);
    REQUIRE(near.load_blocks(far.desc().state_schema, 0, kCapacity, *blocks));
    REQUIRE(near.load_global(far.desc().state_schema, *global));
    auto back = hosted(name);
    REQUIRE(
        back.load_blocks(far.desc().state_schema, 0, kCapacity, *near.save_blocks(0, kCapacity)));
    REQUIRE(back.load_global(far.desc().state_schema, *near.save_global()));
    CHECK(back.digest() == near.digest());
    CHECK_FALSE(back.load_global(far.desc().state_schema + 1000, *global));
    host.hand_over(back);
    CHECK(host.run(200));
  }
}

TEST_CASE("long batches and many victims go through the ring in parts") {
  constexpr uint32_t kMany = 60000;
  auto far = hosted("lru", kMany);
  std::vector<uint32_t> blocks(kMany);
  std::vector<uint64_t> keys(kMany);
  for (uint32_t i = 0; i < kMany; ++i) {
    blocks[i] = i;
    keys[i] = 1000 + i;
  }
  troupe_events e{};
  e.struct_size = sizeof e;
  e.kind = TROUPE_EVENT_INSERT;
  e.flags = TROUPE_EVENT_IDLE;
  e.blocks = blocks.data();
  e.keys = keys.data();
  e.count = kMany;
  for (int round = 0; round < 20; ++round) {  // several times around the ring
    REQUIRE(far.table().on_events(far.self(), &e, 1, sizeof e) == TROUPE_OK);
    e.kind = TROUPE_EVENT_HIT;
  }
  std::vector<uint32_t> victims(kMany);
  troupe_victims_call call{};
  call.struct_size = sizeof call;
  call.want = call.room = kMany;
  call.victims = victims.data();
  REQUIRE(far.table().victims(far.self(), &call) == TROUPE_OK);
  CHECK(call.named == kMany);
  CHECK(victims == blocks);
}

TEST_CASE("a helper that is killed costs the calls after it, with the reason") {
  auto far = hosted("lru");
  check::ScriptedHost host(far, kCapacity, 3);
  REQUIRE(host.run(100));
  REQUIRE(plugin::hosted_process(far) > 0);
  kill(plugin::hosted_process(far), SIGKILL);
  CHECK_FALSE(host.run(1000));
  CHECK(plugin::hosted_failure(far).find("was killed by Killed") != std::string::npos);
  CHECK_FALSE(far.save_global());
  CHECK(plugin::hosted_process(far) == 0);
}

TEST_CASE("behind the adapter a failed helper names nobody, so that its slot falls back") {
  plugin::Registry registry(TROUPE_ZOO, {}, quick());
  auto policy = registry.make_eviction(TROUPE_ZOO "/exits.so", 8, 1, "");
  REQUIRE(policy);
  const std::vector<uint32_t> zeros(8, 0);
  const std::vector<uint32_t> none(8, TROUPE_NO_BLOCK);
  const std::vector<uint8_t> resident(8, 1);
  std::vector<uint32_t> victims;
  std::vector<int64_t> scores;
  for (int i = 0; i < 40; ++i) {
    (*policy)->victims(1, {zeros, zeros, none, resident}, victims, scores);
    CHECK(victims.empty());
  }
}

TEST_CASE("a missing helper program is an error that names it, not another way to run the policy") {
  plugin::HostedOptions o = quick();
  o.program = "/nonexistent/troupe-policy-host";
  plugin::Registry registry(TROUPE_POLICIES, {}, o);
  const auto made = registry.make_instance("lru", options());
  REQUIRE_FALSE(made);
  CHECK(made.status().code() == Code::kNotFound);
  CHECK(made.status().text().find("/nonexistent/troupe-policy-host") != std::string::npos);
}

TEST_CASE("starts are tried again with a pause, and the error says how often") {
  plugin::HostedOptions o = quick();
  o.starts_max = 3;
  o.back_off_ms = 1;
  plugin::Registry registry(TROUPE_ZOO, {}, o);
  const auto made = registry.make_instance(TROUPE_ZOO "/desc_crashes.so", options());
  REQUIRE_FALSE(made);
  CHECK(made.status().text().find("(3 starts)") != std::string::npos);
}

// What the server says of each; "" where the fault does no harm from another process, so that the
// script runs to its end.
TEST_CASE("every bad plug-in is refused or contained when hosted, and the server goes on") {
  const std::map<std::string, std::string> reasons = {
      {"crash_events", "was killed by Segmentation fault"},
      {"crashes", "was killed by Segmentation fault"},
      {"aborts", "was killed"},
      {"exits", "ended with exit code 0"},
      {"hangs", "gave no answer in time"},
      {"recurses", "was killed by Segmentation fault"},
      {"overruns_victims", "was killed"},
      {"create_hangs", "gave no answer in time"},
      {"desc_crashes", "was killed by Segmentation fault"},
      {"opens_file", "forbidden system call"},
      {"opens_socket", "forbidden system call"},
      {"forks", "forbidden system call"},
      {"events_fail", "gave -4"},
      {"fails", "gave -4"},
      {"names_pinned", "is in use"},
      {"names_parents", "has a resident child"},
      {"too_few", "wanted and there"},
      {"none", "0 victims named"},
      {"out_of_range", "is no handle"},
      {"twice", "named twice"},
      {"reversed", "has a resident child"},
      {"count_too_large", "gave -4"},
      {"global_state", "wanted and there"},
      {"nothing_wrong", ""}};
  std::stringstream names(ZOO_ALL);
  size_t contained = 0;
  for (std::string name; std::getline(names, name, ',');) {
    plugin::Registry registry(TROUPE_ZOO, {}, quick());
    std::string what;
    {
      auto made = registry.make_instance(std::string(TROUPE_ZOO "/") + name + ".so", options());
      if (!made) {
        what = made.status().text();
      } else {
        check::ScriptedHost host(*made, kCapacity, 1);
        const Status status = host.run(1500);
        what = status.is_ok() ? "" : status.text() + " " + plugin::hosted_failure(*made);
      }
    }
    INFO(name << ": " << what);
    if (const auto reason = reasons.find(name); reason != reasons.end()) {
      CHECK(
          (reason->second.empty() ? what.empty() : what.find(reason->second) != std::string::npos));
    }
    contained += what.empty() ? 0 : 1;
  }
  CHECK(contained >= 36);
  auto good = hosted("lru");
  check::ScriptedHost host(good, kCapacity, 3);
  CHECK(host.run(300));
}
