// Opening and closing of the disk store: files, lock, limits, recovery.
#include "io/crash_point.h"
#include "io/steady.h"
#include "io/store/directory_lock.h"
#include "io/store/disk_store.h"
#include "io/store/meta_names.h"
#include "runtime/base/log.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

namespace troupe::io {
namespace {

constexpr uint64_t kMetaReserveMin = uint64_t{64} << 20;
constexpr uint32_t kStoreAlignment = 4096;

bool is_ours(const std::string& name) {
  return name == kSuperblockName || name == kSuperblockTemp || name == kSnapshotName ||
         name == kSnapshotTemp || name == kLockName || journal_index_of(name) > 0;
}

/// Data files of classes that no longer exist, and files that lost their unlinking to a crash.
bool is_left_over(const std::string& name, size_t classes) {
  if (name.rfind("troupe-unlinked-", 0) == 0) {
    return true;
  }
  const std::string prefix = "data.";
  if (name.compare(0, prefix.size(), prefix) != 0 ||
      name.find_first_not_of("0123456789", prefix.size()) != std::string::npos) {
    return false;
  }
  return std::strtoull(name.c_str() + prefix.size(), nullptr, 10) >= classes;
}

Status check_options(const StoreOptions& options) {
  if (options.encrypt && options.durability != Durability::kEphemeral) {
    return {Code::kUnsupported, std::string("encrypt with durability ") +
                                    durability_name(options.durability) +
                                    ": the key lives only as long as the process, use ephemeral"};
  }
  if (options.operations_max == 0 || options.operations_max > 65536) {
    return {Code::kInvalidArgument,
            "operations_max " + std::to_string(options.operations_max) + ": must be 1 to 65536"};
  }
  if (options.checksum == nullptr) {
    return {Code::kInvalidArgument, "a store needs a checksum function"};
  }
  return Status::ok();
}

}  // namespace

DiskStore::DiskStore(StoreOptions options, StoreLayout layout)
    : options_(std::move(options)),
      layout_(std::move(layout)),
      table_(layout_.granules()),
      operations_(options_.operations_max),
      busy_(layout_.granules(), 0) {
  for (uint32_t i = options_.operations_max; i > 0; --i) {
    free_operations_.push_back(i - 1);
  }
}

DiskStore::~DiskStore() = default;

Expected<std::unique_ptr<DiskStore>> DiskStore::open(StoreOptions options) {
  TROUPE_TRY(check_options(options));
  auto layout = StoreLayout::create(options.classes);
  if (!layout) {
    return layout.status();
  }
  std::unique_ptr<DiskStore> store(new DiskStore(std::move(options), std::move(layout).value()));
  TROUPE_TRY(store->open_directory());
  return store;
}

Expected<std::unique_ptr<DiskStore>> DiskStore::open_over(StoreOptions options, StoreParts parts) {
  TROUPE_TRY(check_options(options));
  auto layout = StoreLayout::create(options.classes);
  if (!layout) {
    return layout.status();
  }
  std::unique_ptr<DiskStore> store(new DiskStore(std::move(options), std::move(layout).value()));
  TROUPE_TRY(store->open_parts(std::move(parts)));
  return store;
}

Status DiskStore::check_usage() {
  const uint64_t data = layout_.data_bytes();
  const uint64_t limit = options_.capacity_bytes > 0 ? options_.capacity_bytes
                                                     : data + std::max(data / 4, kMetaReserveMin);
  auto files = open_meta_directory(options_.directory);
  auto names = files->list();
  if (!names) {
    return names.status();
  }
  uint64_t others = 0;
  const bool named = options_.durability != Durability::kEphemeral;
  for (const auto& [name, bytes] : names.value()) {
    const bool data_file =
        name.rfind("data.", 0) == 0 && !is_left_over(name, layout_.classes().size());
    if (is_left_over(name, named ? layout_.classes().size() : SIZE_MAX)) {
      TROUPE_LOG_INFO("disk tier %s: removes %s, left by an earlier run",
                      options_.directory.c_str(), name.c_str());
      TROUPE_TRY(files->remove(name));
    } else if (!(named && (data_file || is_ours(name)))) {
      others += bytes;  // an earlier run's or someone else's: it counts, and stays
    }
  }
  if (data + others > limit) {
    return {Code::kNoCapacity, "disk tier " + options_.directory + ": " + std::to_string(data) +
                                   " bytes of blocks and " + std::to_string(others) +
                                   " bytes of other files are above its limit of " +
                                   std::to_string(limit) +
                                   ": free the directory, lower the blocks or raise the limit"};
  }
  meta_limit_ = limit - data - others;
  return Status::ok();
}

Status DiskStore::open_directory() {
  auto lock = lock_directory(options_.directory);
  if (!lock) {
    return lock.status();
  }
  lock_ = std::move(lock).value();
  TROUPE_TRY(check_usage());
  BlockDeviceOptions device;
  const bool named = options_.durability != Durability::kEphemeral;
  for (size_t i = 0; i < layout_.classes().size(); ++i) {
    auto file = open_data_file({.directory = options_.directory,
                                .name = named ? data_name(i) : "",
                                .bytes = layout_.file_bytes(i),
                                .direct = options_.direct});
    if (!file) {
      return file.status();
    }
    if (file->alignment > kStoreAlignment) {
      return {Code::kUnsupported, options_.directory + " wants direct I/O aligned to " +
                                      std::to_string(file->alignment) + " bytes, at most 4096"};
    }
    if (!file->note.empty()) {
      notes_.push_back(file->note);
    }
    device.files.push_back(std::move(file->fd));
  }
  device.backend = options_.backend;
  device.depth = options_.depth;
  device.uring_entries = options_.uring_entries;
  device.uring_plain = options_.uring_plain;
  device.chunk_bytes = options_.chunk_bytes;
  device.alignment = kStoreAlignment;
  device.queue_limit = options_.operations_max + 16;  // syncs have places of their own
  device.faults = options_.faults;
  auto opened = open_block_device(std::move(device));
  if (!opened) {
    return opened.status();
  }
  return open_parts({.device = std::move(opened).value(),
                     .meta = named ? open_meta_directory(options_.directory) : nullptr,
                     .with_thread = true});
}

Status DiskStore::open_parts(StoreParts parts) {
  auto trailers = Arena::create(size_t{options_.operations_max} * kRecordTrailerBytes,
                                {.alignment = 4096, .huge_pages = false});
  if (!trailers) {
    return trailers.status();
  }
  trailers_ = std::move(trailers).value();
  device_ = std::move(parts.device);
  if (!device_->capabilities().note.empty()) {
    notes_.push_back(device_->capabilities().note);
  }
  if (options_.encrypt) {
    auto cipher = PayloadCipher::create();
    if (!cipher) {
      return cipher.status();
    }
    cipher_ = std::move(cipher).value();
  }
  if (options_.durability == Durability::kEphemeral) {
    recovery_.reason = "ephemeral";
    return Status::ok();
  }
  TROUPE_ASSERT(parts.meta != nullptr);
  auto meta = MetaLog::recover(std::move(parts.meta), layout_, options_.durability,
                               parts.with_thread, table_);
  if (!meta) {
    return meta.status();
  }
  meta_ = std::move(meta).value();
  recovery_ = meta_->report();
  policy_state_ = meta_->policy_state();
  return Status::ok();
}

Status DiskStore::register_buffers(std::span<const std::span<std::byte>> buffers) {
  return device_->register_buffers(buffers);
}

uint64_t DiskStore::disk_bytes() const noexcept {
  return layout_.data_bytes() + (meta_ != nullptr && !meta_->broken() ? meta_->meta_bytes() : 0);
}

void DiskStore::for_each(const std::function<void(const BlockRecord&)>& visit) const {
  table_.for_each(0, table_.granules(), visit);
}

void DiskStore::checkpoint(std::vector<std::byte> policy_state) {
  policy_state_ = std::move(policy_state);
  if (meta_ != nullptr && options_.durability == Durability::kCrash) {
    meta_->set_policy_state(policy_state_);
    meta_->begin_snapshot(false);
  }
}

Status DiskStore::drain(int64_t deadline_ns) {
  while (device_->outstanding() > 0) {
    const int64_t left = deadline_ns - now_ns();
    if (left <= 0) {
      return {Code::kDeadline, "disk tier " + options_.directory + ": " +
                                   std::to_string(device_->outstanding()) +
                                   " transfers still in flight at close"};
    }
    pump(true, left);
  }
  return Status::ok();
}

Status DiskStore::close(std::vector<std::byte> policy_state, int64_t timeout_ns) {
  if (closed_) {
    return Status::ok();
  }
  const int64_t deadline = now_ns() + timeout_ns;
  TROUPE_TRY(drain(deadline));
  policy_state_ = std::move(policy_state);
  if (meta_ != nullptr && !meta_->broken()) {
    crash_point("close.sync.before");
    start_data_sync();
    TROUPE_TRY(drain(deadline));
    meta_->step(table_, true);  // what still runs: an older snapshot, a sync of the journal
    if (const auto lost = meta_->take_lost_since()) {
      lose_since(*lost);
    }
    meta_->set_policy_state(policy_state_);
    meta_->begin_snapshot(true);
    meta_->step(table_, true);
    crash_point("close.snapshot.after");
  }
  TROUPE_TRY(device_->close(std::max<int64_t>(0, deadline - now_ns())));
  closed_ = true;
  return Status::ok();
}

}  // namespace troupe::io
