#include "runtime/plugin/shelf.h"

namespace troupe::plugin {
namespace {

std::string key_of(std::string_view name, uint32_t capacity, uint64_t seed,
                   std::string_view params) {
  std::string key(name);
  key += '\n';
  key += std::to_string(capacity) + '\n' + std::to_string(seed) + '\n';
  return key.append(params);
}

}  // namespace

Shelf::Shelf(std::unique_ptr<const policy::Registry> maker)
    : maker_(std::move(maker)), undertaker_([this] { bury(); }) {}

Shelf::~Shelf() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  undertaker_.join();
}

Status Shelf::prepare(std::string_view name, uint32_t capacity, uint64_t seed,
                      std::string_view params) const {
  auto made = maker_->make_eviction(name, capacity, seed, params);
  if (!made) {
    return made.status();
  }
  const std::lock_guard lock(mutex_);
  ready_.emplace(key_of(name, capacity, seed, params), std::move(*made));
  return Status::ok();
}

Expected<std::unique_ptr<policy::EvictionPolicy>> Shelf::make_eviction(
    std::string_view name, uint32_t capacity, uint64_t seed, std::string_view params) const {
  {
    const std::lock_guard lock(mutex_);
    if (auto found = ready_.extract(key_of(name, capacity, seed, params)); !found.empty()) {
      return std::move(found.mapped());
    }
  }
  return maker_->make_eviction(name, capacity, seed, params);
}

void Shelf::retire(Instance policy) const {
  if (policy == nullptr) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    retired_.push_back(std::move(policy));
  }
  changed_.notify_one();
}

void Shelf::bury() {
  std::unique_lock lock(mutex_);
  while (!closing_ || !retired_.empty()) {
    changed_.wait(lock, [this] { return closing_ || !retired_.empty(); });
    std::vector<Instance> ending = std::move(retired_);
    retired_.clear();
    lock.unlock();
    ending.clear();
    lock.lock();
  }
}

}  // namespace troupe::plugin
