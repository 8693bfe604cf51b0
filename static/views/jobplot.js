// A job's search as a plot: time against candidate, the best so far as a line, failures below, each kind on a lane of its own with its own mark.
import { color, marks, Plot, letters } from '../lib/plot.js';
import { duration, KINDS, verdictKind } from '../lib/format.js';

const COLORS = { good: 'good', correct: 'correct', wrong: 'bad', unsafe: 'bad', build: 'warn', doubt: 'warn', none: 'muted' };

/** Columns of uPlot: number, best so far, time; and the kinds beside them. */
export function searchData(list, shape) {
  const xs = [],
    best = [],
    times = [],
    kinds = [],
    ids = [];
  let lowest = null,
    baseline = null;
  for (const c of list) {
    if (shape && c.shape_hash !== shape) continue;
    const t = c.time_ns > 0 ? c.time_ns / 1000 : null;
    if (c.baseline) {
      if (t && c.verdict === 'ok') baseline = t;
      continue;
    }
    if (c.verdict === 'ok' && t !== null && (lowest === null || t < lowest)) lowest = t;
    xs.push(c.number);
    best.push(lowest);
    times.push(t);
    kinds.push(verdictKind(c.verdict));
    ids.push(c.id);
  }
  const failed = new Set(kinds.filter((k, i) => times[i] === null));
  return { data: [xs, best, times], kinds, ids, baseline, lowest, failed };
}

const LANES = ['none', 'doubt', 'build', 'unsafe', 'wrong', 'correct', 'good']; // from below; those that are not there take no room
const LANE_PX = 9;
const SMALL = 800; // marks beyond that are a few pixels: each kind has proportions of its own, and no pixel is drawn twice
const DOTS = { good: [3, 3], correct: [2, 4], wrong: [1, 6], unsafe: [5, 2], build: [4, 4], doubt: [2, 2], none: [1, 1] };
let dotColors = {};
function dot(ctx, kind, x, y, ratio, taken) {
  const at = (Math.round(x) * 8192 + Math.round(y)) * 8 + kind.length;
  if (taken.has(at)) return;
  taken.add(at);
  const [w, h] = DOTS[kind];
  ctx.fillStyle = dotColors[kind];
  ctx.fillRect(Math.round(x - (w * ratio) / 2), Math.round(y - (h * ratio) / 2), w * ratio, h * ratio);
}

const counts = (kinds) =>
  kinds.reduce((n, k) => {
    n[k] = (n[k] ?? 0) + 1;
    return n;
  }, {});

export class SearchPlot {
  constructor(open) {
    this.now = { data: [[], [], []], kinds: [], ids: [], baseline: null, failed: new Set() };
    this.plot = new Plot({
      height: 280,
      label: 'The search',
      data: null,
      options: () => ({
        scales: {
          x: { time: false, range: (u, min, max) => [0, Math.max(max ?? 0, 12) + 1] },
          y: { range: (u, min, max) => this.range(min, max) },
        },
        axes: [
          { label: 'candidate, in order', labelSize: 18, labelFont: `${letters(11)}px system-ui` },
          { size: 62, values: (u, v) => v.map((t) => (t >= this.floor ? duration(t * 1000) : '')) },
        ],
        series: [
          {},
          { stroke: color('accent'), width: 2, paths: this.steps(), points: { show: false } },
          { stroke: 'transparent', paths: () => null, points: { show: false } },
        ],
        hooks: { draw: [(u) => this.draw(u)] },
      }),
    });
    this.node = this.plot.node;
    this.node.addEventListener('click', (e) => {
      const id = this.at(e);
      if (id) open(id);
    });
  }

  steps() {
    return (u, i) => this.plot.uPlot.paths.stepped({ align: 1 })(u, i, 0, this.now.data[0].length - 1);
  }

  range(min, max) {
    const low = Math.min(min ?? 1, this.now.baseline ?? Infinity),
      high = Math.max(max ?? low, this.now.baseline ?? 0);
    const cap = Math.max(this.now.baseline ?? 0, low) * 4; // one very slow candidate must not hide the others
    const top = Math.min(high, cap || high),
      pad = (top - low || low) * 0.15;
    // The lanes take their height from below, as far as it leaves the times most of the room.
    const share = Math.min(0.4, ((this.now.failed.size + 0.6) * LANE_PX) / Math.max(80, this.plot.height - 70)),
      room = ((top + pad - low) * share) / (1 - share);
    this.floor = Math.max(1e-9, room > pad ? low - pad / 2 : 0); // below it stand no times
    return [low - Math.max(pad, room), top + pad];
  }

  /** All marks, a path each kind: ten thousand of them in a few milliseconds. */
  draw(u) {
    const { data, kinds, baseline } = this.now,
      ctx = u.ctx,
      ratio = devicePixelRatio || 1,
      n = kinds.length;
    const r = (n > 3000 ? 1.6 : n > 600 ? 2.4 : 4) * ratio,
      { left, top, width, height } = u.bbox;
    const paths = {},
      small = n > SMALL;
    const min = u.scales.x.min,
      max = u.scales.x.max,
      y0 = u.scales.y.min,
      y1 = u.scales.y.max,
      used = LANES.filter((k) => this.now.failed.has(k)),
      lanes = Object.fromEntries(used.map((k, i) => [k, top + height - (i + 0.7) * LANE_PX * ratio]));
    dotColors = Object.fromEntries(Object.entries(COLORS).map(([k, name]) => [k, color(name)]));
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    const taken = new Set();
    for (let i = 0; i < n; i++) {
      const k = kinds[i],
        x = left + ((data[0][i] - min) / (max - min)) * width,
        t = data[2][i];
      const y = t === null ? lanes[k] : Math.max(top + r, top + (1 - (t - y0) / (y1 - y0)) * height);
      if (small) dot(ctx, k, x, y, ratio, taken);
      else marks[k]((paths[k] ??= new Path2D()), x, y, r);
    }
    if (baseline) {
      const y = top + (1 - (baseline - y0) / (y1 - y0)) * height;
      ctx.setLineDash([5 * ratio, 5 * ratio]);
      ctx.strokeStyle = color('muted');
      ctx.lineWidth = ratio;
      ctx.beginPath();
      ctx.moveTo(left, y);
      ctx.lineTo(left + width, y);
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.fillStyle = color('muted');
      ctx.font = `${letters(11) * ratio}px ui-monospace, monospace`;
      ctx.textAlign = 'right';
      ctx.fillText('baseline', left + width - 4 * ratio, y - 6 * ratio);
    }
    for (const k in paths) {
      const c = color(COLORS[k]);
      ctx.strokeStyle = c;
      ctx.fillStyle = c;
      ctx.lineWidth = 1.5 * ratio;
      if (k === 'wrong' || k === 'doubt' || k === 'none') ctx.stroke(paths[k]);
      else ctx.fill(paths[k]);
    }
    ctx.restore();
  }

  at(e) {
    const u = this.plot.plot;
    if (!u) return null;
    const x = u.posToVal(e.clientX - u.over.getBoundingClientRect().left, 'x');
    let near = null;
    this.now.data[0].forEach((v, i) => {
      if (near === null || Math.abs(v - x) < Math.abs(this.now.data[0][near] - x)) near = i;
    });
    return near === null ? null : this.now.ids[near];
  }

  set(list, shape) {
    this.now = searchData(list, shape);
    this.counts = counts(this.now.kinds);
    this.plot.set(this.now.data);
    const { baseline, lowest, kinds } = this.now;
    this.plot.label(
      `Time against candidate: ${kinds.length} candidates; best ${lowest ? duration(lowest * 1000) : 'none yet'}${baseline ? `, baseline ${duration(baseline * 1000)}` : ''}; ${Object.entries(
        this.counts,
      )
        .map(([k, v]) => `${v} ${KINDS[k].label}`)
        .join(', ')}. The table of candidates has every one.`,
    );
  }

  close() {
    this.plot.close();
  }
}
