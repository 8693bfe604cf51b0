#!/bin/bash
# proteusd as a process: starting, refusing to start, signals, restarts. Usage: e2e_http.sh PROTEUSD FILL [disks]
# disks: only what happens on full and read-only disks; that needs the right to mount, without which it is skipped (77).
set -u
proteusd=$1 fill=$2 part=${3:-}
dir=$(mktemp -d /tmp/proteus-e2e-XXXXXX) checks=0 failures=0 pid=0
unset ${!PROTEUS_@} http_proxy https_proxy

finish() {
    [ "$pid" != 0 ] && kill -9 "$pid" 2>/dev/null
    jobs -p | xargs -r kill 2>/dev/null
    umount "$dir/small" 2>/dev/null
    rm -rf "$dir"
}
trap finish EXIT

ok() {      # ok WHAT COMMAND...
    checks=$((checks + 1))
    local what=$1
    shift
    "$@" || { failures=$((failures + 1)); echo "failed: $what ($*)" >&2; }
}
is() { [ "$1" = "$2" ] || { echo "  got \"$1\", wanted \"$2\"" >&2; false; }; }
has() { grep -q -- "$2" "$1" || { echo "  no \"$2\" in:" >&2; tail -5 "$1" >&2; false; }; }
status() { curl -s -o "$dir/body" -w '%{http_code}' --max-time 10 "$@"; }

start() {   # start ARGS...: waits for the line on stdout; sets pid and url
    "$proteusd" --listen 127.0.0.1:0 "$@" >"$dir/out" 2>"$dir/err" &
    pid=$!
    for _ in $(seq 300); do
        [ -s "$dir/out" ] && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    url=$(sed -n 's/^proteusd: listening on //p' "$dir/out")
    [ -n "$url" ] || { echo "did not start:" >&2; cat "$dir/err" >&2; }
}
stop() {    # stop: SIGTERM; sets code and ms
    local from=$(date +%s%N)
    kill -TERM "$pid"
    wait "$pid"
    code=$?
    ms=$((($(date +%s%N) - from) / 1000000))
    pid=0
}
refuses() { # refuses TEXT ARGS...: exits with an error that says so, and says nothing on stdout
    local text=$1
    shift
    timeout 20 "$proteusd" "$@" >"$dir/refused" 2>"$dir/why"
    local code=$?
    [ $code -ge 1 ] && [ $code -le 2 ] && [ ! -s "$dir/refused" ] && has "$dir/why" "$text"
}

# ---- full and read-only disks ----
if [ "$part" = disks ]; then
    mkdir "$dir/small"
    if ! mount -t tmpfs -o size=64k tmpfs "$dir/small" 2>"$dir/why"; then
        echo "skipped: full and read-only disks need the right to mount: $(cat "$dir/why")"
        exit 77
    fi
    head -c 60000 /dev/zero >"$dir/small/filler" 2>/dev/null
    ok "a full disk" refuses "small" --listen 127.0.0.1:0 --data "$dir/small"
    rm "$dir/small/filler"
    mount -o remount,ro "$dir/small"
    ok "a read-only disk" refuses "small" --listen 127.0.0.1:0 --data "$dir/small/data"
    mount -o remount,rw,size=2m "$dir/small"
    start --data "$dir/small/full" --device-refresh 3600
    head -c 4000000 /dev/zero >"$dir/small/filler" 2>/dev/null
    got=$(status -X POST -H 'Content-Type: application/json' -d '{"scopes":["admin"]}' "$url/v1/tokens")
    ok "a disk that fills up while serving" is "$got" 507
    ok "is told" has "$dir/body" '"code":"no_space"'
    ok "and served on" is "$(status "$url/healthz")" 200
    ok "readiness names it" has <(curl -s "$url/readyz") '"what":"disk"'
    kill -TERM "$pid"
    wait "$pid"
    pid=0
    umount "$dir/small"
    echo "$checks checks, $failures failed"
    [ $failures = 0 ]
    exit
fi

# ---- words ----
"$proteusd" --help >"$dir/help" 2>&1
ok "help" is $? 0
ok "help lists settings" has "$dir/help" "--sandbox-minimum"
ok "version" has <("$proteusd" --version) "^proteusd [0-9]"
PROTEUS_ADMIN_TOKEN=pk_x_secretsecretsecretsecretsecretsecret "$proteusd" --print-config --data /x >"$dir/config" 2>&1
ok "print-config" has "$dir/config" "^data=/x$"
ok "print-config hides secrets" has "$dir/config" '^admin-token=\*\*\*$'
ok "unknown flag" refuses 'no flag "--dta"' --dta x
ok "flag without a value" refuses 'needs a value' --data
ok "number out of range" refuses 'from 1 to 64' --runners 65
ok "bad address" refuses 'ADDRESS:PORT' --listen nonsense --data "$dir/none"
ok "bad target" refuses 'sm_90a' --default-target h200 --data "$dir/none"
ok "no operators" refuses 'ops-dir' --ops-dir "$dir/nowhere" --data "$dir/none" --listen 127.0.0.1:0
ok "other machines need a token" refuses 'no token' --listen 0.0.0.0:0 --data "$dir/none"
ok "bad admin token" refuses 'pk_ID_SECRET' --listen 0.0.0.0:0 --data "$dir/none" --admin-token short

# ---- data folders ----
touch "$dir/file"
ok "a file is no folder" refuses "$dir/file" --listen 127.0.0.1:0 --data "$dir/file"
ok "a folder that cannot be made" refuses "/proc/none" --listen 127.0.0.1:0 --data /proc/none/data
mkdir "$dir/foreign"
head -c 20000 /dev/urandom >"$dir/foreign/store.mdb"
ok "another program's data" refuses "$dir/foreign" --listen 127.0.0.1:0 --data "$dir/foreign"
# ---- the signing key belongs to the store ----
mkdir "$dir/keys"
"$fill" "$dir/keys/old" 100 >/dev/null
mv "$dir/keys/old/signing.key" "$dir/keys/kept"
ok "kernels without their key" refuses 'signing.key is missing' --data "$dir/keys/old" --listen 127.0.0.1:0
ok "no key was made" [ ! -e "$dir/keys/old/signing.key" ]
cp "$dir/keys/kept" "$dir/keys/old/signing.key"
start --data "$dir/keys/old" --device-refresh 3600
ok "restored, it starts" [ -n "$url" ]
stop
start --data "$dir/keys/old" --device-refresh 3600
ok "and again" [ -n "$url" ]
stop
start --data "$dir/keys/new" --device-refresh 3600
stop
rm "$dir/keys/new/signing.key"
ok "a lost key, no kernels yet" refuses 'new-signing-key yes' --data "$dir/keys/new" --listen 127.0.0.1:0
cp "$dir/keys/kept" "$dir/keys/new/signing.key"
ok "another key" refuses 'is another key' --data "$dir/keys/new" --listen 127.0.0.1:0
ok "a word that is none" refuses 'no yes' --new-signing-key maybe --data "$dir/keys/new"
rm "$dir/keys/new/signing.key"
start --data "$dir/keys/new" --device-refresh 3600 --new-signing-key yes
ok "a new one where it is wanted" [ -s "$dir/keys/new/signing.key" ]
ok "is logged" has "$dir/err" 'another signing key'
stop
start --data "$dir/keys/new" --device-refresh 3600
ok "then it is the key" [ -n "$url" ]
stop

# ---- serving and stopping ----
hash=$("$fill" "$dir/data" 5000)
PROTEUS_UNHEARD_OF=1 start --data "$dir/data" --device-refresh 3600
ok "unknown variable is a warning" has "$dir/err" PROTEUS_UNHEARD_OF
ok "healthz" is "$(status "$url/healthz")" 200
ok "readyz answers" has <(status "$url/readyz") '^\(200\|503\)$'
ok "cubin" is "$(status "$url/v1/kernels/$hash/kernel.cubin")" 200
ok "cubin's size" is "$(stat -c %s "$dir/body")" 5000
ok "rebinding" is "$(status -H 'Host: evil.example' "$url/v1/jobs")" 403
ok "in use" refuses "in use" --listen 127.0.0.1:0 --data "$dir/data"
ok "port taken" refuses "${url#http://}" --listen "${url#http://}" --data "$dir/other"
ok "contract" is "$(status "$url/openapi.yaml")" 200
json='Content-Type: application/json'
op=$(curl -s "$url/v1/ops" | sed -n 's/.*"name":"rmsnorm".*/rmsnorm/p')
body='{"op":"rmsnorm","shapes":[{"R":4,"N":512}],"generator":"external"}'
ok "submit" is "$(status -X POST -H "$json" -H 'Idempotency-Key: "one"' -d "$body" "$url/v1/jobs")" 202
job=$(sed -n 's/.*"id":"\(job_[^"]*\)".*/\1/p' "$dir/body" | head -1)
for _ in 1 2 3; do curl -sN "$url/v1/events" >/dev/null 2>&1 & done
curl -sN "$url/v1/jobs/$job/events" >"$dir/stream" 2>/dev/null &
curl -s "$url/v1/kernels/$(printf '0%.0s' $(seq 64))?wait=50" >/dev/null 2>&1 &
sleep 1
stop
ok "SIGTERM exits 0" is "$code" 0
ok "within 5 s ($ms ms)" [ "$ms" -lt 5000 ]
ok "one line on stdout" is "$(wc -l <"$dir/out")" 1
wait
ok "a stream had the job's first event" has "$dir/stream" "event: job.state"

# ---- kill -9 at any moment; nothing lost, nothing twice ----
ids() { sed -n 's/^id: //p' "$1"; }
for round in 1 2 3; do
    start --data "$dir/data" --device-refresh 3600
    timeout 2 curl -sN "$url/v1/events?after=0" >"$dir/seen.$round" 2>/dev/null &
    reader=$!
    for i in $(seq 8); do
        curl -s -o /dev/null -X POST -H "$json" -H "Idempotency-Key: k$round.$i" -d "$body" "$url/v1/jobs" || break
    done &
    writer=$!
    sleep "0.$((RANDOM % 9 + 1))"
    kill -9 "$pid"
    wait "$pid" 2>/dev/null
    wait $writer $reader 2>/dev/null
    pid=0
done
start --data "$dir/data" --device-refresh 3600
timeout 3 curl -sN "$url/v1/events?after=0" >"$dir/all" 2>/dev/null
ok "ids rise by one" is "$(ids "$dir/all" | awk 'NR > 1 && $1 != last + 1 {n++} {last = $1} END {print n + 0}')" 0
for round in 1 2 3; do
    ok "what was seen in round $round is still there" is "$(grep '^data: ' "$dir/seen.$round" | grep '}$' | grep -cvxFf <(grep '^data: ' "$dir/all"))" 0
done
ok "the job outlived it" is "$(status "$url/v1/jobs/$job")" 200
before=$(curl -s "$url/v1/jobs?limit=200" | grep -o '"id":"job_' | wc -l)
ok "its key too" is "$(status -X POST -H "$json" -H 'Idempotency-Key: "one"' -d "$body" "$url/v1/jobs")" 202
ok "and made no second job" has "$dir/body" "$job"
for round in 1 2 3; do
    for i in $(seq 8); do
        curl -s -o /dev/null -X POST -H "$json" -H "Idempotency-Key: k$round.$i" -d "$body" "$url/v1/jobs"
    done
done
after=$(curl -s "$url/v1/jobs?limit=200" | grep -o '"id":"job_' | wc -l)
ok "24 keys, 24 jobs, however often they were sent ($before before)" is "$after" 25
stop
ok "SIGTERM again" is "$code" 0

# ---- tokens ----
umask 077
echo "pk_boot_$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')" >"$dir/token"
start --data "$dir/data" --listen 0.0.0.0:0 --admin-token-file "$dir/token" --device-refresh 3600
url=$(echo "$url" | sed 's/0\.0\.0\.0/127.0.0.1/')
ok "closed" is "$(status "$url/v1/jobs")" 401
ok "open to its token" is "$(status -H "Authorization: Bearer $(cat "$dir/token")" "$url/v1/jobs")" 200
ok "the token is in no log" is "$(grep -c "$(cut -c 9- <"$dir/token")" "$dir/err")" 0
stop
ok "SIGTERM the third time" is "$code" 0

echo "$checks checks, $failures failed"
[ $failures = 0 ]
