#!/usr/bin/env node
// A judge that judges nothing: it answers with what a card's judge once said of the same candidate for the same shape, and refuses
// everything else. So a service without a card can be shown with measurements, through its own routes. The service runs it as its --judge.
import fs from 'node:fs';
import { cells, judgement, sameDefines, sameShape } from './recorded.mjs';

const TYPE = { hello: 1, phase: 3, verdict: 4, error: 7, devices: 8 };
const pause = Number(process.env.REPLAY_PAUSE_MS ?? 0);

function give(type, doc) {
  const body = Buffer.from(JSON.stringify(doc)),
    head = Buffer.alloc(8);
  head.writeUInt32LE(body.length, 0);
  head.writeUInt16LE(type, 4);
  head.writeUInt16LE(1, 6);
  fs.writeSync(1, Buffer.concat([head, body]));
}

function take() {
  const exactly = (n) => {
    const to = Buffer.alloc(n);
    for (let at = 0; at < n; ) {
      const got = fs.readSync(0, to, at, n - at);
      if (!got) process.exit(1);
      at += got;
    }
    return to;
  };
  return JSON.parse(exactly(exactly(8).readUInt32LE(0)).toString('utf8'));
}

/** Of a baseline only its times were kept, in the record of the candidate that was compared with it. */
function ofBaseline(record) {
  const { figures, certificate } = record,
    ns = figures.baseline_ns;
  const mine = { evidence: 'measured', mode: figures.mode, time_ns: ns, baseline_ns: ns, speedup: { median: 1, low: 1, high: 1 } };
  return {
    verdict: { code: 'ok', phase: 'plausible', fault: 'nobody', text: 'Right: this is the baseline.' },
    figures: mine,
    certificate: { format: certificate.format, ...mine, verdict: 'ok', device: certificate.device, toolkit: certificate.toolkit, phases: [] },
  };
}

function ofCell(cell, { device, toolkit }) {
  const figures = {};
  for (const k of ['evidence', 'mode', 'time_ns', 'baseline_ns', 'speedup', 'decision', 'roofline', 'resources', 'modes', 'gpu_ns', 'judge_wall_ns'])
    if (cell[k] !== undefined) figures[k] = cell[k];
  const { judge_wall_ns: wall, gpu_ns: gpu, ...certified } = figures;
  return {
    verdict: { code: 'ok', phase: 'retest', fault: 'nobody', text: 'Right, and faster than the baseline.' },
    figures,
    certificate: { format: 'proteus-certificate-v1', ...certified, verdict: 'ok', shape: cell.shape, device, toolkit, phases: [] },
  };
}

function find(task) {
  const whole = judgement(),
    kept = cells();
  if (sameShape(task.shape, whole.certificate.shape) && (!task.baseline || sameDefines(task.candidate.defines, whole.certificate.program.defines)))
    return whole;
  const cell = kept.cells.find(
    (c) => sameShape(task.shape, c.shape) && (!task.baseline || sameDefines(task.candidate.defines, c.origin?.params)),
  );
  return cell ? ofCell(cell, kept) : null;
}

function judge() {
  const task = take(),
    record = find(task);
  if (!record) {
    give(TYPE.error, { code: 'unprocessable', text: 'there is no record of this candidate for this shape' });
    return;
  }
  const answer = task.baseline ? record : ofBaseline(record);
  give(TYPE.hello, { version: answer.certificate.proteus_version ?? 'recorded' });
  const phases = answer.certificate.phases.filter((p) => (task.mode === 'retest') === (p.phase === 'retest'));
  for (const { phase, ms } of phases) {
    give(TYPE.phase, { phase, state: 'start', device: 'cuda:0' });
    if (pause) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pause);
    give(TYPE.phase, { phase, state: 'end', ms, device: 'cuda:0', verdict: 'ok' });
  }
  const of = answer.figures.gpu_ns ?? {};
  give(TYPE.verdict, { ...answer, gpu_ns: Math.round(task.mode === 'retest' ? (of.retest ?? 0) : (of.all ?? 0) - (of.retest ?? 0)) });
}

if (process.argv[2] === 'serve-devices') {
  const { device, toolkit } = cells();
  give(TYPE.devices, { devices: [device], sandbox: { level: device.sandbox ?? 'isolated', layers: ['namespaces', 'seccomp'] }, toolkit, version: 'recorded' });
} else judge();
process.exit(0);
