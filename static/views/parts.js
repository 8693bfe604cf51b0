// Small pieces that several views use.
import { el, svg } from '../lib/dom.js';
import { evidenceWord, intervalText, isMeasured, speedup, speedupText, duration, verdictKind } from '../lib/format.js';

export const evidenceBadge = (doc) =>
  (doc?.evidence ? el('span', { class: `evidence ${isMeasured(doc) ? 'measured' : 'estimate'}`,
    title: isMeasured(doc) ? 'Measured on a card' : 'Estimated by the emulator; no measurement' }, evidenceWord(doc)) : null);

export const verdictBadge = (code) => el('span', { class: `verdict ${verdictKind(code)}` }, code ?? 'waiting');
export const stateBadge = (state) => el('span', { class: 'state', dataset: { state: String(state) } }, state);

export const chips = (axes) => el('span', { class: 'chips' },
  Object.entries(axes ?? {}).slice(0, 24).map(([k, v]) => el('span', { class: 'chip' }, el('b', null, k), String(v))));

export function progressBar(part, label) {
  const bar = el('progress', { max: 1, value: part, 'aria-label': label });
  return bar;
}

/** Speed-up in large, interval and time in small, evidence beside it. */
export function bestCard(title, best, extra) {
  const s = speedup(best);
  return el('div', { class: 'best' },
    el('div', { class: 'best-title' }, title),
    el('div', { class: 'best-figure' }, speedupText(s), ' ', evidenceBadge(best)),
    el('div', { class: 'muted' }, [intervalText(s) && `interval ${intervalText(s)}`, best?.time_ns > 0 && `${isMeasured(best) ? '' : '≈ '}${duration(best.time_ns)}`,
      best?.is_baseline && 'the baseline'].filter(Boolean).join(' · ') || 'nothing verified yet'),
    extra);
}

/** Candidates in order of proposal against their speed-up; the line is the best so far. */
export function plot(candidates) {
  const shown = candidates.filter((c) => c.verdict && !c.baseline).slice(-400);
  const points = shown.map((c, i) => ({ c, i, y: speedup(c)?.median ?? 0 }));
  const [w, h, left, bottom] = [720, 200, 40, 22];
  const top = Math.max(1.2, ...points.map((p) => p.y)) * 1.08;
  const x = (i) => left + ((i + 0.5) / Math.max(shown.length, 12)) * (w - left - 8);
  const y = (v) => 8 + (1 - v / top) * (h - bottom - 8);
  const step = top > 8 ? 4 : top > 4 ? 2 : top > 2 ? 1 : 0.5;
  const grid = [];
  for (let v = 0; v <= top; v += step) {
    grid.push(svg('line', { class: v === 1 ? 'grid one' : 'grid', x1: left, x2: w, y1: y(v), y2: y(v) }),
      svg('text', { class: 'axis', x: left - 6, y: y(v) + 4, 'text-anchor': 'end' }, `${v}×`));
  }
  let best = 0;
  const path = [];
  for (const p of points) {
    if (verdictKind(p.c.verdict) === 'good' && p.y > best) { path.push(`${path.length ? 'L' : 'M'}${x(p.i)} ${y(best || p.y)}`, `L${x(p.i)} ${y(p.y)}`); best = p.y; }
  }
  if (best) path.push(`L${x(Math.max(shown.length - 1, 0)) + 6} ${y(best)}`);
  return svg('svg', { class: 'plot', viewBox: `0 0 ${w} ${h}`, role: 'img',
    'aria-label': `${shown.length} judged candidates; best speed-up ${best ? best.toFixed(2) : 'none'}. The table below has them all.` },
    grid, svg('line', { class: 'grid one', x1: left, x2: w, y1: y(1), y2: y(1) }),
    svg('path', { class: 'best-line', d: path.join(' ') }),
    points.map((p) => svg('circle', { class: `dot ${verdictKind(p.c.verdict)}`, cx: x(p.i), cy: y(p.y), r: shown.length > 120 ? 3 : 5 },
      svg('title', null, `#${p.i + 1} ${p.c.verdict}${p.y ? ` ${p.y.toFixed(2)}×` : ''}`))),
    svg('text', { class: 'axis', x: w - 4, y: h - 6, 'text-anchor': 'end' }, 'candidates, in order of proposal'));
}

export const empty = (title, text, code) => el('div', { class: 'empty' }, el('h3', null, title), el('p', null, text), code && el('pre', null, code));
