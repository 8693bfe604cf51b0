#!/bin/bash
# Takes the verifier's defences away one at a time, in a copy of the sources, and shows that the attacks that each is there for are then
# no longer caught as they must be. A defence whose loss nothing notices is untested. Some minutes: not a part of the tests.
# Usage: defences.sh [NAME...]
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
copy=$(mktemp -d) || exit 1
trap 'rm -rf "$copy"' EXIT
export CCACHE_BASEDIR=$copy          # where ccache is in use, it knows the unchanged files
git -C "$here" ls-files -z -- . | (cd "$here" && xargs -0 cp --parents -t "$copy" 2>/dev/null)
build() { cmake --build "$copy/build/release" -j2 --target proteus-gpu proteus_ops >"$copy/build.log" 2>&1 || { tail -20 "$copy/build.log"; return 1; }; }
(cd "$copy" && cmake --preset release >/dev/null) && build || exit 1
shown=0 wanted=0
while IFS=$'\t' read -r -u 3 name file change cases; do
    case "$name" in '' | '#'*) continue ;; esac
    [ $# -eq 0 ] || printf '%s\n' "$@" | grep -qxF "$name" || continue
    wanted=$((wanted + 1))
    cp "$copy/$file" "$copy/kept"
    perl -0pi -e "$change" "$copy/$file"
    if cmp -s "$copy/$file" "$copy/kept"; then
        echo "$name: the change does not apply to $file"
    elif build; then
        result=$("$copy/build/release/bin/proteus-gpu" selftest --corpus "$here/tests" --device sim --only "$cases" 2>&1)
        if echo "$result" | tail -1 | grep -q '^0 of '; then
            shown=$((shown + 1))
            echo "$name: $(echo "$result" | grep -m1 '^MISSED' | cut -c10-110)"
        else
            echo "$name: still caught without it: $(echo "$result" | grep -m1 '^caught' | cut -c10-110)"
        fi
    fi
    cp "$copy/kept" "$copy/$file"
done 3<"$here/tests/defences.txt"
echo "$shown of $wanted defences are missed when they are gone"
[ "$wanted" -gt 0 ] && [ "$shown" -eq "$wanted" ]
