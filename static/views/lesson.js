// A lesson's page: situation, action, evidence, trust and how it moved; and how lessons are worded in lists.
import { get } from '../lib/api.js';
import { el, svg } from '../lib/dom.js';
import { ago, count, number, percent } from '../lib/format.js';
import { picture, sized, text } from './charts.js';
import { candidateHref, facts, kernelHref, link, panel, stateBadge, table } from './parts.js';

export const href = (id) => `#/knowledge/${encodeURIComponent(id)}`;
export const trustOf = (l) => (typeof l.trust === 'number' ? l.trust : (l.trust?.lower ?? l.trust?.mean ?? NaN));
export const meter = (share) =>
  Number.isFinite(share)
    ? [
        el('span', { class: 'meter', 'aria-hidden': 'true' }, el('i', { size: { width: `${Math.max(0, Math.min(1, share)) * 100}%` } })),
        ' ',
        el('span', { class: 'together' }, percent(share)),
      ]
    : '–';
/** What a lesson's pairs came to; an estimate has no interval, and is marked. */
export const intervalOf = (e) => e?.measured === true && e.effect?.low > 0 && e.effect.high > e.effect.low;
export const ratioText = (e) => `${e?.measured === true ? '' : '≈ '}${number(e?.effect?.ratio)}×`;
export const effectText = (e) =>
  e?.effect?.ratio > 0 ? `${ratioText(e)}${intervalOf(e) ? ` [${number(e.effect.low)}, ${number(e.effect.high)}]` : ''}` : 'no figure';
const evidenceWord = (l) => (l.evidence?.basis === 'signed' ? 'signed by an operator' : l.evidence?.measured ? 'measured' : 'estimate');
export const evidenceBadge = (l) => el('span', { class: `evidence ${l.evidence?.measured ? 'measured' : 'estimate'}` }, evidenceWord(l));

/** A course of shares between nothing and one, in steps. */
function curve(values, label) {
  const list = values.filter(Number.isFinite);
  if (list.length < 2) return null;
  return sized((w) => {
    const h = 110,
      left = 44,
      x = (i) => left + (i / (list.length - 1)) * (w - left - 8),
      y = (v) => 8 + (1 - Math.max(0, Math.min(1, v))) * (h - 24);
    let d = `M${x(0)} ${y(list[0])}`;
    for (let i = 1; i < list.length; i++) d += `H${x(i)}V${y(list[i])}`;
    return picture(
      w,
      h,
      label,
      [0, 0.5, 1].map((v) => [
        svg('line', { class: 'axis', x1: left, x2: w - 8, y1: y(v), y2: y(v) }),
        text(left - 6, y(v) + 4, percent(v), { 'text-anchor': 'end' }),
      ]),
      svg('path', { class: 'course', d }),
      svg('circle', { class: 'a', cx: x(list.length - 1), cy: y(list.at(-1)), r: 4 }),
    );
  });
}

/** From the steps of consolidation that touched it: trust before and after. */
export async function movesOf(id) {
  const doc = await get('/v1/lessons/steps?limit=200').catch(() => ({}));
  return (doc.steps ?? []).flatMap((s) =>
    (Array.isArray(s.changes) ? s.changes : [])
      .filter((c) => c?.lesson === id)
      .map((c) => ({
        time: s.time,
        trust: c.after?.trust,
        before: c.before?.trust,
        reason: `${s.kind ?? ''}: ${s.reason ?? ''}${s.undone ? ' (undone)' : ''}`,
      })),
  );
}

export function lessonPage(ctx, l, moves) {
  const e = l.evidence ?? {},
    effect = e.effect ?? {};
  const events = ctx.state.log.filter(
    (x) => x.type.startsWith('lesson.') && (x.data.lesson === l.id || x.data.lesson?.id === l.id || x.data.lessons?.includes?.(l.id)),
  );
  // A step of consolidation is in the lesson's own history too; of a service of before it is the only trace.
  const history = Array.isArray(l.history) && l.history.length ? l.history : moves;
  return [
    el('p', { class: 'small' }, link('#/knowledge', '← all lessons')),
    el('div', { class: 'row spread wrap' }, el('h1', null, 'Lesson'), stateBadge(l.state ?? 'active')),
    panel(
      'What it says',
      null,
      el('p', null, el('b', null, 'When: '), l.situation ?? ''),
      el('p', null, el('b', null, 'Then: '), l.action ?? ''),
      el(
        'p',
        { class: 'chips' },
        (l.tags ?? []).map((t) => el('a', { class: 'chip', href: `#/knowledge?tag=${encodeURIComponent(t)}` }, t)),
      ),
    ),
    el(
      'div',
      { class: 'two' },
      panel(
        'Evidence',
        null,
        effect.ratio > 0
          ? [el('p', { class: 'best-figure' }, `${ratioText(e)} `, evidenceBadge(l)), el('p', { class: 'muted' }, 'time without it over time with it')]
          : el('p', null, 'No figure: it was not found by comparing candidates. ', evidenceBadge(l)),
        facts([
          [
            'interval',
            intervalOf(e) && `${number(effect.low)} to ${number(effect.high)}${effect.level ? ` (${percent(effect.level)})` : ''}`,
          ],
          ['pairs', effect.pairs],
          ['basis', e.basis],
          ['signed by', e.signed_by],
          ['reason', e.reason],
          [
            'candidates',
            e.candidates?.length ? e.candidates.map((c) => el('div', null, link(candidateHref(c), c, { class: 'mono small' }))) : null,
          ],
          [
            'shapes',
            e.shapes?.length
              ? e.shapes.map((h) => el('div', null, link(kernelHref(h), String(h).slice(0, 16), { class: 'mono small' })))
              : null,
          ],
        ]),
      ),
      panel(
        'Trust',
        null,
        el('p', null, 'By what happened so far it helps in at least ', meter(trustOf(l)), ' of its uses.'),
        history.length > 1
          ? curve(history.map((h) => trustOf(h)), `Trust over ${history.length} moves, from ${percent(trustOf(history[0]))} to ${percent(trustOf(history.at(-1)))}`)
          : null,
        facts([
          ['used', `${count(l.uses ?? 0)} times, helped ${count(l.wins ?? 0)} times`],
          [
            'expected',
            Number.isFinite(l.trust?.mean) &&
              `${percent(l.trust.mean)}: ${number(l.trust.alpha)} that helped against ${number(l.trust.beta)} that did not, older ones counting less`,
          ],
          ['learned', l.created && `${ago(l.created)} by ${l.source ?? ''} ${l.by ?? ''}`],
          ['changed', l.updated && ago(l.updated)],
          ['ended', l.why_ended],
          ['takes the place of', l.supersedes?.length ? l.supersedes.map((s) => el('div', null, link(href(s), s))) : null],
          ['replaced by', l.superseded_by && link(href(l.superseded_by), l.superseded_by)],
        ]),
        history.length
          ? table(
              'How trust moved',
              ['When', 'Trust', 'Why'],
              history
                .slice(-50)
                .reverse()
                .map((h) => [
                  el('span', { title: h.time ?? '' }, ago(h.time)),
                  meter(trustOf(h)),
                  [
                    h.reason ?? h.what ?? '',
                    h.candidate ? [' ', link(candidateHref(h.candidate), String(h.candidate).slice(-8), { class: 'mono small' })] : null,
                  ],
                ]),
            )
          : events.length
            ? table(
                'What happened to it',
                ['When', 'What', 'Why'],
                events.slice(-50).map((x) => [x.time, x.type, x.data.reason ?? x.data.what ?? '']),
              )
            : null,
      ),
    ),
    l.effects
      ? panel('Effects of the parameter', null, el('pre', { tabindex: 0, 'aria-label': 'Effects' }, JSON.stringify(l.effects, null, 2)))
      : null,
  ];
}
