// Where segments of lanes are put: files of one directory in production, memory with faults in
// tests. Called by the recorder's writing thread alone.
#pragma once

#include "runtime/base/status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe::trace {

/// One segment while it is written. Destroying it closes the file without a word.
class LaneFile {
 public:
  virtual ~LaneFile() = default;
  /// Appends all of `bytes` or says why not; then what was appended in part is of no use.
  virtual Status append(std::span<const uint8_t> bytes) = 0;
  /// Cuts the file back to its first `bytes` bytes.
  virtual Status truncate(uint64_t bytes) = 0;
};

class LaneStorage {
 public:
  virtual ~LaneStorage() = default;
  /// `name`: letters, digits, '.', '_' only. An existing file of that name is an error.
  virtual Expected<std::unique_ptr<LaneFile>> create(const std::string& name) = 0;
  /// The segment was closed in order; its file may be compressed now, off the path.
  virtual void sealed(const std::string& name) = 0;
  /// Waits for the work that `sealed` began.
  virtual Status finish() = 0;
};

struct DirectoryOptions {
  std::string directory;
  bool compress = true;
  int level = 1;  // zstd
};

/// Files in a directory, which is made when it is missing, and must hold no lane yet. Sealed
/// segments are compressed by one thread of the lowest priority: NAME becomes NAME.zst.
Expected<std::unique_ptr<LaneStorage>> open_directory(const DirectoryOptions& options);

/// Ending of a segment's file name, before ".zst".
constexpr const char* kLaneSuffix = ".lane";

}  // namespace troupe::trace
