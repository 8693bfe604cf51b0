#!/bin/bash
# The command line against a server that answers from files: requests as sent, output, exit statuses, resuming, hostile answers.
# Usage: cli_http.sh PROTEUS FAKE_SERVER
set -u
proteus=$1 fake=$2
dir=$(mktemp -d) || exit 1
checks=0 failures=0
export TERM=dumb
unset PROTEUS_TOKEN PROTEUS_TOKEN_FILE PROTEUS_SERVER http_proxy https_proxy all_proxy

mkfifo "$dir/stdin" && mkdir "$dir/www" || exit 1
exec 9<>"$dir/stdin"
"$fake" "$dir/www" <"$dir/stdin" >"$dir/port" &
fake_pid=$!
trap 'kill $fake_pid 2>/dev/null; rm -rf "$dir"' EXIT
for _ in $(seq 50); do [ -s "$dir/port" ] && break; sleep 0.05; done
export PROTEUS_SERVER=http://127.0.0.1:$(cat "$dir/port")

# answer NAME STATUS TYPE <body
answer() { { printf 'HTTP/1.1 %s X\r\nContent-Type: %s\r\nConnection: close\r\n\r\n' "$2" "$3"; cat; } >"$dir/www/$1"; }
json() { answer "$1" 200 application/json; }
fresh() { rm -rf "$dir/www"; mkdir "$dir/www"; }
# run WANTED_STATUS ARGS...: output in $out, complaints in $bad
run() {
    local want=$1; shift
    timeout 20 "$proteus" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    local got=$?
    out=$(cat "$dir/out") bad=$(cat "$dir/err")
    checks=$((checks + 1))
    [ $got = "$want" ] || { failures=$((failures + 1)); echo "line ${BASH_LINENO[0]}: proteus $*: status $got, wanted $want: $out $bad" >&2; }
}
# has TEXT PATTERN
has() { checks=$((checks + 1)); grep -qE -- "$2" <<<"$1" || { failures=$((failures + 1)); echo "line ${BASH_LINENO[0]}: no \"$2\" in: $1" >&2; }; }
hasnt() { checks=$((checks + 1)); ! grep -qE -- "$2" <<<"$1" || { failures=$((failures + 1)); echo "line ${BASH_LINENO[0]}: \"$2\" in: $1" >&2; }; }
sent() { has "$(cat "$dir/www/requests.log")" "$1"; }

H=$(printf '%064d' 1)
JOB='{"id":"job_1","state":"done","op":"scale","target":"sm_90a","budget":{"candidates":2},"spent":{"candidates":2},"shapes":[{"shape_hash":"'$H'","shape":{"op":"scale","axes":{"N":64}},"best":{"time_ns":3210,"speedup":{"median":1.5,"low":1.4,"high":1.6},"evidence":"emulated"}}]}'

# ---- usage
run 2
has "$out" 'exit status'
run 0 --help
run 0 version
run 2 nonsense
run 2 jobs --nonsense
run 2 submit --op scale
run 2 submit --op scale --axes N=4.5
has "$bad" 'whole number'
run 2 fetch zz
run 2 verify bundle.tar
has "$bad" '--key FILE is missing'
PROTEUS_SERVER=http://127.0.0.1:1 run 4 jobs
has "$bad" 'cannot reach http://127.0.0.1:1'
PROTEUS_SERVER=ftp://x run 2 jobs
PROTEUS_SERVER=file:///etc run 2 jobs

# ---- submit: what is sent
fresh
answer POST_v1_jobs 202 application/json <<<"$JOB"
run 0 submit --op scale --axes N=64 --axes N=128 --dtype io=f32 --target sm_90a --candidates 3 --reuse never --token secret
has "$out" "$H  scale +N=64"
has "$out" 'emulated \(estimate\)'
sent '"shapes":\[\{"N":64\},\{"N":128\}\]'
sent '"dtypes":\{"io":"f32"\}'
sent '"budget":\{"candidates":3\}'
sent '"reuse":"never"'
sent '^Authorization: Bearer secret'
sent '^Idempotency-Key: "key_'
printf 'from-file\n' >"$dir/token"
run 0 submit --op scale --axes N=64 --token-file "$dir/token"
sent '^Authorization: Bearer from-file'
run 2 jobs --token $'a\r\nX-Injected: 1'
# what holds for all commands may stand before the command
fresh
json GET_v1_kernels_limit_20 <<<'{"kernels":[]}'
run 0 --token before --json kernels
sent '^Authorization: Bearer before'
run 0 --token=joined kernels
sent '^Authorization: Bearer joined'
run 2 --token alone
run 2 --token alone --json
has "$bad" 'there is no command'
run 2 --nonsense kernels
run 0 --json --help
# an answer that never comes: the same key once more
fresh
: >"$dir/www/POST_v1_jobs.1"
answer POST_v1_jobs 202 application/json <<<"$JOB"
run 0 submit --op scale --axes N=64
checks=$((checks + 1))
[ "$(grep -c '^Idempotency-Key' "$dir/www/requests.log")" = 2 ] && [ "$(grep '^Idempotency-Key' "$dir/www/requests.log" | sort -u | wc -l)" = 1 ] ||
    { failures=$((failures + 1)); echo "the request was not repeated with its key" >&2; }

# ---- models, sets, observed shapes
fresh
answer POST_v1_jobs 202 application/json <<<"$JOB"
run 0 submit --model small --tp 8 --batch 1,2,4 --target sm_80 --candidates 5
sent '"model":\{"preset":"small","tp":\[8\],"batch":\[1,2,4\]\}'
sent '"target":"sm_80"'
run 2 submit --model small --op scale --axes N=4
run 2 submit --model small --tp x
run 2 submit --model small --batch 1,,2
run 2 submit --model small --batch ''
run 2 submit --observed 3 --axes N=4
run 0 submit --observed 3 --op scale
sent '"observed":\{"most":3,"op":"scale"\}'
json GET_v1_presets <<<'{"presets":[{"name":"small","tp":[1,8],"batch_max":64,"description":"A step. And more."}]}'
run 0 sets
has "$out" 'small +1,8 +64 +A step'
K='{"shape_hash":"'$H'","shape":{"op":"scale","axes":{"N":64}},"count":36'
json GET_v1_sets_small_tp_8_batch_1%2C2_evidence_emulated \
    <<<'{"complete":false,"kernels":['$K',"kernel":{"time_ns":3210,"speedup":{"median":1.5},"evidence":"emulated"}}],"missing":['$K'}]}'
run 1 sets small --tp 8 --batch 1,2 --evidence emulated
has "$out" "$H  scale +36 +1.50x.*~3.21 us"
has "$out" "$H  scale +36 +missing"
has "$out" '1 of 2 shapes'
json GET_v1_sets_small <<<'{"complete":true,"kernels":[],"missing":[]}'
run 0 sets small
fresh
json POST_v1_observations <<<'{"lines":2,"taken":1,"shapes":1,"new":1,"skipped":1,"skipped_because":[{"line":2,"detail":"no operator \u001b[2J"}]}'
printf '{"op":"scale","axes":{"N":64},"count":3}\n{"op":"x","axes":{}}\n' >"$dir/log"
run 0 observe "$dir/log"
sent '^Content-Type: application/x-ndjson'
sent '"count":3'
has "$out" '2 lines: 1 taken, 1 shapes not seen before, 1 left out'
has "$out" 'line 2: no operator'
hasnt "$out" $'\x1b'
for i in $(seq 12000); do echo '{"op":"scale","axes":{"N":64}}'; done >"$dir/log"
rm "$dir/www/requests.log"
run 0 observe "$dir/log"
checks=$((checks + 1))
[ "$(grep -c '^POST /v1/observations' "$dir/www/requests.log")" = 3 ] && [ "$(grep -o '"op":"scale"' "$dir/www/requests.log" | wc -l)" = 12000 ] ||
    { failures=$((failures + 1)); echo "a long file was not sent in pieces, each line once" >&2; }
has "$out" '^6 lines'
run 6 observe "$dir/none"
json GET_v1_observations_limit_5_op_scale \
    <<<'{"observations":[{"shape_hash":"'$H'","shape":{"op":"scale","axes":{"N":64}},"count":9,"kernel":null,"order":{"saving_ns":2000000000,"based_on":"byte_floor"}}]}'
run 0 observe --op scale --limit 5
has "$out" "$H  scale +9 +~2.000 s +its bytes alone +none"

# ---- problems
fresh
answer POST_v1_jobs 422 application/problem+json <<'JSON'
{"type":"/problems/invalid","title":"The request cannot be carried out","status":422,"code":"unprocessable","detail":"2 faults",
 "errors":[{"pointer":"/shapes/0/N","detail":"must be at least 1"},{"pointer":"","detail":"evil \u001b[2J text"}]}
JSON
run 3 submit --op scale --axes N=0
has "$bad" '/shapes/0/N  must be at least 1'
has "$bad" 'unprocessable'
hasnt "$bad" $'\x1b'
run 3 submit --op scale --axes N=0 --json
has "$out" '"pointer":"/shapes/0/N"'
answer GET_v1_devices 503 application/problem+json <<<'{"title":"Something we need is missing","status":503,"code":"unavailable","detail":"no toolkit"}'
run 5 devices
has "$bad" 'no toolkit'
answer GET_v1_tokens 401 application/problem+json <<<'{"title":"A token is needed","status":401,"code":"unauthenticated"}'
run 3 token list
has "$bad" 'token-file'
answer GET_v1_ops 200 text/html <<<'<html>'
run 4 ops
has "$bad" 'is it a Proteus service'
answer GET_v1_ops 200 application/json <<<'{"ops":['
run 4 ops
answer GET_v1_ops 301 text/plain <<<'moved'
run 4 ops
printf 'garbage\r\n\r\n' >"$dir/www/GET_v1_ops"
run 4 ops

# ---- lists, and text that a terminal would obey
json GET_v1_ops <<<'{"ops":[{"name":"scale\u001b[31m","version":1,"description":"x\u009b31my\u202e","axes":{"N":{"type":"var"},"M":{"default":0}}}]}'
run 0 ops
has "$out" 'N M\?'
hasnt "$out" $'\x1b'
hasnt "$out" $'\xc2\x9b'
hasnt "$out" $'\xe2\x80\xae'
run 0 ops --json
has "$out" 'u009b'
hasnt "$out" $'\xc2\x9b'
json GET_v1_jobs_limit_20 <<<'{"jobs":['"$JOB"'],"next":"cur-1","as_of":9}'
run 0 jobs
has "$out" 'job_1 +done +scale +sm_90a +1 +2/2'
has "$out" '--cursor cur-1'
json GET_v1_kernels_limit_20_op_scale <<<'{"kernels":[{"shape_hash":"'$H'","shape":{"op":"scale","axes":{"N":64},"target":"sm_90a"},"speedup":{"median":2},"time_ns":840,"evidence":"measured"}]}'
run 0 kernels --op scale
has "$out" '2.00x +840 ns +measured'
json GET_v1_devices <<<'{"devices":[{"kind":"sim","name":"emulator","target":"sm_90a","health":"ok"}],"sandbox":{"level":"filtered"},"toolkit":{"version":null,"missing":"libnvrtc.so"}}'
run 0 devices
has "$out" 'sim +emulator +sm_90a +ok +filtered'
has "$out" 'libnvrtc.so'
json POST_v1_shape-hash <<<'{"shape_hash":"'$H'","canonical":"proteus-shape-v1\nop=scale@1\n"}'
run 0 hash --op scale --axes N=64
has "$out" 'op=scale@1'
json POST_v1_tokens <<<'{"id":"tok_1","token":"pk_tok_1_secret","scopes":["read"]}'
run 0 token create --scopes read --output "$dir/new"
hasnt "$out" 'pk_tok'
checks=$((checks + 1))
[ "$(stat -c %a "$dir/new")" = 600 ] && [ "$(cat "$dir/new")" = pk_tok_1_secret ] || { failures=$((failures + 1)); echo "the token's file is wrong" >&2; }

# ---- watch: events, a cut in mid-event, resume without loss or repetition, the end
fresh
json GET_v1_jobs_job_1 <<<"$JOB"
event() { printf 'id: %s\nevent: %s\ndata: %s\n\n' "$1" "$2" "$3"; }
{ event 1 job.state '{"id":1,"job":"job_1","state":"running"}'
  event 2 candidate.proposed '{"id":2,"candidate":"cand_a","is_baseline":true,"notes":"generic"}'
  event 3 candidate.verdict '{"id":3,"candidate":"cand_a","is_baseline":true,"verdict":{"code":"ok"}}'
  event 4 candidate.proposed '{"id":4,"candidate":"cand_b","notes":"two rows a warp \u001b[5m"}'
  printf 'id: 5\nevent: candidate.verdict\nda'; } | answer GET_v1_jobs_job_1_events.1 200 text/event-stream
answer GET_v1_jobs_job_1_events.2 503 application/problem+json <<<'{"title":"later","status":503}'
{ printf ': heartbeat\n\n'
  event 5 candidate.timed '{"id":5,"candidate":"cand_b","time_ns":3210,"speedup":{"median":1.5},"evidence":"emulated"}'
  event 6 candidate.verdict '{"id":6,"candidate":"cand_b","verdict":{"code":"ok"}}'
  event 7 shape.best '{"id":7,"shape_hash":"'$H'","time_ns":3210,"speedup":{"median":1.5},"evidence":"emulated"}'
  event 8 candidate.proposed '{"id":8,"candidate":"cand_c"}'
  event 9 candidate.verdict '{"id":9,"candidate":"cand_c","verdict":{"code":"wrong_result","text":"out[3] is 1, wanted 2"}}'
  event 10 something.new '{"id":10}'
  event 11 job.done '{"id":11,"state":"done"}'; } | answer GET_v1_jobs_job_1_events.3 200 text/event-stream
run 0 watch job_1
has "$out" 'base  ok'
has "$out" '   1  ok  +1.50x  ~3.21 us  two rows a warp'
has "$out" '   2  wrong_result +out\[3\] is 1, wanted 2'
has "$out" 'best so far  1.50x  ~3.21 us  emulated \(estimate\)'
hasnt "$out" $'\x1b'
hasnt "$out" 'measured'
sent '^Last-Event-ID: 4'
checks=$((checks + 1))
[ "$(grep -c 'base  ok' <<<"$out")" = 1 ] || { failures=$((failures + 1)); echo "an event came twice" >&2; }
# the stream of a job that has ended: 204
fresh
sed 's/"done"/"failed"/' <<<"$JOB" | json GET_v1_jobs_job_1
printf 'HTTP/1.1 204 X\r\nConnection: close\r\n\r\n' >"$dir/www/GET_v1_jobs_job_1_events"
run 1 watch job_1
run 1 watch job_1 --after 11 --json
sent '^Last-Event-ID: 11'
run 3 watch nothing
# a job that is done and has no kernel
fresh
sed 's/"best":{.*}}\]/"best":null}]/' <<<"$JOB" | json GET_v1_jobs_job_1
printf 'HTTP/1.1 204 X\r\nConnection: close\r\n\r\n' >"$dir/www/GET_v1_jobs_job_1_events"
run 1 watch job_1

# ---- what an admin decides
fresh
run 2 quarantine $H
has "$bad" '--reason TEXT is missing'
run 2 quarantine zz --reason x
json GET_v1_kernels_${H}_candidates <<<'{"shape_hash":"'$H'","serves":"cand_a","kernels":[]}'
json POST_v1_kernels_${H}_quarantine <<<'{"shape_hash":"'$H'","serves":"cand_b","kernels":[{"candidate":"cand_a","state":"quarantined","speedup":{"median":2},"evidence":"emulated","reason":"evil \u001b[2J"},{"candidate":"cand_b","state":"verified","speedup":{"median":1}}]}'
run 0 quarantine $H --reason "rows are off"
has "$out" 'cand_a +quarantined +2.00x +emulated \(estimate\) +evil'
has "$out" 'cand_b +served'
hasnt "$out" $'\x1b'
sent '"reason":"rows are off","candidate":"cand_a"'
run 0 quarantine $H --reason x --candidate cand_c
sent '"reason":"x","candidate":"cand_c"'
json POST_v1_kernels_${H}_restore <<<'{"serves":null,"kernels":[]}'
run 0 restore $H
has "$out" 'nothing is served'
answer POST_v1_kernels_${H}_revalidate 202 application/json <<<"$JOB"
run 0 revalidate $H
has "$out" 'job_1'
json GET_v1_jobs_job_1 <<<"$JOB"
printf 'HTTP/1.1 204 X\r\nConnection: close\r\n\r\n' >"$dir/www/GET_v1_jobs_job_1_events"
run 0 revalidate $H --watch
answer POST_v1_candidates_cand_a_release 409 application/problem+json <<<'{"title":"The state does not allow this","status":409,"code":"conflict","detail":"cand_a is not held"}'
run 3 release cand_a
has "$bad" 'not held'
json POST_v1_candidates_cand_a_refuse <<<'{"id":"cand_a"}'
run 0 refuse cand_a --reason "it reads a clock"
sent '"reason":"it reads a clock"'
run 1 kernels $H
answer GET_v1_kernels_$H 410 application/problem+json <<<'{"title":"It has been withdrawn","status":410,"code":"gone","detail":"the kernel was withdrawn: rows are off"}'
run 1 kernels $H
has "$bad" 'rows are off'
run 1 fetch $H

# ---- lessons
fresh
L='{"id":"les_1","state":"active","tags":["op/scale"],"situation":"It \u001b[31mspills","action":"Unroll less.","evidence":{"basis":"signed","signed_by":"A","effect":{"ratio":1.2,"low":1.1,"high":1.3,"pairs":4},"measured":false},"trust":{"lower":0.5},"uses":3,"wins":2}'
json GET_v1_lessons_q_spill%20stores_tag_symptom%2Fspill%2Cdtype%2Fbf16_op_scale_token_budget_300 <<<'{"lessons":['"$L"'],"next":null}'
run 0 lessons search "spill stores" --op scale --tag symptom/spill --tag dtype/bf16 --token-budget 300
sent 'q=spill(%20|\+)stores'
sent 'tag=symptom%2Fspill%2Cdtype%2Fbf16'
sent 'token_budget=300'
has "$out" 'Unroll less'
has "$out" '~1.2x \[1.1, 1.3\]'
has "$out" 'helped 2'
hasnt "$out" $'\x1b'
json GET_v1_lessons <<<'{"lessons":[],"next":null}'
run 0 lessons
has "$out" 'no lessons'
json GET_v1_lessons_les_1 <<<"$L"
run 0 lessons show les_1 --json
echo '{"tags":["op/scale"],"situation":"s","action":"a"}' >"$dir/lesson.json"
answer POST_v1_lessons 201 application/json <<<"$L"
run 0 lessons add "$dir/lesson.json" --signed-by "A. Operator"
sent '"signed_by":"A. Operator"'
json POST_v1_lessons_les_1_retire <<<"$L"
run 0 lessons retire les_1 --reason wrong
sent '"reason":"wrong"'
json GET_v1_lessons_steps <<<'{"steps":[{"id":"step_1","kind":"merge","reason":"they say the same","time":"t","undone":false,"changes":[{"lesson":"les_1","before":{"state":"active"},"after":{"state":"superseded"}}]}]}'
run 0 lessons steps
has "$out" 'active to superseded'
json POST_v1_lessons_steps_step_1_undo <<<'{"id":"step_1","undone":true}'
run 0 lessons undo step_1
has "$out" 'taken back'
json GET_v1_notes_$H <<<'{"notes":[{"verdict":"race","count":3,"text":"the tile is overwritten"}]}'
run 0 lessons notes $H
has "$out" 'race  3 times'
run 2 lessons nonsense x

# ---- fetch: nothing is written unless it is verified
fresh
json GET_v1_kernels_$H <<<'{}'
answer GET_v1_kernels_${H}_bundle.tar 200 application/x-tar <<<'no archive'
answer GET_v1_signing-key 200 text/plain <<<'no key'
run 4 fetch $H -o "$dir/kernel"
checks=$((checks + 1)); [ ! -e "$dir/kernel" ] || { failures=$((failures + 1)); echo "an unverified bundle was written" >&2; }
answer GET_v1_kernels_$H 404 application/problem+json <<<'{"title":"There is no such thing","status":404,"nearest":[{"shape_hash":"'$H'","shape":{"axes":{"N":32}}}]}'
run 1 fetch $H
has "$bad" 'nearest'
has "$bad" 'N=32'

echo "$checks checks, $failures failed"
[ $failures = 0 ] && [ $checks -gt 80 ]
