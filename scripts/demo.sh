#!/bin/bash
# From a shape to a verified kernel over HTTP, on this machine: starts a service of its own, asks, watches, fetches, verifies.
# Exit status 0 only if a kernel was verified. DEMO_KEEP=1 leaves the service running; DEMO_CANDIDATES=N sets the budget (12).
# DEMO_MODEL=qwen3.5-122b [DEMO_TP=8] [DEMO_BATCH=1,4]: all shapes of that model's decode step in one job, instead of one shape (minutes to
# an hour on the emulator; DEMO_CANDIDATES is for each shape then, 2).
set -u
cd "$(dirname "$0")/.."
build=${DEMO_BUILD:-$PWD/build/release}
proteus=$build/bin/proteus
proteusd=$build/bin/proteusd
shape=(--op gdn_packed_decode --axes B=4,H=2,HV=8,K=128,V=128)
model=${DEMO_MODEL:-} tp=${DEMO_TP:-8} batch=${DEMO_BATCH:-1}
folder=$(mktemp -d "${TMPDIR:-/tmp}/proteus-demo.XXXXXX") || exit 1
server_pid=
started=$SECONDS

bold= dim= off=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then bold=$'\e[1m' dim=$'\e[2m' off=$'\e[0m'; fi
step() { printf '\n%s%s%s\n' "$bold" "$*" "$off"; }
show() { printf '%s$ proteus %s%s\n' "$dim" "$*" "$off"; }
fail() {
    printf 'demo: %s\n' "$*" >&2
    if [ -s "$folder/proteusd.log" ]; then
        echo "demo: the service's last lines:" >&2
        tail -n 15 "$folder/proteusd.log" >&2
    fi
    exit 1
}
cleanup() {
    local status=$?
    trap - EXIT INT TERM
    if [ -n "$server_pid" ] && { [ "${DEMO_KEEP:-0}" != 1 ] || [ $status != 0 ]; }; then
        kill "$server_pid" 2>/dev/null
        for _ in $(seq 60); do kill -0 "$server_pid" 2>/dev/null || break; sleep 0.1; done
        kill -9 "$server_pid" 2>/dev/null
        wait "$server_pid" 2>/dev/null
        rm -rf "$folder"
    elif [ -z "$server_pid" ]; then
        rm -rf "$folder"
    fi
    exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM

cuda_home=$(scripts/toolkit.sh) || fail "without the toolkit there is no compiler, so no kernel can be found"
for program in "$proteus" "$proteusd" "$build/bin/proteus-gpu"; do
    [ -x "$program" ] || fail "$program is not built: make build"
done

step "1. A service of its own on this machine"
"$proteusd" --listen 127.0.0.1:0 --data "$folder/data" --cuda-home "$cuda_home" >"$folder/out" 2>"$folder/proteusd.log" &
server_pid=$!
url=
for _ in $(seq 100); do
    url=$(sed -n 's/^proteusd: listening on //p' "$folder/out" | head -n 1)
    [ -n "$url" ] && break
    kill -0 "$server_pid" 2>/dev/null || { server_pid=; fail "proteusd ended while it started"; }
    sleep 0.1
done
[ -n "$url" ] || fail "proteusd did not say where it listens within 10 s"
export PROTEUS_SERVER=$url
unset PROTEUS_TOKEN PROTEUS_TOKEN_FILE
echo "proteusd (process $server_pid) serves on $url, data in $folder/data; the dashboard is at $url/"
"$proteus" devices || fail "the devices could not be listed"
"$proteus" key --output "$folder/pinned.pub" >/dev/null || fail "the public key could not be had"
echo
echo "The service's public key is pinned now, before anything is asked: everything is verified against this copy later on."
sed -n 2p "$folder/pinned.pub"

# Each leaves the shape hash of a kernel in `hash`.
ask_for_a_model() {
    step "2. Ask for all kernels of a decode step: $model, TP $tp, batch $batch"
    show sets "$model" --tp "$tp" --batch "$batch"
    "$proteus" sets "$model" --tp "$tp" --batch "$batch"
    [ $? -le 1 ] || fail "there is no such set: proteus sets lists the presets"
    count=$("$proteus" sets "$model" --tp "$tp" --batch "$batch" --json | grep -o '"count":[0-9]*,"launches"' | wc -l)
    show submit --model "$model" --tp "$tp" --batch "$batch" --candidates $((count * ${DEMO_CANDIDATES:-2})) --watch
    "$proteus" submit --model "$model" --tp "$tp" --batch "$batch" --candidates $((count * ${DEMO_CANDIDATES:-2})) --wall-seconds 7200 --watch ||
        fail "the job brought no kernels"
    step "   The set again: one request, as a deployment makes it when it starts"
    "$proteus" sets "$model" --tp "$tp" --batch "$batch" || fail "some shape has no kernel: proteus jobs says why"
    hash=$("$proteus" sets "$model" --tp "$tp" --batch "$batch" --json | sed -n 's/.*"kernels":\[{"shape_hash":"\([0-9a-f]*\)".*/\1/p')
}
ask_for_a_shape() {
    step "2. Ask for a kernel: gated-delta packed decode of Qwen3.5-122B, TP 8, batch 4"
    hash=$("$proteus" hash "${shape[@]}" --json | sed -n 's/.*"shape_hash": *"\([0-9a-f]*\)".*/\1/p')
    [ ${#hash} = 64 ] || fail "there is no shape hash"
    show submit "${shape[*]}" --candidates "${DEMO_CANDIDATES:-12}" --watch
    "$proteus" submit "${shape[@]}" --candidates "${DEMO_CANDIDATES:-12}" --watch || fail "the job brought no kernel"
}
if [ -n "$model" ]; then ask_for_a_model; else ask_for_a_shape; fi
[ ${#hash} = 64 ] || fail "there is no shape hash"

step "3. Fetch it by its shape hash, verify signature and digests against the pinned key"
show fetch "$hash" --key pinned.pub
"$proteus" fetch "$hash" --output "$folder/kernel" --key "$folder/pinned.pub" || fail "the kernel was not verified"

step "4. Verify the files once more, offline, with proteus and with Debian's minisign"
show verify kernel/bundle.tar --key pinned.pub --shape-hash "$hash"
"$proteus" verify "$folder/kernel/bundle.tar" --key "$folder/pinned.pub" --shape-hash "$hash" >"$folder/verify" || fail "the bundle was not verified"
tail -n 1 "$folder/verify"
if command -v minisign >/dev/null 2>&1; then
    printf '%s$ minisign -Vm kernel/certificate.json -p pinned.pub%s\n' "$dim" "$off"
    minisign -Vm "$folder/kernel/certificate.json" -p "$folder/pinned.pub" || fail "minisign does not agree"
else
    echo "(minisign is not installed; it would verify kernel/certificate.json with the same key)"
fi

step "5. What the service says of it"
show kernels "$hash"
"$proteus" kernels "$hash" || fail "the manifest could not be had"

kept=$PWD/build/demo-kernel
rm -rf "$kept" && cp -r "$folder/kernel" "$kept" && cp "$folder/pinned.pub" "$kept.pub"
step "Done in $((SECONDS - started)) s: a kernel was found, judged, signed, fetched and verified."
echo "Its files are in build/demo-kernel/ (source, kernel.ptx, kernel.cubin, certificate.json), the pinned key is build/demo-kernel.pub."
if [ "${DEMO_KEEP:-0}" = 1 ]; then
    echo "The service goes on (process $server_pid, files in $folder). The dashboard: $url/"
    echo "Stop it: kill $server_pid"
else
    echo "Look at the dashboard:  DEMO_KEEP=1 make demo     leaves the service running"
fi
cat <<TEXT
Try next, against a running service (PROTEUS_SERVER=URL):
  build/release/bin/proteus sets
  build/release/bin/proteus submit --model qwen3.5-122b --tp 8 --batch 1,2,4,8
  build/release/bin/proteus submit --op rmsnorm --axes R=64,N=3072 --watch
  build/release/bin/proteus ops
  build/release/bin/proteus jobs
  build/release/bin/proteus verify build/demo-kernel --key build/demo-kernel.pub
TEXT
exit 0
