#include "runtime/trace/segment_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

namespace troupe::trace {
namespace {

/// Window that a stream may ask for [log2 bytes]: what level 19 uses, not what a hostile file may
/// name.
constexpr int kWindowLogMax = 25;

Status io_error(const std::string& path) {
  return Status(Code::kIo, "can't read " + path + ": " + std::strerror(errno));
}

Status too_long(const std::string& path, uint64_t limit) {
  return Status(Code::kNoCapacity,
                "segment " + path + " is longer than " + std::to_string(limit) + " bytes");
}

struct Input {
  explicit Input(const std::string& path)
      : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {}
  ~Input() {
    if (fd >= 0) {
      ::close(fd);
    }
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  /// Size of a regular file; nothing for anything else.
  std::optional<uint64_t> file_size() const {
    struct stat facts {};
    if (::fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
      return std::nullopt;
    }
    return static_cast<uint64_t>(facts.st_size);
  }
  ssize_t read(uint8_t* to, size_t count) const {
    ssize_t got = 0;
    do {
      got = ::read(fd, to, count);
    } while (got < 0 && errno == EINTR);
    return got;
  }
  int fd;
};

/// Room that is asked for when the length is not known.
constexpr uint64_t kFirstRoom = 256 * 1024;

/// Reads a plain file; returns its bytes, at most `room` of them.
Expected<uint64_t> read_plain(const Input& input, const std::string& path, uint64_t room,
                              WordBuffer& to) {
  to.reserve(room, 0);
  uint64_t at = 0;
  while (at < room) {
    const ssize_t got = input.read(to.bytes() + at, static_cast<size_t>(room - at));
    if (got < 0) {
      return io_error(path);
    }
    if (got == 0) {
      break;
    }
    at += static_cast<uint64_t>(got);
  }
  return at;
}

/// Unpacks into `to` until the end, an error in the stream (`cut`), or more than `limit` bytes.
Expected<uint64_t> read_packed(const Input& input, const std::string& path, uint64_t limit,
                               WordBuffer& to, SegmentCut& cut) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kWindowLogMax);
  std::vector<uint8_t> from(128 * 1024);
  uint64_t at = 0;
  size_t left = 1;
  for (bool first = true;; first = false) {
    const ssize_t got = input.read(from.data(), from.size());
    if (got < 0) {
      return io_error(path);
    }
    if (got == 0) {
      break;
    }
    ZSTD_inBuffer in{from.data(), static_cast<size_t>(got), 0};
    if (first) {
      // The length that the file states saves growing, and is believed up to the limit only.
      const unsigned long long stated = ZSTD_getFrameContentSize(in.src, in.size);
      const bool known = stated != ZSTD_CONTENTSIZE_UNKNOWN && stated != ZSTD_CONTENTSIZE_ERROR;
      to.reserve(std::min<uint64_t>(known ? stated + 1 : kFirstRoom, limit + 1), 0);
    }
    bool more = true;
    while (more) {
      if (at == to.capacity_bytes()) {
        to.reserve(std::min(at * 2, limit + 1), at);
      }
      ZSTD_outBuffer out{to.bytes() + at, static_cast<size_t>(to.capacity_bytes() - at), 0};
      left = ZSTD_decompressStream(context.get(), &out, &in);
      at += out.pos;
      if (ZSTD_isError(left) != 0) {
        cut.notice = std::string("zstd: ") + ZSTD_getErrorName(left);
        return at;
      }
      if (at > limit) {
        return at;
      }
      more = in.pos < in.size || out.pos == out.size;
    }
  }
  if (left != 0) {
    cut.notice = "the compressed stream ends early";
  }
  return at;
}

}  // namespace

void WordBuffer::reserve(uint64_t bytes, uint64_t kept) {
  const auto wanted = static_cast<size_t>((bytes + 7) / 8);
  if (wanted <= capacity_) {
    return;
  }
  std::unique_ptr<uint64_t[]> larger(new uint64_t[wanted]);
  if (kept > 0) {
    std::memcpy(larger.get(), words_.get(), static_cast<size_t>(kept));
  }
  words_ = std::move(larger);
  capacity_ = wanted;
}

Expected<SegmentCut> read_segment(const std::string& path, uint64_t limit_bytes, bool prefix,
                                  WordBuffer& to) {
  to.clear();
  const Input input(path);
  if (input.fd < 0) {
    return io_error(path);
  }
  const std::optional<uint64_t> size = input.file_size();
  if (!size) {
    return Status(Code::kInvalidArgument, path + " is not a file");
  }
  const bool packed = path.size() > 4 && path.compare(path.size() - 4, 4, ".zst") == 0;
  SegmentCut cut;
  const Expected<uint64_t> bytes =
      packed ? read_packed(input, path, limit_bytes, to, cut)
             : read_plain(input, path, std::min(*size, limit_bytes + 1), to);
  if (!bytes) {
    return bytes.status();
  }
  if (*bytes > limit_bytes && !prefix) {
    return too_long(path, limit_bytes);
  }
  to.set_size_bytes(std::min(*bytes, limit_bytes));
  return cut;
}

Expected<LaneInfo> peek_header(const std::string& path) {
  constexpr uint64_t kLongest = sizeof(FileHead) + uint64_t{kHeaderWordsMax} * 8;
  WordBuffer buffer;
  uint64_t limit = 16 * 1024;  // nearly every header
  for (;;) {
    const Expected<SegmentCut> cut = read_segment(path, limit, true, buffer);
    if (!cut) {
      return cut.status();
    }
    FileHead head;
    const std::span<const uint64_t> words = buffer.words();
    if (words.size_bytes() >= sizeof(head)) {
      load_from(head, words.data());
    }
    const uint64_t needed = sizeof(head) + uint64_t{head.header_words} * 8;
    if (needed <= limit || needed > kLongest || words.size_bytes() < limit) {
      size_t at = 0;
      uint64_t seed = 0;
      return read_header(words, at, seed);
    }
    limit = needed;
  }
}

Expected<LaneInfo> read_header(std::span<const uint64_t> words, size_t& records_at,
                               uint64_t& seed) {
  FileHead head;
  constexpr size_t kHeadWords = sizeof(FileHead) / sizeof(uint64_t);
  if (words.size() < kHeadWords) {
    return Status(Code::kCorrupt, "it ends before its header");
  }
  load_from(head, words.data());
  if (head.magic != kFileMagic || head.reserved != 0) {
    return Status(Code::kCorrupt, "it does not begin like a segment of a lane");
  }
  if (head.header_words > kHeaderWordsMax || head.header_words > words.size() - kHeadWords) {
    return Status(Code::kCorrupt, "its header of " + std::to_string(head.header_words) +
                                      " words is longer than the file or than " +
                                      std::to_string(kHeaderWordsMax));
  }
  const std::span<const uint64_t> header = words.subspan(kHeadWords, head.header_words);
  if (XXH3_64bits(header.data(), header.size_bytes()) != head.checksum) {
    return Status(Code::kCorrupt, "the checksum of its header does not match");
  }
  records_at = kHeadWords + head.header_words;
  seed = head.checksum;
  return decode_header(header);
}

}  // namespace troupe::trace
