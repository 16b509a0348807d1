#!/usr/bin/env python3
"""Every public trace at every size through `troupe run`, beside the reference LRU.

One request at a time, listed blocks only, one tier: prefix hits and evictions must equal
`vllm_lru` of expected_dev.json wherever every request fits, both dispatchers must end with the same
digests, every request must get its reply, and no reused byte may be wrong. CI runs the same
comparison at the sizes that take a minute (run_traces_test); this takes some thirty.

    tests/run/against_reference.py build/release/bin/troupe ../shared/traces [--only NAME] [--dispatchers inline,caf]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

FRACTIONS = (0.01, 0.03, 0.1, 0.3)


def run(troupe, trace, blocks, dispatcher):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "report.json")
        command = [troupe, "run", "--trace", trace, "--serial", "--prompt-only", "--device-blocks",
                   str(blocks), "--host-blocks", "0", "--disk-blocks", "0", "--dispatcher",
                   dispatcher, "--json", out]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return None, done.stderr.strip().splitlines()[-1:] or done.stdout[-300:]
        with open(out) as file:
            return json.load(file), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("troupe")
    parser.add_argument("traces")
    parser.add_argument("--only", default="")
    parser.add_argument("--dispatchers", default="inline,caf")
    args = parser.parse_args()
    with open(os.path.join(args.traces, "expected_dev.json")) as file:
        expected = json.load(file)
    bad = 0
    for name, facts in expected["traces"].items():
        if args.only and name != args.only:
            continue
        trace = os.path.join(args.traces, os.path.basename(facts["file"]))
        for row in expected["prefix"]:
            if row["trace"] != name or row["policy"] != "vllm_lru" or row["frac"] not in FRACTIONS:
                continue
            digests = []
            for dispatcher in args.dispatchers.split(","):
                report, error = run(args.troupe, trace, row["size"], dispatcher)
                label = f"{name:18} {row['frac']:<5} {row['size']:>7} blocks {dispatcher:7}"
                if report is None:
                    bad += 1
                    print(label, "FAILED", error, flush=True)
                    continue
                digests.append(report["digests"])
                fits = row["uncached"] == 0
                answered = report["completed"] + report["refused"] == report["requests"]
                good = report["mismatches"] == 0 and answered
                if fits:
                    good = good and report["prefix_hit_blocks"] == row["prefix_hits"] \
                        and report["evictions"] == row["evictions"]
                bad += not good
                print(label, "ok " if good else "BAD", f"hits {report['prefix_hit_blocks']} of",
                      row["prefix_hits"] if fits else f"- ({report['refused']} requests do not fit)",
                      f"mismatches {report['mismatches']}", flush=True)
            if len(digests) == 2 and digests[0] != digests[1]:
                bad += 1
                print(f"{name} at {row['size']}: the dispatchers' digests differ", flush=True)
    print(f"{bad} differences")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
