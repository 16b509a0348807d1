# Residence: prefix_index owns what is true of a block; eviction and tiering change it only through here.
@0xc0a1b8a6f6d14e04;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::wire");

struct Ready { requests @0 :Data; }   # prefix_index -> scheduler: u64[n], those told to wait may come again

struct Reclaim {            # allocator -> eviction: `blocks` blocks (granules) of `tier` are wanted
  tier @0 :UInt8;
  blocks @1 :UInt32;
  ahead @2 :Bool;           # to refill the free reserve, nobody waits
}
struct Stage {              # prefix_index -> tiering: they lie on disk, and a request that is to come wants
  blocks @0 :List(Leaving); # them in host memory; matchable again after `settle`
}

struct Unlink {             # eviction -> prefix_index: ordered victims; each is checked after the ones before it
  tier @0 :UInt8;
  victims @1 :Data;         # u32[n]
  scores @2 :Data;          # i64[n] or empty
  rejectedByHost @3 :UInt32; # answers that the host of the policy refused before
  ahead @4 :Bool;           # as of the reclaim
}

struct Leaving {            # one block on its way out of `tier`
  block @0 :UInt32;
  alsoIn @1 :UInt8;         # residence mask without `tier`
  depth @2 :UInt32;
  tokens @3 :UInt32;
  uses @4 :UInt32;
  tenant @5 :UInt32;
  blockClass @6 :UInt8;
  key @7 :Data;             # content key, 32 bytes: a lower tier keeps it with the bytes
}
struct Unlinked {           # prefix_index -> tiering: still matchable; marked as moving until `settle`
  tier @0 :UInt8;
  blocks @1 :List(Leaving);
  refused @2 :UInt32;
  reclaim @3 :Bool;         # answers a reclaim; else blocks of a sequence that is swapped out
  ahead @4 :Bool;           # as of the reclaim
}

enum Outcome {
  unknown @0;
  dropped @1;               # left `from`, nothing gained
  moved @2;                 # left `from`, now in `to`
  copied @3;                # still in `from`, now also in `to`
  failed @4;                # still in `from` only; the copy in `to` is void
  lost @5;                  # the bytes in `from` do not verify: quarantined, gone with all that hang on it
}
struct Settlement {
  block @0 :UInt32;
  from @1 :UInt8;
  to @2 :UInt8;
  outcome @3 :Outcome;
}
struct Settle {             # tiering -> prefix_index
  items @0 :List(Settlement);
  tier @1 :UInt8;
  reclaim @2 :Bool;         # the last settlement of an `unlinked{reclaim}`: `released{reclaim}` follows from it
}

struct Release {
  block @0 :UInt32;
  tier @1 :UInt8;           # its slot there is free once no operation is in flight on it
  gone @2 :Bool;            # the block is no longer known to the index
  quarantine @3 :Bool;      # the slot is not to be used again
  kept @4 :Bool;            # nothing to free: only the operation on the block's slots has ended
}
struct Released {           # prefix_index -> allocator
  items @0 :List(Release);
  tier @1 :UInt8;           # the reclaim that this answers
  reclaim @2 :Bool;         # true: an answer to `reclaim` (items may be empty: nothing was evictable)
  commit @3 :UInt64;        # last commit whose `publish` it knows of; a block named later is not meant
}

enum PurgeScope { none @0; tenant @1; domain @2; prefix @3; all @4; }
