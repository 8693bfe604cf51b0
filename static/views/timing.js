// The times of a candidate: how they spread on both sides, pair by pair, at which clocks, and what the emulator's estimate is made of.
import { el } from '../lib/dom.js';
import { color, Plot } from '../lib/plot.js';
import { bytes, count, duration, intervalText, isMeasured, number, percent } from '../lib/format.js';
import { bars, boxes } from './charts.js';
import { facts, panel, table } from './parts.js';
import { rooflinePanel } from './roofline.js';

const MODES = [
  ['graph-rotated', 'events around graphs of many launches'],
  ['cold-isolated', 'trace records of single launches, caches flushed'],
  ['eager', 'wall clock around launches from the host'],
];
const BINS = 48;

/** From the least to the 99.5th percentile: the few that are slower would leave no room for the others, and stand in the last column. */
export function histogramRange({ candidate = [], baseline = [] }) {
  const sorted = [...candidate, ...baseline].filter((v) => v > 0).sort((a, b) => a - b),
    high = sorted[Math.floor(sorted.length * 0.995)];
  return sorted.length < 4 ? null : { low: sorted[0], high, largest: sorted.at(-1), beyond: sorted.filter((v) => v > high).length };
}
export const tailText = (r) =>
  r?.beyond ? `${r.beyond} of them ${r.beyond === 1 ? 'is' : 'are'} slower than ${duration(r.high)}, up to ${duration(r.largest)}: the last column holds ${r.beyond === 1 ? 'it' : 'them'} too.` : '';

function histogram(samples, close) {
  const { candidate = [], baseline = [] } = samples,
    range = histogramRange(samples);
  if (!range) return null;
  const { low, high, largest } = range;
  const bin = (list) => {
    const n = new Array(BINS).fill(0);
    for (const v of list) n[Math.min(BINS - 1, Math.max(0, Math.floor(((v - low) / (high - low || 1)) * BINS)))]++;
    return n;
  };
  const xs = Array.from({ length: BINS }, (_, i) => (low + ((i + 0.5) / BINS) * (high - low)) / 1000);
  const plot = new Plot({
    height: 200,
    label: `Distribution of ${candidate.length} times of the candidate and ${baseline.length} of the baseline, ${duration(low)} to ${duration(largest)}${range.beyond ? `; ${tailText(range)}` : ''}`,
    data: [xs, bin(candidate), bin(baseline)],
    options: () => ({
      scales: { x: { time: false } },
      axes: [{ values: (u, v) => v.map((t) => duration(t * 1000)), space: 80 }, { size: 48 }],
      series: [
        {},
        {
          stroke: color('accent'),
          width: 2,
          fill: color('accent-soft'),
          points: { show: false },
          paths: (u, i) => plot.uPlot.paths.stepped({ align: 0 })(u, i, 0, BINS - 1),
        },
        {
          stroke: color('muted'),
          width: 2,
          dash: [5, 4],
          points: { show: false },
          paths: (u, i) => plot.uPlot.paths.stepped({ align: 0 })(u, i, 0, BINS - 1),
        },
      ],
    }),
  });
  close.push(plot);
  return plot.node;
}

const ratiosOf = ({ candidate = [], baseline = [] }) =>
  Array.from({ length: Math.min(candidate.length, baseline.length) }, (_, i) => baseline[i] / candidate[i]);

function ratios(samples, speedup, close) {
  const ys = ratiosOf(samples),
    n = ys.length;
  if (n < 4) return null;
  const xs = ys.map((_, i) => i + 1);
  const plot = new Plot({
    height: 220,
    label: `Ratio of each of ${n} pairs, baseline over candidate, ${number(Math.min(...ys))} to ${number(Math.max(...ys))}; median ${number(speedup?.median)}, interval ${number(speedup?.low)} to ${number(speedup?.high)}`,
    data: [xs, ys],
    options: () => ({
      scales: { x: { time: false } },
      axes: [
        { label: 'pair, in the order in which they were taken', labelSize: 16 },
        { size: 56, values: (u, v) => v.map((t) => `${t.toFixed(2)}×`) },
      ],
      series: [
        {},
        { stroke: 'transparent', paths: () => null, points: { show: true, size: 4, stroke: color('accent'), fill: color('accent') } },
      ],
      hooks: {
        draw: [
          (u) => {
            const c = u.ctx,
              { left, width } = u.bbox;
            c.save();
            const y = (v) => u.valToPos(v, 'y', true);
            if (speedup?.high > speedup?.low) {
              c.globalAlpha = 0.25;
              c.fillStyle = color('good');
              c.fillRect(left, y(speedup.high), width, Math.max(2, y(speedup.low) - y(speedup.high)));
              c.globalAlpha = 1;
            }
            for (const [v, name] of [
              [speedup?.median, 'good'],
              [1, 'muted'],
            ]) {
              if (!(v > 0)) continue;
              c.strokeStyle = color(name);
              c.beginPath();
              c.moveTo(left, y(v));
              c.lineTo(left + width, y(v));
              c.stroke();
            }
            c.restore();
          },
        ],
      },
    }),
  });
  close.push(plot);
  return plot.node;
}

const QUARTERS = ['min', 'q1', 'median', 'q3'];

/** The card before and after the timed blocks; a certificate has it. */
function cardState(card) {
  const { before, after } = card ?? {};
  if (!before || !after) return null;
  const row = (name, key, say) =>
    Number.isFinite(before[key]) || Number.isFinite(after[key]) ? [name, say(before[key]), say(after[key])] : null;
  return [
    el('h3', null, 'The card before and after'),
    table(
      'The card before and after',
      ['', { title: 'Before', num: true }, { title: 'After', num: true }],
      [
        row('temperature', 'temperature_c', (v) => `${number(v)} °C`),
        row('power', 'power_mw', (v) => `${number(Math.round(v / 1000))} W`),
        row('SM clock', 'sm_clock_mhz', (v) => `${number(v)} MHz`),
        row('memory in use by others before us', 'memory_used_before_us_bytes', bytes),
        row('uncorrected memory errors', 'ecc_uncorrected', (v) => count(v)),
        row('faults told by the driver (Xid)', 'xid', (v) => count(v)),
      ].filter(Boolean),
    ),
  ];
}

function clocks(record, card) {
  const c = record?.clocks ?? record;
  if (!c?.candidate_mhz && !c?.baseline_mhz) return null;
  const sides = [c.candidate_mhz, c.baseline_mhz].filter(Boolean),
    all = sides.flatMap((s) => QUARTERS.map((k) => s[k])).filter(Number.isFinite),
    steady = sides.length === 2 && all.length > 3 && all.every((v) => v === all[0]);
  const row = (who, s) => [who, ...QUARTERS.map((k) => (s ? `${number(s[k])} MHz` : '–'))];
  const reasons = Array.isArray(c.reasons)
    ? c.reasons.join(', ')
    : typeof c.reasons === 'string'
      ? c.reasons
      : c.reasons && typeof c.reasons === 'object'
        ? Object.keys(c.reasons).join(', ')
        : '';
  return [
    steady ? el('p', null, `Candidate and baseline ran at the same SM clock throughout: ${number(all[0])} MHz.`) : null,
    steady
      ? null
      : table(
          'Clocks',
          ['Side', ...['Least', 'Quarter', 'Median', 'Three quarters'].map((title) => ({ title, num: true }))],
          [row('candidate', c.candidate_mhz), row('baseline', c.baseline_mhz)],
        ),
    reasons ? el('p', { class: 'warn' }, `⚠ Held down by: ${reasons}`) : el('p', { class: 'small muted' }, 'Nothing held the clocks down.'),
    cardState(card),
  ];
}

const noClock = () =>
  panel(
    'Timers, pairs and clocks',
    null,
    el(
      'p',
      { class: 'warn' },
      'There are none: the emulator has no clock. Nothing was timed, so there are no samples, no pairs, no interval and no clock rates; the times here are estimates.',
    ),
  );

const TERMS = [
  ['dram_ns', 'DRAM'],
  ['l2_ns', 'L2'],
  ['load_store_ns', 'load/store units'],
  ['issue_ns', 'instruction issue'],
  ['shared_ns', 'shared memory'],
  ['latency_ns', 'latency of a block'],
  ['blocks_ns', 'starting blocks'],
  ['rounds_ns', 'rounds of blocks'],
  ['launch_ns', 'launch'],
];

export function estimateTerms(terms) {
  if (!Array.isArray(terms?.steps)) return null;
  return panel(
    'Where the estimate comes from',
    null,
    el(
      'p',
      { class: 'small muted' },
      `The emulator counted what the kernel does and asks how long each part would keep a ${String(terms.modelled ?? 'card')} busy. Not a measurement.`,
    ),
    terms.steps.slice(0, 16).map((s) => [
      el('h3', null, `${s.kernel ?? 'memset'}: ${duration(s.ns)}, bound by ${s.bound ?? '?'}`),
      bars(
        TERMS.filter(([k]) => s[k] > 0).map(([k, name]) => ({ name, value: s[k], text: duration(s[k]) })),
        'Parts of the estimate',
      ),
      facts([
        ['occupancy', Number.isFinite(s.occupancy) && percent(s.occupancy)],
        ['blocks at once on an SM', s.blocks_per_sm],
      ]),
    ]),
  );
}

export function timingPanels(figures, speedup, record, close) {
  if (!(figures?.time_ns > 0)) return [];
  const out = [];
  if (isMeasured(figures)) {
    const modes = MODES.filter(([k]) => figures.modes?.[k]).map(([k, how]) => ({ name: k, timer: '', how, ...figures.modes[k] }));
    out.push(
      panel(
        'How the times spread',
        null,
        el(
          'p',
          { class: 'small muted' },
          'Three timers, each under conditions of its own. graph-rotated decides: many launches in one CUDA graph, over buffers that change from launch to launch, with events around. The others must agree: cold-isolated traces single launches after the caches were flushed; eager launches one by one from the host, as a program without graphs does. Box: the middle half; thick line: the median; thin line: from the least to the 95th percentile.',
        ),
        boxes(modes),
        figures.samples
          ? [
              el('h3', null, 'All samples by graph-rotated'),
              histogram(figures.samples, close),
              el('p', { class: 'small muted' }, tailText(histogramRange(figures.samples))),
              el(
                'ul',
                { class: 'legend' },
                el('li', { class: 'key accent' }, el('i', { 'aria-hidden': 'true' }, '━'), ' candidate, filled'),
                el('li', null, '┄ baseline, dashed'),
              ),
            ]
          : null,
        table(
          'Times',
          ['Mode', 'Timer', { title: 'Candidate', num: true }, { title: 'Baseline', num: true }, { title: 'Ratio', num: true }],
          modes.map((m) => [
            m.name,
            m.how,
            duration(m.candidate?.median_ns),
            duration(m.baseline?.median_ns),
            Number.isFinite(m.ratio) ? `${m.ratio.toFixed(3)}×` : '–',
          ]),
        ),
      ),
    );
    if (figures.samples)
      out.push(
        panel(
          'Pair by pair',
          null,
          el(
            'p',
            { class: 'small muted' },
            'Candidate and baseline took turns on the card; each point is one pair, above 1.00× the candidate was faster. ',
            Math.min(...ratiosOf(figures.samples)) > 1 ? 'It was in every single pair. ' : '',
            intervalText(speedup) ? `Green: the median ${number(speedup.median)}× and its interval ${intervalText(speedup)}.` : '',
          ),
          ratios(figures.samples, speedup, close),
          facts([
            ['pairs', count(record?.statistics?.pairs ?? figures.statistics?.pairs)],
            ['discarded', record?.pairs_discarded],
            ['throttled', record?.pairs_throttled],
            ['confidence', figures.statistics?.confidence && percent(figures.statistics.confidence)],
          ]),
        ),
      );
    const c = clocks(figures.modes?.['graph-rotated'] ?? record, record?.card);
    if (c) out.push(panel('Clocks', null, c));
  } else out.push(noClock(), estimateTerms(figures.terms));
  out.push(rooflinePanel(figures, isMeasured(figures)));
  return out.filter(Boolean);
}
