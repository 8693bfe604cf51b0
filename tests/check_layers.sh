#!/bin/sh
# Who may include whom; each third-party header in one folder only; no operator's name in C; no goto outside one end label.
# Usage: check_layers.sh SOURCE_DIR
cd "$1" || exit 1
checks=0 failures=0
fail() { echo "$*" >&2; failures=$((failures + 1)); }

# rule FOLDERS ALLOWED: project headers that files of these folders may include, as an extended regular expression
rule() {
    checks=$((checks + 1))
    bad=$(grep -rnE '^#include "' $1 --include='*.c' --include='*.h' 2>/dev/null | grep -vE "#include \"($2)")
    [ -z "$bad" ] || fail "$1 may include only $2:
$bad"
}
rule core 'core/'
rule store '(core|store)/'
rule gpu/ptx '(core|gpu/ptx)/'
rule gpu/sandbox '(core|gpu/sandbox)/'
rule gpu/device '(core|gpu/ptx|gpu/device)/'
rule gpu/judge '(core/|gpu/wire\.h|gpu/ptx/|gpu/sandbox/|gpu/judge/|gpu/ops/reference\.h|gpu/card_turn\.h|gpu/device/(device|card|spent)\.h)'
rule know '(core/|know/|store/store\.h)'
rule server/llm '(core|server/llm)/'
rule server/generate '(core/|server/generate/|server/llm/llm\.h)'
rule server/jobs '(core/|store/store\.h|gpu/spawn\.h|server/generate/(generate|agent)\.h|server/llm/llm\.h|know/lessons\.h|server/jobs/)'
rule server/http '(core/|store/store\.h|server/http/)'
rule server/api '(core/|store/store\.h|gpu/spawn\.h|server/http/|server/jobs/|know/lessons\.h|server/api/|server/config\.h)'
rule api/cli '(core|api/cli)/'

# only_in HEADER FOLDERS: a third-party header is included by files of these folders alone
only_in() {
    checks=$((checks + 1))
    bad=$(grep -rnE "^ *#include <$1" core store know gpu server api --include='*.c' --include='*.h' | grep -vE "^($2)")
    [ -z "$bad" ] || fail "<$1> belongs to $2 alone:
$bad"
}
only_in 'microhttpd' 'server/http/'
only_in 'lmdb' 'store/'
only_in 'curl/' '(server/llm|api/cli)/'
only_in '(cuda|nvrtc|nvJitLink|cupti|nvml)' 'gpu/device/'
only_in 'seccomp' 'gpu/sandbox/'
only_in 'sodium' 'core/'
only_in 'jansson' 'core/'

for op in gpu/ops/*/op.json; do
    [ -f "$op" ] || continue
    name=$(basename "$(dirname "$op")")
    checks=$((checks + 1))
    bad=$(grep -rnw "$name" core store know gpu server api --include='*.c' --include='*.h' | grep -v '^gpu/ops/')
    [ -z "$bad" ] || fail "no C file may name the operator $name:
$bad"
done

checks=$((checks + 1))
bad=$(grep -rnE '\b(strcpy|strcat|sprintf|alloca|gets)\(' core store know gpu server api --include='*.c' --include='*.h' | grep -vE 'snprintf|vsnprintf')
[ -z "$bad" ] || fail "unbounded functions:
$bad"

echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ] && [ "$checks" -gt 15 ]
