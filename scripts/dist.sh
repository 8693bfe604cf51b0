#!/bin/sh
# Lays a relocatable folder: programs, the libraries that are not glibc's, operators, dashboard, contract.
# Usage: dist.sh [BUILD_DIR [DESTINATION]]     (build/release, dist)
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
to=${2:-dist}
programs="proteusd proteus-gpu proteus"
for p in $programs; do
    [ -x "$build/bin/$p" ] || { echo "dist: $build/bin/$p is missing: build first (make build)" >&2; exit 1; }
done
[ -d "$build/share/proteus/ops" ] || { echo "dist: $build/share/proteus/ops is missing: build first (make build)" >&2; exit 1; }
rm -rf "$to"
mkdir -p "$to/bin" "$to/lib" "$to/share/proteus"
for p in $programs; do
    cp "$build/bin/$p" "$to/bin/$p"
    strip --strip-debug "$to/bin/$p" 2>/dev/null || true
done

# glibc's own libraries are the host's (2.36 or newer); all others travel, so nothing else need be installed.
glibc='^(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil|libanl|libnss_[a-z]+|libmvec|libBrokenLocale|linux-vdso)\.so'
for p in $programs; do ldd "$build/bin/$p"; done | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u |
while read -r name path; do
    echo "$name" | grep -qE "$glibc" || cp -L "$path" "$to/lib/$name"
done

cp -rL "$build/share/proteus/ops" "$to/share/proteus/ops"
cp -r static "$to/share/proteus/static"
cp -r models "$to/share/proteus/models"
cp know/thesaurus.json "$to/share/proteus/thesaurus.json"
cp api/openapi.yaml "$to/share/proteus/openapi.yaml"
if [ -d "$build/share/proteus/selftest" ]; then cp -rL "$build/share/proteus/selftest" "$to/share/proteus/selftest"; fi
cp LICENSE README.md "$to/"
find "$to" -type d -exec chmod 755 {} +
missing=$(for p in $programs; do LD_LIBRARY_PATH= ldd "$to/bin/$p"; done | grep 'not found' || true)
[ -z "$missing" ] || { echo "dist: not complete: $missing" >&2; exit 1; }
echo "$to: $(ls "$to/bin" | wc -l) programs, $(ls "$to/lib" | wc -l) libraries, $(du -sh "$to" | cut -f1)"
