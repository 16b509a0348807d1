// Opens the CUDA backend at run time, so that one program runs with and without a driver. The
// library and the driver stay open for the life of the process.
#pragma once

#include "kernels/device.h"

#include <memory>
#include <string>

namespace troupe::kernels {

/// Both sides of the library's door must agree on this: raise it when device.h or the options
/// change.
constexpr const char* kCudaLibraryVersion = "troupe-cuda/1";

struct CudaLoadOptions {
  /// Empty: libtroupe_cuda.so beside the program, then by the loader's search path.
  std::string library_path;
  int ordinal = 0;
  uint64_t memory_bytes = 0;
};

/// Errors: unavailable (no library, no driver, no GPU: the text says which), unsupported (a library
/// of another build), no_capacity, invalid_argument.
Expected<std::unique_ptr<Device>> load_cuda_device(const CudaLoadOptions& options);

}  // namespace troupe::kernels
