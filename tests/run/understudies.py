#!/usr/bin/env python3
"""Understudies against the lab: what `troupe run` says that a policy would have hit is what
`troupe lab` counts for it.

    tests/run/understudies.py build/release/bin/troupe ../shared/traces [--limit N]

Serial runs: equal, hit for hit, to a lab run over the same trace, and at a stop in the middle to
one over as much of it. Concurrent runs on both dispatchers: equal to a lab run over the lookups
which that run wrote down. Capacity understudies on a sample of the sessions: within 1 point of full
lab runs, wherever the sample has at least 30 sessions or first blocks. Exit 1 when one differs.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

POLICIES = ["vllm_lru", "leaf_lru", "s3fifo_leaf", "sieve_leaf", "leaf_gdsf", "wtinylfu", "lirs",
            "troupe"]


def run(troupe, trace, scratch, at, more=()):
    out = os.path.join(scratch, "run.json")
    command = [troupe, "run", "--trace", trace, "--prompt-only", "--speed", "max", "--json", out]
    for text in at:
        command += ["--at", text]
    subprocess.run(command + list(more), check=True, stdout=subprocess.DEVNULL, timeout=1800)
    with open(out) as file:
        return json.load(file)


def lab(troupe, trace, scratch, policies, blocks, limit=0):
    out = os.path.join(scratch, "lab.json")
    command = [troupe, "lab", "--trace", trace, "--policy", ",".join(policies), "--size",
               ",".join(str(b) for b in blocks), "--json", out, "--no-serving"]
    command += ["--requests", str(limit)] if limit else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=1800)
    with open(out) as file:
        return {(r["policy"], r["size_blocks"]): r for r in json.load(file)["results"]}


def figure(gauges, name, what):
    return gauges.get(f"understudy.{name}.{what}")


def compare(label, gauges, expected, blocks):
    wrong = 0
    for policy in POLICIES:
        want = expected[(policy, blocks)]
        got = (figure(gauges, policy, "accesses"), figure(gauges, policy, "hits"))
        if got != (want["accesses"], want["hits"]):
            print(f"  DIFFERS {label} {policy}: understudy {got}, "
                  f"lab {(want['accesses'], want['hits'])}")
            wrong += 1
    return wrong


def capacities(troupe, trace, scratch, blocks, one_in):
    sizes = [blocks // 2, blocks, 2 * blocks, 4 * blocks]
    at = [f"0=shadow c{s}=vllm_lru blocks={s} one-in={one_in}" for s in sizes]
    got = run(troupe, trace, scratch, at, ["--serial", "--device-blocks", "40000"])["gauges"]
    want = lab(troupe, trace, scratch, ["vllm_lru"], sizes)
    row = []
    for size in sizes:
        accesses = figure(got, f"c{size}", "accesses")
        estimate = 100 * figure(got, f"c{size}", "hits") / max(1, accesses)
        full = want[("vllm_lru", size)]
        row.append((size, estimate, 100 * full["hits"] / full["accesses"],
                    figure(got, f"c{size}", "lookups")))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("troupe")
    parser.add_argument("traces")
    parser.add_argument("--limit", type=int, default=0, help="requests of each trace; 0: all")
    parser.add_argument("--one-in", type=int, default=4)
    args = parser.parse_args()
    wrong = runs = 0
    for trace in sorted(glob.glob(os.path.join(args.traces, "*.jsonl*"))):
        with tempfile.TemporaryDirectory() as scratch:
            limit = ["--limit", str(args.limit)] if args.limit else []
            unique = lab(args.troupe, trace, scratch, ["vllm_lru"], ["10%"], args.limit)
            blocks = next(iter(unique))[1]
            # Every request fits the device tier: one that is refused looks nothing up.
            device = ["--device-blocks", str(max(blocks, 40000))]
            shadows = [f"0=shadow {p}={p} blocks={blocks}" for p in POLICIES]
            whole = lab(args.troupe, trace, scratch, POLICIES, [blocks], args.limit)
            requests = run(args.troupe, trace, scratch, shadows + ["200=policies"],
                           ["--serial", *device, *limit])
            name = os.path.basename(trace)
            runs += 2 * len(POLICIES)
            wrong += compare(name + " serial", requests["gauges"], whole, blocks)
            middle = requests["policies"]["commands"][-1]
            wrong += compare(name + " after 200", middle["gauges"],
                             lab(args.troupe, trace, scratch, POLICIES, [blocks], 200), blocks)
            for dispatcher in ("inline", "caf"):
                log = os.path.join(scratch, "lookups.jsonl")
                got = run(args.troupe, trace, scratch, shadows,
                          ["--dispatcher", dispatcher, "--lookup-log", log, *device, *limit])
                runs += len(POLICIES)
                wrong += compare(f"{name} {dispatcher}", got["gauges"],
                                 lab(args.troupe, log, scratch, POLICIES, [blocks]), blocks)
            row = [] if args.limit else capacities(args.troupe, trace, scratch, blocks, args.one_in)
            print(f"{name}: {blocks} blocks; " + "  ".join(
                f"{size}: {estimate:.1f} against {full:.1f} ({lookups} lookups)"
                for size, estimate, full, lookups in row), flush=True)
    print(f"{runs} understudies compared, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
