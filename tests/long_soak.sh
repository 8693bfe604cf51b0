#!/bin/bash
# Minutes of use: jobs one after the other, event streams that come and go, kernels fetched all the while. The service must not grow
# in memory or descriptors, lose an event, or fail a job. Usage: long_soak.sh BIN_DIR [SECONDS]
set -u
bin=$1 seconds=${2:-180}
command -v curl >/dev/null || { echo "skipped: curl is not installed"; exit 77; }
"$bin/proteus-gpu" serve-devices 2>/dev/null | grep -qa '"version":"1' || { echo "skipped: no CUDA toolkit, so no kernel can be compiled"; exit 77; }
dir=$(mktemp -d /tmp/proteus_soak_XXXXXX)
"$bin/proteusd" --listen 127.0.0.1:0 --data "$dir/data" --device sim >"$dir/out" 2>"$dir/log" &
server=$!
finish() { status=$?; kill $server 2>/dev/null; wait $server 2>/dev/null; [ $status = 0 ] || tail -n 20 "$dir/log"; rm -rf "$dir"; exit $status; }
trap finish EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
for _ in $(seq 100); do grep -q listening "$dir/out" && break; sleep 0.1; done
url=$(sed -n 's/^proteusd: listening on //p' "$dir/out")
[ -n "$url" ] || fail "proteusd did not start"
export PROTEUS_SERVER=$url
rss_kib() { awk '/VmRSS/ {print $2}' /proc/$server/status; }
descriptors() { ls /proc/$server/fd | wc -l; }
end=$((SECONDS + seconds)) rounds=0 early_rss=0 early_fds=0
while [ $SECONDS -lt $end ]; do
    n=$((64 + 8 * (rounds % 40)))
    id=$("$bin/proteus" submit --op rmsnorm --axes R=2,N=$n --candidates 1 --json | grep -oE 'job_[0-9a-z]{26}' | head -n 1)
    [ -n "$id" ] || fail "round $rounds: not accepted"
    streams=()
    for k in 1 2 3 4 5 6 7 8; do    # half of them leave in the middle
        timeout $((k % 2 ? 1 : 60)) curl -sN "$url/v1/jobs/$id/events" >"$dir/stream$k" &
        streams+=($!)
    done
    for _ in $(seq 600); do
        state=$(curl -fsS "$url/v1/jobs/$id" | grep -oE '"state":"(queued|running|done|failed|cancelled)"' | head -n 1)
        case $state in *done*) break ;; *failed* | *cancelled*) fail "round $rounds: $state" ;; esac
        sleep 0.1
    done
    [ "$state" = '"state":"done"' ] || fail "round $rounds: not done after a minute"
    wait "${streams[@]}"
    ids=$(grep -h '^id: ' "$dir/stream2" | cut -c5-)
    [ "$(echo "$ids" | sort -nu)" = "$ids" ] && [ -n "$ids" ] || fail "round $rounds: events out of order or doubled"
    tail -n 4 "$dir/stream2" | grep -q 'job.done' || fail "round $rounds: the stream ended before job.done"
    cmp -s "$dir/stream2" "$dir/stream4" || fail "round $rounds: two readers of one job saw different events"
    rounds=$((rounds + 1))
    if [ $rounds = 15 ]; then early_rss=$(rss_kib) early_fds=$(descriptors); fi
done
[ $rounds -ge 16 ] || { echo "$rounds rounds: too few to tell (a slow machine)"; exit 1; }
late_rss=$(rss_kib) late_fds=$(descriptors)
echo "$rounds jobs; resident $early_rss KiB after 15, $late_rss KiB at the end; $early_fds and $late_fds descriptors"
[ $late_rss -le $((early_rss + early_rss / 4 + 16384)) ] || fail "memory grows"
[ $late_fds -le $((early_fds + 8)) ] || fail "descriptors grow"
echo "1 passed, 0 failed"
