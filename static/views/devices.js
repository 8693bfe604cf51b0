// Devices: how each is, how candidates are shut in, and what measurements over time say about clocks and calibration.
import { get } from '../lib/api.js';
import { el, part } from '../lib/dom.js';
import { color, Plot } from '../lib/plot.js';
import { byteRate, bytes, duration, isMeasured, number } from '../lib/format.js';
import { empty, facts, failure, kernelHref, link, panel, table } from './parts.js';

const MOST = 40; // certificates that are looked into
const LINES = [['accent'], ['good', [6, 4]], ['correct', [2, 4]], ['warn', [9, 3]]]; // colour and dashes of a card's line
const LAYERS = {
  limits: 'limits of memory, processes and time',
  seccomp: 'a filter of system calls',
  landlock: 'no files but its own',
  namespaces: 'no network, no other processes',
  cgroup: 'a limit of memory for all its processes together',
};

function deviceCard(d, sandbox) {
  const layers = Array.isArray(sandbox?.layers) ? sandbox.layers : [];
  return el(
    'article',
    { class: 'card' },
    el(
      'div',
      { class: 'row spread' },
      el('h3', null, d.name ?? d.kind ?? 'device'),
      el(
        'span',
        { class: 'state', dataset: { state: d.healthy === false ? 'failed' : 'ok' } },
        `${d.healthy === false ? '✕' : '✓'} ${d.health ?? 'unknown'}`,
      ),
    ),
    el(
      'p',
      null,
      d.kind === 'cuda'
        ? 'A card: times here are measurements.'
        : 'The emulator: results are checked, times are estimates. It has no clock of its own.',
    ),
    facts([
      ['id', d.id],
      ['target', d.target],
      ['uuid', d.uuid],
      ['driver', d.driver],
      ['multiprocessors', d.sm_count],
      ['memory', d.memory_bytes > 0 && bytes(d.memory_bytes)],
      ['L2', d.l2_bytes > 0 && bytes(d.l2_bytes)],
      ['SM clock', d.sm_clock_mhz > 0 && `${number(d.sm_clock_mhz)} MHz`],
      ['temperature', d.temperature_c > 0 && `${d.temperature_c} °C`],
      ['sandbox', d.sandbox ?? sandbox?.level],
    ]),
    layers.length
      ? el(
          'ul',
          { class: 'small' },
          layers.map((l) => el('li', null, el('b', null, l), LAYERS[l] ? `: ${LAYERS[l]}` : '')),
        )
      : null,
  );
}

function toolkitPanel(t) {
  if (!t) return [];
  return panel(
    'Toolkit',
    null,
    t.version
      ? facts([
          ['CUDA', t.version],
          ['Triton', t.triton?.version ?? (t.triton?.missing ? `none: ${t.triton.missing}` : 'none')],
        ])
      : el('p', { class: 'error' }, `✕ No CUDA toolkit: ${t.missing ?? 'not found'}. No kernel can be compiled until there is one.`),
  );
}

/** From certificates of measured kernels: when, copy rate, clock. */
async function calibrations(state) {
  const list = [...state.kernels.values()]
    .filter(isMeasured)
    .sort((a, b) => (b.served_since ?? '').localeCompare(a.served_since ?? ''))
    .slice(0, MOST);
  const rows = await Promise.all(
    list.map(async (k) => {
      const c = await get(`/v1/kernels/${encodeURIComponent(k.shape_hash)}/certificate.json?evidence=measured`).catch(() => null);
      return (
        c?.calibration && {
          at: Date.parse(c.times?.ended) / 1000,
          hash: k.shape_hash,
          device: c.device?.name,
          uuid: c.device?.uuid,
          copy: c.calibration.copy_bytes_per_ns,
          read: c.calibration.read_bytes_per_ns,
          clock: c.calibration.sm_clock_mhz,
          node: c.calibration.node_ns,
          control: c.timing?.control,
        }
      );
    }),
  );
  return rows.filter((r) => r && r.at > 0).sort((a, b) => a.at - b.at);
}

function overTime(rows, close) {
  if (!rows.length)
    return empty(
      'Nothing was measured yet',
      'Clocks and calibration over time are read from the certificates of measured kernels; this service has none.',
    );
  const cards = [...new Set(rows.map((r) => r.uuid ?? r.device ?? ''))].slice(0, LINES.length);
  const line = (name, say, key) => {
    const values = rows.map((r) => r[key]).filter(Number.isFinite);
    const plot = new Plot({
      height: 170,
      label: `${name} over ${rows.length} certificates of ${cards.length} card${cards.length > 1 ? 's' : ''}: ${say(Math.min(...values))} to ${say(Math.max(...values))}, last ${say(rows.at(-1)[key])}`,
      data: [rows.map((r) => r.at), ...cards.map((c) => rows.map((r) => ((r.uuid ?? r.device ?? '') === c ? (r[key] ?? null) : null)))],
      options: () => ({
        scales: { x: { range: (u, min, max) => (max - min > 60 ? [min, max] : [min - 1800, max + 1800]) } },
        axes: [{}, { size: 86, values: (u, v) => v.map(say) }],
        series: [
          {},
          ...cards.map((c, i) => ({ stroke: color(LINES[i][0]), dash: LINES[i][1], width: 2, spanGaps: true, points: { show: true, size: 6 } })),
        ],
      }),
    });
    close.push(plot);
    return [el('h3', null, name), plot.node];
  };
  return [
    rows.length > 1
      ? [
          line('Copies memory at', byteRate, 'copy'),
          line('SM clock when calibrated', (v) => `${number(v)} MHz`, 'clock'),
          cards.length > 1
            ? el(
                'ul',
                { class: 'legend' },
                cards.map((c, i) => el('li', { class: `key ${LINES[i][0]}` }, el('i', { 'aria-hidden': 'true' }, LINES[i][1] ? '┄' : '━'), ` ${c}`)),
              )
            : null,
        ]
      : el('p', null, 'One certificate so far: the course over time begins with the second.'),
    table(
      'Calibrations',
      [
        'When',
        'Device',
        { title: 'Copies memory at', num: true },
        { title: 'Reads memory at', num: true },
        { title: 'SM clock', num: true },
        { title: 'Empty launch in a graph', num: true },
        'Certificate',
      ],
      rows
        .slice()
        .reverse()
        .map((r) => [
          `${new Date(r.at * 1000).toISOString().slice(0, 19).replace('T', ' ')} UTC`,
          [r.device ?? '', el('div', { class: 'small muted mono' }, r.uuid ?? '')],
          byteRate(r.copy),
          byteRate(r.read),
          r.clock > 0 ? `${number(r.clock)} MHz` : '–',
          duration(r.node),
          link(kernelHref(r.hash), r.hash.slice(0, 12)),
        ]),
    ),
  ];
}

export function devices(ctx) {
  const close = [];
  const cards = part(el('div', { class: 'cards' }), (state) =>
    state.devices.length
      ? state.devices.map((d) => deviceCard(d, state.sandbox))
      : empty('No device is known yet', 'The service asks its judge for them at the start.'),
  );
  const toolkit = part(el('div'), (state) => toolkitPanel(state.toolkit));
  const use = part(el('div'), (state) => {
    const now = [...state.work.values()].map((w) => w.now).filter(Boolean);
    return now.length
      ? table(
          'In work now',
          ['Device', 'Phase', 'Job', 'Candidate'],
          now.map((c) => [
            el('b', null, c.device ?? 'not told'),
            `${c.phaseMode === 'retest' ? 'again: ' : ''}${c.phase}`,
            link(`#/jobs/${encodeURIComponent(c.job)}`, c.job, { class: 'mono small' }),
            link(`#/candidates/${encodeURIComponent(c.id)}`, c.baseline ? 'a baseline' : c.id, { class: 'mono small' }),
          ]),
        )
      : el('p', { class: 'muted' }, 'Nothing is being judged.');
  });
  const time = el('div', null, el('p', { class: 'muted' }, 'Reading certificates…'));
  let asked = null;
  return {
    title: 'Devices',
    nodes: [
      el('h1', null, 'Devices'),
      cards.node,
      panel('In use', null, use.node),
      toolkit.node,
      panel('Clocks and calibration over time', null, time),
    ],
    update() {
      const { state } = ctx;
      if (!ctx.feed.ready) return;
      cards.update(JSON.stringify(state.devices) + JSON.stringify(state.sandbox ?? 0), state);
      toolkit.update(JSON.stringify(state.toolkit ?? 0), state);
      use.update([...state.work.values()].map((w) => `${w.now?.id}${w.now?.phase}${w.now?.device}`).join(), state);
      if (asked !== state) {
        asked = state;
        ctx.feed
          .readKernels()
          .catch(() => {})
          .then(() => calibrations(state))
          .then(
            (rows) => {
              if (asked === state) time.replaceChildren(...[overTime(rows, close)].flat(4).filter(Boolean));
            },
            (e) => time.replaceChildren(failure(e)),
          );
      }
    },
    close() {
      asked = {};
      while (close.length) close.pop().close();
    },
  };
}
