#include "actors/movers/disk_tier.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>

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
  std::promise<Status> opened;
  tier->thread_ = std::thread([self = tier.get(), &opened] {
    const Status status = self->open_store();
    const bool good = status.is_ok();
    opened.set_value(status);  // `opened` may be gone from here on
    if (good) {
      self->serve();
    }
    self->store_.reset();
  });
  TROUPE_TRY(opened.get_future().get());
  return tier;
}

DiskTier::~DiskTier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status DiskTier::open_store() {
  io::StoreOptions store;
  store.directory = options_.directory;
  store.classes = {{options_.granule_bytes + static_cast<uint32_t>(io::kRecordTrailerBytes),
                    options_.granules}};
  store.durability = io::Durability::kEphemeral;
  store.checksum = checksum;
  auto opened = io::DiskStore::open(std::move(store));
  if (!opened) {
    return opened.status();
  }
  store_ = std::move(*opened);
  return Status::ok();
}

void DiskTier::run(std::span<DiskOp> ops) {
  if (ops.empty()) {
    return;
  }
  Batch batch{ops, 0, ops.size()};
  std::unique_lock lock(mutex_);
  arrived_.push_back(&batch);
  changed_.notify_all();
  changed_.wait(lock, [&] { return batch.open == 0; });
}

void DiskTier::serve() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const bool idle = std::all_of(active_.begin(), active_.end(),
                                    [](const Batch* batch) { return batch == nullptr; });
      if (idle) {
        changed_.wait(lock, [&] { return stopping_ || !arrived_.empty(); });
        if (arrived_.empty()) {
          return;
        }
      }
      for (; !arrived_.empty(); arrived_.pop_front()) {
        const auto free = std::find(active_.begin(), active_.end(), nullptr);
        if (free == active_.end()) {
          active_.push_back(arrived_.front());
        } else {
          *free = arrived_.front();
        }
      }
    }
    submit_what_fits();
    if (store_->outstanding() > 0) {
      reap();
    }
  }
}

void DiskTier::submit_what_fits() {
  for (size_t slot = 0; slot < active_.size(); ++slot) {
    while (active_[slot] != nullptr && active_[slot]->submitted < active_[slot]->ops.size() &&
           store_->room() > 0) {
      submit(static_cast<uint64_t>(slot) << 32 | active_[slot]->submitted++);
    }
  }
}

void DiskTier::submit(uint64_t tag) {
  DiskOp& op = op_of(tag);
  Status status = Status::ok();
  if (op.read) {
    const io::ReadBlock read{.expected = {.key = digest_of(op),
                                          .namespace_fingerprint = options_.namespace_fingerprint,
                                          .slot = op.slot},
                             .payload = op.payload,
                             .user_data = tag};
    status = store_->read({&read, 1});
  } else {
    io::WriteBlock write{.slot = op.slot, .record = {}, .payload = op.payload, .user_data = tag};
    write.record.namespace_fingerprint = options_.namespace_fingerprint;
    write.record.key = digest_of(op);
    status = store_->write({&write, 1});
  }
  if (!status) {
    end(op, status.code(), tag);
  }
}

void DiskTier::reap() {
  io::StoreCompletion done[64];
  const size_t count = store_->wait(done, -1);
  for (size_t i = 0; i < count; ++i) {
    DiskOp& op = op_of(done[i].user_data);
    op.checksum = done[i].checksum;
    end(op, code_of(done[i].verdict), done[i].user_data);
  }
}

void DiskTier::end(DiskOp& op, Code code, uint64_t tag) {
  op.code = code;
  Batch*& batch = active_[tag >> 32];
  const std::lock_guard lock(mutex_);
  if (--batch->open == 0) {
    batch = nullptr;  // its owner may return as soon as the lock is free
    changed_.notify_all();
  }
}

}  // namespace troupe
