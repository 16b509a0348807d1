// Policies by name, for everybody who hosts them: `name` is looked up in the policy folder,
// anything with a slash is a path to a library. Knows no built-in by itself: they are plug-ins like
// any other.
#pragma once

#include "runtime/core/policy.h"
#include "runtime/plugin/hosted.h"
#include "runtime/plugin/instance.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::plugin {

/// Folder of the built-in plug-ins, relative to the running program: ../policies (build tree) or
/// ../lib/troupe/policies (installed).
std::string default_policy_dir();

class Registry final : public policy::Registry {
 public:
  /// `hosted`: every policy runs in a process of its own, and no library is loaded here.
  Registry(std::string policy_dir, LoaderOptions options,
           std::optional<HostedOptions> hosted = std::nullopt)
      : dir_(std::move(policy_dir)), hosted_(std::move(hosted)), loader_(std::move(options)) {}

  /// File of a policy: `name` itself when it has a slash, else <policy_dir>/<name>.so.
  std::string path_of(std::string_view name) const;
  std::string known_names() const;
  Expected<std::shared_ptr<const Library>> library(std::string_view name) const;
  /// Whether the policy is there and may be loaded; loads it unless policies are hosted.
  Status check(std::string_view name) const;
  Expected<EvictionInstance> make_instance(std::string_view name,
                                           const InstanceOptions& options) const;
  Expected<std::unique_ptr<policy::EvictionPolicy>> make_eviction(
      std::string_view name, uint32_t capacity, uint64_t seed,
      std::string_view params) const override;
  Expected<std::unique_ptr<policy::Ghost>> make_ghost(std::string_view name, uint32_t capacity,
                                                      uint64_t seed,
                                                      std::string_view params) const override;

 private:
  Status explained(const Status& status, std::string_view name) const;
  std::string dir_;
  std::optional<HostedOptions> hosted_;
  mutable std::mutex mutex_;  // the loader: libraries may be asked for by several threads
  mutable Loader loader_;
};

}  // namespace troupe::plugin
