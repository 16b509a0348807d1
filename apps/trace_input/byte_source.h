// Bytes of a file in order, decompressed when it is a zstd stream (told by its magic, not its
// name).
#pragma once

#include "runtime/base/status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  static Expected<std::unique_ptr<ByteSource>> open(const std::string& path);
  /// Up to `out.size()` bytes; 0 at the end. Errors: io, corrupt.
  virtual Expected<size_t> read(std::span<char> out) = 0;
};

/// Splits a ByteSource into lines (without the line end) or fixed records.
class BufferedInput {
 public:
  explicit BufferedInput(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
  /// Next line, valid until the next call; false at the end. A last line without an end counts.
  Expected<bool> line(std::string_view& out);
  /// Exactly `size` bytes; false at a clean end, corrupt when the file ends inside a record.
  Expected<bool> record(size_t size, std::string_view& out);

 private:
  Expected<bool> fill();
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace troupe
