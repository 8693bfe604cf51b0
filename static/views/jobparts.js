// Parts of a job's page: its shapes as a grid, the lineage of its candidates as a tree, its events as a log.
import { el, part } from '../lib/dom.js';
import { axesText, clockTime, duration, KINDS, seconds, count, speedup, speedupText, timeText, verdictKind } from '../lib/format.js';
import { candidateHref, link } from './parts.js';

// ---- the grid
const bucket = (m) => (!(m > 0) ? 'x' : m < 1.005 ? 0 : m < 1.05 ? 1 : m < 1.2 ? 2 : m < 1.5 ? 3 : m < 2 ? 4 : 5);

const BATCHES = ['B', 'M', 'R']; // what operators call the axis that grows with the batch

/** The axis by which the shapes differ most: the columns; the rest of the shape is the row. */
function columnAxis(shapes) {
  const values = new Map();
  for (const s of shapes) for (const [k, v] of Object.entries(s.shape?.axes ?? {})) values.set(k, (values.get(k) ?? new Set()).add(v));
  const preferred = BATCHES.filter((k) => values.get(k)?.size > 1);
  return preferred[0] ?? [...values].sort((a, b) => b[1].size - a[1].size)[0]?.[0] ?? null;
}

/** A cell for every shape: a row's name says as little as tells its shapes apart from those of other rows. */
export function gridOf(shapes) {
  const axis = columnAxis(shapes),
    columns = new Map(),
    rows = new Map(),
    several = new Set(shapes.flatMap((s) => s.launches?.[0]?.tp ?? [])).size > 1;
  const all = shapes.map((s) => {
    const launch = s.launches?.[0],
      axes = Object.entries(s.shape?.axes ?? {}).filter(([k]) => k !== axis || (launch && !BATCHES.includes(axis))),
      own = (list) => list.map(([k, v]) => `${k}=${v}`).join(' '),
      value = launch?.batch ?? s.shape?.axes?.[axis] ?? 0;
    columns.set(value, launch ? `batch ${value}` : axis ? `${axis}=${value}` : 'shape');
    const name = launch
      ? `${s.shape?.op} · ${launch.what ?? ''}${several ? ` · tp ${launch.tp ?? '?'}` : ''}`
      : `${s.shape?.op} ${own(axes.filter(([k]) => k !== 'slots'))}`;
    const types = Object.values(s.shape?.dtypes ?? {}).join(' ');
    return { s, value, name, longer: [own(axes), launch && axis ? `${axis}=${s.shape?.axes?.[axis]}` : '', types, String(s.shape?.target ?? ''), String(s.shape_hash).slice(0, 12)] };
  });
  for (let more = 0; more < 5; more++) {
    const held = new Map();
    for (const one of all) held.set(`${one.name}\n${one.value}`, (held.get(`${one.name}\n${one.value}`) ?? 0) + 1);
    const twice = new Set(all.filter((one) => held.get(`${one.name}\n${one.value}`) > 1).map((one) => one.name));
    for (const one of all) if (twice.has(one.name) && one.longer[more]) one.name += ` · ${one.longer[more]}`;
  }
  for (const one of all) {
    if (!rows.has(one.name)) rows.set(one.name, new Map());
    rows.get(one.name).set(one.value, one.s);
  }
  return { columns: [...columns].sort((a, b) => a[0] - b[0]), rows: [...rows] };
}

export function shapeGrid(job, chosen, choose) {
  const { columns, rows } = gridOf(job.shapes ?? []);
  const cell = (s) => {
    if (!s) return el('td', null);
    const best = job.best.get(s.shape_hash),
      m = speedup(best)?.median;
    const say = m ? speedupText(best) : s.state === 'failed' ? 'failed' : s.state === 'waiting' ? 'waits' : (s.state ?? '');
    return el(
      'td',
      { class: `heat h${bucket(m)}` },
      el(
        'button',
        {
          type: 'button',
          'aria-pressed': String(chosen === s.shape_hash),
          dataset: { key: `cell-${s.shape_hash}` },
          title: s.why_ended ?? '',
          on: { click: () => choose(s.shape_hash) },
        },
        el('span', { class: 'out' }, `${axesText(s.shape?.axes)}: `),
        say,
        m
          ? el(
              'small',
              null,
              best.evidence === 'measured' ? duration(best.time_ns) : `≈ ${duration(best.time_ns)}`,
              el('span', { class: 'out' }, best.evidence === 'measured' ? ', measured' : ', estimate'),
            )
          : null,
      ),
    );
  };
  return el(
    'div',
    { class: 'table-box', tabindex: 0, role: 'region', 'aria-label': 'Shapes', dataset: { scroll: 'grid' } },
    el(
      'table',
      { class: 'grid' },
      el(
        'thead',
        null,
        el(
          'tr',
          null,
          el('th', { scope: 'col' }, 'Operator'),
          columns.map(([, name]) => el('th', { scope: 'col' }, name)),
        ),
      ),
      el(
        'tbody',
        null,
        rows.map(([name, cells]) =>
          el(
            'tr',
            null,
            el('th', { scope: 'row' }, name),
            columns.map(([value]) => cell(cells.get(value))),
          ),
        ),
      ),
    ),
  );
}

// ---- the budget
export function budgetRows(job, judged) {
  const rows = [
    ['Candidates', Math.max(judged, job.spent?.candidates ?? 0), job.budget?.candidates, count],
    ['GPU time', job.spent?.gpu_seconds ?? 0, job.budget?.gpu_seconds, seconds],
    ['Wall time', job.spent?.wall_seconds ?? 0, job.budget?.wall_seconds, seconds],
    ['Tokens', job.spent?.tokens ?? 0, job.budget?.tokens, count],
  ];
  return el(
    'div',
    { class: 'budget' },
    rows.map(([name, spent, budget, text]) =>
      el(
        'div',
        null,
        el(
          'div',
          { class: 'row spread small' },
          el('span', null, name),
          el('span', { class: 'num' }, `${text(spent)}${budget > 0 ? ` of ${text(budget)}` : ''}`),
        ),
        budget > 0
          ? el('progress', { max: 1, value: Math.min(1, spent / budget), 'aria-label': `${name} spent` })
          : el('p', { class: 'small muted none' }, 'no limit'),
      ),
    ),
  );
}

// ---- lineage
const PER_LEVEL = 40;

export class Lineage {
  constructor() {
    this.open = new Set();
    this.closed = new Set();
    this.more = new Map();
    this.part = part(el('div', { class: 'tree', dataset: { scroll: 'tree' }, tabindex: 0, role: 'region', 'aria-label': 'Lineage' }), () =>
      this.render(),
    );
    this.node = this.part.node;
    this.turn = 0;
  }

  set(list, shape, best) {
    this.list = list;
    this.shape = shape;
    this.best = best;
    this.part.update(
      `${list.length} ${list.reduce((n, c) => n + (c.verdict ? 1 : 0) + (c.parent ? 1e6 : 0), 0)} ${shape} ${best} ${this.turn}`,
    );
  }

  again() {
    this.turn++;
    this.set(this.list, this.shape, this.best);
  }

  render() {
    const byId = new Map(),
      children = new Map(),
      roots = [];
    for (const c of this.list) if (!this.shape || c.shape_hash === this.shape) byId.set(c.id, c);
    for (const c of byId.values()) {
      if (c.parent && byId.has(c.parent) && c.parent < c.id) {
        if (!children.has(c.parent)) children.set(c.parent, []);
        children.get(c.parent).push(c);
      } else roots.push(c);
    }
    const path = new Set();
    for (let c = byId.get(this.best), n = 0; c && n < 1000; c = byId.get(c.parent), n++) path.add(c.id);
    if (!byId.size) return el('p', { class: 'muted' }, 'No candidate yet.');
    return this.level(roots, children, path, 'roots', 0);
  }

  level(list, children, path, key, depth) {
    const most = this.more.get(key) ?? PER_LEVEL;
    const first = list.length > most ? list.filter((c, i) => i < most || path.has(c.id)) : list;
    return el(
      'ul',
      null,
      first.map((c) => this.item(c, children, path, depth)),
      list.length > first.length
        ? el(
            'li',
            null,
            el(
              'button',
              {
                type: 'button',
                class: 'link',
                dataset: { key: `more-${key}` },
                on: {
                  click: () => {
                    this.more.set(key, most * 4);
                    this.again();
                  },
                },
              },
              `${list.length - first.length} more`,
            ),
          )
        : null,
    );
  }

  item(c, children, path, depth) {
    const mine = children.get(c.id) ?? [],
      kind = verdictKind(c.verdict),
      s = speedup(c);
    const line = [
      el('span', { class: `mark ${kind}`, title: c.verdict ?? 'being judged' }, KINDS[kind].mark),
      ' ',
      link(candidateHref(c.id), c.baseline ? 'baseline' : `#${c.number}`, { dataset: { key: `tree-${c.id}` } }),
      s && !c.baseline ? [' ', el('b', null, speedupText(c))] : null,
      path.has(c.id) && c.id === this.best ? el('span', { class: 'state', dataset: { state: 'ok' } }, 'best') : null,
      el('span', { class: 'muted small' }, ` ${c.move ? `${c.move}: ` : ''}${c.notes ?? ''}`.slice(0, 140)),
    ];
    if (!mine.length) return el('li', null, el('div', { class: 'clip leaf' }, line));
    const isOpen =
      this.open.has(c.id) || (path.has(c.id) && !this.closed.has(c.id)) || (depth < 2 && mine.length <= 12 && !this.closed.has(c.id));
    const toggle = el(
      'button',
      {
        type: 'button',
        class: 'twist',
        'aria-expanded': String(isOpen),
        dataset: { key: `twist-${c.id}` },
        'aria-label': `${c.baseline ? 'baseline' : `candidate ${c.number}`}: ${mine.length} descendants`,
        on: {
          click: () => {
            if (isOpen) {
              this.open.delete(c.id);
              this.closed.add(c.id);
            } else {
              this.open.add(c.id);
              this.closed.delete(c.id);
            }
            this.again();
          },
        },
      },
      isOpen ? '▾' : '▸',
    );
    return el(
      'li',
      null,
      el('div', { class: 'clip' }, toggle, line, el('span', { class: 'muted small' }, ` (${mine.length})`)),
      isOpen ? this.level(mine, children, path, c.id, depth + 1) : null,
    );
  }
}

// ---- the log
const LINES = 200,
  AT_ONCE = 24;
const words = {
  'job.state': (e) => `The job is ${e.state}${e.error?.text ? `: ${e.error.text}` : ''}`,
  'candidate.proposed': (e) => `proposed${e.notes ? `: ${e.notes}` : ''}`,
  'candidate.phase': (e) =>
    `${e.device ? `${e.device} ` : ''}${e.phase} ${e.state === 'start' ? 'begins' : `ended${e.ms ? ` after ${duration(e.ms * 1e6)}` : ''}${e.verdict && e.verdict !== 'ok' ? `: ${e.verdict}` : ''}`}${e.mode === 'retest' ? ' (retest)' : ''}`,
  'candidate.timed': (e) => `${e.evidence === 'measured' ? 'measured' : 'estimated'}: ${timeText(e)}, ${speedupText(e)}`,
  'candidate.verdict': (e) => `${e.verdict?.code ?? ''}: ${e.verdict?.text ?? ''}`,
  'shape.best': (e) => `best so far: ${speedupText(e)}${e.served ? ', served' : ''}`,
  'llm.attempt': (e) =>
    `the model's attempt ${e.number ?? ''} (${e.move ?? ''}): ${e.outcome ?? ''}${e.why ? `, ${e.why}` : ''}${e.tokens > 0 ? `; ${count(e.tokens)} tokens` : ''}`,
  'kernel.state': (e) => `kernel ${e.state}${e.reason ? `: ${e.reason}` : ''}`,
  'job.done': (e) =>
    `The job has ended: ${e.state}${e.error?.text ? `: ${e.error.text}` : ''}${e.spent ? `. ${count(e.spent.candidates)} candidates, ${seconds(e.spent.gpu_seconds)} GPU, ${count(e.spent.tokens)} tokens` : ''}`,
};

export function logLine(entry, name) {
  const say = Object.hasOwn(words, entry.type) ? words[entry.type](entry.data) : entry.type;
  const kind = entry.type === 'candidate.verdict' ? verdictKind(entry.data.verdict?.code) : null;
  return el(
    'li',
    { class: entry.type.replace('.', '-') },
    el('time', { class: 'muted' }, clockTime(entry.time)),
    ' ',
    kind ? el('span', { class: `mark ${kind}`, 'aria-hidden': 'true' }, KINDS[kind].mark) : null,
    entry.candidate ? [el('b', null, name(entry.candidate)), ' '] : null,
    say.slice(0, 400),
  );
}

/** Only what is new is added, and no more than can be seen: a thousand events a second cost what a screenful costs. */
export class Log {
  constructor(label, wants, name) {
    Object.assign(this, { wants, name, last: 0, phases: false });
    this.list = el('ol', { class: 'log' });
    this.node = el('div', { class: 'log-box', tabindex: 0, role: 'region', 'aria-label': label }, this.list);
  }

  set(state) {
    const fresh = [];
    for (let i = state.log.length - 1; i >= 0 && state.log[i].id > this.last && fresh.length <= AT_ONCE; i--) {
      const entry = state.log[i];
      if (this.wants(entry) && (this.phases || entry.type !== 'candidate.phase') && !this.said(entry)) fresh.push(entry);
    }
    this.last = Math.max(this.last, state.log.at(-1)?.id ?? 0);
    if (!fresh.length) return;
    const lines = document.createDocumentFragment();
    if (fresh.length > AT_ONCE) {
      fresh.pop();
      lines.append(el('li', { class: 'muted' }, '… more than can be read'));
    }
    for (const entry of fresh.reverse()) lines.append(logLine(entry, this.name));
    this.list.append(lines);
    while (this.list.childElementCount > LINES) this.list.firstElementChild.remove();
  }

  /** The end of a job is told twice, as its state and with what it cost: one line says both. */
  said(entry) {
    return entry.type === 'job.state' && ['done', 'failed', 'cancelled'].includes(entry.data.state);
  }

  /** What went before the feed began, from the records of candidates. */
  before(candidates) {
    if (this.seeded) return;
    this.seeded = true;
    const have = new Set([...this.list.querySelectorAll('b')].map((b) => b.textContent));
    const old = candidates.filter((c) => c.verdict && !have.has(this.name(c.id))).slice(-100);
    this.list.prepend(
      ...old.map((c) =>
        logLine(
          { type: 'candidate.verdict', time: c.time, candidate: c.id, data: { verdict: { code: c.verdict, text: c.text } } },
          this.name,
        ),
      ),
    );
  }

  clear() {
    this.list.replaceChildren();
    this.last = 0;
    this.seeded = false;
  }
}
