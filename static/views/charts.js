// Small charts as pictures with words: phases as a timeline, spreads as boxes, parts of a whole as bars. Each is drawn for the width that it
// has, so that its letters are of one size on a telephone and on a wall. Sizes are attributes of SVG; nothing is styled by an attribute.
import { el, svg } from '../lib/dom.js';
import { duration } from '../lib/format.js';

export const text = (x, y, words, attributes) => svg('text', { x, y, ...attributes }, words);
/** About how wide words are in the charts' letters. */
export const wide = (words) => String(words).length * 7;

/** Draws at once, and anew when the width has changed; draw(width) gives nodes for a width in units of the page's letters. */
export function sized(draw) {
  const node = el('div', { class: 'sized' });
  let at = 0;
  const paint = () => {
    const unit = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1,
      width = Math.max(240, Math.round((node.clientWidth || 900) / unit));
    if (Math.abs(width - at) < 6) return;
    at = width;
    node.replaceChildren(...[draw(width)].flat(4).filter(Boolean));
  };
  paint();
  new ResizeObserver(paint).observe(node);
  return node;
}

export const picture = (width, height, label, ...children) =>
  svg('svg', { class: 'chart', viewBox: `0 0 ${width} ${Math.round(height)}`, role: 'img', 'aria-label': label }, children);

// ---- phases
const MOST_PHASES = 60,
  ROW = 20;
const phaseName = (p) => (p.mode === 'retest' && p.phase !== 'retest' ? `again: ${p.phase}` : String(p.phase));

export function timeline(phases) {
  const list = phases.slice(0, MOST_PHASES).map((p) => ({ ...p, ms: Math.max(0, p.ms || 0), name: phaseName(p).slice(0, 18) }));
  const total = list.reduce((n, p) => n + p.ms, 0) || 1;
  const label = `Phases one after another, ${duration(total * 1e6)} in all: ${list
    .slice(0, 40)
    .map((p) => `${p.name} ${duration(p.ms * 1e6)}`)
    .join(', ')}`;
  return sized((w) => {
    const left = Math.min(w * 0.36, Math.max(...list.map((p) => wide(p.name)), 40) + 12),
      right = 78,
      scale = (w - left - right) / total;
    let at = 0,
      mode = list[0]?.mode;
    const rows = list.map((p, i) => {
      const x = left + at * scale,
        width = Math.max(2, p.ms * scale),
        y = 4 + i * ROW,
        good = !p.verdict || p.verdict === 'ok',
        again = p.mode === 'retest' || p.phase === 'retest';
      const split = p.mode !== mode ? svg('line', { class: 'axis', x1: 0, x2: w, y1: y - 1, y2: y - 1 }) : null;
      mode = p.mode;
      at += p.ms;
      const words = `${good ? '' : `✕ ${p.verdict} `}${duration(p.ms * 1e6)}`,
        after = x + width + 6;
      return [
        split,
        text(left - 8, y + 13, p.name, { 'text-anchor': 'end', class: 'strong' }),
        svg('rect', { class: good ? (again ? 'retest' : 'past') : 'bad', x, y: y + 3, width, height: ROW - 7, rx: 3 }),
        after + wide(words) > w ? text(x - 6, y + 13, words, { 'text-anchor': 'end' }) : text(after, y + 13, words),
      ];
    });
    return picture(w, 8 + list.length * ROW, label, rows);
  });
}

// ---- spreads
const has = (s) => s && s.median_ns > 0;
const q = (s, name) => s[`${name}_ns`] ?? s[name];
const ends = (s) => ({
  min: q(s, 'min') ?? q(s, 'q1') ?? s.median_ns,
  q1: q(s, 'q1') ?? s.median_ns,
  q3: q(s, 'q3') ?? s.median_ns,
  max: q(s, 'max') ?? q(s, 'p95') ?? q(s, 'q3') ?? s.median_ns,
});

function box(w, { name, timer, candidate, baseline }) {
  const sides = [
    ['candidate', candidate, 'a'],
    ['baseline', baseline, 'b'],
  ].filter(([, s]) => has(s));
  if (!sides.length) return null;
  const left = 84,
    right = 78,
    top = 26,
    low = Math.min(...sides.map(([, s]) => ends(s).min)),
    high = Math.max(...sides.map(([, s]) => ends(s).max));
  const x = (v) => left + ((v - low) / (high - low || 1)) * (w - left - right),
    bottom = top + sides.length * 24;
  return picture(
    w,
    bottom + 20,
    `${name}, by ${timer}: ${sides.map(([who, s]) => `${who} median ${duration(s.median_ns)}, middle half ${duration(ends(s).q1)} to ${duration(ends(s).q3)}`).join('; ')}`,
    text(0, 15, name, { class: 'strong' }),
    text(wide(name) + 14, 15, String(timer ?? '')),
    svg('line', { class: 'axis', x1: left, x2: w - right, y1: bottom + 4, y2: bottom + 4 }),
    text(left, bottom + 17, duration(low)),
    text(w - right, bottom + 17, duration(high), { 'text-anchor': 'end' }),
    sides.map(([who, s, cls], i) => {
      const y = top + i * 24,
        mid = y + 9,
        { min, q1, q3, max } = ends(s);
      return [
        text(left - 8, mid + 4, who, { 'text-anchor': 'end' }),
        svg('line', { class: cls, x1: x(min), x2: x(max), y1: mid, y2: mid }),
        svg('rect', { class: `box-${cls}`, x: x(q1), y, width: Math.max(1, x(q3) - x(q1)), height: 18, rx: 2 }),
        svg('line', { class: cls, x1: x(s.median_ns), x2: x(s.median_ns), y1: y, y2: y + 18, 'stroke-width': 3 }),
        text(w - right + 8, mid + 4, duration(s.median_ns), { class: 'strong' }),
      ];
    }),
  );
}

/** Boxes of quartiles: [{name, timer, candidate, baseline}], each mode in a scale of its own. */
export const boxes = (modes) => sized((w) => modes.map((m) => box(w, m)));

// ---- parts of a whole
/** Bars of one measure: [{name, value, text, cls?}] */
export function bars(rows, label) {
  const most = Math.max(...rows.map((r) => r.value), 1e-9);
  return sized((w) => {
    const left = Math.min(w * 0.45, Math.max(...rows.map((r) => wide(r.name)), 40) + 12),
      right = Math.max(...rows.map((r) => wide(r.text)), 40) + 10,
      fits = Math.floor((left - 10) / 7);
    return picture(
      w,
      rows.length * 21 + 4,
      `${label}: ${rows.map((r) => `${r.name} ${r.text}`).join(', ')}`,
      rows.map((r, i) => {
        const width = Math.max(1, (r.value / most) * (w - left - right)),
          y = i * 21;
        return [
          text(left - 8, y + 15, r.name.length > fits ? `${r.name.slice(0, fits - 1)}…` : r.name, { 'text-anchor': 'end', class: 'strong' }),
          svg('rect', { class: r.cls ?? 'past', x: left, y: y + 4, width, height: 13, rx: 2 }),
          text(left + width + 6, y + 15, r.text),
        ];
      }),
    );
  });
}
