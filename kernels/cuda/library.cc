// The only door of libtroupe_cuda.so: one version, one function that makes a device. The program
// and this library come from one build, so C++ types may cross; the version check keeps a stale
// file out.
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda_loader.h"

// The kernels of bytes.cu, as a fat binary made by nvcc.
__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    ".global troupe_cuda_image\n"
    "troupe_cuda_image:\n"
    ".incbin \"" TROUPE_CUDA_IMAGE
    "\"\n"
    ".previous\n");
extern "C" const char troupe_cuda_image[];

extern "C" [[gnu::visibility("default")]] const char* troupe_cuda_version() {
  return troupe::kernels::kCudaLibraryVersion;
}

extern "C" [[gnu::visibility("default")]] void troupe_cuda_create(
    const troupe::kernels::CudaLoadOptions& options,
    troupe::Expected<std::unique_ptr<troupe::kernels::Device>>& made) {
  auto driver = troupe::kernels::cuda::open_driver();
  if (!driver) {
    made = driver.status();
    return;
  }
  troupe::kernels::cuda::CudaDeviceOptions device;
  device.ordinal = options.ordinal;
  device.memory_bytes = options.memory_bytes;
  device.driver = *driver;
  device.module_image = troupe_cuda_image;
  made = troupe::kernels::cuda::CudaDevice::create(device);
}
