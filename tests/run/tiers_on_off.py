#!/usr/bin/env python3
"""Lower tiers on against off, over the public traces.

    tests/run/tiers_on_off.py build/release/bin/troupe ../shared/traces [--limit N]

Device 5 %, host 20 %, disk 100 % of a trace's footprint (device: the longest request where that is
more). First table: modelled time to first token, p50 and p99, with the tiers on and off: at most
1.01. Second: admission by reuse against all, the hits lost for each GiB that was not written, and
what staging brought. Exit code 1 when a ratio is above 1.01 or a byte was wrong.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

TRACES = [("tau_airline_trials01_blk16.jsonl.zst", 3000), ("lmcache_miniswe_blk16.jsonl.zst", 3000),
          ("mooncake_conversation_first35min.jsonl", 2000), ("ragpulse_days1-4_blk16.jsonl.zst", 3000),
          ("claude_code_sub30_blk64.jsonl.zst", 300)]


def run(troupe, trace, limit, config):
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/c.toml", "w") as file:
            file.write(config)
        out = subprocess.run(
            [troupe, "run", "--config", folder + "/c.toml", "--trace", trace, "--limit", str(limit),
             "--prompt-only", "--json", folder + "/o.json"], capture_output=True, text=True)
        if out.returncode != 0:
            sys.exit(f"{trace}: exit code {out.returncode}\n{out.stdout[-800:]}{out.stderr[-800:]}")
        with open(folder + "/o.json") as file:
            return json.load(file)


def footprint(path, limit):
    command = ["zstd", "-dcq", path] if path.endswith(".zst") else ["cat", path]
    ids, longest = set(), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lines:
        for number, line in enumerate(lines.stdout):
            if number >= limit:
                lines.terminate()
                break
            listed = json.loads(line)["hash_ids"]
            ids.update(listed)
            longest = max(longest, len(listed))
    return len(ids), longest


def tiers(device, host, disk, **tiering):
    text = f"[tiers]\ndevice_blocks = {device}\nhost_blocks = {host}\ndisk_blocks = {disk}\n"
    return text + "[tiering]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in tiering.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("troupe")
    parser.add_argument("traces")
    parser.add_argument("--limit", type=int, default=0)
    args = parser.parse_args()
    bad = False
    for name, limit in TRACES:
        path = os.path.join(args.traces, name)
        if not os.path.exists(path):
            print(f"SKIPPED: {path} is not there")
            continue
        limit = args.limit or limit
        blocks, longest = footprint(path, limit)
        device = max(blocks // 20, longest + 1)
        host, disk = max(blocks // 5, 16), blocks
        off = run(args.troupe, path, limit, tiers(device, 0, 0))
        on = run(args.troupe, path, limit, tiers(device, host, disk))
        reused = run(args.troupe, path, limit, tiers(device, host, disk, admission="reused"))
        gib = (on["disk"]["writes"] - reused["disk"]["writes"]) * on["true_block_bytes"] / 2**30
        lost = on["prefix_hit_blocks"] - reused["prefix_hit_blocks"]
        ratios = [on["ttft_ms"][q] / max(off["ttft_ms"][q], 1e-9) for q in ("p50", "p99")]
        wrong = sum(r["mismatches"] for r in (off, on, reused))
        bad = bad or wrong > 0 or max(ratios) > 1.01
        print(f"{name}: {limit} requests, device {device}, host {host}, disk {disk}")
        print(f"  TTFT on/off        p50 {ratios[0]:.4f}  p99 {ratios[1]:.4f}   hits off "
              f"{off['prefix_hit_blocks']}, on {on['prefix_hit_blocks']}, {wrong} wrong")
        print(f"  admission reused   {lost} hits lost, {gib:.1f} GiB not written"
              + (f", {lost / gib:.3f} hits a GiB" if gib > 0 else ""))
        for label, r in (("all", on), ("reused", reused)):
            p = r["prefetch"]
            print(f"  prefetch, {label:8} {p['blocks']} blocks, precision {p['precision']:.3f}, recall "
                  f"{p['recall']:.3f}, {p['wasted_bytes'] / 2**30:.1f} GiB wasted; "
                  f"{r['disk']['drive_writes_per_day']:.1f} drive writes a day")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
