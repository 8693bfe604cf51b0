// All kernels that are served: searched, filtered, any number of them.
import { el, part } from '../lib/dom.js';
import { LongTable } from '../lib/table.js';
import { ago, axesText, intervalText, isMeasured, overText, shortHash, speedup, speedupText, timeText } from '../lib/format.js';
import { empty, evidenceBadge, kernelHref, link } from './parts.js';

const columns = [
  { title: 'Operator', cell: (k) => link(kernelHref(k.shape_hash), String(k.shape?.op ?? k.op ?? k.shape_hash), { dataset: { key: k.shape_hash } }) },
  { title: 'Axes', cls: 'mono small', cell: (k) => axesText(k.shape?.axes) },
  {
    title: 'Types',
    cls: 'mono small',
    cell: (k) =>
      Object.entries(k.shape?.dtypes ?? {})
        .map(([a, b]) => `${a}=${b}`)
        .join(' '),
  },
  { title: 'Speed-up', cls: 'num', cell: (k) => speedupText(k) },
  { title: 'Interval', cls: 'num', cell: (k) => intervalText(speedup(k)) },
  { title: 'Time', cls: 'num', cell: (k) => timeText(k) },
  { title: 'Evidence', cell: (k) => [evidenceBadge(k), k.is_baseline ? ' baseline' : null, overText(k) ? ` ${overText(k)}` : null] },
  { title: 'Served', cell: (k) => ago(k.served_since) },
  { title: 'Target', cell: (k) => k.target ?? k.shape?.target ?? '' },
  { title: 'Shape hash', cls: 'mono small', cell: (k) => shortHash(k.shape_hash) },
];
const ORDER = {
  newest: (a, b) => (b.served_since ?? '').localeCompare(a.served_since ?? ''),
  fastest: (a, b) => (speedup(b)?.median ?? 0) - (speedup(a)?.median ?? 0),
  operator: (a, b) => `${a.op} ${a.shape_hash}`.localeCompare(`${b.op} ${b.shape_hash}`),
};

/** What a search looks at, made once a kernel. */
const text = (k) =>
  (k.searched ??=
    `${k.shape_hash} ${k.shape?.op ?? k.op} ${axesText(k.shape?.axes)} ${Object.values(k.shape?.dtypes ?? {}).join(' ')} ${k.target ?? ''} ${k.language ?? ''} ${isMeasured(k) ? 'measured' : 'estimate'}`.toLowerCase());

export function kernels(ctx) {
  let words = [],
    op = '',
    evidence = '',
    order = 'newest',
    seen = '',
    readFor = null;
  const search = el('input', {
    type: 'search',
    id: 'kernel-search',
    autocomplete: 'off',
    spellcheck: false,
    placeholder: 'operator, B=4, hash…',
  });
  const pick = (id, label, options, set) => {
    const s = el(
      'select',
      { id },
      options.map(([v, t]) => el('option', { value: v }, t)),
    );
    s.addEventListener('change', () => {
      set(s.value);
      seen = '';
      ctx.draw();
    });
    return [el('div', { class: 'field' }, el('label', { for: id }, label), s), s];
  };
  const [evidenceField] = pick(
    'kernel-evidence',
    'Evidence',
    [
      ['', 'any'],
      ['measured', 'measured'],
      ['estimate', 'estimate'],
    ],
    (v) => {
      evidence = v;
    },
  );
  const [orderField] = pick(
    'kernel-order',
    'Order',
    [
      ['newest', 'newest first'],
      ['fastest', 'largest speed-up first'],
      ['operator', 'by operator'],
    ],
    (v) => {
      order = v;
    },
  );
  const [opField, opSelect] = pick('kernel-op', 'Operator', [['', 'any']], (v) => {
    op = v;
  });
  search.addEventListener('input', () => {
    words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    seen = '';
    ctx.draw();
  });
  const table = new LongTable({ label: 'Kernels', columns, tall: true });
  const count = el('p', { class: 'small muted', role: 'status' });
  const none = part(el('div'), (shown, all) =>
    shown
      ? []
      : all
        ? empty('No kernel fits', 'Take a word or a filter away.')
        : empty('No kernel here yet', 'A kernel appears as soon as its first candidate, or the baseline, has been verified.'),
  );
  const ops = part(opSelect, (names) => [
    el('option', { value: '' }, 'any'),
    names.map((n) => el('option', { value: n, selected: n === op }, n)),
  ]);
  return {
    title: 'Kernels',
    nodes: [
      el('h1', null, 'Kernels'),
      el('p', { class: 'small' }, link('#/observed', 'Shapes observed in the field'), ', and what a search for them would save'),
      el(
        'div',
        { class: 'fields searching' },
        el('div', { class: 'field' }, el('label', { for: 'kernel-search' }, 'Search'), search),
        opField,
        evidenceField,
        orderField,
      ),
      count,
      none.node,
      table.node,
    ],
    update() {
      const { state } = ctx;
      if (!ctx.feed.ready) return;
      if (readFor !== state) {
        readFor = state;
        ctx.feed.readKernels().catch(ctx.tell);
      }
      const sign = `${state.kernelTick} ${words} ${op} ${evidence} ${order}`;
      if (sign === seen) return;
      seen = sign;
      const all = [...state.kernels.values()];
      const rows = all
        .filter(
          (k) =>
            (!evidence || (evidence === 'measured') === isMeasured(k)) &&
            (!op || (k.shape?.op ?? k.op) === op) &&
            words.every((w) => text(k).includes(w)),
        )
        .sort(ORDER[order]);
      const names = [...new Set(all.map((k) => k.shape?.op ?? k.op))].sort();
      ops.update(names.join(), names);
      count.textContent = `${rows.length} of ${all.length}${state.kernelsNext ? ' and more, being read' : ''}; ${rows.filter(isMeasured).length} measured.`;
      none.update(`${rows.length > 0} ${all.length > 0}`, rows.length, all.length);
      table.node.hidden = !rows.length;
      table.set(rows);
    },
  };
}
