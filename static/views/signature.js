// The signature of a certificate, checked here. A good one is over some certificate: that it is the one of this address is checked too.
import { el, replace } from '../lib/dom.js';
import { readKey, verify } from '../lib/minisign.js';
import { facts, failure, panel, waiting } from './parts.js';

/** "key:value" words of a trusted comment; the first of each key counts. */
export function commentFields(comment) {
  const fields = new Map();
  for (const word of String(comment ?? '').split(/\s+/)) {
    const at = word.indexOf(':');
    if (at > 0 && !fields.has(word.slice(0, at))) fields.set(word.slice(0, at), word.slice(at + 1));
  }
  return fields;
}

/** Why a signed certificate is not the one of this address; null: it is. */
export function wrongShape(hash, certificate, comment) {
  const said = commentFields(comment).get('shape');
  if (typeof certificate?.shape_hash !== 'string') return 'the certificate names no shape';
  if (certificate.shape_hash !== hash) return `the certificate is of the shape ${certificate.shape_hash.slice(0, 80)}, this address is another's`;
  if (said !== undefined && said !== hash) return `the signer's comment is of the shape ${said.slice(0, 80)}, the certificate of another`;
  return null;
}

/** {kind: 'doubt'|'bad'|'good', stamp, text, comment?} of what a check came to. */
export function outcomeOf(result, wrong, pinned) {
  if (!result.checked && !wrong)
    return {
      kind: 'doubt',
      stamp: 'not checked here',
      text: `This browser did not check the signature: ${result.why}. The service says that it signed it with the key below; proteus verify checks it on your machine.`,
    };
  if (result.checked && !result.good) return { kind: 'bad', stamp: '✕ signature bad', text: `✕ The signature does not hold: ${result.why}. Do not use this kernel.` };
  if (wrong)
    return { kind: 'bad', stamp: '✕ bad: another shape', text: `✕ ${result.checked ? 'The signature holds, but for something else' : 'It is something else'}: ${wrong}. Do not use this kernel.` };
  return {
    kind: 'good',
    stamp: pinned ? '✓ signed, by your key' : '✓ signed',
    text: pinned
      ? '✓ The signature over these exact bytes is good, by the key that you gave.'
      : "✓ The signature over these exact bytes is good, by this service's own key. That shows that nothing was changed since; who signed it shows only a key that you pinned before.",
    comment: result.comment,
  };
}

const STAMPS = { doubt: 'stamp doubt', bad: 'stamp bad', good: 'stamp' },
  WORDS = { doubt: 'warn', bad: 'error', good: 'fine' };

/** {stamp, node}; files: {bytes, signature, key}. What the stamp says is of the key that stands in the field now, and of no other. */
export function signaturePanel(files, hash, certificate) {
  const box = el('div', { role: 'status' }),
    key = el('input', { type: 'text', id: 'pinned-key', autocomplete: 'off', spellcheck: false, placeholder: 'RW…' });
  const stamp = el('div', { class: STAMPS.doubt }, 'signature not checked');
  let turn = 0;
  const reset = () => {
    stamp.className = STAMPS.doubt;
    stamp.textContent = 'signature not checked';
    return ++turn;
  };
  const run = async (keyText, pinned) => {
    const mine = reset();
    replace(box, waiting('the signature'));
    try {
      const result = await verify(files.bytes, files.signature, keyText);
      if (mine !== turn) return;
      const o = outcomeOf(result, wrongShape(hash, certificate, result.comment), pinned);
      stamp.className = STAMPS[o.kind];
      stamp.textContent = o.stamp;
      replace(box, el('p', { class: WORDS[o.kind] }, o.text), o.comment ? facts([['signed', el('code', null, o.comment)]]) : null);
    } catch (e) {
      if (mine === turn) replace(box, failure(e));
    }
  };
  key.addEventListener('input', () => {
    const text = key.value.trim();
    if (!text) run(files.key, false);
    else if (readKey(text)) run(text, true);
    else {
      reset();
      replace(box, el('p', { class: 'warn' }, 'That is no minisign public key, so nothing was checked: the line that begins with RW is wanted.'));
    }
  });
  run(files.key, false);
  return {
    stamp,
    node: panel(
      'Signature',
      null,
      box,
      el('div', { class: 'field' }, el('label', { for: 'pinned-key' }, 'Check against a key that you pinned'), key),
      el('details', null, el('summary', null, "This service's key"), el('pre', { tabindex: 0, 'aria-label': 'Public key' }, files.key)),
    ),
  };
}
