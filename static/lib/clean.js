// What comes in an event is of the documented kinds or it is left out: texts are texts, figures are finite numbers, and no object is so deep
// or has such names that whoever reads it must look out.

const set = (words) => new Set(words.split(' '));
const TEXTS = set(
  'job candidate shape_hash time state phase mode device verdict_code notes language parent evidence reason serves move template outcome why code text for_person fault kind what own_baseline stands_for',
);
const FIGURES = set('id ms time_ns median low high gpu_seconds wall_seconds candidates tokens number attempt');
const FORBIDDEN = set('__proto__ constructor prototype');
const DEPTH = 3,
  MOST_KEYS = 64,
  MOST_ITEMS = 256,
  MOST_TEXT = 1 << 16;

function value(name, v, depth) {
  if (TEXTS.has(name)) return typeof v === 'string' ? v.slice(0, MOST_TEXT) : undefined;
  if (FIGURES.has(name)) return Number.isFinite(v) ? v : undefined;
  if (typeof v === 'string') return v.slice(0, MOST_TEXT);
  if (typeof v === 'boolean' || v === null || Number.isFinite(v)) return v;
  if (Array.isArray(v))
    return v
      .slice(0, MOST_ITEMS)
      .map((x) => value('', x, depth - 1))
      .filter((x) => x !== undefined);
  return v && typeof v === 'object' && depth > 0 ? clean(v, depth - 1) : undefined;
}

export function clean(doc, depth = DEPTH) {
  const out = {};
  let n = 0;
  for (const name in doc) {
    if (FORBIDDEN.has(name) || !Object.hasOwn(doc, name)) continue;
    if (++n > MOST_KEYS) break;
    const v = value(name, doc[name], depth);
    if (v !== undefined) out[name] = v;
  }
  return out;
}
