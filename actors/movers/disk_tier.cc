#include "actors/movers/disk_tier.h"

#include "io/steady.h"
#include "kernels/cpu/bytes.h"
#include "runtime/base/log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <sys/stat.h>
#include <utility>

namespace troupe {
namespace {

uint64_t checksum(std::span<const std::byte> bytes) {
  return kernels::checksum_bytes(bytes.data(), bytes.size());
}

Code code_of(io::StoreVerdict verdict) {
  switch (verdict) {
    case io::StoreVerdict::kOk:
      return Code::kOk;
    case io::StoreVerdict::kMissing:
      return Code::kNotFound;
    case io::StoreVerdict::kCorrupt:
      return Code::kCorrupt;
    case io::StoreVerdict::kIoError:
      return Code::kIo;
    case io::StoreVerdict::kNoSpace:
      return Code::kNoCapacity;
  }
  return Code::kInternal;
}

}  // namespace

Expected<std::unique_ptr<DiskTier>> DiskTier::open(const DiskTierOptions& options) {
  if (mkdir(options.directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return Status(Code::kIo,
                  "disk tier: cannot make " + options.directory + ": " + std::strerror(errno));
  }
  std::unique_ptr<DiskTier> tier(new DiskTier(options));
  std::promise<Status> opened;
  tier->thread_ = std::thread([self = tier.get(), &opened] {
    const Status status = self->open_store();
    const bool good = status.is_ok();
    opened.set_value(status);  // `opened` may be gone from here on
    if (good) {
      self->serve();
      self->close_store();
    }
  });
  TROUPE_TRY(opened.get_future().get());
  return tier;
}

DiskTier::~DiskTier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (store_ != nullptr) {
      store_->wake();  // under the lock: the I/O thread ends the store when it sees `stopping_`
    }
  }
  changed_.notify_all();
  thread_.join();
}

void DiskTier::close_store() {
  constexpr int64_t kPatienceNs = 2'000'000'000;
  if (const Status closed = store_->close({}, kPatienceNs); !closed) {
    // A transfer that hangs may still write into staging: better lost than used by somebody else.
    TROUPE_LOG_ERROR("%s: its buffers are given up", closed.to_string().c_str());
    static std::vector<io::Arena> given_up;
    given_up.push_back(std::move(staging_));
  }
  store_.reset();
}

Status DiskTier::open_store() {
  const uint64_t bytes = options_.granule_bytes;
  if (bytes == 0 || bytes % 4096 != 0 || bytes > kStagingMax) {
    return {Code::kInvalidArgument, "disk tier: granules of " + std::to_string(bytes) +
                                        " bytes: must be a multiple of 4096, at most " +
                                        std::to_string(kStagingMax)};
  }
  // Enough for the store's depth twice, so that the next transfers are staged while it works.
  const size_t flights = std::clamp<size_t>(kStagingMax / bytes, 1, 64);
  auto staging = io::Arena::create(flights * bytes, io::ArenaOptions{});
  if (!staging) {
    return staging.status();
  }
  staging_ = std::move(*staging);
  for (uint32_t i = 0; i < flights; ++i) {
    flights_.push_back({nullptr, 0, staging_.bytes().subspan(i * bytes, bytes)});
    free_flights_.push_back(i);
  }
  io::StoreOptions store;
  store.directory = options_.directory;
  store.classes = {
      {options_.granule_bytes + static_cast<uint32_t>(io::kRecordTrailerBytes), options_.granules}};
  store.durability = io::Durability::kEphemeral;
  store.checksum = checksum;
  store.backend = options_.under.backend;
  store.faults = options_.under.faults;
  store.uring_entries = options_.under.uring_entries;
  store.uring_plain = options_.under.uring_plain;
  auto opened = io::DiskStore::open(std::move(store));
  if (!opened) {
    return opened.status();
  }
  store_ = std::move(*opened);
  counts_.backend = store_->device().capabilities().backend;
  counts_.note = store_->device().capabilities().note;
  return Status::ok();
}

void DiskTier::run(std::span<DiskOp> ops) {
  if (ops.empty()) {
    return;
  }
  const int64_t limit = options_.under.deadline_ns;
  Batch batch{ops, limit > 0 ? io::now_ns() + limit : INT64_MAX, 0, ops.size()};
  std::unique_lock lock(mutex_);
  arrived_.push_back(&batch);
  changed_.notify_all();
  store_->wake();
  changed_.wait(lock, [&] { return batch.open == 0; });
}

DiskCounts DiskTier::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

/// False: nothing is to be done, and nothing will come.
bool DiskTier::take_arrived() {
  std::unique_lock lock(mutex_);
  if (active_.empty() && store_->outstanding() == 0) {
    changed_.wait(lock, [&] { return stopping_ || !arrived_.empty(); });
  }
  active_.insert(active_.end(), arrived_.begin(), arrived_.end());
  arrived_.clear();
  return !active_.empty() || !stopping_;
}

void DiskTier::serve() {
  while (take_arrived()) {
    submit_what_fits();
    if (store_->outstanding() > 0) {
      reap();
    }
    expire();
  }
}

void DiskTier::submit_what_fits() {
  for (size_t i = 0; i < active_.size();) {
    Batch* batch = active_[i];
    while (i < active_.size() && active_[i] == batch && batch->submitted < batch->ops.size() &&
           !free_flights_.empty() && store_->room() > 0) {
      const uint32_t flight = free_flights_.back();
      free_flights_.pop_back();
      submit(*batch, flight);
    }
    i += i < active_.size() && active_[i] == batch ? 1 : 0;
  }
}

void DiskTier::submit(Batch& batch, uint32_t flight) {
  const size_t index = batch.submitted++;
  DiskOp& op = batch.ops[index];
  flights_[flight].batch = &batch;
  flights_[flight].op = index;
  Status status(Code::kInvalidArgument, "no key, or more bytes than staging has");
  if (op.key != io::KeyDigest{} && op.payload.size() <= flights_[flight].staging.size()) {
    const auto staging = flights_[flight].staging.first(op.payload.size());
    if (op.read) {
      const io::ReadBlock read{.expected = {.key = op.key,
                                            .namespace_fingerprint = options_.namespace_fingerprint,
                                            .slot = op.slot},
                               .payload = staging,
                               .user_data = flight};
      status = store_->read({&read, 1});
    } else {
      op.checksum = kernels::copy_checksum(staging.data(), op.payload.data(), staging.size(),
                                           kernels::CacheHint::kKeep);
      io::WriteBlock write{.slot = op.slot,
                           .record = {},
                           .payload = staging,
                           .checksum = op.checksum,
                           .user_data = flight};
      write.record.namespace_fingerprint = options_.namespace_fingerprint;
      write.record.key = op.key;
      status = store_->write({&write, 1});
    }
  }
  if (!status) {
    flights_[flight].batch = nullptr;
    free_flights_.push_back(flight);
    end(batch, op, status.code());
  }
}

void DiskTier::reap() {
  io::StoreCompletion done[64];
  const size_t count = store_->wait(done, patience_ns());
  for (size_t i = 0; i < count; ++i) {
    const auto index = static_cast<uint32_t>(done[i].user_data);
    Flight& flight = flights_[index];
    if (flight.batch != nullptr) {
      DiskOp& op = flight.batch->ops[flight.op];
      if (op.read && done[i].verdict == io::StoreVerdict::kOk) {
        op.checksum = kernels::copy_checksum(op.payload.data(), flight.staging.data(),
                                             op.payload.size(), kernels::CacheHint::kStream);
      }
      end(*std::exchange(flight.batch, nullptr), op, code_of(done[i].verdict));
    }
    free_flights_.push_back(index);
  }
}

/// Until the next deadline; -1 when there is none.
int64_t DiskTier::patience_ns() const {
  if (active_.empty() || active_.front()->deadline_ns == INT64_MAX) {
    return -1;
  }
  return std::max<int64_t>(0, active_.front()->deadline_ns - io::now_ns());
}

/// Ends what is late. Its transfers go on without it.
void DiskTier::expire() {
  while (!active_.empty() && active_.front()->deadline_ns <= io::now_ns()) {
    Batch& batch = *active_.front();
    size_t left = batch.open;
    for (Flight& flight : flights_) {
      if (flight.batch == &batch) {
        flight.batch = nullptr;
        --left;
        end(batch, batch.ops[flight.op], Code::kDeadline);
      }
    }
    while (left > 0) {
      --left;
      end(batch, batch.ops[batch.submitted++], Code::kDeadline);
    }
  }
}

void DiskTier::end(Batch& batch, DiskOp& op, Code code) {
  op.code = code;
  if (batch.open == 1) {
    active_.erase(std::find(active_.begin(), active_.end(), &batch));
  }
  const std::lock_guard lock(mutex_);
  if (--batch.open == 0) {
    counts_.store = store_->stats();
    counts_.device = store_->device().stats();
    changed_.notify_all();  // its owner may return as soon as the lock is free
  }
}

}  // namespace troupe
