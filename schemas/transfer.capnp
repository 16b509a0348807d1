# Movement of bytes between tiers. tiering owns transfers; allocator owns both ends' slots.
@0xc0a1b8a6f6d14e06;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::wire");
using Block = import "block.capnp";

struct Place {              # tiering -> allocator: these blocks want a slot in `to`
  to @0 :UInt8;
  from @1 :UInt8;
  blocks @2 :Data;          # u32[n]
}
struct Placed {             # allocator -> tiering: in the same order; target.count 0: no room, it is dropped
  to @0 :UInt8;
  from @1 :UInt8;
  copies @2 :List(Block.Copy);
}
struct Transfer { copies @0 :List(Block.Copy); }   # tiering -> host_mover / disk_mover
struct TransferResult {
  id @0 :UInt64;
  block @1 :UInt32;
  status @2 :UInt16;        # runtime/base Code; 0: done
  checksum @3 :UInt64;      # of the bytes that were moved
  bytes @4 :UInt32;
  from @5 :UInt8;
  to @6 :UInt8;
  nanos @7 :UInt64;         # time it took, as measured by the mover: input to load-or-recompute
}
struct TransferDone { results @0 :List(TransferResult); }  # mover -> tiering; and device_stream -> tiering for loads
