// One instance of an eviction policy behind the C ABI: created, asked, saved, loaded and destroyed.
// The thinnest layer over the tables; hosts that count nanoseconds (the lab) call `table()`
// directly.
#pragma once

#include "policies/abi/eviction.h"
#include "runtime/base/status.h"
#include "runtime/core/snapshot.h"
#include "runtime/plugin/loader.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::plugin {

struct InstanceOptions {
  uint32_t capacity = 0;
  uint64_t seed = 1;
  std::string params;
};

class EvictionInstance {
 public:
  /// Creates policy `id` through `create`. `keep` holds the library alive, null for linked-in code.
  static Expected<EvictionInstance> create(troupe_policy_create_fn create,
                                           const troupe_policy_desc* desc,
                                           const InstanceOptions& options,
                                           std::shared_ptr<const Library> keep);
  /// Takes over an instance made elsewhere: a served one (hosted.h), or a wrapper around another.
  /// Destroys it when it is not whole.
  static Expected<EvictionInstance> adopt(const troupe_policy& made, const troupe_policy_desc* desc,
                                          const InstanceOptions& options,
                                          std::shared_ptr<const Library> keep);
  EvictionInstance(EvictionInstance&& other) noexcept;
  EvictionInstance& operator=(EvictionInstance&&) = delete;
  ~EvictionInstance();

  const troupe_policy_desc& desc() const noexcept { return *desc_; }
  const troupe_eviction& table() const noexcept { return *table_; }
  void* self() const noexcept { return policy_.self; }
  const InstanceOptions& options() const noexcept { return options_; }
  uint64_t digest() const noexcept { return table_->digest(policy_.self); }

  /// One record for each handle in [first, first + count).
  Expected<std::vector<uint8_t>> save_blocks(uint32_t first, uint32_t count) const;
  Expected<std::vector<uint8_t>> save_global() const;
  Status load_blocks(uint32_t schema, uint32_t first, uint32_t count, std::vector<uint8_t> records);
  Status load_global(uint32_t schema, const std::vector<uint8_t>& bytes);

 private:
  EvictionInstance() = default;
  troupe_policy policy_{};
  const troupe_eviction* table_ = nullptr;
  const troupe_policy_desc* desc_ = nullptr;
  InstanceOptions options_;
  std::shared_ptr<const Library> library_;
};

/// The whole state in one piece; loads into an instance of the same policy and capacity.
Status save_policy(const EvictionInstance& instance, StateSink& sink);
Status load_policy(EvictionInstance& instance, StateSource& source);

}  // namespace troupe::plugin
