// A candidate: what it is, what the judge said and why, what it costs and how it compares.
import { get, getText, post } from '../lib/api.js';
import { el, replace } from '../lib/dom.js';
import { ago, bytes, count, duration, KINDS, number, overText, percent, shapeText, speedup, timeText, verdictKind } from '../lib/format.js';
import { takeCandidate, workOf } from '../lib/state.js';
import { codeView, diffView, excerpt, offendingLines } from './code.js';
import { timeline } from './charts.js';
import { phaseSteps } from './overview.js';
import { profilePanel } from './profile.js';
import { timingPanels } from './timing.js';
import { checkList, checksOf, checksSummary, missingList } from './trust.js';
import {
  bestFigure,
  button,
  candidateHref,
  chips,
  facts,
  failure,
  jobHref,
  kernelHref,
  link,
  panel,
  safely,
  stateBadge,
  table,
  verdictBadge,
  waiting,
} from './parts.js';

const FAULT = { candidate: 'The candidate is at fault.', nobody: 'Nobody is at fault.' };
const gpuOf = (f) => (typeof f.gpu_ns === 'number' ? f.gpu_ns : f.gpu_ns?.all);
const MAX_CERTIFICATE = 8 << 20;
const pretty = (doc) => JSON.stringify(doc, null, 2);

function detailRows(detail) {
  return Object.entries(detail ?? {})
    .filter(([k, v]) => k !== 'log' && v !== null && (typeof v !== 'object' || JSON.stringify(v).length < 400))
    .slice(0, 24)
    .map(([k, v]) => [
      k.replaceAll('_', ' '),
      el('code', null, typeof v === 'object' ? JSON.stringify(v) : typeof v === 'number' ? number(v) : String(v)),
    ]);
}

/** What the judgement does without stands in the certificate, which is read for it. */
function missingOf(doc) {
  const digest = doc.artifacts?.['certificate.json']?.digest,
    box = el('div');
  if (digest)
    getText(`/v1/artifacts/${encodeURIComponent(digest)}`).then(
      (text) => replace(box, text.length < MAX_CERTIFICATE ? safely(() => missingList(JSON.parse(text))) : null),
      (e) => replace(box, el('p', { class: 'small muted' }, `Its certificate could not be read: ${e.message}`)),
    );
  return box;
}

function verdictPanel(doc) {
  const v = doc.verdict;
  if (!v) return panel('Verdict', null, el('p', null, 'It is being judged.'));
  const marks = offendingLines(v);
  const rows = detailRows(v.detail);
  return panel(
    'Verdict',
    null,
    el(
      'p',
      { class: v.code === 'ok' ? 'fine' : verdictKind(v.code) === 'correct' ? 'warn' : 'error' },
      el('b', null, `${KINDS[verdictKind(v.code)].mark} ${v.for_person ?? v.code}`),
    ),
    v.text && v.text !== v.for_person ? el('p', null, v.text) : null,
    v.code === 'ok'
      ? el('div', null, el('h3', null, `Why it can be trusted: ${checksSummary(checksOf(doc))}`), checkList(doc), missingOf(doc))
      : el('p', { class: 'small muted' }, `Said by the phase ${v.phase ?? '?'}. ${FAULT[v.fault] ?? ''} ${v.for_generator ?? ''}`),
    marks.size ? excerpt(doc.candidate?.language, doc.candidate?.source ?? '', marks) : null,
    rows.length
      ? el('details', { open: rows.length < 12, dataset: { key: 'figures' } }, el('summary', null, 'Figures of the fault'), facts(rows))
      : null,
    typeof v.detail?.log === 'string'
      ? el(
          'details',
          { dataset: { key: 'log' } },
          el('summary', null, 'Log of the compiler'),
          el('pre', { tabindex: 0, 'aria-label': 'Log' }, v.detail.log),
        )
      : null,
    doc.decision ? el('p', { class: 'warn' }, `${doc.decision.decision} by ${doc.decision.by}: ${doc.decision.reason}`) : null,
  );
}

function resources(doc) {
  const list = doc.figures?.resources;
  if (!Array.isArray(list)) return null;
  const sums = doc.figures?.counts ?? [];
  return panel(
    'Resources',
    null,
    table(
      'Resources of each kernel',
      ['Kernel', ...['Registers', 'Shared memory', 'Local memory', 'Spills'].map((title) => ({ title, num: true }))],
      list.map((r) => [
        el('code', null, r.kernel),
        r.registers,
        bytes(r.shared_bytes),
        bytes(r.local_bytes),
        r.spill_bytes > 0 ? el('b', null, `⚠ ${bytes(r.spill_bytes)}`) : bytes(r.spill_bytes),
      ]),
    ),
    Array.isArray(sums) && sums.length
      ? el(
          'details',
          { dataset: { key: 'counts' } },
          el('summary', null, 'What the emulator counted'),
          sums.slice(0, 16).map((c) =>
            facts(
              Object.entries(c)
                .filter(([, v]) => typeof v === 'number')
                .map(([k, v]) => [k.replaceAll('_', ' '), count(v)]),
            ),
          ),
        )
      : null,
  );
}

/** Plan, with its numbers as written: what is launched, how wide, with which arguments. */
export function planTable(plan) {
  const steps = Array.isArray(plan?.steps) ? plan.steps : [];
  const size = (v) => (Array.isArray(v) ? v.join(' × ') : String(v ?? ''));
  return [
    steps.length
      ? table(
          'Launch plan',
          ['#', 'Kernel', 'Grid', 'Block', 'Cluster', 'Shared', 'Arguments'],
          steps.map((s, i) =>
            s.memset
              ? [i + 1, `set ${s.memset} to ${s.value}`, '', '', '', '', '']
              : [
                  i + 1,
                  el('code', null, s.kernel ?? ''),
                  el('code', null, size(s.grid)),
                  el('code', null, size(s.block)),
                  el('code', null, size(s.cluster ?? '')),
                  el('code', null, size(s.shared_bytes ?? '0')),
                  el('code', null, size(s.args).replaceAll(' × ', ', ')),
                ],
          ),
        )
      : null,
    Array.isArray(plan?.workspace) && plan.workspace.length
      ? facts(plan.workspace.map((w) => [`workspace ${w.name}`, el('code', null, `${w.bytes} bytes`)]))
      : null,
  ];
}

/** The baseline's source: of the candidate that the job judged first for this shape. */
async function baselineOf(ctx, doc) {
  const job = ctx.state.jobs.get(doc.job) ?? (await ctx.feed.readJob(doc.job));
  const id = job?.shapes?.find((s) => s.shape_hash === doc.shape_hash)?.baseline?.candidate;
  return id ? get(`/v1/candidates/${encodeURIComponent(id)}`) : null;
}

function sourcePanel(ctx, doc) {
  const c = doc.candidate ?? {},
    source = typeof c.source === 'string' ? c.source : '',
    marks = offendingLines(doc.verdict),
    parent = c.parent ?? doc.origin?.parent;
  const box = el('div'),
    tabs = el('div', { class: 'tabs', role: 'group', 'aria-label': 'What is shown' });
  const compare = async (what, find) => {
    replace(box, waiting(what));
    try {
      const other = await find();
      replace(
        box,
        other
          ? [
              el('p', { class: 'small' }, `Against ${what}: `, link(candidateHref(other.id), other.id)),
              params(other.candidate, c),
              diffView(c.language, other.candidate?.source ?? '', source, `Difference to ${what}`),
            ]
          : el('p', { class: 'muted' }, `There is no ${what}.`),
      );
    } catch (e) {
      replace(box, failure(e));
    }
  };
  const views = [
    ['Source', () => replace(box, codeView(c.language, source, marks))],
    parent && ['Diff to the parent', () => compare('the parent', () => get(`/v1/candidates/${encodeURIComponent(parent)}`))],
    !doc.is_baseline && ['Diff to the baseline', () => compare('the baseline', () => baselineOf(ctx, doc))],
    doc.artifacts?.['kernel.ptx']?.digest && [
      'PTX',
      async () => {
        replace(box, waiting('PTX'));
        try {
          replace(
            box,
            codeView('ptx', await getText(`/v1/artifacts/${encodeURIComponent(doc.artifacts['kernel.ptx'].digest)}`), new Map(), 'PTX'),
          );
        } catch (e) {
          replace(box, failure(e));
        }
      },
    ],
  ].filter(Boolean);
  const choose = (i) => {
    [...tabs.children].forEach((b, k) => b.setAttribute('aria-pressed', String(k === i)));
    views[i][1]();
  };
  tabs.append(...views.map(([name], i) => button(name, () => choose(i), { 'aria-pressed': 'false' })));
  choose(0);
  return panel(c.language === 'triton' ? 'Source (Triton)' : c.language === 'ptx' ? 'Source (PTX)' : 'Source (CUDA C++)', null, tabs, box);
}

function params(before, after) {
  const a = before?.defines ?? {},
    b = after?.defines ?? {},
    names = [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((k) => a[k] !== b[k]);
  return names.length
    ? el(
        'p',
        null,
        'Parameters: ',
        el(
          'span',
          { class: 'chips' },
          names.slice(0, 30).map((k) => el('span', { class: 'chip' }, el('b', null, k), `${a[k] ?? '–'} → ${b[k] ?? '–'}`)),
        ),
      )
    : null;
}

const stillJudged = (doc) => !doc.verdict;
/** What waits for an admin: only what the judge itself held, and nobody has decided on. */
export const isHeld = (doc) => doc?.verdict?.code === 'implausible' && doc.verdict.detail?.held === true && !doc.decision;

export function candidate(ctx, id) {
  const head = el('div'),
    body = el('div'),
    close = [],
    live = el('div');
  let doc = null,
    loading = false,
    loadedAt = 0,
    liveSign = '',
    gone = false;

  /** An admin's decision, with the reason that stands beside it from then on. */
  function decision() {
    const reason = el('input', { type: 'text', id: 'decide-reason', maxlength: 500, autocomplete: 'off' });
    const decide = (what) => async () => {
      if (!reason.value.trim()) {
        reason.setAttribute('aria-invalid', 'true');
        reason.focus();
        return;
      }
      try {
        await post(`/v1/candidates/${encodeURIComponent(id)}/${what}`, { reason: reason.value.trim() });
        await load();
      } catch (e) {
        ctx.tell(e);
      }
    };
    return el(
      'div',
      null,
      el('p', { class: 'small' }, 'It is held until an admin decides.'),
      el('div', { class: 'field' }, el('label', { for: 'decide-reason' }, 'Reason'), reason),
      el('div', { class: 'row wrap' }, button('Release', decide('release')), button('Refuse', decide('refuse'), { class: 'small danger' })),
    );
  }

  function heading() {
    const c = doc.candidate ?? {},
      shape = ctx.state.jobs.get(doc.job)?.shapes?.find((s) => s.shape_hash === doc.shape_hash)?.shape;
    replace(
      head,
      el('p', { class: 'small' }, link(jobHref(doc.job), '← the job')),
      el(
        'div',
        { class: 'row spread wrap' },
        el('h1', null, doc.is_baseline ? 'Baseline ' : 'Candidate ', el('span', { class: 'mono' }, String(doc.id).slice(-8))),
        el('div', { class: 'row' }, verdictBadge(doc.verdict?.code, doc.state), stateBadge(doc.state)),
      ),
      el('p', { class: 'mono small' }, shape ? shapeText(shape) : (doc.op ?? '')),
      c.notes ? el('p', null, c.notes) : null,
      chips(c.defines),
    );
  }

  function draw() {
    while (close.length) close.pop().close();
    heading();
    const f = doc.figures,
      s = speedup(f);
    replace(
      body,
      el(
        'div',
        { class: 'two wide-left' },
        safely(() => verdictPanel(doc)),
        el(
          'section',
          { class: 'panel', 'aria-label': 'Figures' },
          el('h2', null, 'Figures'),
          f?.time_ns > 0
            ? bestFigure({ ...f, is_baseline: doc.is_baseline }, overText(f))
            : el('p', { class: 'muted' }, 'No time: it did not come so far.'),
          facts([
            [overText(f) ? "the job's own baseline" : 'baseline', !doc.is_baseline && f?.baseline_ns > 0 && timeText(f, f.baseline_ns)],
            ['decided', f?.decision && `${f.decision}${f.statistics?.pairs ? `, by ${count(f.statistics.pairs)} pairs at ${percent(f.statistics.confidence)} confidence` : ''}`],
            ['device', doc.device?.name],
            ['bound by', f?.bound],
            ['cost', f?.judge_wall_ns > 0 && `${duration(f.judge_wall_ns)} of judging${gpuOf(f) > 0 ? `, ${duration(gpuOf(f))} of them on the card` : ''}`],
            ['judged', ago(doc.judged)],
            [
              'parent',
              (doc.candidate?.parent ?? doc.origin?.parent) &&
                link(
                  candidateHref(doc.candidate?.parent ?? doc.origin.parent),
                  String(doc.candidate?.parent ?? doc.origin.parent).slice(-8),
                ),
            ],
            [
              'lessons',
              doc.candidate?.lessons?.length
                ? doc.candidate.lessons.map((l, i) => [i ? ', ' : '', link(`#/knowledge/${encodeURIComponent(l)}`, String(l).slice(-8))])
                : null,
            ],
            ['kernel', doc.verdict?.code === 'ok' && !overText(f) && link(kernelHref(doc.shape_hash), 'what is served for its shape')],
          ]),
          isHeld(doc) ? decision() : null,
        ),
      ),
      safely(() => timingPanels(f, s, f, close)),
      safely(() =>
        Array.isArray(doc.phases) && doc.phases.length
          ? panel('Phases', null, el('p', { class: 'small muted' }, 'What each step of the judgement took, one after another: admit looks at the launch plan, probe launches the kernel again and again.'), timeline(doc.phases))
          : null,
      ),
      sourcePanel(ctx, doc),
      panel(
        'Launch plan',
        null,
        safely(() => planTable(doc.candidate?.plan)),
        el(
          'details',
          { dataset: { key: 'raw' } },
          el('summary', null, 'As it was sent'),
          el('pre', { tabindex: 0, 'aria-label': 'Plan, options and declarations' }, pretty({ ...doc.candidate, source: undefined })),
        ),
      ),
      safely(() => resources(doc)),
      safely(() => profilePanel(doc.profile, doc.candidate?.plan)),
    );
  }

  async function load() {
    if (loading) return;
    loading = true;
    try {
      const fresh = await get(`/v1/candidates/${encodeURIComponent(id)}`);
      if (gone) return;
      loadedAt = fresh.as_of ?? 0;
      takeCandidate(ctx.state, fresh.job, fresh, fresh.as_of);
      const same = doc && ['verdict', 'decision', 'state', 'profile'].every((k) => JSON.stringify(doc[k]) === JSON.stringify(fresh[k]));
      doc = fresh;
      if (!ctx.state.jobs.has(doc.job)) await ctx.feed.readJob(doc.job).catch(() => {});
      if (!same && !gone) draw();
    } catch (e) {
      replace(body, failure(e));
    } finally {
      loading = false;
      ctx.draw();
    }
  }

  replace(body, waiting('the candidate'));
  load();
  return {
    title: 'Candidate',
    nodes: [head, live, body],
    update() {
      if (!doc) return;
      const c = workOf(ctx.state, doc.job).byId.get(id);
      if (c && stillJudged(doc)) {
        const sign = `${c.phase} ${c.phaseMode} ${c.phaseState}`;
        if (sign !== liveSign) {
          liveSign = sign;
          replace(live, panel('Being judged', null, phaseSteps(c)));
        }
        if (c.verdict && c.lastEvent > loadedAt) load();
      } else if (live.firstChild) replace(live);
    },
    close() {
      gone = true;
      while (close.length) close.pop().close();
    },
  };
}
