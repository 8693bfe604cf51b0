#!/bin/sh
# Configures and builds build/release: everything, or the targets given. Quiet unless something fails; configures anew when the toolkit has changed.
set -eu
cd "$(dirname "$0")/.."
home=$(scripts/toolkit.sh 2>/dev/null) || home=
log=build/release.log
mkdir -p build
was=$(sed -n 's/^CUDA_HOME:PATH=//p' build/release/CMakeCache.txt 2>/dev/null || true)
if [ ! -f build/release/build.ninja ] || [ "$was" != "$home" ]; then
    echo "configuring (CUDA toolkit: ${home:-none})"
    rm -f build/release/CMakeCache.txt
    cmake --preset release -DCUDA_HOME="$home" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
started=$(date +%s)
cmake --build --preset release ${1:+--target "$@"} >"$log" 2>&1 || { tail -n 60 "$log" >&2; exit 1; }
grep -q 'no work to do' "$log" || echo "built build/release in $(($(date +%s) - started)) s"
