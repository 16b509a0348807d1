#include "kernels/cuda/driver.h"

#include <dlfcn.h>

namespace troupe::kernels::cuda {
namespace {

/// Fills one entry; remembers the first name that is missing.
template <class Function>
void resolve(void* library, const char* name, Function& slot, const char*& missing) {
  slot = reinterpret_cast<Function>(dlsym(library, name));
  if (slot == nullptr && missing == nullptr) {
    missing = name;
  }
}

}  // namespace

Expected<DriverTable> open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return {Code::kUnavailable, std::string("no CUDA driver: ") + (why != nullptr ? why : "")};
  }
  DriverTable table;
  const char* missing = nullptr;
  resolve(library, "cuInit", table.init, missing);
  resolve(library, "cuDeviceGet", table.device_get, missing);
  resolve(library, "cuDeviceGetName", table.device_get_name, missing);
  resolve(library, "cuDevicePrimaryCtxRetain", table.context_retain, missing);
  resolve(library, "cuDevicePrimaryCtxRelease_v2", table.context_release, missing);
  resolve(library, "cuCtxSetCurrent", table.context_set_current, missing);
  resolve(library, "cuMemAlloc_v2", table.memory_alloc, missing);
  resolve(library, "cuMemFree_v2", table.memory_free, missing);
  resolve(library, "cuMemHostAlloc", table.host_alloc, missing);
  resolve(library, "cuMemFreeHost", table.host_free, missing);
  resolve(library, "cuMemHostRegister_v2", table.host_register, missing);
  resolve(library, "cuMemHostUnregister", table.host_unregister, missing);
  resolve(library, "cuStreamCreate", table.stream_create, missing);
  resolve(library, "cuStreamDestroy_v2", table.stream_destroy, missing);
  resolve(library, "cuStreamSynchronize", table.stream_synchronize, missing);
  resolve(library, "cuStreamWaitEvent", table.stream_wait_event, missing);
  resolve(library, "cuEventCreate", table.event_create, missing);
  resolve(library, "cuEventDestroy_v2", table.event_destroy, missing);
  resolve(library, "cuEventRecord", table.event_record, missing);
  resolve(library, "cuEventQuery", table.event_query, missing);
  resolve(library, "cuMemcpyAsync", table.copy_async, missing);
  resolve(library, "cuLaunchHostFunc", table.host_function, missing);
  resolve(library, "cuModuleLoadData", table.module_load, missing);
  resolve(library, "cuModuleUnload", table.module_unload, missing);
  resolve(library, "cuModuleGetFunction", table.module_function, missing);
  resolve(library, "cuLaunchKernel", table.launch, missing);
  resolve(library, "cuGetErrorName", table.error_name, missing);
  if (missing != nullptr) {
    return {Code::kUnavailable, std::string("the CUDA driver has no ") + missing};
  }
  return table;  // the driver stays open for the life of the process
}

std::string describe(const DriverTable& driver, const char* call, Result result) {
  const char* name = nullptr;
  if (driver.error_name(result, &name) != kSuccess || name == nullptr) {
    name = "unknown";
  }
  return std::string(call) + ": CUDA error " + std::to_string(result) + " (" + name + ")";
}

}  // namespace troupe::kernels::cuda
