// The few functions of the CUDA driver that the CUDA backend needs, as a table of pointers: filled
// by dlopen of libcuda.so.1 on a real machine, by a fake in tests. No CUDA header is needed to
// compile this: the driver's ABI is C and stable, handles are pointers, results are ints. Names and
// values follow cuda.h.
#pragma once

#include "runtime/base/status.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe::kernels::cuda {

using Result = int;
using DevicePointer = uint64_t;  // CUdeviceptr on 64-bit systems
using Handle = void*;            // CUcontext, CUstream, CUevent, CUmodule, CUfunction
using HostFunction = void (*)(void*);

constexpr Result kSuccess = 0;
constexpr Result kErrorOutOfMemory = 2;
constexpr Result kErrorNotReady = 600;

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDisableTiming = 2;
constexpr unsigned kHostAllocMapped = 3;  // portable | device-mapped
constexpr unsigned kHostRegisterMapped = 3;

struct DriverTable {
  Result (*init)(unsigned flags) = nullptr;
  Result (*device_get)(int* device, int ordinal) = nullptr;
  Result (*device_get_name)(char* name, int bytes, int device) = nullptr;
  Result (*context_retain)(Handle* context, int device) = nullptr;
  Result (*context_release)(int device) = nullptr;
  Result (*context_set_current)(Handle context) = nullptr;
  Result (*memory_alloc)(DevicePointer* pointer, size_t bytes) = nullptr;
  Result (*memory_free)(DevicePointer pointer) = nullptr;
  Result (*host_alloc)(void** pointer, size_t bytes, unsigned flags) = nullptr;
  Result (*host_free)(void* pointer) = nullptr;
  Result (*host_register)(void* pointer, size_t bytes, unsigned flags) = nullptr;
  Result (*host_unregister)(void* pointer) = nullptr;
  Result (*stream_create)(Handle* stream, unsigned flags) = nullptr;
  Result (*stream_destroy)(Handle stream) = nullptr;
  Result (*stream_synchronize)(Handle stream) = nullptr;
  Result (*stream_wait_event)(Handle stream, Handle event, unsigned flags) = nullptr;
  Result (*event_create)(Handle* event, unsigned flags) = nullptr;
  Result (*event_destroy)(Handle event) = nullptr;
  Result (*event_record)(Handle event, Handle stream) = nullptr;
  Result (*event_query)(Handle event) = nullptr;
  Result (*copy_async)(DevicePointer dst, DevicePointer src, size_t bytes, Handle stream) = nullptr;
  Result (*host_function)(Handle stream, HostFunction function, void* context) = nullptr;
  Result (*module_load)(Handle* module, const void* image) = nullptr;
  Result (*module_unload)(Handle module) = nullptr;
  Result (*module_function)(Handle* function, Handle module, const char* name) = nullptr;
  Result (*launch)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   Handle stream, void** parameters, void** extra) = nullptr;
  Result (*error_name)(Result error, const char** name) = nullptr;
};

/// Opens libcuda.so.1. Errors: unavailable (no driver, or one that lacks a function; says which).
Expected<DriverTable> open_driver();

/// "cuMemcpyAsync: CUDA error 700 (CUDA_ERROR_ILLEGAL_ADDRESS)".
std::string describe(const DriverTable& driver, const char* call, Result result);

}  // namespace troupe::kernels::cuda
