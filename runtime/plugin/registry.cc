#include "runtime/plugin/registry.h"

#include "runtime/plugin/adapter.h"
#include "runtime/plugin/ghost_cache.h"

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

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

std::string Registry::known_names() const {
  std::vector<std::string> names;
  std::error_code ignored;  // a folder that is not there has no names
  for (const auto& entry : std::filesystem::directory_iterator(dir_, ignored)) {
    if (entry.path().extension() == ".so") {
      names.push_back(entry.path().stem());
    }
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

Status Registry::explained(const Status& status, std::string_view name) const {
  if (status.code() == Code::kNotFound && name.find('/') == std::string_view::npos) {
    return Status(Code::kNotFound, "no policy \"" + std::string(name) + "\" in " + dir_ +
                                       "; known are " + known_names() +
                                       ", and libraries by their path");
  }
  return status;
}

Expected<std::shared_ptr<const Library>> Registry::library(std::string_view name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto loaded = loader_.load(path_of(name));
  if (!loaded) {
    return explained(loaded.status(), name);
  }
  return loaded;
}

Status Registry::check(std::string_view name) const {
  if (!hosted_) {
    return library(name).status();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return explained(loader_.stage(path_of(name)).status(), name);
}

Expected<EvictionInstance> Registry::make_instance(std::string_view name,
                                                   const InstanceOptions& options) const {
  if (hosted_) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto staged = loader_.stage(path_of(name));
    lock.unlock();
    if (!staged) {
      return explained(staged.status(), name);
    }
    const bool by_path = name.find('/') != std::string_view::npos;
    return make_hosted(*staged, by_path ? "" : std::string(name), options, *hosted_);
  }
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
  auto made = make_instance(name, {capacity, seed, std::string(params)});
  if (!made) {
    return made.status();
  }
  return adapt(std::move(made).value());
}

Expected<std::unique_ptr<policy::Ghost>> Registry::make_ghost(std::string_view name,
                                                              uint32_t capacity, uint64_t seed,
                                                              std::string_view params) const {
  auto made = make_instance(name, {capacity, seed, std::string(params)});
  if (!made) {
    return made.status();
  }
  return plugin::make_ghost(std::move(*made));
}

}  // namespace troupe::plugin
