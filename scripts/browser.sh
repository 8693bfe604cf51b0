#!/bin/sh
# Runs a program of tests/browser in Chromium: browser.sh PROGRAM ARGUMENTS..., which get the modules' folder and Chromium behind them.
set -eu
cd "$(dirname "$0")/.."
program=$1
shift
modules=${PROTEUS_BROWSER_MODULES:-$PWD/build/browser/node_modules}
chromium=$(command -v chromium) || { echo "chromium is not installed: make install-browser-packages" >&2; exit 1; }
[ -d "$modules/playwright-core" ] || { echo "playwright-core is not installed: make install-browser-packages" >&2; exit 1; }
cuda_home=$(scripts/toolkit.sh 2>/dev/null) || cuda_home=
exec node "tests/browser/$program" "$@" "$modules" "$chromium" ${BROWSER_FLAGS:-} ${cuda_home:+"--cuda-home=$cuda_home"}
