#!/usr/bin/env python3
"""Policies that take turns under full load, many thousand times.

    tests/run/swaps.py build/release/bin/troupe [--swaps 10000] [--large 100]

A generated workload with a device tier under pressure; eviction policies take turns by message while
requests run (CAF dispatcher, requests as fast as credits allow). Wanted: as many swaps in which the
policy that left had decided at least one eviction; none failed; every request answered once; no
wrong byte; resident memory grows by less than 1 MiB in 1,000 swaps. Then the same at 1,000,000
blocks. Then the hit ratio: around a swap in the middle of a serial run it must not lie more than 0.5
points below the lower of the two policies alone. Prints the figures; exit 1 when one is missed.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time

TURNS = ["s3fifo_leaf", "vllm_lru", "troupe", "sieve_leaf", "leaf_gdsf", "lirs", "leaf_lru", "arc"]


def rss_kib(pid):
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def run(troupe, scratch, trace, blocks, more, sample=None):
    out = os.path.join(scratch, "run.json")
    config = os.path.join(scratch, "run.toml")
    with open(config, "w") as file:
        file.write("[tiers]\nreal_block_bytes = 1024\n")
    command = [troupe, "run", "--config", config, "--trace", trace, "--speed", "max",
               "--device-blocks", str(blocks), "--json", out] + more
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if sample is not None:
                sample.append((time.monotonic(), rss_kib(process.pid)))
            time.sleep(0.2)
    if process.returncode != 0:
        sys.exit(f"swaps.py: {' '.join(command)} ended with {process.returncode}")
    with open(out) as file:
        return json.load(file)


def judge(report, wanted):
    p = report["policies"]
    decided = p["changes"] - p["changes_undecided"]
    print(f"  {report['swaps']} swaps, {report['swaps_failed']} failed, in {decided} the policy "
          f"that left had decided; {report['completed']} of {report['requests']} requests "
          f"completed, {report['mismatches']} mismatches")
    print(f"  control time of a step [us]: all p50 {report['control_us_per_step']['p50']:.0f} p99 "
          f"{report['control_us_per_step']['p99']:.0f}, while a policy changed p50 "
          f"{report['control_us_per_step_changing']['p50']:.0f} p99 "
          f"{report['control_us_per_step_changing']['p99']:.0f}; a swap takes p50 "
          f"{report['swap_us']['p50'] / 1e3:.1f} p99 {report['swap_us']['p99'] / 1e3:.1f} ms")
    good = (decided >= wanted and report["swaps_failed"] == 0 and report["mismatches"] == 0
            and report["completed"] == report["requests"])
    if not good:
        print(f"  MISSED: {wanted} deciding swaps wanted")
    return good


def growth(samples, swaps):
    """MiB of resident memory a thousand swaps, over the second half of the run."""
    tail = samples[len(samples) // 2:-5]  # at the end it gives everything back
    early = min(r for _, r in tail[:max(1, len(tail) // 4)])
    late = min(r for _, r in tail[-max(1, len(tail) // 4):])
    return (late - early) / 1024 / (0.5 * swaps / 1000)


def hit_ratio(troupe, scratch, trace, blocks):
    """Worst lead [points] over the lower of both alone, in the 2,000 requests after a swap."""
    middle, after = 2000, 4000
    fixed = ["--serial", "--prompt-only"]

    def hits(policy, limit, at=()):
        r = run(troupe, scratch, trace, blocks, fixed + ["--policy", policy, "--limit", str(limit),
                                                         *at])
        return r["prefix_hit_blocks"], r["prefix_query_blocks"]

    alone = {}
    for policy in TURNS[:4]:
        early, late = hits(policy, middle), hits(policy, after)
        alone[policy] = (early, 100 * (late[0] - early[0]) / (late[1] - early[1]))
    worst = 100.0
    for old, new in itertools.permutations(alone, 2):
        late = hits(old, after, ["--at", f"{middle}=swap {new}"])
        early = alone[old][0]
        ratio = 100 * (late[0] - early[0]) / (late[1] - early[1])
        lead = ratio - min(alone[old][1], alone[new][1])
        worst = min(worst, lead)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("troupe")
    parser.add_argument("--swaps", type=int, default=10000)
    parser.add_argument("--large", type=int, default=100, help="swaps at 1,000,000 blocks; 0: none")
    args = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        trace = os.path.join(scratch, "load.jsonl")
        sessions = max(100, args.swaps * 2 // 5)  # of some 50 requests each
        subprocess.run([args.troupe, "gen", "--sessions", str(sessions), "--session-input", "40000",
                        "--sessions-per-s", "50", "--out", trace], check=True,
                       stdout=subprocess.DEVNULL)
        turns = ["--swap", ",".join(TURNS), "--swap-every", "2", "--dispatcher", "caf"]
        samples = []
        print("8000 blocks, a swap every 2 replies or as soon as the one before is done")
        report = run(args.troupe, scratch, trace, 8000, turns, samples)
        good = judge(report, args.swaps) and good
        mib = growth(samples, report["swaps"])
        print(f"  resident memory grows by {mib:.2f} MiB in 1,000 swaps")
        good = good and mib < 1
        lead = hit_ratio(args.troupe, scratch, trace, 4000)
        print(f"hit ratio after a swap, worst of 12 pairs: {lead:+.2f} points of the lower alone")
        good = good and lead >= -0.5
        if args.large:
            big = os.path.join(scratch, "big.jsonl")
            subprocess.run([args.troupe, "gen", "--sessions", "1500", "--documents", "20000",
                            "--document-tokens", "2000", "--documents-per-session", "8",
                            "--turns", "8", "--session-input", "200000", "--sessions-per-s", "50",
                            "--out", big], check=True, stdout=subprocess.DEVNULL)
            print("1,000,000 blocks")
            report = run(args.troupe, scratch, big, 1000000,
                         ["--swap", ",".join(TURNS), "--swap-every", "20", "--dispatcher", "caf"])
            resident = report["gauges"]["policy_slot.device.resident"]
            print(f"  {resident} blocks resident at the end")
            good = judge(report, 0) and report["swaps"] >= args.large and good
    print("all as wanted" if good else "MISSED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
