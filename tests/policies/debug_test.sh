#!/bin/sh
# `troupe policy debug`: the printed command line, a stop inside the policy where gdb works, a decision beyond the trace.
#   debug_test.sh PROGRAM POLICY_DIR      exit code 4: skipped, with the reason
set -u
program=$1; policies=$2
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
i=0
while [ $i -lt 40 ]; do
  echo "{\"timestamp\": $i, \"input_length\": 1024, \"output_length\": 1, \"hash_ids\": [$((2 * i)), $((2 * i + 1))]}"
  i=$((i + 1))
done > "$dir/t.jsonl"
fail() { echo "FAILED: $1"; exit 1; }
run() { "$program" policy debug "$policies/fifo.so" --trace "$dir/t.jsonl" --size 10 "$@"; }

run --until 7 --print > "$dir/line" || fail "--print ends with $?"
grep -q "^gdb .*'break troupe_policy_decision'.*fifo.so.* --until 7 .*--here\$" "$dir/line" ||
  fail "the line of --print is $(cat "$dir/line")"
run --until 7 --here > "$dir/out" || fail "a run without a debugger ends with $?"
grep -q '^35 decisions, 0 hits in 80 accesses' "$dir/out" || fail "it said $(cat "$dir/out")"
run --until 36 --here 2> "$dir/out"
[ $? -eq 1 ] || fail "a decision beyond the trace does not end with 1"
grep -q 'ends after 35 decisions at 10 blocks; --until 36' "$dir/out" || fail "it said $(cat "$dir/out")"
"$program" policy debug "$dir/none.so" --trace "$dir/t.jsonl" --until 1 2> "$dir/out"
[ $? -eq 2 ] || fail "a missing library does not end with 2"
(PATH=/nonexistent; run --until 7) 2> "$dir/out"
[ $? -eq 2 ] || fail "without gdb it does not end with 2"
grep -q 'gdb is not installed: apt-get install gdb' "$dir/out" || fail "without gdb it said $(cat "$dir/out")"

command -v gdb > /dev/null || { echo "skipped: gdb is not installed"; exit 4; }
gdb -q -batch -ex 'break main' -ex run /bin/true 2>&1 | grep -qi 'ptrace: Operation not permitted' &&
  { echo "skipped: gdb may not trace processes here"; exit 4; }
run --until 7 --batch < /dev/null > "$dir/out" 2>&1
grep -q '^number = 7' "$dir/out" || fail "gdb did not stop at decision 7: $(cat "$dir/out")"
grep -q '^#0 .*\.so' "$dir/out" || grep -q '^#0 .*victims' "$dir/out" ||
  fail "gdb did not stop inside the policy: $(cat "$dir/out")"
grep -q 'replay_prefix' "$dir/out" || fail "the stack has no caller: $(cat "$dir/out")"
echo "1 passed"
