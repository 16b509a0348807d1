// Our side of the comparison: a store full of prewritten random blocks, and timed rounds over it.
#pragma once

#include "apps/bench_disk/fio.h"
#include "io/arena.h"
#include "io/store/disk_store.h"
#include "runtime/base/rng.h"

#include <memory>
#include <string>
#include <vector>

namespace troupe::apps {

struct StoreSideOptions {
  std::string directory;
  uint64_t file_bytes = 0;
  uint32_t block_bytes = 0;
  uint32_t depth = 16;  // blocks in flight
  io::BackendChoice backend = io::BackendChoice::kAuto;
};

class StoreSide {
 public:
  /// Creates the store and writes every block once (random bytes, records, checksums).
  static Expected<std::unique_ptr<StoreSide>> create(const StoreSideOptions& options);

  /// Moves `total_bytes` in random blocks; of each ten blocks `reads_of_ten` are reads. Every read
  /// is verified by the store. corrupt / io when a block does not come back right.
  Expected<SideResult> run(uint64_t total_bytes, uint32_t reads_of_ten);

  std::string data_file() const { return options_.directory + "/data.0"; }
  uint64_t stride_bytes() const noexcept { return options_.block_bytes + io::kRecordTrailerBytes; }
  uint32_t blocks() const noexcept { return blocks_; }
  const io::DiskStore& store() const noexcept { return *store_; }

 private:
  explicit StoreSide(StoreSideOptions options) : options_(std::move(options)), rng_(42) {}
  void add_one(uint32_t lane, bool read);
  Status submit_added();
  Slot slot_of(uint32_t block) const noexcept { return {GranuleId(block), 1, 1}; }
  io::BlockRecord record_of(uint32_t block) const noexcept;

  StoreSideOptions options_;
  uint32_t blocks_ = 0;
  io::Arena arena_;
  std::unique_ptr<io::DiskStore> store_;
  Rng rng_;
  std::vector<bool> busy_;  // blocks in flight
  std::vector<uint32_t> block_of_lane_;
  std::vector<bool> lane_reads_;
  std::vector<int64_t> started_ns_;
  std::vector<io::ReadBlock> reads_;
  std::vector<io::WriteBlock> writes_;
};

}  // namespace troupe::apps
