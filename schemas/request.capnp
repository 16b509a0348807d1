# A request's way in and out: client -> gateway -> prefix_index -> scheduler, and the one terminal reply.
@0xc0a1b8a6f6d14e02;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::wire");
using Ids = import "ids.capnp";

struct Spec {
  # What a client wants computed. Keys and the token permutation are the ingress port's work, done
  # before the first recorded message; no core hashes content.
  ticket @0 :UInt64;        # the client's own number, unique among its live requests
  tenant @1 :UInt32;        # from the authenticated connection, never chosen by the client
  domain @2 :UInt32;        # isolation domain that the keys were made for
  session @3 :UInt64;
  priority @4 :Int32;       # higher first
  promptTokens @5 :UInt32;
  maxNewTokens @6 :UInt32;
  tokens @7 :Data;          # u32[promptTokens]; empty with opaque keys
  keys @8 :Data;            # 32 bytes a block: full blocks, then the partial one when sealPartial
  opaque @9 :Bool;          # keys are the engine's own, there are no tokens to compare; without any key
                            #   the request is neither matched nor published
  sealPartial @10 :Bool;    # the prompt's last, partial block is a block of its own (a trace lists it)
  promptOnly @11 :Bool;     # ends after the prompt's last chunk; nothing is generated
  arrival @12 :Int64;       # tick
  deadline @13 :Int64;      # tick by which it must have ended; 0: none
  parent @14 :UInt64;       # request whose table is forked (live), 0: none
  blockClass @15 :UInt8;    # layer group and format: index of the size class
  rope @16 :UInt8;          # 0: keys are cached after RoPE at their own position; 1: before RoPE
  ropeOffset @17 :UInt32;   # position of the first token
  contentHashes @18 :Data;  # second, position-independent hash of each block, 16 bytes each; may be empty
  hints @19 :UInt32;        # bit set, see hint constants below
  version @20 :UInt16 = 1;
}
const hintPin :UInt32 = 1;
const hintSupersede :UInt32 = 2;   # the earlier suffix of this session is no longer wanted
const hintPause :UInt32 = 4;       # the session pauses after this request (a tool call)

struct Submit {
  spec @0 :Spec;
}

struct Admit {              # gateway -> prefix_index: admitted under a request id
  request @0 :UInt64;
  spec @1 :Spec;
}

struct Queued {             # prefix_index -> scheduler: tokens stay behind, in the index
  request @0 :UInt64;
  tenant @1 :UInt32;
  priority @2 :Int32;
  promptTokens @3 :UInt32;
  maxNewTokens @4 :UInt32;
  probeTokens @5 :UInt32;   # matched at admission, nothing pinned: a hint for ordering only
  arrival @6 :Int64;
  deadline @7 :Int64;
  parent @8 :UInt64;
  blockClass @9 :UInt8;
  promptOnly @10 :Bool;
  session @11 :UInt64;
  sealPartial @12 :Bool;
}

struct Usage {              # what one request took; all counts exact
  promptTokens @0 :UInt32;
  listedBlocks @1 :UInt32;  # blocks of the prompt that the lookup asked for
  hitBlocks @2 :UInt32;     # leading run resident at the first lookup, the last, partial one included
  hitTokens @3 :UInt32;     # tokens of those blocks
  reusedTokens @4 :UInt32;  # hitTokens and the copied partial tail, less the one token always computed
  partialTokens @5 :UInt32; # matched within a block and copied on write
  loadedBlocks @6 :UInt32;  # of hitBlocks, those that came from a lower tier
  computedTokens @7 :UInt32;
  generatedTokens @8 :UInt32;
  preemptions @9 :UInt32;
  arrival @10 :Int64;
  scheduled @11 :Int64;     # tick of the first step
  firstToken @12 :Int64;
  ended @13 :Int64;
}

struct Accepted {           # gateway -> client, before any plan names the request
  ticket @0 :UInt64;
  request @1 :UInt64;
}

struct Reply {              # scheduler -> gateway -> client: exactly one a request
  ticket @0 :UInt64;
  request @1 :UInt64;
  ending @2 :Ids.Ending;
  refusal @3 :Ids.Refusal;
  value @4 :UInt64;         # of a refusal: the value that was refused
  limit @5 :UInt64;         # of a refusal: the limit it broke
  usage @6 :Usage;
}

struct Cancel { ticket @0 :UInt64; request @1 :UInt64; }   # client -> gateway -> scheduler
struct Trim {               # the last n generated tokens are withdrawn (rejected draft tokens)
  ticket @0 :UInt64;
  request @1 :UInt64;
  tokens @2 :UInt32;
}
