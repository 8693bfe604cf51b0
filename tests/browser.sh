#!/bin/sh
# The dashboard in Debian's Chromium, driven by playwright-core. Usage: browser.sh SOURCE_DIR BUILD_DIR
command -v node >/dev/null 2>&1 || { echo "skipped: node is not installed (apt-get install nodejs)"; exit 77; }
chromium=$(command -v chromium) || { echo "skipped: chromium is not installed (make install-browser-packages)"; exit 77; }
modules=${PROTEUS_BROWSER_MODULES:-$1/build/browser/node_modules}
[ -d "$modules/playwright-core" ] || { echo "skipped: playwright-core is not installed (make install-browser-packages)"; exit 77; }
mkdir -p "$2/screenshots"
exec node "$1/tests/browser/dashboard.mjs" "$1/static" "$modules" "$chromium" "$2/screenshots"
