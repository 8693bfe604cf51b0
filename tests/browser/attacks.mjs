// Attacks on the dashboard and bad days of its service: addresses that somebody sent, keys and figures of the wrong kind, sources without
// end, a token that is taken back while the stream runs, events in the wrong order, a clock that is wrong, two tabs.
// Usage: node attacks.mjs STATIC_DIR MODULES_DIR CHROMIUM
import { candidateId, EVIL, Fake, hash, PAGES } from './fake.mjs';
import { browser, finish, is, live, ok, settled, text, until, watched } from './tools.mjs';

const [, , staticDir, modules, chromium] = process.argv;
const wait = (ms) => new Promise((r) => setTimeout(r, ms));
const AHEAD_MS = 3 * 3600 * 1000;

/** Documents as JSON.parse makes them of hostile text: keys of their own that are names of the language, and values of every kind. */
const NAMES = JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"toString":"x","hasOwnProperty":7,"length":-1}');
const KINDS = [null, true, -1, 1e308, '', EVIL, [], [[]], {}, NAMES, [null], [EVIL, NAMES]];

class Hostile extends Fake {
  candidateDoc(name) {
    const doc = super.candidateDoc(name);
    if (name === candidateId(7)) doc.candidate.source = `${'x'.repeat(10 << 20)}`;
    if (name === candidateId(8)) {
      doc.candidate.source = '    int a = 1; // line\n'.repeat(150000);
      doc.verdict.detail.source_line = 140000;
    }
    if (name === candidateId(9)) {
      Object.assign(doc, { figures: NAMES, phases: [NAMES, null, 7, { phase: '__proto__', ms: -1, verdict: '__proto__' }] });
      doc.candidate.defines = NAMES;
      doc.candidate.plan = { steps: [NAMES, null, { memset: NAMES }], workspace: [NAMES] };
      doc.verdict = { code: '__proto__', text: NAMES, for_person: NAMES, detail: NAMES };
    }
    return doc;
  }
  answer(request, response) {
    if (this.skewMs) response.setHeader('Date', new Date(Date.now() + this.skewMs).toUTCString());
    super.answer(request, response);
  }
}

const polluted = (page) => page.evaluate(() => [window.pwned, {}.polluted, [].polluted, Object.prototype.polluted, (() => {}).polluted]);

async function addresses(context, base, complaints) {
  const page = await watched(context, complaints);
  await page.goto(base);
  await live(page);
  const evil = encodeURIComponent(EVIL);
  for (const at of [
    `#/${evil}`,
    '#/__proto__',
    '#/constructor/prototype',
    '#/%E0%A4%A',
    '#/jobs/__proto__',
    `#/jobs/${evil}`,
    '#/kernels/..%2f..%2fmetrics',
    '#/kernels/..',
    `#/kernels/${'a'.repeat(5000)}`,
    `#/candidates/${evil}`,
    `#/knowledge?tag=${evil}`,
    `#/knowledge/${evil}`,
    `#/operators/${evil}`,
    `#/submit?op=${evil}&from=${evil}`,
    '#/submit?op=__proto__',
    '#javascript:window.pwned=1',
    '#/?token=pk_stolen',
  ]) {
    await page.evaluate((a) => {
      location.hash = a;
    }, at);
    await wait(120);
    ok((await page.locator('#main *').count()) > 0, `something is there at ${at.slice(0, 40)}`);
    is(await page.locator('#main img, #main script, #main iframe').count(), 0, `no markup from ${at.slice(0, 40)}`);
  }
  is(await page.evaluate(() => [sessionStorage.getItem('proteus-token'), localStorage.length]), [null, 1], 'no token is taken from an address');
  is(await polluted(page), [undefined, undefined, undefined, undefined, undefined], 'nothing ran');
  await page.close();
}

async function sources(context, base, complaints) {
  const page = await watched(context, complaints);
  for (const [n, what] of [
    [7, 'one line of 10 MB'],
    [8, '150,000 lines'],
  ]) {
    await page.goto(`${base}#/candidates/${candidateId(n)}`);
    await until(async () => (await page.locator('.code tr').count()) > 0, what, 30000);
    ok((await page.locator('.code tr').count()) < 25000, `${what}: no more rows than a page can hold`);
    ok((await text(page, '.code')).length < 3 << 20, `${what}: no more text than a page can hold`);
    ok((await page.locator('.code').last().innerText()).includes('more are not shown'), `${what}: and that is said`);
    await page.getByRole('button', { name: 'Diff to the baseline' }).click();
    await until(async () => (await page.locator('[aria-label="Difference to the baseline"]').count()) === 1, `${what}: its difference`, 20000);
  }
  await page.close();
}

async function wrongKinds(context, base, fake, complaints) {
  const page = await watched(context, complaints);
  await page.goto(`${base}#/candidates/${candidateId(9)}`);
  await until(async () => (await text(page, '#main')).includes('as asked') || (await page.locator('#main *').count()) > 4, 'a page');
  ok(!/is not a function|undefined \(reading/.test(await text(page, '#main')), 'and no stack of ours');
  await page.goto(`${base}#/jobs/job_live`);
  await live(page);
  for (const type of ['candidate.proposed', 'candidate.phase', 'candidate.timed', 'candidate.verdict', 'shape.best', 'job.state', 'job.done', 'kernel.state', 'lesson.learned', '__proto__', 'constructor', EVIL])
    for (const kind of KINDS)
      fake.emit(type, 'job_live', { candidate: kind, shape_hash: kind, verdict: kind, speedup: kind, time_ns: kind, notes: kind, phase: kind, device: kind, state: typeof kind === 'string' ? kind : 'running', spent: kind, is_baseline: kind, parent: kind });
  fake.emit('candidate.phase', 'job_live', { ...NAMES, candidate: candidateId(3), phase: '__proto__', device: '__proto__' });
  await wait(900);
  fake.judge(900);
  await until(async () => (await text(page, '#main')).includes('out[0,3,900]'), 'the page goes on');
  await page.goto(base);
  await live(page);
  await until(async () => (await page.locator('.tiles .tile').count()) === 6, 'the overview goes on');
  is(await polluted(page), [undefined, undefined, undefined, undefined, undefined], 'no prototype was changed');
  await page.close();
}

/** Older news after newer ones changes nothing that is newer. */
async function wrongOrder(context, base, fake, complaints) {
  const page = await watched(context, complaints);
  await page.goto(`${base}#/jobs/job_live`);
  await live(page);
  const of = { candidate: candidateId(950), shape_hash: hash('job_live'), is_baseline: false },
    first = fake.lastId + 1;
  fake.lastId += 4;
  const send = (id, type, doc) => {
    const event = `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify({ id, time: new Date().toISOString(), job: 'job_live', ...of, ...doc })}\n\n`;
    for (const c of fake.clients) c.response.write(event);
  };
  send(first + 3, 'candidate.verdict', { verdict: { code: 'race', text: 'said last' } });
  send(first + 2, 'candidate.timed', { time_ns: 4000, speedup: { median: 1.3, low: 1.3, high: 1.3 }, evidence: 'emulated' });
  send(first + 1, 'candidate.phase', { phase: 'time', state: 'start', mode: 'triage' });
  send(first, 'candidate.proposed', { notes: 'said first', language: 'cuda' });
  send(first + 3, 'candidate.verdict', { verdict: { code: 'race', text: 'said last' } });
  const row = page.locator('[aria-label="Candidates"] tbody tr', { hasText: 'said last' });
  await until(async () => (await row.count()) === 1, 'one row of it');
  ok((await row.innerText()).includes('race'), 'with its verdict');
  ok((await row.innerText()).includes('1.30×'), 'and its time');
  ok(!(await text(page, '[aria-label="Budget"]')).includes('Judging candidate'), 'it is not at work any more');
  await page.close();
}

/** The token is taken back while the stream runs; another one is asked for, and nothing that came meanwhile is missing. */
async function tokenTakenBack(chromiumBrowser, base, fake, complaints) {
  const context = await chromiumBrowser.newContext(),
    page = await watched(context, complaints),
    addressed = [];
  page.on('request', (r) => addressed.push(r.url()));
  await page.goto(`${base}#/jobs/job_live`);
  await live(page);
  fake.needToken = true;
  fake.cut();
  await until(() => page.locator('#token-dialog').isVisible(), 'a token is asked for in the midst of it');
  await until(async () => (await text(page, '#connection')) === 'refused', 'and the connection is said to be refused');
  fake.judge(960, { verdict: { code: 'timeout', text: 'while nobody was let in' } });
  await page.locator('#token-input').fill('pk_wrong');
  await page.keyboard.press('Enter');
  await until(() => page.locator('#token-dialog').isVisible(), 'a wrong one is refused');
  await page.locator('#token-input').fill('pk_good');
  await page.keyboard.press('Enter');
  await live(page);
  await until(async () => (await text(page, '#main')).includes('while nobody was let in'), 'what came meanwhile is there');
  ok(addressed.every((u) => !/pk_(good|wrong)/.test(u)), 'no token in any address');
  // It ends between two pages: whatever asks first asks for the token.
  fake.needToken = 'other';
  await page.evaluate((a) => {
    location.hash = a;
  }, PAGES.candidate);
  await until(() => page.locator('#token-dialog').isVisible(), 'a page that is refused asks for a token too');
  fake.needToken = false;
  await context.close();
}

async function wrongClock(context, base, fake, complaints) {
  const page = await watched(context, complaints);
  fake.skewMs = AHEAD_MS;
  // Half a minute from either edge: the service's clock is known by its Date header, in whole seconds.
  for (const job of fake.jobs.values()) job.created = new Date(Date.now() + AHEAD_MS - 7.5 * 60000).toISOString();
  await page.goto(`${base}#/jobs/job_live`);
  await until(async () => (await text(page, '.job-head')).includes('submitted 7 min ago'), 'ages are by the clock of the service');
  fake.skewMs = 0;
  await page.close();
}

/** The service goes away between two pages: that is said, and the page is there once it is back. */
async function serviceGone(context, base, fake, complaints) {
  const page = await watched(context, complaints);
  await page.goto(base);
  await live(page);
  fake.refuse = true;
  fake.cut();
  await until(async () => /connecting/.test(await text(page, '#connection')), 'it is gone');
  await page.evaluate((a) => {
    location.hash = a;
  }, PAGES.candidate);
  await until(async () => (await text(page, '#main')).includes('cannot be reached'), 'a page says so');
  fake.refuse = false;
  await live(page);
  await until(async () => (await page.locator('#main .code tr').count()) > 3, 'and is there once the service is back');
  await page.close();
}

/** Each tab has a stream of its own, and a token of its own. */
async function twoTabs(context, base, fake, complaints) {
  const tabs = [await watched(context, complaints), await watched(context, complaints)];
  for (const tab of tabs) {
    await tab.goto(`${base}#/jobs/job_live`);
    await live(tab);
  }
  fake.judge(970);
  for (const tab of tabs) await until(async () => (await text(tab, '#main')).includes('#970') || (await text(tab, '#main')).includes('out[0,3,970]'), 'both see it');
  await tabs[0].evaluate(() => sessionStorage.setItem('proteus-token', 'pk_of_this_tab'));
  is(await tabs[1].evaluate(() => sessionStorage.getItem('proteus-token')), null, 'the token of a tab is its own');
  await tabs[0].close();
  fake.judge(972);
  await until(async () => (await text(tabs[1], '#main')).includes('out[0,3,972]'), 'the other goes on');
  await tabs[1].close();
}

/** The policy holds: what would run, were it markup, is reported by the browser and does not. */
async function policy(context, base) {
  const page = await context.newPage(),
    told = [];
  await page.exposeFunction('told', (what) => told.push(what));
  await page.goto(base);
  await live(page);
  await page.evaluate(() => {
    document.addEventListener('securitypolicyviolation', (e) => window.told(e.effectiveDirective));
    const s = document.createElement('script');
    s.textContent = 'window.pwned = 1';
    document.body.append(s);
    const i = document.createElement('img');
    i.src = 'http://127.0.0.1:1/x.png';
    document.body.append(i);
    const d = document.createElement('div');
    d.setAttribute('style', 'color: red');
    document.body.append(d);
    fetch('http://127.0.0.1:1/').catch(() => {});
  });
  await until(() => ['script-src-elem', 'img-src', 'style-src-attr', 'connect-src'].every((d) => told.includes(d)), `refused: ${told}`);
  is(await page.evaluate(() => window.pwned), undefined, 'and nothing ran');
  await page.close();
}

finish(async () => {
  const fake = new Hostile(staticDir, { candidates: 5 }),
    base = await fake.listen();
  const chromiumBrowser = await browser(modules, chromium);
  const context = await chromiumBrowser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' });
  const complaints = [];
  process.on('exit', (code) => code && complaints.length && console.error(complaints));
  for (const step of [addresses, sources, wrongKinds, wrongOrder, twoTabs, wrongClock, serviceGone, policy].filter((s) => !process.env.ONLY || process.env.ONLY === s.name)) {
    const begun = Date.now();
    if (step === addresses || step === sources) await step(context, base, complaints);
    else if (step === policy) await step(context, base);
    else await step(context, base, fake, complaints);
    if (process.env.VERBOSE) console.log(step.name, Date.now() - begun, complaints);
  }
  await tokenTakenBack(chromiumBrowser, base, fake, complaints);
  is(complaints, [], 'the browser has nothing to complain about');
  await chromiumBrowser.close();
}, 200);
