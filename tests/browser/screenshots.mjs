// Pictures of every page in both themes: of a real service with a real job on the emulator; of another one whose judge replays what a card
// said (measured.mjs), for the pages that show measurements; and of a search of 400 candidates with made-up figures, which is named so.
// Usage: node screenshots.mjs PROTEUSD STATIC_DIR MODULES_DIR CHROMIUM [--out=DIR] [--cuda-home=DIR] [--data=DIR]
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Fake, PAGES } from './fake.mjs';
import { loadCells, loadJudgement, service } from './measured.mjs';
import { browser } from './tools.mjs';

const [, , proteusd, staticDir, modules, chromium, ...flags] = process.argv;
const flag = (name, fallback) => flags.find((f) => f.startsWith(`--${name}=`))?.slice(name.length + 3) ?? fallback;
const out = path.resolve(flag('out', 'build/screenshots')),
  given = flag('data', null),
  data = given ?? fs.mkdtempSync(path.join(os.tmpdir(), 'proteus-shots-')),
  home = flag('cuda-home', '');
const child = spawn(
  proteusd,
  ['--listen', '127.0.0.1:0', '--data', data, '--static-dir', staticDir, ...(home ? ['--cuda-home', home] : [])],
  { stdio: ['ignore', 'pipe', 'ignore'] },
);
process.on('exit', () => {
  child.kill('SIGTERM');
  if (!given) fs.rmSync(data, { recursive: true, force: true });
});
const base = await new Promise((resolve, reject) => {
  let said = '';
  child.stdout.on('data', (d) => {
    said += d;
    const m = /listening on (http\S+)/.exec(said);
    if (m) resolve(`${m[1]}/`);
  });
  child.on('exit', () => reject(new Error('proteusd ended')));
});
const ask = async (at, body) =>
  (
    await fetch(base + at, body ? { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) } : {})
  ).json();
const wait = (ms) => new Promise((r) => setTimeout(r, ms));
fs.mkdirSync(out, { recursive: true });
const b = await browser(modules, chromium);

async function shoot(name, url, width = 1440, full = true) {
  for (const colorScheme of ['light', 'dark']) {
    const context = await b.newContext({ viewport: { width, height: 900 }, colorScheme, reducedMotion: 'reduce' }),
      page = await context.newPage();
    await page.goto(url);
    for (
      let i = 0;
      i < 50 &&
      !(await page.evaluate(
        () => document.querySelectorAll('#main *').length > 8 && !/Reading /.test(document.querySelector('#main').innerText),
      ));
      i++
    )
      await wait(100);
    await wait(900);
    await page.screenshot({ path: path.join(out, `${name}-${colorScheme}.png`), fullPage: full });
    await context.close();
  }
  console.log(name);
}

// One operator at three batches by templates; and, by hand, one candidate that is wrong in a way that names its line.
const SHAPES = [1, 2, 4].map((B) => ({ B, H: 2, HV: 8, K: 128, V: 128 }));
const job =
  (await ask('v1/jobs')).jobs.find((j) => j.generator === 'template') ??
  (await ask('v1/jobs', { op: 'gdn_packed_decode', shapes: SHAPES, budget: { candidates: 12 } }));
const other =
  (await ask('v1/jobs')).jobs.find((j) => j.generator === 'external') ??
  (await ask('v1/jobs', { op: 'rmsnorm', shapes: [{ R: 4, N: 256 }], generator: 'external', budget: { candidates: 2 } }));
const plan = { steps: [{ kernel: 'k', grid: ['R', 1, 1], block: [32, 1, 1], args: ['x', 'weight', 'y', 'eps', '$N'] }] };
const source =
  '#include <cuda_bf16.h>\n// A row a warp.\nextern "C" __global__ void k(const DTYPE_io *x, const DTYPE_io *w, DTYPE_io *y, float eps, int N)\n{\n    const DTYPE_io *row = x + blockIdx.x * N;\n    float sum = 0;\n    for (int i = threadIdx.x; i < N; i += 32)\n        sum += float(row[i]) * float(row[i]);\n    for (int d = 16; d; d /= 2)\n        sum += __shfl_xor_sync(~0u, sum, d);\n    for (int i = threadIdx.x; i < N + 32; i += 32)\n        y[blockIdx.x * N + i] = DTYPE_io(float(row[i]) * rsqrtf(sum / N + eps) * float(w[i]));\n}\n';
if (other.state !== 'done')
  await ask(`v1/jobs/${other.id}/candidates`, { language: 'cuda', source, plan, notes: 'a row a warp, sums by shuffles' });
if (job.state !== 'done') {
  for (let i = 0; i < 600 && !((await ask(`v1/jobs/${job.id}`)).shapes?.[0]?.tried >= 2); i++) await wait(500);
  await shoot('overview-running', base);
}
for (let i = 0; i < 1200 && (await ask(`v1/jobs/${job.id}`)).state !== 'done'; i++) await wait(500);
let rejected = null;
for (let i = 0; i < 300 && !rejected; i++) {
  rejected = (await ask(`v1/jobs/${other.id}/candidates`)).candidates.find((c) => c.verdict && c.verdict.code !== 'ok');
  if (!rejected) await wait(500);
}
const done = await ask(`v1/jobs/${job.id}`),
  shape = done.shapes.find((s) => s.best) ?? done.shapes[0];
const pages = {
  overview: '',
  job: `#/jobs/${job.id}`,
  submit: `#/submit?from=${job.id}`,
  candidate: `#/candidates/${shape.best?.candidate}`,
  'candidate-rejected': `#/candidates/${rejected?.id}`,
  kernels: '#/kernels',
  kernel: `#/kernels/${shape.shape_hash}`,
  knowledge: '#/knowledge',
  operators: '#/operators',
  operator: '#/operators/gdn_packed_decode',
  devices: '#/devices',
};
for (const [name, at] of Object.entries(pages)) await shoot(name, base + at);
await shoot('overview-360px', base, 360);
await shoot('job-360px', `${base}#/jobs/${job.id}`, 360);

const card = await service(proteusd, staticDir, {}),
  judged = await loadJudgement(card.ask),
  jobs = await loadCells(card.ask);
for (const [name, hash] of Object.entries({
  overview: '',
  job: `#/jobs/${jobs[1]}`,
  candidate: `#/candidates/${judged.candidate}`,
  kernel: `#/kernels/${judged.shape_hash}`,
  kernels: '#/kernels',
  devices: '#/devices',
}))
  await shoot(`measured-${name}`, card.base + hash);
await shoot('measured-candidate-360px', `${card.base}#/candidates/${judged.candidate}`, 360);
await shoot('measured-overview-3840px', card.base, 3840, false);
await card.stop();

const fake = new Fake(staticDir, { words: 'made up for this picture', candidates: 400 }),
  made = await fake.listen();
for (const name of ['job', 'knowledge', 'lesson', 'grid']) await shoot(`made-up-${name}`, made + PAGES[name]);
await b.close();
fake.close();
process.exit(0);
