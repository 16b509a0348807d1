// Everything of a run behind one owner: memory, device, movers and the troupe, from a RunConfig.
#pragma once

#include "actors/movers/movers.h"
#include "actors/wiring.h"
#include "apps/config/run_config.h"
#include "apps/run/engine_model.h"
#include "io/arena.h"
#include "kernels/cpu/cpu_device.h"

#include <memory>

namespace troupe {

/// What the true layout of the configured model costs.
struct BlockCost {
  uint64_t true_block_bytes = 0;
  std::string layout_fingerprint;
};

/// Eviction policies of a run: the built-in `lru`, and every plug-in by name or path.
/// `hosted`: policies other than the built-in run in processes of their own.
std::unique_ptr<policy::Registry> make_registry(bool hosted = false);

/// The cores of a run, as new and without movers: what a replay needs. `config` as config_text
/// wrote it into the recording; `registry` must outlive the troupe.
Expected<Troupe> build_replay_troupe(const RunConfig& config, const policy::Registry& registry);

/// What a block of the configured model costs in its true layout. `config.block_tokens` must be
/// set.
Expected<BlockCost> block_cost(const RunConfig& config);

/// A folder that goes with its owner.
struct OwnFolder {
  std::string path;  // empty: none
  OwnFolder() = default;
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder();
};

class Assembly {
 public:
  /// `config.block_tokens` must be set (not 0). Errors: memory, unknown policies.
  static Expected<std::unique_ptr<Assembly>> create(const RunConfig& config,
                                                    const EngineFacts& engine,
                                                    const BlockCost& cost,
                                                    const DiskUnder& under = {});
  Troupe& troupe() noexcept { return troupe_; }
  std::span<std::byte> device_bytes() noexcept { return device_arena_.bytes(); }
  std::span<std::byte> host_bytes() noexcept { return host_arena_.bytes(); }
  uint64_t granule_bytes() const noexcept { return granule_bytes_; }
  /// Of the disk tier so far; no backend where there is none.
  DiskCounts disk_counts() const { return disk_ == nullptr ? DiskCounts{} : disk_->counts(); }

 private:
  Assembly() = default;
  Status make_memory(const RunConfig& config, const ModelledLinks& links);
  Status make_disk(const RunConfig& config, const DiskUnder& under);
  Status make_movers(const RunConfig& config, MoverSet& movers);

  std::unique_ptr<policy::Registry> registry_;
  io::Arena device_arena_;
  io::Arena host_arena_;
  std::unique_ptr<kernels::CpuDevice> device_;
  OwnFolder disk_folder_;
  std::unique_ptr<DiskTier> disk_;
  std::unique_ptr<TierMemory> memory_;
  uint64_t granule_bytes_ = 0;
  Troupe troupe_;
};

}  // namespace troupe
