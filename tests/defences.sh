#!/bin/bash
# Takes the verifier's defences away one at a time, in a copy of the sources, and shows that what each is there for is then missed: attacks
# are no longer caught as they must be (defences.txt), or a test fails (defences_tests.txt: what no attack of the corpus can show by itself).
# A defence whose loss nothing notices is untested. A quarter of an hour: not a part of the tests.
# Usage: defences.sh [--table FILE] [NAME...]  those that need no card; --table writes what came of each (tests/DEFENCES.md)
#                                              into the table that is there, what was not asked for stays as it was
#        defences.sh --card DIR [NAME...]      builds those that only a card shows (defences_card.txt) into DIR, with DIR/run.sh, which shows
#                                              them on a host with a card: run.sh DIST CORPUS, DIST being a folder as `make dist` lays it
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
tables="$here/tests/defences.txt $here/tests/defences_tests.txt" card='' written=''
[ "${1:-}" != --card ] || { card=$(mkdir -p "$2" && cd "$2" && pwd) && tables=$here/tests/defences_card.txt; shift 2; }
[ "${1:-}" != --table ] || { written=$2; shift 2; }
copy=$(mktemp -d) || exit 1
trap 'rm -rf "$copy"' EXIT
export CCACHE_BASEDIR=$copy          # where ccache is in use, it knows the unchanged files
git -C "$here" ls-files -z -- . | (cd "$here" && xargs -0 cp --parents -t "$copy" 2>/dev/null)
build() { cmake --build "$copy/build/release" -j2 --target "$@" >"$copy/build.log" 2>&1 || { tail -20 "$copy/build.log"; return 1; }; }
(cd "$copy" && cmake --preset release >/dev/null) && build proteus-gpu proteus_ops || exit 1
gpu=$copy/build/release/bin/proteus-gpu
wanted_rows() { # what of a table is asked for: lines of NAME FILES CHANGE SHOWN-BY
    local table=$1 name rest
    shift
    while IFS= read -r line; do
        case "$line" in '' | '#'*) continue ;; esac
        name=${line%%$'\t'*}
        [ $# -eq 0 ] || printf '%s\n' "$@" | grep -qxF "$name" || continue
        printf '%s\n' "$line"
    done <"$table"
}
# The last line counts; 0 caught is what is wanted.
show() { # NAME RESULT
    if tail -1 <<<"$2" | grep -q '^0 of '; then
        echo "$1: $(grep -m1 '^MISSED' <<<"$2" | cut -c10-110)"
    else
        echo "$1: still caught without it: $(grep -m1 '^caught' <<<"$2" | cut -c10-110)"
        return 1
    fi
}
# A test by its name runs as ctest has it, with arguments as they stand. 0: it passes; 1: it fails; 77: it was skipped.
run_test() { # "NAME [ARGUMENTS]"
    local out
    [ "$1" = "${1%% *}" ] || { (cd "$copy" && timeout 600 build/release/tests/$1 >/dev/null 2>&1); return; }
    out=$(ctest --test-dir "$copy/build/release" -R "^$1\$" 2>&1)
    ! grep -q '\*\*\*Skipped' <<<"$out" || return 77
    grep -q '^100% tests passed' <<<"$out"
}
verdicts() { awk '/^(caught|MISSED) /{ sub(".*/", "", $2); print $2 "=" $3 }' <<<"$1"; }
said_of() { # CASE VERDICTS
    awk -F= -v name="$1" '$1 == name { print $2 }' <<<"$2"
}
line_of() { # FILE NAME FILES SHOWN-BY WITH WITHOUT
    printf '| %s | %s | %s | %s | %s |\n' "$2" "$(sed 's/,/, /g; s/[^, ]\+/`&`/g' <<<"$3")" "$4" "$5" "$6" >>"$1"
}
if [ -n "$card" ]; then
    { echo '#!/bin/bash'; echo 'here=$(cd "$(dirname "$0")" && pwd) dist=$1 corpus=$2 shown=0 wanted=0
# A distribution of its own: a corpus is judged by the proteus-gpu that lies beside the one that runs it.
without=$(mktemp -d) || exit 1
trap '"'"'rm -rf "$without"'"'"' EXIT
cp -r "$dist/." "$without"; chmod 755 "$without"'; declare -f show
      echo 'try() { wanted=$((wanted + 1)); cp "$here/$2" "$without/bin/proteus-gpu"
    show "$1" "$("$without/bin/proteus-gpu" selftest --corpus "$corpus" --device cuda:0 --only "$3" 2>&1)" && shown=$((shown + 1)); }'; } >"$card/run.sh"
else
    # With all defences there: what each attack gets, and that each test passes.
    cases=$(wanted_rows "$here/tests/defences.txt" "$@" | cut -f4 | tr , '\n' | sort -u | paste -sd,)
    with=
    [ -z "$cases" ] || with=$(verdicts "$("$gpu" selftest --corpus "$here/tests" --device sim --threads 1 --only "$cases" 2>&1)")
fi
shown=0 wanted=0
one_row() { # KIND NAME FILES CHANGE SHOWN-BY
    local kind=$1 name=$2 files=$3 change=$4 by=$5 changed=1 file result case missed='' before=''
    for file in ${files//,/ }; do
        cp "$copy/$file" "$copy/kept.$(basename "$file")"
        perl -0pi -e "$change" "$copy/$file"
        cmp -s "$copy/$file" "$copy/kept.$(basename "$file")" && changed= && echo "$name: the change does not apply to $file"
    done
    if [ -n "$changed" ] && [ -n "$card" ] && build proteus-gpu proteus_ops; then
        cp "$gpu" "$card/${name// /-}" && strip --strip-debug "$card/${name// /-}" && shown=$((shown + 1))
        echo "try '$name' '${name// /-}' '$by'" >>"$card/run.sh"
    elif [ -n "$changed" ] && [ "$kind" = defences ] && build proteus-gpu proteus_ops; then
        result=$("$gpu" selftest --corpus "$here/tests" --device sim --threads 1 --only "$by" 2>&1)
        show "$name" "$result" && shown=$((shown + 1))
        for case in ${by//,/ }; do
            before+="${before:+, }$(said_of "$case" "$with")" missed+="${missed:+, }$(said_of "$case" "$(verdicts "$result")")"
        done
        line_of "$copy/rows.defences" "$name" "$files" "$(sed 's/,/, /g; s/[^, ]\+/`&`/g' <<<"$by")" "$before" "$missed"
    elif [ -n "$changed" ] && [ "$kind" = defences_tests ] && build "${by%% *}"; then
        if run_test "$by"; then
            echo "$name: $by passes without it"
        elif [ $? -eq 77 ]; then
            echo "$name: $by was skipped"
        else
            echo "$name: $by fails" && shown=$((shown + 1)) && missed=fails
        fi
        line_of "$copy/rows.defences_tests" "$name" "$files" "\`${by%% *}\`" passes "${missed:-passes}"
    fi
    for file in ${files//,/ }; do cp "$copy/kept.$(basename "$file")" "$copy/$file"; done
}
for table in $tables; do
    kind=$(basename "$table" .txt)
    if [ "$kind" = defences_tests ]; then
        while IFS= read -r -u 4 test; do
            build "${test%% *}" || exit 1
            run_test "$test" || { echo "$test does not pass with all defences there, or was skipped"; exit 1; }
        done 4< <(wanted_rows "$table" "$@" | cut -f4 | sort -u)
    fi
    while IFS=$'\t' read -r -u 3 name files change by; do
        wanted=$((wanted + 1))
        one_row "$kind" "$name" "$files" "$change" "$by"
    done 3< <(wanted_rows "$table" "$@")
done
if [ -n "$card" ]; then
    echo 'echo "$shown of $wanted defences are missed when they are gone"; [ "$wanted" -gt 0 ] && [ "$shown" -eq "$wanted" ]' >>"$card/run.sh"
    chmod +x "$card/run.sh"
    echo "$shown of $wanted built into $card"
else
    echo "$shown of $wanted defences are missed when they are gone"
fi
# A row that was not asked for this time is as it was.
section() { # TABLE ROWS
    local name
    wanted_rows "$1" | while IFS=$'\t' read -r name _; do
        grep -m1 -F "| $name | " "$2" 2>/dev/null || grep -m1 -F "| $name | " "$copy/before.md" || echo "| $name | | | | not run |"
    done
}
if [ -n "$written" ]; then
    cat "$written" >"$copy/before.md" 2>/dev/null
    {
        cat "$here/tests/defences_head.md"
        printf '\n## Shown by attacks\n\n| defence | taken away in | attack | verdict with it | without it |\n|---|---|---|---|---|\n'
        section "$here/tests/defences.txt" "$copy/rows.defences"
        printf '\n## Shown by tests\n\n| defence | taken away in | test | with it | without it |\n|---|---|---|---|---|\n'
        section "$here/tests/defences_tests.txt" "$copy/rows.defences_tests"
        printf '\n## Shown on a card alone\n\n| defence | taken away in | attack |\n|---|---|---|\n'
        wanted_rows "$here/tests/defences_card.txt" | while IFS=$'\t' read -r name files change by; do
            printf '| %s | %s | %s |\n' "$name" "$(sed 's/,/, /g; s/[^, ]\+/`&`/g' <<<"$files")" "$(sed 's/,/, /g; s/[^, ]\+/`&`/g' <<<"$by")"
        done
    } >"$written"
fi
[ "$wanted" -gt 0 ] && [ "$shown" -eq "$wanted" ]
