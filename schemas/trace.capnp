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
  recording @10 :UInt64;    # random; the same in all lanes of one recording
  edge @11 :Bool;           # the client or a mover: recorded for reference, not replayed
  mode @12 :UInt8;          # 1 full; 2 edges: payloads of messages from edge actors only
  digestEvery @13 :UInt32;  # steps between two state digests; 0: none
}
struct PluginHash { name @0 :Text; sha256 @1 :Data; }
