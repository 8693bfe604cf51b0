// A kernel: its certificate as a report, its signature checked here, how to fetch it, what stands behind it, and what an admin may do.
import { get, getBlob, getBytes, getText, post, Problem } from '../lib/api.js';
import { blake2b, hex } from '../lib/blake2b.js';
import { el, replace } from '../lib/dom.js';
import { ago, shapeText, speedupText, timeText } from '../lib/format.js';
import { abstract, report } from './certificate.js';
import { codeView } from './code.js';
import { signaturePanel } from './signature.js';
import {
  button,
  candidateHref,
  command,
  empty,
  evidenceBadge,
  facts,
  failure,
  jobHref,
  kernelHref,
  link,
  panel,
  safely,
  stateBadge,
  table,
  waiting,
} from './parts.js';

const FILES = ['kernel.cubin', 'kernel.ptx', 'source', 'certificate.json', 'certificate.json.minisig', 'bundle.tar'];
const MAX_PARSED = 8 << 20;

async function save(path, name) {
  const a = el('a', { href: URL.createObjectURL(await getBlob(path)), download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

/** Digests of the files, taken here, beside those of the certificate. */
function digestCheck(hash, certificate) {
  const node = el('div', { role: 'status' });
  const run = async () => {
    replace(node, waiting('the files'));
    const rows = [];
    for (const [file, name] of [
      ['source', 'source'],
      ['kernel.ptx', 'ptx'],
      ['kernel.cubin', 'cubin'],
    ]) {
      try {
        const is = hex(blake2b(await getBytes(`/v1/kernels/${encodeURIComponent(hash)}/${file}`)));
        rows.push([file, is === certificate.digests?.[name] ? '✓ as certified' : '✕ not what was certified', el('code', null, is)]);
      } catch (e) {
        rows.push([file, `could not be read: ${e.message}`, '']);
      }
    }
    replace(node, table('Digests taken here', ['File', 'Is it', 'Digest'], rows));
  };
  return { node, button: button('Take them here and compare', run) };
}

// ---- what stands behind the shape
function shelfPanel(ctx, hash, shelf, reload) {
  const form = el('div');
  const order = (what, candidate) => {
    const reason = el('input', { type: 'text', id: 'order-reason', maxlength: 500, autocomplete: 'off' });
    const send = async (event) => {
      event.preventDefault();
      try {
        const answer = await post(`/v1/kernels/${encodeURIComponent(hash)}/${what}`, {
          ...(candidate ? { candidate } : {}),
          ...(reason.value.trim() ? { reason: reason.value.trim() } : {}),
        });
        replace(
          form,
          what === 'revalidate' ? el('p', { class: 'fine' }, 'A job judges it again: ', link(jobHref(answer.id), answer.id)) : null,
        );
        ctx.tell(null);
        reload();
      } catch (e) {
        replace(form, failure(e));
        if (e.status === 401) ctx.tell(e);
      }
    };
    replace(
      form,
      el(
        'form',
        { on: { submit: send } },
        el('h3', null, `${what[0].toUpperCase()}${what.slice(1)}${candidate ? ` ${candidate.slice(-8)}` : ''}`),
        el('label', { for: 'order-reason' }, 'Reason'),
        reason,
        el(
          'div',
          { class: 'row' },
          el(
            'button',
            { type: 'submit', class: what === 'quarantine' ? 'danger' : 'primary' },
            what === 'quarantine' ? 'Withdraw it' : what === 'restore' ? 'Bring it back' : 'Judge it again',
          ),
          button('Leave it', () => replace(form)),
        ),
      ),
    );
    reason.focus();
  };
  const kernels = shelf?.kernels ?? [];
  return panel(
    'What stands behind this shape',
    null,
    kernels.length
      ? table(
          'Verified and withdrawn kernels',
          ['Candidate', 'State', { title: 'Speed-up', num: true }, { title: 'Time', num: true }, 'Evidence', 'Since', 'Admin'],
          kernels.map((k) => [
            [
              link(candidateHref(k.candidate), k.candidate.slice(-8), { class: 'mono', dataset: { key: `shelf-${k.candidate}` } }),
              k.is_baseline ? ' baseline' : null,
              k.candidate === shelf.serves ? [' ', el('b', null, '← served')] : null,
            ],
            [stateBadge(k.state), k.reason ? el('div', { class: 'small' }, `${k.reason} (${k.by ?? ''})`) : null],
            speedupText(k),
            timeText(k),
            evidenceBadge(k),
            ago(k.since),
            k.state === 'quarantined'
              ? button('Restore', () => order('restore', k.candidate), { dataset: { key: `restore-${k.candidate}` } })
              : [
                  button('Quarantine', () => order('quarantine', k.candidate), {
                    class: 'small danger',
                    dataset: { key: `quarantine-${k.candidate}` },
                  }),
                  ' ',
                  button('Revalidate', () => order('revalidate', k.candidate), { dataset: { key: `revalidate-${k.candidate}` } }),
                ],
          ]),
        )
      : el('p', { class: 'muted' }, 'Nothing is on record.'),
    shelf?.held?.length
      ? [
          el('h3', null, 'Held until an admin decides'),
          table(
            'Held candidates',
            ['Candidate', 'Reason', 'Since'],
            shelf.held.map((h) => [link(candidateHref(h.candidate), h.candidate), h.reason, ago(h.since)]),
          ),
        ]
      : null,
    form,
  );
}

const when = (time) => (time ? el('span', { title: time }, ago(time)) : '');
const historyPanel = (k) =>
  panel(
    'History',
    null,
    k.history?.length
      ? table(
          'What was served before',
          ['Candidate', { title: 'Speed-up', num: true }, { title: 'Time', num: true }, 'Evidence', 'Served from', 'Until'],
          k.history.map((h) => [
            h.candidate ? link(candidateHref(h.candidate), String(h.candidate).slice(-8), { class: 'mono' }) : '',
            speedupText(h),
            timeText(h),
            evidenceBadge(h),
            when(h.served_since),
            [when(h.until), h.reason ? el('div', { class: 'small' }, h.reason) : null],
          ]),
        )
      : el('p', { class: 'muted' }, 'It is the first that is served for this shape.'),
  );

function fetchPanel(hash) {
  const here = location.origin;
  return panel(
    'Fetch it',
    null,
    command(`proteus fetch ${hash} --server ${here} -o kernel --key proteus.pub`),
    command(`curl -O ${here}/v1/kernels/${hash}/bundle.tar\nproteus verify bundle.tar --key proteus.pub`),
    el(
      'div',
      { class: 'row wrap' },
      FILES.map((f) =>
        button(f, () =>
          save(`/v1/kernels/${encodeURIComponent(hash)}/${f}`, `${hash.slice(0, 12)}-${f}`).catch((e) =>
            replace(document.getElementById('save-problem'), failure(e)),
          ),
        ),
      ),
    ),
    el('div', { id: 'save-problem' }),
  );
}

function sourceDetails(hash, language) {
  const box = el('div');
  return el(
    'details',
    {
      class: 'panel',
      on: {
        toggle: async (e) => {
          if (!e.target.open || box.firstChild) return;
          replace(box, waiting('the source'));
          try {
            replace(box, codeView(language ?? 'cuda', await getText(`/v1/kernels/${encodeURIComponent(hash)}/source`)));
          } catch (x) {
            replace(box, failure(x));
          }
        },
      },
    },
    el('summary', null, 'Source'),
    box,
  );
}

export function kernel(ctx, hash) {
  const body = el('div', null, waiting('the kernel'));
  const plots = [];
  let served = null,
    turn = 0,
    gone = false;
  const path = `/v1/kernels/${encodeURIComponent(hash)}`;
  const closePlots = () => {
    while (plots.length) plots.pop().close();
  };

  async function files() {
    const [raw, signature, key] = await Promise.all([
      getBytes(`${path}/certificate.json`),
      getText(`${path}/certificate.json.minisig`),
      getText('/v1/signing-key'),
    ]);
    return { bytes: raw, signature, key };
  }

  async function load() {
    const mine = ++turn;
    let unread = null;
    const shelf = await get(`${path}/candidates`).catch((e) => {
      unread = e;
      return null;
    });
    let k = null,
      problem = null,
      f = null,
      certificate = null;
    try {
      k = await get(path);
    } catch (e) {
      problem = e;
    }
    if (k) {
      try {
        f = await files();
        if (f.bytes.length > MAX_PARSED) throw new Error('the certificate is too large to be shown');
        certificate = JSON.parse(new TextDecoder().decode(f.bytes));
      } catch (e) {
        problem = e;
      }
    }
    if (mine !== turn || gone) return;
    closePlots();
    served = k?.candidate ?? null;
    if (!k) {
      withdrawn(problem, shelf, unread);
      return;
    }
    const s = f && signaturePanel(f, hash, certificate),
      r = certificate && report(certificate, digestCheck(hash, certificate));
    if (r) plots.push(...r.close);
    replace(
      body,
      el(
        'article',
        { class: 'report' },
        el('p', { class: 'small' }, link('#/kernels', '← all kernels')),
        s?.stamp,
        el('h1', null, `Certificate: ${k.shape?.op ?? k.op}`),
        el('p', { class: 'mono small' }, shapeText(k.shape)),
        el('p', { class: 'mono small muted' }, hash),
        el(
          'p',
          null,
          evidenceBadge(k),
          ' ',
          k.is_baseline ? el('span', { class: 'state' }, 'baseline') : null,
          ' served ',
          ago(k.served_since),
          k.candidate ? [' · ', link(candidateHref(k.candidate), 'candidate')] : null,
          k.job ? [' · ', link(jobHref(k.job), 'job')] : null,
        ),
        k.own_baseline ? el('p', { class: 'warn' }, "The speed-up is over the job's own baseline, not the operator's.") : null,
        problem ? failure(problem) : null,
        certificate ? safely(() => abstract(certificate)) : null,
        s?.node,
        fetchPanel(hash),
        r?.sections,
        sourceDetails(hash, certificate?.program?.language),
        shelf ? shelfPanel(ctx, hash, shelf, load) : panel('What stands behind this shape', null, failure(unread)),
        historyPanel(k),
      ),
    );
  }

  function withdrawn(problem, shelf, unread) {
    const nearest = problem instanceof Problem ? problem.doc?.nearest : null;
    replace(
      body,
      el('h1', null, 'Kernel'),
      el('p', { class: 'mono small' }, hash),
      problem?.status === 410
        ? el('p', { class: 'warn' }, `✕ ${problem.message}`)
        : problem?.status === 404
          ? empty('No kernel for this shape', problem.message)
          : failure(problem),
      Array.isArray(nearest) && nearest.length
        ? panel(
            'Nearest shapes',
            null,
            table(
              'Nearest shapes',
              ['Shape', { title: 'Speed-up', num: true }, 'Evidence'],
              nearest.map((n) => [
                link(kernelHref(n.shape_hash), shapeText(n.shape) || n.shape_hash),
                speedupText(n),
                evidenceBadge(n),
              ]),
            ),
          )
        : null,
      shelf ? shelfPanel(ctx, hash, shelf, load) : unread && unread.status !== 404 ? panel('What stands behind this shape', null, failure(unread)) : null,
    );
  }

  load().catch((e) => replace(body, failure(e)));
  return {
    title: 'Kernel',
    nodes: [body],
    update() {
      const { state } = ctx,
        now = state.kernels.get(hash)?.candidate ?? (state.gone.has(hash) ? null : undefined);
      if (now !== undefined && served !== undefined && turn && now !== served && body.querySelector('h1')) {
        served = now;
        load().catch(ctx.tell);
      }
    },
    close() {
      gone = true;
      closePlots();
    },
  };
}
