// Jobs as they run: the list on the left, the chosen one beside it.
import { el } from '../lib/dom.js';
import { ago, axesText, duration, isMeasured, shortHash, speedup, speedupText } from '../lib/format.js';
import { candidatesOf, ended, progressOf } from '../lib/state.js';
import { bestCard, chips, empty, evidenceBadge, plot, progressBar, stateBadge, verdictBadge } from './parts.js';

const ROWS = 200;

function bestOverall(job) {
  let best = null;
  for (const b of job.best.values()) if (speedup(b) && (!best || speedup(b).median > speedup(best).median)) best = b;
  return best;
}

function jobCard(state, job, chosen) {
  const best = bestOverall(job);
  const first = job.shapes?.[0]?.shape;
  return el('a', { class: 'card job', href: `#/jobs/${encodeURIComponent(job.id)}`, 'aria-current': chosen ? 'true' : null, dataset: { key: `job-${job.id}` } },
    el('div', { class: 'row spread' }, el('strong', null, job.op), stateBadge(job.state)),
    el('div', { class: 'muted mono small clip' }, axesText(first?.axes), job.shapes?.length > 1 ? ` and ${job.shapes.length - 1} more` : ''),
    progressBar(progressOf(state, job), `Progress of ${job.id}`),
    el('div', { class: 'row spread small' }, el('span', null, best ? speedupText(speedup(best)) : '–', ' ', evidenceBadge(best)), el('span', { class: 'muted' }, ago(job.created))));
}

function candidateRow(c, number, open) {
  const s = speedup(c);
  return el('tr', null,
    el('td', { class: 'num muted' }, c.baseline ? 'base' : number),
    el('td', null, c.verdict ? verdictBadge(c.verdict) : el('span', { class: 'verdict running' }, c.phase ?? 'waiting')),
    el('td', { class: 'num' }, s ? speedupText(s) : '–'),
    el('td', { class: 'num' }, c.time_ns > 0 ? `${isMeasured(c) ? '' : '≈ '}${duration(c.time_ns)}` : '–'),
    el('td', null, evidenceBadge(c)),
    el('td', { class: 'wide' }, c.verdict && c.verdict !== 'ok' && c.text ? c.text : c.notes ?? ''),
    el('td', null, el('button', { class: 'ghost small', type: 'button', dataset: { key: `cand-${c.id}` }, on: { click: () => open(c.id) } }, 'Details')));
}

function candidateTable(list, open) {
  if (!list.length) return empty('No candidate yet', 'The first one is the baseline; it appears here the moment it is proposed.');
  let n = 0;
  const numbered = list.map((c) => [c, c.baseline ? 0 : ++n]);
  const rows = numbered.slice(-ROWS).reverse();
  return el('div', { class: 'table-box', tabindex: 0, role: 'region', 'aria-label': 'Candidates', dataset: { scroll: 'candidates' } },
    el('table', null,
      el('thead', null, el('tr', null, ['#', 'Verdict', 'Speed-up', 'Time', 'Evidence', 'Why', ''].map((t) => el('th', { scope: 'col' }, t)))),
      el('tbody', null, rows.map(([c, k]) => candidateRow(c, k, open)))),
    numbered.length > ROWS ? el('p', { class: 'muted small' }, `The newest ${ROWS} of ${numbered.length}.`) : null);
}

function counts(list) {
  const judged = list.filter((c) => c.verdict && !c.baseline);
  const ok = judged.filter((c) => c.verdict === 'ok').length;
  return `${judged.length} judged, ${ok} accepted`;
}

function running(list) {
  const c = list.findLast((x) => !x.verdict);
  return c ? el('span', { class: 'muted small' }, c.baseline ? 'judging the baseline' : 'judging', c.phase ? `: ${c.phase}` : '') : null;
}

function jobPanel(ctx, job) {
  const list = candidatesOf(ctx.state, job.id);
  const budget = job.budget?.candidates;
  return el('section', { class: 'panel', 'aria-label': 'The chosen job' },
    el('div', { class: 'row spread wrap' }, el('h1', null, job.op ?? '?'), el('div', { class: 'row' }, stateBadge(job.state),
      ended(job) ? null : el('button', { class: 'ghost small', type: 'button', dataset: { key: 'cancel' }, on: { click: () => ctx.cancel(job.id) } }, 'Cancel'))),
    el('div', { class: 'row wrap' }, chips(job.shapes?.[0]?.shape?.axes), el('span', { class: 'chip' }, job.target ?? ''), el('span', { class: 'chip' }, el('b', null, 'generator'), job.generator ?? '')),
    el('p', { class: 'muted small mono clip' }, job.id),
    job.error ? el('p', { class: 'error' }, job.error.text ?? String(job.error)) : null,
    progressBar(progressOf(ctx.state, job), 'Spent budget'),
    el('div', { class: 'row spread small wrap' }, el('span', null, counts(list), budget ? `, budget ${budget}` : ''), running(list)),
    el('div', { class: 'bests' }, (job.shapes ?? []).slice(0, 24).map((s) =>
      bestCard(job.shapes.length > 1 ? axesText(s.shape?.axes) : 'Best so far', job.best.get(s.shape_hash),
        ctx.state.kernels.has(s.shape_hash)
          ? el('button', { class: 'link', type: 'button', dataset: { key: `kernel-${s.shape_hash}` }, on: { click: () => ctx.openKernel(s.shape_hash) } }, `kernel ${shortHash(s.shape_hash)}`)
          : el('span', { class: 'muted mono small' }, shortHash(s.shape_hash))))),
    plot(list),
    el('div', { class: 'legend small muted' }, el('span', { class: 'key good' }, 'accepted'), el('span', { class: 'key correct' }, 'right, not faster'), el('span', { class: 'key bad' }, 'rejected')),
    candidateTable(list, ctx.openCandidate));
}

/** The job to show: the one asked for, else the newest that runs, else the newest. */
export function chooseJob(state, wanted) {
  if (wanted && state.jobs.has(wanted)) return state.jobs.get(wanted);
  const jobs = sorted(state);
  return jobs.find((j) => j.state === 'running') ?? jobs[0] ?? null;
}

const sorted = (state) => [...state.jobs.values()].sort((a, b) => (b.created ?? '').localeCompare(a.created ?? '') || (a.id < b.id ? 1 : -1));

function tiles(state) {
  const jobs = [...state.jobs.values()];
  const measured = [...state.kernels.values()].filter(isMeasured).length;
  const tile = (n, label) => el('div', { class: 'tile' }, el('b', null, n), el('span', null, label));
  return el('div', { class: 'tiles' },
    tile(jobs.filter((j) => j.state === 'running').length, 'running'),
    tile(jobs.filter((j) => j.state === 'queued').length, 'queued'),
    tile(state.kernels.size, 'kernels'),
    tile(measured, 'measured'),
    tile(state.kernels.size - measured, 'estimated'));
}

export function live(ctx) {
  const { state } = ctx;
  const jobs = sorted(state).slice(0, 60);
  if (!jobs.length) {
    return [tiles(state), empty('Nothing has been asked for yet', 'Submit a shape and watch it here:',
      'proteus submit --op gdn_packed_decode \\\n  --axes B=4,H=2,HV=8,K=128,V=128')];
  }
  const job = chooseJob(state, ctx.wantedJob);
  return [tiles(state), el('div', { class: 'split' },
    el('section', { class: 'list', 'aria-label': 'Jobs', dataset: { scroll: 'jobs' } }, jobs.map((j) => jobCard(state, j, j === job))),
    job ? jobPanel(ctx, job) : null)];
}
