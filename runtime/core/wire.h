// Spans over the bulk arrays of messages ("u32[n]" in the schemas): no copy, no decoding. A Data
// whose length is no multiple of the element is cut down to whole elements; cores check counts they
// need.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/base/block_key.h"
#include "runtime/core/frame.h"

namespace troupe {

/// Elements of a Data field, in place. Data starts at a word border, so alignment holds up to 8.
template <class T>
std::span<const T> span_of(capnp::Data::Reader data) noexcept {
  static_assert(alignof(T) <= 8 && std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const T*>(data.begin()), data.size() / sizeof(T)};
}

/// The same, writable, while a message is built.
template <class T>
std::span<T> span_of(capnp::Data::Builder data) noexcept {
  static_assert(alignof(T) <= 8 && std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<T*>(data.begin()), data.size() / sizeof(T)};
}

/// Bytes of an array, to be set as a Data field.
template <class T>
capnp::Data::Reader data_of(std::span<const T> items) noexcept {
  return {reinterpret_cast<const capnp::byte*>(items.data()), items.size_bytes()};
}
template <class T>
capnp::Data::Reader data_of(const std::vector<T>& items) noexcept {
  return data_of(std::span<const T>(items));
}

constexpr uint32_t kNoBlock = 0xFFFFFFFFU;
constexpr uint32_t kNoSequence = 0xFFFFFFFFU;

}  // namespace troupe
