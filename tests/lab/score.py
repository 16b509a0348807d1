#!/usr/bin/env python3
"""Scores a policy: the mean of (hits - LRU) / (bound - LRU) over (trace, size) pairs where the offline bound lies
at least 2 points above LRU, prefix semantics, with a bootstrap interval over sessions.
  score.py LAB TRACES_DIR [--policy troupe] [--traces a,b] [--slice FROM:TO] [--require MEAN] [--jobs N]
--slice keeps requests FROM … TO of each trace, in percent, so that tuning and testing see different ones. Exits 1
when the mean is below --require or a pair lies more than 0.3 points below LRU, 4 when the traces are not there.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

FRACTIONS = ["1%", "3%", "10%", "30%"]
BOUND_ABOVE_LRU = 0.02
BELOW_LRU_MAX = 0.003
ROUNDS = 1000


def sliced(path, part, folder):
    """A file with the lines of `part` (percent from:to) of a trace."""
    text = subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout if path.endswith(".zst") \
        else open(path, "rb").read()
    lines = text.splitlines(keepends=True)
    first, last = (int(p) * len(lines) // 100 for p in part.split(":"))
    out = os.path.join(folder, "slice.jsonl")
    with open(out, "wb") as f:
        f.writelines(lines[first:last])
    return out


def run(args, path):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run([args.lab, "lab", "--trace", path, "--policy", "vllm_lru," + args.policy + ",opt", "--size",
                        ",".join(FRACTIONS), "--no-serving", "--sessions", "--jobs", str(args.jobs), "--json",
                        out.name], check=True, stdout=subprocess.DEVNULL)
        return json.load(open(out.name, encoding="utf-8"))


def pairs_of(result, args, name):
    """One row per size: what each session asked for and hit under LRU, the policy and the bound."""
    rows = []
    by_size = {}
    for r in result["results"]:
        by_size.setdefault(r["size_blocks"], {})[r["policy"]] = r
    for (size, found), fraction in zip(by_size.items(), FRACTIONS):
        lru, mine, bound = (found[p] for p in ("vllm_lru", args.policy, "opt"))
        rows.append({"name": name, "fraction": fraction, "size": size, "lru": lru["hit_ratio"],
                     "mine": mine["hit_ratio"], "opt": bound["hit_ratio"],
                     "sessions": list(zip(lru["session_hits"], mine["session_hits"], bound["session_hits"]))})
    return rows


def score(lru, mine, bound):
    return (mine - lru) / (bound - lru)


def interval(pairs, seed):
    """95 % of the mean scores that resampled sessions give; pairs of one trace draw the same sessions."""
    rng = random.Random(seed)
    means = []
    for _ in range(ROUNDS):
        drawn = {}
        scores = []
        for p in pairs:
            sessions = p["sessions"]
            if p["name"] not in drawn:
                drawn[p["name"]] = rng.choices(range(len(sessions)), k=len(sessions))
            sums = [sum(sessions[i][k] for i in drawn[p["name"]]) for k in range(3)]
            if sums[2] > sums[0]:
                scores.append(score(*sums))
        means.append(sum(scores) / max(1, len(scores)))
    means.sort()
    return means[int(0.025 * ROUNDS)], means[int(0.975 * ROUNDS) - 1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lab")
    parser.add_argument("traces_dir")
    parser.add_argument("--policy", default="troupe")
    parser.add_argument("--traces", default="")
    parser.add_argument("--slice", default="")
    parser.add_argument("--require", type=float, default=0.0)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    traces_dir = os.environ.get("TROUPE_TRACES", args.traces_dir)
    expected_path = os.path.join(traces_dir, "expected_dev.json")
    if not os.path.exists(expected_path):
        print(f"skipped: {expected_path} is not there (TROUPE_TRACES names the folder)")
        return 4
    if args.slice and shutil.which("zstd") is None:
        print("skipped: --slice needs the zstd program")
        return 4
    with open(expected_path, encoding="utf-8") as f:
        traces = json.load(f)["traces"]
    pairs = []
    for name in args.traces.split(",") if args.traces else traces:
        path = os.path.join(traces_dir, os.path.basename(traces[name]["file"]))
        with tempfile.TemporaryDirectory() as folder:
            pairs += pairs_of(run(args, sliced(path, args.slice, folder) if args.slice else path), args, name)
    below = 0
    for p in pairs:
        counts = p["opt"] - p["lru"] >= BOUND_ABOVE_LRU
        too_low = p["mine"] < p["lru"] - BELOW_LRU_MAX
        below += too_low
        print(f"{p['name']:18} {p['fraction']:>4} LRU {100 * p['lru']:6.2f}  {args.policy} {100 * p['mine']:6.2f}  "
              f"bound {100 * p['opt']:6.2f}  "
              + (f"score {100 * score(p['lru'], p['mine'], p['opt']):+6.1f} %" if counts else "bound < LRU + 2")
              + ("  BELOW LRU" if too_low else ""))
    counted = [p for p in pairs if p["opt"] - p["lru"] >= BOUND_ABOVE_LRU]
    if not counted:
        print("no pair has its bound 2 points above LRU")
        return 1
    mean = sum(score(p["lru"], p["mine"], p["opt"]) for p in counted) / len(counted)
    low, high = interval(counted, 1)
    print(f"mean {100 * mean:.1f} % over {len(counted)} pairs, 95 % interval {100 * low:.1f} … {100 * high:.1f} % by "
          f"session; {below} pairs more than 0.3 points below LRU")
    return 1 if mean < args.require or below else 0


if __name__ == "__main__":
    sys.exit(main())
