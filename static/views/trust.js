// Why a verdict can be believed: the phases of the judgement in words for someone who has never read about them.
import { el } from '../lib/dom.js';
import { duration, isMeasured } from '../lib/format.js';

export const PHASES = ['admit', 'compile', 'scan', 'emulate', 'assemble', 'correct', 'probe', 'time', 'audit', 'plausible', 'range', 'retest'];

const WORDS = {
  admit: 'the launch plan is sound',
  compile: 'the source compiles',
  scan: 'the code holds no forbidden instruction',
  emulate: 'on the emulator no access is out of bounds, uninitialised, misaligned or racing',
  assemble: 'the machine code was made here, from that source',
  correct: 'its results match a reference in double precision, held-out inputs among them',
  probe: 'launched again and again it gives the same, and keeps nothing between launches',
  time: 'it was timed in turns with the baseline',
  audit: 'a trace of its launches shows nothing else running, and the timers agree',
  plausible: 'it is not faster than the hardware allows',
  range: 'it holds for many slots and long caches too, drawn in secret',
  retest: 'all of it held once more in fresh processes, with seeds and inputs that nobody had seen',
};
const WITHOUT_A_CLOCK = {
  time: 'its time was estimated from what the emulator counted; nothing was timed',
  audit: 'there was no card whose launches could be traced',
  plausible: 'the estimate is not below what the hardware allows',
};

/** What a phase shows where it was passed. */
export function phaseWords(name, measured) {
  const own = measured ? null : Object.hasOwn(WITHOUT_A_CLOCK, name) ? WITHOUT_A_CLOCK[name] : null;
  return own ?? (Object.hasOwn(WORDS, name) ? WORDS[name] : '');
}

/** Each phase once, in order: how it ended, whether it was passed again in the retest; skipped: without a card there was nothing to do. */
export function checksOf(record) {
  const checks = new Map();
  for (const p of Array.isArray(record?.phases) ? record.phases : []) {
    const name = String(p.phase),
      again = p.mode === 'retest' && name !== 'retest',
      good = !p.verdict || p.verdict === 'ok',
      was = checks.get(name);
    checks.set(name, {
      name,
      good: good && (was?.good ?? true),
      again: was ? was.again || again : false,
      ms: (was?.ms ?? 0) + (p.ms || 0),
    });
  }
  const at = (c) => (PHASES.includes(c.name) ? PHASES.indexOf(c.name) : -1);
  const measured = isMeasured(record?.figures);
  return [...checks.values()]
    .map((c) => ({ ...c, skipped: c.good && !measured && (c.name === 'time' || c.name === 'audit') }))
    .sort((a, b) => at(a) - at(b));
}

export function checkList(record) {
  const checks = checksOf(record);
  if (!checks.length) return null;
  return el(
    'ul',
    { class: 'checks' },
    checks.map((c) =>
      el(
        'li',
        { title: duration(c.ms * 1e6) },
        el('span', { class: `mark ${c.skipped ? 'none' : c.good ? 'good' : 'bad'}`, 'aria-hidden': 'true' }, c.skipped ? '–' : c.good ? '✓' : '✕'),
        ' ',
        el('b', null, c.name),
        c.good ? ` ${phaseWords(c.name, isMeasured(record.figures))}` : ' here it failed',
        c.good && c.again && !c.skipped ? el('span', { class: 'muted' }, ' · and again in the retest') : null,
      ),
    ),
  );
}
