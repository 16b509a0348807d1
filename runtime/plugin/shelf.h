// Policies made ahead of their slots. To make one for a million blocks takes milliseconds, and so
// does ending it; a slot that does either stops the live path. So the policy loader prepares an
// instance on its own thread, the slot's make_eviction finds it here, and what a slot retires ends
// on a thread of the shelf. Which of them makes the instance changes nothing that it does.
#pragma once

#include "runtime/core/policy.h"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace troupe::plugin {

class Shelf final : public policy::Registry {
 public:
  explicit Shelf(std::unique_ptr<const policy::Registry> maker);
  ~Shelf() override;

  Status prepare(std::string_view name, uint32_t capacity, uint64_t seed,
                 std::string_view params) const override;
  Expected<std::unique_ptr<policy::EvictionPolicy>> make_eviction(
      std::string_view name, uint32_t capacity, uint64_t seed,
      std::string_view params) const override;
  Expected<std::unique_ptr<policy::Ghost>> make_ghost(std::string_view name, uint32_t capacity,
                                                      uint64_t seed,
                                                      std::string_view params) const override {
    return maker_->make_ghost(name, capacity, seed, params);
  }
  void retire(std::unique_ptr<policy::EvictionPolicy> policy) const override;

 private:
  using Instance = std::unique_ptr<policy::EvictionPolicy>;
  void bury();

  std::unique_ptr<const policy::Registry> maker_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::multimap<std::string, Instance> ready_;  // by name, capacity, seed, parameters
  mutable std::vector<Instance> retired_;
  bool closing_ = false;
  std::thread undertaker_;
};

}  // namespace troupe::plugin
