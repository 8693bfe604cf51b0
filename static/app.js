// The page: routes to views, one feed for all of them, drawing at a rate that its own cost sets.
import { token } from './lib/api.js';
import { replace } from './lib/dom.js';
import { connectionText } from './lib/format.js';
import { Feed } from './lib/feed.js';
import { ended } from './lib/state.js';
import { overview } from './views/overview.js';
import { failure } from './views/parts.js';

const byId = (id) => document.getElementById(id);

// Each gives {title, nodes, update(), close?()}; those that are not the first page are fetched when they are wanted.
const pages = {
  '': ['overview', () => overview],
  jobs: ['overview', () => import('./views/job.js').then((m) => m.job)],
  submit: ['submit', () => import('./views/submit.js').then((m) => m.submit)],
  candidates: ['overview', () => import('./views/candidate.js').then((m) => m.candidate)],
  kernels: [
    'kernels',
    (id) => (id ? import('./views/kernel.js').then((m) => m.kernel) : import('./views/kernels.js').then((m) => m.kernels)),
  ],
  observed: ['kernels', () => import('./views/observed.js').then((m) => m.observed)],
  knowledge: ['knowledge', () => import('./views/knowledge.js').then((m) => m.knowledge)],
  operators: ['operators', () => import('./views/operators.js').then((m) => m.operators)],
  devices: ['devices', () => import('./views/devices.js').then((m) => m.devices)],
};

let view = null,
  opening = 0;

// ---- drawing: at most once a frame, and seldom enough that it takes a small part of the time; at once after what the user did
const MIN_MS = 80,
  MOST_MS = 600,
  SHARE = 12,
  AT_ONCE_MS = 400;
let waiting = 0,
  framed = false,
  last = 0,
  cost = 0,
  acted = -Infinity;

function frame() {
  waiting = 0;
  if (framed) return;
  framed = true;
  requestAnimationFrame(() => {
    framed = false;
    last = performance.now();
    try {
      view?.update();
    } finally {
      cost = performance.now() - last;
    }
  });
}

function draw() {
  if (framed) return;
  const now = performance.now(),
    wait = now - acted < AT_ONCE_MS ? 0 : last + Math.min(MOST_MS, Math.max(MIN_MS, cost * SHARE)) - now;
  if (wait <= 4) {
    clearTimeout(waiting);
    frame();
  } else waiting ||= setTimeout(frame, wait);
}
for (const type of ['click', 'input', 'change'])
  document.addEventListener(
    type,
    () => {
      acted = performance.now();
    },
    true,
  );

function tell(problem) {
  const box = byId('notice');
  box.hidden = !problem;
  const gone = problem instanceof TypeError;
  box.toggleAttribute('data-gone', gone);
  box.textContent = gone ? 'The service cannot be reached: try again once the connection is back.' : problem ? String(problem.message ?? problem) : '';
}

let timer = 0;
function connection(name, until) {
  const pill = byId('connection');
  pill.dataset.state = name;
  clearInterval(timer);
  const say = () => {
    const s = Math.max(0, Math.ceil((until - Date.now()) / 1000));
    const [state, countdown] = connectionText(name, s),
      spoken = pill.querySelector('b');
    if (spoken.textContent !== state) spoken.textContent = state;
    pill.lastElementChild.textContent = countdown;
  };
  say();
  if (name === 'waiting') timer = setInterval(say, 1000);
  if (name === 'live' && byId('notice').hasAttribute('data-gone')) tell(null);
  if (name === 'live' && byId('main').querySelector('[data-again]')) route(true);
}

/** The other pages, while nothing else is to be done: they are there then also when the service is not. */
function fetchPages() {
  const rest = [...Object.values(pages)].flatMap(([, load]) => [() => load(null), () => load('x')]);
  const next = () => {
    const load = rest.shift();
    if (load) Promise.resolve(load()).then(() => idle(next), () => idle(next));
  };
  const idle = globalThis.requestIdleCallback ?? ((run) => setTimeout(run, 200));
  setTimeout(() => idle(next), 1500);
}

const feed = new Feed({ change: draw, connection, problem: tell, ready: draw });
const ctx = {
  feed,
  get state() {
    return feed.state;
  },
  draw,
  tell,
  go: (hash) => {
    location.hash = hash;
  },
};

// ---- routes
function place() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  let parts = [];
  try {
    parts = path.split('/').map(decodeURIComponent);
  } catch {
    /* not an address of ours */
  }
  return { name: parts[0] ?? '', id: parts[1] ?? null, query: new URLSearchParams(query) };
}

async function route(first) {
  if (location.hash === '#main') return;
  const { name, id, query } = place(),
    mine = ++opening;
  const [nav, load] = Object.hasOwn(pages, name) ? pages[name] : pages[''];
  for (const a of document.querySelectorAll('[data-nav]')) {
    if (a.dataset.nav === nav) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  let next;
  try {
    const loaded = load(id);
    const make = loaded?.then ? await loaded : loaded;
    if (mine !== opening) return;
    next = make(ctx, id, query);
  } catch (e) {
    if (mine !== opening) return;
    next = { title: 'Proteus', nodes: [failure(e)], update() {} };
  }
  view?.close?.();
  view = next;
  document.title = next.title ? `${next.title} – Proteus` : 'Proteus';
  replace(byId('main'), next.nodes);
  if (first !== true) {
    window.scrollTo(0, 0);
    byId('main').focus({ preventScroll: true });
  }
  next.update();
}

// ---- token, theme
function askToken() {
  if (!byId('token-dialog').open) byId('token-dialog').showModal();
}

function setUpTheme() {
  const themes = ['system', 'light', 'dark'];
  const theme = (name) => {
    document.documentElement.dataset.theme = name;
    byId('theme').lastElementChild.textContent = name === 'system' ? 'auto' : name;
    try {
      localStorage.setItem('proteus-theme', name);
    } catch {
      /* private mode */
    }
    window.dispatchEvent(new Event('proteus-theme'));
  };
  let saved = 'system';
  try {
    saved = localStorage.getItem('proteus-theme') ?? 'system';
  } catch {
    /* private mode */
  }
  theme(themes.includes(saved) ? saved : 'system');
  byId('theme').addEventListener('click', () => theme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % 3]));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => window.dispatchEvent(new Event('proteus-theme')));
}

function again() {
  feed.start();
  route(true);
}

byId('token').addEventListener('click', askToken);
byId('token-form').addEventListener('submit', () => {
  token.set(byId('token-input').value.trim());
  byId('token-input').value = '';
  again();
});
byId('token-forget').addEventListener('click', () => {
  token.set('');
  byId('token-dialog').close();
  again();
});
byId('skip').addEventListener('click', (e) => {
  e.preventDefault();
  byId('main').focus();
});
setUpTheme();
window.addEventListener('proteus-token', askToken); // whatever was asked for: the service wants to know by whom
window.addEventListener('hashchange', route);
window.addEventListener('online', () => {
  if (byId('connection').dataset.state !== 'live') feed.start();
});
setInterval(() => {
  if (view?.ages || ![...feed.state.jobs.values()].every(ended)) {
    view?.tick?.();
    draw();
  }
}, 30000); // "2 min ago" goes on
route(true);
feed.start();
fetchPages();
