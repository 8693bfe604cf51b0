#!/bin/bash
# The real Triton: which one there is, a function of each kind through the whole judge, and one as the baseline of another. Skipped (77) on a
# host without Triton. Prints a line a case and, where one is not as wanted, all that the judge says.
# Usage: triton.sh PROTEUS_GPU OPS_DIR [DEVICE [PYTHON]]
set -u
gpu=$1 ops=$2 device=${3:-sim}
export PROTEUS_PYTHON=${4:-${PROTEUS_PYTHON:-python3}}
"$PROTEUS_PYTHON" -I -c 'import triton; print("triton", triton.__version__)' || { echo "skipped: $PROTEUS_PYTHON has no Triton"; exit 77; }
work=$(mktemp -d) || exit 1
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
bad=0

# pack NAME PLAN TRITON: NAME.py becomes NAME.json
pack() {
    "$PROTEUS_PYTHON" -I -c 'import json,sys
d={"language":"triton","source":open(sys.argv[1]).read(),"plan":json.loads(sys.argv[2]),"triton":json.loads(sys.argv[3])}
json.dump(d,open(sys.argv[4],"w"))' "$work/$1.py" "$2" "$3" "$work/$1.json"
}

# judge NAME SHAPE WANTED [more flags]
judge() {
    local name=$1 shape=$2 wanted=$3 from=$(date +%s%N)
    shift 3
    "$gpu" judge-file --device "$device" --ops-dir "$ops" --mode triage --shape "$shape" --candidate "$work/$name.json" --json "$work/$name.result" "$@" \
        >"$work/out" 2>"$work/err"
    local got=$(awk 'NF { w = $1 } END { print w }' "$work/out")
    case " $wanted " in *" ${got:-nothing} "*) word=ok ;; *) word=WRONG bad=$((bad + 1)) ;; esac
    printf '%-5s %-22s %-20s %6d ms\n' "$word" "$name" "${got:-nothing}" $((($(date +%s%N) - from) / 1000000))
    if [ $word = WRONG ]; then
        tail -c 3000 "$work/out" "$work/err"
        "$PROTEUS_PYTHON" -I -c 'import json,sys
r=json.load(open(sys.argv[1])); print(json.dumps(r["verdict"])[:4000]); print(r["figures"].get("triton"))' "$work/$name.result" 2>/dev/null
    fi
}

head='import triton
import triton.language as tl
'
printf '%s' "$head" >"$work/rms.py"
cat >>"$work/rms.py" <<'PY'
@triton.jit
def rms(x, weight, y, eps, N: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < N
    v = tl.load(x + row * N + at, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(weight + at, mask=mask, other=0.0).to(tl.float32)
    r = tl.rsqrt(tl.sum(v * v, axis=0) / N + eps)
    tl.store(y + row * N + at, (v * r * w).to(y.dtype.element_ty), mask=mask)
PY
sig='{"signature":{"x":"*DTYPE_io:16","weight":"*DTYPE_io:16","y":"*DTYPE_io:16","eps":"fp32"},"constexprs":{"N":"N","BLOCK":1024},"num_warps":4,"num_stages":2}'
plan='{"steps":[{"kernel":"rms","grid":["R"],"block":[128],"args":["x","weight","y","eps"]}]}'
pack rms "$plan" "$sig"
shape='{"op":"rmsnorm","axes":{"R":8,"N":1024}}'
right="ok not_faster unclear"
judge rms "$shape" "$right"

# no power of two, and the constants that every source finds
sed -e 's/, N: tl.constexpr, BLOCK: tl.constexpr//' -e 's/BLOCK/1024/; s/\bN\b/AXIS_N/g' "$work/rms.py" >"$work/constants.py"
pack constants "$plan" '{"signature":{"x":"*DTYPE_io","weight":"*DTYPE_io","y":"*DTYPE_io","eps":"fp32"}}'
judge constants '{"op":"rmsnorm","axes":{"R":4,"N":1000}}' "$right"

printf '%s' "$head" >"$work/silu.py"
cat >>"$work/silu.py" <<'PY'
@triton.jit
def silu(x, y, N: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    mask = at < N
    gate = tl.load(x + row * 2 * N + at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(x + row * 2 * N + N + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + row * N + at, (gate * tl.sigmoid(gate) * up).to(y.dtype.element_ty), mask=mask)
PY
args=$("$PROTEUS_PYTHON" -I -c 'import json,sys
d=json.load(open(sys.argv[1])); print(json.dumps([*d["inputs"],*d["inouts"],*d["outputs"]]))' "$ops/silu_and_mul/op.json")
pack silu '{"steps":[{"kernel":"silu","grid":["R","cdiv(N,512)"],"block":[64],"args":'"$args"'}]}' \
    '{"signature":{"x":"*DTYPE_io:16","y":"*DTYPE_io:16"},"constexprs":{"N":"N","BLOCK":512},"num_warps":2}'
judge silu '{"op":"silu_and_mul","axes":{"R":8,"N":1024}}' "$right"

# faults: wrong, a compiler's error, and a program of the host
sed 's/(v \* r \* w)/(v * r * w * 1.02)/' "$work/rms.py" >"$work/wrong.py"
pack wrong "$plan" "$sig"
judge wrong "$shape" wrong_result
sed 's/tl.rsqrt/tl.no_such_thing/' "$work/rms.py" >"$work/error.py"
pack error "$plan" "$sig"
judge error "$shape" compile_error
{ cat "$work/rms.py"; echo 'import os; assert os.system("id") == 0, "not started"'; } >"$work/program.py"
pack program "$plan" "$sig"
judge program "$shape" compile_error
{ cat "$work/rms.py"; echo 'open("/dev/nvidiactl")'; } >"$work/card.py"
pack card "$plan" "$sig"
judge card "$shape" compile_error

# an engine's kernel as the baseline, in the same run; and a kernel against itself
judge rms "$shape" "$right" --baseline "$work/rms.json"
[ $bad -eq 0 ] && echo "all as wanted" || { echo "$bad not as wanted"; exit 1; }
