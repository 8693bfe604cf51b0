// What runs, what won last, why it can be trusted, what it cost.
import { el, part } from '../lib/dom.js';
import { ago, axesText, count, factorText, isMeasured, overText, seconds, speedup, speedupText, timeText, intervalText } from '../lib/format.js';
import { ended, progressOf, sortedJobs } from '../lib/state.js';
import { candidateHref, empty, evidenceBadge, jobHref, kernelHref, link, progressBar, sparkline, stateBadge, table } from './parts.js';
import { PHASES, phaseWords } from './trust.js';

/** The largest speed-up; one that was measured goes before any estimate. */
export function bestOf(job) {
  let best = null;
  for (const b of job.best.values()) {
    const better = !best || Number(isMeasured(b)) - Number(isMeasured(best)) || speedup(b)?.median - speedup(best)?.median;
    if (speedup(b) && (better === true || better > 0)) best = b;
  }
  return best;
}

/** Where the judgement of a candidate is; the steps before it are behind it. */
export function phaseSteps(c) {
  const name = c.phaseMode === 'retest' ? 'retest' : c.phase,
    at = PHASES.indexOf(name);
  const steps = el(
    'ol',
    { class: 'steps', 'aria-label': `Judgement: ${c.phase ?? 'waiting'}${c.phaseMode === 'retest' ? ' of the retest' : ''}` },
    PHASES.map((p, i) =>
      el('li', { class: i < at ? 'past' : i === at ? 'now' : null, title: phaseWords(p, true), 'aria-current': i === at ? 'step' : null }, p),
    ),
  );
  return [steps, at >= 0 ? el('p', { class: 'small muted' }, `${name}: passed where ${phaseWords(name, true)}.`) : null];
}

const shapesText = (job) =>
  `${job.op === '*' ? (job.model?.preset ?? 'observed shapes') : axesText(job.shapes?.[0]?.shape?.axes)}${job.shapes?.length > 1 ? ` and ${job.shapes.length - 1} more` : ''}`;

function jobCard(state, job) {
  const best = bestOf(job),
    work = state.work.get(job.id),
    now = work?.now;
  const moves = state.moves.get(job.shapes?.[0]?.shape_hash)?.filter((m) => m.job === job.id) ?? [];
  return el(
    'article',
    { class: 'card job' },
    el(
      'div',
      { class: 'row spread' },
      el('h3', null, link(jobHref(job.id), job.op === '*' ? (job.model?.preset ?? 'several operators') : (job.op ?? '?'))),
      stateBadge(job.state),
    ),
    el('p', { class: 'muted mono small clip' }, shapesText(job)),
    el(
      'div',
      { class: 'row spread' },
      el('span', { class: 'figure' }, best ? speedupText(best) : '–', ' ', evidenceBadge(best)),
      sparkline(
        moves.map((m) => speedup(m)?.median ?? 1),
        'How the best speed-up moved',
      ),
    ),
    best && overText(best, job) ? el('p', { class: 'small warn' }, overText(best, job)) : null,
    progressBar(progressOf(state, job), `Progress of the job ${job.id}`),
    el(
      'p',
      { class: 'small muted' },
      [
        `${Math.max(work?.judged ?? 0, job.spent?.candidates ?? 0)}${job.budget?.candidates ? ` of ${job.budget.candidates}` : ''} candidates`,
        seconds(job.spent?.gpu_seconds ?? 0) + ' GPU',
        job.spent?.tokens > 0 && `${count(job.spent.tokens)} tokens`,
        ago(job.created),
      ]
        .filter(Boolean)
        .join(' · '),
    ),
    now
      ? [
          phaseSteps(now),
          el(
            'p',
            { class: 'small clip' },
            now.baseline
              ? 'Judging the baseline'
              : ['Judging ', link(candidateHref(now.id), 'a candidate'), now.notes ? `: ${now.notes}` : ''],
          ),
        ]
      : job.state === 'running'
        ? el('p', { class: 'small muted' }, 'Between candidates')
        : null,
  );
}

/** The middle one of the served speed-ups: of measurements, where there is one. */
function typical(kernels) {
  const beaten = kernels.filter((k) => !k.is_baseline && !overText(k) && speedup(k)),
    measured = beaten.filter(isMeasured),
    list = (measured.length ? measured : beaten).map((k) => speedup(k).median).sort((a, b) => a - b);
  return list.length ? { median: list[Math.floor(list.length / 2)], most: list.at(-1), count: list.length, measured: measured.length > 0 } : null;
}

function tiles(state) {
  const jobs = [...state.jobs.values()],
    days = state.spending ?? [],
    today = days[0];
  const week = (key) => days.reduce((n, d) => n + (Number(d[key]) || 0), 0);
  const kernels = [...state.kernels.values()],
    measured = kernels.filter(isMeasured).length,
    plus = state.kernelsNext ? '+' : '',
    newest = state.kernelsNext ? `; of the newest ${kernels.length}` : '';
  const well = state.devices.filter((d) => d.healthy !== false).length;
  const tile = (figure, label, sub, href) =>
    el(href ? 'a' : 'div', { class: 'tile', href }, el('b', null, figure), el('span', null, label), sub ? el('small', null, sub) : null);
  const queued = jobs.filter((j) => j.state === 'queued').length,
    won = typical(kernels),
    cards = state.devices.filter((d) => d.kind === 'cuda').length;
  return [
    tile(
      `${jobs.filter((j) => j.state === 'running').length}${state.liveMore ? '+' : ''}`,
      'jobs running',
      `${queued ? `${queued}${state.liveMore ? '+' : ''} queued` : 'none waiting'}${today ? `; ${count(today.candidates)} candidates today` : ''}`,
    ),
    tile(
      won ? `${won.measured ? '' : '≈ '}${factorText(won)}` : '–',
      'typical speed-up',
      won ? `${won.measured ? 'measured' : 'estimated'}; the best ${won.measured ? '' : '≈ '}${factorText({ median: won.most })}${newest}` : 'nothing beat its baseline yet',
      '#/kernels',
    ),
    tile(`${kernels.length}${plus}`, 'kernels served', `${measured} measured, ${kernels.length - measured} estimated${newest}`, '#/kernels'),
    tile(
      today ? seconds(today.gpu_seconds) : '–',
      'GPU time today',
      cards || week('gpu_seconds') ? `${seconds(week('gpu_seconds'))} in seven days (UTC)` : 'the emulator uses no card',
    ),
    tile(
      today ? count(today.tokens) : '–',
      'tokens today',
      today ? `${count(week('tokens'))} in seven days` : '',
    ),
    tile(
      `${well} of ${state.devices.length}`,
      'devices healthy',
      cards ? `${cards} card${cards > 1 ? 's' : ''}: times are measured` : 'emulator only: all times are estimates',
      '#/devices',
    ),
  ];
}

/** Of jobs that were measured beside the operators' baselines: speed-ups over a job's own are of another kind. */
export function shapeRows(state) {
  const rows = new Map();
  for (const job of sortedJobs(state)) {
    if (overText(null, job)) continue;
    for (const s of job.shapes ?? []) {
      const best = job.best.get(s.shape_hash);
      if (best && !rows.has(s.shape_hash))
        rows.set(s.shape_hash, {
          hash: s.shape_hash,
          shape: s.shape,
          best,
          job,
          live: !ended(job),
          at: state.moves.get(s.shape_hash)?.at(-1)?.id ?? 0,
        });
    }
  }
  return [...rows.values()].sort((a, b) => Number(b.live) - Number(a.live) || b.at - a.at).slice(0, 12);
}

function shapes(state) {
  const rows = shapeRows(state);
  if (!rows.length) return empty('No shape has a verified kernel yet', 'The baseline of a shape is the first one.');
  const most = Math.max(2, ...rows.map((r) => speedup(r.best)?.median ?? 0));
  return el(
    'ul',
    { class: 'bars' },
    rows.map((r) => {
      const s = speedup(r.best),
        moves = (state.moves.get(r.hash) ?? []).filter((m) => !overText(m));
      return el(
        'li',
        null,
        el(
          'div',
          { class: 'bar-name' },
          link(state.kernels.has(r.hash) ? kernelHref(r.hash) : jobHref(r.job.id), r.shape?.op ?? '?'),
          el('span', { class: 'mono small muted clip' }, axesText(r.shape?.axes)),
        ),
        el(
          'div',
          { class: `bar ${isMeasured(r.best) ? 'measured' : 'estimate'}` },
          el('i', { size: { width: `${Math.min(100, ((s?.median ?? 0) / most) * 100)}%` } }),
          el('u', { size: { left: `${(1 / most) * 100}%` }, title: 'the baseline' }),
        ),
        el(
          'div',
          { class: 'bar-figure' },
          el('b', null, speedupText(r.best)),
          ' ',
          evidenceBadge(r.best),
          sparkline(
            moves.map((m) => speedup(m)?.median ?? 1),
            'How it moved',
          ),
        ),
      );
    }),
  );
}

function promoted(state) {
  const known = new Map([...state.promoted].map(([hash, p]) => [hash, { ...p, since: p.time }]));
  for (const k of state.kernels.values()) if (!known.has(k.shape_hash)) known.set(k.shape_hash, { ...k, since: k.served_since });
  const list = [...known.values()].sort((a, b) => (b.since ?? '').localeCompare(a.since ?? '')).slice(0, 8);
  if (!list.length)
    return empty('No kernel here yet', 'A kernel appears as soon as its first candidate, or the baseline, has been verified.');
  return table(
    'Last promoted kernels',
    ['Shape', { title: 'Speed-up', num: true }, { title: 'Time', num: true }, { title: 'Evidence', cls: 'when' }],
    list.map((p) => {
      const k = state.kernels.get(p.shape_hash) ?? p,
        s = speedup(p);
      return [
        [
          link(kernelHref(p.shape_hash), k.shape?.op ?? k.op ?? String(p.shape_hash).slice(0, 12)),
          el('div', { class: 'mono small muted clip' }, axesText(k.shape?.axes)),
        ],
        [el('b', null, speedupText(p)), intervalText(s) ? el('div', { class: 'small muted' }, intervalText(s)) : null],
        timeText(p),
        [evidenceBadge(p), el('div', { class: 'small muted' }, p.is_baseline ? 'baseline, ' : '', ago(p.since))],
      ];
    }),
    { dataset: { scroll: 'promoted' } },
  );
}

/** Which judgement works on a device: the phases say so. Where they do not, what runs is on the only one there is. */
function useOf(d, now, only) {
  const mine = now.filter((c) => (c.device ? c.device === d.id : only));
  return mine.length
    ? el(
        'p',
        { class: 'small' },
        el('span', { class: 'state', dataset: { state: 'running' } }, 'in use'),
        ' ',
        mine.map((c, i) => [i ? ', ' : '', link(candidateHref(c.id), c.baseline ? 'a baseline' : 'a candidate'), ` (${c.phase})`]),
      )
    : el('p', { class: 'small muted' }, 'Idle');
}

function devices(state) {
  if (!state.devices.length) return el('p', { class: 'muted' }, 'The service has not heard from its judge yet.');
  const now = [...state.work.values()].map((w) => w.now).filter(Boolean);
  return el(
    'div',
    { class: 'cards tight' },
    state.devices.map((d) =>
      el(
        'div',
        { class: 'card' },
        el(
          'div',
          { class: 'row spread' },
          el('b', null, d.name ?? d.kind),
          el('span', { class: 'state', dataset: { state: d.healthy === false ? 'failed' : 'ok' } }, d.health ?? 'unknown'),
        ),
        el(
          'p',
          { class: 'small muted' },
          d.kind === 'cuda' ? 'A card: times are measured.' : 'The emulator: results are checked, times are estimates.',
        ),
        useOf(d, now, state.devices.length === 1),
      ),
    ),
  );
}

function endedJobs(state, jobs) {
  if (!jobs.length) return el('p', { class: 'muted' }, 'None yet.');
  return table(
    'Ended jobs',
    [
      'Job',
      'State',
      { title: 'Best', num: true },
      { title: 'Candidates', num: true },
      { title: 'GPU time', num: true },
      { title: 'When', cls: 'when' },
    ],
    jobs.slice(0, 20).map((job) => {
      const best = bestOf(job);
      return [
        [
          link(jobHref(job.id), job.op === '*' ? (job.model?.preset ?? 'several') : (job.op ?? '?')),
          el('div', { class: 'mono small muted clip' }, shapesText(job)),
        ],
        stateBadge(job.state),
        [best ? speedupText(best) : '–', ' ', evidenceBadge(best), overText(best, job) && el('div', { class: 'small muted' }, overText(best, job))],
        count(job.spent?.candidates ?? 0),
        seconds(job.spent?.gpu_seconds ?? 0),
        ago(job.finished ?? job.created),
      ];
    }),
    { dataset: { scroll: 'ended' } },
  );
}

export function overview(ctx) {
  const top = part(el('div', { class: 'tiles' }), tiles),
    running = part(el('div'), (state, jobs) =>
      jobs.length
        ? el(
            'div',
            { class: 'cards fit' },
            jobs.map((j) => jobCard(state, j)),
          )
        : el(
            'div',
            { class: 'idle' },
            el('p', null, 'Nothing runs. ', link('#/submit', 'Submit a shape'), ', or from a shell:'),
            el('pre', { tabindex: 0, 'aria-label': 'Example' }, 'proteus submit --op gdn_packed_decode --axes B=4,H=2,HV=8,K=128,V=128'),
          ),
    );
  const shapeBox = part(el('div'), shapes),
    promotedBox = part(el('div'), promoted),
    deviceBox = part(el('div'), devices),
    endedBox = part(el('div'), endedJobs);
  const section = (title, box, cls) => el('section', { class: `panel ${cls ?? ''}`, 'aria-label': title }, el('h2', null, title), box.node);
  let minute = 0;
  return {
    title: 'Overview',
    ages: true,
    tick: () => {
      minute++;
    },
    nodes: [
      el('h1', { class: 'quiet' }, 'Overview'),
      top.node,
      section('Running and queued', running),
      el('div', { class: 'two' }, section('Best speed-up by shape', shapeBox), section('Last promoted kernels', promotedBox)),
      el('div', { class: 'two wide-right' }, section('Devices', deviceBox), section('Ended jobs', endedBox)),
    ],
    update() {
      const { state } = ctx;
      if (!ctx.feed.ready) return;
      const jobs = sortedJobs(state),
        active = jobs
          .filter((j) => !ended(j))
          .sort((a, b) => Number(b.state === 'running') - Number(a.state === 'running'))
          .slice(0, 24),
        past = jobs.filter(ended);
      const sign = (list) => list.map((j) => `${j.id}${j.state}${j.lastEvent}`).join();
      const live = active
        .map((j) => {
          const w = state.work.get(j.id);
          return `${w?.judged} ${w?.now?.id} ${w?.now?.phase} ${w?.now?.phaseMode} ${w?.now?.device}`;
        })
        .join();
      const lastMove = [...state.moves.values()].reduce((n, m) => Math.max(n, m.at(-1).id), 0);
      top.update(`${minute} ${sign(jobs)} ${state.kernelTick} ${state.devices.map((d) => d.healthy)} ${JSON.stringify(state.spending)}`, state);
      running.update(`${minute} ${sign(active)} ${live} ${lastMove}`, state, active);
      shapeBox.update(`${sign(jobs)} ${lastMove} ${state.kernels.size}`, state);
      promotedBox.update(`${minute} ${lastMove} ${state.kernelTick}`, state);
      deviceBox.update(`${live} ${JSON.stringify(state.devices.map((d) => [d.id, d.health]))}`, state);
      endedBox.update(`${minute} ${sign(past)}`, state, past);
    },
  };
}

export { shapesText };
