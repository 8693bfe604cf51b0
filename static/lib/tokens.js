// Colours for sources: a small tokenizer of CUDA C++, PTX and Python, by line. It colours; it does not judge: whatever it does not know
// is plain text, and no text is lost.

const set = (text) => new Set(text.split(' '));
const C_WORDS = set(
  'alignas alignof asm auto break case class const constexpr continue default delete do else enum explicit extern false for friend goto if inline mutable namespace new noexcept nullptr operator private public register restrict return sizeof static static_assert struct switch template this true typedef typename union using virtual volatile while __restrict__',
);
const C_TYPES = set(
  'bool char double float half int long short signed unsigned void size_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uint2 uint4 int2 int4 float2 float3 float4 dim3 __half __half2 __nv_bfloat16 __nv_bfloat162 __nv_fp8_e4m3',
);
const CUDA = set(
  '__global__ __device__ __host__ __shared__ __constant__ __forceinline__ __launch_bounds__ __syncthreads __syncwarp threadIdx blockIdx blockDim gridDim warpSize __cluster_dims__',
);
const PY_WORDS = set(
  'and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield',
);
const PY_TYPES = set('tl triton constexpr float32 float16 bfloat16 int32 int64 range len min max');

const NUMBER = /^(?:0[xX][0-9a-fA-F']+|0[fFdD][0-9a-fA-F]{8,16}|\d[\d']*\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)[uUlLfF]*/;
const WORD = /^[A-Za-z_$][\w$]*/;
const STRING = /^"(?:[^"\\\n]|\\.)*"?|^'(?:[^'\\\n]|\\.)*'?/;
const SPACE = /^\s+/;

const languages = {
  cuda: {
    line: '//',
    block: ['/*', '*/'],
    pre: /^\s*#.*/,
    word: (w) =>
      CUDA.has(w) || w.startsWith('__')
        ? 'cuda'
        : C_WORDS.has(w)
          ? 'word'
          : C_TYPES.has(w) || w.startsWith('DTYPE_')
            ? 'type'
            : /^(AXIS_|[A-Z][A-Z0-9_]+$)/.test(w)
              ? 'number'
              : '',
  },
  ptx: {
    line: '//',
    block: ['/*', '*/'],
    word: () => '',
    extra: [
      [/^\.[A-Za-z_][\w]*/, 'type'],
      [/^%[\w.]+/, 'number'],
      [/^[a-z][a-z0-9]*(?=[.\s;])/, 'word'],
    ],
  },
  triton: { line: '#', triple: true, pre: /^\s*@.*/, word: (w) => (PY_WORDS.has(w) ? 'word' : PY_TYPES.has(w) ? 'type' : '') },
};

function lineTokens(lang, text, state) {
  const out = [];
  const add = (cls, piece) => {
    const last = out.at(-1);
    if (last && last[0] === cls) last[1] += piece;
    else out.push([cls, piece]);
  };
  let at = 0;
  const closing = () => {
    // inside a comment or a triple string
    const end = text.indexOf(state.until, at);
    const stop = end < 0 ? text.length : end + state.until.length;
    add(state.cls, text.slice(at, stop));
    at = stop;
    if (end >= 0) state.until = null;
  };
  if (state.until) closing();
  const pre = at === 0 && lang.pre?.exec(text);
  if (pre && !text.includes('/*')) {
    add('pre', text);
    return out;
  }
  while (at < text.length) {
    if (state.until) {
      closing();
      continue;
    }
    const rest = text.slice(at, at + 4000);
    let m;
    if (rest.startsWith(lang.line)) {
      add('comment', text.slice(at));
      break;
    }
    if (lang.block && rest.startsWith(lang.block[0])) {
      state.until = lang.block[1];
      state.cls = 'comment';
      add('comment', lang.block[0]);
      at += 2;
      continue;
    }
    if (lang.triple && (rest.startsWith('"""') || rest.startsWith("'''"))) {
      state.until = rest.slice(0, 3);
      state.cls = 'string';
      add('string', state.until);
      at += 3;
      continue;
    }
    const extra = lang.extra?.find(([re]) => re.test(rest));
    if ((m = SPACE.exec(rest))) add('', m[0]);
    else if (extra) {
      m = extra[0].exec(rest);
      add(extra[1], m[0]);
    } else if ((m = STRING.exec(rest))) add('string', m[0]);
    else if ((m = NUMBER.exec(rest))) add('number', m[0]);
    else if ((m = WORD.exec(rest))) add(lang.word(m[0]), m[0]);
    else {
      m = [rest[0]];
      add('', rest[0]);
    }
    at += m[0].length;
  }
  return out;
}

/** [[class or '', text], ...] for each line. */
export function tokenize(language, source) {
  const lang = languages[language] ?? languages.cuda,
    state = { until: null, cls: '' };
  return String(source)
    .split('\n')
    .map((line) => (line.length > 4000 ? [['', line]] : lineTokens(lang, line, state)));
}
