// What was learned: lessons by their tags, found by tag and words with the parts of the score shown, each with its evidence and trust.
import { get, Problem } from '../lib/api.js';
import { el, part, replace } from '../lib/dom.js';
import { ago, count, number, percent } from '../lib/format.js';
import { bars } from './charts.js';
import { candidateHref, empty, facts, failure, kernelHref, link, panel, stateBadge, table, waiting } from './parts.js';

const ASK_MS = 200;
const href = (id) => `#/knowledge/${encodeURIComponent(id)}`;
const trustOf = (l) => (typeof l.trust === 'number' ? l.trust : l.trust?.lower ?? l.trust?.mean ?? NaN);
const meter = (share) => (Number.isFinite(share) ? [el('span', { class: 'meter', 'aria-hidden': 'true' }, el('i', { size: { width: `${Math.max(0, Math.min(1, share)) * 100}%` } })), ` ${percent(share)}`] : '–');
const effectText = (e) => (e?.ratio > 0 ? `${number(e.ratio)}× [${number(e.low)}, ${number(e.high)}]` : 'no figure');
const evidenceWord = (l) => (l.evidence?.basis === 'signed' ? 'signed by an operator' : l.evidence?.measured ? 'measured' : 'estimate');
const evidenceBadge = (l) => el('span', { class: `evidence ${l.evidence?.measured ? 'measured' : 'estimate'}` }, evidenceWord(l));

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

const PARTS = [['tag_rank', 'rank by tags'], ['bm25_rank', 'rank by words (BM25)'], ['bm25', 'BM25'], ['vector_rank', 'rank by meaning'], ['cosine', 'cosine'], ['fused', 'fused'], ['trust', 'trust'], ['score', 'score']];
const scoreParts = (s) => (s && typeof s === 'object' ? el('details', null, el('summary', { class: 'small' }, `score ${number(s.score)}`),
  facts(PARTS.filter(([k]) => Number.isFinite(s[k])).map(([k, name]) => [name, k.endsWith('_rank') ? (s[k] > 0 ? `#${s[k]}` : 'not on that list') : number(s[k])]))) : null);

function card(l, choose) {
  return el('article', { class: 'card' }, el('div', { class: 'row spread' }, el('h3', null, link(href(l.id), String(l.situation ?? '').slice(0, 300) || l.id)), stateBadge(l.state ?? 'active')),
    el('p', null, '→ ', l.action ?? ''), el('p', { class: 'small' }, effectText(l.evidence?.effect), ' ', evidenceBadge(l), ' · trust ', meter(trustOf(l)), ` · used ${count(l.uses ?? 0)}, helped ${count(l.wins ?? 0)}`),
    el('p', { class: 'chips' }, (l.tags ?? []).map((t) => el('button', { type: 'button', class: 'chip', dataset: { key: `tag-${l.id}-${t}` }, on: { click: () => choose(t) } }, t))), scoreParts(l.score));
}

function lessonPage(ctx, l) {
  const e = l.evidence ?? {}, effect = e.effect ?? {};
  const events = ctx.state.log.filter((x) => x.type.startsWith('lesson.') && (x.data.lesson === l.id || x.data.lesson?.id === l.id || x.data.lessons?.includes?.(l.id)));
  const history = Array.isArray(l.history) ? l.history : Array.isArray(l.trust?.history) ? l.trust.history : [];
  return [el('p', { class: 'small' }, link('#/knowledge', '← all lessons')), el('div', { class: 'row spread wrap' }, el('h1', null, 'Lesson'), stateBadge(l.state ?? 'active')),
    panel('When', null, el('p', null, l.situation ?? ''), el('p', { class: 'chips' }, (l.tags ?? []).map((t) => el('a', { class: 'chip', href: `#/knowledge?tag=${encodeURIComponent(t)}` }, t)))), panel('Then', null, el('p', null, l.action ?? '')),
    el('div', { class: 'two' }, panel('Evidence', null, el('p', { class: 'best-figure' }, effect.ratio > 0 ? `${number(effect.ratio)}× ` : 'no figure ', evidenceBadge(l)),
      facts([['interval', effect.low > 0 && `${number(effect.low)} to ${number(effect.high)}${effect.level ? ` (${percent(effect.level)})` : ''}`], ['pairs', effect.pairs], ['basis', e.basis], ['signed by', e.signed_by], ['reason', e.reason],
        ['candidates', e.candidates?.length ? e.candidates.map((c) => el('div', null, link(candidateHref(c), c, { class: 'mono small' }))) : null], ['shapes', e.shapes?.length ? e.shapes.map((h) => el('div', null, link(kernelHref(h), String(h).slice(0, 16), { class: 'mono small' }))) : null]])),
    panel('Trust', null, el('p', null, 'At least ', meter(trustOf(l))), facts([['mean', Number.isFinite(l.trust?.mean) && percent(l.trust.mean)], ['helped, weighed', number(l.trust?.alpha)], ['did not, weighed', number(l.trust?.beta)], ['used', count(l.uses ?? 0)], ['helped', count(l.wins ?? 0)],
      ['learned', l.created && `${ago(l.created)} by ${l.source ?? ''} ${l.by ?? ''}`], ['changed', l.updated && ago(l.updated)], ['ended', l.why_ended], ['takes the place of', l.supersedes?.length ? l.supersedes.map((s) => el('div', null, link(href(s), s))) : null], ['replaced by', l.superseded_by && link(href(l.superseded_by), l.superseded_by)]]),
    history.length ? table('How trust moved', ['When', 'Trust', 'Why'], history.slice(-50).map((h) => [h.time ?? '', meter(trustOf(h)), h.reason ?? h.what ?? ''])) : events.length ? table('What happened to it', ['When', 'What', 'Why'], events.slice(-50).map((x) => [x.time, x.type, x.data.reason ?? x.data.what ?? ''])) : null)),
    l.effects ? panel('Effects of the parameter', null, el('pre', { tabindex: 0, 'aria-label': 'Effects' }, JSON.stringify(l.effects, null, 2))) : null];
}

const notThere = (e) => e instanceof Problem && e.status === 404;
const noLayer = () => empty('This service has no lessons yet', 'Its knowledge layer is not there: GET /v1/lessons answers 404. Lessons appear here once the service learns from its searches.');

function notesPanel() {
  const box = el('div');
  const load = () => get('/v1/notes?limit=50').then((doc) => replace(box, (doc.notes ?? []).length ? table('Failure notes', ['Operator', 'Verdict', 'Phase', 'What went wrong', { title: 'Times', num: true }, 'Last'], doc.notes.map((n) => [n.op ?? '', n.verdict ?? '', n.phase ?? '', n.text ?? '', n.count, ago(n.last)])) : el('p', { class: 'muted' }, 'No failure was noted yet.')),
    (e) => replace(box, notThere(e) ? el('p', { class: 'muted' }, 'This service does not list its failure notes. What failed, and why, stands at each job.') : failure(e)));
  load();
  return panel('Failure notes', null, box);
}

export function knowledge(ctx, id, query) {
  if (id) {
    const body = el('div', null, waiting('the lesson'));
    get(`/v1/lessons/${encodeURIComponent(id)}`).then((l) => replace(body, lessonPage(ctx, l)), (e) => replace(body, el('h1', null, 'Lesson'), notThere(e) ? empty('No such lesson', e.message) : failure(e)));
    return { title: 'Lesson', nodes: [body], update() {} };
  }
  let tags = query.get('tag') ? [query.get('tag')] : [], timer = 0, turn = 0, seen = null, all = [], drawn = 0;
  const search = el('input', { type: 'search', id: 'lesson-search', autocomplete: 'off', placeholder: 'what happens, or what helps' });
  const op = el('input', { type: 'text', id: 'lesson-op', autocomplete: 'off', spellcheck: false }), target = el('input', { type: 'text', id: 'lesson-target', autocomplete: 'off', spellcheck: false, placeholder: 'sm_90a' });
  const results = el('div'), status = el('p', { class: 'small muted', role: 'status' });
  const choose = (t) => { tags = tags.includes(t) ? tags.filter((x) => x !== t) : [...tags, t]; ask(); };
  const tree = part(el('div', { class: 'tree' }), () => tagTree(all).map(([facet, names]) => el('details', { open: true, dataset: { key: `facet-${facet}` } }, el('summary', null, facet, ' ', el('span', { class: 'muted small' }, names.length)),
    el('ul', null, names.slice(0, 60).map(([name, n]) => el('li', null, el('button', { type: 'button', class: 'link', 'aria-pressed': String(tags.includes(`${facet}/${name}`)), dataset: { key: `facet-${facet}/${name}` }, on: { click: () => choose(`${facet}/${name}`) } }, name), el('span', { class: 'muted small' }, ` ${n}`)))))));
  const chosen = part(el('div', { class: 'row wrap' }), () => (tags.length ? [el('span', { class: 'small' }, 'Only'), tags.map((t) => el('button', { type: 'button', class: 'chip', dataset: { key: `only-${t}` }, 'aria-label': `Without ${t}`, on: { click: () => choose(t) } }, t, ' ✕'))] : []));

  async function ask() {
    const mine = ++turn, q = new URLSearchParams({ limit: '50' });
    for (const [k, v] of [['tag', tags.join(',')], ['q', search.value.trim()], ['op', op.value.trim()], ['target', target.value.trim()]]) if (v) q.set(k, v);
    try {
      const doc = await get(`/v1/lessons?${q}`);
      if (mine !== turn) return;
      const list = doc.lessons ?? [];
      if (!tags.length && !search.value.trim() && !op.value.trim()) all = list; else if (!all.length) all = list;
      status.textContent = `${list.length} lesson${list.length === 1 ? '' : 's'}${Number.isFinite(doc.tokens) ? `, ${count(doc.tokens)} tokens in a prompt` : ''}${doc.semantic_backend ? `; meaning by ${doc.semantic_backend}` : ''}.`;
      replace(results, list.length ? [list.some((l) => l.score?.score > 0) ? el('details', { class: 'panel', dataset: { key: 'scores' } }, el('summary', null, 'Scores beside each other'), bars(list.slice(0, 20).map((l) => ({ name: String(l.id).slice(-8), value: l.score?.score ?? 0, text: number(l.score?.score) })), 'Scores')) : null,
        el('div', { class: 'cards' }, list.map((l) => card(l, choose)))] : empty('No lesson fits', 'Nothing was learned about this yet.'));
      tree.update(`${++drawn}`); chosen.update(`${drawn}`);
    } catch (e) {
      if (mine !== turn) return;
      status.textContent = '';
      replace(results, notThere(e) ? noLayer() : failure(e));
    }
  }
  for (const input of [search, op, target]) input.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(ask, ASK_MS); });
  const labelled = (label, input) => el('div', { class: 'field' }, el('label', { for: input.id }, label), input);
  ask();
  return {
    title: 'Knowledge',
    nodes: [el('h1', null, 'Knowledge'), el('p', { class: 'muted' }, 'Lessons: a situation, what to do in it, and the evidence for it. What no longer helps retires itself.'), el('div', { class: 'fields' }, labelled('Search', search), labelled('Operator', op), labelled('Target', target)), chosen.node, status,
      el('div', { class: 'side' }, el('aside', { class: 'panel', 'aria-label': 'Tags' }, el('h2', null, 'Tags'), tree.node), results), notesPanel()],
    update() { if (seen !== ctx.state.lessonTick) { if (seen !== null) { clearTimeout(timer); timer = setTimeout(ask, 1000); } seen = ctx.state.lessonTick; } },
    close() { clearTimeout(timer); turn++; },
  };
}
