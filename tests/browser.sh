#!/bin/sh
# The dashboard in Debian's Chromium, driven by playwright-core: every page against a service of the test's own, or (with PROTEUSD) a real
# job on a real service, or (with PROTEUSD cards) what a card once measured. Usage: browser.sh SOURCE_DIR BUILD_DIR [attacks | PROTEUSD [cards]]
command -v node >/dev/null 2>&1 || { echo "skipped: node is not installed (apt-get install nodejs)"; exit 77; }
chromium=$(command -v chromium) || { echo "skipped: chromium is not installed (make install-browser-packages)"; exit 77; }
modules=${PROTEUS_BROWSER_MODULES:-$1/build/browser/node_modules}
[ -d "$modules/playwright-core" ] || { echo "skipped: playwright-core is not installed (make install-browser-packages)"; exit 77; }
[ -d "$modules/axe-core" ] || echo "axe-core is not installed (make install-browser-packages): accessibility is not checked"
[ -n "${3:-}" ] || exec node "$1/tests/browser/dashboard.mjs" "$1/static" "$modules" "$chromium"
[ "$3" != attacks ] || exec node "$1/tests/browser/attacks.mjs" "$1/static" "$modules" "$chromium"
[ "${4:-}" != cards ] || exec node "$1/tests/browser/cards.mjs" "$3" "$1/static" "$modules" "$chromium"
cuda_home=$("$1/scripts/toolkit.sh" 2>/dev/null) || { echo "skipped: without the CUDA toolkit no job can run"; exit 77; }
exec node "$1/tests/browser/live.mjs" "$3" "$1/static" "$modules" "$chromium" "$cuda_home"
