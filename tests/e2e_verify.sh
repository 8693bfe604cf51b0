#!/bin/bash
# From a search to a kernel that others can check, with the real programs: verified offline by proteus and by Debian's minisign, judged
# again, withdrawn, brought back, judged again by the service; what was tampered with is found. Usage: e2e_verify.sh SOURCE_DIR BUILD_DIR
set -u
build=$2
dir=$(mktemp -d /tmp/proteus-e2e-verify-XXXXXX) checks=0 failures=0 pid=0
unset ${!PROTEUS_@} http_proxy https_proxy
export TERM=dumb
finish() {
    [ "$pid" != 0 ] && kill -9 "$pid" 2>/dev/null
    rm -rf "$dir"
}
trap finish EXIT
"$build/bin/proteus-gpu" serve-devices | grep -aq '"toolkit":{"version":"' || { echo "skipped: no CUDA toolkit"; exit 77; }

# run WANTED ARGS...: proteus; output in $dir/out
run() {
    local want=$1
    shift
    timeout 120 "$build/bin/proteus" "$@" >"$dir/out" 2>&1 </dev/null
    local got=$?
    checks=$((checks + 1))
    [ $got = "$want" ] || { failures=$((failures + 1)); echo "line ${BASH_LINENO[0]}: proteus $*: status $got, wanted $want: $(tail -5 "$dir/out")" >&2; }
}
ok() { checks=$((checks + 1)); "$@" || { failures=$((failures + 1)); echo "line ${BASH_LINENO[0]}: failed: $*: $(tail -5 "$dir/out")" >&2; }; }
has() { ok grep -qE -- "$1" "$dir/out"; }

"$build/bin/proteusd" --listen 127.0.0.1:0 --data "$dir/data" --device sim >"$dir/said" 2>"$dir/err" &
pid=$!
for _ in $(seq 300); do [ -s "$dir/said" ] && break; sleep 0.05; done
export PROTEUS_SERVER=$(sed -n 's/^proteusd: listening on //p' "$dir/said")
run 0 key --output "$dir/pinned.pub"
shape=(--op rmsnorm --axes R=4,N=256 --dtype io=f32)
run 0 hash "${shape[@]}" --json
hash=$(sed -n 's/.*"shape_hash": *"\([0-9a-f]*\)".*/\1/p' "$dir/out")
run 0 submit "${shape[@]}" --candidates 3 --watch
run 0 fetch "$hash" -o "$dir/kernel" --key "$dir/pinned.pub"

# offline, by proteus and by minisign
run 0 verify "$dir/kernel/bundle.tar" --key "$dir/pinned.pub" --shape-hash "$hash"
has 'ok +certificate +all [0-9]+ items'
has 'ok +program'
has 'no process and no seed twice'
run 0 verify "$dir/kernel" --key "$dir/pinned.pub"
if command -v minisign >/dev/null; then
    for file in certificate.json manifest.json; do
        ok minisign -V -q -m "$dir/kernel/$file" -p "$dir/pinned.pub" >/dev/null 2>&1
    done
fi
ok [ "$(grep -c '"got"' "$dir/kernel/certificate.json")" -gt 0 ]

# a byte anywhere: in each file, in its header, behind the end
size=$(stat -c %s "$dir/kernel/bundle.tar")
for at in 0 100 124 148 156 257 345 511 512 700 $((size / 3)) $((size / 2)) $((size * 2 / 3)) $((size - 1500)) $((size - 1)); do
    cp "$dir/kernel/bundle.tar" "$dir/bad.tar"
    printf '\x7e' | dd of="$dir/bad.tar" bs=1 seek="$at" conv=notrunc status=none
    run 1 verify "$dir/bad.tar" --key "$dir/pinned.pub"
done
head -c $((size - 512)) "$dir/kernel/bundle.tar" >"$dir/bad.tar"
run 1 verify "$dir/bad.tar" --key "$dir/pinned.pub"

# judged again here; by another operator it is not
run 0 verify "$dir/kernel/bundle.tar" --key "$dir/pinned.pub" --rerun --device sim
has 'CERTIFICATE'
has '^confirmed'
cp -rL "$build/share/proteus/ops" "$dir/ops"
echo >>"$dir/ops/rmsnorm/reference.c"
run 6 verify "$dir/kernel/bundle.tar" --key "$dir/pinned.pub" --rerun --device sim --ops-dir "$dir/ops"
has 'operator rmsnorm is another one here'

# withdrawn, the next best, nothing; brought back
best=$(sed -n 's/.*"candidate": "\(cand_[^"]*\)".*/\1/p' "$dir/kernel/manifest.json" | head -1)
run 2 quarantine "$hash"
run 0 quarantine "$hash" --reason "a doubt"
has "$best +quarantined"
run 0 kernels "$hash"
for _ in 1 2 3; do
    run 0 kernels "$hash" --json
    grep -qE '"is_baseline": *true' "$dir/out" && break
    run 0 quarantine "$hash" --reason "all of them"
done
run 0 fetch "$hash" -o "$dir/baseline" --key "$dir/pinned.pub"      # the last that is left has no retest, and is verified like any other
run 0 verify "$dir/baseline/bundle.tar" --key "$dir/pinned.pub" --rerun --device sim
has '^confirmed'
run 0 quarantine "$hash" --reason "all of them"
run 1 kernels "$hash"
has 'withdrawn: (a doubt|all of them)'
run 1 fetch "$hash" -o "$dir/none" --key "$dir/pinned.pub"
run 0 restore "$hash" --candidate "$best"
run 0 fetch "$hash" -o "$dir/back" --key "$dir/pinned.pub"
ok cmp "$dir/kernel/certificate.json" "$dir/back/certificate.json"

# judged again by the service: another certificate, by the same key
run 0 revalidate "$hash" --watch
run 0 fetch "$hash" -o "$dir/renewed" --key "$dir/pinned.pub"
ok [ "$(cmp -s "$dir/kernel/certificate.json" "$dir/renewed/certificate.json"; echo $?)" = 1 ]
ok cmp "$dir/kernel/source" "$dir/renewed/source"
ok cmp "$dir/kernel/kernel.cubin" "$dir/renewed/kernel.cubin"
run 0 verify "$dir/renewed/bundle.tar" --key "$dir/pinned.pub"
run 3 release "$best"
has 'is not held'

kill -TERM "$pid"
wait "$pid"
ok [ $? = 0 ]
pid=0
echo "$checks checks, $failures failed"
[ $failures = 0 ] && [ $checks -gt 40 ]
