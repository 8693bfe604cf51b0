// A service of our own for the dashboard's tests: documents of the documented form, events that it can be made to send, streams that it
// can cut, a token that it can ask for.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { AXES, candidateId, Documents, EVIL, hash, minisign, publicKey } from './documents.mjs';

export { candidateId, EVIL, hash };
export const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
};
const time = (minutes) => new Date(Date.now() - minutes * 60000).toISOString();

export class Fake extends Documents {
  /** words: for every text that a stranger chooses; candidates, kernels: how many there are from the start. */
  constructor(staticDir, { words = EVIL, candidates = 0, kernels = 3, lessons = true } = {}) {
    super(words);
    Object.assign(this, {
      staticDir,
      lessons,
      needToken: false,
      refuse: false,
      clients: new Set(),
      log: [],
      lastId: 100,
      job: 'job_live',
      shelfState: 'verified',
      posted: [],
    });
    this.seen = { lastIds: [], tokens: [], streams: 0, most: 0 };
    this.nice = words === EVIL ? EVIL : 'rmsnorm';
    this.jobs = new Map(
      [
        this.jobDoc('job_live', 'running', 'gdn_packed_decode', null),
        this.jobDoc('job_old', 'done', 'rmsnorm', this.result(1, 1.31, 'measured')),
        { ...this.jobDoc('job_evil', 'failed', this.nice, null), error: { code: words, text: words } },
      ].map((j) => [j.id, j]),
    );
    for (let i = 0; i < 5; i++)
      this.jobs
        .get('job_old')
        .shapes.push({
          ...this.jobDoc(`old${i}`, 'done', i % 2 ? 'rmsnorm' : this.nice, this.result(i, 0.98 + i * 0.35, i % 2 ? 'measured' : 'emulated'))
            .shapes[0],
          shape: { op: i % 2 ? 'rmsnorm' : 'gated_rmsnorm', axes: { ...AXES, B: 4 << (i % 3) } },
        });
    this.kernels = new Map(
      [
        this.kernelDoc(0, 'rmsnorm', 1.137, 'measured'),
        this.kernelDoc(1, this.nice, 2.5, 'emulated'),
        this.kernelDoc(2, 'odd', 3, words),
      ].map((k) => [k.shape_hash, k]),
    );
    for (let i = 3; i < kernels; i++) {
      const k = this.kernelDoc(i, i % 2 ? 'rmsnorm' : 'gdn_packed_decode', 1 + (i % 37) / 20, i % 3 ? 'measured' : 'emulated');
      this.kernels.set(k.shape_hash, k);
    }
    this.candidates = [];
    for (let i = 0; i < candidates; i++) this.candidates.push(this.brief(i));
    this.certificate = Buffer.from(JSON.stringify(this.certificateDoc()));
    this.signature = minisign(
      this.certificate,
      `timestamp:1 file:certificate.json shape:${hash('kernel0')} ${words === EVIL ? '<script>window.pwned=1</script>' : ''}`,
    );
    this.server = http.createServer((request, response) => this.answer(request, response));
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
    const b = { ...this.brief(n), ...extra },
      of = { candidate: b.id, shape_hash: b.shape_hash, is_baseline: b.is_baseline };
    this.emit('candidate.proposed', 'job_live', { ...of, notes: b.notes, language: 'cuda', parent: b.parent });
    this.emit('candidate.phase', 'job_live', { ...of, phase: 'emulate', state: 'start', mode: 'triage', device: this.words === EVIL ? EVIL : 'sim' });
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
    const header = request.headers['last-event-id'],
      from = Number(header ?? after ?? this.lastId);
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
  cut() {
    for (const c of this.clients) c.response.destroy();
  }

  // ---- answers
  answer(request, response) {
    const url = new URL(request.url, 'http://x');
    const json = (doc, status = 200) => {
      response.writeHead(status, { 'Content-Type': status < 400 ? 'application/json' : 'application/problem+json' });
      response.end(JSON.stringify(doc));
    };
    const text = (body) => {
      response.writeHead(200, { 'Content-Type': 'text/plain; charset=utf-8' });
      response.end(body);
    };
    const problem = (status, detail, more) => json({ type: '/problems/x', title: 'x', status, detail, code: 'x', ...more }, status);
    if (this.refuse) {
      request.socket.destroy();
      return;
    }
    if (!url.pathname.startsWith('/v1/')) {
      this.file(url.pathname, response);
      return;
    }
    this.seen.tokens.push(request.headers.authorization);
    if (this.needToken && (this.needToken === 'other' || request.headers.authorization !== 'Bearer pk_good') && url.pathname !== '/v1/signing-key') {
      problem(401, this.words);
      return;
    }
    if (request.method === 'POST') {
      let body = '';
      request.on('data', (d) => {
        body += d;
      });
      request.on('end', () => {
        let doc = null;
        try {
          doc = body ? JSON.parse(body) : null;
        } catch {
          /* none */
        }
        this.posted.push([url.pathname, doc]);
        this.post(url.pathname.split('/').map(decodeURIComponent), doc, json, problem);
      });
      return;
    }
    const [, , what, one, sub] = url.pathname.split('/').map(decodeURIComponent),
      cursor = Number(url.searchParams.get('cursor') ?? 0),
      limit = Number(url.searchParams.get('limit') ?? 50);
    const page = (name, list) =>
      json({
        [name]: list.slice(cursor, cursor + limit),
        next: cursor + limit < list.length ? String(cursor + limit) : null,
        as_of: this.lastId,
      });
    if (what === 'events') this.stream(request, response, url.searchParams.get('after'));
    else if (what === 'jobs' && sub === 'candidates') page('candidates', one === 'job_live' ? [...this.candidates].reverse() : []);
    else if (what === 'jobs' && one) {
      if (this.jobs.has(one)) json({ ...this.jobs.get(one), as_of: this.lastId });
      else problem(404, this.words);
    } else if (what === 'jobs') {
      const wanted = { live: ['queued', 'running'], ended: ['done', 'failed', 'cancelled'] }[url.searchParams.get('state')];
      page('jobs', [...this.jobs.values()].filter((j) => !wanted || wanted.includes(j.state)));
    }
    else if (what === 'kernels' && sub === 'candidates')
      json({
        shape_hash: one,
        serves: candidateId(1),
        kernels: [
          {
            candidate: candidateId(1),
            ...this.result(1, 1.137, 'measured'),
            state: this.shelfState,
            since: time(9),
            reason: this.shelfState === 'quarantined' ? this.words : undefined,
            by: this.words,
          },
          { ...this.result(0, 1, 'measured'), is_baseline: true, state: 'verified', since: time(9) },
        ],
        held: [{ candidate: candidateId(5), reason: this.words, since: time(3) }],
      });
    else if (what === 'kernels' && sub === 'certificate.json') {
      response.writeHead(200, { 'Content-Type': 'application/json' });
      response.end(this.certificate);
    } else if (what === 'kernels' && sub === 'certificate.json.minisig') text(this.signature);
    else if (what === 'kernels' && sub) text(this.words);
    else if (what === 'kernels' && one) {
      if (this.kernels.has(one)) json(this.kernels.get(one));
      else
        problem(404, this.words, {
          nearest: [{ shape_hash: hash('kernel1'), shape: this.shape(this.nice), speedup: { median: 2 }, evidence: 'emulated' }],
        });
    } else if (what === 'kernels') page('kernels', [...this.kernels.values()]);
    else if (what === 'candidates') json({ ...this.candidateDoc(one), as_of: this.lastId });
    else if (what === 'observations')
      json({
        as_of: this.lastId,
        observations: [
          { based_on: 'measured' },
          { based_on: 'estimate' },
          { based_on: 'nearby_estimate', nearby: { shape_hash: hash('kernel0'), factor: 1.25 } },
          { based_on: 'nearby_estimate', nearby: { shape_hash: this.words, factor: this.words } },
          { based_on: 'byte_floor' },
          { based_on: this.words, saving_ns: this.words },
        ].map((order, i) => ({
          shape_hash: hash(`kernel${i}`),
          shape: this.shape(i % 2 ? this.words : this.nice),
          count: i === 5 ? this.words : 1000 - i,
          last: i === 5 ? this.words : new Date().toISOString(),
          order: { saving_ns: 5e6 / (i + 1), ...order },
          kernel: i ? null : { time_ns: 2000, evidence: 'measured' },
          estimate: i === 4 ? { error: this.words } : undefined,
        })),
      });
    else if (what === 'spending')
      json({
        days: [
          { day: new Date().toISOString().slice(0, 10), gpu_seconds: 75.5, tokens: 34000, candidates: this.candidates.length },
          { day: this.words, gpu_seconds: this.words, tokens: 12, candidates: null },
        ],
        as_of: this.lastId,
      });
    else if (what === 'signing-key') text(publicKey);
    else if (what === 'devices')
      json({
        devices: [
          {
            kind: 'sim',
            id: 'sim',
            name: `emulator ${this.words === EVIL ? this.words : ''}`,
            target: 'sm_90a',
            healthy: true,
            health: 'ok',
            sandbox: 'isolated',
          },
          { kind: 'cuda', id: 'cuda:0', name: 'card', healthy: false, health: this.words, uuid: 'GPU-0' },
        ],
        sandbox: { level: 'isolated', layers: ['seccomp', this.words] },
        toolkit: { version: '13.0', triton: { version: null, missing: this.words } },
        version: '0.1.0',
      });
    else if (what === 'ops' && one)
      json({
        ...this.op(),
        inputs: { x: { shape: ['R', 'N'], dtype: 'io', strides: this.words } },
        outputs: { y: { shape: ['R'], dtype: this.words } },
        scalars: { eps: { dtype: 'f32', value: 1e-6, description: this.words } },
        constraints: [this.words],
        bytes: '2*R*N',
        flops: '4*R*N',
        tolerance: { y: this.words },
        regimes: { typical: { description: this.words, inputs: { x: { dist: this.words } } } },
      });
    else if (what === 'ops') json({ ops: [this.op(), { ...this.op(), name: 'gdn_packed_decode' }] });
    else if (what === 'presets')
      json({ presets: [{ name: 'qwen', description: this.words, tp: [1, 2, 8], batch_max: 256, ops: ['rmsnorm', this.words] }] });
    else if (what === 'lessons' && this.lessons && one === 'steps')
      json({
        steps: [{ id: 'step_1', kind: this.words, lessons: ['les_1', this.words], reason: this.words, created: time(9) }],
        next: null,
        as_of: this.lastId,
      });
    else if (what === 'lessons' && this.lessons && one) json(this.lesson(0));
    else if (what === 'lessons' && this.lessons)
      json({ lessons: [0, 1, 2, 3].map((n) => this.lesson(n)), tokens: 310, semantic_backend: this.words });
    else if (what === 'notes' && this.lessons)
      json({
        shape_hash: one,
        notes: [
          {
            signature: one,
            candidates: [candidateId(2)],
            shape_hash: hash('job_live'),
            op: this.words,
            verdict: 'race',
            phase: 'emulate',
            text: this.words,
            count: 3,
            last: time(3),
          },
        ],
      });
    else problem(404, 'there is no such path');
  }
  post([, , what, one, sub], doc, json, problem) {
    if (what === 'shape-hash') {
      const missing = ['R', 'N'].filter((k) => !(doc?.axes?.[k] > 0));
      if (missing.length)
        problem(400, 'the shape is not whole', {
          errors: missing.map((k) => ({ pointer: `/axes/${k}`, detail: `must be an integer from 1 ${this.words}` })),
        });
      else json({ shape_hash: hash(JSON.stringify(doc.axes)), canonical: 'x' });
    } else if (what === 'jobs' && !one) {
      if (doc?.budget?.candidates === 13)
        problem(400, `the request has faults ${this.words}`, {
          errors: [
            { pointer: '/shapes/0/N', detail: `N is odd ${this.words}` },
            { pointer: '/budget/candidates', detail: this.words },
            { pointer: '/elsewhere', detail: this.words },
          ],
        });
      else json({ ...this.jobs.get('job_live'), as_of: this.lastId }, 202);
    } else if (sub === 'refuse') {
      this.decided = { [one]: { decision: 'refused', by: this.words, reason: doc?.reason } };
      json({ as_of: this.lastId });
    } else if (sub === 'quarantine' || sub === 'restore') {
      this.shelfState = sub === 'quarantine' ? 'quarantined' : 'verified';
      json({ as_of: this.lastId });
      this.emit('kernel.state', undefined, {
        shape_hash: one,
        candidate: doc?.candidate,
        state: this.shelfState,
        reason: this.words,
        serves: candidateId(0),
      });
    } else if (sub === 'cancel') {
      this.jobs.get(one).state = 'cancelled';
      this.emit('job.state', one, { state: 'cancelled' });
      json(this.jobs.get(one));
    } else json({ id: 'job_live' }, 202);
  }
  file(name, response) {
    const file = path.join(this.staticDir, name === '/' ? 'index.html' : path.normalize(name));
    if (!file.startsWith(this.staticDir) || !fs.existsSync(file)) {
      response.writeHead(404);
      response.end();
      return;
    }
    response.writeHead(200, {
      'Content-Type': TYPES[path.extname(file)] ?? 'application/octet-stream',
      'Content-Security-Policy': CSP,
      'X-Content-Type-Options': 'nosniff',
    });
    response.end(fs.readFileSync(file));
  }
  async listen() {
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${this.server.address().port}/`;
  }
  close() {
    this.cut();
    this.server.close();
    this.server.closeAllConnections();
  }
}

/** Every page, with an address that shows it. */
export const PAGES = {
  overview: '',
  job: '#/jobs/job_live',
  grid: '#/jobs/job_old',
  failed: '#/jobs/job_evil',
  submit: '#/submit',
  candidate: `#/candidates/${candidateId(1)}`,
  rejected: `#/candidates/${candidateId(2)}`,
  kernels: '#/kernels',
  kernel: `#/kernels/${hash('kernel0')}`,
  'no-kernel': `#/kernels/${hash('none')}`,
  observed: '#/observed',
  knowledge: '#/knowledge',
  lesson: '#/knowledge/les_0',
  operators: '#/operators',
  operator: '#/operators/rmsnorm',
  devices: '#/devices',
};
