// BLAKE2b (RFC 7693), without key: what digests, shape hashes and minisign's prehashed signatures are made of. Words of 64 bits are
// pairs of 32, low half first.

const IV = new Uint32Array([
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a, 0xade682d1, 0x510e527f, 0x2b3e6c1f,
  0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
]);
const SIGMA = [
  '0123456789abcdef',
  'ea489fd61c02b753',
  'b8c052fdae367194',
  '7931dcbe265a40f8',
  '905724afe1bc683d',
  '2c6a0b834d75fe19',
  'c51fed4a0763928b',
  'db7ec13950f4862a',
  '6fe9b308c2d714a5',
  'a2847615fb9e3cd0',
  '0123456789abcdef',
  'ea489fd61c02b753',
].map((row) => Uint8Array.from(row, (c) => parseInt(c, 16) * 2));
const LANES = [
  [0, 4, 8, 12],
  [1, 5, 9, 13],
  [2, 6, 10, 14],
  [3, 7, 11, 15],
  [0, 5, 10, 15],
  [1, 6, 11, 12],
  [2, 7, 8, 13],
  [3, 4, 9, 14],
].map((l) => l.map((i) => i * 2));
const v = new Uint32Array(32),
  m = new Uint32Array(32);

function add(a, low, high) {
  const sum = v[a] + low;
  v[a] = sum;
  v[a + 1] = v[a + 1] + high + (sum > 0xffffffff ? 1 : 0);
}

/** v[d] = rotate(v[d] ^ v[a]) to the right. */
function turn(d, a, by) {
  const low = v[d] ^ v[a],
    high = v[d + 1] ^ v[a + 1];
  if (by === 32) {
    v[d] = high;
    v[d + 1] = low;
    return;
  }
  if (by === 63) {
    v[d] = (low << 1) | (high >>> 31);
    v[d + 1] = (high << 1) | (low >>> 31);
    return;
  }
  v[d] = (low >>> by) | (high << (32 - by));
  v[d + 1] = (high >>> by) | (low << (32 - by));
}

function compress(h, block, counted, last) {
  v.set(h);
  v.set(IV, 16);
  v[24] ^= counted >>> 0;
  v[25] ^= Math.floor(counted / 0x100000000);
  if (last) {
    v[28] = ~v[28];
    v[29] = ~v[29];
  }
  const view = new DataView(block.buffer, block.byteOffset, 128);
  for (let i = 0; i < 32; i++) m[i] = view.getUint32(i * 4, true);
  for (const s of SIGMA) {
    for (let i = 0; i < 8; i++) {
      const [a, b, c, d] = LANES[i],
        x = s[2 * i],
        y = s[2 * i + 1];
      add(a, v[b], v[b + 1]);
      add(a, m[x], m[x + 1]);
      turn(d, a, 32);
      add(c, v[d], v[d + 1]);
      turn(b, c, 24);
      add(a, v[b], v[b + 1]);
      add(a, m[y], m[y + 1]);
      turn(d, a, 16);
      add(c, v[d], v[d + 1]);
      turn(b, c, 63);
    }
  }
  for (let i = 0; i < 16; i++) h[i] ^= v[i] ^ v[i + 16];
}

export function blake2b(data, size = 32) {
  const h = Uint32Array.from(IV),
    block = new Uint8Array(128);
  h[0] ^= 0x01010000 ^ size;
  let at = 0;
  for (; data.length - at > 128; at += 128) {
    block.set(data.subarray(at, at + 128));
    compress(h, block, at + 128, false);
  }
  block.fill(0);
  block.set(data.subarray(at));
  compress(h, block, data.length, true);
  const out = new Uint8Array(64),
    view = new DataView(out.buffer);
  h.forEach((word, i) => view.setUint32(i * 4, word, true));
  return out.slice(0, size);
}

export const hex = (data) => Array.from(data, (b) => b.toString(16).padStart(2, '0')).join('');
