#!/bin/bash
# The whole judge, twice a fault: a candidate that does it, whose verdict must be the right one, and at once the operator's baseline as a
# candidate, which must be judged right. Each with its time. On a card the faulty code starts with an instruction that the emulator does
# not know, so that the card and not the emulator meets the fault.
# Usage: after_faults.sh PROTEUS_GPU OPS_DIR [DEVICE]
set -u
gpu=$1 ops=$2 device=${3:-sim} op=silu_and_mul
case $device in cuda*) column=3 first='asm volatile("{ .reg .b32 t; vadd.s32.s32.s32 t, 1, 2; }");' ;; *) column=4 first= ;; esac
"$gpu" serve-devices 2>/dev/null | grep -aq '"toolkit":{"version":"' || { echo "skipped: no CUDA toolkit to compile with"; exit 77; }
"$gpu" devices | grep -q "\"id\": *\"$device\"" || { echo "skipped: there is no $device here"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
shape="{\"op\":\"$op\",\"axes\":{\"R\":4,\"N\":1024}}"
now() { date +%s%N; }
# What the judge says of a candidate, in one word, and how long it took in ms. Right but not faster than itself is right.
judge() {
    from=$(now)
    code=$("$gpu" judge-file --device "$device" --ops-dir "$ops" --mode triage --shape "$shape" --candidate "$1" 2>"$work/stderr" | tee "$work/stdout" | awk 'END { print $1 }')
    ms=$((($(now) - from) / 1000000))
}
bad=0 count=0
judge "$ops/$op"
echo "honest, before any fault: $code in $ms ms"
# name ~ code at the kernel's start ~ verdicts on a card ~ verdicts on the emulator ("-": not tried)
while IFS='~' read -r -u 3 name body card sim; do
    wanted=$(echo "$card~$sim" | cut -d'~' -f$((column - 2)))
    [ "$wanted" != - ] || continue
    mkdir -p "$work/bad"
    cp "$ops/$op/baseline.json" "$work/bad/"
    awk -v line="    $first $body" '{ gsub(/\\/, "\\\\", body) } /for \(int i = threadIdx.x; i < N/ { print line } { print }' "$ops/$op/baseline.cu" >"$work/bad/baseline.cu"
    judge "$work/bad"
    got=$code took=$ms
    judge "$ops/$op"
    count=$((count + 1))
    case " $wanted " in *" ${got:-nothing} "*) word=ok ;; *) word=WRONG bad=$((bad + 1)); cat "$work/stderr" ;; esac
    case $code in ok | not_faster | unclear) after=ok ;; *) after="NOT USABLE ($code)" bad=$((bad + 1)); cat "$work/stdout" "$work/stderr" ;; esac
    printf '%-5s %-28s %-20s in %6d ms, then honest %s (%s) in %5d ms\n' "$word" "$name" "${got:-nothing}" "$took" "$after" "$code" "$ms"
done 3<<'LIST'
trap~if (threadIdx.x == 7) __trap();~fault~fault
endless loop~while (*(volatile int *)(unsigned long long)x != 0x12345678) ;~timeout~timeout
illegal address~if (threadIdx.x == 7) *(volatile float *)0x7000000000 = 1.f;~out_of_bounds~out_of_bounds
misaligned address~if (threadIdx.x == 7) *(volatile float *)((char *)y + 2) = 1.f;~misaligned~misaligned
write to an input~if (threadIdx.x == 7) ((volatile float *)x)[3] = 1.f;~out_of_bounds input_modified~input_modified
shared, far outside~__shared__ float far[32]; ((volatile float *)far)[blockIdx.x * 1000000 + 100000] = 1.f;~out_of_bounds fault~out_of_bounds
barrier that half reach~if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");~-~barrier_divergence
jump into nowhere~((void (*)(int))(0x12345678ull * gridDim.x))(3);~fault out_of_bounds rejected.forbidden~rejected.forbidden unsupported_on_sim fault out_of_bounds
heap~float *p = (float *)malloc(1 << 20); p[threadIdx.x] = 1.f;~-~rejected.forbidden
printf flood~for (int r = 0; r < 100000; r++) printf("%d ", r);~-~rejected.forbidden
half a mebibyte of local~volatile float far[130000]; far[(threadIdx.x * 977) % 130000] = 1.f; if (far[(threadIdx.x * 977) % 130000] == 5.f) __trap();~resource_limit~resource_limit
LIST
echo "$((count - bad)) of $count faults left the device usable and were told right"
[ "$count" -gt 0 ] && [ "$bad" -eq 0 ]
