// The dashboard in a real browser, against a service of our own that feeds it hostile text, cuts its streams and asks for a token.
// Usage: node dashboard.mjs STATIC_DIR MODULES_DIR CHROMIUM
import { minisign, publicKey } from './documents.mjs';
import { candidateId, EVIL, Fake, hash, PAGES } from './fake.mjs';
import { axe, browser, finish, is, live, ok, settled, text, until, watched } from './tools.mjs';

const [, , staticDir, modules, chromium] = process.argv;
const rows = (page, label) =>
  page
    .locator(`[aria-label="${label}"] table`)
    .getAttribute('aria-rowcount')
    .then(
      (n) => Number(n) - 1,
      () => -1,
    );

/** How much wider the document is than the window, and by which element. */
const tooWide = () => {
  const wide = document.documentElement.clientWidth,
    over = document.documentElement.scrollWidth - wide;
  const inBox = (n) => {
    for (let p = n.parentElement; p; p = p.parentElement) if (getComputedStyle(p).overflowX !== 'visible') return true;
    return false;
  };
  const by =
    over > 0 ? [...document.querySelectorAll('body *')].find((n) => n.getBoundingClientRect().right > wide + 1 && !inBox(n)) : null;
  return [over, by ? `${by.tagName} ${by.getAttribute('class')} ${by.textContent.slice(0, 40)}` : ''];
};

/** Every page, both themes: hostile text is text, no serious fault for assistive technology, no width is too narrow or too wide. */
async function everyPage(context, base, fake, complaints) {
  const faults = [];
  const page = await watched(context, complaints);
  await page.goto(base);
  await live(page);
  for (const [name, at] of Object.entries(PAGES)) {
    await page.evaluate((a) => {
      location.hash = a || '#/';
    }, at);
    await settled(page);
    await page.waitForTimeout(150);
    const begun = Date.now();
    if (!['submit', 'overview', 'job', 'grid', 'no-kernel'].includes(name))
      await until(async () => (await text(page, '#main')).includes('<img src=x'), `${name}: the hostile text, as text`);
    await until(async () => (await page.locator('#main h1').count()) >= 1, `${name}: a heading`);
    await until(async () => (await page.title()).endsWith('– Proteus'), `${name}: a title`);
    await page.evaluate(() => {
      for (const d of document.querySelectorAll('#main details')) d.open = true;
    });
    for (const theme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: theme });
      for (const fault of (await axe(page, modules, theme === 'dark' ? ['color-contrast'] : undefined)) ?? [])
        faults.push(`${name}, ${theme}: ${fault}`);
    }
    for (const width of [360, 3840, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      const [over, widest] = await page.evaluate(tooWide);
      if (over > 0) faults.push(`${name} at ${width} px: ${over} px too wide: ${widest}`);
    }
    if (process.env.VERBOSE) console.log(' ', name, Date.now() - begun);
    is(await page.locator('#main img, #main script, #main iframe, #main [onerror]').count(), 0, `${name}: no markup came from data`);
  }
  is(faults, [], 'axe and widths');
  is(await page.evaluate(() => window.pwned), undefined, 'nothing ran');
  is(fake.seen.most, 1, 'one stream a page');
  await page.close();
}

/** Candidates as they come, each once; the line of the connection; what came while it was gone. */
async function liveUpdates(context, base, fake, complaints) {
  const page = await watched(context, complaints);
  await page.goto(`${base}#/jobs/job_live`);
  await live(page);
  const had = fake.candidates.length;
  await until(async () => (await rows(page, 'Candidates')) === had, 'the candidates that were there');
  for (let n = had; n < had + 17; n++) fake.judge(n);
  await until(async () => (await rows(page, 'Candidates')) === had + 17, 'candidates as they come');
  await until(async () => (await text(page, '.log-box')).includes(`wanted 0.98`), 'the log');
  ok((await text(page, '#main')).includes('estimate'), 'an emulated figure is called an estimate');
  is(await page.locator('#main .evidence.measured').count(), 0, 'nothing emulated is called measured');
  const plot = page.locator('.plot[role=img]').first();
  await until(async () => (await plot.getAttribute('aria-label')).includes(`${had + 16} candidates`), 'the plot says what it shows');
  fake.judge(had + 17, { notes: EVIL, verdict: { code: EVIL, text: EVIL } });
  await until(async () => (await text(page, '[aria-label="Candidates"]')).includes('<img src=x'), 'a hostile verdict, as text');
  const before = fake.lastId;
  fake.seen.lastIds.length = 0;
  await page.evaluate(() => {
    const pill = document.querySelector('#connection');
    window.spoken = [];
    new MutationObserver((all) => {
      for (const m of all) if (!(m.target.nodeType === 1 ? m.target : m.target.parentElement)?.closest('[aria-hidden]')) window.spoken.push(pill.querySelector('b').textContent);
    }).observe(pill, { subtree: true, childList: true, characterData: true });
  });
  fake.refuse = true;
  fake.cut();
  await until(async () => /reconnecting|connecting/.test(await text(page, '#connection')), 'a lost connection is shown');
  for (let n = had + 18; n < had + 23; n++) fake.judge(n);
  fake.refuse = false;
  await live(page);
  await until(async () => (await rows(page, 'Candidates')) === had + 23, 'what came meanwhile, nothing twice');
  const spoken = await page.evaluate(() => window.spoken);
  ok(spoken.length > 0 && spoken.every((t) => !/[0-9]/.test(t)), `a screen reader hears states, not seconds: ${spoken}`);
  ok(fake.seen.lastIds.includes(String(before)), `resumed after event ${before}`);
  fake.jobs.get('job_live').state = 'done';
  fake.emit('job.done', 'job_live', { state: 'done' });
  await until(async () => (await text(page, '#main .state')) === 'done', 'the end of the job');
  fake.jobs.get('job_live').state = 'running';
  fake.emit('job.state', 'job_live', { state: 'running' });
  await page.getByRole('button', { name: 'Cancel' }).click();
  await until(async () => (await text(page, '#main .state')) === 'cancelled', 'cancelled');
  await page.close();
}

/** By keyboard alone, and the focus stays when a page draws itself anew. */
async function keyboard(context, base, fake, complaints) {
  const page = await watched(context, complaints);
  await page.goto(base);
  await live(page);
  await page.keyboard.press('Tab');
  is(await page.evaluate(() => document.activeElement.className), 'skip', 'the first stop leads past the navigation');
  await page.keyboard.press('Enter');
  is(await page.evaluate(() => document.activeElement.id), 'main', 'to the content');
  await until(async () => (await page.locator('[aria-label="Ended jobs"] a').count()) > 0, 'jobs');
  await page.locator('[aria-label="Ended jobs"] a', { hasText: 'rmsnorm' }).first().focus();
  fake.emit('shape.best', 'job_old', {
    shape_hash: hash('job_old'),
    candidate: candidateId(3),
    time_ns: 3900,
    speedup: { median: 1.33 },
    evidence: 'measured',
    served: false,
  });
  await page.waitForTimeout(400);
  is(await page.evaluate(() => document.activeElement?.dataset.key), '#/jobs/job_old', 'drawing anew keeps the focus');
  await page.keyboard.press('Enter');
  await until(async () => (await text(page, '#main h1')) === 'rmsnorm', 'Enter opens it');
  await page.locator('table.grid button').nth(1).focus();
  await page.keyboard.press('Enter');
  await until(async () => (await page.locator('table.grid button[aria-pressed="true"]').count()) === 1, 'a shape is chosen by keyboard');
  await page.close();
}

async function submitting(context, base, fake, complaints) {
  const page = await watched(context, complaints);
  await page.goto(`${base}#/submit?op=rmsnorm`);
  await settled(page);
  const hashText = () => text(page, '.hash');
  await page.getByLabel('R', { exact: true }).fill('4');
  await until(async () => /no hash/i.test(await hashText()), 'no hash of half a shape');
  is(await page.getByLabel('N', { exact: true }).getAttribute('aria-invalid'), null, 'an empty field is not wrong yet');
  await page.getByLabel('N', { exact: true }).fill('x');
  await until(
    async () => (await page.getByLabel('N', { exact: true }).getAttribute('aria-invalid')) === 'true',
    'the fault stands beside its field',
  );
  await page.getByLabel('N', { exact: true }).fill('3072');
  await until(async () => (await hashText()) === hash(JSON.stringify({ R: 4, N: 3072 })), 'the shape hash as one types');
  is(await page.locator('.hash[aria-live]').count(), 0, '64 digits are not read out');
  is((await page.locator('fieldset [role=status]').first().textContent()).trim(), 'Hash ready.', 'that they are there is said');
  await page.getByLabel('Candidates').fill('13');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await until(async () => (await page.locator('[role=alert] .error').count()) === 1, 'refused');
  const wrong = page.getByLabel('N', { exact: true });
  is(await wrong.getAttribute('aria-invalid'), 'true', 'the faulty axis is marked');
  is(await page.evaluate(() => document.activeElement.getAttribute('aria-invalid')), 'true', 'the focus is on a faulty field');
  ok((await page.locator(`#${await wrong.getAttribute('id')}-wrong`).innerText()).includes('N is odd <img'), 'with what is wrong, as text');
  ok((await text(page, '[role=alert] .error')).includes('/elsewhere'), 'what has no field stands above the button');
  await page.getByLabel('Candidates').fill('12');
  await page.getByRole('button', { name: 'Add a shape' }).click();
  is(await page.locator('fieldset .hash').count(), 2, 'two shapes');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await until(async () => page.url().includes('#/jobs/job_live'), 'the job opens');
  is(
    fake.posted.findLast(([p]) => p === '/v1/jobs')[1],
    {
      generator: 'template',
      reuse: 'verified',
      budget: { candidates: 12 },
      op: 'rmsnorm',
      shapes: [
        { R: 4, N: 3072 },
        { R: 4, N: 3072 },
      ],
      dtypes: { io: 'bf16' },
    },
    'what was asked for',
  );
  await page.goto(`${base}#/submit`);
  await page.getByRole('button', { name: 'decode step' }).click();
  await page.getByLabel('Batch').fill('1,4');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await until(async () => page.url().includes('#/jobs/'), 'a model');
  is(fake.posted.findLast(([p]) => p === '/v1/jobs')[1].model, { preset: 'qwen', tp: 8, batch: [1, 4] }, 'its preset');
  await page.close();
}

/** Figures are of all that runs and waits, not of the page that came first. */
async function counts(context, base, fake, complaints) {
  const waiting = Array.from({ length: 171 }, (_, i) => ({ ...fake.jobDoc(`job_wait${i}`, 'queued', 'rmsnorm'), shapes: [] }));
  const had = [...fake.jobs.values()],
    running = had.filter((j) => j.state === 'running').length,
    queued = had.filter((j) => j.state === 'queued').length + waiting.length;
  fake.jobs = new Map([...waiting, ...had].map((j) => [j.id, j]));
  const page = await watched(context, complaints);
  await page.goto(base);
  await live(page);
  await until(async () => (await text(page, '.tile')).includes(`${queued} queued`), 'all that wait');
  is(await text(page, '.tile b'), String(running), 'all that run');
  ok((await page.locator('[aria-label="Ended jobs"] tbody tr').count()) > 0, 'ended ones, however many wait');
  fake.jobs = new Map(had.map((j) => [j.id, j]));
  await page.close();
}

/** Signature and digests are checked here; a foreign key is told; an admin withdraws and brings back. */
async function kernels(context, base, fake, complaints) {
  const page = await watched(context, complaints);
  await page.goto(`${base}#/kernels`);
  await live(page);
  await until(async () => (await rows(page, 'Kernels')) === 3, 'kernels');
  is(await page.locator('[aria-label="Kernels"] .evidence.measured').count(), 1, 'only evidence "measured" is shown as measured');
  await page.getByLabel('Search').fill('b=2');
  await until(async () => (await rows(page, 'Kernels')) === 1, 'search');
  await page.goto(`${base}${PAGES.kernel}`);
  await until(async () => (await text(page, '.stamp')) === '✓ signed', 'the signature is checked in the browser');
  await until(async () => (await text(page, '#main')).includes('no audit of the launches'), 'what the certificate does without');
  ok((await text(page, '[aria-label="Judged again"]')).includes('another than the one that judged it first'), 'on which card it was judged again');
  await page.getByLabel('Check against a key').fill('RWQ' + 'A'.repeat(53));
  await until(async () => /bad/.test(await text(page, '.stamp')), 'another key does not fit');
  await page.getByLabel('Check against a key').fill('RWQ');
  await until(async () => (await text(page, '.stamp')) === 'signature not checked', 'half a key: the stamp of the one before is gone');
  await page.getByLabel('Check against a key').fill(publicKey.split('\n')[1]);
  await until(async () => (await text(page, '.stamp')) === '✓ signed, by your key', 'a pinned key');
  const had = [fake.certificate, fake.signature];
  fake.certificate = Buffer.from(JSON.stringify({ ...fake.certificateDoc(), shape_hash: hash('kernel1') }));
  fake.signature = minisign(fake.certificate, `timestamp:1 file:certificate.json shape:${hash('kernel1')}`);
  await page.reload();
  await until(async () => (await text(page, '.stamp')).includes('another shape'), 'a certificate of another shape, signed well');
  [fake.certificate, fake.signature] = had;
  fake.certificate = Buffer.concat([fake.certificate, Buffer.from(' ')]);
  await page.reload();
  await until(async () => /bad/.test(await text(page, '.stamp')), 'a changed byte is found');
  await page.getByRole('button', { name: 'Take them here' }).click();
  await until(async () => (await page.locator('[aria-label="Digests taken here"] tbody tr').count()) === 3, 'digests');
  ok((await text(page, '[aria-label="Digests taken here"]')).includes('✕ not what was certified'), 'a wrong file is told');
  await page.getByRole('button', { name: 'Quarantine' }).first().click();
  await page.getByLabel('Reason').fill('it looks odd');
  await page.getByRole('button', { name: 'Withdraw it' }).click();
  await until(async () => (await page.getByRole('button', { name: 'Restore' }).count()) === 1, 'withdrawn');
  is(fake.posted.at(-1)[1], { candidate: candidateId(1), reason: 'it looks odd' }, 'the order names its candidate');
  await page.getByRole('button', { name: 'Restore' }).click();
  await page.getByRole('button', { name: 'Bring it back' }).click();
  await until(async () => (await page.getByRole('button', { name: 'Restore' }).count()) === 0, 'brought back');
  const broken = (route) => route.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify({ status: 503, detail: 'the shelf is away' }) });
  await page.route('**/v1/kernels/*/candidates', broken);
  await page.reload();
  await until(async () => (await text(page, '[aria-label="What stands behind this shape"]')).includes('the shelf is away'), 'a shelf that could not be read is not an empty one');
  await page.unroute('**/v1/kernels/*/candidates', broken);
  await page.reload();
  await until(async () => (await page.getByRole('button', { name: 'Quarantine' }).count()) > 0, 'the shelf');
  fake.kernels.delete(hash('kernel0'));
  fake.emit('kernel.state', undefined, {
    shape_hash: hash('kernel0'),
    candidate: candidateId(1),
    state: 'quarantined',
    reason: 'elsewhere',
    serves: null,
  });
  await until(async () => (await text(page, '#main')).includes('No kernel for this shape'), 'what others withdraw is seen');
  await page.close();
}

async function candidates(context, base, fake, complaints) {
  const page = await watched(context, complaints);
  await page.goto(`${base}${PAGES.rejected}`);
  await until(async () => (await page.locator('.code tr.hit').count()) >= 2, 'the offending line is marked');
  ok((await text(page, '.code tr.hit td.line')).includes('7'), 'line 7');
  await page.getByRole('button', { name: 'Diff to the parent' }).click();
  await until(async () => (await page.locator('.code tr.gap, #main p.muted').count()) > 0, 'a difference');
  await page.getByRole('button', { name: 'Diff to the baseline' }).click();
  await until(
    async () => (await page.locator('.code tr.add').count()) === 1 && (await page.locator('.code tr.del').count()) === 1,
    'one line differs from the baseline',
  );
  await page.goto(`${base}${PAGES.candidate}`);
  await until(async () => (await page.locator('.plot canvas').count()) === 2, 'histogram and pairs');
  ok(/1 not done[^]*audit\s+– not done: /.test(await text(page, '[aria-label="Verdict"]')), 'what was not done is not called checked');
  ok((await text(page, '[aria-label="Counters"]')).includes('61.5 %'), 'the counters of the card');
  ok((await page.locator('svg[aria-label^="Roofline"]').count()) === 1, 'the roofline');
  for (const [what, times] of [
    ['graph-rotated', 2],
    ['cold-isolated', 2],
    ['eager', 2],
  ])
    ok((await page.locator(`svg[aria-label^="${what}"] rect`).count()) === times, `${what}: both sides`);
  await page.goto(`${base}#/candidates/${candidateId(908)}`);
  await until(async () => (await text(page, '#main h1')).includes(candidateId(908).slice(-8)), 'one that is not believed');
  is(await page.getByRole('button', { name: 'Refuse' }).count(), 0, 'and that nobody holds');
  await page.goto(`${base}#/candidates/${candidateId(907)}`);
  await page.getByRole('button', { name: 'Refuse' }).click();
  is(await page.evaluate(() => document.activeElement.id), 'decide-reason', 'a decision has a reason');
  await page.getByLabel('Reason').fill('too good');
  await page.getByRole('button', { name: 'Refuse' }).click();
  await until(async () => (await text(page, '#main')).includes('refused by') && (await text(page, '#main')).includes('too good'), 'decided');
  is(fake.posted.at(-1), [`/v1/candidates/${candidateId(907)}/refuse`, { reason: 'too good' }], 'with its reason');
  is(await page.getByRole('button', { name: 'Refuse' }).count(), 0, 'once');
  await page.close();
}

async function withToken(chromiumBrowser, base, fake, complaints) {
  fake.needToken = true;
  const page = await watched(await chromiumBrowser.newContext(), complaints);
  await page.goto(base);
  await until(() => page.locator('#token-dialog').isVisible(), 'the token is asked for');
  is((await axe(page, modules)) ?? [], [], 'axe: the dialog');
  await page.locator('#token-input').fill('pk_good');
  await page.keyboard.press('Enter');
  await live(page);
  ok(fake.seen.tokens.includes('Bearer pk_good'), 'the token was sent');
  is(
    await page.evaluate(() => [localStorage.getItem('proteus-token'), sessionStorage.getItem('proteus-token'), document.cookie]),
    [null, 'pk_good', ''],
    'it is kept for this tab alone',
  );
  is(await page.evaluate(() => window.pwned), undefined, 'nothing ran');
}

/** Where the layer, or a job, is not there, that is said. */
async function honestly(context, base, fake, complaints) {
  const page = await watched(context, complaints);
  fake.lessons = false;
  await page.goto(`${base}#/knowledge`);
  await until(async () => (await text(page, '#main')).includes('no lessons yet'), 'no knowledge layer');
  await page.goto(`${base}#/jobs/none`);
  await until(async () => (await text(page, '#main')).includes('No such job'), 'no such job');
  await page.close();
}

finish(async () => {
  const fake = new Fake(staticDir, { candidates: 5 }),
    base = await fake.listen();
  const chromiumBrowser = await browser(modules, chromium);
  const context = await chromiumBrowser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' });
  const complaints = [];
  const steps = [everyPage, counts, liveUpdates, keyboard, submitting, kernels];
  for (const step of steps.filter((s) => !process.env.ONLY || process.env.ONLY === s.name)) {
    const t = Date.now();
    await step(context, base, fake, complaints);
    if (process.env.VERBOSE) console.log(step.name, Date.now() - t);
  }
  await candidates(context, base, fake, complaints);
  await honestly(context, base, fake, complaints);
  await withToken(chromiumBrowser, base, fake, complaints);
  is(complaints, [], 'the browser has nothing to complain about (content policy included)');
  await chromiumBrowser.close();
}, 280);
