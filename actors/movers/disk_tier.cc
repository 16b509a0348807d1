#include "actors/movers/disk_tier.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "kernels/cpu/bytes.h"

namespace troupe {
namespace {

uint64_t checksum(std::span<const std::byte> bytes) {
  return kernels::checksum_bytes(bytes.data(), bytes.size());
}

/// Identity of a block while this process lives: its handle and the generation of its slot.
io::KeyDigest digest_of(const DiskOp& op) {
  io::KeyDigest key{};
  std::memcpy(key.data(), &op.block, sizeof(op.block));
  std::memcpy(key.data() + 8, &op.slot.generation, sizeof(op.slot.generation));
  key[31] = std::byte{1};  // never all zeros
  return key;
}

Code code_of(io::StoreVerdict verdict) {
  switch (verdict) {
    case io::StoreVerdict::kOk: return Code::kOk;
    case io::StoreVerdict::kMissing: return Code::kNotFound;
    case io::StoreVerdict::kCorrupt: return Code::kCorrupt;
    case io::StoreVerdict::kIoError: return Code::kIo;
    case io::StoreVerdict::kNoSpace: return Code::kNoCapacity;
  }
  return Code::kInternal;
}

}  // namespace

Expected<std::unique_ptr<DiskTier>> DiskTier::open(const DiskTierOptions& options) {
  if (mkdir(options.directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return Status(Code::kIo, "disk tier: cannot make " + options.directory + ": " +
                                 std::strerror(errno));
  }
  std::unique_ptr<DiskTier> tier(new DiskTier(options));
  io::StoreOptions store;
  store.directory = options.directory;
  store.classes = {{options.granule_bytes + static_cast<uint32_t>(io::kRecordTrailerBytes),
                    options.granules}};
  store.durability = io::Durability::kEphemeral;
  store.checksum = checksum;
  auto opened = io::DiskStore::open(std::move(store));
  if (!opened) {
    return opened.status();
  }
  tier->store_ = std::move(*opened);
  return tier;
}

void DiskTier::submit(DiskOp& op, size_t index) {
  Status status = Status::ok();
  if (op.read) {
    const io::ReadBlock read{.expected = {.key = digest_of(op),
                                          .namespace_fingerprint = options_.namespace_fingerprint,
                                          .slot = op.slot},
                             .payload = op.payload,
                             .user_data = index};
    status = store_->read({&read, 1});
  } else {
    io::WriteBlock write{.slot = op.slot, .record = {}, .payload = op.payload, .user_data = index};
    write.record.namespace_fingerprint = options_.namespace_fingerprint;
    write.record.key = digest_of(op);
    status = store_->write({&write, 1});
  }
  if (!status) {
    op.code = status.code();
  }
}

void DiskTier::reap(std::span<DiskOp> ops) {
  io::StoreCompletion done[64];
  const size_t count = store_->wait(done, -1);
  for (size_t i = 0; i < count; ++i) {
    DiskOp& op = ops[done[i].user_data];
    op.code = code_of(done[i].verdict);
    op.checksum = done[i].checksum;
  }
}

void DiskTier::run(std::span<DiskOp> ops) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < ops.size(); ++i) {
    while (store_->room() == 0) {
      reap(ops);
    }
    submit(ops[i], i);
  }
  while (store_->outstanding() > 0) {
    reap(ops);
  }
}

}  // namespace troupe
