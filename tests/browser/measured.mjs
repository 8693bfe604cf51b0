// A real service whose judge replays what a card's judge said: measurements come in through the same routes as always, are certified,
// signed and served, and the pages show them. As a program it tests them: node measured.mjs PROTEUSD STATIC_DIR MODULES_DIR CHROMIUM
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { cells, fromTemplate, judgement } from './recorded.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const wait = (ms) => new Promise((r) => setTimeout(r, ms));

/** {base, ask, stop}: a service in a folder of its own (or in `data`), with other flags if wanted. */
export async function service(proteusd, staticDir, { judge = path.join(here, 'replay_judge.mjs'), flags = [], data, env = {}, listen = '127.0.0.1:0' } = {}) {
  const dir = data ?? fs.mkdtempSync(path.join(os.tmpdir(), 'proteus-measured-'));
  const child = spawn(
    proteusd,
    ['--listen', listen, '--data', dir, '--static-dir', staticDir, ...(judge ? ['--judge', judge] : []), ...flags],
    { stdio: ['ignore', 'pipe', process.env.VERBOSE ? 'inherit' : 'ignore'], env: { ...process.env, ...env } },
  );
  const clean = () => {
    child.kill('SIGKILL');
    if (!data) fs.rmSync(dir, { recursive: true, force: true });
  };
  process.on('exit', clean);
  const base = await new Promise((resolve, reject) => {
    let said = '';
    child.stdout.on('data', (d) => {
      said += d;
      const m = /listening on (http\S+)/.exec(said);
      if (m) resolve(`${m[1]}/`);
    });
    child.on('exit', (code) => reject(new Error(`proteusd ended with ${code}`)));
  });
  const ask = async (at, body) => {
    const answer = await fetch(
      base + at,
      body ? { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) } : {},
    );
    const doc = await answer.json();
    if (!answer.ok) throw new Error(`${at}: ${answer.status} ${JSON.stringify(doc)}`);
    return doc;
  };
  const stop = () =>
    new Promise((resolve) => {
      child.removeAllListeners('exit');
      child.on('exit', () => resolve());
      child.kill('SIGTERM');
    });
  return { base, ask, stop, dir };
}

const ended = async (ask, id) => {
  for (let i = 0; i < 1200; i++) {
    const job = await ask(`v1/jobs/${id}`);
    if (['done', 'failed', 'cancelled'].includes(job.state)) return job;
    await wait(100);
  }
  throw new Error(`job ${id} does not end`);
};

/** The whole judgement: one shape, one candidate. Gives {job, candidate, shape_hash}. */
export async function loadJudgement(ask) {
  const { source, certificate } = judgement(),
    { op, axes, dtypes, target } = certificate.shape;
  const job = await ask('v1/jobs', { op, shapes: [axes], dtypes, target, generator: 'external', budget: { candidates: 1 } });
  const sent = await ask(
    `v1/jobs/${job.id}/candidates`,
    { language: 'cuda', source, ...certificate.program, notes: 'one row a half warp, the state in registers, loads past L1' },
  );
  const done = await ended(ask, job.id);
  return { job: done, candidate: sent.id ?? sent.candidate, shape_hash: done.shapes[0].shape_hash };
}

/** The measured cells, a job an operator; or some of them. */
export async function loadCells(ask, most = Infinity, operators = Infinity) {
  const byOp = Map.groupBy ? Map.groupBy(cells().cells, (c) => c.shape.op) : group(cells().cells);
  const jobs = [];
  for (const [op, all] of [...byOp].slice(0, operators)) {
    const list = all.slice(0, most);
    const job = await ask('v1/jobs', {
      op,
      shapes: list.map((c) => c.shape.axes),
      dtypes: list[0].shape.dtypes,
      target: list[0].shape.target,
      generator: 'external',
      budget: { candidates: list.length },
      reuse: 'never', // one of them may be the whole judgement's shape
    });
    for (const c of list)
      await ask(`v1/jobs/${job.id}/candidates`, {
        shape_hash: job.shapes.find((s) => Object.entries(c.shape.axes).every(([k, v]) => s.shape.axes[k] === v)).shape_hash,
        candidate: fromTemplate(op, c.origin.template, c.origin.params, c.origin.why),
      });
    jobs.push(job.id);
  }
  for (const id of jobs) await ended(ask, id);
  return jobs;
}

function group(list) {
  const by = new Map();
  for (const c of list) by.set(c.shape.op, [...(by.get(c.shape.op) ?? []), c]);
  return by;
}
