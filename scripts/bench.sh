#!/bin/bash
# Figures, no verdict: the emulator's speed, a served cubin against nginx (also beside 1,000 event streams), submit to durable 202
# against the disk's own two syncs, and how long the judge takes for a candidate. BENCH_SECONDS=5 a run of wrk. Ends what it starts.
set -u
cd "$(dirname "$0")/.."
build=$PWD/build/release
seconds=${BENCH_SECONDS:-5}
shape=(--op gdn_packed_decode --axes B=4,H=2,HV=8,K=128,V=128)
folder=$(mktemp -d "$PWD/build/bench.XXXXXX") || exit 1   # beside the build: a real disk, where /tmp may be memory
pids=()
stop() { for p in "${pids[@]}"; do kill "$p" 2>/dev/null; done; wait 2>/dev/null; rm -rf "$folder"; }
trap stop EXIT
trap 'exit 130' INT TERM
fail() { echo "bench: $*" >&2; tail -n 5 "$folder"/*.err 2>/dev/null >&2; exit 1; }
scripts/toolkit.sh >/dev/null || fail "without the toolkit there is no kernel to serve"

"$build/bin/proteusd" --listen 127.0.0.1:0 --data "$folder/data" --submits-per-minute 1000000 --max-queued 10000 >"$folder/out" 2>"$folder/proteusd.err" &
pids+=($!)
for _ in $(seq 100); do grep -q 'listening on' "$folder/out" && break; sleep 0.1; done
export PROTEUS_SERVER=$(sed -n 's/^proteusd: listening on //p' "$folder/out")
[ -n "$PROTEUS_SERVER" ] || fail "proteusd does not serve"
echo "machine: $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), kernel $(uname -r)"

echo "== the emulator: thread-instructions a second by kernel, kind of CPU, checks and threads"
"$build/tests/bench_ptx" --short || fail "the emulator finds fault with its own kernels"

echo "== judging, a candidate at a time (from proposed to verdict, compiling included)"
"$build/bin/proteus" submit "${shape[@]}" --candidates 12 --watch --json >"$folder/events" 2>>"$folder/proteusd.err" || fail "the job brought no kernel"
node tests/bench/bench.mjs judging "$folder/events"
hash=$("$build/bin/proteus" hash "${shape[@]}" --json | sed -n 's/.*"shape_hash": *"\([0-9a-f]*\)".*/\1/p')
path=/v1/kernels/$hash/kernel.cubin

mkdir -p "$folder/www/v1/kernels/$hash"
curl -fsS "$PROTEUS_SERVER$path" -o "$folder/www$path" || fail "no cubin"
port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
cat >"$folder/nginx.conf" <<CONF
pid $folder/nginx.pid; error_log $folder/nginx.err; worker_processes 2; daemon off; worker_rlimit_nofile 8192;
events { worker_connections 4096; }
http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; open_file_cache max=100; default_type application/octet-stream;
  client_body_temp_path $folder; proxy_temp_path $folder; fastcgi_temp_path $folder; uwsgi_temp_path $folder; scgi_temp_path $folder;
  server { listen 127.0.0.1:$port reuseport; root $folder/www; } }
CONF
nginx=$(PATH=$PATH:/usr/sbin command -v nginx) || fail "nginx is not installed"
[ "$(id -u)" = 0 ] && sed -i '1i user root;' "$folder/nginx.conf"
"$nginx" -c "$folder/nginx.conf" -p "$folder" 2>>"$folder/nginx.err" &
pids+=($!)
sleep 0.5
rate() { wrk -t1 -c64 -d"${seconds}s" "$1$path" | sed -n 's/^Requests\/sec: *//p'; }
echo "== GET kernel.cubin, $(stat -c %s "$folder/www$path") bytes, wrk -t1 -c64, ${seconds} s a run, requests a second"
for round in 1 2 3; do
    printf 'round %s   proteusd %12s   nginx %12s\n' $round "$(rate "$PROTEUS_SERVER")" "$(rate "http://127.0.0.1:$port")"
done
ulimit -n 8192 2>/dev/null
node tests/bench/bench.mjs streams "$PROTEUS_SERVER" 1000 >"$folder/streams" &
streams=$!
pids+=($streams)
for _ in $(seq 100); do grep -q open "$folder/streams" && break; sleep 0.1; done
echo "beside $(cat "$folder/streams")   proteusd $(rate "$PROTEUS_SERVER")"
kill "$streams" 2>/dev/null

echo "== submit to durable 202, one at a time"
node tests/bench/bench.mjs submit "$PROTEUS_SERVER" "$folder/data" 200
