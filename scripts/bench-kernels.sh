#!/bin/bash
# Kernels for every operator at the decode shapes of tests/bench/kernels.json, each by a search with a small budget through the service,
# and their figures: the retest's of the kernel found, the baseline's in the same run, vLLM's from tests/bench/baselines, the byte floor.
# For a machine with a card: bash and the programs of a build or of dist/ (with bench_kernels beside them), nothing else.
#
#   BENCH_BUILD=build/release       or a distribution that was carried here
#   BENCH_RESULTS=FILE.json         tests/bench/results/h200-kernels.json (by the card's name); what is in it is done, so a run can go on
#   BENCH_SHARD=1/1                 the K-th of N shares of the cells; `bench_kernels merge` makes one file of several
#   BENCH_ONLY='TEXT|TEXT'          cells whose name holds one of them, such as "gdn_packed_decode tp=8"
#   BENCH_SECONDS=3600              no cell is begun after that, and one under work is given up
#   BENCH_CANDIDATES=2 BENCH_CELL_SECONDS=60        the budget of a cell; with one candidate it goes straight to a retest
#   BENCH_DEVICE=auto               cuda:N; all: a shard for each card, at the same time, merged in the end
#   BENCH_SEEDS=tests/bench/seeds.json   settings to try first: the fastest of those that bench_settings timed; none: without
#   BENCH_BASELINE=triage           full: baselines are judged in full, also where they are not served in the end
#   BENCH_AT_ONCE=3                 cells under work at once, where judges can share a card (--card-lock): one has it, others compile and emulate
#   BENCH_TIMES=FILE.json           times of bench_settings (tests/bench/results/*-kernel-settings.json): shown where nothing was judged
#   BENCH_SIM=1                     on the emulator, to try the machinery: estimates, marked so, never into tests/bench/results
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BENCH_BUILD:-$PWD/build/release} bench=$PWD/tests/bench device=${BENCH_DEVICE:-auto}
seconds=${BENCH_SECONDS:-3600} cell_seconds=${BENCH_CELL_SECONDS:-60} candidates=${BENCH_CANDIDATES:-2} shard=${BENCH_SHARD:-1/1}
books=$build/bin/bench_kernels proteus=$build/bin/proteus
seeds=${BENCH_SEEDS:-$bench/seeds.json} baseline=${BENCH_BASELINE:-triage} at_once=${BENCH_AT_ONCE:-3} times=${BENCH_TIMES:-}
began=$SECONDS pid= folder= workers=
say() { printf 'bench-kernels: %s\n' "$*"; }
fail() {
    say "$*" >&2
    [ -n "$folder" ] && [ -s "$folder/proteusd.err" ] && tail -n 5 "$folder/proteusd.err" >&2
    exit 1
}
cleanup() {
    local status=$?
    trap - EXIT INT TERM
    for worker in $workers; do kill "$worker" 2>/dev/null; done
    if [ -n "$pid" ]; then
        kill "$pid" 2>/dev/null
        for _ in $(seq 60); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
        kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    fi
    [ -n "$folder" ] && rm -rf "$folder"
    exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM

for program in "$books" "$proteus" "$build/bin/proteusd" "$build/bin/proteus-gpu"; do
    [ -x "$program" ] || fail "$program is not there: make build, or name another folder (BENCH_BUILD)"
done
for number in "$seconds" "$cell_seconds" "$candidates"; do
    [[ $number =~ ^[1-9][0-9]*$ ]] || fail "\"$number\" is no whole number of seconds or candidates"
done
folder=$(mktemp -d "${TMPDIR:-/tmp}/bench-kernels.XXXXXX") || exit 1

# the card
[ "${BENCH_SIM:-0}" = 1 ] && device=sim
"$build/bin/proteus-gpu" devices >"$folder/list" 2>"$folder/proteusd.err" || fail "the devices cannot be listed"
if [ "$device" != sim ]; then
    grep -q '"kind": "cuda"' "$folder/list" || fail "there is no card here (proteus-gpu devices shows the emulator alone), and what the emulator says is no
  measurement. Run this on a machine with one; BENCH_SIM=1 BENCH_RESULTS=FILE.json tries the machinery on the emulator"
    card=$(sed -n '/"kind": "cuda"/,/}/s/.*"name": "\(.*\)".*/\1/p' "$folder/list" | head -n 1 | tr 'A-Z' 'a-z' | sed 's/nvidia *//; s/[^a-z0-9]\+/-/g; s/-$//')
    results=${BENCH_RESULTS:-$bench/results/$card-kernels.json}
    cards=$(grep -c '"kind": "cuda"' "$folder/list")
else
    results=${BENCH_RESULTS:-}
    [ -n "$results" ] || fail "BENCH_SIM=1 wants BENCH_RESULTS=FILE.json"
    case $(realpath -m "$results") in "$bench"/results/*) fail "estimates do not go into tests/bench/results" ;; esac
fi
mkdir -p "$(dirname "$results")" || fail "there can be no $results"

# every card: a shard each, this program again
if [ "$device" = all ]; then
    [ "$shard" = 1/1 ] || fail "BENCH_DEVICE=all makes its own shards"
    parts=()
    for k in $(seq "$cards"); do
        parts+=("$folder/part$k.json")
        if [ -s "$results" ]; then cp "$results" "$folder/part$k.json"; fi
        BENCH_DEVICE=cuda:$((k - 1)) BENCH_SHARD=$k/$cards BENCH_RESULTS=$folder/part$k.json BENCH_TIMES= "$0" 2>&1 | sed "s/^/cuda:$((k - 1)) /" &
        workers="$workers $!"
    done
    for worker in $workers; do wait "$worker"; done
    workers= found=()
    for part in "${parts[@]}"; do [ -s "$part" ] && found+=("$part"); done
    [ ${#found[@]} -gt 0 ] || fail "no card gave a figure"
    "$books" merge "$results" "${found[@]}" || fail "the shards' files cannot be merged: they lie in $folder"
    [ -z "$times" ] || "$books" timed "$build/share/proteus" "$bench" "$results" "$times" || fail "the times cannot be added"
    judged=$("$books" judged "$results")
    say "$judged of $("$books" list "$build/share/proteus" "$bench" 1/1 /nonexistent.json | wc -l) cells are judged to the retest, after $((SECONDS - began)) s; table: ${results%.json}.md"
    [ "${judged:-0}" -gt 0 ]
    exit
fi
"$books" list "$build/share/proteus" "$bench" "$shard" "$results" ${BENCH_ONLY:+"$BENCH_ONLY"} >"$folder/cells" || fail "no cells"
total=$(wc -l <"$folder/cells")
if [ "$total" = 0 ]; then
    say "nothing is left to do in shard $shard${BENCH_ONLY:+ of \"$BENCH_ONLY\"}: $results has it all"
    exit 0
fi

# the service
settings=(--listen 127.0.0.1:0 --data "$folder/data" --device "$device" --submits-per-minute 100000)
[ "$baseline" = full ] || settings+=(--baseline-triage 1)
[ "$seeds" = none ] || [ ! -s "$seeds" ] || settings+=(--seeds "$seeds")
if "$build/bin/proteusd" --help | grep -q -- '--card-lock'; then
    settings+=(--card-lock "$folder/card.lock" --runners "$at_once")
else
    at_once=1
fi
"$build/bin/proteusd" "${settings[@]}" >"$folder/out" 2>"$folder/proteusd.err" &
pid=$!
for _ in $(seq 300); do
    grep -q 'listening on' "$folder/out" && break
    kill -0 "$pid" 2>/dev/null || { pid=; fail "proteusd ended while it started"; }
    sleep 0.1
done
export PROTEUS_SERVER=$(sed -n 's/^proteusd: listening on //p' "$folder/out")
[ -n "$PROTEUS_SERVER" ] || fail "proteusd does not serve"
unset PROTEUS_TOKEN PROTEUS_TOKEN_FILE
"$proteus" devices --json >"$folder/devices.json" || fail "the service does not list its devices"
say "$total cells of shard $shard to do, $candidates candidates each, $at_once at once, at most $seconds s; results in $results"

left() { echo $((seconds - (SECONDS - began))); }
# One writer at a time.
record() {
    local tries=0 status
    until mkdir "$folder/writing" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || return 1
        sleep 0.05
    done
    "$books" record "$build/share/proteus" "$bench" "$results" "$@"
    status=$?
    rmdir "$folder/writing"
    return $status
}
# One cell: submit, wait for its end, keep what came of it. Its files are named by the worker.
run_cell() {
    local refused worker=$1 id=$2 op=$3 axes=$4 dtypes=$5 hash=$6 job got state best last wall=$cell_seconds
    [ "$(left)" -lt "$wall" ] && wall=$(left)
    "$proteus" submit --op "$op" --axes "$axes" ${dtypes:+--dtype "$dtypes"} --candidates "$candidates" --wall-seconds "$wall" --reuse never --json \
        >"$folder/job$worker.json" 2>"$folder/why$worker" || { say "$id: $(head -c 300 "$folder/why$worker")"; return 1; }
    { read -r job; read -r got; } < <("$books" field "$folder/job$worker.json" /id /shapes/0/shape_hash)
    [ "$got" = "$hash" ] || { say "$id: the service hashes it as $got, the cells say $hash: are they of one version?"; return 1; }
    last=$((SECONDS + wall + 20))
    while :; do
        "$proteus" jobs "$job" --json >"$folder/job$worker.json" 2>/dev/null
        { read -r state; read -r best; } < <("$books" field "$folder/job$worker.json" /state /shapes/0/best/candidate)
        case $state in done | failed | cancelled) break ;; esac
        if [ $SECONDS -ge $last ] || [ "$(left)" -le 0 ]; then
            "$proteus" cancel "$job" --json >"$folder/job$worker.json" 2>/dev/null
            say "$id: given up after $((SECONDS - last + wall + 20)) s"
            return 1
        fi
        sleep 0.3
    done
    if [ "$state" = done ] && [ -n "$best" ] && "$proteus" candidate "$best" --json >"$folder/candidate$worker.json" 2>/dev/null; then
        refused=()
        if [ "$("$books" field "$folder/candidate$worker.json" /is_baseline)" = true ]; then        # what was said of the others belongs beside it
            timeout 10 "$proteus" watch "$job" 2>/dev/null | grep -E "^ +[0-9]+ " | tr -cd "[:print:]\n" | head -c 1000 >"$folder/refused$worker"
            refused=("$folder/refused$worker")
            say "$id: none beat the baseline: $(tr "\n" ";" <"$folder/refused$worker")"
        fi
        record "$id" "$folder/devices.json" "$folder/job$worker.json" "$folder/candidate$worker.json" "${refused[@]}"
    else
        record "$id" "$folder/devices.json" "$folder/job$worker.json"
        return 1
    fi
}
# Every so-many-th cell of the list.
work() {
    local worker=$1 line=0 id op axes dtypes hash
    while IFS=$'\t' read -r id op axes dtypes hash <&3; do
        line=$((line + 1))
        [ $((line % at_once)) = $((worker % at_once)) ] || continue
        [ "$(left)" -gt 5 ] || break
        if run_cell "$worker" "$id" "$op" "$axes" "$dtypes" "$hash" </dev/null; then
            echo good >>"$folder/count$worker"
        else
            echo bad >>"$folder/count$worker"
        fi
    done 3<"$folder/cells"
}
for worker in $(seq "$at_once"); do
    work "$worker" &
    workers="$workers $!"
done
for worker in $workers; do wait "$worker"; done
workers=
good=$(cat "$folder"/count* 2>/dev/null | grep -c good) bad=$(cat "$folder"/count* 2>/dev/null | grep -c bad)
[ -z "$times" ] || "$books" timed "$build/share/proteus" "$bench" "$results" "$times" || fail "the times cannot be added"
[ "$(left)" -gt 5 ] || say "the time is used up ($seconds s): run it again and it goes on"
say "$good of $total cells done, $bad failed, in $((SECONDS - began)) s; table: ${results%.json}.md"
say "$("$books" judged "$results") of $("$books" list "$build/share/proteus" "$bench" 1/1 /nonexistent.json | wc -l) cells are judged to the retest"
[ "$bad" = 0 ] && [ "$good" -gt 0 ]
