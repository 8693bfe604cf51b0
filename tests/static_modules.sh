#!/bin/sh
# The dashboard's modules without a browser: every file parses, the pure ones are tested by node, and the rules hold that keep a
# page safe under its content policy. Usage: static_modules.sh SOURCE_DIR
cd "$1/static" || exit 1
command -v node >/dev/null 2>&1 || { echo "skipped: node is not installed (apt-get install nodejs)"; exit 77; }
failures=0
fail() { echo "$*" >&2; failures=$((failures + 1)); }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cp -r . "$dir/static" && cp ../tests/browser/modules.mjs "$dir/" && echo '{"type":"module"}' >"$dir/package.json"
node --check "$dir/static/app.js" || fail "app.js does not parse"          # the others are loaded by modules.mjs
bad=$(grep -rnE 'innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc' --include='*.js' --include='*.html' .) && fail "text becomes markup or code: $bad"
bad=$(grep -nE '<script[^>]*>[^<]|<style|style="| on[a-z]+="|https?://' index.html | grep -v 'w3.org') && fail "inline or foreign parts: $bad"
bad=$(grep -rnE "(fetch|get|from|import)\(?['\"\`]https?:" --include='*.js' .) && fail "another host: $bad"
(cd "$dir" && node modules.mjs) || fail "modules.mjs failed"
bad=$(grep -rnE "setAttribute\('style'|cssText|insertRule|style: '" --include='*.js' --exclude-dir=vendor .) && fail "a style that the policy forbids: $bad"
[ $failures = 0 ]
