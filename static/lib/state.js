// What the page knows: snapshots, and the events that came after them. Pure; every step is idempotent, so a snapshot and the stream
// may overlap: a snapshot's `as_of` is the last event that it includes, and older events only fill in what is missing.

const MAX_CANDIDATES = 3000;
const ENDED = new Set(['done', 'failed', 'cancelled']);

export const newState = () => ({
  asOf: 0, jobs: new Map(), kernels: new Map(), candidates: new Map(), devices: [], toolkit: null, sandbox: null, counts: {},
});

export const ended = (job) => ENDED.has(job?.state);
export const verdictCode = (doc) => (typeof doc?.verdict?.code === 'string' ? doc.verdict.code : undefined);

const bestOf = (doc) => (doc && typeof doc === 'object' ? doc : null);

export function takeJob(state, doc, asOf) {
  if (typeof doc?.id !== 'string') return;
  const old = state.jobs.get(doc.id);
  const at = asOf ?? doc.as_of ?? 0;
  if (old && old.lastEvent > at) return;   // what we have is newer
  const best = new Map();
  for (const s of Array.isArray(doc.shapes) ? doc.shapes : []) if (bestOf(s?.best)) best.set(s.shape_hash, s.best);
  state.jobs.set(doc.id, { ...doc, best, lastEvent: at });
}

export function takeKernel(state, doc, asOf) {
  if (typeof doc?.shape_hash !== 'string') return;
  const old = state.kernels.get(doc.shape_hash);
  if (old && old.lastEvent > (asOf ?? 0)) return;
  state.kernels.set(doc.shape_hash, { ...doc, lastEvent: asOf ?? 0 });
}

function candidateOf(state, event) {
  const id = event.candidate;
  if (typeof id !== 'string') return null;
  let c = state.candidates.get(id);
  if (!c) {
    c = { id, job: event.job, lastEvent: 0, order: event.id };
    state.candidates.set(id, c);
    if (state.candidates.size > MAX_CANDIDATES) state.candidates.delete(state.candidates.keys().next().value);
  }
  c.order = Math.min(c.order, event.id);
  return c;
}

/** Sets fields; an event older than what we know fills gaps only. */
function merge(entity, event, fields) {
  const newer = event.id > entity.lastEvent;
  for (const [k, v] of Object.entries(fields)) if (v !== undefined && (newer || entity[k] === undefined)) entity[k] = v;
  if (newer) entity.lastEvent = event.id;
}

const figures = (e) => ({ speedup: e.speedup, time_ns: e.time_ns, evidence: e.evidence });

const steps = {
  'candidate.proposed': (state, e) => {
    const c = candidateOf(state, e);
    if (c) merge(c, e, { shape_hash: e.shape_hash, notes: e.notes, baseline: e.is_baseline, language: e.language });
  },
  'candidate.phase': (state, e) => {
    const c = candidateOf(state, e);
    if (c) merge(c, e, { shape_hash: e.shape_hash, phase: e.phase, phaseState: e.state });
  },
  'candidate.timed': (state, e) => {
    const c = candidateOf(state, e);
    if (c) merge(c, e, { shape_hash: e.shape_hash, ...figures(e) });
  },
  'candidate.verdict': (state, e) => {
    const c = candidateOf(state, e);
    if (c) merge(c, e, { shape_hash: e.shape_hash, verdict: verdictCode(e), text: e.verdict?.text, baseline: e.is_baseline, time: e.time });
  },
  'shape.best': (state, e) => {
    const best = { candidate: e.candidate, is_baseline: e.is_baseline, ...figures(e) };
    const job = state.jobs.get(e.job);
    if (job && !(job.bestAt?.get(e.shape_hash) > e.id)) {
      job.best.set(e.shape_hash, best);
      (job.bestAt ??= new Map()).set(e.shape_hash, e.id);
    }
    return e.served ? { kernel: e.shape_hash } : null;
  },
  'job.state': (state, e) => {
    const job = state.jobs.get(e.job);
    if (!job) return { job: e.job };
    merge(job, e, { state: e.state, error: e.error });
    return ended(job) ? { job: e.job } : null;
  },
  'job.done': (state, e) => {
    const job = state.jobs.get(e.job);
    if (job) merge(job, e, { state: e.state, spent: e.spent });
    return { job: e.job };
  },
  'device.health': () => ({ devices: true }),
};

/**
 * Applies one event. Gives what should be fetched anew: {job: id}, {kernel: shape hash}, {devices: true}, or null.
 * What is not of the documented form is passed over.
 */
export function takeEvent(state, type, text) {
  let e;
  try { e = JSON.parse(text); } catch { return null; }
  if (!e || typeof e !== 'object' || !Number.isSafeInteger(e.id)) return null;
  state.asOf = Math.max(state.asOf, e.id);
  const step = Object.hasOwn(steps, type) ? steps[type] : null;
  return step ? step(state, e) ?? null : null;
}

export const candidatesOf = (state, jobId) =>
  [...state.candidates.values()].filter((c) => c.job === jobId).sort((a, b) => a.order - b.order);

/** The share of the budget that is spent, 0 to 1. */
export function progressOf(state, job) {
  if (ended(job)) return 1;
  const judged = candidatesOf(state, job.id).filter((c) => c.verdict && !c.baseline).length;
  const spent = Math.max(judged, job.spent?.candidates ?? 0);
  return job.budget?.candidates > 0 ? Math.min(1, spent / job.budget.candidates) : 0;
}
