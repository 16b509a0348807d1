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

/// Collects bytes as words, up to a limit.
class Words {
 public:
  explicit Words(uint64_t limit) : limit_(limit) {}
  /// False: the limit was reached; the bytes up to it were taken.
  bool add(const uint8_t* bytes, size_t count) {
    const auto taken = static_cast<size_t>(std::min<uint64_t>(count, limit_ - bytes_));
    words_.resize(static_cast<size_t>((bytes_ + taken + 7) / 8));
    if (taken > 0) {
      std::memcpy(reinterpret_cast<uint8_t*>(words_.data()) + bytes_, bytes, taken);
    }
    bytes_ += taken;
    return taken == count;
  }
  std::vector<uint64_t> take() {
    words_.resize(static_cast<size_t>(bytes_ / 8));
    return std::move(words_);
  }

 private:
  uint64_t limit_;
  uint64_t bytes_ = 0;
  std::vector<uint64_t> words_;
};

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
  ssize_t read(std::vector<uint8_t>& buffer) const {
    ssize_t got = 0;
    do {
      got = ::read(fd, buffer.data(), buffer.size());
    } while (got < 0 && errno == EINTR);
    return got;
  }
  int fd;
};

}  // namespace

Expected<SegmentBytes> read_segment(const std::string& path, uint64_t limit_bytes, bool prefix) {
  const Input input(path);
  if (input.fd < 0) {
    return io_error(path);
  }
  const std::optional<uint64_t> size = input.file_size();
  if (!size) {
    return Status(Code::kInvalidArgument, path + " is not a file");
  }
  const bool compressed = path.size() > 4 && path.compare(path.size() - 4, 4, ".zst") == 0;
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(
      compressed ? ZSTD_createDCtx() : nullptr, ZSTD_freeDCtx);
  if (compressed) {
    ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kWindowLogMax);
  }
  std::vector<uint8_t> from(static_cast<size_t>(std::min<uint64_t>(*size + 1, 256 * 1024)));
  std::vector<uint8_t> to(compressed ? ZSTD_DStreamOutSize() : 0);
  Words words(limit_bytes);
  SegmentBytes result;
  size_t left = 0;
  for (;;) {
    const ssize_t got = input.read(from);
    if (got < 0) {
      return io_error(path);
    }
    if (got == 0) {
      break;
    }
    if (!compressed) {
      if (!words.add(from.data(), static_cast<size_t>(got))) {
        if (prefix) {
          break;
        }
        return too_long(path, limit_bytes);
      }
      continue;
    }
    ZSTD_inBuffer in{from.data(), static_cast<size_t>(got), 0};
    bool more = true;
    while (more) {
      ZSTD_outBuffer out{to.data(), to.size(), 0};
      left = ZSTD_decompressStream(context.get(), &out, &in);
      if (ZSTD_isError(left) != 0) {
        result.cut = true;
        result.notice = std::string("zstd: ") + ZSTD_getErrorName(left);
        result.words = words.take();
        return result;
      }
      if (!words.add(to.data(), out.pos)) {
        if (prefix) {
          result.words = words.take();
          return result;
        }
        return too_long(path, limit_bytes);
      }
      more = in.pos < in.size || out.pos == out.size;
    }
  }
  if (compressed && left != 0) {
    result.cut = true;
    result.notice = "the compressed stream ends early";
  }
  result.words = words.take();
  return result;
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
