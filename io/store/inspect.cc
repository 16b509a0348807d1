#include "io/store/inspect.h"

#include "io/arena.h"
#include "io/store/directory_lock.h"
#include "io/store/meta_names.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

namespace troupe::io {
namespace {

constexpr uint64_t kFileMax = uint64_t{8} << 30;

/// Reads all or gives errno; ENODATA when the file ends before.
int read_exactly(int fd, uint64_t offset, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t count =
        pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return count < 0 ? errno : ENODATA;
    }
    done += static_cast<size_t>(count);
  }
  return 0;
}

Expected<std::vector<Fd>> open_data(const std::string& directory, const StoreLayout& layout) {
  std::vector<Fd> files;
  for (size_t i = 0; i < layout.classes().size(); ++i) {
    const std::string path = directory + "/" + data_name(i);
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd.is_open()) {
      return errno_status("open " + path, errno);
    }
    files.push_back(std::move(fd));
  }
  return files;
}

RecordCheck check_row(int fd, uint64_t offset, const BlockRecord& row,
                      std::vector<std::byte>& buffer) {
  RecordCheck check{.row = row};
  buffer.resize(row.payload_bytes + kRecordTrailerBytes);
  check.error = read_exactly(fd, offset, buffer);
  if (check.error != 0) {
    return check;
  }
  BlockRecord found;
  const auto payload = std::span<const std::byte>(buffer).first(row.payload_bytes);
  check.fault = decode_trailer(std::span(buffer).subspan(row.payload_bytes), found);
  if (check.fault == RecordFault::kNone) {
    check.fault = match(found, {.key = row.key,
                                .namespace_fingerprint = row.namespace_fingerprint,
                                .domain = row.domain,
                                .format = row.format,
                                .slot = row.slot});
  }
  if (check.fault == RecordFault::kNone && default_checksum(payload) != row.payload_checksum) {
    check.fault = RecordFault::kPayload;
  }
  return check;
}

}  // namespace

Expected<Inspection> inspect_store(const std::string& directory) {
  const auto files = open_meta_directory(directory);
  auto super_bytes = files->read(kSuperblockName, 4096);
  if (!super_bytes) {
    if (super_bytes.status().code() == Code::kNotFound) {
      return {Code::kNotFound, directory + " holds no store (ephemeral ones leave nothing)"};
    }
    return super_bytes.status();
  }
  auto super = decode_superblock(super_bytes.value());
  if (!super) {
    return {super.status().code(), directory + ": " + super.status().text()};
  }
  auto lock = lock_directory(directory);
  if (!lock) {
    return lock.status();
  }
  Inspection result;
  result.lock = std::move(lock).value();
  result.layout = super->layout;
  auto names = files->list();
  if (!names) {
    return names.status();
  }
  MemoryMeta copy;
  for (const auto& [name, bytes] : names.value()) {
    if (name.rfind("data.", 0) == 0) {
      result.data_bytes += bytes;
    } else if (name == kSuperblockName || name == kSnapshotName || journal_index_of(name) > 0) {
      auto content = files->read(name, kFileMax);
      if (!content) {
        return content.status();
      }
      result.meta_bytes += bytes;
      copy.files[name].bytes = std::move(content).value();
    }
  }
  result.table = SlotTable(result.layout.granules());
  auto log = MetaLog::recover(open_memory_meta(copy), result.layout, Durability::kCrash, false,
                              result.table);
  if (!log) {
    return log.status();
  }
  result.report = (*log)->report();
  result.policy_bytes = (*log)->policy_state().size();
  return result;
}

Status verify_store(const std::string& directory, const Inspection& store,
                    const std::function<void(const RecordCheck&)>& visit) {
  auto files = open_data(directory, store.layout);
  if (!files) {
    return files.status();
  }
  std::vector<std::byte> buffer;
  store.table.for_each(0, store.table.granules(), [&](const BlockRecord& row) {
    const Place place = store.layout.locate(row.slot).value();
    visit(check_row(files.value()[place.file].get(), place.offset, row, buffer));
  });
  return Status::ok();
}

Status scan_store(const std::string& directory, const Inspection& store,
                  const std::function<void(const BlockRecord&)>& visit) {
  auto files = open_data(directory, store.layout);
  if (!files) {
    return files.status();
  }
  std::vector<std::byte> page(kRecordTrailerBytes), buffer;
  for (uint32_t file = 0; file < files->size(); ++file) {
    const int fd = files.value()[file].get();
    for (uint64_t at = 0; at < store.layout.file_bytes(file); at += kRecordTrailerBytes) {
      BlockRecord record;
      if (read_exactly(fd, at, page) != 0 || decode_trailer(page, record) != RecordFault::kNone) {
        continue;
      }
      const auto place = store.layout.locate(record.slot);
      const bool here = place && place->file == file && place->offset + record.payload_bytes == at;
      // An encrypted record's key died with its process.
      if (!here || (record.flags & kRecordEncrypted) != 0) {
        continue;
      }
      const BlockRecord* known = store.table.find(record.slot);
      if (known != nullptr && known->sequence == record.sequence) {
        continue;
      }
      const RecordCheck check = check_row(fd, place->offset, record, buffer);
      if (check.error == 0 && check.fault == RecordFault::kNone) {
        visit(record);
      }
    }
  }
  return Status::ok();
}

}  // namespace troupe::io
