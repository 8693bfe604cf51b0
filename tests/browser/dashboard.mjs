// The dashboard in a real browser, against a server of our own that feeds it hostile text, cuts its streams and asks for a token.
// Usage: node dashboard.mjs STATIC_DIR MODULES_DIR CHROMIUM [SCREENSHOT_DIR]
import assert from 'node:assert/strict';
import http from 'node:http';
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';

const [, , staticDir, modules, chromium, shots] = process.argv;
const { chromium: browserType } = createRequire(path.join(modules, 'x.js'))('playwright-core');
let checks = 0;
const is = (got, want, what) => { checks++; assert.deepEqual(got, want, what); };
const ok = (value, what) => { checks++; assert.ok(value, what); };

// ---- documents; every text that a stranger may choose is hostile
const EVIL = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>"\'>&lt;b&gt; javascript:window.pwned=1 \u202e\u0007';
const hash = (n) => String(n).padEnd(64, 'a');
const AXES = { B: 4, H: 2, HV: 8, K: 128, V: 128 };
const shape = (op) => ({ op, axes: AXES, dtypes: { io: 'bf16' }, target: 'sm_90a' });
const result = (c, s, evidence) => ({ candidate: c, time_ns: 5200 / s, speedup: { median: s, low: s * 0.98, high: s * 1.02 }, evidence });
const job = (id, state, op, best) => ({ id, op, state, generator: 'template', created: new Date(Date.now() - 90000).toISOString(), target: 'sm_90a',
  budget: { candidates: 24 }, spent: { candidates: state === 'done' ? 24 : 9 }, shapes: [{ shape_hash: hash(id), shape: shape(op), state, best }] });
const jobs = new Map([['job_live', job('job_live', 'running', 'gdn_packed_decode', null)], ['job_old', job('job_old', 'done', 'rmsnorm', result('c', 1.31, 'measured'))],
  ['job_evil', { ...job('job_evil', 'failed', EVIL, null), error: { code: EVIL, text: EVIL } }]]);
const kernel = (id, op, s, evidence) => ({ shape_hash: hash(id), shape: shape(op), op, target: 'sm_90a', evidence, time_ns: 5200 / s, baseline_time_ns: 5200, mode: 'graph',
  speedup: { median: s, low: s * 0.98, high: s * 1.02 }, served_since: new Date().toISOString(), plan: { note: EVIL }, digests: { 'kernel.cubin': hash(7) }, history: [], preconditions: {} });
const kernels = new Map([kernel('job_old', 'rmsnorm', 1.31, 'measured'), kernel('evil', EVIL, 2.5, 'emulated'), kernel('odd', 'odd', 3, EVIL)].map((k) => [k.shape_hash, k]));

let lastId = 100;
const log = [];                  // [id, job, text] of all events
const clients = new Set();
function emit(type, jobId, doc) {
  const id = ++lastId;
  const text = `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify({ id, time: new Date().toISOString(), job: jobId, ...doc })}\n\n`;
  log.push([id, jobId, text]);
  for (const c of clients) if (!c.job || c.job === jobId) c.response.write(text);
}
const verdicts = ['ok', 'ok', 'wrong_result', 'ok', 'compile_error', 'not_faster', 'ok', 'race'];
function candidate(n, extra = {}) {
  const c = `cand_${n}`, s = 1 + Math.log1p(n) / 4 - (n % 3) * 0.07;
  emit('candidate.proposed', 'job_live', { candidate: c, shape_hash: hash('job_live'), is_baseline: n === 0, notes: n ? `${1 + (n % 4)} rows a warp, vectors of ${2 << (n % 3)}; next to the best so far` : 'the generic baseline', ...extra });
  emit('candidate.phase', 'job_live', { candidate: c, phase: 'emulate', state: 'start' });
  const code = n ? verdicts[n % verdicts.length] : 'ok';
  if (code === 'ok' || code === 'not_faster') emit('candidate.timed', 'job_live', { candidate: c, time_ns: 5200 / s, speedup: { median: n ? s : 1, low: s - 0.02, high: s + 0.02 }, evidence: 'emulated' });
  emit('candidate.verdict', 'job_live', { candidate: c, is_baseline: n === 0, verdict: { code, phase: 'correct', text: `out[0,3,17] is 1.25, wanted 0.98 ${extra.notes ?? ''}` } });
  if (code === 'ok' && n) emit('shape.best', 'job_live', { candidate: c, shape_hash: hash('job_live'), time_ns: 5200 / s, speedup: { median: s, low: s - 0.02, high: s + 0.02 }, evidence: 'emulated', served: false });
}

// ---- the server
let needToken = false, refuse = false;
const seen = { lastIds: [], tokens: [] };
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' };
const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

function stream(request, response, jobId) {
  const from = Number(request.headers['last-event-id'] ?? (jobId ? 0 : lastId));
  if (!jobId) seen.lastIds.push(request.headers['last-event-id']);
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
  response.write(': hello\nretry: 200\n\n');
  for (const [id, of, text] of log) if (id > from && (!jobId || of === jobId)) response.write(text);
  const client = { response, job: jobId };
  clients.add(client);
  request.on('close', () => clients.delete(client));
}

const server = http.createServer((request, response) => {
  const url = new URL(request.url, 'http://x');
  const json = (doc, status = 200) => { response.writeHead(status, { 'Content-Type': status < 400 ? 'application/json' : 'application/problem+json' }); response.end(JSON.stringify(doc)); };
  if (refuse) return request.socket.destroy();
  if (url.pathname.startsWith('/v1/')) {
    seen.tokens.push(request.headers.authorization);
    if (needToken && request.headers.authorization !== 'Bearer pk_good') return json({ title: 'A token is needed', status: 401, code: 'unauthenticated', detail: EVIL }, 401);
    const [, , what, id, sub] = url.pathname.split('/');
    if (what === 'events') return stream(request, response, null);
    if (what === 'jobs' && sub === 'events') return stream(request, response, id);
    if (what === 'jobs' && id) return jobs.has(id) ? json({ ...jobs.get(id), as_of: lastId }) : json({ status: 404, title: EVIL }, 404);
    if (what === 'jobs') return json({ jobs: [...jobs.values()], next: null, as_of: lastId });
    if (what === 'kernels' && sub) { response.writeHead(200, { 'Content-Type': 'text/plain' }); return response.end(EVIL); }
    if (what === 'kernels' && id) return kernels.has(id) ? json(kernels.get(id)) : json({ status: 404, title: 'none' }, 404);
    if (what === 'kernels') return json({ kernels: [...kernels.values()], next: null, as_of: lastId });
    if (what === 'candidates') return json({ id, job: 'job_live', candidate: { language: 'cuda', source: EVIL, plan: {}, notes: EVIL }, phases: [{ phase: EVIL, ms: 1.5 }], verdict: { code: 'compile_error', text: EVIL, detail: { log: EVIL } }, figures: null });
    if (what === 'devices') return json({ devices: [{ kind: 'sim', name: `emulator ${EVIL}`, target: 'sm_90a', health: 'ok' }], sandbox: { level: 'isolated' }, toolkit: { version: '13.0' } });
    return json({ status: 404, title: 'none' }, 404);
  }
  const file = path.join(staticDir, url.pathname === '/' ? 'index.html' : path.normalize(url.pathname));
  if (!file.startsWith(staticDir) || !fs.existsSync(file)) { response.writeHead(404); return response.end(); }
  response.writeHead(200, { 'Content-Type': TYPES[path.extname(file)] ?? 'application/octet-stream', 'Content-Security-Policy': CSP, 'X-Content-Type-Options': 'nosniff' });
  return response.end(fs.readFileSync(file));
});

const until = async (check, what) => {
  for (let i = 0; i < 100; i++) { if (await check()) { checks++; return; } await new Promise((r) => setTimeout(r, 50)); }
  assert.fail(`never: ${what}`);
};

async function main() {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const base = `http://127.0.0.1:${server.address().port}/`;
  const browser = await browserType.launch({ executablePath: chromium, args: ['--no-sandbox', '--disable-gpu'] });
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (m) => { if (m.type() === 'error' && !/Failed to load resource|net::ERR/.test(m.text())) complaints.push(m.text()); });
  page.on('pageerror', (e) => complaints.push(String(e)));
  page.on('dialog', (d) => { complaints.push(`dialog: ${d.message()}`); d.dismiss(); });
  const text = (selector) => page.locator(selector).first().innerText();
  const shot = async (name) => { if (shots) await page.screenshot({ path: path.join(shots, `${name}.png`) }); };

  for (let n = 0; n < 5; n++) candidate(n);        // before the page is there: it must come from the job's own stream
  await page.goto(base);
  await until(async () => (await text('#connection')) === 'live', 'live');
  await until(async () => (await page.locator('tbody tr').count()) === 5, 'the story of the running job');
  for (let n = 5; n < 22; n++) candidate(n);
  await until(async () => (await page.locator('tbody tr').count()) === 22, 'candidates as they come');
  ok((await text('.panel')).includes('estimate'), 'an emulated figure is called an estimate');
  ok(!/\bmeasured\b/.test(await text('.panel')), 'nothing emulated is called measured');
  await shot('live-light');
  await page.emulateMedia({ colorScheme: 'dark' });
  await shot('live-dark');

  // hostile text is text
  candidate(22, { notes: EVIL });
  await page.goto(`${base}#/jobs/job_evil`);
  await until(async () => (await text('.panel h1')).includes('<img src=x'), 'the evil operator, as text');
  await page.goto(`${base}#/kernels`);
  await until(async () => (await page.locator('tbody tr').count()) === 3, 'kernels');
  is(await page.locator('.table-box .evidence.measured').count(), 1, 'only evidence "measured" is shown as measured');
  await shot('kernels-dark');
  await page.getByRole('button', { name: hash('evil').slice(0, 12) }).first().click();
  await until(async () => (await text('#drawer-title')).includes('<img'), 'the drawer of the evil kernel');
  await page.locator('#drawer summary').first().click();
  await until(async () => (await text('#drawer pre')).includes('<script>'), 'its source, as text');
  await page.keyboard.press('Escape');
  await until(async () => !(await page.locator('#drawer').isVisible()), 'Escape closes the drawer');
  await page.goto(`${base}#/devices`);
  await until(async () => (await text('main')).includes('isolated'), 'devices');
  await page.goto(`${base}#/jobs/job_live`);
  await until(async () => (await page.locator('tbody tr').count()) === 23, 'back');
  await page.getByRole('button', { name: 'Details' }).first().click();
  await until(async () => (await text('#drawer-body')).includes('<img src=x'), 'the evil candidate');
  await page.locator('#drawer-close').click();
  is(await page.evaluate(() => window.pwned), undefined, 'nothing ran');
  is(await page.locator('main img, main script, #drawer-body img').count(), 0, 'no markup came from data');

  // by keyboard alone
  await page.goto(base);
  await until(async () => (await page.locator('a.job').count()) === 3, 'jobs');
  await page.locator('a.job', { hasText: 'rmsnorm' }).focus();
  await page.keyboard.press('Enter');
  await until(async () => (await text('.panel h1')) === 'rmsnorm', 'Enter chooses a job');
  emit('job.state', 'job_live', { state: 'running' });
  await new Promise((r) => setTimeout(r, 200));
  is(await page.evaluate(() => document.activeElement?.dataset.key), 'job-job_old', 'drawing anew keeps the focus');

  // the server goes away and comes back: resumed where it was, nothing lost, nothing twice
  await page.goto(`${base}#/jobs/job_live`);
  await until(async () => (await page.locator('tbody tr').count()) === 23, 'the live job');
  const before = lastId;
  seen.lastIds.length = 0;
  refuse = true;
  for (const c of clients) c.response.destroy();
  await until(async () => /reconnecting|connecting/.test(await text('#connection')), 'a lost connection is shown');
  await shot('reconnecting-dark');
  candidate(23);
  refuse = false;
  await until(async () => (await text('#connection')) === 'live', 'live again');
  await until(async () => (await page.locator('tbody tr').count()) === 24, 'what came meanwhile');
  ok(seen.lastIds.includes(String(before)), `resumed after event ${before}`);
  jobs.get('job_live').state = 'done';
  emit('job.done', 'job_live', { state: 'done' });
  await until(async () => (await text('.panel .state')) === 'done', 'the end of the job');

  // narrow and wide
  for (const width of [360, 768, 1920]) {
    await page.setViewportSize({ width, height: 800 });
    for (const view of ['', '#/kernels', '#/devices']) {
      await page.goto(base + view);
      await until(async () => (await page.locator('main *').count()) > 3, 'content');
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      ok(over <= 0, `${width} px ${view}: ${over} px too wide`);
    }
    await page.goto(base);
    await page.waitForTimeout(150);
    await shot(`live-${width}`);
  }

  // a service that asks for a token
  needToken = true;
  const other = await (await browser.newContext()).newPage();
  await other.goto(base);
  await until(() => other.locator('#token-dialog').isVisible(), 'the token is asked for');
  await other.locator('#token-input').fill('pk_good');
  await other.keyboard.press('Enter');
  await until(async () => (await other.locator('#connection').innerText()) === 'live', 'live with a token');
  ok(seen.tokens.includes('Bearer pk_good'), 'the token was sent');
  is(await other.evaluate(() => window.pwned), undefined, 'nothing ran');
  is(complaints, [], 'the browser has nothing to complain about (content policy included)');
  await browser.close();
}

const limit = setTimeout(() => { console.error('timed out'); process.exit(1); }, 100000);
main().then(() => { console.log(`${checks} checks, 0 failed`); process.exit(0); }, (e) => { console.error(e); process.exit(1); }).finally(() => clearTimeout(limit));
