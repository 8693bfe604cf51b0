// Documents of the documented form for the dashboard's tests, from words that a stranger may choose. Figures are made up; nothing here is
// a measurement.
import crypto from 'node:crypto';

export const EVIL =
  '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>"\'>&lt;b&gt; javascript:window.pwned=1 ${window.pwned=1} \u202e\u0007';
export const hash = (n) => crypto.createHash('blake2b512').update(String(n)).digest('hex').slice(0, 64);
const id = (prefix, n) => `${prefix}_01m8${String(n).padStart(22, '0')}`;
export const candidateId = (n) => id('cand', n);
const time = (minutes) => new Date(Date.now() - minutes * 60000).toISOString();

// ---- minisign, to have something that a browser can check
const pair = crypto.generateKeyPairSync('ed25519');
const rawKey = pair.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32),
  keyNumber = Buffer.from('0102030405060708', 'hex');
export const publicKey = `untrusted comment: minisign public key\n${Buffer.concat([Buffer.from('Ed'), keyNumber, rawKey]).toString('base64')}\n`;
export function minisign(data, comment) {
  const signature = crypto.sign(null, crypto.createHash('blake2b512').update(data).digest(), pair.privateKey);
  const over = crypto.sign(null, Buffer.concat([signature, Buffer.from(comment)]), pair.privateKey);
  return `untrusted comment: signature\n${Buffer.concat([Buffer.from('ED'), keyNumber, signature]).toString('base64')}\ntrusted comment: ${comment}\n${over.toString('base64')}\n`;
}

// ---- figures, made up from a seed
function random(seed) {
  let s = seed;
  return () => {
    s = (s * 1103515245 + 12345) % 2147483648;
    return s / 2147483648;
  };
}
const quartiles = (list) => {
  const s = [...list].sort((a, b) => a - b),
    at = (p) => s[Math.floor(p * (s.length - 1))];
  return { min_ns: at(0), q1_ns: at(0.25), median_ns: at(0.5), q3_ns: at(0.75), p95_ns: at(0.95) };
};
function measured(words) {
  const r = random(7),
    noise = (base, spread) => Math.round(base * (1 + spread * (r() + r() + r() - 1.5)) * 10) / 10;
  const candidate = Array.from({ length: 160 }, () => noise(3035, 0.02)),
    baseline = Array.from({ length: 160 }, () => noise(3452, 0.02));
  const speedup = { median: 1.137, low: 1.1315, high: 1.1426 };
  const clocks = {
    candidate_mhz: { min: 1965, q1: 1980, median: 1980, q3: 1980 },
    baseline_mhz: { min: 1965, q1: 1980, median: 1980, q3: 1980 },
    reasons: ['sw_power_cap'],
  };
  const mode = (timer, c, b) => ({
    timer,
    candidate: quartiles(c),
    baseline: quartiles(b),
    ratio: quartiles(b).median_ns / quartiles(c).median_ns,
  });
  return {
    evidence: 'measured',
    mode: 'graph-rotated',
    time_ns: 3035,
    baseline_ns: 3452,
    speedup,
    decision: 'faster',
    bound: 'latency',
    occupancy: 0.62,
    judge_wall_ns: 5100000000,
    resources: [{ kernel: words, registers: 46, shared_bytes: 2048, local_bytes: 0, spill_bytes: 16 }],
    counts: [{ thread_instructions: 10436608, blocks: 512 }],
    roofline: {
      bytes: 4214976,
      flops: 3670016,
      memory_ns: 878.12,
      compute_ns: 3.7,
      launch_ns: 500,
      floor_ns: 878.12,
      limit: 'memory',
      fraction: 0.289,
      ceiling: { bytes_per_ns: 4090, memory_ns: 1030, fraction: 0.34 },
      notes: [words],
    },
    samples: { unit: 'ns per launch', launches: 64, candidate, baseline },
    statistics: { pairs: 160, confidence: 0.95 },
    modes: {
      'graph-rotated': { ...mode('events', candidate, baseline), clocks },
      'cold-isolated': mode(
        'trace records',
        candidate.map((v) => v * 1.7),
        baseline.map((v) => v * 1.7),
      ),
      eager: mode(
        'wall clock',
        candidate.map((v) => v * 2.4),
        baseline.map((v) => v * 2.35),
      ),
    },
    rules: [
      { rule: 1, what: 'the records are the plan’s launches', outcome: 'ok', figures: { records: 64 } },
      { rule: 5, what: `a launch takes as long by the records ${words}`, outcome: 'flag', found: words },
    ],
  };
}

export const AXES = { B: 4, H: 2, HV: 8, K: 128, V: 128 };
const PLAN = {
  workspace: [{ name: 'partial', bytes: '4*B*HV' }],
  steps: [
    { memset: 'partial', value: 0 },
    {
      kernel: 'gdn',
      grid: ['V/32', 'HV', 'B'],
      block: [128, 1, 1],
      cluster: [1, 1, 1],
      shared_bytes: '0',
      args: ['mixed_qkv', 'state', 'out'],
    },
  ],
};

export class Documents {
  constructor(words) {
    this.words = words;
  }

  result(n, s, evidence) {
    return {
      candidate: candidateId(n),
      time_ns: 5200 / s,
      speedup: { median: s, low: evidence === 'measured' ? s * 0.98 : s, high: evidence === 'measured' ? s * 1.02 : s },
      evidence,
    };
  }
  shape(op) {
    return { op, axes: AXES, dtypes: { io: 'bf16' }, target: 'sm_90a' };
  }
  jobDoc(name, state, op, best) {
    return {
      id: name,
      op,
      state,
      generator: 'template',
      created: time(name === 'job_live' ? 2 : 40),
      started: time(2),
      finished: state === 'running' ? undefined : time(20),
      target: 'sm_90a',
      budget: { candidates: 24, gpu_seconds: 60, wall_seconds: 600, tokens: null },
      spent: { candidates: state === 'done' ? 24 : 9, gpu_seconds: 12.4, wall_seconds: 91, tokens: 34000 },
      shapes: [
        {
          shape_hash: hash(name),
          shape: this.shape(op),
          state: 'searching',
          best,
          baseline: { candidate: candidateId(0), time_ns: 5200, evidence: 'emulated' },
          why_ended: state === 'done' ? this.words : null,
        },
      ],
    };
  }
  kernelDoc(n, op, s, evidence) {
    return {
      shape_hash: hash(`kernel${n}`),
      shape: { op, axes: { ...AXES, B: 1 << (n % 8) }, dtypes: { io: 'bf16' }, target: 'sm_90a' },
      op,
      target: 'sm_90a',
      evidence,
      candidate: candidateId(1),
      job: 'job_old',
      time_ns: 5200 / s,
      baseline_time_ns: 5200,
      mode: 'graph',
      speedup: { median: s, low: evidence === 'measured' ? s * 0.99 : s, high: evidence === 'measured' ? s * 1.01 : s },
      served_since: time(n + 1),
      plan: PLAN,
      digests: {},
      preconditions: {},
      history: [
        { candidate: candidateId(0), time_ns: 5000, speedup: { median: 1.1, low: 1, high: 1.2 }, evidence, served_since: time(50), until: time(5), reason: this.words },
      ],
    };
  }
  brief(n) {
    const codes = ['ok', 'ok', 'wrong_result', 'ok', 'compile_error', 'not_faster', 'race', 'timeout'],
      code = n ? codes[n % codes.length] : 'ok',
      timed = code === 'ok' || code === 'not_faster';
    const s = 1 + Math.log1p(n) / 8 - (n % 7) * 0.05,
      figures = timed ? { time_ns: 5200 / s, speedup: { median: n ? s : 1, low: s, high: s }, evidence: 'emulated' } : {};
    return {
      id: candidateId(n),
      shape_hash: hash('job_live'),
      op: 'gdn_packed_decode',
      state: 'judged',
      is_baseline: n === 0,
      language: 'cuda',
      notes: `${1 + (n % 4)} rows a warp`,
      parent: n > 1 ? candidateId(Math.floor(n / 3)) : undefined,
      created: time(30),
      judged: time(29),
      ...figures,
      verdict: { code, phase: 'correct', text: n ? `out[0,3,${n}] is 1.25, wanted 0.98` : 'Right.' },
    };
  }
  candidateDoc(name) {
    const w = this.words,
      ok = name === candidateId(1);
    return {
      id: name,
      job: 'job_live',
      shape_hash: hash('job_live'),
      op: 'gdn_packed_decode',
      state: 'judged',
      is_baseline: name === candidateId(0),
      created: time(3),
      judged: time(2),
      artifacts: {},
      candidate: {
        language: 'cuda',
        source: `// ${w}\n#include <cuda_bf16.h>\nextern "C" __global__ void gdn(const float *x, float *y)\n{\n    /* ${w}\n       two lines */\n    y[threadIdx.x + 32] = x[threadIdx.x] * ${name === candidateId(0) ? 1 : 2}.0f;   // ${w}\n}\n`,
        plan: PLAN,
        notes: w,
        defines: { ROWS: 2 },
        parent: ok ? candidateId(0) : candidateId(1),
        lessons: ['les_1'],
      },
      phases: [
        { mode: 'triage', phase: w, ms: 1.5 },
        { mode: 'triage', phase: 'compile', ms: 300, verdict: 'ok' },
        { mode: 'full', phase: 'audit', ms: 3, verdict: 'ok', not_done: w },
        { mode: 'retest', phase: 'emulate', ms: 60, verdict: ok ? 'ok' : 'out_of_bounds' },
      ],
      links: {},
      verdict: ok
        ? {
            code: 'ok',
            phase: 'retest',
            fault: 'nobody',
            text: 'Right, and faster than the baseline.',
            for_person: 'The kernel is right and, on this device, at least as good as asked.',
            for_generator: '',
            detail: null,
          }
        : {
            code: 'out_of_bounds',
            phase: 'emulate',
            fault: 'candidate',
            text: `thread (0,0,0) reads beyond ${w} (line 7)`,
            for_person: 'The kernel touches memory outside its buffers.',
            for_generator: w,
            detail: { source_line: 7, buffer: w, log: `candidate.cu(7): error: ${w}\n` },
            ...(name === candidateId(907) || name === candidateId(908)
              ? { code: 'implausible', fault: 'nobody', detail: name === candidateId(907) ? { held: true, why: w } : null }
              : {}),
          },
      figures: ok ? measured(w) : null,
      decision: this.decided?.[name],
      profile: ok
        ? { evidence: 'measured', mode: 'cold-isolated', device: w, driver: w, passes: 9, steps: [{ duration_ns: 7 }, { duration_ns: 4100, dram_pct: 61.5, stalls: { long_scoreboard: 9.5, [w]: 1 } }] }
        : { not_done: w },
    };
  }
  certificateDoc() {
    const w = this.words,
      f = measured(w);
    const tensors = [{ tensor: 'out', elements: 4096, worst_error: 0.0038, rms_error: 0.0016, ratio_to_baseline: 1.0 }];
    return {
      format: 'proteus-certificate-v1',
      shape: this.shape('rmsnorm'),
      shape_hash: hash('kernel0'),
      op_version: 1,
      ...f,
      verdict: 'ok',
      digests: { source: hash(1), plan: hash(2), ptx: hash(3), cubin: hash(4) },
      program: { language: 'cuda', plan: PLAN },
      plan: PLAN,
      options: `-DROWS=2\n${w}`,
      preconditions: {
        target: 'sm_90a',
        driver_least: '580.65.06',
        workspace_bytes: 128,
        tensors: { [w.slice(0, 30)]: { role: 'input', dtype: 'bf16', dims: [4, 1536], strides: [1536, 1], alignment: 16, bytes: 12288 } },
      },
      timing: {
        mode: 'graph-rotated',
        statistics: f.statistics,
        pairs_discarded: 3,
        pairs_throttled: 0,
        clocks: f.modes['graph-rotated'].clocks,
        control: {},
      },
      phases: [
        { phase: 'compile', ms: 300 },
        {
          phase: 'emulate',
          ms: 480,
          blocks_emulated: 512,
          blocks_of_all: 512,
          checks: ['bounds', 'races'],
          schedules: [{ schedule: 'lockstep', seed: '0x01' }],
          thread_instructions: 26177536,
        },
        {
          phase: 'correct',
          ms: 700,
          yardstick: w,
          poisons: ['0x01', '0x02'],
          regimes: [
            { name: 'typical', hidden: false, seed: '0x01', tensors },
            { name: w, hidden: false, seed: '0x02', tensors },
            { hidden: true, seed: '0x03', tensors },
          ],
        },
        { phase: 'probe', repeats: 100, ms: 30 },
        {
          phase: 'retest',
          ms: 900,
          ratio: 1.13,
          ratio_before: 1.14,
          published: 1,
          other_card: true,
          occasions: [
            { candidate_ns: 3036, baseline_ns: 3450, ratio: { median: 1.136 }, decision: 'faster', regimes: [{}], device: { name: w, uuid: 'GPU-0-other' }, why_this_card: w },
            { candidate_ns: 3035, baseline_ns: 3452, ratio: { median: 1.137 }, decision: w, regimes: [{}] },
          ],
        },
      ],
      calibration: { copy_bytes_per_ns: 4090, read_bytes_per_ns: 4300, sm_clock_mhz: 1980, node_ns: 1300 },
      needs: { asked: ['audit'], missing: [{ need: 'audit', why: `no audit of the launches: ${w}` }] },
      sandbox: { level: 'isolated', seccomp: true, landlock: true, namespaces: true, limits: true },
      device: { kind: 'cuda', name: `card ${w}`, uuid: 'GPU-0', driver: '580', target: 'sm_90a' },
      toolkit: { version: '13.0' },
      proteus_version: '0.1.0',
      times: { proposed: time(9), started: time(8), ended: time(7), certified: time(7) },
    };
  }
  lesson(n) {
    const w = this.words;
    return {
      id: `les_${n}`,
      state: 'active',
      tags: ['op/gdn_packed_decode', 'target/sm_90a', `technique/t${n % 3}`, n ? 'symptom/spill' : `regime/${w.slice(0, 40)}`],
      situation: w === EVIL ? w : 'Registers spill where each thread holds four rows of the state.',
      action: w === EVIL ? w : 'Hold two rows and load the next ones ahead.',
      evidence: {
        basis: 'paired',
        measured: n === 0,
        candidates: [candidateId(1)],
        shapes: [hash('job_live')],
        effect: { ratio: 1.12, low: 1.07, high: 1.18, level: 0.9, pairs: 9 },
        reason: w,
      },
      trust: { alpha: 9, beta: 2, mean: 0.81, lower: 0.7 },
      uses: 12,
      wins: 9,
      source: 'template',
      by: w,
      created: time(50),
      updated: time(4),
      supersedes: [],
      score: { score: 0.9 - n / 10, fused: 0.5, trust: 0.7, tag_rank: n + 1, bm25_rank: 2, bm25: 3.1, vector_rank: 0, cosine: 0.2 },
      history: [
        { time: time(40), trust: 0.5, reason: w },
        { time: time(4), trust: 0.7, reason: 'it helped' },
      ],
    };
  }

  op() {
    return {
      name: 'rmsnorm',
      version: 1,
      description: this.words,
      tags: [this.words],
      axes: {
        R: { type: 'var', max: 1048576, description: this.words },
        N: { type: 'var', max: 65536, description: 'elements' },
        weight_offset: { type: 'var', min: 0, max: 1, default: 0 },
      },
      dtypes: { io: ['bf16', 'f16', 'f32'] },
    };
  }
}
