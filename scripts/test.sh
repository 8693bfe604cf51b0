#!/bin/bash
# Runs the tests, then says why each skipped one was, and ends with `N passed, N failed, N skipped`.
# Usage: test.sh [--long]     Tests labelled `long` run with --long only; those labelled `gpu` skip themselves without a card.
set -u
cd "$(dirname "$0")/.."
select=(-LE long)
[ "${1:-}" = --long ] && select=()
scripts/toolkit.sh >/dev/null || true
report=$PWD/build/release/tests.xml
rm -f "$report"
ctest --preset release "${select[@]}" -j2 --output-junit "$report"
status=$?
[ -f "$report" ] || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }

# Each test's output is in the report; a skip's reason is the line "skipped: ...".
awk '
    function name(line) { sub(/.*<testcase name="/, "", line); sub(/".*/, "", line); return line }
    /<testcase / { test = name($0); skipped = 0; why = "" ; total++ }
    /status="fail"/ { failed++ }
    /<skipped/ { skipped = 1 }
    /skipped: / { why = $0; sub(/.*skipped: /, "", why); sub(/<\/system-out>.*/, "", why) }
    /<\/testcase>/ && skipped { skips++; reasons = reasons sprintf("skipped  %-24s %s\n", test, why == "" ? "(gave no reason)" : why) }
    END {
        gsub(/&quot;/, "\"", reasons); gsub(/&apos;/, "\047", reasons); gsub(/&lt;/, "<", reasons); gsub(/&gt;/, ">", reasons); gsub(/&amp;/, "\\&", reasons)
        printf "\n%s%d passed, %d failed, %d skipped\n", reasons, total - failed - skips, failed, skips
    }' "$report"
exit $status
