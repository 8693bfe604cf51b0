// Judgements that a card gave, as files of the repository: one to the retest with everything that the judge wrote, and the cells of a
// measurement of kernels, of which the figures were kept. For tests and pictures of pages that show measurements, where no card is.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const read = (at) => JSON.parse(fs.readFileSync(path.join(root, at), 'utf8'));
const SHARED = ['samples', 'modes', 'rules', 'resources', 'roofline'];

/** {source, verdict, figures, certificate}: what was judged, and what the judge sent, whole. */
export function judgement() {
  const { source, verdict, figures, certificate } = read('tests/browser/data/h200-judgement.json');
  for (const k of SHARED) certificate[k] = figures[k];
  certificate.timing.statistics = figures.statistics;
  return { source, verdict, figures, certificate };
}

/** Cells that were judged to the retest, and the card they were measured on. */
export function cells() {
  const doc = read('tests/bench/results/2026-11-30-h200-kernels.json');
  return { device: doc.device, toolkit: { version: doc.toolkit.version }, cells: doc.cells.filter((c) => c.evidence === 'measured') };
}

/** A candidate of a template, as a client would send it. */
export function fromTemplate(op, template, defines, notes) {
  const at = `gpu/ops/${op}/templates/${template}`,
    { candidate } = read(`${at}.json`);
  return { ...candidate, source: fs.readFileSync(path.join(root, `${at}.cu`), 'utf8'), defines, notes };
}

/** The same shape? What a record leaves out is an operator's default. */
export const sameShape = (a, b) =>
  a.op === b.op && Object.entries(a.axes).every(([k, v]) => b.axes[k] === undefined || b.axes[k] === v);
export const sameDefines = (a, b) => JSON.stringify(Object.entries(a ?? {}).sort()) === JSON.stringify(Object.entries(b ?? {}).sort());
