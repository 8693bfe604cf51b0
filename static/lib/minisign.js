// minisign's signatures, checked in the browser: Ed25519 over the BLAKE2b-512 of the exact bytes, and over the trusted comment.
// WebCrypto does the curve; where it does not (an old browser, or no secure context) nothing is checked and that is said.
import { blake2b } from './blake2b.js';

const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

/** {number, key} of a public key file, or of its second line alone; null: it is none. */
export function readKey(text) {
  const line =
    String(text)
      .split(/\r?\n/)
      .map((l) => l.trim())
      .filter((l) => l && !/^untrusted comment:/i.test(l))[0] ?? '';
  try {
    const bytes = decode(line);
    if (bytes.length !== 42 || bytes[0] !== 0x45 || bytes[1] !== 0x64) return null;
    return { number: bytes.slice(2, 10), key: bytes.slice(10) };
  } catch {
    return null;
  }
}

function readSignature(text) {
  const [, line, comment, global] = String(text).split(/\r?\n/);
  try {
    const bytes = decode(line),
      over = decode(global);
    if (bytes.length !== 74 || over.length !== 64 || !comment.startsWith('trusted comment: ')) return null;
    return {
      prehashed: bytes[1] === 0x44,
      known: bytes[0] === 0x45 && (bytes[1] === 0x44 || bytes[1] === 0x64),
      number: bytes.slice(2, 10),
      signature: bytes.slice(10),
      comment: comment.slice(17),
      over,
    };
  } catch {
    return null;
  }
}

const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);

/** {checked: false, why} where this browser cannot; else {checked: true, good, why, comment}. */
export async function verify(data, signatureText, keyText) {
  const key = readKey(keyText),
    s = readSignature(signatureText);
  if (!key) return { checked: true, good: false, why: 'that is no minisign public key' };
  if (!s || !s.known) return { checked: true, good: false, why: 'the signature is not of the form that minisign writes' };
  if (!same(key.number, s.number)) return { checked: true, good: false, why: 'it was signed with another key than this one' };
  if (!globalThis.crypto?.subtle) return { checked: false, why: 'a browser checks signatures on https or on this machine only' };
  let imported;
  try {
    imported = await crypto.subtle.importKey('raw', key.key, { name: 'Ed25519' }, false, ['verify']);
  } catch {
    return { checked: false, why: 'this browser does not know Ed25519' };
  }
  const message = s.prehashed ? blake2b(data, 64) : data;
  if (!(await crypto.subtle.verify({ name: 'Ed25519' }, imported, s.signature, message)))
    return { checked: true, good: false, why: 'the signature does not fit these bytes' };
  const comment = new TextEncoder().encode(s.comment),
    both = new Uint8Array(64 + comment.length);
  both.set(s.signature);
  both.set(comment, 64);
  if (!(await crypto.subtle.verify({ name: 'Ed25519' }, imported, s.over, both)))
    return { checked: true, good: false, why: "the trusted comment is not the signer's" };
  return { checked: true, good: true, why: '', comment: s.comment };
}
