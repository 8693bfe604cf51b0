// A job: its shapes, its search, its candidates, what it has spent.
import { get, post } from '../lib/api.js';
import { el, part } from '../lib/dom.js';
import { LongTable } from '../lib/table.js';
import { ago, factorText, KINDS, overText, servingText, shapeText, speedup, speedupText, timeText, verdictKind } from '../lib/format.js';
import { candidatesOf, ended, progressOf, workOf } from '../lib/state.js';
import { budgetRows, Lineage, Log, shapeGrid } from './jobparts.js';
import { SearchPlot } from './jobplot.js';
import { phaseSteps } from './overview.js';
import { checkList, checksOf, checksSummary, howJudged } from './trust.js';
import {
  bestFigure,
  button,
  candidateHref,
  chips,
  empty,
  evidenceBadge,
  failure,
  kernelHref,
  legend,
  link,
  panel,
  progressBar,
  stateBadge,
  verdictBadge,
  waiting,
} from './parts.js';

const PATIENCE = 30; // what takes long is drawn so much more seldom

function heading(ctx, job) {
  const cancel = () =>
    post(`/v1/jobs/${encodeURIComponent(job.id)}/cancel`)
      .then(() => ctx.feed.fetchLater({ job: job.id }))
      .catch(ctx.tell);
  return [
    el(
      'div',
      { class: 'row spread wrap' },
      el('h1', null, job.op === '*' ? `${job.model?.preset ?? 'Observed shapes'}: ${job.shapes?.length} shapes` : job.op),
      el(
        'div',
        { class: 'row wrap' },
        stateBadge(job.state),
        ended(job) ? null : button('Cancel', cancel),
        el('a', { class: 'button', href: `#/submit?from=${encodeURIComponent(job.id)}`, dataset: { key: 'again' } }, 'Submit again'),
      ),
    ),
    el(
      'div',
      { class: 'row wrap' },
      job.shapes?.length === 1 ? chips(job.shapes[0].shape?.axes) : null,
      el('span', { class: 'chip' }, el('b', null, 'target'), job.target ?? ''),
      el('span', { class: 'chip' }, el('b', null, 'generator'), job.generator ?? ''),
      el('span', { class: 'muted small' }, `${job.id} · submitted ${ago(job.created)}`),
    ),
    job.error ? el('p', { class: 'error' }, job.error.text ?? String(job.error)) : null,
  ];
}

/** Of all shapes together, where there are several. */
function outcome(job) {
  const shapes = job.shapes ?? [],
    beaten = shapes.map((s) => job.best.get(s.shape_hash)).filter((b) => b && !b.is_baseline && speedup(b)?.median > 1);
  if (shapes.length < 2) return null;
  const list = beaten.map((b) => speedup(b).median),
    all = beaten.every((b) => b.evidence === 'measured');
  return el(
    'p',
    null,
    el('b', null, `${beaten.length} of ${shapes.length} shapes`),
    ` have a kernel that is faster than ${overText(null, job) ? "the job's own baseline" : 'the baseline'}`,
    list.length ? `: ${all ? '' : '≈ '}${factorText({ median: Math.min(...list) })} to ${all ? '' : '≈ '}${factorText({ median: Math.max(...list) })}` : '',
    '. Of the shape chosen below:',
  );
}

/** What won, and why it can be believed: the phases that the best one went through. */
function winner(job, shape, record) {
  const best = job.best.get(shape?.shape_hash),
    checks = record ? checksOf(record) : [];
  return [
    outcome(job),
    el('div', { class: 'muted small mono' }, shapeText(shape?.shape)),
    bestFigure(best, overText(best, job)),
    best && overText(best, job) ? el('p', { class: shape.serving?.served === true ? null : 'warn' }, servingText(job, shape)) : null,
    best
      ? el(
          'p',
          null,
          link(
            candidateHref(best.candidate),
            best.is_baseline ? 'the baseline itself: nothing beat it yet' : 'its source, verdict and figures',
          ),
          overText(best, job) && shape.serving?.served !== true ? null : [' · ', link(kernelHref(shape.shape_hash), 'certificate and files')],
        )
      : null,
    record
      ? el(
          'details',
          { dataset: { key: 'why' }, open: true },
          el('summary', null, 'Why it can be trusted', checks.length ? `: ${checksSummary(checks)}` : ''),
          checkList(record),
          el(
            'p',
            { class: 'small muted' },
            howJudged(record),
          ),
        )
      : null,
    shape?.why_ended ? el('p', { class: 'small' }, `The search ended: ${shape.why_ended}`) : null,
  ];
}

const columns = [
  {
    title: '#',
    cls: 'num',
    cell: (c) =>
      link(candidateHref(c.id), c.baseline ? 'base' : String(c.number ?? ''), {
        'aria-label': c.baseline ? null : `Candidate ${c.number}`,
      }),
  },
  { title: 'Verdict', cell: (c) => verdictBadge(c.verdict, c.phase) },
  { title: 'Speed-up', cls: 'num', cell: (c) => speedupText(c) },
  { title: 'Time', cls: 'num', cell: (c) => timeText(c) },
  { title: 'Evidence', cell: (c) => evidenceBadge(c) },
  { title: 'Why', cls: 'why', cell: (c) => (c.verdict && !['ok'].includes(c.verdict) && c.text ? c.text : (c.notes ?? '')).slice(0, 300) },
];

export function job(ctx, id) {
  const { feed } = ctx;
  const asked = { state: null, best: null };
  let shown = null,
    record = null,
    chosen = null,
    problem = null,
    filter = '',
    acted = false;
  const head = part(el('div', { class: 'job-head' }), () => heading(ctx, shown));
  const body = el('div', { class: 'job-body' });
  const top = part(el('section', { class: 'panel', 'aria-label': 'Best' }), () => [
    el('h2', null, 'What won'),
    winner(shown, shapeNow(), record),
  ]);
  const spent = part(el('section', { class: 'panel', 'aria-label': 'Budget' }), (judged, accepted, now) => [
    el('h2', null, 'What it cost'),
    budgetRows(shown, judged),
    el(
      'div',
      { class: 'row spread small' },
      el('span', null, 'The whole job'),
      el('span', { class: 'num' }, `${judged} judged, ${accepted} accepted`),
    ),
    progressBar(progressOf(ctx.state, shown), 'Progress'),
    now ? [el('h3', null, now.baseline ? 'Judging the baseline' : `Judging candidate ${now.number ?? ''}`), phaseSteps(now)] : null,
  ]);
  const grid = part(el('div'), () =>
    shown.shapes?.length > 1
      ? panel(
          'Shapes',
          null,
          el('p', { class: 'small muted' }, `Speed-up ${overText(null, shown) || 'over the baseline of each shape'}. Choose one to see its search.`),
          shapeGrid(shown, shapeNow()?.shape_hash, (hash) => {
            chosen = hash;
            asked.best = null;
            record = null;
            acted = true;
            ctx.draw();
          }),
        )
      : [],
  );
  const plot = new SearchPlot((cand) => ctx.go(candidateHref(cand)));
  const key = part(el('div'), (read) =>
    Object.keys(plot.counts ?? {}).length
      ? legend(plot.counts)
      : !read
        ? el('p', { class: 'muted' }, 'The candidates are being read…')
        : el('p', { class: 'muted' }, 'No candidate yet: only the baseline, or what was known already.'),
  );
  const filters = part(el('div', { class: 'row wrap', role: 'group', 'aria-label': 'Filter of candidates' }), (counts) =>
    ['', ...Object.keys(counts)].map((k) =>
      button(
        k ? `${KINDS[k].mark} ${KINDS[k].label}` : 'All',
        () => {
          filter = k;
          acted = true;
          ctx.draw();
        },
        { 'aria-pressed': String(filter === k), dataset: { key: `filter-${k}` } },
      ),
    ),
  );
  const table = new LongTable({
    label: 'Candidates',
    columns,
    rowClass: (c) => (c.id === shown?.best.get(shapeNow()?.shape_hash)?.candidate ? 'best-row' : null),
  });
  const lineage = new Lineage();
  const name = (cand) => {
    const c = workOf(ctx.state, id).byId.get(cand);
    return c?.baseline ? 'baseline' : c?.number ? `#${c.number}` : cand.slice(-6);
  };
  const log = new Log('Log', (e) => e.job === id, name);
  const phases = button(
    'Show phases',
    () => {
      log.phases = !log.phases;
      phases.setAttribute('aria-pressed', String(log.phases));
      log.clear();
      ctx.draw();
    },
    { 'aria-pressed': 'false' },
  );
  body.append(
    el('div', { class: 'two wide-left' }, top.node, spent.node),
    grid.node,
    panel('The search', null, plot.node, key.node),
    panel('Candidates', null, filters.node, table.node),
    el(
      'div',
      { class: 'two' },
      panel('Lineage', null, lineage.node),
      el(
        'section',
        { class: 'panel', 'aria-label': 'Live log' },
        el('div', { class: 'row spread' }, el('h2', null, 'Live log'), phases),
        log.node,
      ),
    ),
  );
  const wait = el('div', null, waiting('the job'));
  let missing = false;

  const shapeNow = () => shown?.shapes?.find((s) => s.shape_hash === chosen) ?? shown?.shapes?.[0];

  function ask(state) {
    if (asked.state !== state) {
      // first, and after everything was read anew
      asked.state = state;
      problem = null;
      feed.readJob(id).then(
        () => ctx.draw(),
        (e) => {
          problem = e;
          ctx.draw();
        },
      );
      feed.readCandidates(id).catch(ctx.tell);
    }
    const best = shown?.best.get(shapeNow()?.shape_hash)?.candidate;
    if (best && asked.best !== best) {
      asked.best = best;
      get(`/v1/candidates/${encodeURIComponent(best)}`).then(
        (doc) => {
          if (asked.best === best) {
            record = doc;
            ctx.draw();
          }
        },
        () => {},
      );
    }
  }

  // What costs with the number of candidates: one of these a frame, and none more often than its own cost allows.
  const drawPlot = (list, shape) => {
    plot.set(list, shape);
    plot.node.hidden = !Object.keys(plot.counts).length;
    const read = Boolean(workOf(ctx.state, id).all);
    key.update(`${JSON.stringify(plot.counts)} ${read}`, read);
    filters.update(`${JSON.stringify(Object.keys(plot.counts))} ${filter}`, plot.counts);
  };
  const drawTable = (list, shape) => {
    const rows = [];
    for (let i = list.length - 1; i >= 0; i--) {
      const c = list[i];
      if ((!shape || c.shape_hash === shape) && (!filter || (verdictKind(c.verdict) === filter && !c.baseline))) rows.push(c);
    }
    table.set(rows);
  };
  const drawTree = (list, shape) => lineage.set(list, shape, shown.best.get(shapeNow()?.shape_hash)?.candidate);
  const tasks = [
    [drawTable, 300],
    [drawPlot, 400],
    [drawTree, 800],
  ].map(([run, every]) => ({ run, every, sign: null, due: 0 }));
  let later = 0;

  function heavy(state, work) {
    const list = candidatesOf(state, id),
      shape = shown.shapes?.length > 1 ? shapeNow()?.shape_hash : null,
      sign = `${work.tick} ${filter} ${shape}`;
    const first = tasks.some((t) => t.sign === null);
    let left = false;
    for (const task of tasks) {
      if (task.sign === sign) continue;
      const begun = performance.now();
      if (!first && !acted && (left || begun < task.due)) {
        left = true;
        continue;
      }
      task.sign = sign;
      task.run(list, shape);
      task.due = begun + Math.max(task.every, (performance.now() - begun) * PATIENCE);
      left = true;
    }
    acted = false;
    if (left) {
      clearTimeout(later);
      later = setTimeout(ctx.draw, 120);
    }
    if (work.all) log.before(list);
  }

  return {
    title: 'Job',
    ages: true,
    nodes: [head.node, wait],
    update() {
      const { state } = ctx;
      if (!feed.ready) return;
      ask(state);
      shown = state.jobs.get(id) ?? null;
      if (!shown) {
        if (problem && !missing) {
          missing = true;
          wait.replaceChildren(failure(problem), empty('No such job', 'It may be of another service, or the address is cut.'));
        }
        return;
      }
      if (wait.isConnected) {
        wait.replaceWith(body);
      }
      const work = workOf(state, id),
        s = shapeNow();
      head.update(`${shown.state} ${JSON.stringify(shown.error ?? 0)} ${Math.floor(Date.now() / 60000)}`);
      const best = shown.best.get(s?.shape_hash);
      top.update(`${s?.shape_hash} ${s?.why_ended} ${JSON.stringify(s?.serving ?? 0)} ${JSON.stringify(best ?? 0)} ${record?.id} ${record?.state}`);
      spent.update(
        `${work.judged} ${JSON.stringify(shown.spent)} ${shown.state} ${work.now?.id} ${work.now?.phase} ${work.now?.phaseMode}`,
        work.judged,
        work.accepted,
        work.now,
      );
      grid.update(`${chosen} ${(shown.shapes ?? []).map((x) => `${x.state}${JSON.stringify(shown.best.get(x.shape_hash) ?? 0)}`).join()}`);
      heavy(state, work);
      log.set(state);
    },
    close() {
      plot.close();
      clearTimeout(later);
    },
  };
}
