// Details beside the page: a candidate with its verdict, a kernel with its evidence.
import { el, replace } from '../lib/dom.js';
import { get, getBlob, getText } from '../lib/api.js';
import { duration, intervalText, isMeasured, speedup, speedupText } from '../lib/format.js';
import { chips, evidenceBadge, verdictBadge } from './parts.js';

const dialog = () => document.getElementById('drawer');
const MAX_TEXT = 200000;

export function setUp() {
  document.getElementById('drawer-close').addEventListener('click', () => dialog().close());
  dialog().addEventListener('click', (e) => { if (e.target === dialog()) dialog().close(); });
}

function show(title, ...children) {
  document.getElementById('drawer-title').textContent = title;
  replace(document.getElementById('drawer-body'), ...children);
  if (!dialog().open) dialog().showModal();
}

const facts = (pairs) => el('dl', null, pairs.filter(([, v]) => v !== undefined && v !== null && v !== '' && v !== false)
  .map(([k, v]) => [el('dt', null, k), el('dd', null, v.nodeType ? v : String(v))]));
const code = (title, text) => (text ? el('details', { open: title === 'Log' }, el('summary', null, title), el('pre', { tabindex: 0 }, String(text).slice(0, MAX_TEXT))) : null);
const json = (title, value) => (value ? code(title, JSON.stringify(value, null, 2)) : null);
const failed = (title, e) => show(title, el('p', { class: 'error' }, e.message));

export async function openCandidate(id) {
  show('Candidate', el('p', { class: 'muted' }, 'loading'));
  try {
    const c = await get(`/v1/candidates/${encodeURIComponent(id)}`);
    const v = c.verdict ?? {};
    const { log, ...detail } = v.detail ?? {};
    show(c.is_baseline ? 'Baseline' : 'Candidate',
      el('div', { class: 'row wrap' }, verdictBadge(v.code), evidenceBadge(c.figures), speedup(c.figures) ? el('strong', null, speedupText(speedup(c.figures))) : null),
      v.text ? el('p', null, v.text) : null,
      v.for_person ? el('p', { class: 'muted' }, v.for_person) : null,
      facts([['id', c.id], ['language', c.candidate?.language], ['last phase', v.phase], ['whose fault', v.fault], ['time', c.figures?.time_ns > 0 && `${isMeasured(c.figures) ? '' : '≈ '}${duration(c.figures.time_ns)}`],
        ['interval', intervalText(speedup(c.figures))], ['notes', c.candidate?.notes], ['advice', v.for_generator]]),
      c.phases?.length ? el('table', null, el('tbody', null, c.phases.map((p) => el('tr', null, el('td', null, String(p.phase)), el('td', { class: 'num' }, typeof p.ms === 'number' ? `${p.ms.toFixed(1)} ms` : ''))))) : null,
      code('Log', log), Object.keys(detail).length ? json('What exactly', detail) : null, code('Source', c.candidate?.source), json('Launch plan', c.candidate?.plan), json('Figures', c.figures));
  } catch (e) { failed('Candidate', e); }
}

async function download(path, name) {
  const url = URL.createObjectURL(await getBlob(path));
  const a = el('a', { href: url, download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const PARTS = ['bundle.tar', 'kernel.cubin', 'kernel.ptx', 'source', 'certificate.json', 'certificate.json.minisig'];

export async function openKernel(hash) {
  show('Kernel', el('p', { class: 'muted' }, 'loading'));
  const base = `/v1/kernels/${encodeURIComponent(hash)}`;
  try {
    const k = await get(base);
    const s = speedup(k);
    const saved = (name) => el('button', { class: 'ghost small', type: 'button', on: { click: (e) =>
      download(`${base}/${name}`, name).catch((x) => { e.target.textContent = x.message; }) } }, name);
    const source = el('details', null, el('summary', null, 'Source'), el('pre', { tabindex: 0 }, 'loading'));
    source.addEventListener('toggle', async () => {
      if (!source.open || source.dataset.loaded) return;
      source.dataset.loaded = '1';
      try { source.lastChild.textContent = (await getText(`${base}/source`)).slice(0, MAX_TEXT); } catch (x) { source.lastChild.textContent = x.message; }
    });
    show(k.shape?.op ?? 'Kernel',
      el('div', { class: 'row wrap' }, el('strong', { class: 'big' }, speedupText(s)), evidenceBadge(k), k.is_baseline ? el('span', { class: 'muted' }, 'the baseline itself') : null),
      chips(k.shape?.axes),
      isMeasured(k) ? null : el('p', { class: 'warn' }, 'The times are estimates of the emulator, no measurements. The result itself was checked.'),
      facts([['shape hash', el('code', null, hash)], ['target', k.target], ['time', k.time_ns > 0 && `${isMeasured(k) ? '' : '≈ '}${duration(k.time_ns)}`],
        ['baseline', k.baseline_time_ns > 0 && `${isMeasured(k) ? '' : '≈ '}${duration(k.baseline_time_ns)}`], ['interval', intervalText(s)], ['mode', k.mode], ['served since', k.served_since]]),
      el('div', { class: 'row wrap' }, PARTS.map(saved)),
      el('p', { class: 'muted small' }, 'Check it against a key that you hold: ', el('code', null, 'proteus verify bundle.tar --key FILE')),
      source, json('Launch plan, numbers filled in', k.plan), json('Preconditions', k.preconditions), json('Digests', k.digests), json('History', k.history?.length ? k.history : null));
  } catch (e) { failed('Kernel', e); }
}
