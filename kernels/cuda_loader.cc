#include "kernels/cuda_loader.h"

#include <cstring>
#include <dlfcn.h>
#include <filesystem>

namespace troupe::kernels {
namespace {

constexpr const char* kFileName = "libtroupe_cuda.so";

void* open_library(const std::string& path, std::string& tried) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    tried += (tried.empty() ? "" : "; ") + std::string(why != nullptr ? why : path.c_str());
  }
  return library;
}

void* find_library(const std::string& path, std::string& tried) {
  if (!path.empty()) {
    return open_library(path, tried);
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const auto beside = program.parent_path() / kFileName;
    if (std::filesystem::exists(beside, error)) {
      return open_library(beside.string(), tried);
    }
  }
  return open_library(kFileName, tried);
}

}  // namespace

Expected<std::unique_ptr<Device>> load_cuda_device(const CudaLoadOptions& options) {
  std::string tried;
  void* library = find_library(options.library_path, tried);
  if (library == nullptr) {
    return {Code::kUnavailable, "no CUDA backend: " + tried};
  }
  using Version = const char* (*)();
  using Create = void (*)(const CudaLoadOptions&, Expected<std::unique_ptr<Device>>&);
  const auto version = reinterpret_cast<Version>(dlsym(library, "troupe_cuda_version"));
  const auto create = reinterpret_cast<Create>(dlsym(library, "troupe_cuda_create"));
  if (version == nullptr || create == nullptr) {
    return {Code::kUnsupported, "the CUDA backend library has no troupe_cuda entry"};
  }
  if (std::strcmp(version(), kCudaLibraryVersion) != 0) {
    return {Code::kUnsupported, std::string("the CUDA backend library is version ") + version() +
                                    ", this program needs " + kCudaLibraryVersion};
  }
  Expected<std::unique_ptr<Device>> made(Code::kInternal, "the CUDA backend gave no answer");
  create(options, made);
  return made;
}

}  // namespace troupe::kernels
