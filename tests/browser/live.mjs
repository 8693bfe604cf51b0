// The dashboard on a real service: a job on the emulator is asked for in the form, watched while it runs and while the service is
// restarted under it, and its kernel's signature is checked by the browser.
// Usage: node live.mjs PROTEUSD STATIC_DIR MODULES_DIR CHROMIUM [CUDA_HOME]
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { browser, finish, is, live, settled, text, until, watched } from './tools.mjs';

const [, , proteusd, staticDir, modules, chromium, cudaHome] = process.argv;
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'proteus-live-'));
let child = null,
  base = '';

function start(listen) {
  child = spawn(
    proteusd,
    ['--listen', listen, '--data', path.join(dir, 'data'), '--static-dir', staticDir, ...(cudaHome ? ['--cuda-home', cudaHome] : [])],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  );
  return new Promise((resolve, reject) => {
    let said = '';
    child.stdout.on('data', (d) => {
      said += d;
      const url = /listening on (http\S+)/.exec(said);
      if (url) resolve(`${url[1]}/`);
    });
    child.on('exit', (code) => reject(new Error(`proteusd ended with ${code}`)));
  });
}
const stop = () =>
  new Promise((resolve) => {
    child.removeAllListeners('exit');
    child.on('exit', resolve);
    child.kill('SIGTERM');
  });
process.on('exit', () => {
  child?.kill('SIGKILL');
  fs.rmSync(dir, { recursive: true, force: true });
});

const ask = async (at, body, headers) =>
  (
    await fetch(
      base + at.slice(1),
      body ? { method: 'POST', headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(body) } : { headers },
    )
  ).json();
const rows = (page) =>
  page
    .locator('[aria-label="Candidates"] table')
    .getAttribute('aria-rowcount')
    .then(
      (n) => Number(n) - 1,
      () => -1,
    );
const LONG = 150000; // a judgement on a busy machine

async function submit(page) {
  await page.goto(`${base}#/submit?op=rmsnorm`);
  await live(page);
  await settled(page);
  await page.getByLabel('R', { exact: true }).fill('4');
  await page.getByLabel('N', { exact: true }).fill('99999999');
  await until(
    async () => (await page.getByLabel('N', { exact: true }).getAttribute('aria-invalid')) === 'true',
    'the service says that N is too large',
  );
  await page.getByLabel('N', { exact: true }).fill('256');
  const wanted = await ask('/v1/shape-hash', { op: 'rmsnorm', axes: { R: 4, N: 256 } });
  await until(async () => (await text(page, '.hash')) === wanted.shape_hash, 'the shape hash');
  await page.getByLabel('Candidates').fill('0');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await until(
    async () => (await page.getByLabel('Candidates').getAttribute('aria-invalid')) === 'true',
    'a budget of none is refused beside its field',
  );
  await page.getByLabel('Candidates').fill('6');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await until(async () => /#\/jobs\/job_/.test(page.url()), 'the job opens', LONG);
  return [/job_\w+/.exec(page.url())[0], wanted.shape_hash];
}

finish(async () => {
  base = await start('127.0.0.1:0');
  const chromiumBrowser = await browser(modules, chromium),
    context = await chromiumBrowser.newContext({ viewport: { width: 1280, height: 900 } });
  const complaints = [],
    page = await watched(context, complaints),
    overview = await watched(context, complaints);
  const [job, hash] = await submit(page);
  await overview.goto(base);
  await live(overview);

  // live, on both pages
  await until(async () => (await overview.locator('article.job ol.steps').count()) === 1, 'the overview shows the judgement at work', LONG);
  await until(async () => (await rows(page)) >= 2, 'candidates come', LONG);
  await until(async () => (await text(page, '[aria-label="Best"]')).includes('estimate'), 'on the emulator it is an estimate', LONG);

  // the service is stopped and started again, in the middle of the job
  await stop();
  await until(async () => /reconnecting|connecting/.test(await text(page, '#connection')), 'the lost connection is shown');
  const port = new URL(base).port;
  base = await start(`127.0.0.1:${port}`);
  await until(async () => (await text(page, '#connection')) === 'live', 'live again', 30000);
  await until(async () => (await text(page, '#main .state')) === 'done', 'the job goes on to its end', LONG);
  const list = await ask(`/v1/jobs/${job}/candidates?limit=200`);
  await until(async () => (await rows(page)) === list.candidates.length, 'every candidate is there, once');
  const wanted = list.candidates.map((c) => c.verdict?.code ?? 'waiting').join();
  await until(
    async () => (await page.locator('[aria-label="Candidates"] .verdict').allInnerTexts()).map((t) => t.split(' ')[1]).join() === wanted,
    `with the verdicts that the service has: ${wanted}`,
  );
  await until(
    async () => (await overview.locator('[aria-label="Ended jobs"] tbody tr').count()) === 1,
    'the overview has it among the ended ones',
  );
  await until(async () => (await overview.locator('[aria-label="Last promoted kernels"] tbody tr').count()) === 1, 'and its kernel');
  is(await overview.locator('#main .evidence.measured').count(), 0, 'no estimate is called measured');

  // what was found
  await page.goto(`${base}#/kernels/${hash}`);
  await until(async () => (await text(page, '.stamp')) === '✓ signed', 'the real signature, checked by the browser', 30000);
  await page.getByRole('button', { name: 'Take them here' }).click();
  await until(async () => (await page.locator('[aria-label="Digests taken here"] tbody tr').count()) === 3, 'digests', 30000);
  is((await text(page, '[aria-label="Digests taken here"]')).match(/✓ as certified/g)?.length, 3, 'all as certified');
  await page.getByRole('button', { name: 'Quarantine' }).first().click();
  await page.getByLabel('Reason').fill('a test');
  await page.getByRole('button', { name: 'Withdraw it' }).click();
  await until(async () => (await page.getByRole('button', { name: 'Restore' }).count()) === 1, 'withdrawn', 20000);
  await page.goto(`${base}#/candidates/${list.candidates[0].id}`);
  await until(
    async () => (await page.locator('svg[aria-label^="Phases"]').count()) === 1 && (await page.locator('.code tr').count()) > 5,
    'a candidate with its phases and source',
    20000,
  );
  await page.getByRole('button', { name: 'Diff to the baseline' }).click();
  await until(
    async () => (await page.locator('[aria-label="Difference to the baseline"]').count()) === 1,
    'and its difference to the baseline',
    20000,
  );
  for (const [at, title] of [
    ['#/operators/rmsnorm', 'rmsnorm'],
    ['#/devices', 'Devices'],
    ['#/kernels', 'Kernels'],
    ['#/knowledge', 'Knowledge'],
  ]) {
    await page.goto(base + at);
    await until(async () => (await page.locator('#main h1').allInnerTexts()).includes(title), title, 20000);
  }

  // a token closes the service; the page asks for it
  const made = await ask('/v1/tokens', { name: 'test', scopes: ['admin'] });
  const secret = made.token;
  await page.reload();
  await until(() => page.locator('#token-dialog').isVisible(), 'the token is asked for', 20000);
  await page.locator('#token-input').fill(secret);
  await page.keyboard.press('Enter');
  await until(async () => (await text(page, '#connection')) === 'live', 'live with the token', 20000);
  is(complaints, [], 'the browser has nothing to complain about');
  await chromiumBrowser.close();
  await stop();
}, 400);
