#!/bin/bash
# A template search through a job for each operator at a small shape: the baseline is right, and a kernel of a template is verified.
# Usage: e2e_catalogue.sh BUILD
set -u
build=$1
dir=$(mktemp -d /tmp/proteus-e2e-catalogue-XXXXXX) pid=0 failures=0 checks=0
unset ${!PROTEUS_@} http_proxy https_proxy

finish() {
    [ "$pid" != 0 ] && kill -9 "$pid" 2>/dev/null
    rm -rf "$dir"
}
trap finish EXIT

for program in node curl; do
    command -v $program >/dev/null || { echo "skipped: $program is missing"; exit 77; }
done
"$build/bin/proteus-gpu" serve-devices | grep -aq '"toolkit":{"version":"' || { echo "skipped: no CUDA toolkit"; exit 77; }

"$build/bin/proteusd" --listen 127.0.0.1:0 --data "$dir/data" --device sim >"$dir/out" 2>"$dir/err" &
pid=$!
for _ in $(seq 300); do
    [ -s "$dir/out" ] && break
    sleep 0.05
done
url=$(sed -n 's/^proteusd: listening on //p' "$dir/out")

# try OPERATOR AXES CANDIDATES
try() {
    checks=$((checks + 1))
    curl -s --max-time 30 -H 'Content-Type: application/json' -o "$dir/body" \
        -d "{\"op\":\"$1\",\"shapes\":[$2],\"generator\":\"template\",\"budget\":{\"candidates\":$3}}" "$url/v1/jobs"
    local job
    job=$(sed -n 's/.*"id":"\(job_[0-9A-Za-z]*\)".*/\1/p' "$dir/body")
    for _ in $(seq 900); do
        curl -s --max-time 30 -o "$dir/body" "$url/v1/jobs/$job"
        grep -q '"state":"\(queued\|running\)"' "$dir/body" || break
        sleep 0.1
    done
    node -e '
        const job = JSON.parse(require("fs").readFileSync(process.argv[1])), s = job.shapes[0];
        const best = s.best && s.baseline && s.best.candidate !== s.baseline.candidate;
        if (job.state !== "done" || !best) { console.log(process.argv[2] + ": " + JSON.stringify(job).slice(0, 900)); process.exit(1); }' "$dir/body" "$1" ||
        failures=$((failures + 1))
}

try causal_conv1d_update '{"B":3,"C":256}' 2
try fused_add_rmsnorm '{"R":3,"N":256}' 1
try topk_softmax '{"R":3,"E":128,"k":4}' 1
try rope_neox '{"B":3,"HQ":4,"HK":1,"d":64,"rot":32}' 1
try quant_fp8_per_token '{"R":3,"N":256}' 1
try gemm_nt '{"M":3,"N":64,"K":2048}' 3
try gqa_decode '{"B":2,"HQ":4,"HK":1,"d":64,"T":100}' 4
try gdn_decode_step '{"B":1,"H":1,"HV":2,"K":64,"V":64}' 2

kill -TERM "$pid"
wait "$pid" || failures=$((failures + 1))
pid=0
echo "$checks operators, $failures failed"
[ "$failures" = 0 ]
