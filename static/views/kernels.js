// Kernels by shape, and the devices that judge them.
import { el } from '../lib/dom.js';
import { axesText, duration, intervalText, isMeasured, shortHash, speedup, speedupText } from '../lib/format.js';
import { empty, evidenceBadge } from './parts.js';

function row(k, open) {
  const s = speedup(k);
  return el('tr', null,
    el('td', null, el('button', { class: 'link mono', type: 'button', dataset: { key: `kernel-${k.shape_hash}` }, on: { click: () => open(k.shape_hash) } }, shortHash(k.shape_hash))),
    el('td', null, k.shape?.op ?? k.op ?? ''),
    el('td', { class: 'mono small wide' }, axesText(k.shape?.axes)),
    el('td', null, k.target ?? k.shape?.target ?? ''),
    el('td', { class: 'num', title: intervalText(s) }, speedupText(s)),
    el('td', { class: 'num' }, k.time_ns > 0 ? `${isMeasured(k) ? '' : '≈ '}${duration(k.time_ns)}` : '–'),
    el('td', null, evidenceBadge(k), k.is_baseline ? el('span', { class: 'muted small' }, ' baseline') : null));
}

export function kernels(ctx) {
  const list = [...ctx.state.kernels.values()]
    .filter((k) => !ctx.evidence || (ctx.evidence === 'measured') === isMeasured(k))
    .sort((a, b) => (b.served_since ?? '').localeCompare(a.served_since ?? ''));
  const choose = (value, label) => el('button', { type: 'button', class: 'ghost small', 'aria-pressed': String((ctx.evidence ?? '') === value),
    dataset: { key: `evidence-${value}` }, on: { click: () => ctx.setEvidence(value) } }, label);
  return [el('div', { class: 'row spread wrap' }, el('h1', null, 'Kernels'),
    el('div', { class: 'row', role: 'group', 'aria-label': 'Evidence' }, choose('', 'All'), choose('measured', 'Measured'), choose('estimate', 'Estimates'))),
  list.length ? el('div', { class: 'table-box tall', tabindex: 0, role: 'region', 'aria-label': 'Kernels', dataset: { scroll: 'kernels' } }, el('table', null,
    el('thead', null, el('tr', null, ['Shape', 'Operator', 'Axes', 'Target', 'Speed-up', 'Time', 'Evidence'].map((t) => el('th', { scope: 'col' }, t)))),
    el('tbody', null, list.slice(0, 500).map((k) => row(k, ctx.openKernel)))))
    : empty('No kernel here yet', 'A kernel appears as soon as its first candidate, or the baseline, has been verified.')];
}

function deviceCard(d, sandbox) {
  const health = d.health?.state ?? d.health ?? 'unknown';
  const facts = [['target', d.target], ['uuid', d.uuid], ['driver', d.driver], ['sandbox', d.sandbox?.level ?? d.sandbox ?? sandbox?.level]]
    .filter(([, v]) => typeof v === 'string' || typeof v === 'number');
  return el('div', { class: 'card' },
    el('div', { class: 'row spread' }, el('strong', null, d.name ?? d.kind ?? 'device'), el('span', { class: 'state', dataset: { state: String(health) } }, String(health))),
    el('p', { class: 'muted' }, d.kind === 'cuda' ? 'A card: times here are measurements.' : 'The emulator: results are checked, times are estimates.'),
    el('dl', null, facts.map(([k, v]) => [el('dt', null, k), el('dd', { class: 'mono small' }, String(v))])));
}

export function devices(ctx) {
  const { devices: list, toolkit, sandbox } = ctx.state;
  return [el('h1', null, 'Devices'),
    toolkit && !toolkit.version ? el('p', { class: 'error' }, `No CUDA toolkit: ${toolkit.missing ?? 'not found'}. No kernel can be compiled until there is one.`) : null,
    list.length ? el('div', { class: 'cards' }, list.map((d) => deviceCard(d, sandbox))) : empty('No device is known yet', 'The service asks its judge for them at the start.'),
    toolkit?.version ? el('p', { class: 'muted small' }, `CUDA toolkit ${toolkit.version}`) : null];
}
