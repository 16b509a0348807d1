#include "io/store/meta_files.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <sys/stat.h>

namespace troupe::io {
namespace {

class MetaDirectory final : public MetaFiles {
 public:
  explicit MetaDirectory(std::string directory) : directory_(std::move(directory)) {}

  Expected<std::vector<std::byte>> read(const std::string& name, uint64_t bytes_max) override {
    const Fd fd(open(path(name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd.is_open()) {
      return errno_status("open " + path(name), errno);
    }
    struct stat info {};
    if (fstat(fd.get(), &info) != 0) {
      return errno_status("stat " + path(name), errno);
    }
    if (static_cast<uint64_t>(info.st_size) > bytes_max) {
      return {Code::kNoCapacity, path(name) + " has " + std::to_string(info.st_size) +
                                     " bytes: at most " + std::to_string(bytes_max)};
    }
    std::vector<std::byte> bytes(static_cast<size_t>(info.st_size));
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = ::read(fd.get(), bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count < 0) {
        return errno_status("read " + path(name), errno);
      }
      if (count == 0) {  // cut short meanwhile: the reader's checksums judge what is there
        bytes.resize(done);
        break;
      }
      done += static_cast<size_t>(count);
    }
    return bytes;
  }

  Status create(const std::string& name) override {
    Fd fd(open(path(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.is_open()) {
      return errno_status("create " + path(name), errno);
    }
    const std::scoped_lock lock(mutex_);
    open_[name] = std::move(fd);
    return Status::ok();
  }

  Status append(const std::string& name, std::span<const std::byte> bytes) override {
    const int fd = find(name);
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = ::write(fd, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count < 0) {
        return errno_status("append to " + path(name), errno);
      }
      done += static_cast<size_t>(count);
    }
    return Status::ok();
  }

  Status sync(const std::string& name) override {
    return fdatasync(find(name)) == 0 ? Status::ok() : errno_status("sync " + path(name), errno);
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(path(from).c_str(), path(to).c_str()) != 0) {
      return errno_status("rename " + path(from) + " to " + to, errno);
    }
    const std::scoped_lock lock(mutex_);
    open_.erase(from);
    return sync_directory();
  }

  Status remove(const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    open_.erase(name);
    if (unlink(path(name).c_str()) != 0 && errno != ENOENT) {
      return errno_status("remove " + path(name), errno);
    }
    return sync_directory();
  }

  Expected<std::vector<std::pair<std::string, uint64_t>>> list() override {
    std::vector<std::pair<std::string, uint64_t>> names;
    std::error_code error;
    for (std::filesystem::directory_iterator it(directory_, error), end; !error && it != end;
         it.increment(error)) {
      struct stat info {};
      if (lstat(it->path().c_str(), &info) == 0) {
        // Blocks, not length: what is reserved counts, holes do not.
        names.emplace_back(it->path().filename(), static_cast<uint64_t>(info.st_blocks) * 512);
      }
    }
    if (error) {
      return Status(Code::kIo, "list " + directory_ + ": " + error.message());
    }
    return names;
  }

 private:
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  int find(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    const auto found = open_.find(name);
    TROUPE_ASSERT(found != open_.end());
    return found->second.get();
  }
  Status sync_directory() {
    const Fd fd(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return fd.is_open() && fsync(fd.get()) == 0 ? Status::ok()
                                                : errno_status("sync " + directory_, errno);
  }

  std::string directory_;
  std::mutex mutex_;  // a sync may run beside appends to another file
  std::map<std::string, Fd> open_;
};

class MemoryMetaFiles final : public MetaFiles {
 public:
  explicit MemoryMetaFiles(MemoryMeta& memory) : memory_(memory) {}

  Expected<std::vector<std::byte>> read(const std::string& name, uint64_t bytes_max) override {
    const auto found = memory_.files.find(name);
    if (found == memory_.files.end()) {
      return {Code::kNotFound, name + " is not there"};
    }
    if (found->second.bytes.size() > bytes_max) {
      return {Code::kNoCapacity, name + " is too long"};
    }
    return found->second.bytes;
  }
  Status create(const std::string& name) override {
    memory_.files[name] = {};
    return Status::ok();
  }
  Status append(const std::string& name, std::span<const std::byte> bytes) override {
    TROUPE_TRY(fail(memory_.fail_append_in, "append to " + name));
    auto& file = memory_.files.at(name).bytes;
    file.insert(file.end(), bytes.begin(), bytes.end());
    return Status::ok();
  }
  Status sync(const std::string& name) override {
    TROUPE_TRY(fail(memory_.fail_sync_in, "sync " + name));
    auto& file = memory_.files.at(name);
    file.synced = file.bytes.size();
    return Status::ok();
  }
  Status rename(const std::string& from, const std::string& to) override {
    TROUPE_TRY(fail(memory_.fail_rename_in, "rename " + from));
    memory_.files[to] = std::move(memory_.files.at(from));
    memory_.files.erase(from);
    return Status::ok();
  }
  Status remove(const std::string& name) override {
    memory_.files.erase(name);
    return Status::ok();
  }
  Expected<std::vector<std::pair<std::string, uint64_t>>> list() override {
    std::vector<std::pair<std::string, uint64_t>> names;
    for (const auto& [name, file] : memory_.files) {
      names.emplace_back(name, file.bytes.size());
    }
    return names;
  }

 private:
  Status fail(int& countdown, const std::string& doing) const {
    return countdown > 0 && --countdown == 0 ? errno_status(doing, memory_.error) : Status::ok();
  }
  MemoryMeta& memory_;
};

}  // namespace

void MemoryMeta::lose_unsynced(Rng& rng) {
  for (auto& [name, file] : files) {
    const size_t tail = file.bytes.size() - file.synced;
    file.bytes.resize(file.synced + (tail == 0 ? 0 : rng.below(tail + 1)));
  }
}

std::unique_ptr<MetaFiles> open_meta_directory(const std::string& directory) {
  return std::make_unique<MetaDirectory>(directory);
}

std::unique_ptr<MetaFiles> open_memory_meta(MemoryMeta& memory) {
  return std::make_unique<MemoryMetaFiles>(memory);
}

}  // namespace troupe::io
