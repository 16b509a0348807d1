#!/usr/bin/env python3
"""Compares the built-in classics with libCacheSim (PyPI: libcachesim) on Zipf streams, in object semantics.

  libcachesim_zipf.py LAB [--venv DIR] [--index URL] [--requests N]
The package is looked for in this interpreter first, then in a virtual environment that is made at DIR. Policies of EXACT
must miss as often to the last access; those of CLOSE must lie within 0.5 points of miss ratio, or the difference in
definition is named in DIFFERENT_BY_DEFINITION and its size shown. Exits 1 on any other difference, 4 (skipped, with
the reason) where the package cannot be had.
"""
import argparse
import bisect
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile

EXACT = {"fifo": "FIFO", "lru": "LRU", "clock": "Clock", "sieve": "Sieve", "lfu": "LFU", "s3fifo": "S3FIFO"}
CLOSE = {"arc": "ARC", "lirs": "LIRS", "twoq": "TwoQ", "lecar": "LeCaR", "cacheus": "Cacheus",
         "wtinylfu": "WTinyLFU", "gdsf": "GDSF", "lhd": "LHD"}
DIFFERENT_BY_DEFINITION = {
    "wtinylfu": "another sketch: four rows of counters, not a counting Bloom filter",
    "lecar": "each victim's expert is drawn, from other random numbers",
    "cacheus": "libCacheSim's first, drawn learning rate never changes, and it evicts before the cache is full",
}
# What ours must be told so that both mean the same.
PARAMETERS = {"s3fifo": ":fill_main=1", "lhd": ":interval=1048576"}
POINTS_MAX = 0.5
OBJECTS = 10000
STREAMS = [(0.7, 1), (0.9, 2), (1.0, 3), (1.2, 4)]  # exponent, seed
SIZES = [100, 300, 1000, 3000]  # 1, 3, 10, 30 % of the objects
ID_STEP = 2654435761  # spreads ids, so that none is its own hash


def zipf(alpha, seed, count):
    """Ids of a Zipf stream, by inverting the cumulative weights: the same on every machine."""
    rng = random.Random(seed)
    sums = []
    total = 0.0
    for rank in range(1, OBJECTS + 1):
        total += rank ** -alpha
        sums.append(total)
    return [bisect.bisect_left(sums, rng.random() * total) for _ in range(count)]


def reexec_with_package(args):
    """Runs this script again in an environment that has the package; never returns."""
    python = os.path.join(args.venv, "bin", "python")
    try:
        if not os.path.exists(python):
            subprocess.run([sys.executable, "-m", "venv", args.venv], check=True, capture_output=True, timeout=120)
        probe = subprocess.run([python, "-c", "import libcachesim"], capture_output=True)
        if probe.returncode != 0:
            command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "libcachesim"]
            subprocess.run(command + (["--index-url", args.index] if args.index else []), check=True,
                           capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        detail = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        print(f"skipped: the package libcachesim cannot be had: {detail[-1] if detail else error}")
        sys.exit(4)
    os.execv(python, [python] + sys.argv)


def theirs(name, size, ids):
    import libcachesim
    cache = getattr(libcachesim, name)(cache_size=size, hashpower=16)
    request = libcachesim.Request()
    misses = 0
    for time, i in enumerate(ids):
        request.clock_time = time
        request.obj_id = 1 + (i * ID_STEP) % (1 << 40)
        request.obj_size = 1
        misses += not cache.get(request)
    return misses


def ours(lab, ids):
    """Misses by policy and size."""
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "zipf.jsonl")
        with open(trace, "w", encoding="utf-8") as f:
            for time, i in enumerate(ids):
                f.write('{"timestamp": %d, "input_length": 512, "output_length": 1, "hash_ids": [%d]}\n' % (time, i))
        out = os.path.join(folder, "out.json")
        subprocess.run([lab, "lab", "--trace", trace, "--policy",
                        ",".join(p + PARAMETERS.get(p, "") for p in list(EXACT) + list(CLOSE)), "--size",
                        ",".join(map(str, SIZES)), "--semantics", "object", "--json", out], check=True,
                       stdout=subprocess.DEVNULL)
        with open(out, encoding="utf-8") as f:
            return {(r["policy"].split(":")[0], r["size_blocks"]): r["misses"] for r in json.load(f)["results"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lab")
    parser.add_argument("--venv", default=os.path.join(tempfile.gettempdir(), f"troupe-libcachesim-{os.getuid()}"))
    parser.add_argument("--index", default="")
    parser.add_argument("--requests", type=int, default=60000)
    args = parser.parse_args()
    if importlib.util.find_spec("libcachesim") is None:
        if os.path.realpath(sys.prefix) == os.path.realpath(args.venv):
            print(f"skipped: libcachesim in {args.venv} cannot be imported")
            return 4
        reexec_with_package(args)
    wrong = []
    worst = {}
    for alpha, seed in STREAMS:
        ids = zipf(alpha, seed, args.requests)
        mine = ours(args.lab, ids)
        for policy, name in {**EXACT, **CLOSE}.items():
            for size in SIZES:
                points = 100 * (mine[(policy, size)] - theirs(name, size, ids)) / len(ids)
                worst[policy] = max(worst.get(policy, (0.0, "")), (abs(points), f"zipf {alpha} at {size}: {points:+.3f}"))
                if points != 0 and (policy in EXACT or (abs(points) > POINTS_MAX
                                                        and policy not in DIFFERENT_BY_DEFINITION)):
                    wrong.append(f"{policy} on zipf {alpha} at {size} objects: {points:+.3f} points of miss ratio")
    for policy, (points, where) in worst.items():
        print(f"{policy:10} largest difference {points:6.3f} points {'(' + where + ')' if points else ''}"
              + (f"  by definition: {DIFFERENT_BY_DEFINITION[policy]}"
                 if policy in DIFFERENT_BY_DEFINITION and points > POINTS_MAX else ""))
    for line in wrong:
        print("WRONG", line)
    print(f"{len(worst) * len(STREAMS) * len(SIZES) - len(wrong)} agree, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
