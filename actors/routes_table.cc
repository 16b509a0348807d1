// THE table of routes: which messages go where, in the order a request travels. A dispatcher
// delivers nothing that is not listed here. Read it from top to bottom as the life of a request.
#include "actors/wiring.h"

namespace troupe {
namespace {

struct Row {
  Role from;
  Kind kind;
  Role to;
  uint16_t instance = 0;     // as the sender names it
  uint16_t to_instance = 0;  // of the receiver
};

constexpr uint16_t slot(PolicySlotId id) {
  return static_cast<uint16_t>(id);
}

constexpr Row kRows[] = {
    // a request comes in
    {Role::kClient, Kind::SUBMIT, Role::kGateway},
    {Role::kClient, Kind::CANCEL, Role::kGateway},
    {Role::kClient, Kind::TRIM, Role::kGateway},
    {Role::kGateway, Kind::ACCEPTED, Role::kClient},
    {Role::kGateway, Kind::ADMIT, Role::kPrefixIndex},
    {Role::kGateway, Kind::CANCEL, Role::kScheduler},
    {Role::kGateway, Kind::TRIM, Role::kScheduler},
    {Role::kPrefixIndex, Kind::QUEUED, Role::kScheduler},
    {Role::kScheduler, Kind::ORDER, Role::kPolicySlot, 0, slot(PolicySlotId::kScheduling)},
    {Role::kPolicySlot, Kind::ORDERED, Role::kScheduler},
    // a step with new rows …
    {Role::kScheduler, Kind::MATCH, Role::kPrefixIndex},
    {Role::kPrefixIndex, Kind::HELD, Role::kScheduler},
    {Role::kPrefixIndex, Kind::READY, Role::kScheduler},
    {Role::kPrefixIndex, Kind::STAGE, Role::kTiering},
    {Role::kPrefixIndex, Kind::LOAD, Role::kTiering},
    {Role::kTiering, Kind::RESERVE, Role::kAllocator},
    {Role::kPrefixIndex, Kind::RESERVE, Role::kAllocator},
    // … and a step without
    {Role::kScheduler, Kind::RESERVE, Role::kAllocator},
    {Role::kAllocator, Kind::SHORT, Role::kScheduler},
    {Role::kAllocator, Kind::RUN, Role::kDeviceStream},
    {Role::kDeviceStream, Kind::TRANSFER_DONE, Role::kTiering},
    {Role::kDeviceStream, Kind::PLAN, Role::kClient},
    {Role::kClient, Kind::STEP_DONE, Role::kScheduler},
    // what a step filled is published; what ended is given back and answered
    {Role::kScheduler, Kind::COMMIT, Role::kAllocator},
    {Role::kAllocator, Kind::PUBLISH, Role::kPrefixIndex},
    {Role::kPrefixIndex, Kind::FOLDED, Role::kAllocator},
    {Role::kPrefixIndex, Kind::EVENTS, Role::kEviction},
    {Role::kPrefixIndex, Kind::REPLY, Role::kGateway},
    {Role::kScheduler, Kind::REPLY, Role::kGateway},
    {Role::kGateway, Kind::REPLY, Role::kClient},
    // making room: allocator -> eviction -> policy_slot -> eviction -> prefix_index -> tiering -> …
    // -> allocator
    {Role::kAllocator, Kind::RECLAIM, Role::kEviction},
    {Role::kEviction, Kind::EVENTS, Role::kPolicySlot, 0, 0},
    {Role::kEviction, Kind::EVENTS, Role::kPolicySlot, 1, 1},
    {Role::kEviction, Kind::EVENTS, Role::kPolicySlot, 2, 2},
    {Role::kEviction, Kind::ASK, Role::kPolicySlot, 0, 0},
    {Role::kEviction, Kind::ASK, Role::kPolicySlot, 1, 1},
    {Role::kEviction, Kind::ASK, Role::kPolicySlot, 2, 2},
    {Role::kPolicySlot, Kind::VICTIMS, Role::kEviction},
    {Role::kEviction, Kind::UNLINK, Role::kPrefixIndex},
    {Role::kPrefixIndex, Kind::UNLINKED, Role::kTiering},
    {Role::kTiering, Kind::PLACE, Role::kAllocator},
    {Role::kAllocator, Kind::PLACED, Role::kTiering},
    {Role::kTiering, Kind::TRANSFER, Role::kHostMover, 0},
    {Role::kTiering, Kind::TRANSFER, Role::kDiskMover, 1},
    {Role::kHostMover, Kind::TRANSFER_DONE, Role::kTiering},
    {Role::kDiskMover, Kind::TRANSFER_DONE, Role::kTiering},
    {Role::kTiering, Kind::SETTLE, Role::kPrefixIndex},
    {Role::kPrefixIndex, Kind::RELEASED, Role::kAllocator},
};

/// Beside a request's way: those who watch, time, and the operator.
constexpr Row kMoreRows[] = {
    // those who only watch
    {Role::kPrefixIndex, Kind::LOOKUP, Role::kUnderstudies},
    {Role::kUnderstudies, Kind::LOOKUPS_SEEN, Role::kPrefixIndex},
    {Role::kUnderstudies, Kind::WATCH, Role::kPrefixIndex},
    {Role::kDirector, Kind::SHADOW, Role::kUnderstudies},
    {Role::kDirector, Kind::PROMOTE, Role::kUnderstudies},
    // time
    {Role::kScheduler, Kind::WAKE_AT, Role::kClock},
    {Role::kClock, Kind::WAKE, Role::kScheduler, static_cast<uint16_t>(Role::kScheduler)},
    {Role::kDiskMover, Kind::WAKE_AT, Role::kClock},
    {Role::kClock, Kind::WAKE, Role::kDiskMover, static_cast<uint16_t>(Role::kDiskMover)},
    {Role::kClient, Kind::ADVANCE, Role::kClock},
    // control
    {Role::kClient, Kind::CONTROL, Role::kDirector},
    {Role::kDirector, Kind::ANSWER, Role::kClient},
    {Role::kDirector, Kind::DRAIN, Role::kGateway},
    {Role::kDirector, Kind::PURGE, Role::kPrefixIndex},
    // another policy: director -> policy_loader -> policy_slot, which goes on by itself
    {Role::kDirector, Kind::SWAP_POLICY, Role::kPolicyLoader},
    {Role::kPolicyLoader, Kind::ANSWER, Role::kDirector},
    {Role::kUnderstudies, Kind::SWAP_POLICY, Role::kPolicyLoader},
    {Role::kPolicySlot, Kind::POLICY_CHANGED, Role::kDirector},
    {Role::kDirector, Kind::POLICY_CHANGED, Role::kClient},
};

/// Actors that answer the director's status question.
constexpr Role kAnswering[] = {Role::kGateway,     Role::kPrefixIndex, Role::kScheduler,
                               Role::kTiering,     Role::kAllocator,   Role::kEviction,
                               Role::kUnderstudies};

constexpr const char* kRoleNames[] = {"client",       "gateway",       "prefix_index", "scheduler",
                                      "tiering",      "allocator",     "eviction",     "director",
                                      "understudies", "device_stream", "host_mover",   "disk_mover",
                                      "clock",        "policy_loader"};
constexpr const char* kSlotNames[] = {"policy_slot.device", "policy_slot.host", "policy_slot.disk",
                                      "policy_slot.scheduling"};

}  // namespace

RouteTable make_routes() {
  RouteTable table;
  std::vector<Row> rows(std::begin(kRows), std::end(kRows));
  rows.insert(rows.end(), std::begin(kMoreRows), std::end(kMoreRows));
  for (const Row& row : rows) {
    if (row.from == Role::kPolicySlot) {
      for (uint16_t i = 0; i < kPolicySlots; ++i) {
        table.add({address_of(row.from, i), row.kind, row.instance, address_of(row.to)});
      }
    } else {
      table.add(
          {address_of(row.from), row.kind, row.instance, address_of(row.to, row.to_instance)});
    }
  }
  for (const Role role : kAnswering) {
    const auto number = static_cast<uint16_t>(role);
    table.add({address_of(Role::kDirector), Kind::STATUS_ASK, number, address_of(role)});
    table.add({address_of(role), Kind::ANSWER, 0, address_of(Role::kDirector)});
  }
  for (uint16_t i = 0; i < kPolicySlots; ++i) {
    const Address slot = address_of(Role::kPolicySlot, i);
    table.add({address_of(Role::kPolicyLoader), Kind::SWAP_POLICY, i, slot});
    table.add({slot, Kind::TAKE_OVER, 0, slot});
    table.add({address_of(Role::kDirector), Kind::ROLLBACK, i, slot});
    table.add({address_of(Role::kDirector), Kind::STATUS_ASK, slot.v, slot});
    table.add({slot, Kind::ANSWER, 0, address_of(Role::kDirector)});
  }
  return table;
}

std::vector<uint16_t> answering() {
  std::vector<uint16_t> instances = answering_policies();
  for (const Role role : kAnswering) {
    if (role != Role::kUnderstudies) {
      instances.push_back(static_cast<uint16_t>(role));
    }
  }
  return instances;
}

std::vector<uint16_t> answering_policies() {
  std::vector<uint16_t> instances = {static_cast<uint16_t>(Role::kUnderstudies)};
  for (uint16_t i = 0; i < kPolicySlots; ++i) {
    instances.push_back(address_of(Role::kPolicySlot, i).v);
  }
  return instances;
}

const char* role_name(Address address) noexcept {
  if (address.v < static_cast<uint16_t>(Role::kPolicySlot)) {
    return kRoleNames[address.v];
  }
  const auto i = static_cast<size_t>(address.v) - static_cast<size_t>(Role::kPolicySlot);
  return i < kPolicySlots ? kSlotNames[i] : "unknown";
}

}  // namespace troupe
