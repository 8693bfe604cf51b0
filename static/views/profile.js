// What the card's own counters said of a candidate, where the record has it: measured, but of launches that were counted, never a time
// that is published.
import { el } from '../lib/dom.js';
import { bytes, count, duration, number } from '../lib/format.js';
import { bars } from './charts.js';
import { panel, table } from './parts.js';

const part = (v) => `${number(v)} %`;
const FIGURES = [
  ['duration_ns', 'time of the counted launch', duration],
  ['dram_pct', 'DRAM, of what it can sustain', part],
  ['dram_read_bytes', 'read from DRAM', bytes],
  ['dram_write_bytes', 'written to DRAM', bytes],
  ['l2_pct', 'L2, of what it can sustain', part],
  ['l2_bytes', 'through L2', bytes],
  ['l2_hit_pct', 'found in L2', part],
  ['l1_pct', 'L1, of what it can sustain', part],
  ['sm_pct', 'multiprocessors, of what they can sustain', part],
  ['occupancy_pct', 'warps at work, of the most that fit', part],
  ['issue_pct', 'cycles in which an instruction was issued', part],
  ['warp_instructions', 'instructions of warps', count],
  ['shared_bank_conflicts', 'bank conflicts in shared memory', count],
];
const MOST_STEPS = 16,
  MOST_STALLS = 8;

/** {steps, rows: [[name, text of each step]]}: only what at least one step has. */
export function profileRows(profile) {
  const steps = (Array.isArray(profile?.steps) ? profile.steps : []).slice(0, MOST_STEPS);
  const rows = FIGURES.filter(([key]) => steps.some((s) => Number.isFinite(s?.[key]))).map(([key, name, say]) => [
    name,
    ...steps.map((s) => (Number.isFinite(s?.[key]) ? say(s[key]) : '–')),
  ]);
  return { steps, rows };
}

/** For what the warps of a step waited longest: [{name, value}] in cycles for each instruction. */
export const stallsOf = (step) =>
  Object.entries(step?.stalls && typeof step.stalls === 'object' ? step.stalls : {})
    .filter(([, v]) => Number.isFinite(v) && v > 0)
    .sort((a, b) => b[1] - a[1])
    .slice(0, MOST_STALLS)
    .map(([name, value]) => ({ name: name.slice(0, 40).replaceAll('_', ' '), value }));

export function profilePanel(profile, plan) {
  if (!profile || typeof profile !== 'object') return null;
  const title = "The card's counters";
  if (profile.not_done) return panel(title, null, el('p', null, `They were not read: ${String(profile.not_done).slice(0, 400)}`));
  const { steps, rows } = profileRows(profile),
    name = (i) => String(plan?.steps?.[i]?.kernel ?? (plan?.steps?.[i]?.memset ? 'memset' : '')).slice(0, 60),
    measured = profile.evidence === 'measured';
  if (!rows.length) return null;
  return panel(
    title,
    null,
    el(
      'p',
      { class: 'small muted' },
      el('span', { class: `evidence ${measured ? 'measured' : 'estimate'}` }, measured ? 'measured' : 'estimate'),
      ` on ${String(profile.device ?? 'a card').slice(0, 120)}${profile.driver ? `, driver ${String(profile.driver).slice(0, 40)}` : ''}${
        profile.passes > 0 ? `, in ${count(profile.passes)} passes` : ''
      }: of single launches after the caches were flushed. Counting costs time, so none of these is the kernel's time.`,
    ),
    table('Counters', ['Of one launch', ...steps.map((s, i) => ({ title: `${i + 1} ${name(i)}`, num: true }))], rows),
    steps.map((s, i) =>
      stallsOf(s).length
        ? [
            el('h3', null, `For what the warps waited${steps.length > 1 ? `: step ${i + 1} ${name(i)}` : ''}`),
            el('p', { class: 'small muted' }, 'Cycles that a warp spent so for each instruction that it issued.'),
            bars(
              stallsOf(s).map((b) => ({ ...b, text: number(b.value) })),
              `Waits of step ${i + 1}`,
            ),
          ]
        : null,
    ),
  );
}
