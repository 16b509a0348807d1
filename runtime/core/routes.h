// Routes as data: from (sender, kind, instance) to the one receiver. Filled by actors/wiring, asked
// by every dispatcher for every message. An undeclared route is a programmer error.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/actor_core.h"

namespace troupe {

struct Route {
  Address from;
  Kind kind = Kind::INVALID;
  uint16_t instance = 0;
  Address to;
};

class RouteTable {
 public:
  /// Two routes from one (from, kind, instance) are a programmer error.
  void add(const Route& route);
  /// Address::none() when undeclared.
  Address find(Address from, Kind kind, uint16_t instance) const noexcept {
    const size_t row = static_cast<size_t>(from.v) * kKinds + static_cast<size_t>(kind);
    if (from.v >= senders_ || static_cast<size_t>(kind) >= kKinds ||
        instance >= to_[row].size()) {
      return Address::none();
    }
    return to_[row][instance];
  }
  const std::vector<Route>& routes() const noexcept { return routes_; }

 private:
  static constexpr size_t kKinds = 64;  // more than the union has members; checked in add
  size_t senders_ = 0;
  std::vector<std::vector<Address>> to_;  // [sender * kKinds + kind][instance]
  std::vector<Route> routes_;
};

/// One actor of a troupe. Movers have effects: a replay does not run them. One that waits in its
/// step for a copy or a disk gets a thread of its own; each wake-up of a thread costs a message
/// some ten microseconds, so the others share a pool.
struct Member {
  Address address;
  std::unique_ptr<Actor> actor;
  bool mover = false;
  bool waits = false;
};

/// Everything that a dispatcher needs to run a troupe. Built by actors/wiring alone.
struct Troupe {
  std::vector<Member> members;  // by ascending address
  RouteTable routes;
  Address client;               // the party outside: frames for it go to the dispatcher's port
};

/// Whoever embeds a troupe: gets what is sent to the client. Called on the dispatcher's thread
/// (inline) or on one thread of its own (CAF); may post new messages from inside.
class ClientPort {
 public:
  virtual ~ClientPort() = default;
  virtual void on_frame(const Frame& frame) = 0;
};

/// Name of a kind, as in the schema ("stepDone").
std::string kind_name(Kind kind);

}  // namespace troupe
