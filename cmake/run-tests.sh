#!/usr/bin/env bash
# Runs the CTest tests of one label and says the truth about them:
#   cmake/run-tests.sh BUILD_DIR LABEL_REGEX SUMMARY_FILE TIME_BOX_SECONDS [JOBS]
# Prints one line per test as it ends, then the whole output of each failed test and the reason of each skipped one
# (exit code 4), then "N passed, N failed, N skipped". SUMMARY_FILE gets "passed failed skipped".
# A test that did not come to an end (crash, timeout, time box over) counts as failed. Exit 0 only without failures.
set -uo pipefail

build_dir="$1"; label="$2"; summary="$3"; box_s="$4"; jobs="${5:-2}"
log="$summary.log"
rm -f "$summary" "$log"

total="$(ctest --test-dir "$build_dir" -N -L "$label" | sed -n 's/^Total Tests: //p')"
if [[ -z "$total" || "$total" -eq 0 ]]; then
  echo "run-tests: no test has a label that matches $label in $build_dir" >&2
  echo "0 0 0" > "$summary"
  echo "0 passed, 0 failed, 0 skipped"
  exit 0
fi

timeout --kill-after=10 "$box_s" ctest --test-dir "$build_dir" -V -j "$jobs" -L "$label" </dev/null 2>&1 \
  | tee "$log" | grep --line-buffered -E '^ *[0-9]+/[0-9]+ Test +#' | grep --line-buffered -v ' Start '
rc="${PIPESTATUS[0]}"

# " 3/12 Test #7: name ....   Passed    0.01 sec" — the number after # is the prefix of its output lines under -V.
results="$(sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#([0-9]+): ([^ ]+) \.*(.*)$/\1 \2 \3/p' "$log")"
passed="$(grep -cE ' +Passed +' <<<"$results")"
skipped="$(grep -c '\*\*\*Skipped' <<<"$results")"
failed=$(( total - passed - skipped ))

while read -r number name rest; do
  [[ -z "$number" ]] && continue
  case "$rest" in
    *'***Skipped'*)
      echo "--- skipped: $name"
      grep -E "^$number: " "$log" | sed -E "s/^$number: /    /" \
        | grep -vE '^    (Test command|Working Directory|Test timeout computed|Environment variables)' | tail -n 20 ;;
    *Passed*) ;;
    *)
      echo "--- failed: $name ($rest)"
      grep -E "^$number: " "$log" | sed -E "s/^$number: /    /" ;;
  esac
done <<<"$results"
if [[ "$rc" -ne 0 && "$failed" -eq 0 ]]; then
  echo "--- ctest itself ended with exit code $rc"
  failed=1
fi
if [[ "$rc" -eq 124 || "$rc" -eq 137 ]]; then
  echo "--- the time box of $box_s s ended before all tests did: the rest counts as failed"
fi

echo "$passed $failed $skipped" > "$summary"
echo "$passed passed, $failed failed, $skipped skipped"
[[ "$failed" -eq 0 ]]
