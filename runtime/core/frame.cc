#include "runtime/core/frame.h"

#include <new>

namespace troupe {

Frame Frame::make(const FrameHeader& header, std::span<const capnp::word> words) {
  static_assert(sizeof(Data) % sizeof(capnp::word) == 0);
  void* memory = ::operator new(sizeof(Data) + words.size_bytes());
  Data* data = new (memory) Data;
  data->count = static_cast<uint32_t>(words.size());
  data->header = header;
  std::memcpy(data->words(), words.data(), words.size_bytes());
  Frame frame;
  frame.data_ = data;
  return frame;
}

void Frame::reset() noexcept {
  if (data_ != nullptr && data_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    data_->~Data();
    ::operator delete(data_);
  }
  data_ = nullptr;
}

}  // namespace troupe
