#!/bin/bash
# Takes the verifier's defences away one at a time, in a copy of the sources, and shows that the attacks that each is there for are then
# no longer caught as they must be. A defence whose loss nothing notices is untested. Some minutes: not a part of the tests.
# Usage: defences.sh [NAME...]             those that the emulator shows (defences.txt)
#        defences.sh --card DIR [NAME...]  builds those that only a card shows (defences_card.txt) into DIR, with DIR/run.sh, which shows
#                                          them on a host with a card: run.sh DIST CORPUS, DIST being a folder as `make dist` lays it
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
table=$here/tests/defences.txt card=
[ "${1:-}" != --card ] || { card=$(mkdir -p "$2" && cd "$2" && pwd) && table=$here/tests/defences_card.txt; shift 2; }
copy=$(mktemp -d) || exit 1
trap 'rm -rf "$copy"' EXIT
export CCACHE_BASEDIR=$copy          # where ccache is in use, it knows the unchanged files
git -C "$here" ls-files -z -- . | (cd "$here" && xargs -0 cp --parents -t "$copy" 2>/dev/null)
build() { cmake --build "$copy/build/release" -j2 --target proteus-gpu proteus_ops >"$copy/build.log" 2>&1 || { tail -20 "$copy/build.log"; return 1; }; }
(cd "$copy" && cmake --preset release >/dev/null) && build || exit 1
# The last line counts; 0 caught is what is wanted.
show() { # NAME RESULT
    if tail -1 <<<"$2" | grep -q '^0 of '; then
        echo "$1: $(grep -m1 '^MISSED' <<<"$2" | cut -c10-110)"
    else
        echo "$1: still caught without it: $(grep -m1 '^caught' <<<"$2" | cut -c10-110)"
        return 1
    fi
}
if [ -n "$card" ]; then
    { echo '#!/bin/bash'; echo 'here=$(cd "$(dirname "$0")" && pwd) dist=$1 corpus=$2 shown=0 wanted=0
# A distribution of its own: a corpus is judged by the proteus-gpu that lies beside the one that runs it.
without=$(mktemp -d) || exit 1
trap '"'"'rm -rf "$without"'"'"' EXIT
cp -r "$dist/." "$without"; chmod 755 "$without"'; declare -f show
      echo 'try() { wanted=$((wanted + 1)); cp "$here/$2" "$without/bin/proteus-gpu"
    show "$1" "$("$without/bin/proteus-gpu" selftest --corpus "$corpus" --device cuda:0 --only "$3" 2>&1)" && shown=$((shown + 1)); }'; } >"$card/run.sh"
fi
shown=0 wanted=0
while IFS=$'\t' read -r -u 3 name files change cases; do
    case "$name" in '' | '#'*) continue ;; esac
    [ $# -eq 0 ] || printf '%s\n' "$@" | grep -qxF "$name" || continue
    wanted=$((wanted + 1)) changed=1
    for file in ${files//,/ }; do
        cp "$copy/$file" "$copy/kept.$(basename "$file")"
        perl -0pi -e "$change" "$copy/$file"
        cmp -s "$copy/$file" "$copy/kept.$(basename "$file")" && changed= && echo "$name: the change does not apply to $file"
    done
    if [ -n "$changed" ] && build; then
        if [ -n "$card" ]; then
            cp "$copy/build/release/bin/proteus-gpu" "$card/${name// /-}" && strip --strip-debug "$card/${name// /-}" && shown=$((shown + 1))
            echo "try '$name' '${name// /-}' '$cases'" >>"$card/run.sh"
        else
            show "$name" "$("$copy/build/release/bin/proteus-gpu" selftest --corpus "$here/tests" --device sim --only "$cases" 2>&1)" && shown=$((shown + 1))
        fi
    fi
    for file in ${files//,/ }; do cp "$copy/kept.$(basename "$file")" "$copy/$file"; done
done 3<"$table"
if [ -n "$card" ]; then
    echo 'echo "$shown of $wanted defences are missed when they are gone"; [ "$wanted" -gt 0 ] && [ "$shown" -eq "$wanted" ]' >>"$card/run.sh"
    chmod +x "$card/run.sh"
    echo "$shown of $wanted built into $card"
else
    echo "$shown of $wanted defences are missed when they are gone"
fi
[ "$wanted" -gt 0 ] && [ "$shown" -eq "$wanted" ]
