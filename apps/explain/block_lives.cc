#include "apps/explain/block_lives.h"

#include "runtime/base/digest.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace troupe {

const char* change_name(LifeChange change) noexcept {
  constexpr const char* kNames[] = {"stored",
                                    "promoted",
                                    "demoted",
                                    "left a tier",
                                    "stayed",
                                    "evicted",
                                    "evicted with its parent",
                                    "swapped out and dropped",
                                    "lost",
                                    "purged"};
  return kNames[static_cast<size_t>(change)];
}

uint32_t BlockLives::find(const BlockName& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? kNoLife : found->second;
}

uint64_t BlockLives::child_slot(uint32_t parent, uint32_t domain, uint8_t make,
                                uint32_t first_token) noexcept {
  return Digest().add(parent).add(domain).add(make).add(first_token).value();
}

uint64_t BlockLives::extend(uint64_t chain, std::span<const uint32_t> tokens) noexcept {
  Digest digest;
  digest.add(chain).add(tokens.size());
  for (const uint32_t token : tokens) {
    digest.add(token);
  }
  return digest.value();
}

uint32_t BlockLives::store(const BlockName& name, uint32_t parent, uint32_t handle,
                           std::span<const uint32_t> tokens) {
  const auto [found, fresh] = by_name_.try_emplace(name, static_cast<uint32_t>(lives_.size()));
  const uint32_t id = found->second;
  if (fresh) {
    Life life;
    life.name = name;
    life.parent = parent;
    life.depth = parent == kNoLife ? 0 : lives_[parent].depth + 1;
    life.tokens.assign(tokens.begin(), tokens.end());
    life.chain = extend(parent == kNoLife ? 0 : lives_[parent].chain, tokens);
    if (!tokens.empty()) {
      children_[child_slot(parent, name.domain, name.make, tokens[0])].push_back(id);
      by_chain_[life.chain].push_back(id);
    }
    if (parent != kNoLife) {
      lives_[parent].had_children = true;
    }
    lives_.push_back(std::move(life));
  }
  lives_[id].live = true;
  lives_[id].handle = handle;
  return id;
}

uint32_t BlockLives::shared_tokens(uint32_t parent, uint32_t domain, uint8_t make,
                                   std::span<const uint32_t> tokens) const {
  if (tokens.empty()) {
    return 0;
  }
  const auto found = children_.find(child_slot(parent, domain, make, tokens[0]));
  if (found == children_.end()) {
    return 0;
  }
  size_t most = 0;
  for (const uint32_t id : found->second) {
    const Life& life = lives_[id];
    if (life.parent != parent || life.name.domain != domain || life.name.make != make) {
      continue;
    }
    const size_t n = std::min(tokens.size(), life.tokens.size());
    const auto end = tokens.begin() + static_cast<ptrdiff_t>(n);
    const auto differ = std::mismatch(tokens.begin(), end, life.tokens.begin()).first;
    most = std::max(most, static_cast<size_t>(differ - tokens.begin()));
  }
  return static_cast<uint32_t>(most);
}

uint32_t BlockLives::find_elsewhere(uint64_t chain, const BlockName& name) const {
  const auto found = by_chain_.find(chain);
  if (found == by_chain_.end()) {
    return kNoLife;
  }
  for (const uint32_t id : found->second) {
    const BlockName& other = lives_[id].name;
    if (other.domain != name.domain || other.make != name.make) {
      return id;
    }
  }
  return kNoLife;
}

std::string key_text(const BlockKey& key) {
  char text[72];
  char* at = text;
  for (const uint64_t word : key.w) {
    for (int byte = 0; byte < 8; ++byte) {
      at += std::snprintf(at, 3, "%02x", static_cast<unsigned>((word >> (8 * byte)) & 0xFF));
    }
  }
  return text;
}

}  // namespace troupe
