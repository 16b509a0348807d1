# The step: a batch that travels a line, one hop each. Rows of running sequences ride along untouched.
#   with new rows:  scheduler -match-> prefix_index -load-> tiering -reserve-> allocator -run-> device_stream -plan-> client
#   decode only:    scheduler -reserve-> allocator -run-> device_stream -plan-> client -stepDone-> scheduler
@0xc0a1b8a6f6d14e03;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::wire");
using Ids = import "ids.capnp";

struct RunRow {             # a sequence that already has its table
  request @0 :UInt64;
  sequence @1 :UInt32;      # dense handle below max_running, given by the scheduler
  before @2 :UInt32;        # tokens in the table before this step
  tokens @3 :UInt32;        # tokens that this step computes
}

struct NewRow {             # a sequence that enters with this step
  request @0 :UInt64;
  sequence @1 :UInt32;
  budget @2 :UInt32;        # tokens that this step may compute for it
  total @3 :UInt32;         # tokens to reserve for: the prompt, and after a preemption what was generated
  force @4 :Bool;           # waited long enough: take what is there, wait for nobody
  blockClass @5 :UInt8;
  parent @6 :UInt32;        # sequence to fork, 2^32-1: none
  # filled in by prefix_index, lowered by tiering:
  hitBlocks @7 :UInt32;     # leading blocks, found in `blocks` from `offset`
  hitTokens @8 :UInt32;
  deviceBlocks @9 :UInt32; # of these, leading ones already on the device; the rest must be loaded
  offset @10 :UInt32;
  partialSource @11 :UInt32; # block to copy on write, 2^32-1: none; it is leased until stepDone
  partialTokens @12 :UInt32;
  tokens @13 :UInt32;       # tokens that this step computes: min(budget, total - what is cached), at least 1
  listedBlocks @14 :UInt32;
  lastPartial @15 :UInt32;  # tokens in the last hit block when it is not full, else 0
  forkTokens @16 :UInt32;   # with `parent`: leading tokens that both requests have in common, as prefix_index compared them
  keyOffset @17 :UInt32;    # in Step.keys: the content keys of blocks deviceBlocks .. hitBlocks, as prefix_index found them
}
struct Step {               # match, load, reserve: the same batch on its way
  step @0 :UInt64;
  rows @1 :List(RunRow);
  news @2 :List(NewRow);
  blocks @3 :Data;          # u32: block ids of all new rows, concatenated
  commits @4 :UInt64;       # number of the last commit before this step: a lookup waits for its `publish`
  keys @5 :Data;            # 32 bytes each: content keys of what lies lower, so that what is loaded proves itself
  tiers @6 :Data;           # u8 beside `keys`: the uppermost tier in which each of them lies
}

struct Copy {               # one block's bytes; checksum 0: not known yet, computed on the way
  id @0 :UInt64;            # transfer id, or the row's index for copies inside a step
  block @1 :UInt32;
  source @2 :Ids.SlotRef;
  target @3 :Ids.SlotRef;
  bytes @4 :UInt32;         # 0: the whole block
  checksum @5 :UInt64;
  row @6 :UInt32;           # index in Run.rows of the row that needs it
  key @7 :Data;             # content key, 32 bytes; empty for copies inside the device
}

struct PlanRow {
  request @0 :UInt64;
  sequence @1 :UInt32;
  before @2 :UInt32;        # tokens valid in the table before the step
  tokens @3 :UInt32;        # tokens to compute
  firstBlock @4 :UInt32;    # index in the table of slots[offset]
  offset @5 :UInt32;        # slots that the engine learns with this step: its whole table at entry,
  count @6 :UInt32;         #   later only what was appended or replaced by copy on write
  hitBlocks @7 :UInt32;     # of these, leading ones whose bytes are reused
  failed @8 :Bool;          # a load did not verify: do not compute, report it in stepDone
  entered @9 :Bool;         # first step of this sequence (since admission or preemption)
  partialTokens @10 :UInt32; # tokens copied on write into the block after the hits
}

struct Run {                # allocator -> device_stream; then `plan` to the client, loads and copies done
  step @0 :UInt64;
  rows @1 :List(PlanRow);
  loads @2 :List(Copy);     # lower tier -> device, verified
  cows @3 :List(Copy);      # device -> device, after the loads
  slots @4 :Data;           # u32: first granules, concatenated for all rows
  blocks @5 :Data;          # u32: block ids beside them
}

struct DoneRow {
  request @0 :UInt64;
  sequence @1 :UInt32;
  computed @2 :UInt32;
  generated @3 :UInt32;     # 0 or 1 and more (draft tokens accepted)
  failed @4 :Bool;
  stop @5 :Bool;            # the engine ends it here (end-of-sequence token)
  keys @6 :UInt32;          # keys of blocks that the generated tokens complete, in `keys` in row order; with the
                            #   last row of a request one more for a partial tail, if the engine wants it published
  before @7 :UInt32;        # tokens that were valid before the step, as the plan said
}
struct StepDone {           # client -> scheduler
  step @0 :UInt64;
  rows @1 :List(DoneRow);
  tokens @2 :Data;          # u32: generated tokens, concatenated in row order
  keys @3 :Data;            # 32 bytes each
}

struct Held {               # prefix_index -> scheduler: these new rows left the step before it went on
  step @0 :UInt64;
  waiting @1 :Data;         # u64[n] requests: another request computes or moves what they need; `ready` follows
  gone @2 :Data;            # u64[n] requests not known (any more)
  stepEmpty @3 :Bool;       # nothing else was in the step, so it ends here
}

struct Short {              # allocator -> scheduler: device slots are short even after reclaiming
  step @0 :UInt64;
  missing @1 :UInt32;       # granules missing for the first row that did not fit
  dropped @2 :Data;         # u64[n] requests of new rows that were left out; each fits wholly or not at all
  cancelled @3 :Bool;       # the running rows themselves do not fit: nothing was reserved, the step ends here
}

struct CommitRow {
  request @0 :UInt64;
  sequence @1 :UInt32;
  sealed @2 :UInt32;        # tokens whose blocks may be published now (valid bytes end here)
  ending @3 :Ids.Ending;
  newTokens @4 :UInt32;     # generated tokens that ride along, in `tokens` in row order
  newKeys @5 :UInt32;       # keys of the blocks that they complete (and of a partial tail at the end); they follow
                            #   the keys of the full blocks known so far, a partial tail's key is replaced
  blocks @6 :UInt32;        # filled in by the allocator: ids of the newly sealed blocks, in `blocks`
  firstBlock @7 :UInt32;    # index in the table of the first of them
  lastTokens @8 :UInt32;    # tokens in the last of them (less than block_tokens: a partial block)
  reply @9 :Bool;           # the terminal reply waits at the end of this line
}
struct Commit {             # scheduler -commit-> allocator -publish-> prefix_index (-folded-> allocator)
  step @0 :UInt64;
  rows @1 :List(CommitRow);
  tokens @2 :Data;          # u32
  keys @3 :Data;            # 32 bytes each
  blocks @4 :Data;          # u32
  replies @5 :List(import "request.capnp".Reply); # for rows with `reply`, in row order
  number @6 :UInt64;        # 1, 2, 3 …: commits overtake no `match`, although they travel one hop more
}

struct Fold {               # a block that was published before under the same key
  request @0 :UInt64;
  sequence @1 :UInt32;
  index @2 :UInt32;         # place in the table
  duplicate @3 :UInt32;     # to be freed
  canonical @4 :UInt32;     # to stand there instead; none: it was not accepted and stays private
}
struct Folded {
  folds @0 :List(Fold);
  commit @1 :UInt64;        # the commit that named the duplicates; a handle given out since is another block
}
