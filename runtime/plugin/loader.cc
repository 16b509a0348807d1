#include "runtime/plugin/loader.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::plugin {
namespace {

constexpr uint32_t kPoliciesMax = 64;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Status errno_status(const std::string& what) {
  const int error = errno;
  return Status(error == ENOENT ? Code::kNotFound : Code::kIo, what + ": " + strerror(error));
}

Status check_desc(const troupe_policy_desc& d, const troupe_note& note, uint32_t index) {
  const std::string who = "policy " + std::to_string(index);
  if (!TROUPE_HAS(&d, troupe_policy_desc, block_state_bytes) || d.id == nullptr ||
      d.version == nullptr || d.paper == nullptr) {
    return Status(Code::kUnsupported, who + ": its description has " +
                                          std::to_string(d.struct_size) +
                                          " bytes and lacks id, version, paper or state size");
  }
  if (d.abi_major != TROUPE_ABI_MAJOR) {
    return Status(Code::kUnsupported, who + " (" + d.id + ") speaks ABI " +
                                          std::to_string(d.abi_major) + ", its note " +
                                          std::to_string(note.abi_major));
  }
  if (d.kind < TROUPE_KIND_EVICTION || d.kind > TROUPE_KIND_RETENTION) {
    return Status(Code::kUnsupported, who + " (" + d.id + ") is of kind " + std::to_string(d.kind) +
                                          ", known are 1 … 5");
  }
  if (d.needs != 0) {  // this host offers no optional capability yet
    return Status(Code::kUnsupported, who + " (" + d.id + ") needs host capabilities " +
                                          std::to_string(d.needs) + ", which are unknown here");
  }
  if (index == 0 && strcmp(d.id, note.id) != 0) {
    return Status(Code::kInvalidArgument,
                  std::string("its note says '") + note.id + "', its description '" + d.id + "'");
  }
  return Status::ok();
}

}  // namespace

std::string hex(const Sha256& digest) {
  static const char* const kDigits = "0123456789abcdef";
  std::string out;
  for (const uint8_t b : digest) {
    out.push_back(kDigits[b >> 4]);
    out.push_back(kDigits[b & 15]);
  }
  return out;
}

Sha256 sha256(std::span<const uint8_t> bytes) {
  Sha256 digest;
  SHA256(bytes.data(), bytes.size(), digest.data());
  return digest;
}

const troupe_policy_desc* Library::find(std::string_view id) const {
  for (const troupe_policy_desc* d : policies) {
    if (id == d->id) {
      return d;
    }
  }
  return nullptr;
}

Loader::~Loader() {
  for (const std::string& copy : copies_) {
    unlink(copy.c_str());  // mapped libraries live on without their file
  }
  if (own_dir_) {
    rmdir(options_.private_dir.c_str());
  }
}

Expected<std::vector<uint8_t>> Loader::read_file(const std::string& path) const {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.get() < 0) {
    if (errno == ELOOP) {
      return Status(Code::kFailedPrecondition,
                    path + ": is a symbolic link, which is not followed");
    }
    return errno_status(path);
  }
  struct stat st {};
  if (fstat(fd.get(), &st) != 0) {
    return errno_status(path);
  }
  if (!S_ISREG(st.st_mode)) {
    return Status(Code::kInvalidArgument, path + ": not a regular file");
  }
  if (options_.check_owner &&
      ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)) {
    return Status(Code::kFailedPrecondition,
                  path + ": must belong to root or to this user and be writable by nobody else");
  }
  if (static_cast<uint64_t>(st.st_size) > options_.file_bytes_max) {
    return Status(Code::kOutOfRange, path + ": has " + std::to_string(st.st_size) +
                                         " bytes, the limit is " +
                                         std::to_string(options_.file_bytes_max));
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(st.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = read(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return n < 0 ? errno_status(path) : Status(Code::kCorrupt, path + ": shrank while read");
    }
    done += static_cast<size_t>(n);
  }
  return bytes;
}

Expected<std::string> Loader::store_copy(const std::vector<uint8_t>& bytes, const Sha256& digest) {
  if (options_.private_dir.empty()) {
    std::string dir = "/tmp/troupe-plugins-XXXXXX";
    if (mkdtemp(dir.data()) == nullptr) {
      return errno_status(dir);
    }
    options_.private_dir = dir;
    own_dir_ = true;
  } else if (mkdir(options_.private_dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return errno_status(options_.private_dir);
  }
  struct stat st {};
  if (lstat(options_.private_dir.c_str(), &st) != 0 || !S_ISDIR(st.st_mode) ||
      st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Status(Code::kFailedPrecondition,
                  options_.private_dir + ": must be a directory that only this user can write");
  }
  const std::string path = options_.private_dir + "/" + hex(digest) + ".so";
  std::string temp = path + ".XXXXXX";
  {
    const Fd fd(mkostemp(temp.data(), O_CLOEXEC));
    if (fd.get() < 0) {
      return errno_status(temp);
    }
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = write(fd.get(), bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n <= 0) {
        const Status status = errno_status(temp);
        unlink(temp.c_str());
        return status;
      }
      done += static_cast<size_t>(n);
    }
    fchmod(fd.get(), 0500);
  }
  if (rename(temp.c_str(), path.c_str()) != 0) {
    return errno_status(path);
  }
  copies_.push_back(path);
  return path;
}

Expected<ElfImage> Loader::inspect(const std::string& path) const {
  auto bytes = read_file(path);
  if (!bytes) {
    return bytes.status();
  }
  auto image = read_elf(*bytes);
  if (!image) {
    return Status(image.status().code(), path + ": " + image.status().text());
  }
  const Status status = check_loadable(*image);
  if (!status) {
    return Status(status.code(), path + ": " + status.text());
  }
  return image;
}

Expected<StagedLibrary> Loader::stage(const std::string& path) {
  auto bytes = read_file(path);
  if (!bytes) {
    return bytes.status();
  }
  auto image = read_elf(*bytes);
  if (!image) {
    return Status(image.status().code(), path + ": " + image.status().text());
  }
  if (const Status status = check_loadable(*image); !status) {
    return Status(status.code(), path + ": " + status.text());
  }
  StagedLibrary staged;
  staged.path = path;
  staged.digest = sha256(*bytes);
  staged.image = std::move(*image);
  const auto& allowed = options_.allow_list;
  if (!allowed.empty() &&
      std::find(allowed.begin(), allowed.end(), hex(staged.digest)) == allowed.end()) {
    return Status(Code::kFailedPrecondition,
                  path + ": its digest " + hex(staged.digest) + " is not on the allow-list");
  }
  if (const auto found = staged_.find(staged.digest); found != staged_.end()) {
    staged.copy = found->second;
    return staged;
  }
  auto copy = store_copy(*bytes, staged.digest);
  if (!copy) {
    return copy.status();
  }
  staged.copy = *copy;
  staged_.emplace(staged.digest, *copy);
  return staged;
}

Expected<std::shared_ptr<const Library>> Loader::load(const std::string& path) {
  auto staged = stage(path);
  if (!staged) {
    return staged.status();
  }
  if (const auto found = loaded_.find(staged->digest); found != loaded_.end()) {
    return found->second;
  }
  void* handle = dlopen(staged->copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Status(Code::kInvalidArgument, path + ": " + (why != nullptr ? why : "dlopen failed"));
  }
  auto library = std::make_shared<Library>();
  library->path = path;
  library->digest = staged->digest;
  library->image = std::move(staged->image);
  library->describe =
      reinterpret_cast<troupe_policy_describe_fn>(dlsym(handle, TROUPE_DESCRIBE_SYMBOL));
  library->create = reinterpret_cast<troupe_policy_create_fn>(dlsym(handle, TROUPE_CREATE_SYMBOL));
  if (library->describe == nullptr || library->create == nullptr) {
    return Status(Code::kInvalidArgument, path + ": its entry points cannot be found");
  }
  for (uint32_t i = 0;; ++i) {
    const troupe_policy_desc* desc = library->describe(i);
    if (desc == nullptr) {
      break;
    }
    if (i >= kPoliciesMax) {
      return Status(Code::kOutOfRange, path + ": describes more than 64 policies");
    }
    if (const Status status = check_desc(*desc, library->image.note, i); !status) {
      return Status(status.code(), path + ": " + status.text());
    }
    library->policies.push_back(desc);
  }
  if (library->policies.empty()) {
    return Status(Code::kInvalidArgument, path + ": describes no policy");
  }
  std::error_code error;
  mapped_bytes_ += std::filesystem::file_size(staged->copy, error);
  std::shared_ptr<const Library> shared = std::move(library);
  loaded_.emplace(staged->digest, shared);
  return shared;
}

}  // namespace troupe::plugin
