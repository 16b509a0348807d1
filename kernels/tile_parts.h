// How encoders and decoders find their way in a tile. Internal to tile_encode.cc and
// tile_decode.cc.
#pragma once

#include "kernels/formats.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace troupe::kernels {

template <class T>
void put(std::byte* at, size_t index, T value) {
  std::memcpy(at + index * sizeof(T), &value, sizeof(T));
}
template <class T>
T get(const std::byte* at, size_t index) {
  T value;
  std::memcpy(&value, at + index * sizeof(T), sizeof(T));
  return value;
}

/// A tile's parts.
template <class Byte>
struct Parts {
  Parts(const TileShape& shape, Byte* tile)
      : codes(tile), params(tile + tile_params_offset(shape)), row_bytes(tile_row_bytes(shape)) {}
  auto* row(size_t i) const {
    using Raw = std::conditional_t<std::is_const_v<Byte>, const uint8_t, uint8_t>;
    return reinterpret_cast<Raw*>(codes + i * row_bytes);
  }
  Byte* codes;
  Byte* params;
  size_t row_bytes;
};
using In = Parts<const std::byte>;
using Out = Parts<std::byte>;

}  // namespace troupe::kernels
