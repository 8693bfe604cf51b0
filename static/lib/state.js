// What the page knows: snapshots, and the events that came after them. Pure; every step is idempotent, so a snapshot and the stream
// may overlap: a snapshot's `as_of` is the last event that it includes, and older events only fill in what is missing.
// `tick` (of all, of a job's work) rises with every change: who draws compares it instead of the data.

import { clean } from './clean.js';

const KEPT_UNREAD = 600; // candidates of a job that nobody looks at
const KEPT = 20000;
const KEPT_JOBS = 40;
const KEPT_LOG = 4000;
const KEPT_MOVES = 60;
const ENDED = new Set(['done', 'failed', 'cancelled']);

export const newState = () => ({
  tick: 0,
  asOf: 0,
  jobs: new Map(),
  kernels: new Map(),
  gone: new Map(),
  work: new Map(),
  moves: new Map(),
  promoted: new Map(),
  log: [],
  logTick: 0,
  devices: [],
  toolkit: null,
  sandbox: null,
  version: '',
  lessonTick: 0,
  kernelTick: 0,
  spending: null,
  liveAsOf: Infinity,
  liveMore: false,
});

export const ended = (job) => ENDED.has(job?.state);
export const verdictCode = (doc) => (typeof doc?.verdict?.code === 'string' ? doc.verdict.code : undefined);

// ---- jobs and kernels
export function takeJob(state, doc, asOf) {
  if (typeof doc?.id !== 'string') return;
  const old = state.jobs.get(doc.id);
  const at = asOf ?? doc.as_of ?? 0;
  if (old && old.lastEvent > at) return; // what we have is newer
  const best = new Map();
  for (const s of Array.isArray(doc.shapes) ? doc.shapes : []) {
    if (s?.best && typeof s.best === 'object')
      best.set(s.shape_hash, { is_baseline: s.best.candidate === s.baseline?.candidate, ...s.best });
  }
  state.jobs.set(doc.id, { ...doc, best, bestAt: old?.bestAt, lastEvent: at });
  state.tick++;
}

/** Only what lists show is kept: there may be thousands. */
export function takeKernel(state, doc, asOf) {
  if (typeof doc?.shape_hash !== 'string') return;
  const old = state.kernels.get(doc.shape_hash);
  if (old && old.lastEvent > (asOf ?? 0)) return;
  const {
    shape_hash,
    shape,
    op,
    target,
    candidate,
    job,
    is_baseline,
    language,
    evidence,
    mode,
    time_ns,
    baseline_time_ns,
    speedup,
    served_since,
    device,
    own_baseline,
  } = doc;
  state.kernels.set(shape_hash, {
    shape_hash,
    shape,
    op,
    target,
    candidate,
    job,
    is_baseline,
    language,
    evidence,
    mode,
    time_ns,
    baseline_time_ns,
    speedup,
    served_since,
    device: device?.name,
    own_baseline,
    lastEvent: asOf ?? 0,
  });
  state.gone.delete(shape_hash);
  state.tick++;
  state.kernelTick++;
}

export function dropKernel(state, hash, why) {
  state.kernels.delete(hash);
  state.gone.set(hash, why ?? '');
  state.tick++;
  state.kernelTick++;
}

// ---- candidates, by job
export function workOf(state, jobId) {
  let work = state.work.get(jobId);
  if (!work) {
    work = { tick: 0, byId: new Map(), list: [], sorted: true, read: false, judged: 0, accepted: 0, now: null };
    state.work.set(jobId, work);
    if (state.work.size > KEPT_JOBS)
      for (const [id, w] of state.work)
        if (!w.read && id !== jobId) {
          state.work.delete(id);
          break;
        }
  }
  return work;
}

function trim(work) {
  const most = work.read ? KEPT : KEPT_UNREAD;
  if (work.list.length <= most * 1.25) return;
  for (const c of work.list.splice(0, work.list.length - most)) work.byId.delete(c.id);
}

function candidateOf(state, id, jobId) {
  if (typeof id !== 'string' || typeof jobId !== 'string') return null;
  const work = workOf(state, jobId);
  let c = work.byId.get(id);
  if (!c) {
    c = { id, job: jobId, lastEvent: 0 };
    work.byId.set(id, c);
    if (work.list.length && work.list[work.list.length - 1].id > id) work.sorted = false;
    work.list.push(c);
    trim(work);
  }
  return c;
}

function judgedNow(work, c, before) {
  if (!before && c.verdict && !c.baseline) {
    work.judged++;
    if (c.verdict === 'ok') work.accepted++;
  }
}

const OTHER_KINDS = { baseline: 'boolean', time_ns: 'number', speedup: 'object', error: 'object', spent: 'object' };
/** Sets fields that are of their kind; an event older than what we know fills gaps only. */
function merge(entity, at, fields) {
  const newer = at > entity.lastEvent;
  for (const k in fields) {
    const v = fields[k];
    if (v === undefined || v === null || (typeof v !== (OTHER_KINDS[k] ?? 'string') && !(k === 'speedup' && typeof v === 'number'))) continue;
    if (newer || entity[k] === undefined) entity[k] = v;
  }
  if (newer) entity.lastEvent = at;
}

/** A candidate as a list or an answer has it. */
export function takeCandidate(state, jobId, doc, asOf) {
  const c = candidateOf(state, doc?.id, jobId);
  if (!c) return;
  const before = c.verdict;
  const figures = doc.figures && typeof doc.figures === 'object' ? doc.figures : doc;
  merge(c, asOf ?? doc.as_of ?? 0, {
    shape_hash: doc.shape_hash,
    baseline: doc.is_baseline,
    state: doc.state,
    created: doc.created,
    time: doc.judged,
    notes: doc.notes ?? doc.candidate?.notes,
    language: doc.language ?? doc.candidate?.language,
    parent: doc.parent ?? doc.candidate?.parent ?? doc.origin?.parent,
    move: doc.origin?.move,
    template: doc.origin?.template,
    verdict: verdictCode(doc),
    text: doc.verdict?.text,
    speedup: figures.speedup,
    time_ns: figures.time_ns,
    evidence: figures.evidence,
  });
  const work = workOf(state, jobId);
  judgedNow(work, c, before);
  work.tick++;
  state.tick++;
}

/** In order of their ids, which is that of their making; numbered from 1, the baseline 0. */
export function candidatesOf(state, jobId) {
  const work = state.work.get(jobId);
  if (!work) return [];
  if (!work.sorted) {
    work.list.sort((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
    work.sorted = true;
    work.numbered = 0;
  }
  if (work.numbered !== work.list.length) {
    let n = 0;
    for (const c of work.list) c.number = c.baseline ? 0 : ++n;
    work.numbered = work.list.length;
  }
  return work.list;
}

// ---- events
const steps = {
  'candidate.proposed': (state, e) => {
    const c = candidateOf(state, e.candidate, e.job);
    if (!c) return null;
    merge(c, e.id, {
      shape_hash: e.shape_hash,
      notes: e.notes,
      baseline: e.is_baseline,
      language: e.language,
      created: e.time,
      parent: e.parent ?? e.origin?.parent,
      move: e.origin?.move,
      template: e.origin?.template,
    });
    workOf(state, e.job).tick++;
    return null;
  },
  'candidate.phase': (state, e) => {
    const c = candidateOf(state, e.candidate, e.job);
    if (!c) return null;
    merge(c, e.id, { shape_hash: e.shape_hash });
    if (!(c.phaseAt > e.id)) {
      c.phaseAt = e.id;
      c.phase = e.phase;
      c.phaseState = e.state;
      c.phaseMode = e.mode;
      c.device = typeof e.device === 'string' ? e.device : c.device;
    }
    const work = workOf(state, e.job);
    work.tick++;
    if (!c.verdict && !(work.now?.phaseAt > e.id)) work.now = c;
    return null;
  },
  'candidate.timed': (state, e) => {
    const c = candidateOf(state, e.candidate, e.job);
    if (!c) return null;
    merge(c, e.id, { shape_hash: e.shape_hash, speedup: e.speedup, time_ns: e.time_ns, evidence: e.evidence, baseline: e.is_baseline });
    workOf(state, e.job).tick++;
    return null;
  },
  'candidate.verdict': (state, e) => {
    const c = candidateOf(state, e.candidate, e.job);
    if (!c) return null;
    const before = c.verdict;
    merge(c, e.id, { shape_hash: e.shape_hash, verdict: verdictCode(e), text: e.verdict?.text, baseline: e.is_baseline, time: e.time });
    const work = workOf(state, e.job);
    judgedNow(work, c, before);
    if (work.now === c) work.now = null;
    work.tick++;
    return state.jobs.has(e.job) ? { slowJob: e.job } : { job: e.job };
  },
  'shape.best': (state, e) => {
    const best = { candidate: e.candidate, is_baseline: e.is_baseline, speedup: e.speedup, time_ns: e.time_ns, evidence: e.evidence, own_baseline: e.own_baseline };
    const moves = state.moves.get(e.shape_hash) ?? [];
    if (!moves.some((m) => m.id === e.id)) {
      moves.push({ ...best, id: e.id, time: e.time, job: e.job });
      moves.sort((a, b) => a.id - b.id);
      if (moves.length > KEPT_MOVES) moves.shift();
      state.moves.set(e.shape_hash, moves);
    }
    const job = state.jobs.get(e.job);
    // stands_for: the job's best as it is served, judged beside another baseline; the job's best stays what it is
    if (job && !e.stands_for && e.id > job.lastEvent && !(job.bestAt?.get(e.shape_hash) > e.id)) {
      job.best.set(e.shape_hash, best);
      (job.bestAt ??= new Map()).set(e.shape_hash, e.id);
      workOf(state, e.job).tick++;
    }
    if (e.served && !(state.promoted.get(e.shape_hash)?.id > e.id)) {
      state.promoted.delete(e.shape_hash); // to the end: the newest is last
      state.promoted.set(e.shape_hash, { ...best, id: e.id, time: e.time, job: e.job, shape_hash: e.shape_hash });
      if (state.promoted.size > KEPT_MOVES) state.promoted.delete(state.promoted.keys().next().value);
    }
    return e.served ? { kernel: e.shape_hash } : null;
  },
  'kernel.state': (state, e) => (typeof e.shape_hash === 'string' ? { kernel: e.shape_hash } : null),
  'job.state': (state, e) => {
    const job = state.jobs.get(e.job);
    if (!job) return { job: e.job };
    if (e.id <= job.lastEvent) return null;
    merge(job, e.id, { state: e.state, error: e.error });
    workOf(state, e.job).tick++;
    return ended(job) ? { job: e.job } : null;
  },
  'job.done': (state, e) => {
    const job = state.jobs.get(e.job);
    if (job && e.id > job.lastEvent) merge(job, e.id, { state: e.state, spent: e.spent, finished: e.time });
    workOf(state, e.job).now = null;
    return { job: e.job };
  },
  'device.health': () => ({ devices: true }),
  'lesson.learned': (state) => {
    state.lessonTick++;
    return null;
  },
  'lesson.retired': (state) => {
    state.lessonTick++;
    return null;
  },
  'lesson.step': (state) => {
    state.lessonTick++;
    return null;
  },
  'lesson.undone': (state) => {
    state.lessonTick++;
    return null;
  },
};

function note(state, type, e) {
  const { id, time, job, candidate, shape_hash } = e;
  state.log.push({ id, type, time, job, candidate, shape_hash, data: e });
  if (state.log.length > KEPT_LOG * 1.25) state.log.splice(0, state.log.length - KEPT_LOG);
  state.logTick++;
}

/**
 * Applies one event. Gives what should be fetched anew: {job}, {slowJob} (soon enough), {kernel: shape hash}, {devices: true}, or null.
 * What is not of the documented form is passed over. `replay`: it happened before the snapshots; nothing needs to be fetched for it.
 */
export function takeEvent(state, type, text, replay = false) {
  let e;
  try {
    e = JSON.parse(text);
  } catch {
    return null;
  }
  if (!e || typeof e !== 'object' || !Number.isSafeInteger(e.id)) return null;
  e = clean(e);
  state.asOf = Math.max(state.asOf, e.id);
  const step = Object.hasOwn(steps, type) ? steps[type] : null;
  const wanted = step ? (step(state, e) ?? null) : null;
  note(state, type, e);
  state.tick++;
  return replay ? null : wanted;
}

/** The share of the budget that is spent, 0 to 1. */
export function progressOf(state, job) {
  if (ended(job)) return 1;
  const shapes = job.shapes ?? [];
  const all = shapes.filter((s) => ['done', 'failed', 'skipped'].includes(s.state)).length;
  const spent = Math.max(state.work.get(job.id)?.judged ?? 0, job.spent?.candidates ?? 0);
  const byBudget = job.budget?.candidates > 0 ? spent / job.budget.candidates : 0;
  return Math.min(1, Math.max(byBudget, shapes.length ? all / shapes.length : 0));
}

export const sortedJobs = (state) =>
  [...state.jobs.values()].sort((a, b) => (b.created ?? '').localeCompare(a.created ?? '') || (a.id < b.id ? 1 : -1));
