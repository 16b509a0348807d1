// MetaFiles: the few small files beside the data (superblock, journal, snapshot) behind one seam,
// so that crashes, full disks and failing syncs are plain unit tests. Two versions: a directory,
// and memory with faults and a crash model (what was not synced may be lost, names not synced with
// the directory too).
#pragma once

#include "io/os.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::io {

class MetaFiles {
 public:
  virtual ~MetaFiles() = default;
  /// The whole file. not_found; no_capacity above `bytes_max`; io.
  virtual Expected<std::vector<std::byte>> read(const std::string& name, uint64_t bytes_max) = 0;
  /// An empty file under this name, replacing an old one.
  virtual Status create(const std::string& name) = 0;
  /// At the end of a file made by `create`. All bytes or an error (then the tail is undefined).
  virtual Status append(const std::string& name, std::span<const std::byte> bytes) = 0;
  virtual Status sync(const std::string& name) = 0;
  /// Atomically, and durable with the directory when it returns.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// Not there is fine.
  virtual Status remove(const std::string& name) = 0;
  virtual Expected<std::vector<std::pair<std::string, uint64_t>>> list() = 0;
};

/// Files in `directory`, which must exist. One thread at a time per file.
std::unique_ptr<MetaFiles> open_meta_directory(const std::string& directory);

/// For tests and simulation. The contents outlive the MetaFiles over it.
class MemoryMeta {
 public:
  struct File {
    std::vector<std::byte> bytes;
    size_t synced = 0;
  };
  std::map<std::string, File> files;
  /// Fail the n-th call from now of a kind (0: never), with this errno.
  int fail_append_in = 0, fail_sync_in = 0, fail_rename_in = 0;
  int error = 5;
  /// Power loss: each unsynced tail is cut at a random place.
  void lose_unsynced(Rng& rng);
};
std::unique_ptr<MetaFiles> open_memory_meta(MemoryMeta& memory);

}  // namespace troupe::io
