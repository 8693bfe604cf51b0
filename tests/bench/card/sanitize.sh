#!/bin/bash
# Planted bugs and the gated-delta baseline, under compute-sanitizer on the card and in the emulator on the same host: findings, time.
# Usage: sanitize.sh DIR OUT   DIR: sanitize (of sanitize.cu), proteus-gpu, planted.cu, ops/, lib/ (shared libraries, if not installed)
DIR=$1 OUT=$2
export LD_LIBRARY_PATH=$DIR/lib PROTEUS_OPS_DIR=$DIR/ops
CS=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
[ -n "$CS" ] || { echo "no compute-sanitizer here" >&2; exit 1; }
now() { date +%s%N; }
took() { echo $(( ($(now) - $1) / 1000000 )); }
mkdir -p "$OUT"
kernels="no_bug out_of_bounds stray_store uninitialised_global uninitialised_shared shared_race missing_barrier global_race misaligned divergent_barrier"
args="--grid 64 --block 128 --buffer x=32768:random:ro --buffer work=32768 --buffer y=32768 --arg x --arg work --arg y --arg 8192"
for k in $kernels; do
  for tool in memcheck racecheck initcheck synccheck; do
    limit=30; [ $k = divergent_barrier ] && limit=8
    s=$(now); timeout $limit "$CS" --tool $tool --print-limit 1 "$DIR/sanitize" $k > "$OUT/log" 2>&1; rc=$?
    echo "$k $tool $(took $s) ms rc $rc: $(grep -m1 -E '========= (Error|Warning|Invalid|Uninitialized|Barrier|Misaligned)|Race reported|misaligned' "$OUT/log"); $(grep -E 'SUMMARY' "$OUT/log" | head -1)"
  done
  for i in 1 2 3; do
    s=$(now); text=$("$DIR/proteus-gpu" emulate "$DIR/planted.cu" --kernel $k $args --schedules 4); rc=$?
    echo "$k emulator $(took $s) ms rc $rc: $(echo "$text" | head -1 | sed 's|.*/planted|planted|') | $(echo "$text" | grep -o 'in [0-9.]* ms')"
  done
done > "$OUT/findings.txt"
for b in 4 64; do
  s=$(now); "$DIR/sanitize" baseline $b; echo "baseline B=$b none $(took $s) ms"
  for tool in memcheck racecheck initcheck synccheck; do
    s=$(now); "$CS" --tool $tool "$DIR/sanitize" baseline $b; echo "baseline B=$b $tool $(took $s) ms"
  done
  shape="{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":$b,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}"
  for threads in 1 16; do for i in 1 2 3 4 5; do
    s=$(now); text=$("$DIR/proteus-gpu" emulate "$DIR/ops/gdn_packed_decode/baseline.cu" --plan "$DIR/ops/gdn_packed_decode/baseline.json" --shape "$shape" --schedules 1 --threads $threads)
    echo "baseline B=$b emulator $threads threads $(took $s) ms: $(echo "$text" | tail -1 | grep -o 'clean.*')"
  done; done
done > "$OUT/time.txt" 2>&1
rm -f "$OUT/log"
