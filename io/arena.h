// Arena: one aligned, zeroed run of anonymous memory for KV bytes and I/O staging, on huge pages
// where the kernel gives them. On a request's way: the host tier, the CPU device arena and the
// movers' staging buffers are Arenas; block devices register their spans (block_device.h).
// Invariants: begin is aligned to max(options.alignment, page); size is a whole number of pages and
// at least what was asked; with guard pages an access one byte outside faults; memory is released
// once. What was not granted (huge pages, pinning) is no error unless required: it is said in
// `facts()`.
#pragma once

#include "runtime/base/status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace troupe::io {

struct ArenaOptions {
  /// Power of two, at least 4096 (O_DIRECT), at most 1 GiB.
  size_t alignment = size_t{2} << 20;
  /// Ask for transparent huge pages (MADV_HUGEPAGE). Device drivers that pin pages for long may
  /// want off.
  bool huge_pages = true;
  /// Try mlock: needs CAP_IPC_LOCK or room under RLIMIT_MEMLOCK.
  bool pin = false;
  /// With `pin`: a refusal is an error instead of a fact.
  bool pin_required = false;
  /// Unreadable page before and after: overruns crash at once. Tests and the policy sandbox use it.
  bool guard_pages = false;
  /// Touch every page now, so that the first copy does not pay for page faults.
  bool populate = false;
  /// Leave the bytes out of core dumps (KV is users' text in another form).
  bool no_dump = true;
};

/// What the kernel really granted.
struct ArenaFacts {
  bool huge_pages_asked = false;  // MADV_HUGEPAGE accepted (pages follow as memory allows)
  bool pinned = false;
  std::string note;  // why something asked for is missing; empty when nothing is
};

class Arena {
 public:
  /// At least `bytes` zeroed bytes. Errors: invalid_argument (bytes 0, bad alignment), no_capacity
  /// (the kernel refuses the mapping, or a required pin). [any thread]
  static Expected<Arena> create(size_t bytes, const ArenaOptions& options = {});

  Arena() noexcept = default;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  std::span<std::byte> bytes() noexcept { return {begin_, size_}; }
  std::span<const std::byte> bytes() const noexcept { return {begin_, size_}; }
  std::byte* data() noexcept { return begin_; }
  const std::byte* data() const noexcept { return begin_; }
  size_t size() const noexcept { return size_; }
  /// `count` bytes from `offset`; the range must lie inside the arena.
  std::span<std::byte> slice(size_t offset, size_t count) noexcept;
  const ArenaFacts& facts() const noexcept { return facts_; }
  /// Pages given back and zero at the next touch. `offset` and `count` in whole pages.
  Status discard(size_t offset, size_t count);

 private:
  void release() noexcept;
  void apply(const ArenaOptions& options);

  std::byte* map_ = nullptr;  // whole mapping, guards included
  size_t map_size_ = 0;
  std::byte* begin_ = nullptr;
  size_t size_ = 0;
  ArenaFacts facts_;
};

}  // namespace troupe::io
