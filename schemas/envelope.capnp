# The one message type. The dispatcher's header (from, to, sequence, cause, tick) lies beside it, see
# runtime/core/frame.h. Which actor may send which kind to whom: actors/routes_table.cc.
@0xc0a1b8a6f6d14e0a;
using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::wire");
using R = import "request.capnp";
using B = import "block.capnp";
using P = import "prefix.capnp";
using Y = import "policy.capnp";
using T = import "transfer.capnp";
using C = import "control.capnp";

struct Message {
  union {
    invalid @0 :Void;
    # a request in and out
    submit @1 :R.Submit;
    admit @2 :R.Admit;
    queued @3 :R.Queued;
    reply @4 :R.Reply;
    cancel @5 :R.Cancel;
    trim @6 :R.Trim;
    # the step, in the order it travels
    match @7 :B.Step;
    load @8 :B.Step;
    reserve @9 :B.Step;
    run @10 :B.Run;
    plan @11 :B.Run;
    stepDone @12 :B.StepDone;
    short @13 :B.Short;
    commit @14 :B.Commit;
    publish @15 :B.Commit;
    folded @16 :B.Folded;
    ready @17 :P.Ready;
    # making room
    reclaim @18 :P.Reclaim;
    events @19 :Y.EventBatch;
    ask @20 :Y.Ask;
    victims @21 :Y.Victims;
    unlink @22 :P.Unlink;
    unlinked @23 :P.Unlinked;
    settle @24 :P.Settle;
    released @25 :P.Released;
    # moving bytes
    place @26 :T.Place;
    placed @27 :T.Placed;
    transfer @28 :T.Transfer;
    transferDone @29 :T.TransferDone;
    # policies and control
    swapPolicy @30 :Y.SwapPolicy;
    order @31 :Y.Order;
    ordered @32 :Y.Ordered;
    control @33 :C.Control;
    answer @34 :C.Answer;
    statusAsk @35 :C.StatusAsk;
    purge @36 :C.Purge;
    drain @37 :C.DrainAsk;
    wakeAt @38 :C.WakeAt;
    wake @39 :C.Wake;
    advance @40 :C.Advance;
    held @41 :B.Held;
    accepted @42 :R.Accepted;
    # changing policies, and those that only watch
    takeOver @43 :Y.TakeOver;
    rollback @44 :Y.Rollback;
    policyChanged @45 :Y.PolicyChanged;
    shadow @46 :Y.Shadow;
    promote @47 :Y.Promote;
    lookup @48 :Y.Lookup;
    lookupsSeen @49 :Y.LookupsSeen;
    watch @50 :Y.Watch;
    stage @51 :P.Stage;
  }
}
