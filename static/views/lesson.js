// A lesson's page: situation, action, evidence, trust and how it moved; and how lessons are worded in lists.
import { get } from '../lib/api.js';
import { el } from '../lib/dom.js';
import { ago, count, number, percent } from '../lib/format.js';
import { candidateHref, facts, kernelHref, link, panel, stateBadge, table } from './parts.js';

export const href = (id) => `#/knowledge/${encodeURIComponent(id)}`;
export const trustOf = (l) => (typeof l.trust === 'number' ? l.trust : (l.trust?.lower ?? l.trust?.mean ?? NaN));
export const meter = (share) =>
  Number.isFinite(share)
    ? [
        el('span', { class: 'meter', 'aria-hidden': 'true' }, el('i', { size: { width: `${Math.max(0, Math.min(1, share)) * 100}%` } })),
        ` ${percent(share)}`,
      ]
    : '–';
export const effectText = (e) => (e?.ratio > 0 ? `${number(e.ratio)}× [${number(e.low)}, ${number(e.high)}]` : 'no figure');
const evidenceWord = (l) => (l.evidence?.basis === 'signed' ? 'signed by an operator' : l.evidence?.measured ? 'measured' : 'estimate');
export const evidenceBadge = (l) => el('span', { class: `evidence ${l.evidence?.measured ? 'measured' : 'estimate'}` }, evidenceWord(l));

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
  const history = [...(Array.isArray(l.history) ? l.history : []), ...moves];
  return [
    el('p', { class: 'small' }, link('#/knowledge', '← all lessons')),
    el('div', { class: 'row spread wrap' }, el('h1', null, 'Lesson'), stateBadge(l.state ?? 'active')),
    panel(
      'When',
      null,
      el('p', null, l.situation ?? ''),
      el(
        'p',
        { class: 'chips' },
        (l.tags ?? []).map((t) => el('a', { class: 'chip', href: `#/knowledge?tag=${encodeURIComponent(t)}` }, t)),
      ),
    ),
    panel('Then', null, el('p', null, l.action ?? '')),
    el(
      'div',
      { class: 'two' },
      panel(
        'Evidence',
        null,
        el('p', { class: 'best-figure' }, effect.ratio > 0 ? `${number(effect.ratio)}× ` : 'no figure ', evidenceBadge(l)),
        facts([
          [
            'interval',
            effect.low > 0 && `${number(effect.low)} to ${number(effect.high)}${effect.level ? ` (${percent(effect.level)})` : ''}`,
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
        el('p', null, 'At least ', meter(trustOf(l))),
        facts([
          ['mean', Number.isFinite(l.trust?.mean) && percent(l.trust.mean)],
          ['helped, weighed', number(l.trust?.alpha)],
          ['did not, weighed', number(l.trust?.beta)],
          ['used', count(l.uses ?? 0)],
          ['helped', count(l.wins ?? 0)],
          ['learned', l.created && `${ago(l.created)} by ${l.source ?? ''} ${l.by ?? ''}`],
          ['changed', l.updated && ago(l.updated)],
          ['ended', l.why_ended],
          ['takes the place of', l.supersedes?.length ? l.supersedes.map((s) => el('div', null, link(href(s), s))) : null],
          ['replaced by', l.superseded_by && link(href(l.superseded_by), l.superseded_by)],
        ]),
        history.length
          ? table(
              'How trust moved',
              ['When', 'Trust', 'Before', 'Why'],
              history
                .slice(-50)
                .map((h) => [
                  h.time ?? '',
                  meter(trustOf(h)),
                  h.before ? meter(trustOf({ trust: h.before })) : '',
                  h.reason ?? h.what ?? '',
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
