// Differences of two texts by line: Myers' shortest edit script, up to a limit; beyond it all is told as changed.

const LIMIT = 600;

/** [{op: ' ' | '-' | '+', a: line number in a or 0, b: in b or 0, text}] */
export function diffLines(before, after) {
  const a = before.split('\n'),
    b = after.split('\n');
  let head = 0,
    tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const out = [];
  for (let i = 0; i < head; i++) out.push({ op: ' ', a: i + 1, b: i + 1, text: a[i] });
  middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail), head, out);
  for (let i = tail; i > 0; i--) out.push({ op: ' ', a: a.length - i + 1, b: b.length - i + 1, text: a[a.length - i] });
  return out;
}

function middle(a, b, offset, out) {
  const n = a.length,
    m = b.length,
    most = Math.min(n + m, LIMIT),
    trace = [];
  let v = new Map([[1, 0]]),
    found = n + m === 0 ? 0 : -1;
  for (let d = 0; d <= most && found < 0; d++) {
    trace.push(new Map(v));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1)) ? (v.get(k + 1) ?? 0) : (v.get(k - 1) ?? 0) + 1;
      let y = x - k;
      while (x < n && y < m && a[x] === b[y]) {
        x++;
        y++;
      }
      v.set(k, x);
      if (x >= n && y >= m) {
        found = d;
        break;
      }
    }
  }
  if (found < 0) {
    a.forEach((text, i) => out.push({ op: '-', a: offset + i + 1, b: 0, text }));
    b.forEach((text, i) => out.push({ op: '+', a: 0, b: offset + i + 1, text }));
    return;
  }
  const back = [];
  let x = n,
    y = m;
  for (let d = found; d > 0; d--) {
    const w = trace[d],
      k = x - y;
    const from = k === -d || (k !== d && (w.get(k - 1) ?? -1) < (w.get(k + 1) ?? -1)) ? k + 1 : k - 1;
    const px = w.get(from) ?? 0,
      py = px - from;
    while (x > px && y > py && x > 0 && y > 0 && a[x - 1] === b[y - 1]) {
      back.push({ op: ' ', a: offset + x, b: offset + y, text: a[x - 1] });
      x--;
      y--;
    }
    if (from === k + 1) {
      back.push({ op: '+', a: 0, b: offset + y, text: b[y - 1] });
      y--;
    } else {
      back.push({ op: '-', a: offset + x, b: 0, text: a[x - 1] });
      x--;
    }
  }
  while (x > 0 && y > 0) {
    back.push({ op: ' ', a: offset + x, b: offset + y, text: a[x - 1] });
    x--;
    y--;
  }
  out.push(...back.reverse());
}

/** Only what changed with some lines around it; {gap: n} for what is left out. */
export function hunks(lines, around = 3) {
  const keep = new Uint8Array(lines.length);
  lines.forEach((l, i) => {
    if (l.op !== ' ') keep.fill(1, Math.max(0, i - around), i + around + 1);
  });
  const out = [];
  let gap = 0;
  lines.forEach((l, i) => {
    if (!keep[i]) {
      gap++;
      return;
    }
    if (gap) out.push({ gap });
    gap = 0;
    out.push(l);
  });
  if (gap) out.push({ gap });
  return out;
}
