// Why a verdict can be believed: the phases of the judgement in words for someone who has never read about them.
import { el } from '../lib/dom.js';
import { axesText, count, duration, isMeasured } from '../lib/format.js';

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

/** Why a phase that ended well did nothing; null: it did its work. */
export const notDone = (p) => [p?.note, p?.not_done].find((t) => typeof t === 'string' && t) ?? null;

/** {blocks, of, smaller} where only some of the blocks ran; smaller: the axes at which all of them could. */
export function sampleOf(p) {
  const steps = Array.isArray(p?.sampled?.steps) ? p.sampled.steps : [],
    sum = (key) => steps.reduce((n, s) => n + (Number(s?.[key]) || 0), 0),
    blocks = Number(p?.blocks_emulated) || sum('blocks'),
    of = Number(p?.blocks_of_all) || sum('of');
  if (!p?.sampled && !(of > blocks && blocks > 0)) return null;
  return { blocks, of, smaller: p?.sampled?.smaller?.shown === true ? (p.sampled.smaller.axes ?? {}) : null };
}
export const sampleText = (s) =>
  `${count(s.blocks)} of ${count(s.of)} blocks${s.smaller ? `; all blocks at the smaller shape ${axesText(s.smaller)}` : ''}`;

/** What a certificate says was asked for and is missing: [{need, why}]. */
export const needsMissing = (c) =>
  (Array.isArray(c?.needs?.missing) ? c.needs.missing : [])
    .slice(0, 16)
    .map((m) => ({ need: String(m?.need ?? '?'), why: String(m?.why ?? '').slice(0, 600) }));

export const missingList = (c) =>
  needsMissing(c).length
    ? el(
        'div',
        null,
        el('p', { class: 'warn' }, '⚠ What a judgement can rest on and this one does not:'),
        el(
          'ul',
          null,
          needsMissing(c).map((m) => el('li', null, el('b', null, m.need), `: ${m.why}`)),
        ),
      )
    : null;

/** How a figure came about, in words that claim no more than the phases show. */
export function howJudged(record) {
  const checks = checksOf(record),
    of = (name) => checks.find((c) => c.name === name && c.good && !c.notDone),
    all = of('emulate') && !of('emulate').sample;
  return isMeasured(record?.figures)
    ? `Its result was compared with the reference, and its time was measured on a card beside the baseline${of('retest') ? ', at last in fresh processes' : '; it was not judged again in fresh processes'}.`
    : `Its result was compared with the reference${all ? ' and every access was checked' : ''}. Its time is an estimate by the emulator: there was no card to measure on.`;
}

/**
 * Each phase once, in order: how it ended, whether it was passed again in the retest; skipped: without a card there was nothing to do;
 * notDone: why nothing was checked, sample: of how many blocks it was, both by the last time that the phase was gone through.
 */
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
      notDone: notDone(p),
      sample: sampleOf(p),
    });
  }
  const at = (c) => (PHASES.includes(c.name) ? PHASES.indexOf(c.name) : -1);
  const measured = isMeasured(record?.figures);
  return [...checks.values()]
    .map((c) => ({ ...c, skipped: c.good && !measured && (c.name === 'time' || c.name === 'audit') }))
    .sort((a, b) => at(a) - at(b));
}

/** "9 of 11 checks passed, 1 not done, 1 on a sample of the blocks": only what was done, of all blocks, has passed. */
export function checksSummary(checks) {
  const all = checks.filter((c) => !c.skipped),
    failed = all.filter((c) => !c.good).length,
    undone = all.filter((c) => c.good && c.notDone).length,
    part = all.filter((c) => c.good && !c.notDone && c.sample).length;
  return [
    `${all.length - failed - undone - part} of ${all.length} checks passed`,
    undone && `${undone} not done`,
    part && `${part} on a sample of the blocks`,
  ]
    .filter(Boolean)
    .join(', ');
}

const markOf = (c) => (!c.good ? ['bad', '✕'] : c.skipped || c.notDone ? ['none', '–'] : c.sample ? ['doubt', '◐'] : ['good', '✓']);
const wordsOf = (c, measured) =>
  !c.good
    ? ' here it failed'
    : c.notDone
      ? ` – not done: ${c.notDone.slice(0, 400)}`
      : ` ${phaseWords(c.name, measured)}${c.sample ? ` (a sample: ${sampleText(c.sample)})` : ''}`;

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
        el('span', { class: `mark ${markOf(c)[0]}`, 'aria-hidden': 'true' }, markOf(c)[1]),
        ' ',
        el('b', null, c.name),
        wordsOf(c, isMeasured(record.figures)),
        c.good && c.again && !c.skipped && !c.notDone ? el('span', { class: 'muted' }, ' · and again in the retest') : null,
      ),
    ),
  );
}
