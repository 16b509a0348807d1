#include "io/arena.h"

#include "io/os.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace troupe::io {
namespace {

constexpr size_t kAlignmentMin = 4096;
constexpr size_t kAlignmentMax = size_t{1} << 30;
// A mapping beyond 2^47 bytes cannot exist on the supported machines; larger values are mistakes.
constexpr size_t kArenaBytesMax = size_t{1} << 46;

size_t page_bytes() noexcept {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

std::string memlock_limit_text() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return "no limit set";
  }
  return "RLIMIT_MEMLOCK " + std::to_string(limit.rlim_cur) + " bytes";
}

}  // namespace

Expected<Arena> Arena::create(size_t bytes, const ArenaOptions& options) {
  if (bytes == 0 || bytes > kArenaBytesMax) {
    return {Code::kInvalidArgument, "arena of " + std::to_string(bytes) + " bytes: must be 1 to " +
                                        std::to_string(kArenaBytesMax)};
  }
  if (!std::has_single_bit(options.alignment) || options.alignment < kAlignmentMin ||
      options.alignment > kAlignmentMax) {
    return {Code::kInvalidArgument, "arena alignment " + std::to_string(options.alignment) +
                                        ": must be a power of two from 4096 to 1073741824"};
  }
  const size_t page = page_bytes();
  const size_t guard = options.guard_pages ? page : 0;
  Arena arena;
  arena.size_ = (bytes + page - 1) / page * page;
  // Room to slide to the alignment; the rest is unmapped again below (guards stay).
  const size_t reserve = arena.size_ + options.alignment + 2 * guard;
  void* map = mmap(nullptr, reserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) {
    return {Code::kNoCapacity,
            "arena of " + std::to_string(bytes) + " bytes: " + errno_text(errno)};
  }
  auto* base = static_cast<std::byte*>(map);
  const auto address = reinterpret_cast<uintptr_t>(base) + guard;
  const size_t slide = (options.alignment - address % options.alignment) % options.alignment;
  arena.begin_ = base + guard + slide;
  arena.map_ = arena.begin_ - guard;
  arena.map_size_ = arena.size_ + 2 * guard;
  if (slide > 0) {
    munmap(base, slide);
  }
  std::byte* end = arena.map_ + arena.map_size_;
  munmap(end, static_cast<size_t>(base + reserve - end));
  if (mprotect(arena.begin_, arena.size_, PROT_READ | PROT_WRITE) != 0) {
    return {Code::kNoCapacity,
            "arena of " + std::to_string(bytes) + " bytes: " + errno_text(errno)};
  }
  arena.apply(options);
  if (options.pin && options.pin_required && !arena.facts_.pinned) {
    return {Code::kNoCapacity,
            "arena of " + std::to_string(bytes) + " bytes: " + arena.facts_.note};
  }
  return arena;
}

void Arena::apply(const ArenaOptions& options) {
  if (options.no_dump) {
    madvise(begin_, size_, MADV_DONTDUMP);
  }
  if (options.huge_pages) {
    facts_.huge_pages_asked = madvise(begin_, size_, MADV_HUGEPAGE) == 0;
    if (!facts_.huge_pages_asked) {
      facts_.note = "huge pages refused: " + errno_text(errno);
    }
  }
  if (options.pin) {
    facts_.pinned = mlock(begin_, size_) == 0;
    if (!facts_.pinned) {
      facts_.note += (facts_.note.empty() ? "" : "; ");
      facts_.note += "pinning refused: " + errno_text(errno) + " (" + memlock_limit_text() + ")";
    }
  }
  if (options.populate && !facts_.pinned) {
    const size_t page = page_bytes();
    for (size_t at = 0; at < size_; at += page) {
      *static_cast<volatile std::byte*>(begin_ + at) = std::byte{0};
    }
  }
}

Arena::Arena(Arena&& other) noexcept
    : map_(std::exchange(other.map_, nullptr)),
      map_size_(std::exchange(other.map_size_, 0)),
      begin_(std::exchange(other.begin_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      facts_(std::move(other.facts_)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this != &other) {
    release();
    map_ = std::exchange(other.map_, nullptr);
    map_size_ = std::exchange(other.map_size_, 0);
    begin_ = std::exchange(other.begin_, nullptr);
    size_ = std::exchange(other.size_, 0);
    facts_ = std::move(other.facts_);
  }
  return *this;
}

Arena::~Arena() {
  release();
}

void Arena::release() noexcept {
  if (map_ != nullptr) {
    munmap(map_, map_size_);
    map_ = nullptr;
  }
}

std::span<std::byte> Arena::slice(size_t offset, size_t count) noexcept {
  TROUPE_ASSERT(offset <= size_);
  TROUPE_ASSERT(count <= size_ - offset);
  return {begin_ + offset, count};
}

Status Arena::discard(size_t offset, size_t count) {
  const size_t page = page_bytes();
  if (offset % page != 0 || count % page != 0 || offset > size_ || count > size_ - offset) {
    return {Code::kInvalidArgument, "discard of " + std::to_string(count) + " bytes at " +
                                        std::to_string(offset) + " in an arena of " +
                                        std::to_string(size_) + ": whole pages inside it only"};
  }
  // A locked page can't be dropped by DONTNEED, so a pinned arena is zeroed in place.
  if (facts_.pinned) {
    std::memset(begin_ + offset, 0, count);
    return Status::ok();
  }
  if (count > 0 && madvise(begin_ + offset, count, MADV_DONTNEED) != 0) {
    return {Code::kIo, "discard of " + std::to_string(count) + " bytes: " + errno_text(errno)};
  }
  return Status::ok();
}

}  // namespace troupe::io
