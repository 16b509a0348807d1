// Which actors exist, as numbers. A page of its own, so that tests and tools can name an address
// without including every core.
#pragma once

#include "runtime/core/frame.h"

#include <cstdint>

namespace troupe {

enum class Role : uint16_t {
  kClient = 0,  // outside: engine, gateway port, the run's driver
  kGateway,
  kPrefixIndex,
  kScheduler,
  kTiering,
  kAllocator,
  kEviction,
  kDirector,
  kUnderstudies,
  kDeviceStream,  // movers from here …
  kHostMover,
  kDiskMover,
  kClock,
  kPolicyLoader,  // … to here
  kPolicySlot,    // several: instance i has the address of kPolicySlot + i
};

/// Instances of policy_slot. Eviction slots are numbered by tier.
enum class PolicySlotId : uint16_t { kEvictDevice = 0, kEvictHost, kEvictDisk, kScheduling };
constexpr uint16_t kPolicySlots = 4;

constexpr Address address_of(Role role, uint16_t instance = 0) noexcept {
  return Address(static_cast<uint16_t>(static_cast<uint16_t>(role) + instance));
}
constexpr uint16_t kAddressCount = static_cast<uint16_t>(Role::kPolicySlot) + kPolicySlots;

const char* role_name(Address address) noexcept;

}  // namespace troupe
