// The pages that show measurements, with a card's: what its judge once said goes through a real service (measured.mjs), and each panel
// shows the recorded figures. Usage: node cards.mjs PROTEUSD STATIC_DIR MODULES_DIR CHROMIUM
import { loadCells, loadJudgement, service } from './measured.mjs';
import { cells, judgement } from './recorded.mjs';
import { axe, browser, finish, is, live, ok, settled, text, until, watched } from './tools.mjs';

const [, , proteusd, staticDir, modules, chromium] = process.argv;
const us = (ns) => `${(ns / 1000).toFixed(2)} µs`;
const label = (page, start) => page.locator(`#main [role=img][aria-label^="${start}"]`).first().getAttribute('aria-label');
const panel = (page, name) => text(page, `#main section[aria-label="${name}"]`);

async function candidatePage(page, base, { candidate }, { figures }) {
  await page.goto(`${base}#/candidates/${candidate}`);
  await settled(page);
  await until(async () => (await page.locator('.plot canvas').count()) === 2, 'histogram and pairs');
  const s = figures.speedup,
    interval = `${s.low.toFixed(3)} to ${s.high.toFixed(3)}`;
  ok((await panel(page, 'Figures')).includes(`interval ${interval}`), `the interval ${interval}`);
  ok((await panel(page, 'Figures')).includes('744 pairs at 99 % confidence'), 'on how many pairs');
  for (const [mode, m] of Object.entries(figures.modes)) {
    const said = await label(page, mode);
    for (const side of ['candidate', 'baseline']) {
      const ns = m[side].median_ns;
      ok(said.includes(`${side} median ${ns >= 1e4 ? `${(ns / 1000).toFixed(1)} µs` : us(ns)}`), `${mode}: ${side} ${ns}`);
    }
    ok((await panel(page, 'How the times spread')).includes(`${m.ratio.toFixed(3)}×`), `${mode}: the ratio`);
  }
  ok((await label(page, 'Distribution')).includes('744 times of the candidate and 744 of the baseline'), 'all samples');
  ok((await label(page, 'Ratio of each of 744 pairs')).includes('median 1.136, interval 1.135 to 1.137'), 'pairs with their interval');
  ok((await panel(page, 'Pair by pair')).includes('It was in every single pair'), 'and what that means');
  ok((await panel(page, 'Clocks')).includes('same SM clock throughout: 1980 MHz'), 'clocks');
  const roof = await panel(page, 'Roofline');
  ok(roof.includes('data sheet: 4.80 TB/s') && roof.includes('measured on this card: 4.38 TB/s'), 'both ceilings');
  ok(roof.includes('3.5 times the least time possible (878 ns, limited by memory)'), 'and what they mean');
  is(await page.locator('section[aria-label="Roofline"] path.roof').count(), 2, 'two roofs');
  ok((await label(page, 'Phases')).includes('retest 8.59 s'), 'phases');
  ok((await panel(page, 'Verdict')).includes('results match a reference in double precision'), 'why it can be trusted');
  is(await page.locator('#main .checks .mark.good').count(), 11, 'eleven checks');
  ok(!(await text(page, '#main')).includes('has no clock'), 'nothing says that there was no clock');
}

async function certificatePage(page, base, { shape_hash: hash }, { certificate }) {
  await page.goto(`${base}#/kernels/${hash}`);
  await until(async () => (await text(page, '.stamp')) === '✓ signed', 'the signature of the service');
  await until(async () => (await page.locator('.plot canvas').count()) === 2, 'plots');
  const all = await text(page, '#main');
  for (const what of [
    'It takes 3.11 µs on NVIDIA H200, the baseline takes 3.53 µs: 1.14× (1.135 to 1.137), measured.',
    '9 kinds of input',
    '512 of 512 blocks',
    '3 occasions in fresh processes',
    'the pairs of all occasions together',
    `driver\n${certificate.device.driver}`,
    certificate.device.uuid,
    'baseline was timed against itself',
  ])
    ok(all.replaceAll('\t', '\n').includes(what), what);
  is(await page.locator('[aria-label="Baseline against itself"] tbody tr').count(), certificate.timing.control.length, 'the control');
  is(await page.locator('[aria-label="Rules on timers and the audit"] tbody tr').count(), 12, 'twelve rules');
  is((await text(page, '[aria-label="Rules on timers and the audit"]')).match(/✓ passed/g)?.length, 12, 'all passed');
  ok((await text(page, '[aria-label="The card before and after"]')).includes('35 °C'), 'the card');
  await page.getByRole('button', { name: 'Take them here' }).click();
  await until(async () => (await page.locator('[aria-label="Digests taken here"] tbody tr').count()) === 3, 'digests');
  ok((await text(page, '[aria-label="Digests taken here"]')).includes('source\t✓ as certified'), 'the recorded source is the one of this repository');
}

/** Many shapes: the grid, the list, and the sums on the overview. */
async function manyShapes(page, base, ask, jobs) {
  await page.goto(base);
  await live(page);
  const spent = (await ask('v1/spending')).days[0],
    tiles = () => text(page, '.tiles');
  ok(spent.gpu_seconds > 9 && spent.candidates >= 7, 'the service knows what was spent today');
  await until(async () => (await tiles()).includes(`${count(spent.gpu_seconds)}\nGPU time today`), 'and the overview shows it');
  ok(/\d\.\d\d×\ntypical speed-up\nmeasured/.test(await tiles()), 'what is served is typically so much faster');
  await page.goto(`${base}#/jobs/${jobs[0]}`);
  await until(async () => (await page.locator('table.grid td.heat').count()) >= 2, 'the grid of shapes');
  ok(/\d of \d shapes/.test(await text(page, '[aria-label="Best"]')), 'how many shapes won');
  is(await page.locator('table.grid .out', { hasText: ', measured' }).count(), await page.locator('table.grid td.heat').count(), 'all measured');
  await page.goto(`${base}#/devices`);
  await until(async () => (await text(page, '#main')).includes('4.17 TB/s'), 'the calibration of the certificate');
}
const count = (s) => (s >= 120 ? `${(s / 60).toFixed(s >= 600 ? 1 : 2)} min` : s >= 100 ? `${Math.round(s)} s` : `${s.toFixed(1)} s`);

finish(async () => {
  const s = await service(proteusd, staticDir, {}),
    recorded = judgement();
  ok(cells().cells.length >= 30, 'the recorded cells are there');
  const loaded = await loadJudgement(s.ask),
    jobs = await loadCells(s.ask, 3, 2);
  is(loaded.job.state, 'done', 'the judgement was taken');
  const chromiumBrowser = await browser(modules, chromium),
    context = await chromiumBrowser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' }),
    complaints = [],
    page = await watched(context, complaints);
  for (const [name, look] of [
    ['candidate', () => candidatePage(page, s.base, loaded, recorded)],
    ['certificate', () => certificatePage(page, s.base, loaded, recorded)],
    ['shapes', () => manyShapes(page, s.base, s.ask, jobs)],
  ]) {
    await look();
    is((await axe(page, modules)) ?? [], [], `axe: ${name}`);
    for (const width of [360, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      is(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), true, `${name} at ${width} px`);
    }
  }
  is(complaints, [], 'the browser has nothing to complain about');
  await chromiumBrowser.close();
  await s.stop();
}, 150);
