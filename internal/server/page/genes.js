// Which genes matter, next to parallel coordinates of all candidates.

import { count, crumbs, empty, figure, h, problem, reading, say, short, title } from "./dom.js";
import { get, patiently } from "./api.js";
import { bars, canvas, color, range, scale } from "./charts.js";
import { grid } from "./grid.js";

// mostShares are shown at once.
const mostShares = 6;

export async function genes({ el, signal, args: [id], query, keep, on }) {
  const path = `/v1/campaigns/${encodeURIComponent(id)}`;
  el.append(crumbs(["#/campaigns", "Campaigns"], [`#/campaigns/${encodeURIComponent(id)}`, id]), title("Genes"));
  const shares = h("div", { id: "importance" }, h("p", { class: "soft" }, "Fitting …"));
  const axes = h("div", { id: "parallel" });
  el.append(h("section", {}, h("h2", {}, "Importance"), shares), h("section", {}, h("h2", {}, "Parallel coordinates"), axes));
  const p = await get(`${path}/points`, signal);
  if (!p.candidates?.length) {
    axes.append(empty("No results yet."));
    shares.replaceChildren(empty("No results yet."));
    return;
  }
  const view = parallel(axes, p, query, keep);
  on.paint = view.paint;
  importance(shares, path, signal, view.order).catch((err) => {
    if (err.name !== "AbortError") shares.replaceChildren(err.status >= 400 && err.status < 500 ? empty(err.message) : problem(err));
  });
}

async function importance(el, path, signal, order) {
  const a = await patiently(`${path}/importance`, signal);
  const list = [...(a.genes || [])].sort((x, y) => y.share.value - x.share.value);
  if (!list.length) {
    el.replaceChildren(empty("Nothing can be said of these candidates."));
    return;
  }
  const percent = (v) => `${(100 * v).toFixed(1).replace(/^-(0\.0)$/, "$1")}%`;
  const rows = list.map((g) => ({ label: g.gene, value: Math.max(0, g.share.value), text: `${g.clear ? "" : "~ "}${percent(g.share.value)} ± ${percent(g.share.error)}${g.clear && g.values?.[g.best] ? `, best ${g.values[g.best].value}` : ""}`, kind: g.clear ? "" : "idle" }));
  el.replaceChildren(
    h("p", {}, `Shares of the variance of the time, from ${count(a.correct)} correct of ${count(a.evaluations)} evaluations. R² ${figure(a.r2)}. `,
      a.reliable ? "" : h("b", {}, "The fit is poor: the shares mean little. "), h("span", { class: "soft" }, "~ cannot be told from zero.")),
    bars(rows.slice(0, mostShares), "Importance of genes"),
    rows.length > mostShares ? h("details", {}, h("summary", {}, `${rows.length - mostShares} genes more`), bars([...rows.slice(mostShares), { ...rows[0], kind: "hidden" }], "Importance of the other genes")) : "",
    a.pairs?.length ? h("p", { class: "soft" }, `Pairs: ${a.pairs.slice(0, 3).map((q) => `${q.genes.join(" and ")} ${q.clear ? "" : "~ "}${percent(q.share.value)}`).join("; ")}`) : "");
  order(list.map((g) => g.gene));
}

const kinds = ["even", "linear", "logarithmic"];
const bins = 60;
const finest = 120; // lines of the best of a selection

// parallel draws candidates as lines over the axes of their genes. However many there are,
// what is drawn is bounded: between two axes one ribbon for each pair of values, as dark as it
// has candidates, and on top the best of the selection, one line each.
function parallel(el, p, query, keep) {
  const n = p.candidates.length;
  const values = p.speedup.filter((v) => v > 0);
  const r = range(values, false, 0);
  let log = query.has("log");
  let kind = kinds.includes(query.get("scale")) ? query.get("scale") : "even";
  let chosen = new Uint32Array(0);
  // Each axis has one position (0 to 1, upwards) for each of its values; speedups are cut in bins.
  const speed = { name: "speedup", brush: null };
  const axesOf = () => {
    const cut = scale(r.lo, r.hi, 0, 1, log);
    speed.at = Int32Array.from(p.speedup, (v) => (v > 0 ? Math.min(bins - 1, Math.max(0, Math.floor(cut(v) * bins))) : -1));
    speed.pos = Float64Array.from({ length: bins }, (_, i) => (i + 0.5) / bins);
    speed.cut = cut;
    for (const a of genesOf) a.pos = positions(a.values, kind);
  };
  let genesOf = p.genes.filter((g) => g.values.length > 1).map((g) => {
    const rank = g.values.map((_, i) => i).sort((a, b) => (numeric(g.values) ? g.values[a] - g.values[b] : String(g.values[a]).localeCompare(String(g.values[b]))));
    const to = [];
    rank.forEach((old, now) => { to[old] = now; });
    return { name: g.name, values: rank.map((i) => g.values[i]), at: Int32Array.from(g.at, (i) => (i < 0 ? -1 : to[i])), brush: null };
  });
  axesOf();
  const axes = () => [speed, ...genesOf];

  const stage = h("div", { class: "wide", id: "parallel-stage" });
  const sum = h("p", { id: "selection", role: "status", "aria-live": "polite" });
  const chips = h("div", { id: "chips" });
  const kindOf = h("select", { id: "axis-scale", onchange: () => { kind = kindOf.value; keep({ scale: kind === "even" ? "" : kind }); axesOf(); paint(); } }, kinds.map((t) => h("option", { value: t, selected: t === kind }, t)));
  const logOf = h("input", { type: "checkbox", id: "log-speedup", checked: log, onchange: () => { log = logOf.checked; keep({ log: log ? "1" : "" }); for (const a of axes()) if (a === speed) a.brush = null; axesOf(); select(); } });
  const clear = h("button", { type: "button", id: "clear", onclick: () => { for (const a of axes()) a.brush = null; from.value = to.value = ""; select(); say("All candidates"); } }, "Clear the brushes");
  const from = h("input", { type: "number", min: 0, step: "any", id: "speed-from", value: query.get("from") || "", onchange: () => typed() });
  const to = h("input", { type: "number", min: 0, step: "any", id: "speed-to", value: query.get("to") || "", onchange: () => typed() });
  // Brushes of genes, as the address has them: VALUE,VALUE for each gene, and the speedups that were typed.
  const brushes = () => {
    const now = Object.fromEntries(genesOf.map((a) => [`gene.${a.name}`, a.brush ? [...a.brush].map((k) => encodeURIComponent(a.values[k])).join() : ""]));
    keep({ ...now, from: from.value, to: to.value });
  };
  for (const a of genesOf) {
    const wanted = (query.get(`gene.${a.name}`) || "").split(",");
    const set = new Set([...a.values.keys()].filter((k) => wanted.includes(encodeURIComponent(a.values[k]))));
    a.brush = set.size ? set : null;
  }
  const typed = (told = true) => {
    const lo = from.value === "" ? r.lo : Number(from.value);
    const hi = to.value === "" ? r.hi : Number(to.value);
    speed.brush = from.value === "" && to.value === "" ? null : new Set([...speed.pos.keys()].filter((i) => i >= Math.floor(speed.cut(lo) * bins) && i < Math.max(Math.ceil(speed.cut(hi) * bins), Math.floor(speed.cut(lo) * bins) + 1)));
    if (told) select();
  };
  const view = grid({
    label: "Selected candidates", rows: 10,
    columns: [{ name: "Candidate", width: "11rem" }, { name: "Speedup", width: "6rem", num: true }, ...p.genes.map((g) => ({ name: g.name, width: `minmax(${Math.max(5, g.name.length * 0.62 + 1)}rem,1fr)` }))],
    cells: (k) => {
      const i = chosen[k];
      return [h("a", { class: "mono", tabindex: -1, href: `#/candidates/${encodeURIComponent(p.candidates[i])}` }, short(p.candidates[i])), p.speedup[i] ? reading(p.speedup[i]) : p.verdicts[p.verdict[i]], ...p.genes.map((g) => (g.at[i] < 0 ? "" : String(g.values[g.at[i]])))];
    },
    opened: (k) => { location.hash = `#/candidates/${encodeURIComponent(p.candidates[chosen[k]])}`; },
  });
  el.append(h("p", { class: "soft" }, "Drag along an axis to brush it, or choose values below. Ribbons are as dark as they have candidates; lines are the best of the selection."),
    h("div", { class: "tools" }, h("label", { for: "axis-scale" }, "Scale of numbers"), kindOf, h("label", { for: "log-speedup" }, logOf, " logarithmic speedup"), h("label", { for: "speed-from" }, "Speedup from"), from, h("label", { for: "speed-to" }, "to"), to, clear),
    stage, sum, h("details", { id: "brushes" }, h("summary", {}, "Choose values"), chips), view.el);

  function select() {
    brushes();
    const brushed = axes().filter((a) => a.brush);
    const keep = [];
    for (let i = 0; i < n; i++) {
      let fits = true;
      for (const a of brushed) {
        if (!a.brush.has(a.at[i])) {
          fits = false;
          break;
        }
      }
      if (fits) keep.push(i);
    }
    chosen = Uint32Array.from(keep).sort((a, b) => p.speedup[b] - p.speedup[a]);
    const best = chosen.length ? p.speedup[chosen[0]] : 0;
    sum.textContent = `${count(chosen.length)} of ${count(n)} candidates${brushed.length ? `, brushed: ${brushed.map((a) => a.name).join(", ")}` : ""}; the best has ${best ? reading(best) : "no time"}.`;
    view.set(chosen.length);
    for (const b of chips.querySelectorAll("button")) {
      const a = genesOf.find((a) => a.name === b.dataset.gene);
      b.setAttribute("aria-pressed", a.brush?.has(Number(b.dataset.value)) ? "true" : "false");
    }
    paint();
  }

  function choose() {
    chips.replaceChildren(...genesOf.map((a) => h("div", { class: "chips", role: "group", "aria-label": a.name }, h("span", {}, a.name), a.values.map((v, k) => h("button", { type: "button", class: "chip", "data-gene": a.name, "data-value": k, "aria-pressed": "false", onclick: () => {
      const set = new Set(a.brush || []);
      if (!set.delete(k)) set.add(k);
      a.brush = set.size ? set : null;
      select();
    } }, String(v))))));
  }

  let place = [];
  const top = 44;
  let low = 0;
  function paint() {
    const list = axes();
    const width = Math.max(el.clientWidth || 600, list.length * 78);
    const height = 356;
    low = height - 24;
    const [c, g] = canvas(stage, width, height, `Parallel coordinates of ${count(n)} candidates over ${list.length} axes`);
    place = list.map((_, i) => 56 + (i * (width - 104)) / Math.max(1, list.length - 1));
    const y = (a, k) => low - a.pos[k] * (low - top);
    const ribbons = (rows, hue, strength) => {
      g.strokeStyle = color(hue);
      for (let k = 0; k + 1 < list.length; k++) {
        const [a, b] = [list[k], list[k + 1]];
        const wide = b.pos.length;
        const counts = new Uint32Array(a.pos.length * wide);
        let most = 1;
        for (const i of rows) {
          if (a.at[i] < 0 || b.at[i] < 0) continue;
          const v = ++counts[a.at[i] * wide + b.at[i]];
          if (v > most) most = v;
        }
        for (let q = 0; q < counts.length; q++) {
          if (!counts[q]) continue;
          const share = Math.sqrt(counts[q] / most);
          g.globalAlpha = strength * (0.12 + 0.6 * share);
          g.lineWidth = 0.7 + (a === speed || b === speed ? 1.2 : 5) * share;
          g.beginPath();
          g.moveTo(place[k], y(a, Math.floor(q / wide)));
          g.lineTo(place[k + 1], y(b, q % wide));
          g.stroke();
        }
      }
    };
    const brushed = list.some((a) => a.brush);
    if (brushed) ribbons(Uint32Array.from({ length: n }, (_, i) => i), "idle", 0.35);
    ribbons(chosen, "a", brushed ? 0.9 : 0.7);
    g.strokeStyle = color("b");
    g.globalAlpha = 0.75;
    g.lineWidth = 1.2;
    for (const i of chosen.subarray(0, Math.min(finest, Math.max(1, chosen.length / 20)))) {
      if (!(p.speedup[i] > 0)) continue;
      g.beginPath();
      let pen = false;
      list.forEach((a, k) => {
        if (a.at[i] < 0) {
          pen = false;
          return;
        }
        const py = a === speed ? low - Math.min(1, Math.max(0, a.cut(p.speedup[i]))) * (low - top) : y(a, a.at[i]);
        if (pen) g.lineTo(place[k], py);
        else g.moveTo(place[k], py);
        pen = true;
      });
      g.stroke();
    }
    g.globalAlpha = 1;
    g.font = "12px system-ui, sans-serif";
    list.forEach((a, k) => {
      g.strokeStyle = color("rule");
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(place[k], top);
      g.lineTo(place[k], low);
      g.stroke();
      if (a.brush) {
        g.fillStyle = color("b");
        for (const v of a.brush) {
          const h = a === speed ? (low - top) / bins : 10;
          g.fillRect(place[k] - 4, y(a, v) - h / 2, 8, h);
        }
      }
      g.fillStyle = color("ink");
      g.textAlign = "center";
      const gap = place.length > 1 ? place[1] - place[0] : width;
      g.fillText(cut(g, a.name, 2 * gap - 10), place[k], k % 2 ? 28 : 13); // neighbors do not touch
      const labels = a === speed ? [0, 0.5, 1].map((q) => [low - q * (low - top), ratioAt(q)]) : a.values.map((v, i) => [y(a, i), String(v)]);
      let last = Infinity;
      for (const [py, text] of labels) {
        if (last - py < 13 && last !== Infinity) continue; // no room
        last = py;
        g.textAlign = "right";
        const px = place[k] - 7;
        const room = cut(g, text, k ? gap - 16 : place[0] - 8);
        g.lineWidth = 3;
        g.strokeStyle = color("paper");
        g.strokeText(room, px, py + 4);
        g.fillText(room, px, py + 4);
      }
    });
    c.id = "parallel-canvas";
    brush(c, list, y);
  }
  const ratioAt = (q) => `${figure(log ? r.lo * (r.hi / r.lo) ** q : r.lo + q * (r.hi - r.lo))}x`;

  function brush(c, list, y) {
    let start = null;
    const where = (e) => {
      const box = c.getBoundingClientRect();
      return [e.clientX - box.left, e.clientY - box.top];
    };
    c.addEventListener("pointerdown", (e) => {
      const [px, py] = where(e);
      let k = 0;
      place.forEach((x, i) => { if (Math.abs(x - px) < Math.abs(place[k] - px)) k = i; });
      if (Math.abs(place[k] - px) > 30) return;
      start = [k, py];
      c.setPointerCapture(e.pointerId);
    });
    c.addEventListener("pointerup", (e) => {
      if (!start) return;
      const [k, from] = start;
      start = null;
      const a = list[k];
      const [, py] = where(e);
      const [lo, hi] = [Math.min(from, py), Math.max(from, py)];
      if (hi - lo < 3) {
        a.brush = null; // a click on an axis takes its brush away
      } else {
        const set = new Set();
        for (let i = 0; i < a.pos.length; i++) if (y(a, i) >= lo && y(a, i) <= hi) set.add(i);
        a.brush = set.size ? set : null;
      }
      select();
    });
  }

  typed(false);
  choose();
  select();
  return {
    paint,
    // order puts the genes that matter most next to the speedup.
    order(names) {
      if (axes().some((a) => a.brush)) return; // they are in use as they are
      const rank = (a) => { const i = names.indexOf(a.name); return i < 0 ? names.length : i; };
      genesOf = [...genesOf].sort((a, b) => rank(a) - rank(b));
      choose();
      select();
    },
  };
}

// cut shortens a text to what fits into some pixels.
function cut(g, text, room) {
  if (g.measureText(text).width <= room) return text;
  let n = text.length - 1;
  while (n > 1 && g.measureText(`${text.slice(0, n)}…`).width > room) n--;
  return `${text.slice(0, n)}…`;
}

const numeric = (values) => values.every((v) => typeof v === "number");

// positions places the values of an axis: evenly, or by what they are where they are numbers.
function positions(values, kind) {
  const even = Float64Array.from(values, (_, i) => 0.04 + (0.92 * i) / Math.max(1, values.length - 1));
  if (kind === "even" || !numeric(values)) return even;
  if (kind === "logarithmic" && values[0] <= 0) return even;
  const at = scale(values[0], values.at(-1), 0.04, 0.96, kind === "logarithmic");
  return Float64Array.from(values, at);
}
