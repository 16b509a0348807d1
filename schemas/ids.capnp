# Shared words of all messages. Bulk arrays are Data of little-endian fixed-width integers, word-aligned in
# the frame, so that a reader takes them as a span without decoding: "u32[n]" below means Data of 4*n bytes.
# Rules for every schema here: fields are only appended; ordinal 0 of every union is `invalid`; one flat
# segment a message, every list set once. Block ids are dense handles; kNone (2^32-1) means none.
@0xc0a1b8a6f6d14e01;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::wire");

enum Refusal {
  none @0;
  invalidRequest @1;   # a field is out of its range
  tooLong @2;          # prompt + new tokens need more blocks than the device tier has
  queueFull @3;        # credits are used up
  draining @4;         # shutting down
  unknownRequest @5;
  notAllowed @6;
  unsupported @7;      # a version or feature that this build does not know
  duplicateTicket @8;  # the ticket is live: this is the answer to the second submit, not to the first
}

enum Ending {          # why a sequence's table is given back
  running @0;          # not at all: the row only seals blocks
  finished @1;
  cancelled @2;
  preemptRecompute @3; # comes back, computes again what was evicted meanwhile
  preemptSwap @4;      # comes back; its blocks are demoted first, so that it loads instead
  failedLoad @5;       # a load below it did not verify: matched again
  expired @6;          # its deadline passed
}

struct SlotRef {       # a run of granules in one tier
  first @0 :UInt32;
  count @1 :UInt32;
  generation @2 :UInt32;
  tier @3 :UInt8;
}
