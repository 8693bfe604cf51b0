// The page: snapshots, then the stream of all events behind them; one more stream tells the chosen job's story from its start.
import { get, headers, post, Problem, problemOf, token } from './lib/api.js';
import { EventStream } from './lib/sse.js';
import { replace } from './lib/dom.js';
import { ended, newState, takeEvent, takeJob, takeKernel } from './lib/state.js';
import { chooseJob, live } from './views/live.js';
import { devices, kernels } from './views/kernels.js';
import * as drawer from './views/drawer.js';

const byId = (id) => document.getElementById(id);
const views = { overview: live, kernels, devices };

let state = newState();
let stream = null;        // of all events
let story = null;         // {id, stream}: of the chosen job
let timer = 0;
const ctx = {
  get state() { return state; },
  view: 'overview', wantedJob: null, evidence: '',
  openCandidate: drawer.openCandidate, openKernel: drawer.openKernel,
  setEvidence: (value) => { ctx.evidence = value; draw(); },
  cancel: (id) => post(`/v1/jobs/${encodeURIComponent(id)}/cancel`).then((job) => { takeJob(state, job, job.as_of ?? state.asOf); draw(); }).catch(tell),
};

// ---- drawing: at most once a frame
let drawing = false;
function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    for (const a of document.querySelectorAll('[data-nav]')) {
      if (a.dataset.nav === ctx.view) a.setAttribute('aria-current', 'page'); else a.removeAttribute('aria-current');
    }
    replace(byId('main'), views[ctx.view](ctx));
    follow();
  });
}

function tell(problem) {
  const box = byId('notice');
  box.hidden = !problem;
  box.textContent = problem ? String(problem.message ?? problem) : '';
  if (problem instanceof Problem && problem.status === 401) askToken();
}

function connection(name, until) {
  const pill = byId('connection');
  pill.dataset.state = name;
  clearInterval(timer);
  const say = () => {
    const s = Math.max(0, Math.ceil((until - Date.now()) / 1000));
    pill.lastElementChild.textContent = name === 'waiting' ? `reconnecting in ${s} s` : name;
  };
  say();
  if (name === 'waiting') timer = setInterval(say, 1000);
}

// ---- what happened
const wanted = { jobs: new Set(), kernels: new Set(), devices: false };
let fetching = 0;

/** Fetches what events named, a little later and each thing once. */
function fetchLater(what) {
  if (!what) return;
  if (what.job) wanted.jobs.add(what.job);
  if (what.kernel) wanted.kernels.add(what.kernel);
  if (what.devices) wanted.devices = true;
  fetching ||= setTimeout(async () => {
    fetching = 0;
    const jobs = [...wanted.jobs].slice(0, 50), hashes = [...wanted.kernels].slice(0, 50), askDevices = wanted.devices;
    wanted.jobs.clear(); wanted.kernels.clear(); wanted.devices = false;
    const into = state;
    await Promise.allSettled([
      ...jobs.map(async (id) => { const job = await get(`/v1/jobs/${encodeURIComponent(id)}`); takeJob(into, job); }),
      ...hashes.map(async (hash) => { const at = into.asOf; takeKernel(into, await get(`/v1/kernels/${encodeURIComponent(hash)}`), at); }),
      askDevices ? loadDevices(into) : null,
    ]);
    draw();
  }, 150);
}

function onEvent(e) {
  fetchLater(takeEvent(state, e.type, e.data));
  draw();
}

/** The chosen job's events from its first one on; they overlap the stream of all, which does no harm. */
function follow() {
  const job = ctx.view === 'overview' ? chooseJob(state, ctx.wantedJob) : null;
  if ((story?.id ?? null) === (job?.id ?? null)) return;
  story?.stream.close();
  story = job ? { id: job.id, stream: new EventStream(`/v1/jobs/${encodeURIComponent(job.id)}/events`, headers, 0, {
    event: (e) => { takeEvent(state, e.type, e.data); draw(); }, state: () => {}, problem: () => {},
  }) } : null;
}

// ---- snapshots
async function loadDevices(into) {
  const doc = await get('/v1/devices');
  into.devices = Array.isArray(doc.devices) ? doc.devices : [];
  into.toolkit = doc.toolkit ?? null;
  into.sandbox = doc.sandbox ?? null;
}

async function snapshots() {
  const fresh = newState();
  const [jobs, list] = await Promise.all([get('/v1/jobs?limit=50'), get('/v1/kernels?limit=200'), loadDevices(fresh).catch(() => {})]);
  for (const job of jobs.jobs ?? []) takeJob(fresh, job, jobs.as_of);
  for (const k of list.kernels ?? []) takeKernel(fresh, k, list.as_of);
  fresh.asOf = Math.min(jobs.as_of ?? 0, list.as_of ?? 0);   // the stream starts at the older of the two
  return fresh;
}

let starting = 0;
async function start() {
  const mine = ++starting;
  stream?.close(); story?.stream.close();
  stream = story = null;
  connection('connecting');
  for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
    try {
      const fresh = await snapshots();
      if (mine !== starting) return;
      state = fresh;
      break;
    } catch (e) {
      if (mine !== starting) return;
      if (e instanceof Problem && e.status < 500 && e.status !== 429) { connection('refused'); tell(e); return; }
      connection('waiting', Date.now() + wait);
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
  tell(null);
  draw();
  let lost = false;
  stream = new EventStream('/v1/events', headers, state.asOf, {
    event: onEvent,
    state: (name, until) => {
      connection(name, until);
      if (name === 'waiting') lost = true;
      if (name === 'live' && lost) { lost = false; resync(); }
    },
    // 400: an event id that this service has not reached: another store is behind the address now, so all is read anew
    problem: async (response) => { if (response.status === 400) setTimeout(start, 1000); else tell(await problemOf(response)); },
  });
}

/** After a gap: the stream has resumed; what it cannot tell (another store behind the address) a snapshot does. */
async function resync() {
  try {
    const before = state.asOf;
    const fresh = await snapshots();
    if (fresh.asOf < before) { start(); return; }
    for (const job of fresh.jobs.values()) takeJob(state, job, job.lastEvent);
    for (const k of fresh.kernels.values()) takeKernel(state, k, k.lastEvent);
    Object.assign(state, { devices: fresh.devices, toolkit: fresh.toolkit, sandbox: fresh.sandbox });
    draw();
  } catch { /* the stream says that the connection is gone */ }
}

// ---- token, theme, routes
function askToken() {
  if (!byId('token-dialog').open) byId('token-dialog').showModal();
}

function setUp() {
  drawer.setUp();
  byId('token').addEventListener('click', askToken);
  byId('token-form').addEventListener('submit', () => { token.set(byId('token-input').value.trim()); byId('token-input').value = ''; start(); });
  byId('token-forget').addEventListener('click', () => { token.set(''); byId('token-dialog').close(); start(); });
  const themes = ['system', 'light', 'dark'];
  const theme = (name) => {
    document.documentElement.dataset.theme = name;
    byId('theme').textContent = { system: 'Theme: auto', light: 'Theme: light', dark: 'Theme: dark' }[name];
    try { localStorage.setItem('proteus-theme', name); } catch { /* private mode */ }
  };
  let saved = 'system';
  try { saved = localStorage.getItem('proteus-theme') ?? 'system'; } catch { /* private mode */ }
  theme(themes.includes(saved) ? saved : 'system');
  byId('theme').addEventListener('click', () => theme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % 3]));
  window.addEventListener('hashchange', route);
  window.addEventListener('online', () => { if (stream && byId('connection').dataset.state !== 'live') start(); });
  setInterval(() => { if (![...state.jobs.values()].every(ended)) draw(); }, 30000);   // "2 min ago" goes on
}

function route() {
  const [, name, id] = location.hash.split('/');
  ctx.view = name === 'kernels' || name === 'devices' ? name : 'overview';
  let job = null;
  try { job = name === 'jobs' && id ? decodeURIComponent(id) : null; } catch { /* not an address of ours */ }
  ctx.wantedJob = job;
  if (job && !state.jobs.has(job)) fetchLater({ job });
  draw();
}

setUp();
route();
start();
