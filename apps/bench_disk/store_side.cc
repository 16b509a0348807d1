#include "apps/bench_disk/store_side.h"

#include "kernels/cpu/bytes.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sys/resource.h>

namespace troupe::apps {
namespace {

uint64_t checksum(std::span<const std::byte> bytes) {
  return kernels::checksum_bytes(bytes.data(), bytes.size());
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

io::BlockRecord StoreSide::record_of(uint32_t block) const noexcept {
  io::BlockRecord record;
  record.namespace_fingerprint = 1;
  std::memcpy(record.key.data(), &block, sizeof(block));
  record.key[31] = std::byte{1};
  return record;
}

Expected<std::unique_ptr<StoreSide>> StoreSide::create(const StoreSideOptions& options) {
  std::unique_ptr<StoreSide> side(new StoreSide(options));
  side->blocks_ = static_cast<uint32_t>(options.file_bytes / side->stride_bytes());
  if (side->blocks_ < 2 * options.depth) {
    return {Code::kInvalidArgument, "a file of " + std::to_string(options.file_bytes) +
                                        " bytes holds " + std::to_string(side->blocks_) +
                                        " blocks: at least twice the depth is needed"};
  }
  auto arena = io::Arena::create(uint64_t{options.depth} * options.block_bytes, {.populate = true});
  if (!arena) {
    return arena.status();
  }
  side->arena_ = std::move(arena).value();
  io::StoreOptions store;
  store.directory = options.directory;
  store.classes = {{static_cast<uint32_t>(side->stride_bytes()), side->blocks_}};
  store.durability = io::Durability::kCrash;
  store.backend = options.backend;
  // As many chunks in flight as the blocks have, so that depth means blocks on both sides.
  const uint32_t chunks = (options.block_bytes + store.chunk_bytes - 1) / store.chunk_bytes + 1;
  store.depth = options.depth * std::max(1U, options.block_bytes < store.chunk_bytes ? 1U : chunks);
  store.checksum = checksum;
  auto opened = io::DiskStore::open(std::move(store));
  if (!opened) {
    return opened.status();
  }
  side->store_ = std::move(opened).value();
  const std::span<std::byte> all[] = {side->arena_.bytes()};
  TROUPE_TRY(side->store_->register_buffers(all));
  kernels::fill_pattern(side->arena_.data(), side->arena_.size(), 7, 0, kernels::CacheHint::kKeep);
  side->busy_.assign(side->blocks_, false);
  side->block_of_lane_.resize(options.depth);
  side->lane_reads_.resize(options.depth);
  side->started_ns_.resize(options.depth);
  for (uint32_t block = 0; block < side->blocks_; ++block) {
    const uint32_t lane = block % options.depth;
    const io::WriteBlock write{
        .slot = side->slot_of(block),
        .record = side->record_of(block),
        .payload = side->arena_.slice(uint64_t{lane} * options.block_bytes, options.block_bytes)};
    TROUPE_TRY(side->store_->write({&write, 1}));
    while (side->store_->outstanding() >= options.depth ||
           (block + 1 == side->blocks_ && side->store_->outstanding() > 0)) {
      io::StoreCompletion done[64];
      const size_t count = side->store_->wait(done, -1);
      for (size_t i = 0; i < count; ++i) {
        if (done[i].verdict != io::StoreVerdict::kOk) {
          return {Code::kIo, std::string("prewriting: ") + io::store_verdict_name(done[i].verdict)};
        }
      }
    }
  }
  return side;
}

void StoreSide::add_one(uint32_t lane, bool read) {
  uint32_t block = static_cast<uint32_t>(rng_.below(blocks_));
  while (busy_[block]) {
    block = (block + 1) % blocks_;
  }
  busy_[block] = true;
  block_of_lane_[lane] = block;
  lane_reads_[lane] = read;
  started_ns_[lane] = now_ns();
  const auto payload = arena_.slice(uint64_t{lane} * options_.block_bytes, options_.block_bytes);
  const io::BlockRecord record = record_of(block);
  if (read) {
    reads_.push_back({.expected = {.key = record.key,
                                   .namespace_fingerprint = record.namespace_fingerprint,
                                   .slot = slot_of(block)},
                      .payload = payload,
                      .user_data = lane});
  } else {
    writes_.push_back(
        {.slot = slot_of(block), .record = record, .payload = payload, .user_data = lane});
  }
}

Status StoreSide::submit_added() {
  // As a mover does: what came together goes together.
  if (!reads_.empty()) {
    TROUPE_TRY(store_->read(reads_));
    reads_.clear();
  }
  if (!writes_.empty()) {
    TROUPE_TRY(store_->write(writes_));
    writes_.clear();
  }
  return Status::ok();
}

Expected<SideResult> StoreSide::run(uint64_t total_bytes, uint32_t reads_of_ten) {
  const uint64_t operations =
      std::max<uint64_t>(options_.depth, total_bytes / options_.block_bytes);
  std::vector<int64_t> read_latency;
  const double cpu_before = cpu_seconds();
  const int64_t begin = now_ns();
  uint64_t started = 0, finished = 0;
  const auto start = [&](uint32_t lane) {
    ++started;
    add_one(lane, rng_.below(10) < reads_of_ten);
  };
  for (uint32_t lane = 0; lane < options_.depth; ++lane) {
    start(lane);
  }
  TROUPE_TRY(submit_added());
  while (finished < operations) {
    io::StoreCompletion done[64];
    const size_t count = store_->wait(done, -1);
    const int64_t now = now_ns();
    for (size_t i = 0; i < count; ++i) {
      const auto lane = static_cast<uint32_t>(done[i].user_data);
      if (done[i].verdict != io::StoreVerdict::kOk) {
        return {Code::kCorrupt, std::string("block ") + std::to_string(block_of_lane_[lane]) +
                                    ": " + io::store_verdict_name(done[i].verdict)};
      }
      if (lane_reads_[lane]) {
        read_latency.push_back(now - started_ns_[lane]);
      }
      busy_[block_of_lane_[lane]] = false;
      ++finished;
      if (started < operations) {
        start(lane);
      }
    }
    TROUPE_TRY(submit_added());
  }
  SideResult result;
  result.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  result.bytes = static_cast<double>(operations * options_.block_bytes);
  result.cpu_seconds = cpu_seconds() - cpu_before;
  if (!read_latency.empty()) {
    const auto at = static_cast<std::ptrdiff_t>(read_latency.size() * 99 / 100);
    std::nth_element(read_latency.begin(), read_latency.begin() + at, read_latency.end());
    result.read_p99_us = static_cast<double>(read_latency[static_cast<size_t>(at)]) * 1e-3;
  }
  return result;
}

}  // namespace troupe::apps
