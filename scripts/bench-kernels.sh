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
#   BENCH_CANDIDATES=16 BENCH_CELL_SECONDS=120      the budget of a cell
#   BENCH_DEVICE=auto               cuda:N
#   BENCH_SIM=1                     on the emulator, to try the machinery: estimates, marked so, never into tests/bench/results
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BENCH_BUILD:-$PWD/build/release} bench=$PWD/tests/bench device=${BENCH_DEVICE:-auto}
seconds=${BENCH_SECONDS:-3600} cell_seconds=${BENCH_CELL_SECONDS:-120} candidates=${BENCH_CANDIDATES:-16} shard=${BENCH_SHARD:-1/1}
books=$build/bin/bench_kernels proteus=$build/bin/proteus
began=$SECONDS pid= folder=
say() { printf 'bench-kernels: %s\n' "$*"; }
fail() {
    say "$*" >&2
    [ -n "$folder" ] && [ -s "$folder/proteusd.err" ] && tail -n 5 "$folder/proteusd.err" >&2
    exit 1
}
cleanup() {
    local status=$?
    trap - EXIT INT TERM
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
else
    results=${BENCH_RESULTS:-}
    [ -n "$results" ] || fail "BENCH_SIM=1 wants BENCH_RESULTS=FILE.json"
    case $(realpath -m "$results") in "$bench"/results/*) fail "estimates do not go into tests/bench/results" ;; esac
fi
mkdir -p "$(dirname "$results")" || fail "there can be no $results"
"$books" list "$build/share/proteus" "$bench" "$shard" "$results" ${BENCH_ONLY:+"$BENCH_ONLY"} >"$folder/cells" || fail "no cells"
total=$(wc -l <"$folder/cells")
if [ "$total" = 0 ]; then
    say "nothing is left to do in shard $shard${BENCH_ONLY:+ of \"$BENCH_ONLY\"}: $results has it all"
    exit 0
fi

# the service
"$build/bin/proteusd" --listen 127.0.0.1:0 --data "$folder/data" --device "$device" --submits-per-minute 100000 >"$folder/out" 2>"$folder/proteusd.err" &
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
say "$total cells of shard $shard to do, $candidates candidates each, at most $seconds s; results in $results"

left() { echo $((seconds - (SECONDS - began))); }
# One cell: submit, wait for its end, keep what came of it.
run_cell() {
    local id=$1 op=$2 axes=$3 dtypes=$4 hash=$5 job state best last wall=$cell_seconds
    [ "$(left)" -lt "$wall" ] && wall=$(left)
    "$proteus" submit --op "$op" --axes "$axes" ${dtypes:+--dtype "$dtypes"} --candidates "$candidates" --wall-seconds "$wall" --reuse never --json \
        >"$folder/job.json" 2>"$folder/why" || { say "$id: $(head -c 300 "$folder/why")"; return 1; }
    { read -r job; read -r got; } < <("$books" field "$folder/job.json" /id /shapes/0/shape_hash)
    [ "$got" = "$hash" ] || { say "$id: the service hashes it as $got, the cells say $hash: are they of one version?"; return 1; }
    last=$((SECONDS + wall + 60))
    while :; do
        "$proteus" jobs "$job" --json >"$folder/job.json" 2>/dev/null
        { read -r state; read -r best; } < <("$books" field "$folder/job.json" /state /shapes/0/best/candidate)
        case $state in done | failed | cancelled) break ;; esac
        if [ $SECONDS -ge $last ] || [ "$(left)" -le 0 ]; then
            "$proteus" cancel "$job" --json >"$folder/job.json" 2>/dev/null
            say "$id: given up, the time is used up"
            return 1
        fi
        sleep 0.3
    done
    if [ "$state" = done ] && [ -n "$best" ] && "$proteus" candidate "$best" --json >"$folder/candidate.json" 2>/dev/null; then
        "$books" record "$build/share/proteus" "$bench" "$results" "$id" "$folder/devices.json" "$folder/job.json" "$folder/candidate.json"
    else
        "$books" record "$build/share/proteus" "$bench" "$results" "$id" "$folder/devices.json" "$folder/job.json"
        return 1
    fi
}
good=0 bad=0
while IFS=$'\t' read -r id op axes dtypes hash <&3; do
    [ "$(left)" -gt 5 ] || { say "the time is used up ($seconds s): run it again and it goes on"; break; }
    if run_cell "$id" "$op" "$axes" "$dtypes" "$hash" </dev/null; then good=$((good + 1)); else bad=$((bad + 1)); fi
done 3<"$folder/cells"
say "$good of $total cells done, $bad failed, in $((SECONDS - began)) s; table: ${results%.json}.md"
[ $bad = 0 ] && [ $good -gt 0 ]
