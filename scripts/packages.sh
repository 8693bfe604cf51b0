#!/bin/sh
# Installs the Debian packages of the given groups that are missing, and says so; quick when none is.
# Usage: packages.sh build|test|bench|browser...
set -eu

packages_build="gcc libc6-dev cmake ninja-build pkg-config libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev liblmdb-dev
libsodium-dev libseccomp-dev zlib1g-dev"
packages_test="minisign nodejs curl"
packages_bench="nginx-light wrk curl nodejs"
packages_browser="nodejs npm chromium"

wanted=
for group in "$@"; do
    eval "wanted=\"\$wanted \$packages_$group\""
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "packages: this is no Debian; nothing is installed. Needed, by their Debian names:" $wanted
    exit 0
fi

# An nginx of any flavour will do.
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
missing=
for package in $wanted; do
    installed "$package" && continue
    case $package in
    nginx-light) command -v nginx >/dev/null 2>&1 && continue ;;
    nodejs) command -v node >/dev/null 2>&1 && continue ;;
    npm) command -v npm >/dev/null 2>&1 && continue ;;
    esac
    missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
    echo "packages: missing, and only root can install them:" >&2
    echo "  apt-get install -y --no-install-recommends$missing" >&2
    exit 1
fi
echo "packages: installing$missing"
export DEBIAN_FRONTEND=noninteractive
# Lists that are there are tried first; a fresh machine has none.
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/tmp/proteus-apt.$$ 2>&1 || {
    echo "packages: refreshing the package lists first"
    apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing >/tmp/proteus-apt.$$ 2>&1
} || {
    cat /tmp/proteus-apt.$$ >&2
    rm -f /tmp/proteus-apt.$$
    echo "packages: apt-get failed; the lines above say why" >&2
    exit 1
}
rm -f /tmp/proteus-apt.$$
