# Operator's messages: client -> director -> one actor -> director -> client. Every command gets one answer.
@0xc0a1b8a6f6d14e07;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::wire");
using Prefix = import "prefix.capnp";
using Policy = import "policy.capnp";

struct Control {
  control @0 :UInt64;       # the caller's number
  version @1 :UInt16 = 1;
  union {
    invalid @2 :Void;
    status @3 :Void;
    purge @4 :Purge;
    swapPolicy @5 :SwapRequest;
    drain @6 :Void;         # admit nothing more; answered when the last request has ended
    rollback @7 :Policy.Rollback;
    shadow @8 :Policy.Shadow;
    promote @9 :Policy.Promote;
    policies @10 :Void;     # as status, of the policy slots and the understudies alone
  }
}
struct Purge {              # over all tiers, with a receipt
  scope @0 :Prefix.PurgeScope;
  id @1 :UInt64;            # tenant or domain
  keys @2 :Data;            # scope prefix: 32-byte keys of the path
  control @3 :UInt64;
}
struct SwapRequest {
  slot @0 :UInt16;          # instance of policy_slot
  swap @1 :Policy.SwapPolicy;
}
struct Gauge { name @0 :Text; value @1 :Int64; }
struct Answer {             # actor -> director, director -> client
  control @0 :UInt64;
  status @1 :UInt16;        # runtime/base Code
  text @2 :Text;
  gauges @3 :List(Gauge);   # status: counters of the actor; purge: receipt
  actor @4 :UInt16;
}
struct StatusAsk { control @0 :UInt64; }
struct DrainAsk { control @0 :UInt64; }

struct WakeAt { tick @0 :Int64; cookie @1 :UInt64; }   # scheduler, tiering -> clock
struct Wake { tick @0 :Int64; cookie @1 :UInt64; }
struct Advance { tick @0 :Int64; }                     # client -> clock: virtual time moves on
