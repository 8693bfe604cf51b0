#!/bin/sh
# Runs a part of the red-team corpus on the emulator: proteus-gpu selftest must say that all is as it must be, in its last line.
# Usage: selftest.sh PROTEUS_GPU fast|all
set -u
corpus=$(cd "$(dirname "$0")" && pwd)
# a name that is no case's is an error, not a case that passed; so is a number of judges that is none, and a card beside the emulator
for wrong in "--only zeros,no-such-case" "--jobs many" "--jobs 0" "--device sim,cuda:0"; do
    case $wrong in --device*) device= ;; *) device="--device sim" ;; esac
    # shellcheck disable=SC2086
    if "$1" selftest $device --corpus "$corpus" $wrong >/dev/null 2>&1; then echo "selftest $wrong is taken"; exit 1; fi
done
"$1" serve-devices 2>/dev/null | grep -aq '"toolkit":{"version":"' || { echo "skipped: no CUDA toolkit to compile with"; exit 77; }
out=$(mktemp) || exit 1
trap 'rm -rf "$out" "$out.lines" "$out.dir"' EXIT

# A case is judged once by a build, and again by another: here the same program with a byte behind its end.
ops=$(dirname "$1")/../share/proteus/ops
mkdir -p "$out.dir" && cp "$1" "$out.dir/proteus-gpu" && printf x >>"$out.dir/proteus-gpu" || exit 1
for turn in "$1 1" "$1 1" "$out.dir/proteus-gpu 2" "$out.dir/proteus-gpu 2"; do
    "${turn% *}" selftest --device sim --corpus "$corpus" --ops-dir "$ops" --only axis-for-a-pointer --resume "$out.lines" >"$out" 2>&1 || { cat "$out"; exit 1; }
    [ "$(wc -l <"$out.lines")" = "${turn##* }" ] || { echo "after $turn there are $(wc -l <"$out.lines") results"; cat "$out"; exit 1; }
done
grep -q "1 results in .* another build" "$out" || { echo "another build's result is not told of"; exit 1; }
"$1" selftest --device sim --corpus "$corpus" --part "$2" >"$out" 2>&1
status=$?
grep -v '^caught \|^accepted ' "$out"
tail -1 "$out" | awk '$1 > 0 && $1 == $3 && $6 > 0 && $6 == $8 { fine = 1 } END { exit !fine }' || { echo "the last line does not say that all is well"; exit 1; }
exit $status
