// Figures and words. Whatever is not said to be measured is an estimate.

export const isMeasured = (doc) => doc?.evidence === 'measured';
export const evidenceWord = (doc) => (isMeasured(doc) ? 'measured' : 'estimate');

/** {median, low, high} of a number or an object; null where there is none. */
export function speedup(doc) {
  const s = doc?.speedup;
  if (typeof s === 'number' && s > 0) return { median: s };
  if (s && typeof s === 'object' && s.median > 0) return s;
  return null;
}

export const speedupText = (s) => (s ? `${s.median.toFixed(2)}×` : '–');
/** An estimate has no interval: its ends are equal. */
export const intervalText = (s) => (s && s.low > 0 && s.high > s.low ? `${s.low.toFixed(2)} to ${s.high.toFixed(2)}` : '');

export function duration(ns) {
  if (!(ns > 0)) return '–';
  for (const [below, unit, name] of [[1e3, 1, 'ns'], [1e6, 1e3, 'µs'], [1e9, 1e6, 'ms'], [Infinity, 1e9, 's']]) {
    if (ns < below) return `${(ns / unit).toFixed(unit === 1 ? 0 : ns / unit >= 100 ? 0 : ns / unit >= 10 ? 1 : 2)} ${name}`;
  }
  return '–';
}

export function ago(time) {
  const s = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  if (!Number.isFinite(s)) return '';
  if (s < 60) return 'just now';
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  return new Date(time).toISOString().slice(0, 10);
}

export const shortHash = (hash) => String(hash ?? '').slice(0, 12);
export const axesText = (axes) => Object.entries(axes ?? {}).slice(0, 24).map(([k, v]) => `${k}=${v}`).join(' ');

const GOOD = new Set(['ok']);
const CORRECT = new Set(['not_faster', 'unclear', 'not_confirmed']);
/** What colour a verdict has: good, correct (right but not faster), bad, none. */
export function verdictKind(code) {
  if (!code) return 'none';
  return GOOD.has(code) ? 'good' : CORRECT.has(code) ? 'correct' : 'bad';
}
