#!/bin/bash
# dist/ moved elsewhere, in a root that holds glibc and nothing else: the programs start, find their files and serve.
# Usage: e2e_dist.sh SOURCE_DIR BUILD_DIR
set -u
[ "$(id -u)" = 0 ] || unshare -Ur true 2>/dev/null || { echo "skipped: neither root nor user namespaces, so no other root can be had"; exit 77; }
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
if [ "$(id -u)" = 0 ]; then in_root() { exec env -i chroot "$root" "$@"; }; else in_root() { exec env -i unshare -Ur chroot "$root" "$@"; }; fi

(in_root $bin/proteus version) | grep -q '^proteus ' || fail "proteus does not start"
(in_root $bin/proteusd --print-config) | grep -q listen || fail "proteusd does not start"
(in_root $bin/proteus-gpu devices) | grep -q '"sim"' || fail "proteus-gpu does not start"

in_root $bin/proteusd --listen 127.0.0.1:0 --data /tmp/data >"$dir/out" 2>"$dir/err" &
server=$!
for _ in $(seq 100); do grep -q 'listening on' "$dir/out" && break; sleep 0.1; done
url=$(sed -n 's/^proteusd: listening on //p' "$dir/out")
[ -n "$url" ] || { cat "$dir/err" >&2; fail "proteusd does not serve"; }
(in_root $bin/proteus ops --server "$url") | grep -q rmsnorm || fail "the operators are not found beside the programs"
curl -fsS "$url/" | grep -q '<title>Proteus' || fail "the dashboard is not found beside the programs"
curl -fsS "$url/openapi.yaml" | grep -q '^openapi:' || fail "openapi.yaml is not found beside the programs"
kill "$server" && wait "$server"
status=$?
server=
[ $status = 0 ] || fail "proteusd ended with $status"
echo "7 checks, 0 failed"
