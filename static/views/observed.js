// Shapes from the field, in the order in which jobs take them, and what that order is based on.
import { get } from '../lib/api.js';
import { el, replace } from '../lib/dom.js';
import { ago, axesText, count, duration, shortHash } from '../lib/format.js';
import { empty, failure, kernelHref, link, table, waiting } from './parts.js';

const MOST = 100;
const BASES = {
  measured: ['measured', 'measured', 'The kernel that is served and its baseline, measured on a card'],
  estimate: ['estimate', 'estimate', "The emulator's estimates of the baseline and the best; no measurement"],
  nearby_estimate: ['estimate', 'estimate close by', 'Guessed from the estimates of a shape close by; no measurement'],
  byte_floor: ['estimate', 'bytes alone', 'Nothing is known yet: the least bytes at 4 TB/s. A size, no time'],
};

/** "≈ 1.2 ms"; only a measurement goes without the sign. */
export const savingText = (order) =>
  order?.saving_ns > 0 ? `${order.based_on === 'measured' ? '' : '≈ '}${duration(order.saving_ns)}` : '–';

function basis(order, estimate) {
  const [cls, word, title] = BASES[order?.based_on] ?? ['estimate', String(order?.based_on ?? 'nothing'), 'Nothing is known'];
  const factor = Number(order?.nearby?.factor),
    why = typeof estimate?.error === 'string' ? estimate.error : '';
  return [
    el('span', { class: `evidence ${cls}`, title }, word),
    order?.nearby && Number.isFinite(factor)
      ? el('div', { class: 'small muted' }, `${shortHash(String(order.nearby.shape_hash))} × ${factor.toFixed(2)}`)
      : null,
    why ? el('div', { class: 'small muted' }, `no estimate: ${why}`) : null,
  ];
}

const rows = (list) =>
  table(
    'Observed shapes',
    ['Operator', 'Axes', 'Target', { title: 'Launches', num: true }, { title: 'Would save', num: true }, 'Based on', 'Kernel', { title: 'Last seen', cls: 'when' }],
    list.map((o) => [
      String(o.shape?.op ?? '?'),
      el('span', { class: 'mono small' }, axesText(o.shape?.axes)),
      String(o.shape?.target ?? ''),
      count(o.count),
      savingText(o.order),
      basis(o.order, o.estimate),
      o.kernel ? link(kernelHref(o.shape_hash), 'served') : 'none',
      ago(o.last),
    ]),
  );

export function observed() {
  const body = el('div', null, waiting('the observed shapes'));
  const load = async () => {
    const list = (await get(`/v1/observations?limit=${MOST}`)).observations ?? [];
    replace(
      body,
      el('h1', null, 'Observed shapes'),
      el(
        'p',
        { class: 'muted' },
        `What engines launch, what would save most first${list.length < MOST ? '' : `; the first ${MOST}`}. A saving is the launches times what the best takes less than the baseline.`,
      ),
      list.length ? rows(list) : empty('Nothing was observed', 'proteus observe FILE imports what an engine logged.'),
    );
  };
  load().catch((e) => replace(body, failure(e)));
  return { title: 'Observed shapes', nodes: [body], update() {} };
}
