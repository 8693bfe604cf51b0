// Small charts as pictures with words: phases as a timeline, spreads as boxes, the roofline. Sizes are attributes of SVG; nothing is styled
// by an attribute.
import { el, svg } from '../lib/dom.js';
import { bytes, duration, number } from '../lib/format.js';

const text = (x, y, words, attributes) => svg('text', { x, y, ...attributes }, words);

// ---- phases
export function timeline(phases) {
  const total = phases.reduce((n, p) => n + Math.max(0, p.ms || 0), 0) || 1,
    w = 900,
    left = 130,
    right = 170,
    row = 19;
  let at = 0,
    mode = '';
  const rows = [];
  phases.slice(0, 60).forEach((p, i) => {
    const ms = Math.max(0, p.ms || 0),
      x = left + (at / total) * (w - left - right),
      width = Math.max(2, (ms / total) * (w - left - right)),
      y = 6 + i * row;
    const ok = !p.verdict || p.verdict === 'ok';
    if (p.mode !== mode && i) rows.push(svg('line', { class: 'axis', x1: 0, x2: w, y1: y - 2, y2: y - 2 }));
    mode = p.mode;
    rows.push(
      text(left - 8, y + 12, `${p.mode === 'retest' ? 'retest ' : ''}${String(p.phase).slice(0, 14)}`, {
        'text-anchor': 'end',
        class: 'strong',
      }),
      svg('rect', { class: ok ? (p.mode === 'retest' ? 'retest' : 'past') : 'bad', x, y: y + 2, width, height: row - 6, rx: 3 }),
      text(x + width + 6, y + 12, `${ok ? '' : `✕ ${p.verdict} `}${duration(ms * 1e6)}`),
    );
    at += ms;
  });
  const h = 10 + Math.min(60, phases.length) * row;
  return svg(
    'svg',
    {
      class: 'chart',
      viewBox: `0 0 ${w} ${h}`,
      role: 'img',
      'aria-label': `Phases one after another, ${duration(total * 1e6)} in all: ${phases
        .slice(0, 40)
        .map((p) => `${p.mode === 'retest' ? 'retest ' : ''}${p.phase} ${duration((p.ms || 0) * 1e6)}`)
        .join(', ')}`,
    },
    rows,
  );
}

// ---- spreads
const has = (s) => s && s.median_ns > 0;
const q = (s, name) => s[`${name}_ns`] ?? s[name];

/** Boxes of quartiles: [{name, candidate, baseline}] in one scale each. */
export function boxes(modes) {
  const w = 900,
    left = 170,
    right = 150,
    each = 58;
  return modes.map(({ name, timer, candidate, baseline }) => {
    const sides = [
      ['candidate', candidate, 'a'],
      ['baseline', baseline, 'b'],
    ].filter(([, s]) => has(s));
    if (!sides.length) return null;
    const low = Math.min(...sides.map(([, s]) => q(s, 'min') ?? q(s, 'q1') ?? s.median_ns)),
      high = Math.max(...sides.map(([, s]) => q(s, 'max') ?? q(s, 'p95') ?? q(s, 'q3') ?? s.median_ns));
    const x = (v) => left + ((v - low) / (high - low || 1)) * (w - left - right);
    return svg(
      'svg',
      {
        class: 'chart',
        viewBox: `0 0 ${w} ${each}`,
        role: 'img',
        'aria-label': `${name}, by ${timer}: ${sides.map(([who, s]) => `${who} median ${duration(s.median_ns)}`).join(', ')}`,
      },
      text(0, 16, name, { class: 'strong' }),
      text(0, 32, String(timer ?? '')),
      sides.map(([who, s, cls], i) => {
        const y = 6 + i * 24,
          mid = y + 9,
          q1 = q(s, 'q1') ?? s.median_ns,
          q3 = q(s, 'q3') ?? s.median_ns,
          min = q(s, 'min') ?? q1,
          max = q(s, 'max') ?? q(s, 'p95') ?? q3;
        return [
          svg('line', { class: cls, x1: x(min), x2: x(max), y1: mid, y2: mid }),
          svg('rect', { class: `box-${cls}`, x: x(q1), y, width: Math.max(1, x(q3) - x(q1)), height: 18, rx: 2 }),
          svg('line', { class: cls, x1: x(s.median_ns), x2: x(s.median_ns), y1: y, y2: y + 18, 'stroke-width': 3 }),
          text(w - right + 8, mid + 4, `${who} ${duration(s.median_ns)}`, { class: 'strong' }),
        ];
      }),
    );
  });
}

// ---- roofline
/** points: [{name, ns, cls}], roofline: the judge's record. Log scales; x flop a byte, y flop a second. */
export function roofline(r, points) {
  if (!(r?.bytes > 0) || !(r.memory_ns > 0)) return null;
  const flops = Math.max(r.flops || 0, r.bytes * 1e-4),
    intensity = flops / r.bytes,
    sheet = r.bytes / r.memory_ns,
    peak = r.compute_ns > 0 ? flops / r.compute_ns : sheet * 100;
  const measured = r.ceiling?.bytes_per_ns ?? 0;
  const xs = [Math.min(intensity, peak / sheet) / 20, Math.max(intensity, peak / sheet) * 8],
    rates = points.filter((p) => p.ns > 0).map((p) => flops / p.ns);
  const ys = [Math.min(...rates, peak, sheet * intensity) / 4, peak * 2.5];
  const w = 900,
    h = 320,
    left = 84,
    bottom = 40,
    log = Math.log10;
  const X = (v) => left + ((log(v) - log(xs[0])) / (log(xs[1]) - log(xs[0]))) * (w - left - 20),
    Y = (v) => 12 + (1 - (log(v) - log(ys[0])) / (log(ys[1]) - log(ys[0]))) * (h - bottom - 12);
  const roof = (slope) => {
    const knee = peak / slope;
    return `M${X(xs[0])} ${Y(Math.max(ys[0], slope * xs[0]))}L${X(knee)} ${Y(peak)}L${X(xs[1])} ${Y(peak)}`;
  };
  const ticks = (from, to) => {
    const list = [];
    for (let e = Math.ceil(log(from)); e <= log(to); e++) list.push(10 ** e);
    return list;
  };
  const flopText = (v) => (v >= 1e3 ? `${number(v / 1e3)} TF/s` : v >= 1 ? `${number(v)} GF/s` : `${number(v * 1e3)} MF/s`);
  const clip = `M${left} 12H${w - 20}V${h - bottom}H${left}Z`;
  return [
    svg(
      'svg',
      {
        class: 'chart',
        viewBox: `0 0 ${w} ${h}`,
        role: 'img',
        'aria-label': `Roofline: ${bytes(r.bytes)} and ${number(r.flops)} operations, limited by ${r.limit}; data sheet ${number(sheet)} bytes a ns${
          measured ? `, measured ${number(measured)}` : ''
        }; ${points.map((p) => `${p.name} ${duration(p.ns)}`).join(', ')}`,
      },
      ticks(...xs).map((v) => [
        svg('line', { class: 'axis', x1: X(v), x2: X(v), y1: 12, y2: h - bottom }),
        text(X(v), h - bottom + 15, String(v >= 0.001 ? v : v.toExponential(0)), { 'text-anchor': 'middle' }),
      ]),
      ticks(...ys).map((v) => [
        svg('line', { class: 'axis', x1: left, x2: w - 20, y1: Y(v), y2: Y(v) }),
        text(left - 6, Y(v) + 4, flopText(v), { 'text-anchor': 'end' }),
      ]),
      text((w + left) / 2, h - 6, 'operations a byte', { 'text-anchor': 'middle' }),
      svg('path', { d: clip, fill: 'none' }),
      svg('path', { class: 'roof sheet', d: roof(sheet) }),
      measured ? svg('path', { class: 'roof', d: roof(measured) }) : null,
      points
        .filter((p) => p.ns > 0)
        .map((p, i) => [
          p.cls === 'a'
            ? svg('circle', { class: 'a', cx: X(intensity), cy: Y(flops / p.ns), r: 6 })
            : svg('rect', { class: 'b', x: X(intensity) - 5, y: Y(flops / p.ns) - 5, width: 10, height: 10 }),
          text(X(intensity) + 12, Y(flops / p.ns) + (i ? 14 : 0), `${p.name} ${duration(p.ns)}`, { class: 'strong' }),
        ]),
    ),
    el(
      'ul',
      { class: 'legend' },
      el('li', null, `- - data sheet: ${number(sheet)} bytes a ns${r.compute_ns > 0 ? `, ${flopText(peak)}` : ''}`),
      measured
        ? el('li', { class: 'key good' }, el('i', { 'aria-hidden': 'true' }, '━'), ` measured on this card: ${number(measured)} bytes a ns`)
        : el('li', null, 'nothing was measured: no line of the card itself'),
      el('li', null, '● candidate'),
      el('li', null, '■ baseline'),
    ),
  ];
}

// ---- parts of a whole
/** Bars of one measure: [{name, value, text}] */
export function bars(rows, label) {
  const most = Math.max(...rows.map((r) => r.value), 1e-9),
    w = 900,
    left = 190,
    row = 20;
  return svg(
    'svg',
    {
      class: 'chart',
      viewBox: `0 0 ${w} ${rows.length * row + 4}`,
      role: 'img',
      'aria-label': `${label}: ${rows.map((r) => `${r.name} ${r.text}`).join(', ')}`,
    },
    rows.map((r, i) => [
      text(left - 8, i * row + 14, r.name, { 'text-anchor': 'end', class: 'strong' }),
      svg('rect', {
        class: r.cls ?? 'past',
        x: left,
        y: i * row + 4,
        width: Math.max(1, (r.value / most) * (w - left - 110)),
        height: row - 8,
        rx: 2,
      }),
      text(left + Math.max(1, (r.value / most) * (w - left - 110)) + 6, i * row + 14, r.text),
    ]),
  );
}
