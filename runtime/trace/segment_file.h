// Reads a segment's bytes, plain or compressed, bounded.
#pragma once

#include "runtime/trace/segment_writer.h"

#include <memory>
#include <span>
#include <string>

namespace troupe::trace {

/// Words that a segment is read into; kept from one segment to the next, so that memory is touched
/// once.
class WordBuffer {
 public:
  std::span<const uint64_t> words() const noexcept { return {words_.get(), size_}; }
  /// Makes room for `bytes`, keeping the first `kept` of them. Contents beyond are undefined.
  void reserve(uint64_t bytes, uint64_t kept);
  uint8_t* bytes() noexcept { return reinterpret_cast<uint8_t*>(words_.get()); }
  uint64_t capacity_bytes() const noexcept { return capacity_ * sizeof(uint64_t); }
  /// Whole words of the first `bytes`; a tail of less than 8 is left out.
  void set_size_bytes(uint64_t bytes) noexcept { size_ = static_cast<size_t>(bytes / 8); }
  void clear() noexcept { size_ = 0; }

 private:
  std::unique_ptr<uint64_t[]> words_;
  size_t capacity_ = 0;
  size_t size_ = 0;
};

/// Why a segment's bytes end before their end: a compressed stream that was cut or damaged. Empty:
/// they do not.
struct SegmentCut {
  std::string notice;
};

/// Reads at most `limit_bytes` of the segment at `path` (".zst": uncompressed bytes count) into
/// `to`. kNoCapacity when there are more, unless `prefix`, which keeps the first ones.
Expected<SegmentCut> read_segment(const std::string& path, uint64_t limit_bytes, bool prefix,
                                  WordBuffer& to);

/// Checks the head and decodes the header. `records_at`: word where the records begin.
Expected<LaneInfo> read_header(std::span<const uint64_t> words, size_t& records_at, uint64_t& seed);

/// The header of the segment at `path`, reading no more than that.
Expected<LaneInfo> peek_header(const std::string& path);

}  // namespace troupe::trace
