#!/bin/bash
# Requests a second of proteusd and of nginx serving the same bytes, in turn, without and with live event streams; and how long
# a submission takes. Usage: bench_http.sh BUILD OUT_DIR [SECONDS [ROUNDS]]. Prints a table, writes OUT_DIR/http.json.
set -eu
build=$1 out=$2 seconds=${3:-4} rounds=${4:-3}
streams=1000 connections=64 sizes="4096 32768"
for tool in nginx wrk curl; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
dir=$(mktemp -d /tmp/proteus-bench-XXXXXX) pids=()
unset ${!PROTEUS_@} http_proxy https_proxy
ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)"
finish() {
    for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$dir"
}
trap finish EXIT

free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 20000))
        (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo $port; return; }
    done
}
start() {     # start ARGS...: proteusd; sets url and server
    : >"$dir/out"
    "$build/bin/proteusd" --listen 127.0.0.1:0 --data "$dir/data" --log-level warn --device-refresh 3600 --submits-per-minute 1000000 \
        "$@" >"$dir/out" 2>"$dir/err" &
    server=$!
    pids+=($server)
    for _ in $(seq 300); do
        [ -s "$dir/out" ] && break
        sleep 0.05
    done
    url=$(sed -n 's/^proteusd: listening on //p' "$dir/out")
    [ -n "$url" ] || { cat "$dir/err"; exit 1; }
}
stop() { kill "$server"; wait "$server" || true; }
# The processor time that processes have used so far, in ticks of 10 ms.
ticks() { cat $(printf '/proc/%s/stat ' "$@") | awk '{sub(/.*\) /, ""); t += $12 + $13} END {print t}'; }
rate() { wrk -t1 -c$connections -d"${seconds}s" "$1" | awk '/Requests\/sec/ {r = $2} /requests in/ {n = $1} /Non-2xx|Socket errors/ {bad = 1}
    END {if (bad) r = 0; print r, n}'; }
# measure URL PIDS...: requests a second, and microseconds of the server's processor time for each
measure() {
    local url=$1 from
    shift
    from=$(ticks "$@")
    set -- $(rate "$url") "$@"
    local per_s=$1 count=$2
    shift 2
    echo "$per_s $((($(ticks "$@") - from) * 10000000 / (count + 1)))"
}
median() { cut -d' ' -f"$1" | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

# ---- the same bytes for both ----
mkdir "$dir/html"
hash=""
for size in $sizes; do
    rm -rf "$dir/data"
    hash=$("$build/tests/bench_fill" "$dir/data" "$size")
    mv "$dir/data" "$dir/data.$size"
done
port=$(free_port)
cat >"$dir/nginx.conf" <<CONF
daemon off;
worker_processes auto;
pid $dir/nginx.pid;
error_log $dir/nginx.err;
events { worker_connections 8192; use epoll; }
http {
    access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; etag on;
    keepalive_requests 1000000000; keepalive_timeout 75;
    open_file_cache max=1000 inactive=60s;
    types { application/octet-stream cubin; }
    client_body_temp_path $dir/t1; proxy_temp_path $dir/t2; fastcgi_temp_path $dir/t3; uwsgi_temp_path $dir/t4; scgi_temp_path $dir/t5;
    server { listen 127.0.0.1:$port reuseport; root $dir/html; }
}
CONF
chmod 755 "$dir" "$dir/html"
nginx -c "$dir/nginx.conf" -p "$dir" 2>/dev/null &
nginx=$!
pids+=($nginx)

rows=""
for size in $sizes; do
    rm -rf "$dir/data"
    mv "$dir/data.$size" "$dir/data"
    start --heartbeat-ms 1000
    curl -sf "$url/v1/kernels/$hash/kernel.cubin" -o "$dir/html/k.cubin"
    chmod 644 "$dir/html/k.cubin"
    for live in 0 $streams; do
        if [ $live != 0 ]; then
            coproc holder { "$build/tests/bench_streams" "${url#http://}" /v1/events $live; }
            read -r -t 60 line <&"${holder[0]}" && [ "$line" = ready ] || { echo "the streams could not be opened"; exit 1; }
        fi
        : >"$dir/a"; : >"$dir/b"
        for _ in $(seq "$rounds"); do
            measure "http://127.0.0.1:$port/k.cubin" $(pgrep -P "$nginx") >>"$dir/a"
            measure "$url/v1/kernels/$hash/kernel.cubin" "$server" >>"$dir/b"
        done
        rows+="$size $live $(median 1 <"$dir/a") $(median 1 <"$dir/b") $(median 2 <"$dir/a") $(median 2 <"$dir/b")"$'\n'
        if [ $live != 0 ]; then
            holder_pid_saved=$holder_PID
            kill "$holder_PID" 2>/dev/null || true
            wait "$holder_pid_saved" 2>/dev/null || true
        fi
    done
    stop
done

# ---- submissions: of a shape whose kernel is known, so that no judge runs beside ----
rm -rf "$dir/data"
start
body='{"op":"rmsnorm","axes":{"R":4,"N":512}}'
known=$(curl -sf -X POST -H 'Content-Type: application/json' -d "$body" "$url/v1/shape-hash" | sed 's/.*"shape_hash":"\([0-9a-f]*\)".*/\1/')
stop
"$build/tests/bench_fill" "$dir/data" 4096 "$known" >/dev/null
start
submit=$("$build/tests/bench_submit" "${url#http://}" "$dir" 200 '{"op":"rmsnorm","shapes":[{"R":4,"N":512}]}')
stop

# ---- the table ----
printf '%8s %8s %14s %14s %7s %16s %16s\n' bytes streams 'nginx req/s' 'proteusd req/s' ratio 'nginx cpu us' 'proteusd cpu us'
printf '%s' "$rows" | awk '{printf "%8d %8d %14.0f %14.0f %6.2fx %16.1f %16.1f\n", $1, $2, $3, $4, ($3 ? $4 / $3 : 0), $5 / 1000, $6 / 1000}'
echo "submit to durable 202: $submit"
mkdir -p "$out"
{
    printf '{"what":"GET kernel.cubin, wrk -t1 -c%d, median of %d rounds of %d s","cpus":%d,"load":"%s","rows":[' $connections "$rounds" "$seconds" \
        "$(nproc)" "$(cut -d' ' -f1-3 /proc/loadavg)"
    printf '%s' "$rows" | awk '{printf "%s{\"bytes\":%d,\"streams\":%d,\"nginx_per_s\":%.0f,\"proteusd_per_s\":%.0f,\"nginx_cpu_us\":%.2f,\"proteusd_cpu_us\":%.2f}",
        (NR > 1 ? "," : ""), $1, $2, $3, $4, $5 / 1000, $6 / 1000}'
    printf '],"submit":%s}\n' "$submit"
} >"$out/http.json"
