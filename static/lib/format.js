// Figures and words. Whatever is not said to be measured is an estimate.

export const isMeasured = (doc) => doc?.evidence === 'measured';
export const evidenceWord = (doc) => (isMeasured(doc) ? 'measured' : 'estimate');

/** {median, low, high} of a number or an object; null where there is none. */
export function speedup(doc) {
  const s = doc?.speedup;
  if (typeof s === 'number' && s > 0) return { median: s };
  if (s && typeof s === 'object' && Number.isFinite(s.median) && s.median > 0)
    return { median: s.median, low: Number.isFinite(s.low) ? s.low : undefined, high: Number.isFinite(s.high) ? s.high : undefined };
  return null;
}

export const factorText = (s) => (s ? `${s.median.toFixed(2)}×` : '–');
/** The speed-up of a record, with the mark that says that it is an estimate. */
export const speedupText = (doc) => (speedup(doc) ? `${isMeasured(doc) ? '' : '≈ '}${factorText(speedup(doc))}` : '–');
/** An estimate has no interval: its ends are equal. */
export const intervalText = (s) => (s && s.low > 0 && s.high > s.low ? `${s.low.toFixed(3)} to ${s.high.toFixed(3)}` : '');

/** What a speed-up is over, where that is not the operator's baseline: a job may bring one as slow as it likes. */
export const overText = (best, job) =>
  typeof best?.own_baseline === 'string' || (job?.baseline && typeof job.baseline === 'object') ? "over the job's own baseline" : '';

/** What the best of a job with its own baseline came to beside the operator's; '' for other jobs. */
export function servingText(job, shape) {
  const s = shape?.serving;
  if (!overText(shape?.best, job)) return '';
  if (!s || typeof s !== 'object') return "Nothing of it is served yet: its best is judged beside the operator's baseline once the search is over.";
  return `${s.served === true ? 'Served' : 'Not served'}: beside the operator's baseline ${
    speedup(s) ? `${speedupText(s)}, ${evidenceWord(s)}, ` : ''}verdict ${String(s.verdict ?? '?').slice(0, 60)}.`;
}

const scale = (value, steps) => {
  for (const [below, unit, name] of steps) {
    if (value < below) return `${(value / unit).toFixed(unit === 1 || value / unit >= 100 ? 0 : value / unit >= 10 ? 1 : 2)} ${name}`;
  }
  return '–';
};
export const duration = (ns) =>
  ns > 0
    ? scale(ns, [
        [1e3, 1, 'ns'],
        [1e6, 1e3, 'µs'],
        [1e9, 1e6, 'ms'],
        [120e9, 1e9, 's'],
        [7200e9, 60e9, 'min'],
        [Infinity, 3600e9, 'h'],
      ])
    : '–';
export const bytes = (n) =>
  n >= 0
    ? scale(n, [
        [1e3, 1, 'B'],
        [1e6, 1e3, 'kB'],
        [1e9, 1e6, 'MB'],
        [Infinity, 1e9, 'GB'],
      ])
    : '–';
/** Of bytes a nanosecond, which are GB a second. */
export const byteRate = (v) => (v > 0 ? (v >= 1000 ? `${(v / 1000).toFixed(2)} TB/s` : `${number(Math.round(v))} GB/s`) : '–');
/** Of operations a nanosecond. */
export const flopRate = (v) =>
  v >= 1e6 ? `${number(v / 1e6)} PFLOP/s` : v >= 1e3 ? `${number(v / 1e3)} TFLOP/s` : v >= 1 ? `${number(v)} GFLOP/s` : `${number(v * 1e3)} MFLOP/s`;
export const number = (n) =>
  Number.isFinite(n)
    ? Math.abs(n) >= 1e6 || (n !== 0 && Math.abs(n) < 1e-3)
      ? n.toExponential(2)
      : Math.abs(n) < 0.1
        ? String(Number(n.toPrecision(3)))
        : String(Math.round(n * 1000) / 1000)
    : '–';
export const count = (n) => (Number.isFinite(n) ? n.toLocaleString('en') : '–');
export const percent = (part) => (Number.isFinite(part) ? `${(part * 100).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %` : '–');
export const seconds = (s) => (s > 0 ? duration(s * 1e9) : '0 s');
/** A time with the mark that says that it is an estimate. */
export const timeText = (doc, ns = doc?.time_ns) => (ns > 0 ? `${isMeasured(doc) ? '' : '≈ '}${duration(ns)}` : '–');

/** The connection: words that are spoken when they change, and what is only seen, as it counts down. */
export const connectionText = (name, seconds) => (name === 'waiting' ? ['reconnecting', `in ${seconds} s`] : [name, '']);

/** By how much the service's clock is ahead of the browser's: ages are by the service's. */
export const clock = { ahead_ms: 0 };
export function ago(time) {
  const s = Math.max(0, (Date.now() + clock.ahead_ms - Date.parse(time)) / 1000);
  if (!Number.isFinite(s)) return '';
  if (s < 60) return 'just now';
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  return new Date(time).toISOString().slice(0, 10);
}
/** In the reader's own time zone. */
export const clockTime = (time) => (Number.isFinite(Date.parse(time)) ? new Date(time).toTimeString().slice(0, 8) : '');

export const shortHash = (hash) => String(hash ?? '').slice(0, 12);
/** The end of an id tells ids apart, its beginning is the time. */
export const shortId = (id) => String(id ?? '').slice(-6);
export const axesText = (axes) =>
  Object.entries(axes ?? {})
    .slice(0, 24)
    .map(([k, v]) => `${k}=${v}`)
    .join(' ');
export const shapeText = (shape) => `${shape?.op ?? ''} ${axesText(shape?.axes)}`.trim();

/** Verdicts by what they mean to a reader: a mark and a word of their own, so that colour is never the only signal. */
export const KINDS = {
  good: { mark: '●', label: 'accepted' },
  correct: { mark: '◆', label: 'right, not faster' },
  wrong: { mark: '✕', label: 'wrong result' },
  unsafe: { mark: '▲', label: 'unsafe access' },
  build: { mark: '■', label: 'does not build' },
  doubt: { mark: '◇', label: 'not believed' },
  none: { mark: '○', label: 'being judged' },
};
const KIND_OF = {
  ok: 'good',
  not_faster: 'correct',
  unclear: 'correct',
  not_confirmed: 'correct',
  wrong_result: 'wrong',
  non_finite: 'wrong',
  non_deterministic: 'wrong',
  state_carried: 'wrong',
  input_modified: 'wrong',
  out_of_bounds: 'unsafe',
  uninitialised_read: 'unsafe',
  race: 'unsafe',
  barrier_divergence: 'unsafe',
  misaligned: 'unsafe',
  fault: 'unsafe',
  compile_error: 'build',
  'rejected.plan': 'build',
  'rejected.forbidden': 'build',
  unsupported_on_sim: 'build',
  resource_limit: 'build',
  timeout: 'doubt',
  timers_disagree: 'doubt',
  implausible: 'doubt',
};
export function verdictKind(code) {
  if (!code) return 'none';
  return Object.hasOwn(KIND_OF, code) ? KIND_OF[code] : 'wrong';
}
