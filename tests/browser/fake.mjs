// A service of our own for the dashboard's tests: documents of the documented form, events that it can be made to send, streams that it
// can cut, a token that it can ask for. Every text that a stranger may choose is `evil` (or harmless words, for pictures).
// Figures are made up; nothing here is a measurement.
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

export const EVIL = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>"\'>&lt;b&gt; javascript:window.pwned=1 ${window.pwned=1} \u202e\u0007';
export const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml', '.txt': 'text/plain; charset=utf-8' };
export const hash = (n) => crypto.createHash('blake2b512').update(String(n)).digest('hex').slice(0, 64);
const id = (prefix, n) => `${prefix}_01m8${String(n).padStart(22, '0')}`;
export const candidateId = (n) => id('cand', n);
const time = (minutes) => new Date(Date.now() - minutes * 60000).toISOString();

// ---- minisign, to have something that a browser can check
const pair = crypto.generateKeyPairSync('ed25519');
const rawKey = pair.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32), keyNumber = Buffer.from('0102030405060708', 'hex');
export const publicKey = `untrusted comment: minisign public key\n${Buffer.concat([Buffer.from('Ed'), keyNumber, rawKey]).toString('base64')}\n`;
function minisign(data, comment) {
  const signature = crypto.sign(null, crypto.createHash('blake2b512').update(data).digest(), pair.privateKey);
  const over = crypto.sign(null, Buffer.concat([signature, Buffer.from(comment)]), pair.privateKey);
  return `untrusted comment: signature\n${Buffer.concat([Buffer.from('ED'), keyNumber, signature]).toString('base64')}\ntrusted comment: ${comment}\n${over.toString('base64')}\n`;
}

// ---- figures, made up from a seed
function random(seed) { let s = seed; return () => { s = (s * 1103515245 + 12345) % 2147483648; return s / 2147483648; }; }
const quartiles = (list) => { const s = [...list].sort((a, b) => a - b), at = (p) => s[Math.floor(p * (s.length - 1))]; return { min_ns: at(0), q1_ns: at(0.25), median_ns: at(0.5), q3_ns: at(0.75), p95_ns: at(0.95) }; };
function measured(words) {
  const r = random(7), noise = (base, spread) => Math.round((base * (1 + spread * (r() + r() + r() - 1.5))) * 10) / 10;
  const candidate = Array.from({ length: 160 }, () => noise(3035, 0.02)), baseline = Array.from({ length: 160 }, () => noise(3452, 0.02));
  const speedup = { median: 1.137, low: 1.1315, high: 1.1426 };
  const clocks = { candidate_mhz: { min: 1965, q1: 1980, median: 1980, q3: 1980 }, baseline_mhz: { min: 1965, q1: 1980, median: 1980, q3: 1980 }, reasons: ['sw_power_cap'] };
  const mode = (timer, c, b) => ({ timer, candidate: quartiles(c), baseline: quartiles(b), ratio: quartiles(b).median_ns / quartiles(c).median_ns });
  return {
    evidence: 'measured', mode: 'graph-rotated', time_ns: 3035, baseline_ns: 3452, speedup, decision: 'faster', bound: 'latency', occupancy: 0.62, judge_wall_ns: 5100000000,
    resources: [{ kernel: words, registers: 46, shared_bytes: 2048, local_bytes: 0, spill_bytes: 16 }], counts: [{ thread_instructions: 10436608, blocks: 512 }],
    roofline: { bytes: 4214976, flops: 3670016, memory_ns: 878.12, compute_ns: 3.7, launch_ns: 500, floor_ns: 878.12, limit: 'memory', fraction: 0.289, ceiling: { bytes_per_ns: 4090, memory_ns: 1030, fraction: 0.34 }, notes: [words] },
    samples: { unit: 'ns per launch', launches: 64, candidate, baseline }, statistics: { pairs: 160, confidence: 0.95 },
    modes: { 'graph-rotated': { ...mode('events', candidate, baseline), clocks }, 'cold-isolated': mode('trace records', candidate.map((v) => v * 1.7), baseline.map((v) => v * 1.7)), eager: mode('wall clock', candidate.map((v) => v * 2.4), baseline.map((v) => v * 2.35)) },
    rules: [{ rule: 1, what: 'the records are the plan’s launches', outcome: 'pass', records: 64 }, { rule: 5, what: `a launch takes as long by the records ${words}`, outcome: 'flag', why: words }],
  };
}

const AXES = { B: 4, H: 2, HV: 8, K: 128, V: 128 };
const PLAN = { workspace: [{ name: 'partial', bytes: '4*B*HV' }], steps: [{ memset: 'partial', value: 0 }, { kernel: 'gdn', grid: ['V/32', 'HV', 'B'], block: [128, 1, 1], cluster: [1, 1, 1], shared_bytes: '0', args: ['mixed_qkv', 'state', 'out'] }] };

export class Fake {
  /** words: for every text that a stranger chooses; candidates, kernels: how many there are from the start. */
  constructor(staticDir, { words = EVIL, candidates = 0, kernels = 3, lessons = true } = {}) {
    Object.assign(this, { staticDir, words, lessons, needToken: false, refuse: false, clients: new Set(), log: [], lastId: 100, job: 'job_live', shelfState: 'verified', posted: [] });
    this.seen = { lastIds: [], tokens: [], streams: 0, most: 0 };
    this.nice = words === EVIL ? EVIL : 'rmsnorm';
    this.jobs = new Map([this.jobDoc('job_live', 'running', 'gdn_packed_decode', null), this.jobDoc('job_old', 'done', 'rmsnorm', this.result(1, 1.31, 'measured')),
      { ...this.jobDoc('job_evil', 'failed', this.nice, null), error: { code: words, text: words } }].map((j) => [j.id, j]));
    for (let i = 0; i < 5; i++) this.jobs.get('job_old').shapes.push({ ...this.jobDoc(`old${i}`, 'done', i % 2 ? 'rmsnorm' : this.nice, this.result(i, 0.98 + i * 0.35, i % 2 ? 'measured' : 'emulated')).shapes[0], shape: { op: i % 2 ? 'rmsnorm' : 'gated_rmsnorm', axes: { ...AXES, B: 4 << (i % 3) } } });
    this.kernels = new Map([this.kernelDoc(0, 'rmsnorm', 1.137, 'measured'), this.kernelDoc(1, this.nice, 2.5, 'emulated'), this.kernelDoc(2, 'odd', 3, words)].map((k) => [k.shape_hash, k]));
    for (let i = 3; i < kernels; i++) { const k = this.kernelDoc(i, i % 2 ? 'rmsnorm' : 'gdn_packed_decode', 1 + (i % 37) / 20, i % 3 ? 'measured' : 'emulated'); this.kernels.set(k.shape_hash, k); }
    this.candidates = [];
    for (let i = 0; i < candidates; i++) this.candidates.push(this.brief(i));
    this.certificate = Buffer.from(JSON.stringify(this.certificateDoc()));
    this.signature = minisign(this.certificate, `timestamp:1 file:certificate.json ${words === EVIL ? '<script>window.pwned=1</script>' : ''}`);
    this.server = http.createServer((request, response) => this.answer(request, response));
  }

  result(n, s, evidence) { return { candidate: candidateId(n), time_ns: 5200 / s, speedup: { median: s, low: evidence === 'measured' ? s * 0.98 : s, high: evidence === 'measured' ? s * 1.02 : s }, evidence }; }
  shape(op) { return { op, axes: AXES, dtypes: { io: 'bf16' }, target: 'sm_90a' }; }
  jobDoc(name, state, op, best) {
    return { id: name, op, state, generator: 'template', created: time(name === 'job_live' ? 2 : 40), started: time(2), finished: state === 'running' ? undefined : time(20), target: 'sm_90a', budget: { candidates: 24, gpu_seconds: 60, wall_seconds: 600, tokens: null },
      spent: { candidates: state === 'done' ? 24 : 9, gpu_seconds: 12.4, wall_seconds: 91, tokens: 34000 },
      shapes: [{ shape_hash: hash(name), shape: this.shape(op), state: 'searching', best, baseline: { candidate: candidateId(0), time_ns: 5200, evidence: 'emulated' }, why_ended: state === 'done' ? this.words : null }] };
  }
  kernelDoc(n, op, s, evidence) {
    return { shape_hash: hash(`kernel${n}`), shape: { op, axes: { ...AXES, B: 1 << (n % 8) }, dtypes: { io: 'bf16' }, target: 'sm_90a' }, op, target: 'sm_90a', evidence, candidate: candidateId(1), job: 'job_old', time_ns: 5200 / s, baseline_time_ns: 5200, mode: 'graph',
      speedup: { median: s, low: evidence === 'measured' ? s * 0.99 : s, high: evidence === 'measured' ? s * 1.01 : s }, served_since: time(n + 1), plan: PLAN, digests: {}, preconditions: {}, history: [{ candidate: candidateId(0), time_ns: 5000, evidence, until: time(5), reason: this.words }] };
  }
  brief(n) {
    const codes = ['ok', 'ok', 'wrong_result', 'ok', 'compile_error', 'not_faster', 'race', 'timeout'], code = n ? codes[n % codes.length] : 'ok', timed = code === 'ok' || code === 'not_faster';
    const s = 1 + Math.log1p(n) / 8 - (n % 7) * 0.05, figures = timed ? { time_ns: 5200 / s, speedup: { median: n ? s : 1, low: s, high: s }, evidence: 'emulated' } : {};
    return { id: candidateId(n), shape_hash: hash('job_live'), op: 'gdn_packed_decode', state: 'judged', is_baseline: n === 0, language: 'cuda', notes: `${1 + (n % 4)} rows a warp`, parent: n > 1 ? candidateId(Math.floor(n / 3)) : undefined, created: time(30), judged: time(29), ...figures,
      verdict: { code, phase: 'correct', text: n ? `out[0,3,${n}] is 1.25, wanted 0.98` : 'Right.' } };
  }
  candidateDoc(name) {
    const w = this.words, ok = name === candidateId(1);
    return { id: name, job: 'job_live', shape_hash: hash('job_live'), op: 'gdn_packed_decode', state: 'judged', is_baseline: name === candidateId(0), created: time(3), judged: time(2), artifacts: {},
      candidate: { language: 'cuda', source: `// ${w}\n#include <cuda_bf16.h>\nextern "C" __global__ void gdn(const float *x, float *y)\n{\n    /* ${w}\n       two lines */\n    y[threadIdx.x + 32] = x[threadIdx.x] * ${name === candidateId(0) ? 1 : 2}.0f;   // ${w}\n}\n`, plan: PLAN, notes: w, defines: { ROWS: 2 }, parent: ok ? candidateId(0) : candidateId(1), lessons: ['les_1'] },
      phases: [{ mode: 'triage', phase: w, ms: 1.5 }, { mode: 'triage', phase: 'compile', ms: 300, verdict: 'ok' }, { mode: 'retest', phase: 'emulate', ms: 60, verdict: ok ? 'ok' : 'out_of_bounds' }], links: {},
      verdict: ok ? { code: 'ok', phase: 'retest', fault: 'nobody', text: 'Right, and faster than the baseline.', for_person: 'The kernel is right and, on this device, at least as good as asked.', for_generator: '', detail: null }
        : { code: 'out_of_bounds', phase: 'emulate', fault: 'candidate', text: `thread (0,0,0) reads beyond ${w} (line 7)`, for_person: 'The kernel touches memory outside its buffers.', for_generator: w, detail: { source_line: 7, buffer: w, log: `candidate.cu(7): error: ${w}\n` } },
      figures: ok ? measured(w) : null };
  }
  certificateDoc() {
    const w = this.words, f = measured(w);
    const tensors = [{ tensor: 'out', elements: 4096, worst_error: 0.0038, rms_error: 0.0016, ratio_to_baseline: 1.0 }];
    return { format: 'proteus-certificate-v1', shape: this.shape('rmsnorm'), shape_hash: hash('kernel0'), op_version: 1, ...f, verdict: 'ok', digests: { source: hash(1), plan: hash(2), ptx: hash(3), cubin: hash(4) }, program: { language: 'cuda', plan: PLAN }, plan: PLAN, options: `-DROWS=2\n${w}`,
      preconditions: { target: 'sm_90a', driver_least: '580.65.06', workspace_bytes: 128, tensors: { [w.slice(0, 30)]: { role: 'input', dtype: 'bf16', dims: [4, 1536], strides: [1536, 1], alignment: 16, bytes: 12288 } } },
      timing: { mode: 'graph-rotated', statistics: f.statistics, pairs_discarded: 3, pairs_throttled: 0, clocks: f.modes['graph-rotated'].clocks, control: {} },
      phases: [{ phase: 'compile', ms: 300 }, { phase: 'emulate', ms: 480, blocks_emulated: 512, blocks_of_all: 512, checks: ['bounds', 'races'], schedules: [{ schedule: 'lockstep', seed: '0x01' }], thread_instructions: 26177536 },
        { phase: 'correct', ms: 700, yardstick: w, poisons: ['0x01', '0x02'], regimes: [{ name: 'typical', hidden: false, seed: '0x01', tensors }, { name: w, hidden: false, seed: '0x02', tensors }, { hidden: true, seed: '0x03', tensors }] }, { phase: 'probe', repeats: 100, ms: 30 },
        { phase: 'retest', ms: 900, ratio: 1.13, ratio_before: 1.14, published: 1, occasions: [{ candidate_ns: 3036, baseline_ns: 3450, ratio: { median: 1.136 }, decision: 'faster', regimes: [{}] }, { candidate_ns: 3035, baseline_ns: 3452, ratio: { median: 1.137 }, decision: w, regimes: [{}] }] }],
      calibration: { copy_bytes_per_ns: 4090, read_bytes_per_ns: 4300, sm_clock_mhz: 1980, node_ns: 1300 }, sandbox: { level: 'isolated', seccomp: true, landlock: true, namespaces: true, limits: true }, device: { kind: 'cuda', name: `card ${w}`, uuid: 'GPU-0', driver: '580', target: 'sm_90a' }, toolkit: { version: '13.0' }, proteus_version: '0.1.0',
      times: { proposed: time(9), started: time(8), ended: time(7), certified: time(7) } };
  }
  lesson(n) {
    const w = this.words;
    return { id: `les_${n}`, state: 'active', tags: ['op/gdn_packed_decode', 'target/sm_90a', `technique/t${n % 3}`, n ? 'symptom/spill' : `regime/${w.slice(0, 40)}`], situation: w === EVIL ? w : 'Registers spill where each thread holds four rows of the state.', action: w === EVIL ? w : 'Hold two rows and load the next ones ahead.',
      evidence: { basis: 'paired', measured: n === 0, candidates: [candidateId(1)], shapes: [hash('job_live')], effect: { ratio: 1.12, low: 1.07, high: 1.18, level: 0.9, pairs: 9 }, reason: w }, trust: { alpha: 9, beta: 2, mean: 0.81, lower: 0.7 }, uses: 12, wins: 9, source: 'template', by: w, created: time(50), updated: time(4), supersedes: [],
      score: { score: 0.9 - n / 10, fused: 0.5, trust: 0.7, tag_rank: n + 1, bm25_rank: 2, bm25: 3.1, vector_rank: 0, cosine: 0.2 }, history: [{ time: time(40), trust: 0.5, reason: w }, { time: time(4), trust: 0.7, reason: 'it helped' }] };
  }

  // ---- events
  emit(type, jobId, doc) {
    const event = ++this.lastId;
    const text = `id: ${event}\nevent: ${type}\ndata: ${JSON.stringify({ id: event, time: new Date().toISOString(), job: jobId, ...doc })}\n\n`;
    this.log.push([event, jobId, text]);
    for (const c of this.clients) c.response.write(text);
  }
  /** A candidate's whole life as events; the list has it too from then on. */
  judge(n, extra = {}) {
    const b = { ...this.brief(n), ...extra }, of = { candidate: b.id, shape_hash: b.shape_hash, is_baseline: b.is_baseline };
    this.emit('candidate.proposed', 'job_live', { ...of, notes: b.notes, language: 'cuda', parent: b.parent });
    this.emit('candidate.phase', 'job_live', { ...of, phase: 'emulate', state: 'start', mode: 'triage' });
    if (b.time_ns) this.emit('candidate.timed', 'job_live', { ...of, time_ns: b.time_ns, speedup: b.speedup, evidence: b.evidence });
    this.candidates.push(b);
    this.emit('candidate.verdict', 'job_live', { ...of, verdict: b.verdict });
    const best = this.jobs.get('job_live').shapes[0];
    if (b.verdict.code === 'ok' && !(best.best?.time_ns <= b.time_ns)) {
      best.best = { candidate: b.id, time_ns: b.time_ns, speedup: b.speedup, evidence: b.evidence };
      this.emit('shape.best', 'job_live', { ...of, time_ns: b.time_ns, speedup: b.speedup, evidence: b.evidence, served: false });
    }
  }
  stream(request, response, after) {
    const header = request.headers['last-event-id'], from = Number(header ?? after ?? this.lastId);
    this.seen.lastIds.push(header);
    this.seen.streams++;
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
    response.write(': hello\nretry: 200\n\n');
    for (const [event, , text] of this.log) if (event > from) response.write(text);
    const client = { response };
    this.clients.add(client);
    this.seen.most = Math.max(this.seen.most, this.clients.size);
    request.on('close', () => this.clients.delete(client));
  }
  cut() { for (const c of this.clients) c.response.destroy(); }

  // ---- answers
  answer(request, response) {
    const url = new URL(request.url, 'http://x');
    const json = (doc, status = 200) => { response.writeHead(status, { 'Content-Type': status < 400 ? 'application/json' : 'application/problem+json' }); response.end(JSON.stringify(doc)); };
    const text = (body) => { response.writeHead(200, { 'Content-Type': 'text/plain; charset=utf-8' }); response.end(body); };
    const problem = (status, detail, more) => json({ type: '/problems/x', title: 'x', status, detail, code: 'x', ...more }, status);
    if (this.refuse) { request.socket.destroy(); return; }
    if (!url.pathname.startsWith('/v1/')) { this.file(url.pathname, response); return; }
    this.seen.tokens.push(request.headers.authorization);
    if (this.needToken && request.headers.authorization !== 'Bearer pk_good' && url.pathname !== '/v1/signing-key') { problem(401, this.words); return; }
    if (request.method === 'POST') {
      let body = '';
      request.on('data', (d) => { body += d; });
      request.on('end', () => { let doc = null; try { doc = body ? JSON.parse(body) : null; } catch { /* none */ } this.posted.push([url.pathname, doc]); this.post(url.pathname.split('/').map(decodeURIComponent), doc, json, problem); });
      return;
    }
    const [, , what, one, sub] = url.pathname.split('/').map(decodeURIComponent), cursor = Number(url.searchParams.get('cursor') ?? 0), limit = Number(url.searchParams.get('limit') ?? 50);
    const page = (name, list) => json({ [name]: list.slice(cursor, cursor + limit), next: cursor + limit < list.length ? String(cursor + limit) : null, as_of: this.lastId });
    if (what === 'events') this.stream(request, response, url.searchParams.get('after'));
    else if (what === 'jobs' && sub === 'candidates') page('candidates', one === 'job_live' ? [...this.candidates].reverse() : []);
    else if (what === 'jobs' && one) { if (this.jobs.has(one)) json({ ...this.jobs.get(one), as_of: this.lastId }); else problem(404, this.words); }
    else if (what === 'jobs') page('jobs', [...this.jobs.values()]);
    else if (what === 'kernels' && sub === 'candidates') json({ shape_hash: one, serves: candidateId(1), kernels: [{ candidate: candidateId(1), ...this.result(1, 1.137, 'measured'), state: this.shelfState, since: time(9), reason: this.shelfState === 'quarantined' ? this.words : undefined, by: this.words }, { ...this.result(0, 1, 'measured'), is_baseline: true, state: 'verified', since: time(9) }], held: [{ candidate: candidateId(5), reason: this.words, since: time(3) }] });
    else if (what === 'kernels' && sub === 'certificate.json') { response.writeHead(200, { 'Content-Type': 'application/json' }); response.end(this.certificate); }
    else if (what === 'kernels' && sub === 'certificate.json.minisig') text(this.signature);
    else if (what === 'kernels' && sub) text(this.words);
    else if (what === 'kernels' && one) { if (this.kernels.has(one)) json(this.kernels.get(one)); else problem(404, this.words, { nearest: [{ shape_hash: hash('kernel1'), shape: this.shape(this.nice), speedup: { median: 2 }, evidence: 'emulated' }] }); }
    else if (what === 'kernels') page('kernels', [...this.kernels.values()]);
    else if (what === 'candidates') json({ ...this.candidateDoc(one), as_of: this.lastId });
    else if (what === 'signing-key') text(publicKey);
    else if (what === 'devices') json({ devices: [{ kind: 'sim', id: 'sim', name: `emulator ${this.words === EVIL ? this.words : ''}`, target: 'sm_90a', healthy: true, health: 'ok', sandbox: 'isolated' }, { kind: 'cuda', id: 'cuda:0', name: 'card', healthy: false, health: this.words, uuid: 'GPU-0' }], sandbox: { level: 'isolated', layers: ['seccomp', this.words] }, toolkit: { version: '13.0', triton: { version: null, missing: this.words } }, version: '0.1.0' });
    else if (what === 'ops' && one) json({ ...this.op(), inputs: { x: { shape: ['R', 'N'], dtype: 'io', strides: this.words } }, outputs: { y: { shape: ['R'], dtype: this.words } }, scalars: { eps: { dtype: 'f32', value: 1e-6, description: this.words } }, constraints: [this.words], bytes: '2*R*N', flops: '4*R*N', tolerance: { y: this.words }, regimes: { typical: { description: this.words, inputs: { x: { dist: this.words } } } } });
    else if (what === 'ops') json({ ops: [this.op(), { ...this.op(), name: 'gdn_packed_decode' }] });
    else if (what === 'presets') json({ presets: [{ name: 'qwen', description: this.words, tp: [1, 2, 8], batch_max: 256, ops: ['rmsnorm', this.words] }] });
    else if (what === 'lessons' && this.lessons && one) json(this.lesson(0));
    else if (what === 'lessons' && this.lessons) json({ lessons: [0, 1, 2, 3].map((n) => this.lesson(n)), tokens: 310, semantic_backend: this.words });
    else if (what === 'notes' && this.lessons) json({ notes: [{ shape_hash: hash('job_live'), op: this.words, verdict: 'race', phase: 'emulate', text: this.words, count: 3, last: time(3) }] });
    else problem(404, 'there is no such path');
  }
  op() { return { name: 'rmsnorm', version: 1, description: this.words, tags: [this.words], axes: { R: { type: 'var', max: 1048576, description: this.words }, N: { type: 'var', max: 65536, description: 'elements' }, weight_offset: { type: 'var', min: 0, max: 1, default: 0 } }, dtypes: { io: ['bf16', 'f16', 'f32'] } }; }
  post([, , what, one, sub], doc, json, problem) {
    if (what === 'shape-hash') {
      const missing = ['R', 'N'].filter((k) => !(doc?.axes?.[k] > 0));
      if (missing.length) problem(400, 'the shape is not whole', { errors: missing.map((k) => ({ pointer: `/axes/${k}`, detail: `must be an integer from 1 ${this.words}` })) });
      else json({ shape_hash: hash(JSON.stringify(doc.axes)), canonical: 'x' });
    } else if (what === 'jobs' && !one) {
      if (doc?.budget?.candidates === 13) problem(400, `the request has faults ${this.words}`, { errors: [{ pointer: '/shapes/0/N', detail: `N is odd ${this.words}` }, { pointer: '/budget/candidates', detail: this.words }, { pointer: '/elsewhere', detail: this.words }] });
      else json({ ...this.jobs.get('job_live'), as_of: this.lastId }, 202);
    } else if (sub === 'quarantine' || sub === 'restore') {
      this.shelfState = sub === 'quarantine' ? 'quarantined' : 'verified';
      json({ as_of: this.lastId });
      this.emit('kernel.state', undefined, { shape_hash: one, candidate: doc?.candidate, state: this.shelfState, reason: this.words, serves: candidateId(0) });
    } else if (sub === 'cancel') { this.jobs.get(one).state = 'cancelled'; this.emit('job.state', one, { state: 'cancelled' }); json(this.jobs.get(one)); } else json({ id: 'job_live' }, 202);
  }
  file(name, response) {
    const file = path.join(this.staticDir, name === '/' ? 'index.html' : path.normalize(name));
    if (!file.startsWith(this.staticDir) || !fs.existsSync(file)) { response.writeHead(404); response.end(); return; }
    response.writeHead(200, { 'Content-Type': TYPES[path.extname(file)] ?? 'application/octet-stream', 'Content-Security-Policy': CSP, 'X-Content-Type-Options': 'nosniff' });
    response.end(fs.readFileSync(file));
  }
  async listen() {
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${this.server.address().port}/`;
  }
  close() { this.cut(); this.server.close(); this.server.closeAllConnections(); }
}

/** Every page, with an address that shows it. */
export const PAGES = { overview: '', job: '#/jobs/job_live', grid: '#/jobs/job_old', failed: '#/jobs/job_evil', submit: '#/submit', candidate: `#/candidates/${candidateId(1)}`, rejected: `#/candidates/${candidateId(2)}`, kernels: '#/kernels', kernel: `#/kernels/${hash('kernel0')}`, 'no-kernel': `#/kernels/${hash('none')}`,
  knowledge: '#/knowledge', lesson: '#/knowledge/les_0', operators: '#/operators', operator: '#/operators/rmsnorm', devices: '#/devices' };
