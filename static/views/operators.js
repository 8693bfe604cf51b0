// Operators: what can be asked for, each definition as tables.
import { get } from '../lib/api.js';
import { el, replace } from '../lib/dom.js';

import { chips, empty, facts, failure, link, panel, table, waiting } from './parts.js';

const href = (name) => `#/operators/${encodeURIComponent(name)}`;
const code = (text) => el('code', null, String(text));
const text = (v) => (v === undefined || v === null ? '' : typeof v === 'object' ? JSON.stringify(v) : String(v));

const list = (ops) =>
  ops.length
    ? el(
        'div',
        { class: 'cards' },
        ops.map((o) =>
          el(
            'article',
            { class: 'card' },
            el('h3', null, link(href(o.name), o.name)),
            el('p', { class: 'small' }, o.description ?? ''),
            el('p', { class: 'small muted' }, (o.tags ?? []).join(' · ')),
            chips(
              Object.fromEntries(
                Object.entries(o.axes ?? {}).map(([k, a]) => [
                  k,
                  a.default !== undefined ? `= ${a.default}` : `${a.min ?? 1}…${a.max ?? ''}`,
                ]),
              ),
            ),
          ),
        ),
      )
    : empty('No operator', 'This service has none; PUT /v1/ops/{name} registers one.');

function tensors(op) {
  const rows = ['inputs', 'inouts', 'outputs'].flatMap((role) =>
    Object.entries(op[role] ?? {}).map(([name, t]) => [
      code(name),
      role.slice(0, -1),
      code((t.shape ?? []).join(' × ')),
      t.dtype,
      t.strides ? code(Array.isArray(t.strides) ? t.strides.join(', ') : text(t.strides)) : 'dense',
      text(t.fill),
      role === 'inputs' ? '' : op.tolerance?.[name] !== undefined ? text(op.tolerance[name]) : 'that of its type',
    ]),
  );
  return table('Tensors', ['Tensor', 'Role', 'Size', 'Type', 'Strides', 'Fill', 'Tolerance'], rows);
}

/** How inputs are drawn, in words: "normal, std 1". */
const drawn = (d) =>
  d && typeof d === 'object' && !Array.isArray(d)
    ? [d.dist, ...Object.entries(d).filter(([k]) => k !== 'dist').map(([k, v]) => `${k.replaceAll('_', ' ')} ${text(v)}`)].filter(Boolean).join(', ')
    : text(d);

function definition(op) {
  return [
    el('p', { class: 'small' }, link('#/operators', '← all operators')),
    el(
      'div',
      { class: 'row spread wrap' },
      el('h1', null, op.name),
      el('a', { class: 'button', href: `#/submit?op=${encodeURIComponent(op.name)}` }, 'Submit a job for it'),
    ),
    el('p', null, op.description ?? ''),
    el('p', { class: 'small muted' }, [`version ${op.version}`, ...(op.tags ?? [])].join(' · ')),
    panel(
      'Axes',
      null,
      table(
        'Axes',
        ['Axis', 'Kind', { title: 'Least', num: true }, { title: 'Most', num: true }, 'Default', 'In the hash', 'Meaning'],
        Object.entries(op.axes ?? {}).map(([name, a]) => [
          code(name),
          a.type === 'const' ? `always ${a.value}` : 'free',
          a.min ?? 1,
          a.max ?? '',
          a.default !== undefined ? code(a.default) : 'must be given',
          a.keyed === false ? 'no' : 'yes',
          a.description ?? '',
        ]),
      ),
    ),
    panel(
      'Tensors',
      null,
      tensors(op),
      facts(Object.entries(op.dtypes ?? {}).map(([k, v]) => [`type ${k}`, (Array.isArray(v) ? v : [v]).join(', ')])),
    ),
    Object.keys(op.scalars ?? {}).length
      ? panel(
          'Scalars',
          null,
          table(
            'Scalars',
            ['Scalar', 'Type', 'Value', 'Meaning'],
            Object.entries(op.scalars).map(([k, s]) => [code(k), s.dtype, text(s.value), s.description ?? '']),
          ),
        )
      : null,
    panel(
      'What a perfect kernel does',
      null,
      facts([
        ['bytes moved', op.bytes && code(op.bytes)],
        ['operations', op.flops && code(op.flops)],
        ['must hold', op.constraints?.length ? op.constraints.map((c) => el('div', null, code(text(c)))) : 'nothing more than the ranges'],
      ]),
    ),
    panel(
      'Kinds of input that results are compared on',
      null,
      el('p', { class: 'small muted' }, 'Some more are held out: they are not shown anywhere.'),
      table(
        'Kinds of input',
        ['Name', 'Meaning', 'Builds on', 'Inputs'],
        Object.entries(op.regimes ?? {}).map(([k, r]) => [
          code(k),
          r.description ?? '',
          r.base ?? '',
          el(
            'span',
            { class: 'mono small' },
            Object.entries(r.inputs ?? {}).map(([n, d]) => el('div', null, `${n}: ${drawn(d)}`)),
          ),
        ]),
      ),
    ),
  ];
}

export function operators(ctx, name) {
  const body = el('div', null, waiting('the operators'));
  const load = async () => {
    if (name) {
      replace(body, definition(await get(`/v1/ops/${encodeURIComponent(name)}`)));
      return;
    }
    const doc = await get('/v1/ops');
    replace(
      body,
      el('h1', null, 'Operators'),
      el(
        'p',
        { class: 'muted' },
        'Each is a folder of data: a definition, a reference in double precision, a baseline to beat, and templates.',
      ),
      list(doc.ops ?? []),
    );
  };
  load().catch((e) => replace(body, failure(e)));
  return { title: name ?? 'Operators', nodes: [body], update() {} };
}
