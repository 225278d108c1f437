// All candidates of a campaign: painted, and in a table of which only the visible rows exist.

import { count, crumbs, empty, h, problem, reading, short, title } from "./dom.js";
import { get } from "./api.js";
import { range, scatter } from "./charts.js";
import { grid } from "./grid.js";
import { verdictKind } from "./campaign.js";

export async function candidates({ el, signal, args: [id], query, keep, on }) {
  const path = `/v1/campaigns/${encodeURIComponent(id)}`;
  const chart = h("div", { id: "points" });
  const box = h("div");
  const sum = h("p", { class: "soft" });
  const log = h("input", { type: "checkbox", id: "log", checked: query.has("log"), onchange: () => { keep({ log: log.checked ? "1" : "" }); paint(); } });
  const only = h("select", { id: "verdict", "aria-label": "Verdict", disabled: true, onchange: () => { keep({ verdict: p.verdicts[only.value] }); list(); } });
  const legend = h("p", { class: "legend" });
  el.append(crumbs(["#/campaigns", "Campaigns"], [`#/campaigns/${encodeURIComponent(id)}`, id]), title("All candidates"),
    h("div", { class: "tools" }, h("label", { for: "log" }, log, " logarithmic speedup"), only), legend, chart, sum, box);
  const p = await get(`${path}/points?brief=true`, signal);
  performance.mark("points-loaded");
  const n = p.index.length;
  if (!n) {
    chart.append(empty("No results yet."));
    return;
  }
  const hues = p.verdicts.map((v) => ({ good: "a", bad: "bad", idle: "idle" })[verdictKind(v)]);
  // What has no time is drawn at the lower edge, by its verdict.
  const correct = p.verdicts.indexOf("correct");
  const x = Float64Array.from(p.index, (i) => i + 1);
  const y = new Float64Array(n);

  function paint() {
    const yr = range(p.speedup.filter((v) => v > 0), log.checked);
    if (!log.checked) yr.lo = Math.max(0, yr.lo);
    for (let i = 0; i < n; i++) y[i] = p.verdict[i] === correct ? p.speedup[i] : yr.lo;
    scatter(chart, {
      n, x, y, hueOf: (i) => hues[p.verdict[i]], order: ["idle", "bad", "a"],
      xAxis: { ...range(x, false, 0.01), label: "number of the proposal", format: (v) => (Number.isInteger(v) ? count(v) : "") },
      yAxis: { ...yr, log: log.checked, label: "times the baseline's speed" },
      label: `${count(n)} candidates; the best has ${reading(best)}`,
      describe: (i) => `${p.candidates[i] ? `${short(p.candidates[i])}: ` : ""}${p.verdicts[p.verdict[i]]}${p.speedup[i] ? `, ${reading(p.speedup[i])}` : ""}`,
      pick: open,
    });
    performance.mark("points-painted");
  }
  let best = 0;
  for (const v of p.speedup) if (v > best) best = v;
  const open = (i) => { if (p.candidates[i]) location.hash = `#/candidates/${encodeURIComponent(p.candidates[i])}`; };
  const present = new Map();
  for (const v of p.verdict) present.set(v, (present.get(v) || 0) + 1);
  only.append(h("option", { value: "-1" }, "all verdicts"), ...[...present].map(([v, k]) => h("option", { value: String(v), selected: p.verdicts[v] === query.get("verdict") }, `${p.verdicts[v]} (${count(k)})`)));
  legend.append(...[["a", "correct"], ["bad", "wrong or broken"], ["idle", "slower, or not the candidate's fault"]].map(([hue, text]) => h("span", {}, h("i", { class: `swatch fill-${hue}` }), text)));

  try {
    paint();
  } catch (err) {
    chart.append(problem(err));
  }
  on.paint = paint;
  // The points are on the screen before the rest comes and the table is made of it.
  // Rows are never moved: what has come since is below those that are drawn.
  await new Promise((done) => { requestAnimationFrame(() => setTimeout(done)); });
  performance.mark("points-seen");

  // The table.
  const { candidates, genes } = await get(`${path}/points`, signal);
  p.candidates = candidates;
  const cell = (g, i) => (g.at[i] < 0 ? "" : String(g.values[g.at[i]]));
  const columns = [
    { name: "Number", width: "5.5rem", num: true, sort: true }, { name: "Candidate", width: "11rem" }, { name: "Verdict", width: "8rem", sort: true }, { name: "Speedup", width: "6.5rem", num: true, sort: true },
    ...genes.map((g) => ({ name: g.name, width: `minmax(${Math.max(5, g.name.length * 0.62 + 1)}rem,1fr)`, sort: true })),
  ];
  let rows = Uint32Array.from({ length: n }, (_, i) => i);
  // What the table is sorted by, as the address has it: a column's name, after a - for the largest first.
  let by = columns.findIndex((c) => c.sort && c.name === (query.get("sort") || "").replace(/^-/, ""));
  let down = by < 0 || query.get("sort").startsWith("-");
  if (by < 0) by = 3;
  const value = (i) => (by === 0 ? p.index[i] : by === 2 ? p.verdict[i] : by === 3 ? p.speedup[i] : genes[by - 4].at[i]);
  const view = grid({
    label: "Candidates", columns,
    cells: (k) => {
      const i = rows[k];
      return [count(p.index[i] + 1), h("a", { class: "mono", tabindex: -1, href: `#/candidates/${encodeURIComponent(p.candidates[i])}` }, short(p.candidates[i])), p.verdicts[p.verdict[i]], p.speedup[i] ? reading(p.speedup[i]) : "–", ...genes.map((g) => cell(g, i))];
    },
    opened: (k) => open(rows[k]),
    sorted: (column) => {
      down = by === column ? !down : true;
      by = column;
      keep({ sort: `${down ? "-" : ""}${columns[by].name}` });
      list();
    },
  });
  function list() {
    const want = Number(only.value);
    const keep = [];
    for (let i = 0; i < n; i++) if (want < 0 || p.verdict[i] === want) keep.push(i);
    rows = Uint32Array.from(keep).sort((a, b) => (down ? value(b) - value(a) : value(a) - value(b)) || a - b);
    sum.textContent = `${count(rows.length)} of ${count(n)} candidates. Speedups are those that the search has read. Arrow keys move in the table, Enter opens one.`;
    view.mark(by, down);
    view.set(rows.length);
  }
  box.append(view.el);
  only.disabled = false;
  list();
}
