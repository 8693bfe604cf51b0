// A certificate as a report that a stranger can follow: what was tested, what came out, how right, how fast, how checked, on what.
import { el } from '../lib/dom.js';
import { byteRate, bytes, count, duration, intervalText, isMeasured, number, percent, speedup, speedupText, timeText } from '../lib/format.js';
import { timeline } from './charts.js';
import { planTable } from './candidate.js';
import { timingPanels } from './timing.js';
import { chips, evidenceBadge, facts, safely, table } from './parts.js';
import { missingList, notDone, sampleOf, sampleText } from './trust.js';

const code = (text) => el('code', null, String(text));
const phase = (c, name) => (Array.isArray(c.phases) ? c.phases : []).find((p) => p.phase === name);
const num = (title) => ({ title, num: true });

/** The plain words at the top. */
export function abstract(c) {
  const s = speedup(c),
    correct = phase(c, 'correct'),
    emulated = phase(c, 'emulate'),
    retest = phase(c, 'retest');
  const occasions = retest?.occasions?.length ?? 0,
    regimes = correct?.regimes?.length ?? 0;
  return [
    el(
      'p',
      null,
      `This kernel computes ${c.shape?.op ?? 'its operator'} for one exact shape. `,
      isMeasured(c)
        ? [
            'It takes ',
            el('b', null, duration(c.time_ns)),
            ' on ',
            c.device?.name ?? 'the card',
            ', the baseline takes ',
            el('b', null, duration(c.baseline_ns)),
            `: ${speedupText(c)}${intervalText(s) ? ` (${intervalText(s)})` : ''}, measured.`,
          ]
        : [
            'The emulator ',
            el('b', null, 'estimates'),
            ` ${duration(c.time_ns)} for it and ${duration(c.baseline_ns)} for the baseline (${speedupText(c)}). No card was there: these times are not measurements.`,
          ],
    ),
    el(
      'p',
      null,
      `Its results were compared with a reference in double precision on ${regimes} kind${regimes === 1 ? '' : 's'} of input${emulated?.blocks_emulated ? `, and ${count(emulated.blocks_emulated)} of ${count(emulated.blocks_of_all)} blocks were run with every access checked` : ''}${
        occasions ? `. It was judged again on ${occasions} occasion${occasions === 1 ? '' : 's'} in fresh processes with fresh seeds` : ''
      }.`,
    ),
  ];
}

function regimeRows(regimes) {
  return (regimes ?? [])
    .slice(0, 64)
    .flatMap((r) =>
      (r.tensors ?? []).map((t) => [
        r.hidden ? el('i', null, 'held out') : (r.name ?? ''),
        t.tensor,
        count(t.elements),
        r.hidden && t.passed ? 'within what is allowed' : number(t.worst_error),
        r.hidden && t.passed ? '' : number(t.rms_error),
        Number.isFinite(t.ratio_to_baseline) ? `${number(t.ratio_to_baseline)}×` : '–',
        code(r.seed ?? ''),
      ]),
    );
}

const correctness = (c) => {
  const p = phase(c, 'correct');
  return [
    el(
      'p',
      null,
      'Errors are relative to the reference; the last column says how they compare with those of the baseline. Held-out inputs are not known to whoever writes candidates.',
    ),
    table(
      'Results by input',
      ['Inputs', 'Tensor', num('Elements'), num('Worst error'), num('RMS error'), num('To the baseline'), 'Seed'],
      regimeRows(p?.regimes),
    ),
    facts([
      ['compared with', p?.yardstick],
      ['poisons', p?.poisons?.join(', ')],
      ['repeats with equal results', phase(c, 'probe')?.repeats],
    ]),
  ];
};

const emulation = (c) => {
  const p = phase(c, 'emulate');
  if (!p) return el('p', null, 'It was not run on the emulator.');
  const sample = sampleOf(p),
    none = notDone(p) ?? (p.blocks_emulated ? null : (p.why ?? 'the record says of no block that it ran'));
  return [
    none ? el('p', { class: 'warn' }, `– Not done: ${String(none).slice(0, 600)}`) : null,
    sample && !none ? el('p', { class: 'warn' }, `Of a sample: ${sampleText(sample)}.`) : null,
    facts([
      ['blocks', !none && `${count(p.blocks_emulated)} of ${count(p.blocks_of_all)}`],
      ['checked', p.checks?.join(', ')],
      ['schedules', p.schedules?.map((s) => `${s.schedule} (${s.seed})`).join(', ')],
      ['instructions of threads', p.thread_instructions && count(p.thread_instructions)],
    ]),
  ];
};

/** All blocks ran with every access checked. */
const every = (c) => {
  const p = phase(c, 'emulate');
  return p?.blocks_emulated > 0 && !notDone(p) && !sampleOf(p);
};

const OUTCOMES = {
  passed: '✓ passed',
  ok: '✓ passed',
  pass: '✓ passed',
  flag: '⚠ flagged',
  flagged: '⚠ flagged',
  reject: '✕ refused',
  rejected: '✕ refused',
  not_done: '– not tried',
};
const ruleText = (r) =>
  [
    r.why,
    r.found,
    ...Object.entries(r.figures ?? {}).map(([k, v]) =>
      k.endsWith('_ns') && v > 0
        ? `${k.slice(0, -3).replaceAll('_', ' ')} ${duration(v)}`
        : `${k.replaceAll('_', ' ')} ${typeof v === 'number' ? number(v) : JSON.stringify(v)}`,
    ),
  ]
    .filter((t) => typeof t === 'string')
    .join('; ')
    .slice(0, 400);
/** The baseline timed against itself, as if it were a candidate: what the method finds where there is nothing to find. */
const control = (c) => {
  const list = Array.isArray(c.timing?.control) ? c.timing.control : [];
  return list.length
    ? [
        el('h3', null, 'The method tested on itself'),
        el('p', null, 'Before the candidate was timed, the baseline was timed against itself in the same way. The ratio must be 1.'),
        table(
          'Baseline against itself',
          ['#', num('Pairs'), num('Ratio'), 'Interval', 'Decided'],
          list.slice(0, 16).map((t, i) => [
            i + 1,
            count(t.pairs),
            Number.isFinite(t.ratio?.median) ? `${t.ratio.median.toFixed(4)}×` : '–',
            Number.isFinite(t.ratio?.low) ? `${t.ratio.low.toFixed(4)} to ${t.ratio.high.toFixed(4)}` : '',
            t.decision ?? '',
          ]),
        ),
      ]
    : null;
};

const rules = (c) =>
  Array.isArray(c.rules) && c.rules.length
    ? table(
        'Rules on timers and the audit',
        ['#', 'Rule', 'Outcome', 'Why or how much'],
        c.rules.map((r) => [
          r.rule,
          r.what,
          el('span', { class: 'clip' }, Object.hasOwn(OUTCOMES, r.outcome) ? OUTCOMES[r.outcome] : r.outcome),
          ruleText(r),
        ]),
      )
    : el('p', null, 'There are none in this certificate.');

/** The card of an occasion: its name, the end of its UUID, and why it was no other. */
export const cardText = (o) =>
  [o?.device?.name, o?.device?.uuid && `…${String(o.device.uuid).slice(-8)}`, typeof o?.why_this_card === 'string' && `no other: ${o.why_this_card}`]
    .filter((t) => typeof t === 'string' && t)
    .join(', ')
    .slice(0, 300);
export const otherCard = (p) =>
  p?.other_card === true ? 'another than the one that judged it first' : p?.other_card === false ? 'the one that judged it first' : null;

const retest = (c) => {
  const p = phase(c, 'retest');
  const estimated = isMeasured(c) ? '' : '≈ ';
  if (!p) return el('p', null, 'There was no retest: only what is to be served as faster is judged again.');
  return [
    el('p', null, 'Each occasion has processes, seeds, buffers and inputs of its own; no seed stands twice.'),
    table(
      'Occasions of the retest',
      ['#', num('Candidate'), num('Baseline'), num('Ratio'), 'Decided', num('Kinds of input'), 'On'],
      (p.occasions ?? []).map((o, i) => [
        `${i + 1}${p.published === i ? ' (published)' : ''}`,
        `${isMeasured(c) ? '' : '≈ '}${duration(o.candidate_ns)}`,
        `${isMeasured(c) ? '' : '≈ '}${duration(o.baseline_ns)}`,
        speedupText({ speedup: o.ratio, evidence: c.evidence }),
        o.decision ?? '',
        o.regimes?.length ?? '',
        cardText(o),
      ]),
    ),
    facts([
      ['card', otherCard(p)],
      ['published', p.published === 'pooled' ? 'the pairs of all occasions together' : typeof p.published === 'string' ? p.published : null],
      ['ratio before the retest', p.ratio_before && `${estimated}${number(p.ratio_before)}×`],
      ['ratio by the retest', p.ratio && `${estimated}${number(p.ratio)}×`],
    ]),
  ];
};

const environment = (c) =>
  facts([
    ['device', c.device?.name],
    ['kind', c.device?.kind === 'cuda' ? 'a card' : 'the emulator'],
    ['uuid', c.device?.uuid],
    ['driver', c.device?.driver],
    ['toolkit', c.toolkit?.version && `CUDA ${c.toolkit.version}`],
    [
      'sandbox',
      c.sandbox && `${c.sandbox.level}: ${['limits', 'seccomp', 'landlock', 'namespaces'].filter((k) => c.sandbox[k]).join(', ')}`,
    ],
    ['Proteus', c.proteus_version],
    ['proposed', c.times?.proposed],
    ['judged', c.times?.started && `${c.times.started} to ${c.times.ended}`],
    ['certified', c.times?.certified],
    ['copies memory at', c.calibration?.copy_bytes_per_ns && byteRate(c.calibration.copy_bytes_per_ns)],
    ['reads memory at', c.calibration?.read_bytes_per_ns && byteRate(c.calibration.read_bytes_per_ns)],
    ['SM clock', c.calibration?.sm_clock_mhz && `${number(c.calibration.sm_clock_mhz)} MHz`],
    ['empty launch in a graph', c.calibration?.node_ns && duration(c.calibration.node_ns)],
  ]);

const preconditions = (c) => {
  const p = c.preconditions ?? {},
    list = (v, free) => (Array.isArray(v) ? v.map((n) => n ?? `any ${free?.join(', ') ?? ''}`.trim()).join(' × ') : '');
  return [
    facts([
      ['target', p.target],
      ['least driver', p.driver_least],
      ['workspace', Number.isFinite(p.workspace_bytes) && bytes(p.workspace_bytes)],
    ]),
    table(
      'Tensors',
      ['Tensor', 'Role', 'Type', 'Size', 'Strides', num('Alignment'), num('Bytes')],
      Object.entries(p.tensors ?? {}).map(([name, t]) => [
        code(name),
        t.role,
        t.dtype,
        list(t.dims, t.free),
        list(t.strides, t.free).replaceAll(' × ', ', '),
        t.alignment,
        t.bytes === null ? 'any' : count(t.bytes),
      ]),
    ),
  ];
};

const compiledWith = (options) =>
  el(
    'span',
    { class: 'chips' },
    options
      .split(/\s+/)
      .filter(Boolean)
      .slice(0, 80)
      .map((o) => el('span', { class: 'chip' }, o)),
  );

/** {sections: nodes, close: list of plots to close}. */
export function report(c, check) {
  const close = [];
  const figures = { ...c, ...(c.timing?.statistics ? { statistics: c.timing.statistics } : {}), terms: c.timing?.candidate?.terms };
  const part = (title, make) => el('section', { 'aria-label': title }, el('h2', null, title), safely(make));
  const sections = [
    part('What was tested', () => [
      chips(c.shape?.axes),
      facts([
        ['operator', `${c.shape?.op} (version ${c.op_version})`],
        [
          'types',
          Object.entries(c.shape?.dtypes ?? {})
            .map(([k, v]) => `${k} = ${v}`)
            .join(', '),
        ],
        ['target', c.shape?.target],
        ['shape hash', code(c.shape_hash)],
        ['language', c.program?.language],
        ['compiled with', c.options && compiledWith(String(c.options))],
      ]),
      planTable(c.plan),
    ]),
    part('Result', () => [
      el('p', { class: 'best-figure' }, speedupText(c), ' ', evidenceBadge(c)),
      facts([
        ['time', timeText(c)],
        ['baseline', timeText(c, c.baseline_ns)],
        ['interval', intervalText(speedup(c)) || (isMeasured(c) ? null : 'none: an estimate has no spread')],
        ['mode', c.mode],
        ['of the data sheet’s limit', c.roofline?.fraction && percent(c.roofline.fraction)],
      ]),
    ]),
    part('Is it right?', () => correctness(c)),
    part(every(c) ? 'Every access checked' : 'Accesses checked', () => [emulation(c), missingList(c)]),
    part('Times', () => [
      timingPanels(figures, speedup(c), c.timing, close),
      control(c),
      el('h3', null, 'Rules that the timers had to pass'),
      rules(c),
    ]),
    part('Judged again', () => retest(c)),
    part('Phases', () => [el('p', null, 'What each step of the judgement took, one after another: admit looks at the launch plan, probe launches the kernel again and again.'), timeline(c.phases ?? [])]),
    part('What a launch must keep to', () => preconditions(c)),
    part('Where and when', () => environment(c)),
    part('Digests', () => [
      el('p', null, 'BLAKE2b-256 of what was judged. ', check.button),
      check.node,
      table(
        'Digests',
        ['Of', 'Digest'],
        Object.entries(c.digests ?? {}).map(([k, v]) => [k.replaceAll('_', ' '), code(v)]),
      ),
    ]),
  ];
  return { sections, close };
}
