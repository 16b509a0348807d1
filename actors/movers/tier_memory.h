// What the movers of one troupe share: where each tier's memory lies on the device interface, and
// what was written to each lower slot, so that a block proves itself when it comes back. Slots are
// the allocator's; two movers never work on one slot at a time, since a slot in flight is given to
// nobody.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "actors/movers/disk_tier.h"
#include "kernels/device.h"
#include "runtime/base/block_key.h"
#include "runtime/base/ids.h"
#include "runtime/base/tick.h"
#include "schemas/envelope.capnp.h"

namespace troupe {

/// Rates for runs on a virtual clock: a transfer takes latency + true bytes / rate, whatever the
/// real, scaled-down copy takes. All zero: times are measured.
struct ModelledLinks {
  uint64_t granule_bytes = 0;                        // of the true layout
  std::array<uint64_t, kTierCount> bytes_per_s{};    // between the device and that tier
  std::array<uint64_t, kTierCount> latency_ns{};     // of a batch
  int64_t disk_deadline_ns = 0;  // modelled as well; 0: none
};

/// What lies in a lower slot. generation 0: nothing.
struct SlotRecord {
  uint64_t checksum = 0;
  uint32_t generation = 0;
  uint32_t block = 0xFFFFFFFFU;
  BlockKey key{};  // of its content
};

class TierMemory {
 public:
  /// `device` must outlive this. `granule_bytes`: real bytes of one granule, the same on every
  /// tier.
  TierMemory(kernels::Device& device, uint64_t granule_bytes, ModelledLinks links)
      : device_(device), granule_bytes_(granule_bytes), links_(links) {}

  /// Declares a tier of memory: `granules` granules at `region`, whose bytes are `bytes`.
  void add_tier(Tier tier, kernels::RegionId region, uint32_t granules,
                std::span<std::byte> bytes) {
    regions_[static_cast<size_t>(tier)] = region;
    records_[static_cast<size_t>(tier)].resize(granules);
    bytes_[static_cast<size_t>(tier)] = bytes;
  }
  /// Declares the disk tier. `disk` must outlive this.
  void add_disk(DiskTier& disk, uint32_t granules) {
    disk_ = &disk;
    records_[static_cast<size_t>(Tier::kDisk)].resize(granules);
  }
  bool has(uint8_t tier) const noexcept { return tier < kTierCount && !records_[tier].empty(); }
  /// The slot's own bytes: what a disk reads into or writes from.
  std::span<std::byte> bytes_at(wire::SlotRef::Reader slot) const noexcept {
    return bytes_[slot.getTier()].subspan(slot.getFirst() * granule_bytes_, bytes_of(slot));
  }
  DiskTier* disk() noexcept { return disk_; }
  bool in_range(wire::SlotRef::Reader slot) const noexcept {
    return has(slot.getTier()) && slot.getCount() > 0 &&
           static_cast<uint64_t>(slot.getFirst()) + slot.getCount() <=
               records_[slot.getTier()].size();
  }
  kernels::Location at(wire::SlotRef::Reader slot) const noexcept {
    return {regions_[slot.getTier()], slot.getFirst() * granule_bytes_};
  }
  uint32_t bytes_of(wire::SlotRef::Reader slot) const noexcept {
    return static_cast<uint32_t>(slot.getCount() * granule_bytes_);
  }
  SlotRecord& record(wire::SlotRef::Reader slot) noexcept {
    return records_[slot.getTier()][slot.getFirst()];
  }
  kernels::Device& device() noexcept { return device_; }
  uint64_t granule_bytes() const noexcept { return granule_bytes_; }
  const ModelledLinks& links() const noexcept { return links_; }

 private:
  kernels::Device& device_;
  uint64_t granule_bytes_;
  ModelledLinks links_;
  std::array<kernels::RegionId, kTierCount> regions_{};
  std::array<std::vector<SlotRecord>, kTierCount> records_;
  std::array<std::span<std::byte>, kTierCount> bytes_{};
  DiskTier* disk_ = nullptr;
};

/// Copies a batch between tiers on one stream, waits for it, and checks or notes checksums: a
/// source below the device must match what was written there; a target below it is noted.
struct MovedBlock {
  uint64_t id = 0;
  uint32_t block = 0;
  Code code = Code::kOk;
  uint64_t checksum = 0;
  uint32_t bytes = 0;  // of the true layout when modelled, else real
  uint64_t nanos = 0;
  uint8_t from = 0;
  uint8_t to = 0;
  uint32_t row = 0;
};
std::vector<MovedBlock> move_blocks(TierMemory& memory, kernels::StreamId stream,
                                    capnp::List<wire::Copy>::Reader copies);

/// Writes `moved` as transfer results.
void write_results(const std::vector<MovedBlock>& moved, wire::TransferDone::Builder out);

}  // namespace troupe
