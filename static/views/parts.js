// Small pieces that several pages use.
import { el, svg } from '../lib/dom.js';
import { evidenceWord, intervalText, isMeasured, KINDS, speedup, speedupText, timeText, verdictKind } from '../lib/format.js';

export const evidenceBadge = (doc) =>
  doc?.evidence
    ? el(
        'span',
        {
          class: `evidence ${isMeasured(doc) ? 'measured' : 'estimate'}`,
          title: isMeasured(doc) ? 'Measured on a card' : 'Estimated by the emulator; no measurement',
        },
        evidenceWord(doc),
      )
    : null;

export const verdictBadge = (code, running) => {
  const kind = verdictKind(code);
  return el(
    'span',
    { class: `verdict ${code ? kind : 'running'}` },
    el('i', { 'aria-hidden': 'true' }, KINDS[kind].mark),
    ' ',
    code ?? running ?? 'waiting',
  );
};
export const stateBadge = (state) => el('span', { class: 'state', dataset: { state: String(state) } }, state);

export const chips = (axes) =>
  el(
    'span',
    { class: 'chips' },
    Object.entries(axes ?? {})
      .slice(0, 24)
      .map(([k, v]) => el('span', { class: 'chip' }, el('b', null, k), String(v))),
  );

export const progressBar = (share, label) => el('progress', { max: 1, value: share, 'aria-label': label });

export const link = (href, text, attributes) => el('a', { href, dataset: { key: href }, ...attributes }, text);
export const jobHref = (id) => `#/jobs/${encodeURIComponent(id)}`;
export const candidateHref = (id) => `#/candidates/${encodeURIComponent(id)}`;
export const kernelHref = (hash) => `#/kernels/${encodeURIComponent(hash)}`;

export const button = (label, run, attributes) =>
  el('button', { type: 'button', class: 'ghost small', dataset: { key: label }, ...attributes, on: { click: run } }, label);

/** Names and values beside each other; what has none is left out. */
export const facts = (rows) =>
  el(
    'dl',
    null,
    rows
      .filter(([, v]) => v !== null && v !== undefined && v !== '' && v !== false)
      .map(([k, v]) => [el('dt', null, k), el('dd', null, v)]),
  );

export const panel = (title, attributes, ...children) =>
  el('section', { class: 'panel', 'aria-label': title, ...attributes }, el('h2', null, title), children);

/** A table that scrolls in its own box. */
export function table(label, heads, rows, attributes) {
  const cell = (c, i) => (c?.nodeType === 1 && c.tagName === 'TD' ? c : el('td', { class: heads[i]?.num ? 'num' : heads[i]?.cls }, c));
  return el(
    'div',
    { class: 'table-box', tabindex: 0, role: 'region', 'aria-label': label, dataset: { scroll: label }, ...attributes },
    el(
      'table',
      null,
      el(
        'thead',
        null,
        el(
          'tr',
          null,
          heads.map((h) => el('th', { scope: 'col', class: h.num ? 'num' : null }, h.title ?? h)),
        ),
      ),
      el(
        'tbody',
        null,
        rows.map((r) => (r?.nodeType ? r : el('tr', null, r.map(cell)))),
      ),
    ),
  );
}

/** Speed-up in large, interval and time in small, evidence beside it. */
export function bestFigure(best, over) {
  const s = speedup(best);
  return [
    el('div', { class: 'best-figure' }, speedupText(best), ' ', evidenceBadge(best)),
    el(
      'div',
      { class: 'muted' },
      [over, intervalText(s) && `interval ${intervalText(s)}`, best?.time_ns > 0 && timeText(best), best?.is_baseline && 'the baseline']
        .filter(Boolean)
        .join(' · ') || 'nothing verified yet',
    ),
  ];
}

/** How a figure moved, in the size of a word. */
export function sparkline(values, label) {
  if (values.length < 2) return null;
  const low = Math.min(...values),
    high = Math.max(...values),
    w = 96,
    h = 22;
  const x = (i) => 2 + (i / (values.length - 1)) * (w - 4),
    y = (v) => h - 3 - ((v - low) / (high - low || 1)) * (h - 6);
  let d = `M${x(0)} ${y(values[0])}`;
  for (let i = 1; i < values.length; i++) d += `H${x(i)}V${y(values[i])}`;
  return svg(
    'svg',
    { class: 'spark', viewBox: `0 0 ${w} ${h}`, role: 'img', 'aria-label': label },
    svg('path', { d }),
    svg('circle', { cx: x(values.length - 1), cy: y(values.at(-1)), r: 2.5 }),
  );
}

export const empty = (title, text, code) =>
  el(
    'div',
    { class: 'empty' },
    el('h3', null, title),
    el('p', null, text),
    code && el('pre', { tabindex: 0, 'aria-label': 'Example' }, code),
  );
/** What went wrong, in the service's words. Where it could not be reached at all, the page is read again when it is back (app.js). */
export const failure = (problem) =>
  problem instanceof TypeError
    ? el('p', { class: 'warn', role: 'alert', 'data-again': '' }, `The service cannot be reached. This page is read again as soon as it is back. (${problem.message})`)
    : el('p', { class: 'error', role: 'alert' }, String(problem?.message ?? problem));
export const waiting = (what) => el('p', { class: 'muted' }, `Reading ${what}…`);

/** A part of a page made of a record that may be of a form which nobody foresaw: the others are shown all the same. */
export function safely(make) {
  try {
    return make();
  } catch (e) {
    console.warn(e);
    return el('p', { class: 'warn' }, 'A part of this record is not of the known form and is left out here.');
  }
}

/** Key: marks and words of the verdicts' kinds, with counts. */
export const legend = (counts) =>
  el(
    'ul',
    { class: 'legend' },
    Object.entries(KINDS)
      .filter(([k]) => !counts || counts[k])
      .map(([k, { mark, label }]) =>
        el(
          'li',
          { class: `key ${k}` },
          el('i', { 'aria-hidden': 'true' }, mark),
          ` ${label}`,
          counts ? el('b', null, ` ${counts[k]}`) : null,
        ),
      ),
  );

export const downloads = (text, name) =>
  button(
    'Copy',
    async (e) => {
      const b = e.currentTarget;
      try {
        await navigator.clipboard.writeText(text);
        b.textContent = 'Copied';
      } catch {
        b.textContent = 'Select and copy by hand';
      }
      setTimeout(() => {
        b.textContent = 'Copy';
      }, 2000);
    },
    { 'aria-label': `Copy ${name}` },
  );

export const command = (text) =>
  el('div', { class: 'command' }, el('pre', { tabindex: 0, 'aria-label': 'Command' }, text), downloads(text, 'the command'));
