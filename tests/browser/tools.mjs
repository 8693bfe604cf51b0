// What the browser tests share: a browser, checks that count, and waiting for what must come.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';

export const counted = { checks: 0 };
const patience = Number(process.env.BROWSER_PATIENCE) || 1; // of a machine that has much else to do: limits are so much longer
export const is = (got, want, what) => {
  counted.checks++;
  assert.deepEqual(got, want, what);
};
export const ok = (value, what) => {
  counted.checks++;
  assert.ok(value, what);
};
export const until = async (check, what, ms = 20000) => {
  const end = Date.now() + ms * patience;
  for (;;) {
    if (await check()) {
      counted.checks++;
      return;
    }
    if (Date.now() > end) assert.fail(`never: ${what}`);
    await new Promise((r) => setTimeout(r, 40));
  }
};

export async function browser(modules, executablePath) {
  const { chromium } = createRequire(path.join(modules, 'x.js'))('playwright-core');
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
}

/** A page that notes everything the browser complains of. */
export async function watched(context, complaints) {
  const page = await context.newPage();
  page.on('console', (m) => {
    if (m.type() === 'error' && !/Failed to load resource|net::ERR/.test(m.text())) complaints.push(m.text());
  });
  page.on('pageerror', (e) => complaints.push(String(e.stack ?? e)));
  page.on('dialog', (d) => {
    complaints.push(`dialog: ${d.message()}`);
    d.dismiss();
  });
  return page;
}

let source = null;
/** Serious and critical faults that axe-core finds, as lines; null where axe-core is not installed. Runs beside the page, not in its policy. */
export async function axe(page, modules, only) {
  const file = path.join(modules, 'axe-core', 'axe.min.js');
  if (!fs.existsSync(file)) return null;
  source ??= fs.readFileSync(file, 'utf8');
  if (!(await page.evaluate(() => Boolean(globalThis.axe)))) await page.evaluate(source);
  const found = await page.evaluate(
    (rules) => globalThis.axe.run(document, { resultTypes: ['violations'], ...(rules ? { runOnly: rules } : {}) }),
    only,
  );
  return found.violations
    .filter((v) => v.impact === 'serious' || v.impact === 'critical')
    .map(
      (v) =>
        `${v.id}: ${v.nodes
          .slice(0, 3)
          .map((n) => `${n.target.join(' ')} ${n.failureSummary ?? ''}`.replaceAll('\n', ' '))
          .join(' | ')}`,
    );
}

export const text = (page, selector) => page.locator(selector).first().innerText();
export const live = (page) => until(async () => (await text(page, '#connection')) === 'live', 'live');
/** The page has drawn what it fetched. */
export const settled = (page) =>
  until(
    () =>
      page.evaluate(
        () => document.querySelectorAll('#main *').length > 6 && !/Reading |Reading the/.test(document.querySelector('#main').innerText),
      ),
    'content',
  );

export function finish(main, seconds) {
  const limit = setTimeout(() => {
    console.error('timed out', counted.checks);
    process.exit(1);
  }, seconds * 1000 * patience);
  main()
    .then(
      () => {
        console.log(`${counted.checks} checks, 0 failed`);
        process.exit(0);
      },
      (e) => {
        console.error(e);
        process.exit(1);
      },
    )
    .finally(() => clearTimeout(limit));
}
