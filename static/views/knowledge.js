// What was learned: lessons by their tags, found by tag and words with the parts of the score shown, each with its evidence and trust.
import { get, getAll, post, Problem } from '../lib/api.js';
import { el, part, replace } from '../lib/dom.js';
import { ago, count, number, shapeText } from '../lib/format.js';
import { sortedJobs } from '../lib/state.js';
import { bars } from './charts.js';
import { effectText, evidenceBadge, href, lessonPage, meter, movesOf, trustOf } from './lesson.js';
import {
  button,
  candidateHref,
  empty,
  facts,
  failure,
  link,
  panel,
  stateBadge,
  table,
  verdictBadge,
  waiting,
} from './parts.js';

const ASK_MS = 200,
  NOTE_SHAPES = 24,
  SHOWN = 50,
  TREE_PAGE = 200,
  TREE_PAGES = 20;

/** "50 lessons", "50+ lessons": as many as are shown; whether there are more, a page says by its next one, a search by being full. */
export const howMany = (n, more, most) => `${n}${more || n >= most ? '+' : ''} lesson${n === 1 ? '' : 's'}`;

/** Facets and what stands under them, with counts: op/…, target/…, technique/…. */
export function tagTree(lessons) {
  const facets = new Map();
  for (const l of lessons) {
    for (const tag of Array.isArray(l.tags) ? l.tags : []) {
      const [facet, ...rest] = String(tag).split('/');
      if (!facets.has(facet)) facets.set(facet, new Map());
      const names = facets.get(facet);
      names.set(rest.join('/'), (names.get(rest.join('/')) ?? 0) + 1);
    }
  }
  return [...facets].sort().map(([facet, names]) => [facet, [...names].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]))]);
}

const PARTS = [
  ['tag_rank', 'rank by tags'],
  ['bm25_rank', 'rank by words (BM25)'],
  ['bm25', 'BM25'],
  ['vector_rank', 'rank by meaning'],
  ['cosine', 'cosine'],
  ['fused', 'by place'],
  ['trust', 'trust'],
  ['score', 'score'],
];
const scoreParts = (s) =>
  s && typeof s === 'object'
    ? el(
        'details',
        null,
        el('summary', { class: 'small' }, `score ${number(s.score)}`),
        el(
          'p',
          { class: 'small muted' },
          'BM25 says how well the words fit, rare ones counting more; cosine, how near the meaning is. “By place” joins the places on the three lists; that, weighted by trust, is the score.',
        ),
        facts(
          PARTS.filter(([k]) => Number.isFinite(s[k])).map(([k, name]) => [
            name,
            k.endsWith('_rank') ? (s[k] > 0 ? `#${s[k]}` : 'not on that list') : number(s[k]),
          ]),
        ),
      )
    : null;

function card(l, choose) {
  return el(
    'article',
    { class: 'card' },
    el(
      'div',
      { class: 'row spread' },
      el('h3', null, link(href(l.id), String(l.situation ?? '').slice(0, 300) || l.id)),
      stateBadge(l.state ?? 'active'),
    ),
    el('p', null, '→ ', l.action ?? ''),
    el(
      'p',
      { class: 'small' },
      effectText(l.evidence),
      ' ',
      evidenceBadge(l),
      ' · trust ',
      meter(trustOf(l)),
      ` · used ${count(l.uses ?? 0)}, helped ${count(l.wins ?? 0)}`,
    ),
    el(
      'p',
      { class: 'chips' },
      (l.tags ?? []).map((t) =>
        el('button', { type: 'button', class: 'chip', dataset: { key: `tag-${l.id}-${t}` }, on: { click: () => choose(t) } }, t),
      ),
    ),
    scoreParts(l.score),
  );
}

const notThere = (e) => e instanceof Problem && (e.status === 404 || e.status === 503);
const noLayer = (e) =>
  empty(
    'This service has no lessons yet',
    `Its knowledge layer is not there (${e.message}). Lessons appear here once the service learns from its searches.`,
  );

/** Failure notes of the shapes that jobs asked for last; each shape has its own. */
async function readNotes(state) {
  const shapes = new Map();
  for (const job of sortedJobs(state)) for (const s of job.shapes ?? []) if (shapes.size < NOTE_SHAPES) shapes.set(s.shape_hash, s.shape);
  const all = await Promise.all(
    [...shapes].map(async ([hash, shape]) =>
      ((await get(`/v1/notes/${encodeURIComponent(hash)}?limit=20`)).notes ?? []).map((n) => ({ ...n, shape, hash })),
    ),
  );
  return all
    .flat()
    .sort((x, y) => (y.last ?? '').localeCompare(x.last ?? ''))
    .slice(0, 60);
}

const notesTable = (notes) =>
  notes.length
    ? table(
        'Failure notes',
        ['Shape', 'Verdict', 'Phase', 'What went wrong', { title: 'Times', num: true }, 'Last', 'Candidates'],
        notes.map((n) => [
          el('span', { class: 'small mono' }, shapeText(n.shape) || n.op || String(n.hash ?? n.shape_hash).slice(0, 12)),
          verdictBadge(n.verdict),
          n.phase ?? '',
          n.text ?? '',
          n.count,
          ago(n.last),
          (n.candidates ?? [])
            .slice(-3)
            .map((c) => [link(candidateHref(c), String(c).slice(-6), { dataset: { key: `note-${n.hash}-${n.signature}-${c}` } }), ' ']),
        ]),
      )
    : el('p', { class: 'muted' }, 'No failure of these shapes was noted.');

const lessonsOf = (step) =>
  Array.isArray(step.lessons)
    ? step.lessons
    : Array.isArray(step.changes)
      ? step.changes.map((c) => c?.lesson ?? c?.id ?? c?.was?.id ?? c?.now?.id).filter((x) => typeof x === 'string')
      : [];

/** What consolidation did, newest first; an admin may take a step back. */
async function stepsTable(ctx, again) {
  const doc = await get('/v1/lessons/steps?limit=30');
  const undo = (step) =>
    button(
      'Undo',
      async () => {
        try {
          await post(`/v1/lessons/steps/${encodeURIComponent(step)}/undo`);
          again();
        } catch (e) {
          ctx.tell(e);
        }
      },
      { dataset: { key: `undo-${step}` }, 'aria-label': `Undo the step ${step}` },
    );
  const list = doc.steps ?? [];
  return list.length
    ? table(
        'Steps of consolidation',
        ['When', 'What', 'Lessons', 'Why', ''],
        list.map((s) => [
          ago(s.created ?? s.time),
          s.kind ?? '',
          lessonsOf(s)
            .slice(0, 8)
            .map((l) => [link(href(l), String(l).slice(-8), { dataset: { key: `step-${s.id}-${l}` } }), ' ']),
          s.reason ?? s.text ?? '',
          s.undone ? 'undone' : undo(s.id),
        ]),
      )
    : el('p', { class: 'muted' }, 'Nothing was merged or retired in the background yet.');
}

function later(title, read) {
  const box = el('div', null, waiting('it'));
  const load = () =>
    read().then(
      (node) => replace(box, node),
      (e) => replace(box, notThere(e) ? el('p', { class: 'muted' }, `This service does not tell: ${e.message}`) : failure(e)),
    );
  return { node: panel(title, null, box), load };
}

export function knowledge(ctx, id, query) {
  if (id) {
    const body = el('div', null, waiting('the lesson'));
    Promise.all([get(`/v1/lessons/${encodeURIComponent(id)}`), movesOf(id)]).then(
      ([l, moves]) => replace(body, lessonPage(ctx, l, moves)),
      (e) => replace(body, el('h1', null, 'Lesson'), notThere(e) ? empty('No such lesson', e.message) : failure(e)),
    );
    return { title: 'Lesson', nodes: [body], update() {} };
  }
  let tags = query.get('tag') ? [query.get('tag')] : [],
    timer = 0,
    turn = 0,
    seen = null,
    notesFor = null,
    all = [],
    cut = false,
    closed = false,
    drawn = 0;
  const search = el('input', { type: 'search', id: 'lesson-search', autocomplete: 'off', placeholder: 'what happens, what helps' });
  const op = el('input', { type: 'text', id: 'lesson-op', autocomplete: 'off', spellcheck: false }),
    target = el('input', { type: 'text', id: 'lesson-target', autocomplete: 'off', spellcheck: false, placeholder: 'sm_90a' });
  const ended = el('input', { type: 'checkbox', id: 'lesson-ended' });
  const notes = later('Failure notes', async () => notesTable(await readNotes(ctx.state))),
    steps = later('Steps of consolidation', () => stepsTable(ctx, () => steps.load()));
  const results = el('div'),
    status = el('p', { class: 'small muted', role: 'status' });
  const choose = (t) => {
    tags = tags.includes(t) ? tags.filter((x) => x !== t) : [...tags, t];
    ask();
  };
  const tree = part(el('div', { class: 'tree' }), () => [
    cut ? el('p', { class: 'small muted' }, `Of the newest ${count(all.length)} lessons.`) : null,
    tagTree(all).map(([facet, names]) =>
      el(
        'details',
        { open: true, dataset: { key: `facet-${facet}` } },
        el('summary', null, facet, ' ', el('span', { class: 'muted small' }, names.length)),
        el(
          'ul',
          null,
          names
            .slice(0, 60)
            .map(([name, n]) =>
              el(
                'li',
                null,
                el(
                  'button',
                  {
                    type: 'button',
                    class: 'link',
                    'aria-pressed': String(tags.includes(`${facet}/${name}`)),
                    dataset: { key: `facet-${facet}/${name}` },
                    on: { click: () => choose(`${facet}/${name}`) },
                  },
                  name,
                ),
                el('span', { class: 'muted small' }, ` ${n}`),
              ),
            ),
        ),
      ),
    ),
  ]);
  const chosen = part(el('div', { class: 'row wrap' }), () =>
    tags.length
      ? [
          el('span', { class: 'small' }, 'Only'),
          tags.map((t) =>
            el(
              'button',
              {
                type: 'button',
                class: 'chip',
                dataset: { key: `only-${t}` },
                'aria-label': `Without ${t}`,
                on: { click: () => choose(t) },
              },
              t,
              ' ✕',
            ),
          ),
        ]
      : [],
  );

  async function ask() {
    const mine = ++turn,
      q = new URLSearchParams({ limit: String(SHOWN) });
    for (const [k, v] of [
      ['tag', tags.join(',')],
      ['q', search.value.trim()],
      ['op', op.value.trim()],
      ['target', target.value.trim()],
    ])
      if (v) q.set(k, v);
    if (ended.checked) q.set('state', 'all');
    try {
      const doc = await get(`/v1/lessons?${q}`);
      if (mine !== turn) return;
      const list = doc.lessons ?? [];
      const found = tags.length > 0 || [search, op, target].some((input) => input.value.trim());
      status.textContent = `${howMany(list.length, doc.next, found ? SHOWN : Infinity)}${doc.next ? ', the newest' : found ? ' that fit best' : ''}${Number.isFinite(doc.tokens) ? `, ${count(doc.tokens)} tokens in a prompt` : ''}${doc.semantic_backend ? `; meaning by ${doc.semantic_backend}` : ''}.`;
      replace(
        results,
        list.length
          ? [
              list.some((l) => l.score?.score > 0)
                ? el(
                    'details',
                    { class: 'panel', dataset: { key: 'scores' } },
                    el('summary', null, 'Scores beside each other'),
                    bars(
                      list
                        .slice(0, 20)
                        .map((l) => ({ name: String(l.id).slice(-8), value: l.score?.score ?? 0, text: number(l.score?.score) })),
                      'Scores',
                    ),
                  )
                : null,
              el(
                'div',
                { class: 'cards' },
                list.map((l) => card(l, choose)),
              ),
            ]
          : found || all.length
            ? empty('No lesson fits', 'Nothing was learned about this yet.')
            : empty('No lesson yet', 'Lessons appear once searches have ended: what their templates and candidates showed, with the evidence for it.'),
      );
      tree.update(`${++drawn}`);
      chosen.update(`${drawn}`);
    } catch (e) {
      if (mine !== turn) return;
      status.textContent = '';
      replace(results, notThere(e) ? noLayer(e) : failure(e));
    }
  }
  /** The tree counts all lessons, whatever is looked for beside it. */
  async function countTags() {
    const list = [];
    let pages = 0;
    cut = false;
    try {
      await getAll(`/v1/lessons?limit=${TREE_PAGE}${ended.checked ? '&state=all' : ''}`, (page) => {
        list.push(...(page.lessons ?? []).map((l) => ({ tags: l.tags })));
        cut = typeof page.next === 'string' && ++pages >= TREE_PAGES;
        return !cut && !closed;
      });
    } catch {
      return; /* the list beside it says what is wrong */
    }
    all = list;
    tree.update(`${++drawn}`);
  }
  for (const input of [search, op, target])
    input.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(ask, ASK_MS);
    });
  ended.addEventListener('change', () => {
    ask();
    countTags();
  });
  const labelled = (label, input) => el('div', { class: 'field' }, el('label', { for: input.id }, label), input);
  ask();
  countTags();
  return {
    title: 'Knowledge',
    nodes: [
      el('h1', null, 'Knowledge'),
      el('p', { class: 'muted' }, 'Lessons: a situation, what to do in it, and the evidence for it. What no longer helps retires itself.'),
      el(
        'div',
        { class: 'fields' },
        labelled('Search', search),
        labelled('Operator', op),
        labelled('Target', target),
        el('label', { for: 'lesson-ended', class: 'check' }, ended, ' with those that have ended'),
      ),
      chosen.node,
      status,
      el('div', { class: 'side' }, el('aside', { class: 'panel', 'aria-label': 'Tags' }, el('h2', null, 'Tags'), tree.node), results),
      notes.node,
      steps.node,
    ],
    update() {
      if (!ctx.feed.ready) return;
      if (notesFor !== ctx.state) {
        notesFor = ctx.state;
        notes.load();
        steps.load();
      }
      if (seen !== ctx.state.lessonTick) {
        if (seen !== null) {
          clearTimeout(timer);
          timer = setTimeout(() => {
            ask();
            countTags();
          }, 1000);
        }
        seen = ctx.state.lessonTick;
      }
    },
    close() {
      closed = true;
      clearTimeout(timer);
      turn++;
    },
  };
}
