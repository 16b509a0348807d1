# A saved actor: its bytes are the core's own, versioned by the core.
@0xc0a1b8a6f6d14e09;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::wire");

struct Snapshot {
  version @0 :UInt16 = 1;
  actor @1 :Text;
  stateSchema @2 :UInt32;
  state @3 :Data;
  digest @4 :UInt64;
  tick @5 :Int64;
}
