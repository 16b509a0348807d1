// THE page of the system: which actors exist (roles.h), which messages go where (routes_table.cc),
// and how a troupe is put together. Whoever starts one, live, inline, replayed or simulated, starts
// here.
#pragma once

#include "actors/allocator/allocator.h"
#include "actors/gateway/gateway.h"
#include "actors/policy_slot/policy_slot.h"
#include "actors/prefix_index/prefix_index.h"
#include "actors/roles.h"
#include "actors/scheduler/scheduler.h"
#include "actors/tiering/tiering.h"
#include "actors/understudies/understudies.h"
#include "runtime/core/policy.h"
#include "runtime/core/routes.h"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// The routes of design §4, in the order a request travels.
RouteTable make_routes();

/// Instances of statusAsk: the actors that answer the director's status question.
std::vector<uint16_t> answering();

/// Those among them that have to do with policies.
std::vector<uint16_t> answering_policies();

/// What each core is told at birth. One owner a fact: capacities stand in `allocator`, and
/// build_troupe gives the others what follows from them.
struct TroupeConfig {
  GatewayConfig gateway;
  SchedulerConfig scheduler;
  PrefixIndexConfig prefix_index;
  AllocatorConfig allocator;
  TieringConfig tiering;
  std::string eviction_policy = "lru";
  std::string eviction_params;
  std::string order = "fcfs";
  bool always_load = false;   // tiering: load what was found, whatever the rates say
  bool admit_reused = false;  // tiering: write to disk only what was looked up again
  uint64_t seed = 1;
};

/// The actors with effects, made by whoever owns the devices. A replay gives none.
struct MoverSet {
  std::unique_ptr<Actor> device_stream;
  std::unique_ptr<Actor> host_mover;
  std::unique_ptr<Actor> disk_mover;  // null where there is no disk tier
  std::unique_ptr<Actor> clock;
  std::unique_ptr<Actor> policy_loader;  // null: no policy is swapped
};

/// Puts a troupe together. Errors: an unknown policy, a capacity of zero. `registry` must outlive
/// it.
Expected<Troupe> build_troupe(TroupeConfig config, const policy::Registry& registry,
                              MoverSet movers);

}  // namespace troupe
