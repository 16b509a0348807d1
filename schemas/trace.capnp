# Header of a lane segment. The records behind it are framed by runtime/trace; see there.
@0xc0a1b8a6f6d14e08;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::wire");

struct LaneHeader {
  version @0 :UInt16 = 1;
  buildId @1 :Text;
  schemaId @2 :UInt64;      # id of Message in envelope.capnp
  config @3 :Text;          # effective configuration
  seed @4 :UInt64;
  actor @5 :Text;
  address @6 :UInt16;
  segment @7 :UInt32;
  plugins @8 :List(PluginHash);
  permuted @9 :Bool;        # token values are under a permutation drawn for this recording
}
struct PluginHash { name @0 :Text; sha256 @1 :Data; }
