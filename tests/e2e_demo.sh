#!/bin/bash
# The demo as a user runs it: it ends with a verified kernel, within three minutes, and leaves no process behind.
# Usage: e2e_demo.sh SOURCE_DIR BUILD_DIR
set -u
"$1/scripts/toolkit.sh" >/dev/null 2>&1 || { echo "skipped: no CUDA toolkit, so no kernel can be compiled"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
before=$SECONDS
DEMO_BUILD=$2 DEMO_CANDIDATES=6 TMPDIR=$dir timeout 170 "$1/scripts/demo.sh" >"$dir/out" 2>&1 || { tail -n 60 "$dir/out"; exit 1; }
cat "$dir/out"
failures=0
has() { grep -qE "$1" "$dir/out" || { echo "not in the output: $1" >&2; failures=1; }; }
has 'ok +signature'
has 'ok +kernel.cubin'
has '^verified'
has 'evidence +(measured|emulated \(estimate\))'
has 'best so far'
[ -z "$(ls "$dir" | grep proteus-demo)" ] || { echo "the demo left its folder behind" >&2; failures=1; }
pid=$(sed -n 's/^proteusd (process \([0-9]*\)).*/\1/p' "$dir/out")
[ -n "$pid" ] && ! kill -0 "$pid" 2>/dev/null || { echo "the demo's service still runs" >&2; failures=1; }
echo "the demo took $((SECONDS - before)) s"
exit $failures
