// The pure modules of the dashboard: the stream's parser, the state that snapshots and events make, digests and signatures, colours and
// differences of sources; and how large the dashboard is.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { blake2b, hex } from './static/lib/blake2b.js';
import { diffLines, hunks } from './static/lib/diff.js';
import { readKey, verify } from './static/lib/minisign.js';
import { tokenize } from './static/lib/tokens.js';
import { offendingLines } from './static/views/code.js';
import { isHeld } from './static/views/candidate.js';
import { gridOf } from './static/views/jobparts.js';
import { searchData } from './static/views/jobplot.js';
import { histogramRange, tailText } from './static/views/timing.js';
import { howJudged, checksOf, checksSummary, needsMissing, notDone } from './static/views/trust.js';
import { commentFields, outcomeOf, wrongShape } from './static/views/signature.js';
import { cardText, otherCard } from './static/views/certificate.js';
import { profileRows, stallsOf } from './static/views/profile.js';
import { shapeRows } from './static/views/overview.js';
import { effectText } from './static/views/lesson.js';
import { howMany, tagTree } from './static/views/knowledge.js';
import { SseParser } from './static/lib/sse.js';
import * as S from './static/lib/state.js';
import * as F from './static/lib/format.js';

let checks = 0;
const is = (got, want) => {
  checks++;
  assert.deepEqual(got, want);
};

// ---- the parser: cut anywhere, the same events; an id counts when its event is whole
const stream =
  ': hi\n\nretry: 250\nid: 1\nevent: job.state\ndata: {"a":1}\n\nid: 2\r\ndata: one\r\ndata:two\r\n\r\nid: x\ndata\n\nid: 4\n\nid: 5\ndata: half';
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
assert.throws(() => {
  const p = new SseParser(() => {});
  for (let i = 0; i < 40; i++) p.feed('x'.repeat(65536));
}, /too large/);

// ---- state: any order and any overlap of snapshot, stream and story gives the same picture
const H = 'a'.repeat(64);
const job = {
  id: 'job_1',
  state: 'running',
  op: 'scale',
  budget: { candidates: 4 },
  spent: { candidates: 0 },
  shapes: [{ shape_hash: H, shape: { op: 'scale', axes: { N: 64 } }, best: null }],
};
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
  return {
    list: S.candidatesOf(state, 'job_1').map((c) => [c.id, c.verdict, c.notes, c.phase, c.speedup?.median, c.baseline, c.number]),
    best: state.jobs.get('job_1').best.get(H)?.speedup.median,
    part: S.progressOf(state, state.jobs.get('job_1')),
  };
};
const plain = picture(events.keys());
is(plain.list, [
  ['c0', 'ok', undefined, undefined, undefined, true, 0],
  ['c1', 'ok', 'why', 'compile', 2, undefined, 1],
  ['c2', undefined, undefined, undefined, undefined, undefined, 2],
]);
is([plain.best, plain.part], [2, 0.25]);
const all = [...events.keys()];
is(picture([...all, ...all]), plain); // everything twice
is(picture([...all.slice(5), ...all]), plain); // the stream first, then the story from its start
is(picture([...all.slice(7), ...all.slice(0, 7)]), plain);

const state = S.newState();
S.takeJob(state, { ...job, state: 'done' }, 20);
S.takeEvent(state, 'job.state', JSON.stringify(events[0][1])); // older than the snapshot: no step back
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
is(S.workOf(state, 'job_1').byId.get('__proto__').verdict, undefined);
for (let i = 0; i < 4000; i++) S.takeEvent(state, 'candidate.proposed', JSON.stringify({ id: 100 + i, job: 'job_1', candidate: `x${i}` }));
assert.ok(S.workOf(state, 'job_1').list.length <= 750 && S.workOf(state, 'job_1').byId.size === S.workOf(state, 'job_1').list.length); // nobody looks at this job

// ---- candidates: a list that is read while events come, joined by as_of
const joined = (order) => {
  const at = S.newState();
  S.takeJob(at, job, 1);
  const steps = {
    list: () =>
      S.takeCandidate(at, 'job_1', { id: 'c1', verdict: { code: 'race', text: 'old' }, notes: 'n', parent: 'c0', is_baseline: false }, 50),
    before: () => S.takeEvent(at, 'candidate.proposed', JSON.stringify({ id: 40, job: 'job_1', candidate: 'c1', notes: 'older words' })),
    after: () =>
      S.takeEvent(at, 'candidate.verdict', JSON.stringify({ id: 60, job: 'job_1', candidate: 'c1', verdict: { code: 'ok', text: 'new' } })),
  };
  for (const k of order) steps[k]();
  const c = S.candidatesOf(at, 'job_1')[0];
  return [c.verdict, c.text, c.parent, S.workOf(at, 'job_1').judged];
};
for (const order of [
  ['list', 'before', 'after'],
  ['before', 'list', 'after'],
  ['after', 'list', 'before'],
  ['before', 'after', 'list'],
  ['list', 'after', 'before', 'after'],
])
  is(joined(order), ['ok', 'new', 'c0', 1]);
is(S.takeEvent(state, 'kernel.state', JSON.stringify({ id: 9000, shape_hash: H, state: 'quarantined' })), { kernel: H });
is(S.takeEvent(state, 'kernel.state', JSON.stringify({ id: 9001, shape_hash: H, state: 'verified' }), true), null); // history: nothing is fetched for it
S.takeKernel(state, { shape_hash: H, evidence: 'measured', plan: {} }, 10);
is([state.kernels.get(H).evidence, state.kernels.get(H).plan], ['measured', undefined]);
S.dropKernel(state, H, 'withdrawn');
is([state.kernels.has(H), state.gone.get(H)], [false, 'withdrawn']);
const unsorted = S.newState();
for (const id of ['c3', 'c1', 'c2', 'c0']) S.takeCandidate(unsorted, 'j', { id, is_baseline: id === 'c0' }, 1);
is(
  S.candidatesOf(unsorted, 'j').map((c) => [c.id, c.number]),
  [
    ['c0', 0],
    ['c1', 1],
    ['c2', 2],
    ['c3', 3],
  ],
);
S.takeEvent(unsorted, 'candidate.proposed', JSON.stringify({ id: 5, job: 'j', candidate: 'c4' }));
is(S.candidatesOf(unsorted, 'j').at(-1).number, 4);

// ---- digests and signatures
const seeded = (n) => crypto.createHash('shake256', { outputLength: n }).update(String(n)).digest();
for (const n of [1, 63, 127, 128, 129, 255, 256, 257, 5000])
  is(hex(blake2b(seeded(n), 64)), crypto.createHash('blake2b512').update(seeded(n)).digest('hex'));
is(
  hex(
    blake2b(
      new TextEncoder().encode(
        'proteus-shape-v1\nop=gdn_packed_decode@1\naxis.B=4\naxis.H=2\naxis.HV=8\naxis.K=128\naxis.V=128\naxis.qkv_stride=0\ndtype.io=bf16\ndtype.state=f32\ntarget=sm_90a\n',
      ),
    ),
  ),
  '68591fafcb13632cae3a713195adf61e7f473afdfc79a197e642a8aef8407245',
);
const keys = crypto.generateKeyPairSync('ed25519'),
  number = Buffer.from('0102030405060708', 'hex'),
  data = Buffer.from('{"a":1}');
const sign = (comment, algorithm = 'ED') => {
  const sig = crypto.sign(null, algorithm === 'ED' ? crypto.createHash('blake2b512').update(data).digest() : data, keys.privateKey);
  return `untrusted comment: x\n${Buffer.concat([Buffer.from(algorithm), number, sig]).toString('base64')}\ntrusted comment: ${comment}\n${crypto.sign(null, Buffer.concat([sig, Buffer.from(comment)]), keys.privateKey).toString('base64')}\n`;
};
const key = `untrusted comment: k\n${Buffer.concat([Buffer.from('Ed'), number, keys.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32)]).toString('base64')}\n`;
const judged = async (d, s, k) => {
  const r = await verify(d, s, k);
  return [r.checked, r.good];
};
for (const algorithm of ['ED', 'Ed']) is(await judged(data, sign('c', algorithm), key), [true, true]);
is((await verify(data, sign('said'), key)).comment, 'said');
is(await judged(Buffer.from('{"a":2}'), sign('c'), key), [true, false]);
is(await judged(data, sign('c').replace('trusted comment: c', 'trusted comment: d'), key), [true, false]);
is(await judged(data, sign('c'), key.replace(/.{10}\n$/, 'AAAAAAAAAA\n')), [true, false]);
// a certificate of another shape, signed well, is not the one of this address
{
  const ours = 'a'.repeat(64),
    other = 'b'.repeat(64);
  for (const [address, certified, comment, kind] of [
    [ours, ours, `timestamp:1 file:certificate.json shape:${ours} target:sm_90a`, 'good'],
    [ours, other, `timestamp:1 shape:${other}`, 'bad'],
    [ours, ours, `shape:${other} shape:${ours}`, 'bad'],
    [ours, other, `shape:${ours}`, 'bad'],
    [ours, undefined, `shape:${ours}`, 'bad'],
    [ours, ours, 'timestamp:1', 'good'],
  ]) {
    const result = await verify(data, sign(comment), key);
    is(result.good, true);
    is(outcomeOf(result, wrongShape(address, { shape_hash: certified }, result.comment), true).kind, kind);
  }
  is(outcomeOf({ checked: true, good: false, why: 'x' }, null, true).kind, 'bad');
  is(outcomeOf({ checked: false, why: 'x' }, null, true).kind, 'doubt');
  is(outcomeOf({ checked: false, why: 'x' }, wrongShape(ours, null), true).kind, 'bad');
  is([...commentFields('a:b:c x :y z:')], [['a', 'b:c'], ['z', '']]);
}
for (const bad of ['', 'x', sign('c').slice(0, 60)]) is(await judged(data, bad, key), [true, false]);
for (const bad of ['', 'x', 'RWRW', sign('c')]) is(readKey(bad), null);

// ---- sources: no text is lost by colouring it; differences join to both texts
const sources = {
  cuda: '#include <x>\n/* a\n b */ extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1.5e3f; } // "end\n\tchar c = \'\\n\'; "open',
  ptx: '.reg .b32 %r<4>; // c\n mov.u32 %r1, %tid.x;',
  triton: '@triton.jit\ndef k(x):\n  """doc\n  <b>"""\n  return tl.load(x)  # c',
};
for (const [language, source] of Object.entries(sources))
  is(
    tokenize(language, source)
      .map((l) => l.map(([, t]) => t).join(''))
      .join('\n'),
    source,
  );
is(
  tokenize('cuda', sources.cuda)[1].map(([c]) => c),
  ['comment'],
);
is(
  tokenize('cuda', sources.cuda)[2]
    .map(([c, t]) => c && t.trim() === '__global__' && c)
    .filter(Boolean),
  ['cuda'],
);
for (const [a, b] of [
  ['a\nb\nc', 'a\nx\nc'],
  ['', 'a'],
  ['a', ''],
  ['a\nb', 'a\nb'],
  ['1\n2\n3\n4', '2\n4\n5'],
  ['a\n'.repeat(900), 'b\n'.repeat(900)],
]) {
  const lines = diffLines(a, b);
  is(
    lines
      .filter((l) => l.op !== '+')
      .map((l) => l.text)
      .join('\n'),
    a,
  );
  is(
    lines
      .filter((l) => l.op !== '-')
      .map((l) => l.text)
      .join('\n'),
    b,
  );
}
is(diffLines('1\n2\n3\n4', '2\n4\n5').filter((l) => l.op !== ' ').length, 3);
is(
  hunks(diffLines('a\n'.repeat(40) + 'b', 'a\n'.repeat(40) + 'c')).map((l) => l.gap ?? l.op),
  [37, ' ', ' ', ' ', '-', '+'],
);
is([...offendingLines({ code: 'race', text: 'x (line 10)', detail: { source_line: 10 } })], [[10, 'x (line 10)']]);
is(
  [
    ...offendingLines({
      code: 'compile_error',
      text: 't',
      detail: { log: 'candidate.cu(12): error: identifier "flaot"\n  ^\ncandidate.cu(14): error: b' },
    }).keys(),
  ],
  [12, 14],
);
is(
  [
    [...offendingLines({ code: 'race', text: 'y (PTX line 7)', detail: null })],
    [...offendingLines({ code: 'ok', text: 'line 3' })],
    [...offendingLines(null)],
  ],
  [[], [], []],
);

// ---- views of data
is(
  gridOf([1, 4].flatMap((B) => ['a', 'b'].map((op) => ({ shape_hash: `${op}${B}`, shape: { op, axes: { B, K: 2 } } })))).columns.map(
    ([v]) => v,
  ),
  [1, 4],
);
const shapesOf = (tps, batches, more = [{}]) =>
  tps.flatMap((tp) =>
    batches.flatMap((B) =>
      ['in', 'out'].flatMap((what) =>
        more.map((m, i) => ({
          shape_hash: `${tp}-${B}-${what}-${i}`,
          shape: { op: 'gemm', axes: { B, N: 4096 / tp, ...m }, dtypes: { io: 'bf16' }, target: 'sm_90a' },
          launches: [{ what, tp, batch: B }],
        })),
      ),
    ),
  );
for (const [list, names] of [
  [shapesOf([8], [1, 4]), ['gemm · in', 'gemm · out']],
  [shapesOf([4, 8], [1, 4]), ['gemm · in · tp 4', 'gemm · out · tp 4', 'gemm · in · tp 8', 'gemm · out · tp 8']],
  [shapesOf([8], [1], [{ slots: 1 }, { slots: 2 }]), ['in', 'out'].flatMap((w) => [1, 2].map((n) => `gemm · ${w} · B=1 N=512 slots=${n}`))],
  [shapesOf([8], [1], [{}, {}]), null],
]) {
  const grid = gridOf(list);
  is(grid.rows.flatMap(([, cells]) => [...cells.values()].map((s) => s.shape_hash)).sort(), list.map((s) => s.shape_hash).sort());
  if (names) is(grid.rows.map(([name]) => name), names);
}
is(
  searchData([
    { id: 'b', baseline: true, verdict: 'ok', time_ns: 5000 },
    { id: '1', number: 1, verdict: 'ok', time_ns: 4000 },
    { id: '2', number: 2, verdict: 'race' },
    { id: '3', number: 3, verdict: 'not_faster', time_ns: 6000 },
  ]).data,
  [
    [1, 2, 3],
    [4, 4, 4],
    [4, null, 6],
  ],
);
is([howMany(1, null, 50), howMany(50, null, 50), howMany(50, 'x', Infinity), howMany(70, null, Infinity)], ['1 lesson', '50+ lessons', '50+ lessons', '70 lessons']);
is(tagTree([{ tags: ['op/a', 'target/x'] }, { tags: ['op/a'] }, { tags: 7 }]), [
  ['op', [['a', 2]]],
  ['target', [['x', 1]]],
]);

// ---- what was not done is not "checked"; what was done to a sample of the blocks says so
const judgedBy = (phases, evidence = 'measured') => checksOf({ figures: { evidence }, phases: phases.map(([phase, more]) => ({ phase, ms: 1, verdict: 'ok', ...more })) });
const sampled = { steps: [{ kernel: 'k', blocks: 40, of: 512 }], smaller: { shown: true, axes: { B: 1 } } };
is(checksSummary(judgedBy([['emulate', { blocks_emulated: 512, blocks_of_all: 512 }], ['audit', {}]])), '2 of 2 checks passed');
is(checksSummary(judgedBy([['emulate', { note: 'wgmma is not known' }], ['audit', { not_done: 'no libcupti' }], ['time', {}]])), '1 of 3 checks passed, 2 not done');
is(checksSummary(judgedBy([['emulate', { blocks_emulated: 40, blocks_of_all: 512, sampled }], ['correct', { sampled }], ['time', {}]])), '1 of 3 checks passed, 2 on a sample of the blocks');
is(checksSummary(judgedBy([['time', { not_done: 'x' }], ['compile', {}]], 'emulated')), '1 of 1 checks passed');
is(judgedBy([['emulate', { note: 'first it did not run', mode: 'triage' }], ['emulate', { mode: 'retest', blocks_emulated: 2, blocks_of_all: 2 }]]).map((c) => [c.notDone, c.sample, c.again]), [
  [null, null, true],
]);
is(judgedBy([['correct', { sampled }]])[0].sample, { blocks: 40, of: 512, smaller: { B: 1 } });
is(judgedBy([['audit', { verdict: 'timers_disagree', not_done: 'x' }]])[0].good, false);
is([notDone({ note: {} }), notDone(null), notDone({ note: '', not_done: 'b' })], [null, null, 'b']);
is(needsMissing({ needs: { asked: ['audit'], missing: [{ need: 'audit', why: 'no' }, null] } }), [
  { need: 'audit', why: 'no' },
  { need: '?', why: '' },
]);
is([needsMissing({ needs: { missing: 7 } }), needsMissing(null)], [[], []]);

// ---- a speed-up over a job's own baseline says so, wherever it stands
{
  const best = { candidate: 'c1', speedup: { median: 9 }, time_ns: 5, evidence: 'measured' },
    shape = { shape_hash: H, shape: { op: 'scale', axes: {} }, best },
    own = { id: 'job_own', state: 'done', baseline: { digest: 'd' }, shapes: [shape] };
  is([F.overText(best, own), F.overText({ own_baseline: 'd' }), F.overText(best, { baseline: null }), F.overText(null, null)], ["over the job's own baseline", "over the job's own baseline", '', '']);
  is(F.servingText({ baseline: null }, shape), '');
  assert.match(F.servingText(own, shape), /^Nothing of it is served yet/);
  is(F.servingText(own, { ...shape, serving: { served: false, verdict: 'not_faster', speedup: { median: 0.5 }, evidence: 'emulated' } }), "Not served: beside the operator's baseline ≈ 0.50×, estimate, verdict not_faster.");
  is(F.servingText(own, { ...shape, serving: { served: true, verdict: 'ok', speedup: { median: 1.25 }, evidence: 'measured' } }), "Served: beside the operator's baseline 1.25×, measured, verdict ok.");
  is(F.servingText(own, { ...shape, serving: { served: 'yes' } }), "Not served: beside the operator's baseline verdict ?.");
  const at = S.newState();
  S.takeJob(at, own, 1);
  is(shapeRows(at), []);
  S.takeEvent(at, 'shape.best', JSON.stringify({ id: 5, job: 'job_own', candidate: 'c2', shape_hash: H, stands_for: 'c1', served: true, speedup: { median: 1.2 } }));
  is(at.jobs.get('job_own').best.get(H).candidate, 'c1'); // what is served stands for the best and does not replace it
  S.takeJob(at, { ...own, id: 'job_b', baseline: undefined }, 6);
  is(shapeRows(at).map((r) => r.job.id), ['job_b']);
}

is([F.connectionText('waiting', 7), F.connectionText('live', 0)], [['reconnecting', 'in 7 s'], ['live', '']]);

// ---- no words beyond what the record shows
const judgedHow = (evidence, phases) => howJudged({ figures: { evidence }, phases: phases.map(([phase, more]) => ({ phase, ...more })) });
assert.match(judgedHow('measured', [['correct'], ['retest', { mode: 'retest' }]]), /fresh processes\.$/);
assert.match(judgedHow('measured', [['correct'], ['time']]), /not judged again/);
assert.match(judgedHow('emulated', [['emulate', { blocks_emulated: 4, blocks_of_all: 4 }]]), /every access/);
for (const more of [{ note: 'no' }, { blocks_emulated: 4, blocks_of_all: 8 }]) assert.doesNotMatch(judgedHow('emulated', [['emulate', more]]), /every access/);
{
  const candidate = Array.from({ length: 996 }, (_, i) => 1000 + i),
    range = histogramRange({ candidate, baseline: [9000, 8000, 7000, 6000] });
  is([range.low, range.largest, range.beyond], [1000, 9000, 4]);
  assert.match(tailText(range), /^4 of them are slower than .*, up to 9\.00 µs: the last column holds them too\.$/);
  is([histogramRange({ candidate: [1] }), tailText(null), tailText(histogramRange({ candidate: [5, 5, 5, 5] }))], [null, '', '']);
}

// ---- on which card it was judged again; what the card's counters said
is(cardText({ device: { name: 'H200', uuid: 'GPU-12345678-abcdefgh' }, why_this_card: 'the other was busy' }), 'H200, …abcdefgh, no other: the other was busy');
is([cardText({ device: { name: {}, uuid: 7 } }), cardText(null)], ['…7', '']);
is([otherCard({ other_card: true }), otherCard({ other_card: 'x' })], ['another than the one that judged it first', null]);
is(otherCard({ other_card: false }), 'the one that judged it first');
is(profileRows({ steps: [{ dram_pct: 61.5, l2_bytes: 2e6, stalls: {} }, { dram_pct: '7' }, null] }).rows, [
  ['DRAM, of what it can sustain', '61.5 %', '–', '–'],
  ['through L2', '2.00 MB', '–', '–'],
]);
is([profileRows({ steps: 7 }).rows, profileRows(null).rows, stallsOf({ stalls: 'x' })], [[], [], []]);
is(stallsOf({ stalls: { wait: 1, long_scoreboard: 9, drain: 0, misc: 'x' } }), [
  { name: 'long scoreboard', value: 9 },
  { name: 'wait', value: 1 },
]);

// ---- an admin is asked for what is held alone
const verdict = (code, detail) => ({ verdict: { code, detail } });
is([isHeld(verdict('implausible', { held: true })), isHeld({ ...verdict('implausible', { held: true }), decision: { decision: 'refused' } })], [true, false]);
for (const doc of [verdict('implausible'), verdict('implausible', { held: 'true' }), verdict('ok', { held: true }), {}, null]) is(isHeld(doc), false);

// ---- every module loads, with all that it imports
for (const folder of ['lib', 'views', 'vendor'])
  for (const file of fs.readdirSync(`static/${folder}`))
    if (file.endsWith('.js') && file !== 'uPlot.esm.js') {
      await import(`./static/${folder}/${file}`);
      checks++;
    }

// ---- size, and what is not ours is what it says it is
let packed = 0;
for (const file of fs.readdirSync('static', { recursive: true }))
  if (fs.statSync(path.join('static', file)).isFile())
    packed += zlib.gzipSync(fs.readFileSync(path.join('static', file)), { level: 9 }).length;
assert.ok(packed < 200 * 1000, `the dashboard is ${packed} bytes compressed`);
const note = fs.readFileSync('static/vendor/README.txt', 'utf8');
for (const file of ['uPlot.esm.js', 'uPlot.css'])
  assert.ok(
    note.includes(
      crypto
        .createHash('sha256')
        .update(fs.readFileSync(`static/vendor/${file}`))
        .digest('hex'),
    ),
    file,
  );
assert.ok(/MIT/.test(fs.readFileSync('static/vendor/uPlot.LICENSE.txt', 'utf8')));
checks += 4;
console.log(`static/ is ${packed} bytes compressed`);

// ---- words: only what says "measured" is measured
for (const e of ['emulated', 'MEASURED', '', undefined, 1]) is(F.evidenceWord({ evidence: e }), 'estimate');
is(F.evidenceWord({ evidence: 'measured' }), 'measured');
is([F.duration(840), F.duration(3214), F.duration(1.4e6), F.duration(0), F.duration(NaN)], ['840 ns', '3.21 µs', '1.40 ms', '–', '–']);
is(
  [
    F.speedupText({ speedup: 1.5, evidence: 'emulated' }),
    F.speedupText({ speedup: { median: 2 } }),
    F.speedupText({ speedup: { median: 2 }, evidence: 'measured' }),
    F.speedupText({ speedup: 'x' }),
    F.speedupText(null),
  ],
  ['≈ 1.50×', '≈ 2.00×', '2.00×', '–', '–'],
);
is(effectText({ measured: true, effect: { ratio: 1.5, low: 1.25, high: 1.75 } }), '1.5× [1.25, 1.75]');
is(effectText({ effect: { ratio: 2, low: 2, high: 2 } }), '≈ 2×'); // an estimate has no interval
is(effectText({}), 'no figure');
console.log(`${checks} checks, 0 failed`);
