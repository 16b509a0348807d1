#include "apps/trace_input/byte_source.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <zstd.h>

namespace troupe {
namespace {

constexpr size_t kChunkBytes = 1 << 18;
// A line longer than this is damage, not a request: a million 20-digit ids are 22 MB.
constexpr size_t kLineBytesMax = size_t{1} << 28;
constexpr uint32_t kZstdMagic = 0xFD2FB528;
// Traces in use are packed with windows up to 16 MiB; --long=27 is the largest zstd's tool makes by
// habit.
constexpr int kZstdWindowLogMax = 27;

struct FileCloser {
  void operator()(FILE* f) const noexcept { fclose(f); }
};
using File = std::unique_ptr<FILE, FileCloser>;

class PlainSource final : public ByteSource {
 public:
  PlainSource(File file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  Expected<size_t> read(std::span<char> out) override {
    const size_t n = fread(out.data(), 1, out.size(), file_.get());
    if (n == 0 && ferror(file_.get()) != 0) {
      return Status(Code::kIo, path_ + ": read failed: " + strerror(errno));
    }
    return n;
  }

 private:
  File file_;
  std::string path_;
};

class ZstdSource final : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> packed, std::string path)
      : packed_(std::move(packed)),
        path_(std::move(path)),
        stream_(ZSTD_createDStream()),
        in_buffer_(kChunkBytes) {
    TROUPE_ASSERT(stream_ != nullptr);
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kZstdWindowLogMax);
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  Expected<size_t> read(std::span<char> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0) {
      if (in_.pos == in_.size) {
        Expected<size_t> got = packed_->read(in_buffer_);
        if (!got) {
          return got.status();
        }
        if (*got == 0) {
          if (mid_frame_) {
            return Status(Code::kCorrupt, path_ + ": zstd stream ends inside a frame");
          }
          return size_t{0};
        }
        in_ = ZSTD_inBuffer{in_buffer_.data(), *got, 0};
      }
      const size_t left = ZSTD_decompressStream(stream_, &to, &in_);
      if (ZSTD_isError(left) != 0) {
        return Status(Code::kCorrupt, path_ + ": zstd: " + ZSTD_getErrorName(left));
      }
      mid_frame_ = left != 0;
    }
    return to.pos;
  }

 private:
  std::unique_ptr<ByteSource> packed_;
  std::string path_;
  ZSTD_DStream* stream_;
  std::vector<char> in_buffer_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool mid_frame_ = false;
};

}  // namespace

Expected<std::unique_ptr<ByteSource>> ByteSource::open(const std::string& path) {
  File file(fopen(path.c_str(), "rbe"));
  if (file == nullptr) {
    const Code code = errno == ENOENT ? Code::kNotFound : Code::kIo;
    return Status(code, path + ": " + strerror(errno));
  }
  uint32_t magic = 0;
  const size_t n = fread(&magic, 1, sizeof magic, file.get());
  rewind(file.get());
  auto plain = std::make_unique<PlainSource>(std::move(file), path);
  if (n == sizeof magic && magic == kZstdMagic) {
    return std::unique_ptr<ByteSource>(std::make_unique<ZstdSource>(std::move(plain), path));
  }
  return std::unique_ptr<ByteSource>(std::move(plain));
}

Expected<bool> BufferedInput::fill() {
  if (begin_ > 0) {
    memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < kChunkBytes) {
    if (end_ > kLineBytesMax) {
      return Status(Code::kOutOfRange,
                    "a line is longer than " + std::to_string(kLineBytesMax) + " bytes");
    }
    buffer_.resize(std::max(buffer_.size() * 2, end_ + kChunkBytes));
  }
  Expected<size_t> got = source_->read(std::span<char>(buffer_).subspan(end_));
  if (!got) {
    return got.status();
  }
  end_ += *got;
  return *got > 0;
}

Expected<bool> BufferedInput::line(std::string_view& out) {
  size_t searched = begin_;
  for (;;) {
    const char* start = buffer_.data() + begin_;
    const void* hit =
        end_ > searched ? memchr(buffer_.data() + searched, '\n', end_ - searched) : nullptr;
    if (hit != nullptr) {
      out = std::string_view(start, static_cast<size_t>(static_cast<const char*>(hit) - start));
      begin_ += out.size() + 1;
      break;
    }
    const size_t kept = end_ - begin_;
    Expected<bool> more = fill();
    if (!more) {
      return more.status();
    }
    searched = begin_ + kept;
    if (!*more) {
      if (begin_ == end_) {
        return false;
      }
      out = std::string_view(buffer_.data() + begin_, end_ - begin_);
      begin_ = end_;
      break;
    }
  }
  if (!out.empty() && out.back() == '\r') {
    out.remove_suffix(1);
  }
  return true;
}

Expected<bool> BufferedInput::record(size_t size, std::string_view& out) {
  while (end_ - begin_ < size) {
    Expected<bool> more = fill();
    if (!more) {
      return more.status();
    }
    if (!*more) {
      if (begin_ == end_) {
        return false;
      }
      return Status(Code::kCorrupt,
                    "the file ends inside a record: " + std::to_string(end_ - begin_) + " of " +
                        std::to_string(size) + " bytes");
    }
  }
  out = std::string_view(buffer_.data() + begin_, size);
  begin_ += size;
  return true;
}

}  // namespace troupe
