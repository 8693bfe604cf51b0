// The roofline: what the device could do at most, by its data sheet and as it was measured, and where the candidate and the baseline stand.
// Beside it the same in time, since twice as fast is a small step on a logarithmic scale.
import { el, svg } from '../lib/dom.js';
import { byteRate, bytes, duration, flopRate, number, percent } from '../lib/format.js';
import { bars, picture, sized, text } from './charts.js';
import { facts, panel } from './parts.js';

const log = Math.log10;
const powers = (from, to) => {
  const list = [];
  for (let e = Math.ceil(log(from)); e <= log(to); e++) list.push(10 ** e);
  return list;
};

function plot(r, points) {
  const flops = Math.max(r.flops || 0, r.bytes * 1e-4),
    intensity = flops / r.bytes,
    sheet = r.bytes / r.memory_ns,
    peak = r.compute_ns > 0 ? flops / r.compute_ns : sheet * 100,
    own = r.ceiling?.bytes_per_ns ?? 0,
    shown = points.filter((p) => p.ns > 0);
  const xs = [Math.min(intensity, peak / sheet) / 6, Math.max(intensity, peak / sheet) * 6],
    ys = [Math.min(...shown.map((p) => flops / p.ns), sheet * intensity) / 4, peak * 2.5];
  const label = `Roofline: ${bytes(r.bytes)} and ${number(r.flops)} operations, limited by ${r.limit}; data sheet ${byteRate(sheet)}${
    own ? `, measured ${byteRate(own)}` : ', nothing measured'
  }; ${points.map((p) => `${p.name} ${duration(p.ns)}`).join(', ')}`;
  const draw = (w) => {
    const h = Math.min(340, Math.max(220, w * 0.4)),
      left = 92,
      right = 12,
      bottom = 40;
    const X = (v) => left + ((log(v) - log(xs[0])) / (log(xs[1]) - log(xs[0]))) * (w - left - right),
      Y = (v) => 12 + (1 - (log(v) - log(ys[0])) / (log(ys[1]) - log(ys[0]))) * (h - bottom - 12);
    const roof = (slope) => {
      const start = Math.max(xs[0], ys[0] / slope);
      return `M${X(start)} ${Y(slope * start)}L${X(peak / slope)} ${Y(peak)}L${X(xs[1])} ${Y(peak)}`;
    };
    return picture(
      w,
      h,
      label,
      powers(...xs).map((v) => [
        svg('line', { class: 'axis', x1: X(v), x2: X(v), y1: 12, y2: h - bottom }),
        text(X(v), h - bottom + 15, String(v >= 0.001 ? v : v.toExponential(0)), { 'text-anchor': 'middle' }),
      ]),
      powers(...ys).map((v) => [
        svg('line', { class: 'axis', x1: left, x2: w - right, y1: Y(v), y2: Y(v) }),
        text(left - 6, Y(v) + 4, flopRate(v), { 'text-anchor': 'end' }),
      ]),
      text((w + left) / 2, h - 6, 'operations a byte', { 'text-anchor': 'middle' }),
      svg('path', { class: 'roof sheet', d: roof(sheet) }),
      own ? svg('path', { class: 'roof', d: roof(own) }) : null,
      svg('line', { class: 'drop', x1: X(intensity), x2: X(intensity), y1: Y(sheet * intensity), y2: h - bottom }),
      shown.map((p, i) => [
        p.cls === 'a'
          ? svg('circle', { class: 'a', cx: X(intensity), cy: Y(flops / p.ns), r: 5 })
          : svg('rect', { class: 'b', x: X(intensity) - 5, y: Y(flops / p.ns) - 5, width: 10, height: 10 }),
        text(X(intensity) + 12, Y(flops / p.ns) + (i ? 15 : -2), `${p.cls === 'a' ? '●' : '■'} ${p.name} ${duration(p.ns)}`, { class: 'strong' }),
      ]),
    );
  };
  return [
    sized(draw),
    el(
      'ul',
      { class: 'legend' },
      el('li', null, `┄ data sheet: ${byteRate(sheet)}${r.compute_ns > 0 ? `, ${flopRate(peak)}` : ''}`),
      own
        ? el('li', { class: 'key good' }, el('i', { 'aria-hidden': 'true' }, '━'), ` measured on this card: ${byteRate(own)}`)
        : el('li', null, 'no line of a card: nothing was measured'),
    ),
  ];
}

/** In time: the least that its bytes and operations need, and what the two take. */
function inTime(r, points) {
  const rows = [
    { name: 'least: data sheet', value: r.floor_ns, cls: 'floor' },
    r.ceiling?.memory_ns > 0 && { name: 'least: this card', value: r.ceiling.memory_ns, cls: 'retest' },
    ...points.map((p) => ({ name: p.name, value: p.ns, cls: p.cls === 'a' ? 'past' : 'plain' })),
  ].filter((x) => x && x.value > 0);
  return bars(
    rows.map((x) => ({ ...x, text: duration(x.value) })),
    'Time against what is possible',
  );
}

/** figures: with a roofline; measured: the times are measurements. */
export function rooflinePanel(figures, measured) {
  const r = figures.roofline;
  if (!(r?.bytes > 0) || !(r.memory_ns > 0)) return null;
  const mark = measured ? '' : ' ≈',
    points = [
      { name: `candidate${mark}`, ns: figures.time_ns, cls: 'a' },
      { name: `baseline${mark}`, ns: figures.baseline_ns, cls: 'b' },
    ],
    times = r.floor_ns > 0 && figures.time_ns > 0 ? figures.time_ns / r.floor_ns : 0;
  return panel(
    'Roofline',
    null,
    times
      ? el(
          'p',
          null,
          `It moves ${bytes(r.bytes)} and ${measured ? 'takes' : 'would take, by the estimate,'} ${number(Math.round(times * 10) / 10)} times the least time possible (${duration(r.floor_ns)}, limited by ${r.limit}).`,
        )
      : null,
    inTime(r, points),
    plot(r, points),
    facts([
      ['of the data sheet’s limit', percent(r.fraction)],
      ['of this card’s own limit', Number.isFinite(r.ceiling?.fraction) ? percent(r.ceiling.fraction) : measured ? null : 'not measured: there was no card'],
      ['notes', r.notes?.length ? r.notes.join('; ') : null],
    ]),
  );
}
