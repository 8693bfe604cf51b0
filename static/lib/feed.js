// Snapshots, then one stream of all events behind them, for all pages of this tab. The stream starts a little before the snapshots:
// what went before them is history that pages show (how the best moved, what was promoted last), and changes nothing else.
import { get, getAll, headers, Problem, problemOf } from './api.js';
import { EventStream } from './sse.js';
import { candidatesOf, dropKernel, newState, takeCandidate, takeEvent, takeJob, takeKernel, workOf } from './state.js';

const HISTORY = 1200; // events before the snapshots
const LIVE_PAGE = 100,
  LIVE_PAGES = 20;
const SOON_MS = 150,
  SLOW_MS = 2000;
const part = encodeURIComponent;

export class Feed {
  /** on: change(), connection(name, until), problem(problem or null), ready(). */
  constructor(on) {
    Object.assign(this, { on, state: newState(), stream: null, starting: 0, snapshotAt: 0, ready: false });
    this.wanted = { jobs: new Set(), kernels: new Set(), devices: false };
    this.slow = new Map();
    this.reading = new Map();
  }

  // ---- snapshots
  async loadDevices(into) {
    const doc = await get('/v1/devices');
    Object.assign(into, {
      devices: Array.isArray(doc.devices) ? doc.devices : [],
      toolkit: doc.toolkit ?? null,
      sandbox: doc.sandbox ?? null,
      version: doc.version ?? '',
    });
    into.tick++;
  }

  /** What all jobs spent, by day; a service of before does not tell. */
  async loadSpending(into) {
    const doc = await get('/v1/spending?days=7').catch(() => null);
    into.spending = Array.isArray(doc?.days) && doc.days.length ? doc.days : into.spending;
    into.tick++;
    this.on.change();
  }

  /** All that run or wait, however many have ended since; liveMore: there are more than anybody wants to see. */
  async loadLive(into) {
    let pages = 0;
    into.liveAsOf = Infinity;
    await getAll(`/v1/jobs?state=live&limit=${LIVE_PAGE}`, (page) => {
      for (const job of page.jobs ?? []) takeJob(into, job, page.as_of);
      into.liveAsOf = Math.min(into.liveAsOf, page.as_of ?? 0);
      into.liveMore = typeof page.next === 'string' && ++pages >= LIVE_PAGES;
      return !into.liveMore;
    });
  }

  async snapshots() {
    const fresh = newState();
    const devices = this.loadDevices(fresh)
      .catch(() => {})
      .then(() => this.on.change()); // it may wait for a scheduler: nothing waits for it
    this.loadSpending(fresh);
    const [jobs, list] = await Promise.all([get('/v1/jobs?state=ended&limit=50'), get('/v1/kernels?limit=50'), this.loadLive(fresh)]);
    for (const job of jobs.jobs ?? []) takeJob(fresh, job, jobs.as_of);
    for (const k of list.kernels ?? []) takeKernel(fresh, k, list.as_of);
    fresh.kernelsNext = list.next ?? null;
    fresh.asOf = Math.min(jobs.as_of ?? 0, list.as_of ?? 0, fresh.liveAsOf); // the stream starts at the oldest of them
    return [fresh, devices];
  }

  async start() {
    const mine = ++this.starting;
    this.stream?.close();
    this.stream = null;
    this.on.connection('connecting');
    for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
      try {
        const [fresh] = await this.snapshots();
        if (mine !== this.starting) return;
        for (const id of this.state.work.keys()) if (this.state.work.get(id).read) this.wanted.jobs.add(id);
        this.state = fresh;
        break;
      } catch (e) {
        if (mine !== this.starting) return;
        if (e instanceof Problem && e.status < 500 && e.status !== 429) {
          this.on.connection('refused');
          this.on.problem(e);
          return;
        }
        this.on.connection('waiting', Date.now() + wait);
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
    this.on.problem(null);
    this.snapshotAt = this.state.asOf;
    this.ready = true;
    this.on.ready();
    this.on.change();
    this.listen();
  }

  listen() {
    let lost = false;
    const before = Math.max(0, this.snapshotAt - HISTORY);
    this.stream = new EventStream(before ? '/v1/events' : '/v1/events?after=0', headers, before, {
      event: (e) => {
        this.fetchLater(takeEvent(this.state, e.type, e.data, Number(e.id) <= this.snapshotAt));
        this.on.change();
      },
      state: (name, until) => {
        this.on.connection(name, until);
        if (name === 'waiting') lost = true;
        if (name === 'live' && lost) {
          lost = false;
          this.resync();
        }
      },
      // 400: an event id that this service has not reached: another store is behind the address now, so all is read anew
      problem: async (response) => {
        if (response.status === 400) setTimeout(() => this.start(), 1000);
        else this.on.problem(await problemOf(response));
      },
    });
  }

  /** After a gap: the stream has resumed; what it cannot tell (another store behind the address) a snapshot does. */
  async resync() {
    try {
      const [fresh, devices] = await this.snapshots();
      if (fresh.asOf < this.snapshotAt) {
        this.start();
        return;
      }
      for (const job of fresh.jobs.values()) takeJob(this.state, job, job.lastEvent);
      await devices;
      this.loadSpending(this.state);
      Object.assign(this.state, { devices: fresh.devices, toolkit: fresh.toolkit, sandbox: fresh.sandbox, version: fresh.version, liveMore: fresh.liveMore });
      this.state.tick++;
      this.on.change();
    } catch {
      /* the stream says that the connection is gone */
    }
  }

  // ---- what events named: fetched a little later, each thing once
  fetchLater(what) {
    if (!what) return;
    if (what.job || what.slowJob) this.spendingLater ||= setTimeout(() => this.spendingNow(), SLOW_MS);
    if (what.slowJob) {
      const due = (this.slow.get(what.slowJob) ?? 0) + SLOW_MS;
      if (Date.now() < due) return;
      this.slow.set(what.slowJob, Date.now());
      this.wanted.jobs.add(what.slowJob);
    }
    if (what.job) this.wanted.jobs.add(what.job);
    if (what.kernel) this.wanted.kernels.add(what.kernel);
    if (what.devices) this.wanted.devices = true;
    this.fetching ||= setTimeout(() => this.fetchNow(), SOON_MS);
  }

  spendingNow() {
    this.spendingLater = 0;
    this.loadSpending(this.state);
  }

  async fetchNow() {
    const { wanted, state } = this;
    const jobs = [...wanted.jobs].slice(0, 20),
      hashes = [...wanted.kernels].slice(0, 50),
      devices = wanted.devices;
    for (const id of jobs) wanted.jobs.delete(id);
    for (const hash of hashes) wanted.kernels.delete(hash);
    wanted.devices = false;
    await Promise.allSettled([
      ...jobs.map((id) => this.readJob(id)),
      ...hashes.map((hash) => this.readKernel(hash)),
      devices ? this.loadDevices(state) : null,
    ]);
    this.fetching = 0;
    this.on.change();
    if (wanted.jobs.size || wanted.kernels.size) this.fetching = setTimeout(() => this.fetchNow(), SOON_MS);
  }

  async readJob(id) {
    const job = await get(`/v1/jobs/${part(id)}`);
    takeJob(this.state, job);
    return job;
  }

  async readKernel(hash) {
    const { state } = this,
      at = state.asOf;
    try {
      takeKernel(state, await get(`/v1/kernels/${part(hash)}`), at);
    } catch (e) {
      if (e instanceof Problem && (e.status === 404 || e.status === 410)) dropKernel(state, hash, e.message);
      else throw e;
    }
  }

  // ---- more than the first page
  /** All candidates of a job, newest first; pages that are there are drawn while the next ones come. */
  async readCandidates(id) {
    const { state } = this,
      work = workOf(state, id);
    if (work.read || this.reading.has(id)) return;
    work.read = true;
    work.all = false;
    this.reading.set(id, true);
    try {
      await getAll(`/v1/jobs/${part(id)}/candidates?limit=200`, (page) => {
        for (const c of page.candidates ?? []) takeCandidate(state, id, c, page.as_of);
        this.on.change();
        return this.state === state;
      });
      work.all = true;
    } catch (e) {
      work.read = false;
      if (!(e instanceof Problem && e.status === 404)) throw e;
    } finally {
      this.reading.delete(id);
      candidatesOf(state, id);
      work.tick++;
      state.tick++;
      this.on.change();
    }
  }

  async readKernels() {
    const { state } = this;
    if (!state.kernelsNext || this.reading.has('kernels')) return;
    this.reading.set('kernels', true);
    try {
      await getAll(`/v1/kernels?limit=50&cursor=${part(state.kernelsNext)}`, (page) => {
        for (const k of page.kernels ?? []) takeKernel(state, k, page.as_of);
        state.kernelsNext = page.next ?? null;
        this.on.change();
        return this.state === state;
      });
    } finally {
      this.reading.delete('kernels');
    }
  }
}
