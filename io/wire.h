// Little-endian fields at fixed offsets, for what io/ keeps on disk. Bounds are the caller's: each
// reader checks the length once.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace troupe::io {

static_assert(std::endian::native == std::endian::little,
              "on-disk integers are copied as they are");

template <class T>
void put_le(std::span<std::byte> out, size_t at, T value) noexcept {
  std::memcpy(out.data() + at, &value, sizeof(T));
}

template <class T>
T get_le(std::span<const std::byte> in, size_t at) noexcept {
  T value;
  std::memcpy(&value, in.data() + at, sizeof(T));
  return value;
}

}  // namespace troupe::io
