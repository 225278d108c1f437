// Differences of two texts by their lines.

// compare gives rows [kind, old line number, new line number, text] with the kinds " ", "-"
// and "+": a shortest edit script (Myers, "An O(ND) Difference Algorithm", 1986). Texts that
// differ in more than `most` lines are given as one whole after the other.
export function compare(before, after, most = 4000) {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let endA = a.length;
  let endB = b.length;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) {
    endA--;
    endB--;
  }
  const rows = [];
  const same = (i, j) => rows.push([" ", i + 1, j + 1, a[i]]);
  const less = (i) => rows.push(["-", i + 1, 0, a[i]]);
  const more = (j) => rows.push(["+", 0, j + 1, b[j]]);
  for (let i = 0; i < start; i++) same(i, i);
  for (const [kind, i, j] of script(a.slice(start, endA), b.slice(start, endB), most)) {
    if (kind === " ") same(start + i, start + j);
    else if (kind === "-") less(start + i);
    else more(start + j);
  }
  for (let k = 0; endA + k < a.length; k++) same(endA + k, endB + k);
  return rows;
}

function script(a, b, most) {
  const max = Math.min(a.length + b.length, most);
  const offset = max + 1;
  let furthest = new Int32Array(2 * max + 3);
  const trace = [];
  let found = -1;
  search: for (let d = 0; d <= max; d++) {
    trace.push(furthest.slice(offset - d - 1, offset + d + 2));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && furthest[offset + k - 1] < furthest[offset + k + 1]) ? furthest[offset + k + 1] : furthest[offset + k - 1] + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x++;
        y++;
      }
      furthest[offset + k] = x;
      if (x >= a.length && y >= b.length) {
        found = d;
        break search;
      }
    }
  }
  if (found < 0) return [...a.map((_, i) => ["-", i, 0]), ...b.map((_, j) => ["+", 0, j])];
  const edits = [];
  let x = a.length;
  let y = b.length;
  for (let d = found; d > 0; d--) {
    const v = trace[d]; // v[k + d + 1] is the furthest x on diagonal k after d - 1 edits
    const k = x - y;
    const down = k === -d || (k !== d && v[k - 1 + d + 1] < v[k + 1 + d + 1]);
    const prevK = down ? k + 1 : k - 1;
    const prevX = v[prevK + d + 1];
    const prevY = prevX - prevK;
    while (x > (down ? prevX : prevX + 1)) {
      x--;
      y--;
      edits.push([" ", x, y]);
    }
    if (down) edits.push(["+", 0, prevY]);
    else edits.push(["-", prevX, 0]);
    x = prevX;
    y = prevY;
  }
  while (x > 0 && y > 0) {
    x--;
    y--;
    edits.push([" ", x, y]);
  }
  return edits.reverse();
}

// hunks cuts rows to those near a change: parts {hidden, rows}.
export function hunks(rows, context = 3) {
  const near = new Uint8Array(rows.length);
  rows.forEach(([kind], i) => {
    if (kind !== " ") near.fill(1, Math.max(0, i - context), Math.min(rows.length, i + context + 1));
  });
  const parts = [];
  rows.forEach((row, i) => {
    const hidden = !near[i];
    if (!parts.length || parts.at(-1).hidden !== hidden) parts.push({ hidden, rows: [] });
    parts.at(-1).rows.push(row);
  });
  return parts;
}
