#!/usr/bin/env python3
"""`troupe run --isolation process`: the same run as in-process, and one with a policy that dies completes every request.
  isolation_test.py TROUPE ZOO_DIR
"""
import json
import os
import subprocess
import sys
import tempfile


def run(program, trace, policy, isolation):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = subprocess.run([program, "run", "--trace", trace, "--policy", policy, "--isolation", isolation,
                               "--device-blocks", "300", "--serial", "--prompt-only", "--json", out.name],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"FAILED: {policy} with isolation {isolation} ends with {done.returncode}: {done.stderr}")
        return json.load(out)


def main():
    program, zoo = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "t.jsonl")
        with open(trace, "w", encoding="utf-8") as f:
            for r in range(200):
                ids = list(range(8)) + [100 * (r % 7) + i for i in range(8, 30)] + [10000 + 40 * r + i for i in range(20)]
                f.write(json.dumps({"timestamp": r, "input_length": 512 * len(ids), "output_length": 1,
                                    "hash_ids": ids}) + "\n")
        near, far = (run(program, trace, "vllm_lru", i) for i in ("none", "process"))
        if near["digests"] != far["digests"] or near["evictions"] == 0:
            sys.exit(f"FAILED: the hosted run differs: {far['digests']} instead of {near['digests']}")
        for bad in ("crashes", "exits", "events_fail"):
            got = run(program, trace, os.path.join(zoo, bad + ".so"), "process")
            if got["completed"] != 200 or got["refused"] != 0 or got["mismatches"] != 0:
                sys.exit(f"FAILED: with {bad}: {got['completed']} of 200 completed, {got['refused']} refused, "
                         f"{got['mismatches']} mismatches")
            if got["evictions"] == 0:
                sys.exit(f"FAILED: with {bad} nothing was evicted")
    print(f"isolated runs agree ({near['prefix_hit_blocks']} hits, {near['evictions']} evictions)")


main()
