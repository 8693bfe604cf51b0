#!/bin/bash
# An operator registered over HTTP with a real judge: taken, judged by, there after a restart; and bad ones, each refused for what is bad.
# Usage: e2e_ops.sh SOURCE BUILD
set -u
source=$1 build=$2
dir=$(mktemp -d /tmp/proteus-e2e-ops-XXXXXX) checks=0 failures=0 pid=0
unset ${!PROTEUS_@} http_proxy https_proxy

finish() {
    [ "$pid" != 0 ] && kill -9 "$pid" 2>/dev/null
    rm -rf "$dir"
}
trap finish EXIT
ok() { checks=$((checks + 1)); local what=$1; shift; "$@" || { failures=$((failures + 1)); echo "failed: $what" >&2; }; }
is() { [ "$1" = "$2" ] || { echo "  got \"$1\", wanted \"$2\"; body: $(head -c 600 "$dir/body")" >&2; false; }; }
has() { grep -qF -- "$1" "$dir/body" || { echo "  no \"$1\" in: $(head -c 600 "$dir/body")" >&2; false; }; }
status() { curl -s -o "$dir/body" -w '%{http_code}' --max-time 120 "$@"; }
put() { status -X PUT -H 'Content-Type: application/json' --data-binary "@$dir/request" "$url/v1/ops/$1"; }

for program in node curl; do
    command -v $program >/dev/null || { echo "skipped: $program is missing"; exit 77; }
done
"$build/bin/proteus-gpu" serve-devices | grep -aq '"toolkit":{"version":"' || { echo "skipped: no CUDA toolkit"; exit 77; }

start() {
    "$build/bin/proteusd" --listen 127.0.0.1:0 --data "$dir/data" --device sim >"$dir/out" 2>"$dir/err" &
    pid=$!
    for _ in $(seq 300); do
        [ -s "$dir/out" ] && break
        sleep 0.05
    done
    url=$(sed -n 's/^proteusd: listening on //p' "$dir/out")
}
stop() { kill -TERM "$pid"; wait "$pid"; pid=0; }

# request NAME VERSION [JAVASCRIPT]: the body made of an operator of the tree, which is `r`, with a change
request() {
    node -e '
        const fs = require("fs"), [from, name, version, change] = process.argv.slice(1), read = f => fs.readFileSync(`${from}/${f}`, "utf8");
        const r = {op: JSON.parse(read("op.json")), reference: read("reference.c"), baseline: JSON.parse(read("baseline.json"))};
        r.baseline.source = read("baseline.cu");
        Object.assign(r.op, {name, version: +version});
        r.op.dtypes.io = ["f32"];
        eval(change || "");
        process.stdout.write(JSON.stringify(r));' "$source/gpu/ops/rmsnorm" "$@" >"$dir/request"
}

start
request my_norm 1
ok "taken" is "$(put my_norm)" 201
ok "its canaries are told" has '"canary":"dropped:eps"'
ok "the same again is no change" is "$(put my_norm)" 200
ok "shown" is "$(status "$url/v1/ops/my_norm")" 200
ok "hidden regimes are not shown" is "$(grep -c outliers "$dir/body")" 0

# judged by, with its own reference and baseline
ok "a job" is "$(status -H 'Content-Type: application/json' -d '{"op":"my_norm","shapes":[{"R":3,"N":64}],"budget":{"candidates":1}}' "$url/v1/jobs")" 202
job=$(sed 's/.*"id":"\(job_[0-9A-Za-z]*\)".*/\1/' "$dir/body")
for _ in $(seq 600); do
    status "$url/v1/jobs/$job" >"$dir/code"
    grep -q '"state":"\(queued\|running\)"' "$dir/body" || break
    sleep 0.1
done
ok "its baseline is served" is "$(status "$url/v1/kernels?op=my_norm")" 200
ok "as a kernel" has '"op":"my_norm"'

# refused, each with its place and reason; what was there stays
request my_norm 1 'r.op.description = "another"'
ok "another content under one version" is "$(put my_norm)" 409
request my_norm 2 'r.op.tolerance = {y: {max: 1, rms: 1}}'
ok "a weak tolerance" is "$(put my_norm)" 422
ok "is caught by a canary" has 'canary '
ok "which is named" has 'its tolerance is too loose'
ok "as a problem" has '"pointer":"/op"'
request my_norm 2 'for (const x in r.op.regimes) (r.op.regimes[x].inputs ??= {}).weight = {dist: "constant", value: 1}'
ok "an input that no regime varies" is "$(put my_norm)" 422
ok "is named" has 'other_input:weight'
request my_norm 2 'r.reference = r.reference.replace("sum / (double)n", "sum / (double)m")'
ok "a reference that does not compile" is "$(put my_norm)" 422
ok "with the compiler's words" has "reference.c:17:"
request my_norm 2 'r.reference = r.reference.replace("void proteus", "static void proteus")'
ok "a reference without its function" is "$(put my_norm)" 422
request my_norm 2 'r.reference = r.reference.replace("double sum = 0;", "double sum = 0; (void)*(volatile int *)0;")'
ok "a reference that crashes" is "$(put my_norm)" 422
ok "is at fault itself" has '"pointer":"/reference"'
request my_norm 2 'r.baseline.source = r.baseline.source.replace("sum / N + eps", "sum / N")'
ok "a wrong baseline" is "$(put my_norm)" 422
ok "with its regime" has 'its baseline is wrong in regime tiny'
ok "the old one is there" is "$(status "$url/v1/ops/my_norm")" 200
ok "as it was" has '"version":1'

request my_norm 2 'r.op.description = "another"'
ok "a new version" is "$(put my_norm)" 200
stop
start
ok "after a restart" is "$(status "$url/v1/ops/my_norm")" 200
ok "it is the new version" has '"version":2'
stop
echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ]
