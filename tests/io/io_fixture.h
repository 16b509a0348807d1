// Shared by the I/O tests: a scratch directory, the list of backends that one suite runs over, and
// a helper that drives a device until given requests are done.
#pragma once

#include "io/arena.h"
#include "io/block_device.h"
#include "io/memory/faults.h"
#include "io/memory/memory_backend.h"
#include "runtime/base/rng.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::io::test {

/// A directory that goes with the object.
class ScratchDir {
 public:
  explicit ScratchDir(const char* root = nullptr) {
    const char* tmp = root != nullptr ? root : std::getenv("TMPDIR");
    std::string path = std::string(tmp != nullptr ? tmp : "/tmp") + "/troupe-io-XXXXXX";
    TROUPE_ASSERT(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Whether this machine lets us make rings. The suites print a line when they must leave them out.
inline bool uring_works() {
  static const bool works = [] {
    BlockDeviceOptions options;
    ScratchDir dir;
    auto file = open_data_file({.directory = dir.path(), .name = "", .bytes = 4096});
    TROUPE_ASSERT(file.is_ok());
    options.files.push_back(std::move(file->fd));
    options.backend = BackendChoice::kUring;
    auto device = open_block_device(std::move(options));
    if (!device) {
      std::printf("SKIPPED: io_uring: %s\n", device.status().to_string().c_str());
    }
    return device.is_ok();
  }();
  return works;
}

struct DeviceSetup {
  std::vector<uint64_t> file_bytes{uint64_t{8} << 20};
  uint32_t depth = 16;
  uint32_t chunk_bytes = 65536;
  uint32_t queue_limit = 1024;
  std::shared_ptr<FaultInjector> faults;
};

/// A device with what it stands on; members are destroyed device first.
struct Rig {
  std::unique_ptr<ScratchDir> dir;
  std::unique_ptr<MemoryDisk> disk;
  std::unique_ptr<BlockDevice> device;
};

inline Rig open_files(const DeviceSetup& setup, BackendChoice backend, const char* root = nullptr) {
  Rig rig;
  rig.dir = std::make_unique<ScratchDir>(root);
  BlockDeviceOptions options;
  for (size_t i = 0; i < setup.file_bytes.size(); ++i) {
    auto file = open_data_file({.directory = rig.dir->path(),
                                .name = "data" + std::to_string(i),
                                .bytes = setup.file_bytes[i]});
    TROUPE_ASSERT(file.is_ok());
    options.files.push_back(std::move(file->fd));
  }
  options.backend = backend;
  options.depth = setup.depth;
  options.chunk_bytes = setup.chunk_bytes;
  options.queue_limit = setup.queue_limit;
  options.alignment = 4096;
  options.faults = setup.faults;
  auto device = open_block_device(std::move(options));
  TROUPE_ASSERT(device.is_ok());
  rig.device = std::move(device).value();
  return rig;
}

inline Rig open_memory(const DeviceSetup& setup, CompletionOrder order, uint64_t seed = 7) {
  Rig rig;
  rig.disk = std::make_unique<MemoryDisk>(setup.file_bytes, order, seed);
  auto device = open_memory_device(*rig.disk, {.depth = setup.depth,
                                               .chunk_bytes = setup.chunk_bytes,
                                               .queue_limit = setup.queue_limit,
                                               .alignment = 4096,
                                               .faults = setup.faults});
  TROUPE_ASSERT(device.is_ok());
  rig.device = std::move(device).value();
  return rig;
}

struct NamedBackend {
  std::string name;
  std::function<Rig(const DeviceSetup&)> open;
};

/// The backends of the conformance suite on this machine.
inline std::vector<NamedBackend> backends() {
  std::vector<NamedBackend> list;
  for (const auto& [order, name] : {std::pair{CompletionOrder::kFirstCome, "memory"},
                                    {CompletionOrder::kSeeded, "memory, seeded order"},
                                    {CompletionOrder::kCranked, "memory, cranked"}}) {
    list.push_back({name, [order = order](const DeviceSetup& s) { return open_memory(s, order); }});
  }
  list.push_back(
      {"posix", [](const DeviceSetup& s) { return open_files(s, BackendChoice::kPosix); }});
  if (std::filesystem::is_directory("/dev/shm")) {
    list.push_back({"posix on tmpfs", [](const DeviceSetup& s) {
                      return open_files(s, BackendChoice::kPosix, "/dev/shm");
                    }});
  }
  if (uring_works()) {
    list.push_back(
        {"io_uring", [](const DeviceSetup& s) { return open_files(s, BackendChoice::kUring); }});
    list.push_back({"io_uring, fixed buffers", [](const DeviceSetup& s) {
                      return open_files(s, BackendChoice::kUring);  // the suite registers its arena
                    }});
  }
  return list;
}

inline void fill(std::span<std::byte> bytes, uint64_t seed) {
  Rng rng(seed);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t word = rng.next();
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, bytes.size() - i));
  }
}

/// Waits for everything outstanding; completions by user_data, each of which may come once only.
inline std::map<uint64_t, IoCompletion> finish(BlockDevice& device) {
  std::map<uint64_t, IoCompletion> done;
  IoCompletion batch[16];
  while (device.outstanding() > 0) {
    const size_t count = device.wait(batch, -1);
    for (size_t i = 0; i < count; ++i) {
      TROUPE_ASSERT(done.emplace(batch[i].user_data, batch[i]).second);
    }
  }
  return done;
}

/// One request, to its end.
inline IoCompletion run(BlockDevice& device, IoRequest request) {
  const Status submitted = device.submit({&request, 1});
  TROUPE_ASSERT(submitted.is_ok());
  return finish(device).at(request.user_data);
}

}  // namespace troupe::io::test
