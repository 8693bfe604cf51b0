#!/bin/bash
# dist/ moved elsewhere, in a root that holds glibc and nothing else: the programs start, find their files and serve.
# Usage: e2e_dist.sh SOURCE_DIR BUILD_DIR
set -u
# A mount namespace of its own, so that /proc can be there (programs find themselves by it) and goes with it.
user=; [ "$(id -u)" = 0 ] || user=-Ur
unshare $user -m true 2>/dev/null || { echo "skipped: no mount namespace can be had here, so no other root"; exit 77; }
dir=$(mktemp -d) || exit 1
server=
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
fail() { echo "$*" >&2; exit 1; }
root=$dir/root
mkdir -p "$root/lib64" "$root/lib/x86_64-linux-gnu" "$root/tmp" "$root/opt/somewhere" "$root/proc" "$root/dev"
"$1/scripts/dist.sh" "$2" "$dir/dist" || fail "dist.sh failed"
mv "$dir/dist" "$root/opt/somewhere/proteus"
for lib in libc.so.6 libm.so.6 libresolv.so.2 libdl.so.2 libpthread.so.0 librt.so.1; do cp "/lib/x86_64-linux-gnu/$lib" "$root/lib/x86_64-linux-gnu/"; done
cp /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
: >"$root/dev/null"
bin=/opt/somewhere/proteus/bin
in_root() {
    exec env -i /usr/bin/unshare $user -m /bin/sh -c 'root=$1; shift; /bin/mount --rbind /proc "$root/proc" && exec /usr/sbin/chroot "$root" "$@"' sh "$root" "$@"
}

(in_root $bin/proteus version) | grep -q '^proteus ' || fail "proteus does not start"
(in_root $bin/proteusd --print-config) | grep -q listen || fail "proteusd does not start"
(in_root $bin/proteus-gpu devices) | grep -q '"sim"' || fail "proteus-gpu does not start"

in_root $bin/proteusd --listen 127.0.0.1:0 --data /tmp/data >"$dir/out" 2>"$dir/err" &
server=$!
for _ in $(seq 100); do grep -q 'listening on' "$dir/out" && break; sleep 0.1; done
url=$(sed -n 's/^proteusd: listening on //p' "$dir/out")
[ -n "$url" ] || { cat "$dir/err" >&2; fail "proteusd does not serve"; }
(in_root $bin/proteus ops --server "$url") | grep -q rmsnorm || fail "the operators are not found beside the programs"
(in_root $bin/proteus sets --server "$url") | grep -q qwen3.5-122b || fail "the model presets are not found beside the programs"
for at in 'tp=1&batch=1' 'tp=8&batch=1,2,4,8' 'tp=2&batch=256'; do   # each operator that the presets name is there
    for preset in $(curl -fsS "$url/v1/presets" | grep -o '"name":"[^"]*"' | cut -d'"' -f4); do
        curl -fsS "$url/v1/sets/$preset?$at" | grep -q '"missing":\[{' || fail "the set $preset?$at cannot be had"
    done
done
curl -fsS "$url/" | grep -q '<title>Proteus' || fail "the dashboard is not found beside the programs"
curl -fsS "$url/openapi.yaml" | grep -q '^openapi:' || fail "openapi.yaml is not found beside the programs"
kill "$server" && wait "$server"
status=$?
server=
[ $status = 0 ] || fail "proteusd ended with $status"
echo "9 checks, 0 failed"
