// Sources: coloured, with the offending lines marked, and differences of two of them.
import { el } from '../lib/dom.js';
import { diffLines, hunks } from '../lib/diff.js';
import { bytes } from '../lib/format.js';
import { tokenize } from '../lib/tokens.js';

const LINES = 2500,
  MOST_LINES = 20000,
  MOST_TEXT = 1 << 20, // of a source: more is not coloured, and not laid out
  MOST_WIDE = 4000; // of a line
const spans = (tokens) => tokens.map(([cls, text]) => (cls ? el('span', { class: `t-${cls}` }, text) : text));

/**
 * Where a verdict points in the source: line -> what it says. From the detail's figures, from a compiler's log, or from the sentence.
 */
export function offendingLines(verdict) {
  const at = new Map();
  const add = (line, text) => {
    if (line > 0 && !at.has(line)) at.set(line, text);
  };
  if (!verdict || verdict.code === 'ok') return at;
  const detail = verdict.detail ?? {};
  if (Number.isInteger(detail.source_line)) add(detail.source_line, verdict.text);
  if (Number.isInteger(detail.line)) add(detail.line, verdict.text);
  for (const text of [detail.log, verdict.text]) {
    if (typeof text !== 'string') continue;
    for (const m of text.slice(0, 65536).matchAll(/\((\d{1,6})\): (?:catastrophic )?error:? ?([^\n]*)/g)) add(Number(m[1]), m[2]);
    const said = /\bline (\d{1,6})\b/.exec(text);
    if (said && !/PTX line/.test(text)) add(Number(said[1]), verdict.text);
  }
  return at;
}

/** As much of a source as a page can hold: {lines of tokens, left: bytes that are not in them}. */
function cut(language, source) {
  const end = source.length > MOST_TEXT ? Math.max(source.lastIndexOf('\n', MOST_TEXT), MOST_TEXT / 2) : source.length;
  const text = source
    .slice(0, end)
    .split('\n')
    .map((l) => (l.length > MOST_WIDE ? `${l.slice(0, MOST_WIDE)}…` : l))
    .join('\n');
  return { lines: tokenize(language, text), left: source.length - end };
}

/** A source with line numbers; `marks`: offendingLines. */
export function codeView(language, source, marks = new Map(), label = 'Source') {
  const { lines, left } = cut(language, source);
  const last = Math.max(0, ...[...marks.keys()].slice(0, 1000).filter((n) => n <= lines.length));
  let most = Math.min(MOST_LINES, Math.max(LINES, last));
  const body = el('tbody');
  const box = el('div', { class: 'code', tabindex: 0, role: 'region', 'aria-label': label }, el('table', { role: 'presentation' }, body));
  const draw = () => {
    body.replaceChildren(
      ...lines.slice(0, most).flatMap((tokens, i) => {
        const hit = marks.get(i + 1);
        const row = el(
          'tr',
          { class: hit !== undefined ? 'hit' : null, id: hit !== undefined ? `line-${i + 1}` : null },
          el('td', { class: 'line' }, hit !== undefined ? `⚠ ${i + 1}` : i + 1),
          el('td', null, spans(tokens)),
        );
        return hit !== undefined ? [row, el('tr', { class: 'note' }, el('td', { class: 'line' }), el('td', null, `↑ ${hit}`))] : [row];
      }),
    );
    if (left)
      body.append(
        el('tr', { class: 'gap' }, el('td', { class: 'line' }), el('td', null, `… ${bytes(left)} more are not shown; the file has them`)),
      );
    if (lines.length > most && most < MOST_LINES)
      body.append(
        el(
          'tr',
          { class: 'gap' },
          el('td', { class: 'line' }),
          el(
            'td',
            null,
            el(
              'button',
              {
                type: 'button',
                class: 'link',
                on: {
                  click: () => {
                    most = Math.min(MOST_LINES, lines.length);
                    draw();
                  },
                },
              },
              `Show ${Math.min(MOST_LINES, lines.length) - most} more of ${lines.length} lines`,
            ),
          ),
        ),
      );
  };
  draw();
  const first = [...marks.keys()].sort((a, b) => a - b)[0];
  if (first > 12)
    requestAnimationFrame(() => {
      const row = box.querySelector('tr.hit');
      if (row) box.scrollTop = row.offsetTop - 120;
    });
  return box;
}

/** The lines around the first offending one, for the verdict. */
export function excerpt(language, source, marks) {
  const first = [...marks.keys()].sort((a, b) => a - b)[0];
  const { lines } = cut(language, source);
  if (!first || first > lines.length) return null;
  const rows = [];
  for (let i = Math.max(1, first - 2); i <= Math.min(lines.length, first + 2); i++) {
    rows.push(
      el(
        'tr',
        { class: i === first ? 'hit' : null },
        el('td', { class: 'line' }, i === first ? `⚠ ${i}` : i),
        el('td', null, spans(lines[i - 1])),
      ),
    );
  }
  return el(
    'div',
    { class: 'code', tabindex: 0, role: 'region', 'aria-label': `Line ${first} of the source` },
    el('table', { role: 'presentation' }, el('tbody', null, rows)),
  );
}

const SIGNS = { '+': 'add', '-': 'del', ' ': null };

export function diffView(language, before, after, label) {
  const lines = hunks(diffLines(before, after));
  if (lines.every((l) => l.gap)) return el('p', { class: 'muted' }, 'The sources are the same; they differ in parameters or plan.');
  const changed = lines.filter((l) => l.op === '+').length,
    gone = lines.filter((l) => l.op === '-').length;
  return [
    el('p', { class: 'small muted' }, `${changed} lines added (+), ${gone} removed (−).`),
    el(
      'div',
      { class: 'code', tabindex: 0, role: 'region', 'aria-label': label },
      el(
        'table',
        { role: 'presentation' },
        el(
          'tbody',
          null,
          lines
            .slice(0, 4000)
            .map((l) =>
              l.gap
                ? el(
                    'tr',
                    { class: 'gap' },
                    el('td', { class: 'line' }),
                    el('td', { class: 'line' }),
                    el('td', null, `${l.gap} equal lines`),
                  )
                : el(
                    'tr',
                    { class: SIGNS[l.op] },
                    el('td', { class: 'line' }, l.a || ''),
                    el('td', { class: 'line' }, l.b || ''),
                    el('td', null, `${l.op === '-' ? '−' : l.op} `, spans(tokenize(language, l.text.slice(0, MOST_WIDE))[0])),
                  ),
            ),
        ),
      ),
    ),
  ];
}
