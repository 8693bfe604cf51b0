// Parts of `make bench` that a shell cannot do: judging FILE | streams URL N | submit URL DIR N. Prints figures.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const [, , what, ...args] = process.argv;
const quantile = (list, q) => { const s = [...list].sort((a, b) => a - b); return s[Math.min(s.length - 1, Math.floor(q * s.length))]; };
const line = (name, list, unit = 'ms') =>
  console.log(`${name.padEnd(28)} median ${quantile(list, 0.5).toFixed(2)} ${unit}   90 % ${quantile(list, 0.9).toFixed(2)}   least ${Math.min(...list).toFixed(2)}   most ${Math.max(...list).toFixed(2)}   n ${list.length}`);

function judging(file) {
  const begun = new Map(), spent = [], phases = new Map(), verdicts = new Map();
  for (const text of fs.readFileSync(file, 'utf8').split('\n')) {
    let e;
    try { e = JSON.parse(text); } catch { continue; }
    if (e.type === 'candidate.proposed') begun.set(e.candidate, Date.parse(e.time));
    if (e.type === 'candidate.phase' && e.state === 'end' && typeof e.ms === 'number') phases.set(e.phase, [...(phases.get(e.phase) ?? []), e.ms]);
    if (e.type === 'candidate.verdict' && begun.has(e.candidate)) {
      spent.push(Date.parse(e.time) - begun.get(e.candidate));
      begun.delete(e.candidate);
      verdicts.set(e.verdict.code, (verdicts.get(e.verdict.code) ?? 0) + 1);
    }
  }
  if (!spent.length) throw new Error('no verdict');
  line('a candidate', spent);
  for (const [name, list] of phases) line(`  phase ${name}`, list);
  console.log(`verdicts: ${[...verdicts].map(([k, n]) => `${n} ${k}`).join(', ')}`);
}

async function streams(url, n) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });
  let open = 0, bytes = 0;
  const one = () => new Promise((resolve) => http.get(`${url}/v1/events`, { agent, headers: { Accept: 'text/event-stream' } }, (r) => {
    if (r.statusCode === 200) open++;
    r.on('data', (d) => { bytes += d.length; });
    resolve();
  }).on('error', resolve));
  for (let i = 0; i < n; i += 100) await Promise.all(Array.from({ length: Math.min(100, n - i) }, one));
  console.log(`${open} open event streams`);
  setInterval(() => bytes, 1000);
}

async function submit(url, dir, n) {
  const agent = new http.Agent({ keepAlive: true });
  const post = (i) => new Promise((resolve, reject) => {
    const body = JSON.stringify({ op: 'rmsnorm', shapes: [{ R: 1 + i, N: 128 }], generator: 'external', budget: { candidates: 1 } });
    const from = process.hrtime.bigint();
    const request = http.request(`${url}/v1/jobs`, { method: 'POST', agent, headers: { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) } }, (r) => {
      r.resume();
      r.on('end', () => (r.statusCode === 202 ? resolve(Number(process.hrtime.bigint() - from) / 1e6) : reject(new Error(`status ${r.statusCode}`))));
    });
    request.on('error', reject);
    request.end(body);
  });
  const file = fs.openSync(path.join(dir, 'syncs.bench'), 'w');
  const page = Buffer.alloc(16384);
  const sync = (i) => {
    page.fill(i & 255);
    const from = process.hrtime.bigint();
    fs.writeSync(file, page, 0, page.length, 4096 * (1 + (i % 64)));
    fs.fdatasyncSync(file);
    fs.writeSync(file, page, 0, 4096, 0);
    fs.fdatasyncSync(file);
    return Number(process.hrtime.bigint() - from) / 1e6;
  };
  const posts = [], syncs = [];
  for (let i = 0; i < n; i++) { posts.push(await post(i)); syncs.push(sync(i)); }
  fs.closeSync(file);
  fs.unlinkSync(path.join(dir, 'syncs.bench'));
  line('POST /v1/jobs to 202', posts);
  line("the disk's own two syncs", syncs);
  console.log(`difference of the medians     ${(quantile(posts, 0.5) - quantile(syncs, 0.5)).toFixed(2)} ms`);
}

const run = { judging, streams: (u, n) => streams(u, Number(n)), submit: (u, d, n) => submit(u, d, Number(n)) }[what];
if (!run) throw new Error('bench.mjs judging FILE | streams URL N | submit URL DIR N');
await run(...args);
