#include "apps/run/assembly.h"

#include "actors/movers/policy_loader.h"
#include "actors/policy_slot/lru.h"
#include "apps/models/models.h"
#include "apps/run/engines.h"
#include "runtime/layout/block_bytes.h"
#include "runtime/plugin/registry.h"
#include "runtime/plugin/shelf.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace troupe {
namespace {

class RunRegistry final : public policy::Registry {
 public:
  explicit RunRegistry(bool hosted)
      : plugins_(plugin::default_policy_dir(), plugin::LoaderOptions{},
                 hosted ? std::optional(plugin::HostedOptions{}) : std::nullopt) {}
  Expected<std::unique_ptr<policy::EvictionPolicy>> make_eviction(
      std::string_view name, uint32_t capacity, uint64_t seed,
      std::string_view params) const override {
    if (name == "lru") {
      return std::unique_ptr<policy::EvictionPolicy>(new LruPolicy(capacity));
    }
    return plugins_.make_eviction(name, capacity, seed, params);
  }
  Expected<std::unique_ptr<policy::Ghost>> make_ghost(std::string_view name, uint32_t capacity,
                                                      uint64_t seed,
                                                      std::string_view params) const override {
    // The built-in is the plug-in of this name, linked in.
    return plugins_.make_ghost(name == "lru" ? "vllm_lru" : name, capacity, seed, params);
  }

 private:
  plugin::Registry plugins_;
};

TroupeConfig troupe_config(const RunConfig& c, const EngineFacts& engine, const BlockCost& cost) {
  TroupeConfig t;
  t.gateway.max_live = static_cast<uint32_t>(c.max_live);
  t.gateway.max_new_tokens = static_cast<uint32_t>(c.max_new_tokens);
  t.gateway.tenants = static_cast<uint32_t>(c.tenant_count);
  t.scheduler.max_running = static_cast<uint32_t>(c.max_running);
  t.scheduler.max_batch_tokens = static_cast<uint32_t>(c.max_batch_tokens);
  t.scheduler.chunk_tokens = static_cast<uint32_t>(c.chunk_tokens);
  t.scheduler.pending_deadline = from_ms(c.pending_deadline_ms);
  t.scheduler.swap_on_preempt = c.preemption == "swap";
  t.prefix_index.partial_min_tokens = static_cast<uint32_t>(c.partial_min_tokens);
  t.prefix_index.publish_partial = c.publish_partial;
  t.prefix_index.class_bytes = {cost.true_block_bytes};
  t.allocator.granules = {static_cast<uint32_t>(c.device_blocks),
                          static_cast<uint32_t>(c.host_blocks),
                          static_cast<uint32_t>(c.disk_blocks), 0};
  t.allocator.class_granules = {1};
  t.allocator.class_tokens = {static_cast<uint32_t>(c.block_tokens)};
  t.allocator.capacity_blocks =
      static_cast<uint32_t>(c.device_blocks + c.host_blocks + c.disk_blocks);
  t.allocator.free_reserve = static_cast<uint32_t>(c.free_reserve_blocks);
  t.tiering.block_bytes = cost.true_block_bytes;
  t.tiering.prefill_tokens_per_s = static_cast<uint64_t>(prefill_tokens_per_s(engine));
  t.tiering.step_free_tokens = step_free_tokens(engine);
  t.tiering.bytes_per_s[1] = static_cast<uint64_t>(engine.link_bytes_per_s);
  t.tiering.latency_ns[1] = 20000;
  t.tiering.bytes_per_s[2] = static_cast<uint64_t>(engine.disk_bytes_per_s);
  t.tiering.latency_ns[2] = static_cast<uint64_t>(c.disk_latency_us) * 1000;
  t.tiering.disk_bytes_per_day = static_cast<uint64_t>(c.disk_gib_per_day) << 30;
  const bool three = c.host_blocks > 0 && c.disk_blocks > 0;
  t.prefix_index.stage = three && c.disk_loads == "staged";
  if (three) {
    const int64_t high = c.host_blocks * c.host_reserve_percent / 100;
    t.allocator.host_reserve_high = static_cast<uint32_t>(high);
    t.allocator.host_reserve_low = static_cast<uint32_t>((high + 1) / 2);
    t.tiering.drop_for_step = high > 0;
  }
  t.eviction_policy = c.eviction_policy;
  t.order = c.order;
  t.always_load = c.load == "always";
  t.admit_reused = c.admission == "reused";
  t.seed = static_cast<uint64_t>(c.seed);
  return t;
}

}  // namespace

std::unique_ptr<policy::Registry> make_registry(bool hosted) {
  return std::make_unique<plugin::Shelf>(std::make_unique<RunRegistry>(hosted));
}

Expected<BlockCost> block_cost(const RunConfig& config) {
  const auto model = find_model(known_models(), config.model);
  if (!model) {
    return model.status();
  }
  const auto format = parse_format(config.format);
  if (!format) {
    return format.status();
  }
  const KvLayout layout = layout_of(*model, static_cast<uint32_t>(config.block_tokens));
  TROUPE_TRY(validate(layout, *format));
  return BlockCost{bytes_per_block(layout, *format),
                   std::to_string(layout_fingerprint(layout, *format))};
}

Expected<Troupe> build_replay_troupe(const RunConfig& config, const policy::Registry& registry) {
  const auto cost = block_cost(config);
  if (!cost) {
    return cost.status();
  }
  const auto engine = find_engine(
      config.gpu, config.model,
      static_cast<double>(cost->true_block_bytes) / static_cast<double>(config.block_tokens));
  if (!engine) {
    return engine.status();
  }
  return build_troupe(troupe_config(config, *engine, *cost), registry, MoverSet{});
}

namespace {

/// Bytes that the kernel says can be had without swapping; 0 where it does not say.
uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::string unit;
  for (uint64_t kib = 0; file >> name >> kib && std::getline(file, unit);) {
    if (name == "MemAvailable:") {
      return kib * 1024;
    }
  }
  return 0;
}

/// The arenas, and what the index, the allocator and the policies keep of a block.
Status fits_memory(const RunConfig& config, uint64_t granule_bytes) {
  constexpr uint64_t kTablesPerBlock = 200;
  const auto blocks = [](int64_t n) { return static_cast<uint64_t>(n); };
  const uint64_t arenas =
      (blocks(config.device_blocks) + blocks(config.host_blocks)) * granule_bytes;
  const uint64_t all =
      blocks(config.device_blocks) + blocks(config.host_blocks) + blocks(config.disk_blocks);
  const uint64_t tables = all * (kTablesPerBlock + 4 * static_cast<uint64_t>(config.block_tokens));
  const uint64_t available = available_bytes();
  if (available != 0 && arenas + tables > available) {
    return Status(Code::kNoCapacity,
                  std::to_string(config.device_blocks) + " device, " +
                      std::to_string(config.host_blocks) + " host and " +
                      std::to_string(config.disk_blocks) + " disk blocks need " +
                      std::to_string((arenas + tables) >> 20) + " MiB of memory here, " +
                      std::to_string(available >> 20) +
                      " MiB are available: fewer blocks, or a smaller tiers.real_block_bytes");
  }
  return Status::ok();
}

}  // namespace

Status Assembly::make_memory(const RunConfig& config, const ModelledLinks& links) {
  TROUPE_TRY(fits_memory(config, granule_bytes_));
  auto device_arena = io::Arena::create(static_cast<size_t>(config.device_blocks) * granule_bytes_,
                                        io::ArenaOptions{});
  if (!device_arena) {
    return device_arena.status();
  }
  device_arena_ = std::move(*device_arena);
  kernels::CpuDeviceOptions options;
  options.memory = device_arena_.bytes();
  options.execution = kernels::CpuExecution::kInline;
  auto device = kernels::CpuDevice::create(options);
  if (!device) {
    return device.status();
  }
  device_ = std::move(*device);
  memory_ = std::make_unique<TierMemory>(*device_, granule_bytes_, links);
  memory_->add_tier(Tier::kDevice, kernels::kDeviceRegion,
                    static_cast<uint32_t>(config.device_blocks), device_arena_.bytes());
  if (config.host_blocks > 0) {
    auto host_arena = io::Arena::create(static_cast<size_t>(config.host_blocks) * granule_bytes_,
                                        io::ArenaOptions{});
    if (!host_arena) {
      return host_arena.status();
    }
    host_arena_ = std::move(*host_arena);
    auto region = device_->add_region(host_arena_.bytes());
    if (!region) {
      return region.status();
    }
    memory_->add_tier(Tier::kHost, *region, static_cast<uint32_t>(config.host_blocks),
                      host_arena_.bytes());
  }
  return Status::ok();
}

OwnFolder::~OwnFolder() {
  if (!path.empty()) {
    std::error_code ignored;  // it lies in the temporary folder, whose cleaning is the system's
    std::filesystem::remove_all(path, ignored);
  }
}

Status Assembly::make_disk(const RunConfig& config, const DiskUnder& under) {
  if (config.disk_blocks == 0) {
    return Status::ok();
  }
  std::string folder = config.disk_directory;
  if (folder.empty()) {  // of its own, so that two runs at once do not meet
    folder = std::filesystem::temp_directory_path() / "troupe-disk-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) {
      return Status(Code::kIo, "disk tier: cannot make " + folder + ": " + std::strerror(errno));
    }
    disk_folder_.path = folder;
  }
  auto disk = DiskTier::open({folder, static_cast<uint32_t>(config.disk_blocks),
                              static_cast<uint32_t>(granule_bytes_), 1, under});
  if (!disk) {
    return disk.status();
  }
  disk_ = std::move(*disk);
  memory_->add_disk(*disk_, static_cast<uint32_t>(config.disk_blocks));
  return Status::ok();
}

Status Assembly::make_movers(const RunConfig& config, MoverSet& movers) {
  kernels::StreamId streams[3];
  for (kernels::StreamId& stream : streams) {
    auto made = device_->create_stream();
    if (!made) {
      return made.status();
    }
    stream = *made;
  }
  movers.device_stream = std::make_unique<ActorOf<DeviceStream>>(
      role_name(address_of(Role::kDeviceStream)), *memory_, streams[0]);
  movers.host_mover = std::make_unique<ActorOf<DemotionMover>>(
      role_name(address_of(Role::kHostMover)), *memory_, streams[1]);
  if (config.disk_blocks > 0) {
    movers.disk_mover = std::make_unique<ActorOf<DemotionMover>>(
        role_name(address_of(Role::kDiskMover)), *memory_, streams[2]);
  }
  movers.policy_loader = std::make_unique<ActorOf<PolicyLoader>>(
      role_name(address_of(Role::kPolicyLoader)),
      PolicyLoaderConfig{
          static_cast<uint32_t>(config.device_blocks + config.host_blocks + config.disk_blocks),
          static_cast<uint64_t>(config.seed)},
      *registry_);
  movers.clock = std::make_unique<ActorOf<Clock>>(role_name(address_of(Role::kClock)), 65536U);
  return Status::ok();
}

Expected<std::unique_ptr<Assembly>> Assembly::create(const RunConfig& config,
                                                     const EngineFacts& engine,
                                                     const BlockCost& cost,
                                                     const DiskUnder& under) {
  TROUPE_ASSERT(config.block_tokens > 0);
  std::unique_ptr<Assembly> a(new Assembly);
  a->registry_ = make_registry(config.isolation == "process");
  a->granule_bytes_ = static_cast<uint64_t>(config.real_block_bytes);
  ModelledLinks links;
  links.granule_bytes = cost.true_block_bytes;
  links.bytes_per_s[1] = static_cast<uint64_t>(engine.link_bytes_per_s);
  links.bytes_per_s[2] = static_cast<uint64_t>(engine.disk_bytes_per_s);
  links.latency_ns[2] = static_cast<uint64_t>(config.disk_latency_us) * 1000;
  links.disk_deadline_ns = config.disk_deadline_ms * 1000000;
  TROUPE_TRY(a->make_memory(config, links));
  TROUPE_TRY(a->make_disk(config, under));
  MoverSet movers;
  TROUPE_TRY(a->make_movers(config, movers));
  auto troupe = build_troupe(troupe_config(config, engine, cost), *a->registry_, std::move(movers));
  if (!troupe) {
    return troupe.status();
  }
  a->troupe_ = std::move(*troupe);
  return a;
}

}  // namespace troupe
