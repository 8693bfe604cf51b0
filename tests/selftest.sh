#!/bin/sh
# Runs a part of the red-team corpus on the emulator: proteus-gpu selftest must say that all is as it must be, in its last line.
# Usage: selftest.sh PROTEUS_GPU fast|all
set -u
corpus=$(cd "$(dirname "$0")" && pwd)
"$1" serve-devices 2>/dev/null | grep -aq '"toolkit":{"version":"' || { echo "skipped: no CUDA toolkit to compile with"; exit 77; }
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
"$1" selftest --device sim --corpus "$corpus" --part "$2" >"$out" 2>&1
status=$?
grep -v '^caught \|^accepted ' "$out"
tail -1 "$out" | awk '$1 > 0 && $1 == $3 && $6 > 0 && $6 == $8 { fine = 1 } END { exit !fine }' || { echo "the last line does not say that all is well"; exit 1; }
exit $status
