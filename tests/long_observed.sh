#!/bin/bash
# Observed shapes on the real service and emulator: the order is by bytes until the estimates are there, then by what they say; a restart keeps them; limits hold.
# Usage: long_observed.sh SOURCE BUILD
set -u
source=$1 build=$2
proteus=$build/bin/proteus proteusd=$build/bin/proteusd
dir=$(mktemp -d "${TMPDIR:-/tmp}/proteus-observed.XXXXXX") || exit 1
pid=0 checks=0 failures=0
unset ${!PROTEUS_@} http_proxy https_proxy
finish() {
    [ "$pid" != 0 ] && kill -9 "$pid" 2>/dev/null
    rm -rf "$dir"
}
trap finish EXIT
cuda_home=$("$source/scripts/toolkit.sh") || { echo "skipped: there is no toolkit"; exit 77; }

is() {      # is WHAT GOT WANTED
    checks=$((checks + 1))
    [ "$2" = "$3" ] || { failures=$((failures + 1)); echo "failed: $1: got \"$2\", wanted \"$3\"" >&2; }
}
start() {
    : >"$dir/out"
    "$proteusd" --listen 127.0.0.1:0 --data "$dir/data" --cuda-home "$cuda_home" "$@" >"$dir/out" 2>"$dir/err" &
    pid=$!
    for _ in $(seq 300); do
        [ -s "$dir/out" ] && break
        kill -0 "$pid" 2>/dev/null || { cat "$dir/err" >&2; exit 1; }
        sleep 0.05
    done
    export PROTEUS_SERVER=$(sed -n 's/^proteusd: listening on //p' "$dir/out")
}
stop() {
    kill -TERM "$pid"
    wait "$pid"
    pid=0
}
list() { curl -s --max-time 10 "$PROTEUS_SERVER/v1/observations?limit=${1:-20}"; }
ops() { list | grep -o '"op":"[a-z_0-9]*"' | cut -d'"' -f4 | tr '\n' ' '; }
bases() { list 200 | grep -o '"based_on":"[a-z_]*"' | cut -d'"' -f4 | sort | uniq -c | awk '{printf "%s=%s ", $2, $1}'; }
wait_bases() {  # wait_bases TEXT: at most a minute
    for _ in $(seq 300); do
        [ "$(bases)" = "$1" ] && break
        sleep 0.2
    done
    is "what it is based on" "$(bases)" "$1"
}

# The product has hundreds of times the bytes of the choice among experts, whose baseline has far more to lose.
cat >"$dir/log" <<'END'
{"op":"gemm_nt","axes":{"M":1,"N":3072,"K":128},"count":1000}
{"op":"topk_softmax","axes":{"R":1,"E":256,"k":8},"count":1000}
END
start --estimate-candidates 0
"$proteus" observe "$dir/log" >"$dir/told"
is "taken" "$(cut -d, -f1,2 "$dir/told")" "2 lines: 2 taken, 2 shapes not seen before"
is "by bytes" "$(ops)$(bases)" "gemm_nt topk_softmax byte_floor=2 "
stop

start --estimate-shapes 1
wait_bases "byte_floor=1 estimate=1 "
sleep 1
wait_bases "byte_floor=1 estimate=1 "
stop

start
wait_bases "estimate=2 "
is "by estimates" "$(ops)" "topk_softmax gemm_nt "
is "marked" "$(list | grep -o '"evidence":"[a-z]*"' | sort | uniq -c | awk '{print $1, $2}')" '2 "evidence":"emulated"'
is "never measured" "$(list | grep -c '"measured"')" 0
is "shown" "$("$proteus" observe | awk 'NR > 1 {print $2}' | tr '\n' ' ')" "topk_softmax gemm_nt "
is "served" "$(curl -s "$PROTEUS_SERVER/v1/kernels" | grep -o '"kernels":\[\]')" '"kernels":[]'
stop

# Another start, without estimating: nothing is lost. One of a neighbouring batch is guessed.
start --estimate-candidates 0
is "kept" "$(ops)$(bases)" "topk_softmax gemm_nt estimate=2 "
echo '{"op":"topk_softmax","axes":{"R":2,"E":256,"k":8},"count":2000}' >"$dir/more"
"$proteus" observe "$dir/more" >/dev/null
is "guessed" "$(bases)" "estimate=2 nearby_estimate=1 "
is "by its neighbour, twice as often" "$(ops)" "topk_softmax topk_softmax gemm_nt "
is "in words" "$("$proteus" observe | grep -c 'one close by')" 1
is "and no more" "$(curl -s -o /dev/null -w '%{http_code}' -X DELETE "$PROTEUS_SERVER/v1/observations")" 200
is "forgotten" "$(bases)" ""
stop

# Thousands at once: the list answers, and a job is done while they are estimated.
start --submits-per-minute 100
for r in $(seq 1 2000); do echo "{\"op\":\"rmsnorm\",\"axes\":{\"R\":$r,\"N\":1024},\"count\":$r}"; done >"$dir/many"
"$proteus" observe "$dir/many" >"$dir/told"
is "all taken" "$(cut -d, -f1,2 "$dir/told")" "2000 lines: 2000 taken, 2000 shapes not seen before"
"$proteus" submit --op topk_softmax --axes R=1,E=256,k=8 --candidates 1 --watch >"$dir/job" 2>&1
is "a job meanwhile" "$?" 0
is "answers meanwhile" "$(list 1 | grep -c '"observations"')" 1
from=$(date +%s%N)
stop
ms=$((($(date +%s%N) - from) / 1000000))
is "stops at once ($ms ms)" "$((ms < 5000))" 1
echo "$checks checks, $failures failed"
[ $failures = 0 ]
