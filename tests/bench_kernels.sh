#!/bin/bash
# make bench-kernels on the emulator, with a tiny subset: it records, goes on where it was cut off, marks estimates, shares cells out, and
# refuses what would make a figure look like what it is not.
# Usage: bench_kernels.sh SOURCE_DIR BUILD_DIR
set -u
source=$1 build=$2
"$source/scripts/toolkit.sh" >/dev/null 2>&1 || { echo "skipped: no CUDA toolkit, so no kernel can be compiled"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
checks=0 failures=0
ok() { checks=$((checks + 1)); local what=$1; shift; "$@" || { failures=$((failures + 1)); echo "failed: $what" >&2; tail -n 5 "$dir/out" >&2; }; }
not() { ! "$@"; }
has() { grep -qF -- "$1" "$2"; }
export BENCH_BUILD=$build TMPDIR=$dir BENCH_CANDIDATES=1 BENCH_CELL_SECONDS=60 BENCH_SECONDS=150
bench() { "$source/scripts/bench-kernels.sh" >"$dir/out" 2>&1; }
list() { "$build/bin/bench_kernels" list "$build/share/proteus" "$source/tests/bench" "$@"; }
R=$dir/r.json

# what there is to do
ok "the cells are listed" list 1/1 "$R" >"$dir/all"
ok "no cell twice" [ "$(cut -f1 "$dir/all" | sort | uniq -d | wc -l)" = 0 ]
ok "shards share them out" [ "$(cat <(list 1/3 "$R") <(list 2/3 "$R") <(list 3/3 "$R") | sort | md5sum)" = "$(sort "$dir/all" | md5sum)" ]
ok "a shard that is none" not list 4/3 "$R" 2>/dev/null
for tp in 1 2 4 8; do for batch in 1 4 16 64 2 8 256; do
    ok "gdn step tp=$tp batch=$batch" grep -q "^gdn_decode_step tp=$tp batch=$batch	" "$dir/all"
    ok "gdn tp=$tp batch=$batch" grep -q "^gdn_packed_decode tp=$tp batch=$batch	.*B=$batch,H=$((16 / tp)),HV=$((64 / tp)),K=128,V=128" "$dir/all"
done; done
for name in $(cd "$build/share/proteus/ops" && ls); do ok "operator $name has cells" grep -q "	$name	" "$dir/all"; done
ok "equal shapes are one cell" not grep -q '^rmsnorm tp=8' "$dir/all"

# refusals
if ! "$build/bin/proteus-gpu" devices | grep -q '"kind": "cuda"'; then
    BENCH_RESULTS=$R ok "no card, no figures" not bench
    ok "and it says so" has "there is no card here" "$dir/out"
fi
export BENCH_SIM=1
ok "estimates want a file" not bench
BENCH_RESULTS=$source/tests/bench/results/x.json ok "not among the results" not bench
ok "nothing was written there" [ ! -e "$source/tests/bench/results/x.json" ]

# a tiny run, cut off and gone on with
export BENCH_RESULTS=$R
BENCH_ONLY='topk_softmax tp=1 batch=1' BENCH_SHARD=1/2 bench; first=$(grep -c '"id":"topk' "$R" 2>/dev/null)
BENCH_ONLY='topk_softmax tp=1 batch=1' BENCH_SHARD=2/2 bench; second=$(grep -c '"id":"topk' "$R" 2>/dev/null)
ok "both shards gave their cells" [ "${second:-0}" = 2 ]
ok "the first gave some of them" [ "${first:-9}" -le 1 ]
ok "evidence is kept" [ "$(grep -c '"evidence":"emulated"' "$R")" = 2 ]
ok "the table marks estimates" has "the emulator's estimates" "$dir/r.md"
ok "and each of them" grep -qE '^\| topk_softmax \| 1, 8 \| 16 \| ~[0-9.]+ \| ~[0-9.]+ \|' "$dir/r.md"
ok "nothing is said over vLLM from an estimate" grep -qE '^\| topk_softmax \| 1, 8 \| 1 \| ~[0-9.]+ \| ~[0-9.]+ \| [^|]+ \| 4.36 \| - \|' "$dir/r.md"
cp "$R" "$dir/before.json"
BENCH_ONLY='topk_softmax tp=1 batch=1' ok "what is done is not done again" bench
ok "and it says so" has "nothing is left to do" "$dir/out"
ok "the file is as it was" cmp -s "$R" "$dir/before.json"

# times of settings: merged, seeds, a cell that nobody judged, aims by numbers
times() { # OPERATOR AXES NS...
    local op=$1 axes=$2 comma= n=0
    shift 2
    echo '{"device":{"name":"NVIDIA H200"},"times":['
    for ns; do
        echo "$comma{\"ns\":$ns,\"least_ns\":$ns,\"most_ns\":$ns,\"shape\":{\"op\":\"$op\",\"axes\":{$axes},\"dtypes\":{\"io\":\"bf16\"},\"target\":\"sm_90a\"},\"params\":$([ $n = 0 ] && echo null || echo "{\"template\":\"rows\",\"WARPS\":$n}")}"
        comma=, n=$((n + 1))
    done
    echo ']}'
}
K=$build/bin/bench_kernels T=$dir/t.json S=$build/share/proteus
times rmsnorm '"R":4,"N":3072,"weight_offset":1' 2000 1950 1900 1990 >"$dir/a.json"
times topk_softmax '"R":64,"E":256,"k":8' 3000 1500 >"$dir/b.json"
times rmsnorm '"R":4,"N":3072,"weight_offset":1' 2000 1980 >"$dir/c.json"
ok "times are merged" "$K" settings "$dir/all.json" "$dir/a.json" "$dir/b.json" "$dir/c.json"
ok "the fastest first, a later figure instead of an earlier" [ "$(grep -o '"ns":[0-9.]*' "$dir/all.json" | tr '\n' ' ')" = '"ns":2000.0 "ns":1900.0 "ns":1980.0 "ns":1990.0 "ns":3000.0 "ns":1500.0 ' ]
ok "and again they are the same" "$K" settings "$dir/again.json" "$dir/all.json"
ok "byte by byte" cmp -s "$dir/all.json" "$dir/again.json"
ok "seeds" "$K" seeds "$S" "$source/tests/bench" "$dir/seeds.json" "$dir/all.json"
ok "two a shape, the fastest first" [ "$(grep -o '"WARPS":[0-9]*' "$dir/seeds.json" | tr '\n' ' ')" = '"WARPS":2 "WARPS":1 "WARPS":1 ' ]
ok "timed cells" "$K" timed "$S" "$source/tests/bench" "$T" "$dir/all.json"
ok "are marked" grep -qE '^\| rmsnorm \| 1, 8 \| 4 \| 1.90° \| 2.00° \| 1.05° \| 1.94 \| 1.02 \|.*\*\*missed\*\*: 1.02 of 1.15 \|' "$dir/t.md"
ok "no aim, no verdict" grep -qE '^\| topk_softmax \| 1, 8 \| 64 \| 1.50° .* - \|$' "$dir/t.md"
ok "what is missed is listed by numbers" grep -qE '^- rmsnorm tp=1 batch=4: 1.021 of 1.15 over fastest; 1.90 us; byte floor 0.0[0-9] us' "$dir/t.md"
ok "0 of 1" has "## Aims: 0 of 1 met" "$dir/t.md"
ok "none of them was judged" [ "$("$K" judged "$T")" = 0 ]
ok "they are still to do" [ "$(list 1/1 "$T" | wc -l)" = "$(wc -l <"$dir/all")" ]
ok "what was judged is not" [ "$("$K" judged "$R")" = 2 ]
ok "a judged cell stays beside a timed one" "$K" merge "$dir/m2.json" "$R" "$R"
# what is not of this device or this cell
sed 's/"name":"emulator[^"]*"/"name":"another card"/' "$R" >"$dir/other.json"
ok "files of two devices are not merged" not "$build/bin/bench_kernels" merge "$dir/m.json" "$R" "$dir/other.json" 2>/dev/null
ok "two of one are" "$build/bin/bench_kernels" merge "$dir/m.json" "$R" "$dir/before.json"
ok "with each cell once" [ "$(grep -c '"id":"topk' "$dir/m.json")" = 2 ]
[ -z "$(ls "$dir" | grep bench-kernels)" ] || { echo "a run left its folder behind" >&2; failures=$((failures + 1)); }
echo "$checks checks, $failures failed"
[ $failures = 0 ]
