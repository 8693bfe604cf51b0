// Asking for kernels: a form made from the operators' definitions, or from a model's preset. The shape hash is shown as one types, and
// what the service refuses stands beside the field that its pointer names.
import { get, post } from '../lib/api.js';
import { el, replace } from '../lib/dom.js';
import { button, failure, jobHref, waiting } from './parts.js';

const HASH_MS = 180;
let serial = 0;

/** A labelled field with a hint and a place for what is wrong with it; `pointer`: its place in the request. */
function field(form, label, pointer, input, hint) {
  const id = `f${++serial}`,
    wrong = el('p', { class: 'wrong', id: `${id}-wrong`, hidden: true }),
    said = hint ? el('p', { class: 'hint', id: `${id}-hint` }, hint) : null;
  input.id = id;
  input.setAttribute('aria-describedby', [said && `${id}-hint`, `${id}-wrong`].filter(Boolean).join(' '));
  const tell = (text) => {
    wrong.hidden = !text;
    wrong.textContent = text ? `⚠ ${text}` : '';
    if (text) input.setAttribute('aria-invalid', 'true');
    else input.removeAttribute('aria-invalid');
  };
  form.push({ pointer, tell, input });
  return el('div', { class: 'field' }, el('label', { for: id }, label), input, said, wrong);
}

const select = (options, value) =>
  el(
    'select',
    null,
    options.map((o) => el('option', { value: o.value ?? o, selected: (o.value ?? o) === value }, o.label ?? o)),
  );
const numeric = (attributes) => el('input', { type: 'text', inputmode: 'numeric', autocomplete: 'off', spellcheck: false, ...attributes });
const asNumber = (text) => (/^-?\d+$/.test(text.trim()) ? Number(text.trim()) : text.trim());

export function submit(ctx, id, query) {
  const box = el('div', null, waiting('the operators'));
  let from = null;
  const start = async () => {
    const [ops, presets] = await Promise.all([get('/v1/ops'), get('/v1/presets').catch(() => ({ presets: [] }))]);
    const again = query.get('from');
    if (again) from = await get(`/v1/jobs/${encodeURIComponent(again)}`).catch(() => null);
    replace(box, build(ctx, ops.ops ?? [], presets.presets ?? [], from, query.get('op')));
  };
  start().catch((e) => replace(box, failure(e)));
  return {
    title: 'Submit a job',
    nodes: [
      el('h1', null, 'Submit a job'),
      el(
        'p',
        { class: 'muted' },
        'Name an operator and the exact shapes that your model runs. What comes back is a kernel for just that shape, judged and signed.',
      ),
      box,
    ],
    update() {},
  };
}

function build(ctx, ops, presets, from, wantedOp) {
  let fields = [],
    timer = 0,
    turn = 0;
  const general = [];
  const state = { kind: from?.model ? 'model' : 'shapes', op: ops.find((o) => o.name === (from?.op ?? wantedOp)) ?? ops[0], shapes: [] };
  const form = el('form', { novalidate: true }),
    what = el('div'),
    summary = el('div', { role: 'alert' });
  const previous = (from?.shapes ?? []).filter((s) => s.shape?.op === state.op?.name).map((s) => s.shape.axes);
  const send = el('button', { type: 'submit', class: 'primary' }, 'Submit');

  const kinds = el('div', { class: 'tabs', role: 'group', 'aria-label': 'What to ask for' });
  const drawKinds = () =>
    replace(
      kinds,
      button(
        'Shapes of an operator',
        () => {
          state.kind = 'shapes';
          draw();
        },
        { 'aria-pressed': String(state.kind === 'shapes') },
      ),
      presets.length
        ? button(
            "A model's decode step",
            () => {
              state.kind = 'model';
              draw();
            },
            { 'aria-pressed': String(state.kind === 'model') },
          )
        : null,
    );

  // ---- shapes of an operator
  function shapeSet(i) {
    const axes = Object.entries(state.op.axes ?? {}).filter(([, a]) => a.type !== 'const');
    const inputs = {},
      hash = el('div', { class: 'hash' }, '…'),
      spoken = el('div', { class: 'out', role: 'status' });
    const row = el(
      'fieldset',
      null,
      el('legend', null, `Shape ${i + 1}`),
      el(
        'div',
        { class: 'fields' },
        axes.map(([name, a]) => {
          const range = [a.min !== undefined && `from ${a.min}`, a.max !== undefined && `to ${a.max}`].filter(Boolean).join(' ');
          const input = (inputs[name] = numeric({
            value: state.shapes[i]?.[name] ?? '',
            placeholder: a.default !== undefined ? String(a.default) : '',
            name,
          }));
          input.addEventListener('input', () => {
            state.shapes[i][name] = input.value;
            hashSoon();
          });
          return field(
            fields,
            name,
            `/shapes/${i}/${name}`,
            input,
            [a.description, range, a.default !== undefined && `${a.default} if left empty`].filter(Boolean).join('; '),
          );
        }),
      ),
      el(
        'div',
        { class: 'row wrap spread' },
        el('span', { class: 'small muted' }, 'Shape hash'),
        state.shapes.length > 1
          ? button(
              'Remove this shape',
              () => {
                state.shapes.splice(i, 1);
                draw();
              },
              { dataset: { key: `remove-${i}` } },
            )
          : null,
      ),
      hash,
      spoken,
    );
    /** 64 digits are for the eye; a screen reader hears that they are there, once. */
    row.say = (text, words) => {
      hash.textContent = text;
      if (spoken.textContent !== words) spoken.textContent = words;
    };
    return row;
  }

  const axesOf = (i) =>
    Object.fromEntries(
      Object.entries(state.shapes[i])
        .filter(([k, v]) => v !== '' && k in (state.op.axes ?? {}))
        .map(([k, v]) => [k, asNumber(String(v))]),
    );
  const dtypes = () =>
    Object.fromEntries(
      Object.entries(state.dtypes ?? {})
        .filter(([, input]) => input.value)
        .map(([k, input]) => [k, input.value]),
    );

  function hashSoon() {
    clearTimeout(timer);
    timer = setTimeout(hashes, HASH_MS);
  }
  async function hashes() {
    const mine = ++turn;
    for (const f of fields) f.tell('');
    for (let i = 0; i < state.rows.length; i++) {
      const axes = axesOf(i),
        row = state.rows[i];
      if (!Object.keys(axes).length) {
        row.say('Type the axes; the hash of the shape appears here.', '');
        continue;
      }
      try {
        const doc = await post('/v1/shape-hash', {
          op: state.op.name,
          axes,
          dtypes: dtypes(),
          ...(state.target?.value ? { target: state.target.value } : {}),
        });
        if (mine !== turn) return;
        row.say(doc.shape_hash ?? '', 'Hash ready.');
      } catch (e) {
        if (mine !== turn) return;
        let text = 'No hash yet: the shape is not whole.';
        for (const fault of e.doc?.errors ?? []) {
          const name = /^\/axes\/([^/]+)/.exec(fault.pointer ?? '')?.[1];
          const at = fields.find((f) => f.pointer === (name ? `/shapes/${i}/${name}` : fault.pointer));
          if (at && (at.input.value !== '' || !name))
            at.tell(fault.detail); // an empty one is not wrong yet
          else if (!at) text = fault.detail ?? text;
        }
        row.say(text, 'The shape is not whole.');
      }
    }
  }

  function drawShapes() {
    if (!state.op) return el('p', { class: 'warn' }, 'This service has no operators.');
    const op = select(
      ops.map((o) => ({ value: o.name, label: o.name })),
      state.op.name,
    );
    op.addEventListener('change', () => {
      state.op = ops.find((o) => o.name === op.value);
      state.shapes = [{}];
      draw();
      op.focus();
    });
    if (!state.shapes.length) state.shapes = previous.length ? previous.map((a) => ({ ...a })) : [{}];
    state.dtypes = {};
    const letters = Object.entries(state.op.dtypes ?? {});
    const opField = field(fields, 'Operator', '/op', op, state.op.description);
    const dtypeFields = letters.map(([letter, list]) => {
      const input = (state.dtypes[letter] = select(list, from?.shapes?.[0]?.shape?.dtypes?.[letter] ?? list[0]));
      input.addEventListener('change', hashSoon);
      return field(fields, `Type of ${letter}`, `/dtypes/${letter}`, input);
    });
    state.rows = state.shapes.map((_, i) => shapeSet(i));
    queueMicrotask(hashes);
    return [
      opField,
      el('div', { class: 'fields' }, dtypeFields),
      state.rows,
      button('Add a shape', () => {
        state.shapes.push({ ...state.shapes.at(-1) });
        draw();
      }),
    ];
  }

  // ---- a model
  function drawModel() {
    const model = from?.model ?? {},
      preset = select(
        presets.map((p) => p.name),
        model.preset ?? presets[0].name,
      ),
      info = el('p', { class: 'hint' });
    const say = () => {
      const p = presets.find((x) => x.name === preset.value);
      info.textContent = `${p?.description ?? ''} Operators: ${(p?.ops ?? []).join(', ')}.`;
    };
    preset.addEventListener('change', say);
    say();
    const chosen = presets.find((p) => p.name === preset.value),
      text = (v, d) => (Array.isArray(v) ? v.join(',') : (v ?? d));
    state.model = {
      preset,
      tp: numeric({ value: text(model.tp, String(chosen?.tp?.at(-1) ?? 1)) }),
      batch: numeric({ value: text(model.batch, '1') }),
    };
    return [
      field(fields, 'Model', '/model/preset', preset),
      info,
      el(
        'div',
        { class: 'fields' },
        field(fields, 'Tensor parallelism', '/model/tp', state.model.tp, `one or several: ${(chosen?.tp ?? []).join(', ')}`),
        field(fields, 'Batch', '/model/batch', state.model.batch, `one or several, up to ${chosen?.batch_max ?? '?'}: 1,4,16`),
      ),
    ];
  }

  const list = (text) => {
    const parts = text
      .split(',')
      .map((t) => asNumber(t))
      .filter((t) => t !== '');
    return parts.length === 1 ? parts[0] : parts;
  };

  // ---- for both
  function common() {
    const b = from?.budget ?? {};
    const target = (state.target = el('input', {
      type: 'text',
      autocomplete: 'off',
      spellcheck: false,
      value: from?.target ?? '',
      placeholder: ctx.state.devices[0]?.target ?? 'sm_90a',
    }));
    target.addEventListener('input', hashSoon);
    const generator = select(
      ['template', 'llm', 'external'].map((v) => ({
        value: v,
        label: { template: 'template search', llm: 'LLM agent', external: 'an external agent sends candidates' }[v],
      })),
      ['template', 'llm', 'external'].includes(from?.generator) ? from.generator : 'template',
    );
    const reuse = select(
      [
        { value: 'verified', label: 'answer at once where there is a kernel' },
        { value: 'never', label: 'search anew in any case' },
      ],
      from ? 'never' : 'verified',
    );
    const budget = {
      candidates: numeric({ value: b.candidates ?? '24' }),
      wall_seconds: numeric({ value: b.wall_seconds ?? '' }),
      gpu_seconds: numeric({ value: b.gpu_seconds ?? '' }),
      tokens: numeric({ value: b.tokens ?? '' }),
    };
    Object.assign(state, { generator, reuse, budget });
    return [
      el(
        'fieldset',
        null,
        el('legend', null, 'How to search'),
        el(
          'div',
          { class: 'fields' },
          field(general, 'Generator', '/generator', generator),
          field(general, 'Known shapes', '/reuse', reuse),
          field(general, 'Target', '/target', target, "the first device's if left empty"),
        ),
      ),
      el(
        'fieldset',
        null,
        el('legend', null, 'Budget'),
        el(
          'div',
          { class: 'fields' },
          field(general, 'Candidates', '/budget/candidates', budget.candidates, "without the baseline; the service's default if left empty"),
          field(general, 'Wall seconds', '/budget/wall_seconds', budget.wall_seconds, "the service's default if left empty"),
          field(general, 'GPU seconds', '/budget/gpu_seconds', budget.gpu_seconds, 'no limit if left empty'),
          field(general, 'Tokens', '/budget/tokens', budget.tokens, 'of a language model, where one is asked'),
        ),
      ),
    ];
  }

  function request() {
    const body = { generator: state.generator.value, reuse: state.reuse.value },
      budget = {};
    for (const [k, input] of Object.entries(state.budget)) if (input.value.trim() !== '') budget[k] = asNumber(input.value);
    if (Object.keys(budget).length) body.budget = budget;
    if (state.kind === 'model')
      body.model = {
        preset: state.model.preset.value,
        tp: list(state.model.tp.value),
        batch: list(state.model.batch.value),
        ...(state.target.value.trim() ? { target: state.target.value.trim() } : {}),
      };
    else
      Object.assign(body, {
        op: state.op.name,
        shapes: state.shapes.map((_, i) => axesOf(i)),
        dtypes: dtypes(),
        ...(state.target.value.trim() ? { target: state.target.value.trim() } : {}),
      });
    return body;
  }

  /** A fault goes to the field whose pointer it names, or that is nearest above it; the rest above the button. */
  function refused(e) {
    const all = [...fields, ...general],
      rest = [];
    for (const fault of e.doc?.errors ?? []) {
      let p = String(fault.pointer ?? '').replace('/axes/', '/'),
        at = null;
      for (; p && !at; p = p.slice(0, p.lastIndexOf('/'))) at = all.find((f) => f.pointer === p);
      if (at) at.tell(fault.detail);
      else rest.push(`${fault.pointer ?? ''} ${fault.detail ?? ''}`.trim());
    }
    replace(summary, el('p', { class: 'error' }, [e.message, ...rest].join(' · ')));
    all.find((f) => f.input.getAttribute('aria-invalid'))?.input.focus();
  }

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    clearTimeout(timer);
    turn++;
    for (const f of [...fields, ...general]) f.tell('');
    replace(summary);
    send.disabled = true;
    try {
      const job = await post('/v1/jobs', request());
      ctx.go(jobHref(job.id));
    } catch (e) {
      refused(e);
      if (e.status === 401) ctx.tell(e);
    } finally {
      send.disabled = false;
    }
  });

  function draw() {
    fields = [];
    drawKinds();
    replace(what, state.kind === 'model' ? drawModel() : drawShapes());
  }
  draw();
  form.append(kinds, what, ...common().filter(Boolean), summary, el('div', { class: 'row' }, send));
  return el('section', { class: 'panel', 'aria-label': 'The request' }, form);
}
