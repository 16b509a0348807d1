# A policy slot's inbox: event batches and questions, sent by one actor alone, so that their order is one lane.
@0xc0a1b8a6f6d14e05;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::wire");

enum EventKind {
  invalid @0;
  insert @1;     # block, parent, depth, tenant, tokens
  hit @2;        # a lookup used the block; it may not be evicted until `release`
  release @3;    # that use ended; deepest first
  remove @4;     # left the tier
  refused @5;    # named as a victim, but may not go now
  promoted @6;   # came up from a lower tier
  demoted @7;    # came down from a higher tier
  pause @8;      # aux: session; returns at `at`
  resume @9;
  supersede @10;
}

struct Events {             # prefix_index -> eviction -> policy_slot; one batch a lookup, publish or release
  request @0 :UInt64;       # request ordinal (admission order)
  session @1 :UInt64;
  tier @2 :UInt8;
  kind @3 :EventKind;
  blocks @4 :Data;          # u32[n]
  parents @5 :Data;         # insert: u32[n]
  depths @6 :Data;          # insert: u32[n], a root's is 0
  tokens @7 :Data;          # insert: u32[n], tokens in the block
  tenant @8 :UInt32;
  bytes @9 :UInt64;         # of one block
  hints @10 :UInt32;
  at @11 :Int64;            # pause: expected return, tick
  keys @12 :Data;           # insert: u64[n], the first 8 bytes of the content key; outlives the block
}
struct EventBatch { batches @0 :List(Events); }

struct Ask {                # eviction -> policy_slot: an ordered list of victims
  tier @0 :UInt8;
  blocks @1 :UInt32;
  question @2 :UInt64;
}
struct Victims {            # policy_slot -> eviction
  tier @0 :UInt8;
  question @1 :UInt64;
  victims @2 :Data;         # u32[n], at most blocks unless the policy may over-evict
  scores @3 :Data;          # i64[n] or empty
  rejected @4 :UInt32;      # of the policy's answer: unknown, duplicate or in use, dropped by the host
}

struct SwapPolicy {         # director -> policy_loader -> policy_slot; understudies -> policy_loader: a promotion
  control @0 :UInt64;
  name @1 :Text;            # of a registered policy
  digest @2 :Data;          # of the library, 32 bytes; empty for built-ins
  params @3 :Text;
  generation @4 :UInt64;    # compare-and-set: the generation that the sender knows; 0: any
  slot @5 :UInt16;          # instance of policy_slot
}
struct TakeOver {           # policy_slot -> itself: one more range of blocks goes to the policy that comes
  generation @0 :UInt64;    # that will be replaced
}
struct Rollback {           # director -> policy_slot: back to the policy before
  control @0 :UInt64;
  slot @1 :UInt16;
}
struct PolicyChanged {      # policy_slot -> director -> client: another policy decides from here on
  slot @0 :UInt16;
  from @1 :Text;
  to @2 :Text;
  params @3 :Text;
  generation @4 :UInt64;    # from here on
  resident @5 :UInt64;      # blocks; a change leaves them as they are
  cause @6 :Cause;
  why @7 :Text;             # rollback by the slot and demotion: what the policy did
  decided @8 :UInt64;       # victims that the one before named, since it came
  enum Cause { invalid @0; swap @1; rollback @2; failing @3; }
}

struct Lookup {             # prefix_index -> understudies: what one request asked of the cache
  request @0 :UInt64;
  session @1 :UInt64;
  tenant @2 :UInt32;
  blockTokens @3 :UInt32;
  keys @4 :Data;            # u64[n], first 8 bytes of the content keys, root first
  skipped @5 :UInt64;       # lookups not told since the one before, because too many were unread
}
struct LookupsSeen { count @0 :UInt64; }  # understudies -> prefix_index: read since the last one
struct Watch { on @0 :Bool; }             # understudies -> prefix_index: tell of lookups, or no more

struct Shadow {             # director -> understudies: one more, or one less
  control @0 :UInt64;
  name @1 :Text;            # of the understudy
  policy @2 :Text;
  params @3 :Text;
  blocks @4 :UInt64;        # of its ghost cache; 0: as many as the device tier
  oneIn @5 :UInt32;         # follows the sessions whose hash falls in one of so many; 0, 1: all
  remove @6 :Bool;
}
struct Promote {            # director -> understudies: its policy takes a slot over
  control @0 :UInt64;
  name @1 :Text;
  slot @2 :UInt16;
}

struct Order {              # scheduler -> scheduling slot: which of the queue first
  question @0 :UInt64;
  rows @1 :List(OrderRow);
}
struct OrderRow {
  request @0 :UInt64;
  tenant @1 :UInt32;
  priority @2 :Int32;
  arrival @3 :Int64;
  remaining @4 :UInt32;     # tokens still to compute, less those probed as cached
  probe @5 :UInt32;         # tokens cached at admission, own domain only
}
struct Ordered { question @0 :UInt64; requests @1 :Data; }  # u64[n], a permutation of the rows
