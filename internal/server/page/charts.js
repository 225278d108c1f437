// Charts: few points as SVG, many on a canvas.

import { figure, h, s } from "./dom.js";

// Colors are the style sheet's. A canvas needs them resolved.
const known = new Map();
export function forgetColors() { known.clear(); }
export function color(name) {
  if (!known.has(name)) {
    const probe = h("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    known.set(name, getComputedStyle(probe).color);
    probe.remove();
  }
  return known.get(name);
}

// hues tell series apart (Okabe and Ito, readable for the color-blind).
export const hues = ["a", "b", "c", "d", "e", "f"];

// scale maps values to pixels, evenly or by their logarithms.
export function scale(lo, hi, from, to, log) {
  if (log) {
    lo = Math.max(lo, Number.MIN_VALUE);
    const a = Math.log(lo);
    const b = Math.log(hi);
    return (v) => from + ((Math.log(Math.max(v, lo)) - a) / (b - a || 1)) * (to - from);
  }
  return (v) => from + ((v - lo) / (hi - lo || 1)) * (to - from);
}

// ticks are round values between two.
export function ticks(lo, hi, most, log) {
  const list = [];
  if (log && lo > 0 && hi / lo > 5) {
    const decades = Math.log10(hi / lo);
    const steps = decades > most ? [1] : decades * 3 > most ? [1, 3] : [1, 2, 5];
    const skip = Math.max(1, Math.ceil(decades / most));
    for (let e = Math.floor(Math.log10(lo)); 10 ** e <= hi; e += skip) for (const m of steps) {
      const v = m * 10 ** e;
      if (v >= lo * 0.999 && v <= hi * 1.001) list.push(v);
    }
    return list;
  }
  if (!(hi > lo)) return [lo];
  const raw = (hi - lo) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((v) => v >= raw * 0.999);
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9; i++) list.push(i * step || 0);
  return list;
}

const margin = { right: 14, top: 10, bottom: 38 };

// wide estimates how wide a text is in a chart, in pixels.
const wide = (text) => 7 * text.length;

const write = (axis) => axis.format || figure;

// verticals are the ticks of the y-axis, and `left` is the room for them and the axis' label.
function verticals(y, height) {
  const list = ticks(y.lo, y.hi, Math.max(2, height / 45), y.log).map((v) => [v, write(y)(v)]);
  return { list, left: Math.max(56, 28 + Math.max(...list.map(([, text]) => wide(text)))) };
}

// frame draws the axes of a chart in SVG. It gives their scales, and where the x-axis begins.
function frame(svg, width, height, x, y) {
  const { list, left } = verticals(y, height);
  const X = scale(x.lo, x.hi, left, width - margin.right, x.log);
  const Y = scale(y.lo, y.hi, height - margin.bottom, margin.top, y.log);
  for (const [v, text] of list) {
    svg.append(s("line", { class: "grid", x1: left, x2: width - margin.right, y1: Y(v), y2: Y(v) }),
      s("text", { class: "tick", x: left - 6, y: Y(v) + 4, "text-anchor": "end" }, text));
  }
  for (const v of ticks(x.lo, x.hi, Math.max(2, width / 90), x.log)) {
    svg.append(s("line", { class: "grid", x1: X(v), x2: X(v), y1: margin.top, y2: height - margin.bottom }),
      s("text", { class: "tick", x: X(v), y: height - margin.bottom + 16, "text-anchor": "middle" }, write(x)(v)));
  }
  svg.append(s("text", { class: "label", x: (left + width - margin.right) / 2, y: height - 4, "text-anchor": "middle" }, x.label),
    s("text", { class: "label", x: 12, y: (margin.top + height - margin.bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(margin.top + height - margin.bottom) / 2})` }, y.label));
  return [X, Y, left];
}

const widthOf = (el) => Math.max(280, Math.floor(el.clientWidth || el.parentElement?.clientWidth || 600));

// range gives the least and the largest of values, somewhat widened.
export function range(values, log, pad = 0.06) {
  let lo = Infinity;
  let hi = -Infinity;
  for (const v of values) {
    if (!Number.isFinite(v) || (log && v <= 0)) continue;
    if (v < lo) lo = v;
    if (v > hi) hi = v;
  }
  if (lo > hi) return log ? { lo: 0.1, hi: 10 } : { lo: 0, hi: 1 };
  if (log) return lo === hi ? { lo: lo / 2, hi: hi * 2 } : { lo: lo / (hi / lo) ** pad, hi: hi * (hi / lo) ** pad };
  const wide = (hi - lo || Math.abs(hi) || 1) * pad;
  return { lo: lo - wide, hi: hi + wide };
}

// steps draws what only grows, such as the best so far: series of {name, points: [x, y, title]},
// each held until the next point and up to `end`. A mark {x, y, lo, hi, title} is a point beside
// them, with its interval.
export function steps(el, { series, mark, x, y, label }) {
  const width = widthOf(el);
  const height = Math.min(280, Math.max(200, width * 0.45));
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  const all = series.flatMap((p) => p.points);
  const xr = { ...range([...all.map((p) => p[0]), ...series.map((p) => p.end), ...(mark ? [mark.x] : [])], x.log, 0), ...x };
  if (!x.log && x.lo === undefined) xr.lo = 0;
  if (!(xr.hi > xr.lo)) xr.hi = xr.lo + 1;
  const yr = { ...range([...all.map((p) => p[1]), ...(y.rule ? [y.rule] : []), ...(mark ? [mark.y, mark.lo || mark.y, mark.hi || mark.y] : [])], y.log), ...y };
  const [X, Y, left] = frame(svg, width, height, xr, yr);
  if (y.rule) svg.append(s("line", { class: "rule", x1: left, x2: width - margin.right, y1: Y(y.rule), y2: Y(y.rule) }, s("title", {}, y.ruleTitle || "")));
  series.forEach((line, i) => {
    if (!line.points.length) return;
    let d = "";
    let dots = "";
    for (const [px, py] of line.points) {
      d += d ? `H${X(px)}V${Y(py)}` : `M${X(px)} ${Y(py)}`;
      dots += `M${X(px)} ${Y(py)}h.01`;
    }
    if (line.end !== undefined) d += `H${X(Math.max(line.end, line.points.at(-1)[0]))}`;
    const hue = hues[(line.hue ?? i) % hues.length];
    svg.append(s("path", { class: `line stroke-${hue}`, d }), s("path", { class: `dots stroke-${hue}`, d: dots }));
    // What a dot says: at most so many, so that a long search stays light.
    for (const [px, py, t] of line.points.slice(-100)) if (t) svg.append(s("circle", { class: "hit", cx: X(px), cy: Y(py), r: 7 }, s("title", {}, t)));
  });
  if (mark) {
    const at = X(mark.x);
    svg.append(s("g", { class: "mark" }, mark.lo > 0 ? s("path", { class: "line stroke-b", d: `M${at - 5} ${Y(mark.hi)}h10m-5 0V${Y(mark.lo)}m-5 0h10` }) : null,
      s("path", { class: "dots stroke-b", d: `M${at} ${Y(mark.y)}h.01` }), s("circle", { class: "hit", cx: at, cy: Y(mark.y), r: 9 }, s("title", {}, mark.title))));
  }
  el.replaceChildren(svg);
}

// bars lists shares as bars: rows of {label, value, text, kind, title}.
export function bars(rows, label) {
  const most = Math.max(...rows.map((r) => r.value), Number.MIN_VALUE);
  return h("div", { class: "bars", role: "list", "aria-label": label }, rows.map((r) => {
    const bar = h("span", { class: `bar ${r.kind || ""}` });
    bar.style.width = `${Math.max(r.value > 0 ? 0.5 : 0, (100 * r.value) / most)}%`;
    return h("div", { role: "listitem", title: r.title }, h("span", { class: "bar-label" }, r.label), h("span", { class: "bar-track" }, bar), h("span", { class: "bar-text" }, r.text));
  }));
}

// samples draws raw samples in the order in which they were taken, with their medians.
export function samples(el, { candidate, baseline, medians, label, format, floor }) {
  const width = widthOf(el);
  const height = 170;
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  const y = { ...range([...candidate, ...baseline], false, 0.1), label: "time per launch", format };
  const [X, Y, left] = frame(svg, width, height, { lo: 0, hi: Math.max(candidate.length, baseline.length, 1) + 1, label: "sample", format: (v) => (Number.isInteger(v) ? String(v) : "") }, y);
  [[baseline, "idle", medians[1]], [candidate, "a", medians[0]]].forEach(([list, hue, median]) => {
    let d = "";
    list.forEach((v, i) => { d += `M${X(i + 1)} ${Y(v)}h.01`; });
    svg.append(s("path", { class: `dots stroke-${hue}`, d }));
    if (median > 0) svg.append(s("line", { class: `median stroke-${hue}`, x1: left, x2: width - margin.right, y1: Y(median), y2: Y(median) }));
  });
  if (floor > y.lo && floor < y.hi) svg.append(s("line", { class: "rule", x1: left, x2: width - margin.right, y1: Y(floor), y2: Y(floor) }));
  el.replaceChildren(svg);
}

// canvas makes one with as many pixels as the screen has.
export function canvas(el, width, height, label) {
  const sharp = Math.min(2, devicePixelRatio || 1);
  const c = h("canvas", { width: width * sharp, height: height * sharp, role: "img", "aria-label": label });
  c.style.width = `${width}px`;
  c.style.height = `${height}px`;
  const g = c.getContext("2d");
  g.scale(sharp, sharp);
  el.replaceChildren(c);
  return [c, g];
}

// scatter paints a point for every candidate: x and y are columns, hue(i) names a color.
// pick is called with the position of the point nearest to a click.
export function scatter(el, { n, x, y, hueOf, order, xAxis, yAxis, label, pick, describe }) {
  const width = widthOf(el);
  const height = Math.min(380, Math.max(240, width * 0.45));
  const [c, g] = canvas(el, width, height, label);
  const { list, left } = verticals(yAxis, height);
  const X = scale(xAxis.lo, xAxis.hi, left, width - margin.right, xAxis.log);
  const Y = scale(yAxis.lo, yAxis.hi, height - margin.bottom, margin.top, yAxis.log);
  g.font = "12px system-ui, sans-serif";
  g.strokeStyle = color("grid");
  g.fillStyle = color("soft");
  g.beginPath();
  g.textAlign = "right";
  for (const [v, text] of list) {
    g.moveTo(left, Y(v));
    g.lineTo(width - margin.right, Y(v));
    g.fillText(text, left - 6, Y(v) + 4);
  }
  g.textAlign = "center";
  for (const v of ticks(xAxis.lo, xAxis.hi, width / 90, xAxis.log)) {
    g.moveTo(X(v), margin.top);
    g.lineTo(X(v), height - margin.bottom);
    g.fillText(write(xAxis)(v), X(v), height - margin.bottom + 16);
  }
  g.stroke();
  g.fillText(xAxis.label, (left + width - margin.right) / 2, height - 4);
  g.save();
  g.translate(12, (margin.top + height - margin.bottom) / 2);
  g.rotate(-Math.PI / 2);
  g.fillText(yAxis.label, 0, 0);
  g.restore();
  const size = n > 20000 ? 1.5 : n > 2000 ? 2 : 4;
  for (const hue of order) {
    g.fillStyle = color(hue);
    for (let i = 0; i < n; i++) if (hueOf(i) === hue) g.fillRect(X(x[i]) - size / 2, Y(y[i]) - size / 2, size, size);
  }
  const nearest = (e) => {
    const box = c.getBoundingClientRect();
    const px = e.clientX - box.left;
    const py = e.clientY - box.top;
    let best = -1;
    let least = 144;
    for (let i = 0; i < n; i++) {
      const d = (X(x[i]) - px) ** 2 + (Y(y[i]) - py) ** 2;
      if (d < least) {
        least = d;
        best = i;
      }
    }
    return best;
  };
  let due = 0;
  c.addEventListener("pointermove", (e) => {
    if (due) return;
    due = requestAnimationFrame(() => {
      due = 0;
      const i = nearest(e);
      c.title = i >= 0 ? describe(i) : "";
      c.style.cursor = i >= 0 ? "pointer" : "default";
    });
  });
  c.addEventListener("click", (e) => {
    const i = nearest(e);
    if (i >= 0) pick(i);
  });
}

// roofline draws what a device allows: roofs are {name, memory, compute} in bytes/s and
// operations/s, points {x, y, title, href} in operations per byte and per second.
export function roofline(el, { roofs, points, label }) {
  const width = widthOf(el);
  const height = Math.min(340, Math.max(240, width * 0.45));
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": label });
  const knees = roofs.map((r) => r.compute / r.memory);
  const xr = { lo: Math.min(...knees, ...points.map((p) => p.x)) / 8, hi: Math.max(...knees, ...points.map((p) => p.x)) * 8, log: true, label: "operations per byte of memory traffic" };
  const ceilings = roofs.flatMap((r) => [r.compute, r.memory * xr.lo]);
  const yr = { lo: Math.min(...ceilings, ...points.map((p) => p.y)) / 2, hi: Math.max(...roofs.map((r) => r.compute)) * 3, log: true, label: "operations per second", format: (v) => `${v >= 1e12 ? figure(v / 1e12) + " T" : v >= 1e9 ? figure(v / 1e9) + " G" : figure(v / 1e6) + " M"}` };
  const [X, Y] = frame(svg, width, height, xr, yr);
  let above = -Infinity; // where the name before is: the highest roof comes first
  roofs.forEach((r, i) => {
    const knee = r.compute / r.memory;
    const hue = hues[i % hues.length];
    above = Math.max(above + 13, Y(r.compute) - 6);
    svg.append(s("path", { class: `line stroke-${hue}`, d: `M${X(xr.lo)} ${Y(r.memory * xr.lo)}L${X(knee)} ${Y(r.compute)}H${X(xr.hi)}` }, s("title", {}, r.name)),
      s("text", { class: "tick", x: width - margin.right - 4, y: above, "text-anchor": "end" }, r.name));
  });
  for (const p of points) {
    svg.append(s(p.href ? "a" : "g", { href: p.href, "aria-label": p.title }, s("circle", { class: p.href ? "roof-point" : "roof-base", cx: X(p.x), cy: Y(p.y), r: 5 }, s("title", {}, p.title))));
  }
  el.replaceChildren(svg);
}
