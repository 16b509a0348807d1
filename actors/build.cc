// How a troupe is put together; see wiring.h.
#include "actors/director/director.h"
#include "actors/eviction/eviction.h"
#include "actors/policy_slot/scheduling_slot.h"
#include "actors/wiring.h"

#include <algorithm>

namespace troupe {
namespace {

std::unique_ptr<policy::TieringPolicy> tiering_policy(const TroupeConfig& config) {
  auto policy = config.always_load ? make_always_tiering() : make_measured_tiering();
  return config.admit_reused ? make_reuse_admission(std::move(policy)) : std::move(policy);
}

class Builder {
 public:
  template <class Core, class... Args>
  void core(Role role, uint16_t instance, Args&&... args) {
    const Address address = address_of(role, instance);
    troupe_.members.push_back({address, std::make_unique<ActorOf<Core>>(
                                            role_name(address), std::forward<Args>(args)...)});
    // Those who watch have a thread of their own: the live path never queues behind them.
    troupe_.members.back().waits = role == Role::kUnderstudies;
  }
  void mover(Role role, std::unique_ptr<Actor> actor) {
    if (actor != nullptr) {
      // The clock only keeps timers; the others wait for copies and disks.
      troupe_.members.push_back({address_of(role), std::move(actor), true, role != Role::kClock});
    }
  }
  Troupe finish() {
    std::sort(troupe_.members.begin(), troupe_.members.end(),
              [](const Member& a, const Member& b) { return a.address < b.address; });
    troupe_.routes = make_routes();
    troupe_.client = address_of(Role::kClient);
    return std::move(troupe_);
  }

 private:
  Troupe troupe_;
};

/// Capacities are the allocator's; what the others must know of them follows here.
void spread(TroupeConfig& c) {
  c.gateway.device_granules = c.allocator.granules[0];
  c.gateway.class_granules = c.allocator.class_granules;
  c.gateway.class_tokens = c.allocator.class_tokens;
  c.scheduler.class_tokens = c.allocator.class_tokens;
  c.tiering.class_tokens = c.allocator.class_tokens;
  c.allocator.max_sequences = c.scheduler.max_running;
  c.prefix_index.class_tokens = c.allocator.class_tokens;
  c.prefix_index.capacity_blocks = c.allocator.capacity_blocks;
  c.prefix_index.max_requests = c.gateway.max_live;
  c.prefix_index.tiers = 0;
  for (size_t t = 0; t < kTierCount; ++t) {
    c.tiering.enabled[t] = c.allocator.granules[t] > 0;
    if (c.allocator.granules[t] > 0) {
      c.prefix_index.tiers = static_cast<uint8_t>(c.prefix_index.tiers | (1U << t));
    }
  }
}

}  // namespace

Expected<Troupe> build_troupe(TroupeConfig config, const policy::Registry& registry,
                              MoverSet movers) {
  if (config.allocator.granules[0] == 0 || config.allocator.capacity_blocks == 0) {
    return Status(Code::kInvalidArgument, "a troupe without device blocks: device_blocks is 0");
  }
  auto probe = registry.make_eviction(config.eviction_policy, config.allocator.capacity_blocks,
                                      config.seed, config.eviction_params);
  if (!probe) {
    return probe.status();
  }
  if (auto order = make_scheduling(config.order); !order) {
    return order.status();
  }
  spread(config);
  TROUPE_TRY(PrefixIndex::validate(config.prefix_index));
  Builder build;
  build.core<Gateway>(Role::kGateway, 0, config.gateway);
  build.core<PrefixIndex>(Role::kPrefixIndex, 0, config.prefix_index);
  build.core<Scheduler>(Role::kScheduler, 0, config.scheduler);
  build.core<Tiering>(Role::kTiering, 0, config.tiering, tiering_policy(config));
  build.core<Allocator>(Role::kAllocator, 0, config.allocator);
  build.core<Eviction>(Role::kEviction, 0);
  build.core<Director>(Role::kDirector, 0,
                       DirectorConfig{answering(), answering_policies(), kPolicySlots, 64});
  build.core<Understudies>(
      Role::kUnderstudies, 0,
      UnderstudiesConfig{.device_blocks = config.allocator.granules[0], .seed = config.seed},
      registry);
  for (uint16_t slot = 0; slot < 3; ++slot) {
    // A slot of a tier that is not there hosts no blocks and is never asked.
    const bool there = config.allocator.granules[slot] > 0;
    build.core<PolicySlot>(
        Role::kPolicySlot, slot,
        PolicySlotConfig{config.eviction_policy, config.eviction_params,
                         there ? config.allocator.capacity_blocks : 1, config.seed, slot > 0, slot},
        registry);
  }
  constexpr auto kOrder = static_cast<uint16_t>(PolicySlotId::kScheduling);
  build.core<SchedulingSlot>(Role::kPolicySlot, kOrder, config.order, kOrder);
  build.mover(Role::kDeviceStream, std::move(movers.device_stream));
  build.mover(Role::kHostMover, std::move(movers.host_mover));
  build.mover(Role::kDiskMover, std::move(movers.disk_mover));
  build.mover(Role::kClock, std::move(movers.clock));
  build.mover(Role::kPolicyLoader, std::move(movers.policy_loader));
  return build.finish();
}

}  // namespace troupe
