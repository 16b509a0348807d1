// Tests that run the policy under the scripted host.
#include "policies/check/kit.h"
#include "policies/check/scripted_host.h"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

namespace troupe::check {
namespace {

constexpr uint32_t kCapacity = 256;
constexpr uint32_t kSteps = 3000;
constexpr double kCallSecondsMax = 1.0;

Status broken(const std::string& text) {
  return Status(Code::kInvalidArgument, text);
}

}  // namespace

// Shared by the tests of this folder: a library and instances of its first policy.
Expected<std::shared_ptr<const plugin::Library>> open_library(plugin::Loader& loader,
                                                              const Context& context) {
  return loader.load(context.path);
}

Expected<plugin::EvictionInstance> make(const std::shared_ptr<const plugin::Library>& library,
                                        uint32_t capacity) {
  plugin::InstanceOptions options;
  options.capacity = capacity;
  options.seed = 7;
  return plugin::EvictionInstance::create(library->create, library->policies.front(), options,
                                          library);
}

// `library`, ready in scope, or the reason returned.
#define TROUPE_OPEN_LIBRARY(context)           \
  plugin::Loader loader({});                   \
  auto opened = open_library(loader, context); \
  if (!opened) {                               \
    return opened.status();                    \
  }                                            \
  const std::shared_ptr<const plugin::Library>& library = *opened

#define TROUPE_MAKE(name, capacity)      \
  auto name = make(library, (capacity)); \
  if (!name) {                           \
    return name.status();                \
  }

Status describes_itself(const Context& context) {
  TROUPE_OPEN_LIBRARY(context);
  const auto count = static_cast<uint32_t>(library->policies.size());
  for (const uint32_t index : {count, count + 1, 1U << 31, ~0U}) {
    if (library->describe(index) != nullptr) {
      return broken("describe(" + std::to_string(index) + ") is not null past the end");
    }
  }
  const troupe_policy_desc& d = *library->policies.front();
  if (library->describe(0) != &d) {
    return broken("describe(0) gives another address each time");
  }
  for (const char* c = d.id; *c != '\0'; ++c) {
    if ((*c < 'a' || *c > 'z') && (*c < '0' || *c > '9') && *c != '_') {
      return broken(std::string("id '") + d.id + "' has letters outside a-z, 0-9 and _");
    }
  }
  if (d.id[0] == '\0' || d.paper[0] == '\0') {
    return broken("id or paper is empty");
  }
  if (d.kind != library->image.note.kind) {
    return broken("the note names kind " + std::to_string(library->image.note.kind) +
                  ", the description " + std::to_string(d.kind));
  }
  return Status::ok();
}

Status refuses_unknown_ids(const Context& context) {
  TROUPE_OPEN_LIBRARY(context);
  const troupe_policy_desc& d = *library->policies.front();
  const auto try_create = [&](const std::string& id, const std::string& params) {
    const troupe_host host{sizeof host,
                           0,
                           nullptr,
                           0,
                           [](void*, const char*) -> const void* { return nullptr; },
                           [](void*, int32_t, const char*, uint64_t) {}};
    const troupe_config config{sizeof config, 16, 1, params.data(), params.size()};
    troupe_policy out{};
    out.struct_size = sizeof out;
    const int32_t code = library->create(id.c_str(), &host, &config, &out);
    if (code == TROUPE_OK && out.destroy != nullptr) {
      out.destroy(out.self);
    }
    return code;
  };
  for (const std::string& id : {std::string(d.id) + "x", std::string(), std::string("no_such")}) {
    if (try_create(id, "") == TROUPE_OK) {
      return broken("create accepted the id '" + id + "'");
    }
  }
  for (const char* params : {"no_such_parameter=1", "garbage", "="}) {
    if (try_create(d.id, params) == TROUPE_OK) {
      return broken(std::string("create accepted the parameters '") + params + "'");
    }
  }
  TROUPE_MAKE(policy, 16);
  return Status::ok();
}

Status host_structs_of_other_sizes(const Context& context) {
  TROUPE_OPEN_LIBRARY(context);
  struct {
    troupe_host host;
    uint64_t later[4];
  } newer{};
  newer.host.struct_size = sizeof newer;
  newer.host.extension = [](void*, const char*) -> const void* { return nullptr; };
  newer.host.log = [](void*, int32_t, const char*, uint64_t) {};
  struct {
    troupe_policy policy;
    uint64_t guard;
  } out{};
  const troupe_config config{sizeof config, 16, 1, "", 0};
  const char* id = library->policies.front()->id;
  out.policy.struct_size = sizeof out.policy;
  out.guard = 0x5AFEC0DE;
  if (library->create(id, &newer.host, &config, &out.policy) != TROUPE_OK) {
    return broken("create refused a host struct that is longer than it knows");
  }
  out.policy.destroy(out.policy.self);
  // An older host has room for less: nothing may be written past it.
  memset(static_cast<void*>(&out), 0, sizeof out);
  out.policy.struct_size = offsetof(troupe_policy, destroy);
  memset(&out.policy.destroy, 0x5A, sizeof out.policy.destroy);
  uint64_t sentinel = 0;
  memset(&sentinel, 0x5A, sizeof sentinel);
  const int32_t code = library->create(id, &newer.host, &config, &out.policy);
  if (memcmp(&out.policy.destroy, &sentinel, sizeof sentinel) != 0) {
    return broken("create wrote past the struct_size of its caller (status " +
                  std::to_string(code) + ")");
  }
  return Status::ok();
}

Status lives_and_dies(const Context& context) {
  TROUPE_OPEN_LIBRARY(context);
  for (int i = 0; i < 1000; ++i) {
    TROUPE_MAKE(policy, kCapacity);
    if (i % 100 == 0) {
      ScriptedHost host(*policy, kCapacity, context.seed);
      TROUPE_TRY(host.run(20));
    }
  }
  return Status::ok();
}

Status instances_are_independent(const Context& context) {
  TROUPE_OPEN_LIBRARY(context);
  TROUPE_MAKE(alone, kCapacity);
  ScriptedHost by_itself(*alone, kCapacity, context.seed);
  TROUPE_TRY(by_itself.run(500));
  TROUPE_MAKE(one, kCapacity);
  TROUPE_MAKE(two, kCapacity);
  ScriptedHost first(*one, kCapacity, context.seed);
  ScriptedHost second(*two, kCapacity, context.seed + 1);
  for (int i = 0; i < 500; ++i) {
    TROUPE_TRY(first.step());
    TROUPE_TRY(second.step());
  }
  return first.answers() == by_itself.answers()
             ? Status::ok()
             : broken("an instance answers otherwise when another one lives beside it");
}

Status empty_and_unknown_calls(const Context& context) {
  TROUPE_OPEN_LIBRARY(context);
  TROUPE_MAKE(policy, 16);
  const troupe_eviction& table = policy->table();
  troupe_events e{};
  e.struct_size = sizeof e;
  if (table.on_events(policy->self(), &e, 0, sizeof e) != TROUPE_OK) {
    return broken("no events at all are refused");
  }
  e.kind = 99;
  if (table.on_events(policy->self(), &e, 1, sizeof e) != TROUPE_OK) {
    return broken("an event of an unknown kind is refused instead of ignored");
  }
  const uint32_t block = 1000;
  e.kind = TROUPE_EVENT_HIT;
  e.blocks = &block;
  e.count = 1;
  if (table.on_events(policy->self(), &e, 1, sizeof e) == TROUPE_OK) {
    return broken("a handle beyond the capacity is accepted");
  }
  troupe_victims_call call{};
  call.struct_size = sizeof call;
  uint32_t victim = 0;
  call.victims = &victim;
  call.room = 1;
  for (call.want = 0; call.want < 2; ++call.want) {
    if (table.victims(policy->self(), &call) != TROUPE_OK || call.named != 0) {
      return broken("an empty cache does not give up exactly nothing");
    }
  }
  return Status::ok();
}

Status victims_are_legal(const Context& context) {
  TROUPE_OPEN_LIBRARY(context);
  TROUPE_MAKE(policy, kCapacity);
  return ScriptedHost(*policy, kCapacity, context.seed).run(kSteps);
}

Status survives_refusal(const Context& context) {
  TROUPE_OPEN_LIBRARY(context);
  TROUPE_MAKE(policy, kCapacity);
  ScriptedHost host(*policy, kCapacity, context.seed);
  host.refuse_some(true);
  TROUPE_TRY(host.run(kSteps));
  return host.drain();
}

Status empties_the_cache(const Context& context) {
  TROUPE_OPEN_LIBRARY(context);
  TROUPE_MAKE(policy, kCapacity);
  ScriptedHost host(*policy, kCapacity, context.seed);
  for (int round = 0; round < 20; ++round) {
    TROUPE_TRY(host.run(100));
    TROUPE_TRY(host.drain());
  }
  return Status::ok();
}

Status tiny_capacities(const Context& context) {
  TROUPE_OPEN_LIBRARY(context);
  for (const uint32_t capacity : {1U, 2U, 3U, 5U, 9U, 17U}) {
    TROUPE_MAKE(policy, capacity);
    ScriptedHost host(*policy, capacity, context.seed);
    const Status status = host.run(300);
    if (!status) {
      return Status(status.code(), std::to_string(capacity) + " blocks: " + status.text());
    }
  }
  return Status::ok();
}

Expected<uint64_t> script_answers(const Context& context) {
  TROUPE_OPEN_LIBRARY(context);
  TROUPE_MAKE(policy, kCapacity);
  ScriptedHost host(*policy, kCapacity, context.seed);
  TROUPE_TRY(host.run(kSteps));
  return mix64(host.answers() ^ policy->digest());
}

Status same_script_same_answers(const Context& context) {
  auto first = script_answers(context);
  if (!first) {
    return first.status();
  }
  const std::vector<uint8_t> shifts_the_heap(12345);
  auto second = script_answers(context);
  if (!second) {
    return second.status();
  }
  return *first == *second && !shifts_the_heap.empty()
             ? Status::ok()
             : broken("two runs of one script differ: uninitialised state, an address, or a clock");
}

Status answers_in_time(const Context& context) {
  TROUPE_OPEN_LIBRARY(context);
  constexpr uint32_t kLarge = 1 << 14;
  TROUPE_MAKE(policy, kLarge);
  ScriptedHost host(*policy, kLarge, context.seed);
  for (int i = 0; i < 200; ++i) {
    const auto start = std::chrono::steady_clock::now();
    TROUPE_TRY(host.step());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (took.count() > kCallSecondsMax) {
      return broken("request " + std::to_string(i) + " at 16384 blocks took " +
                    std::to_string(took.count()) + " s, the limit is 1 s");
    }
  }
  return Status::ok();
}

Status unloads(const Context& context) {
  void* handle = dlopen(context.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return broken(dlerror());
  }
  dlclose(handle);
  char real[4096];
  if (realpath(context.path.c_str(), real) == nullptr) {
    return broken("its path cannot be resolved");
  }
  FILE* maps = fopen("/proc/self/maps", "re");
  if (maps == nullptr) {
    return Status(Code::kIo, "/proc/self/maps cannot be read");
  }
  char line[8192];
  bool mapped = false;
  while (fgets(line, sizeof line, maps) != nullptr) {
    mapped |= strstr(line, real) != nullptr;
  }
  fclose(maps);
  return mapped ? broken("still mapped after dlclose") : Status::ok();
}

}  // namespace troupe::check
