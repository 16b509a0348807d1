#include "runtime/plugin/registry.h"

#include "runtime/plugin/adapter.h"

#include <sys/stat.h>
#include <unistd.h>

namespace troupe::plugin {

std::string default_policy_dir() {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  std::string dir(self, n > 0 ? static_cast<size_t>(n) : 0);
  std::string first;
  for (int up = 0; up < 4; ++up) {  // programs of the build tree lie up to three folders deep
    const size_t slash = dir.rfind('/');
    if (slash == std::string::npos) {
      break;
    }
    dir.resize(slash);
    for (const char* below : {"/policies", "/lib/troupe/policies"}) {
      struct stat st {};
      const std::string candidate = dir + below;
      if (stat((candidate + "/lru.so").c_str(), &st) == 0) {
        return candidate;
      }
      if (first.empty() && up == 1) {
        first = candidate;
      }
    }
  }
  return first;
}

std::string Registry::path_of(std::string_view name) const {
  if (name.find('/') != std::string_view::npos) {
    return std::string(name);
  }
  return dir_ + "/" + std::string(name) + ".so";
}

Expected<std::shared_ptr<const Library>> Registry::library(std::string_view name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return loader_.load(path_of(name));
}

Expected<EvictionInstance> Registry::make_instance(std::string_view name,
                                                   const InstanceOptions& options) {
  auto loaded = library(name);
  if (!loaded) {
    return loaded.status();
  }
  const Library& found = **loaded;
  const troupe_policy_desc* desc = found.find(name);
  return EvictionInstance::create(found.create, desc != nullptr ? desc : found.policies.front(),
                                  options, *loaded);
}

Expected<std::unique_ptr<policy::EvictionPolicy>> Registry::make_eviction(
    std::string_view name, uint32_t capacity, uint64_t seed, std::string_view params) const {
  std::shared_ptr<const Library> found;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto loaded = loader_.load(path_of(name));
    if (!loaded) {
      return loaded.status();
    }
    found = *loaded;
  }
  const troupe_policy_desc* desc = found->find(name);
  InstanceOptions options;
  options.capacity = capacity;
  options.seed = seed;
  options.params = std::string(params);
  return make_eviction_policy(found->create, desc != nullptr ? desc : found->policies.front(),
                              options, found);
}

}  // namespace troupe::plugin
