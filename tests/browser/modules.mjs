// The pure modules of the dashboard: the stream's parser, and the state that snapshots and events make.
import assert from 'node:assert/strict';
import { SseParser } from './static/lib/sse.js';
import * as S from './static/lib/state.js';
import * as F from './static/lib/format.js';

let checks = 0;
const is = (got, want) => { checks++; assert.deepEqual(got, want); };

// ---- the parser: cut anywhere, the same events; an id counts when its event is whole
const stream = ': hi\n\nretry: 250\nid: 1\nevent: job.state\ndata: {"a":1}\n\nid: 2\r\ndata: one\r\ndata:two\r\n\r\nid: x\ndata\n\nid: 4\n\nid: 5\ndata: half';
for (let step = 1; step < stream.length; step++) {
  const got = [];
  const p = new SseParser((e) => got.push(`${e.type}|${e.id}|${e.data}`));
  for (let i = 0; i < stream.length; i += step) p.feed(stream.slice(i, i + step));
  is(got, ['job.state|1|{"a":1}', 'message|2|one\ntwo', 'message|2|']);
  is([p.lastId, p.retryMs], ['4', 250]);
  p.reset();
  p.feed('data: again\n\n');
  is(got.at(-1), 'message|4|again');
}
assert.throws(() => { const p = new SseParser(() => {}); for (let i = 0; i < 40; i++) p.feed('x'.repeat(65536)); }, /too large/);

// ---- state: any order and any overlap of snapshot, stream and story gives the same picture
const H = 'a'.repeat(64);
const job = { id: 'job_1', state: 'running', op: 'scale', budget: { candidates: 4 }, spent: { candidates: 0 }, shapes: [{ shape_hash: H, shape: { op: 'scale', axes: { N: 64 } }, best: null }] };
const events = [
  ['job.state', { id: 2, job: 'job_1', state: 'running' }],
  ['candidate.proposed', { id: 3, job: 'job_1', candidate: 'c0', shape_hash: H, is_baseline: true }],
  ['candidate.verdict', { id: 4, job: 'job_1', candidate: 'c0', shape_hash: H, is_baseline: true, verdict: { code: 'ok' } }],
  ['candidate.proposed', { id: 5, job: 'job_1', candidate: 'c1', shape_hash: H, notes: 'why' }],
  ['candidate.phase', { id: 6, job: 'job_1', candidate: 'c1', phase: 'compile', state: 'start' }],
  ['candidate.timed', { id: 7, job: 'job_1', candidate: 'c1', time_ns: 10, speedup: { median: 2 }, evidence: 'emulated' }],
  ['candidate.verdict', { id: 8, job: 'job_1', candidate: 'c1', verdict: { code: 'ok' } }],
  ['shape.best', { id: 9, job: 'job_1', candidate: 'c1', shape_hash: H, speedup: { median: 2 }, evidence: 'emulated', served: true }],
  ['candidate.proposed', { id: 10, job: 'job_1', candidate: 'c2', shape_hash: H }],
];
const picture = (order) => {
  const state = S.newState();
  S.takeJob(state, job, 1);
  for (const i of order) S.takeEvent(state, events[i][0], JSON.stringify(events[i][1]));
  return { list: S.candidatesOf(state, 'job_1').map((c) => [c.id, c.verdict, c.notes, c.phase, c.speedup?.median, c.baseline, c.order]), best: state.jobs.get('job_1').best.get(H)?.speedup.median, part: S.progressOf(state, state.jobs.get('job_1')) };
};
const plain = picture(events.keys());
is(plain.list, [['c0', 'ok', undefined, undefined, undefined, true, 3], ['c1', 'ok', 'why', 'compile', 2, undefined, 5], ['c2', undefined, undefined, undefined, undefined, undefined, 10]]);
is([plain.best, plain.part], [2, 0.25]);
const all = [...events.keys()];
is(picture([...all, ...all]), plain);                                  // everything twice
is(picture([...all.slice(5), ...all]), plain);                         // the stream first, then the story from its start
is(picture([...all.slice(7), ...all.slice(0, 7)]), plain);

const state = S.newState();
S.takeJob(state, { ...job, state: 'done' }, 20);
S.takeEvent(state, 'job.state', JSON.stringify(events[0][1]));         // older than the snapshot: no step back
is(state.jobs.get('job_1').state, 'done');
S.takeJob(state, job, 15);
is(state.jobs.get('job_1').state, 'done');
is(S.takeEvent(state, 'job.state', JSON.stringify({ id: 30, job: 'job_9', state: 'queued' })), { job: 'job_9' });
is(S.takeEvent(state, 'shape.best', JSON.stringify({ id: 31, job: 'job_1', shape_hash: H, served: true })), { kernel: H });
for (const bad of ['', '[]', 'null', '{', '{"id":"1"}', '{"id":1e30}']) is(S.takeEvent(state, 'job.state', bad), null);
for (const type of ['constructor', '__proto__', 'toString', 'unknown']) is(S.takeEvent(state, type, '{"id":32}'), null);
S.takeEvent(state, 'candidate.verdict', '{"id":33,"candidate":{"x":1},"verdict":"ok"}');
S.takeEvent(state, 'candidate.verdict', '{"id":34,"job":"job_1","candidate":"__proto__","verdict":{"code":7}}');
is({}.verdict, undefined);
is(state.candidates.get('__proto__').verdict, undefined);
for (let i = 0; i < 4000; i++) S.takeEvent(state, 'candidate.proposed', JSON.stringify({ id: 100 + i, job: 'job_1', candidate: `x${i}` }));
assert.ok(state.candidates.size <= 3000);

// ---- words: only what says "measured" is measured
for (const e of ['emulated', 'MEASURED', '', undefined, 1]) is(F.evidenceWord({ evidence: e }), 'estimate');
is(F.evidenceWord({ evidence: 'measured' }), 'measured');
is([F.duration(840), F.duration(3214), F.duration(1.4e6), F.duration(0), F.duration(NaN)], ['840 ns', '3.21 µs', '1.40 ms', '–', '–']);
is([F.speedupText(F.speedup({ speedup: 1.5 })), F.speedupText(F.speedup({ speedup: { median: 2 } })), F.speedupText(F.speedup({ speedup: 'x' }))], ['1.50×', '2.00×', '–']);
console.log(`${checks} checks, 0 failed`);
