// From a file to a loaded policy library, in steps that can each refuse with a reason: open without
// following links, owner and mode, ELF checks, allow-list, private content-addressed copy, dlopen,
// ABI. The copy is what runs: replacing the file later changes nothing, and the same bytes load
// once. Libraries stay mapped for the life of the process (instances come and go); `mapped_bytes`
// says how much.
#pragma once

#include "runtime/base/status.h"
#include "runtime/plugin/elf_image.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::plugin {

using Sha256 = std::array<uint8_t, 32>;
std::string hex(const Sha256& digest);
Sha256 sha256(std::span<const uint8_t> bytes);

/// A loaded library. Immutable and shared; its code stays mapped.
struct Library {
  std::string path;  // as asked for
  Sha256 digest{};
  ElfImage image;
  troupe_policy_describe_fn describe = nullptr;
  troupe_policy_create_fn create = nullptr;
  std::vector<const troupe_policy_desc*> policies;
  const troupe_policy_desc* find(std::string_view id) const;
};

/// A file that passed every check that needs no code of it run, as its private copy.
struct StagedLibrary {
  std::string path;  // as asked for
  std::string copy;
  Sha256 digest{};
  ElfImage image;
};

struct LoaderOptions {
  std::string private_dir;              // of the copies; created 0700; empty: a new one under /tmp
  std::vector<std::string> allow_list;  // hex digests; empty: any
  uint64_t file_bytes_max = 64 << 20;
  bool check_owner = true;  // file must belong to root or us, and not be writable by others
};

class Loader {
 public:
  explicit Loader(LoaderOptions options) : options_(std::move(options)) {}
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Reads and checks without loading: what a scan shows. Errors: not found, invalid argument (not
  /// a policy, and why), unsupported (ABI), failed precondition (owner, mode, allow-list).
  Expected<ElfImage> inspect(const std::string& path) const;
  /// All steps of `load` up to the private copy: what a policy host gets to load.
  Expected<StagedLibrary> stage(const std::string& path);
  /// Loads, or gives the library loaded before from the same bytes.
  Expected<std::shared_ptr<const Library>> load(const std::string& path);
  uint64_t mapped_bytes() const noexcept { return mapped_bytes_; }

 private:
  Expected<std::vector<uint8_t>> read_file(const std::string& path) const;
  Expected<std::string> store_copy(const std::vector<uint8_t>& bytes, const Sha256& digest);
  LoaderOptions options_;
  bool own_dir_ = false;
  std::map<Sha256, std::shared_ptr<const Library>> loaded_;
  std::map<Sha256, std::string> staged_;  // digest -> private copy
  std::vector<std::string> copies_;
  uint64_t mapped_bytes_ = 0;
};

}  // namespace troupe::plugin
