// One candidate: its checks, raw samples, genes, source and ancestors.

import { badge, cards, confidence, crumbs, duration, empty, facts, figure, h, problem, reading, s, short, speedup, table, time, title } from "./dom.js";
import { get, passing } from "./api.js";
import { samples } from "./charts.js";
import { compare, hunks } from "./diff.js";
import { exported, may, verify } from "./actions.js";
import { verdictKind } from "./campaign.js";

const outcomeKind = { passed: "good", failed: "bad", "not run": "idle" };

export async function candidate({ el, signal, args: [id], query, keep, on }) {
  const path = `/v1/candidates/${encodeURIComponent(id)}`;
  const c = await get(`${path}/evidence`, signal);
  const note = h("div");
  const buttons = h("div", { class: "buttons" });
  if (may("runner") && c.verdict === "correct") {
    buttons.append(h("button", { type: "button", id: "verify", onclick: (e) => verify(e.target, note, signal, c.candidate) }, "Verify"));
    if (c.proven) buttons.append(h("button", { type: "button", id: "export", onclick: async (e) => exported(e.target, note, signal, { ...c, backend: (await get(`/v1/campaigns/${encodeURIComponent(c.campaign)}`, signal)).backend }) }, "Export as a library"));
  }
  const r = c.result || {};
  // Only what was rendered has a source; the results of recorded tables have none, and nothing tested them.
  const rendered = r.steps?.some((st) => st.stage === "render");
  const sure = confidence(rendered ? c : { ...c, backend: "replay" });
  el.append(crumbs(["#/campaigns", "Campaigns"], [`#/campaigns/${encodeURIComponent(c.campaign)}`, c.campaign], [`#/campaigns/${encodeURIComponent(c.campaign)}/candidates`, "candidates"]),
    title(`Candidate ${short(c.candidate)}`),
    h("p", { class: "headline" }, badge({ text: c.verdict, kind: verdictKind(c.verdict) }), " ", r.reason || r.disturbed || "", " ", h("span", { class: "soft" }, `${c.kernel} ${(c.shapes || []).join(" ")}, proposal ${c.index + 1} by ${c.operator}`)),
    buttons, note,
    cards([["against the baseline", speedup(c)], ["confidence", badge(sure), sure.title], ["median time", time(c.median_ns)], ["baseline", time(c.baseline_ns)], ["figures are of", { finals: "the finals", again: "a second measurement", search: "the search" }[c.measured] || "–"], ["evaluated in", duration(r.cost_ns)]].concat(r.host ? [["evaluated by the worker", r.host]] : [])));

  const section = (name, ...what) => { const it = h("section", {}, h("h2", {}, name), ...what); el.append(it); return it; };
  section("Genes", facts(Object.entries(c.genome || {}).map(([k, v]) => [k, String(v)])));

  const checks = h("div", { id: "checks" });
  section("Checks", checks);
  checks.append(...(r.steps?.length ? r.steps.map((st) => step(st)) : [empty("No stages were recorded.")]));

  const redraw = [];
  const timings = (heading, list) => {
    if (!list?.length) return;
    const it = section(heading, h("p", { class: "legend" }, h("span", {}, h("i", { class: "swatch fill-a" }), "candidate"), h("span", {}, h("i", { class: "swatch fill-idle" }), "baseline, taken back to back"), h("span", { class: "soft" }, "lines are medians")));
    for (const t of list) {
      const box = h("div");
      it.append(h("h3", {}, t.shape || "all"), h("p", { class: "soft" }, `${time(t.median_ns)} against ${time(t.baseline_median_ns)}: time ratio ${figure(t.ratio)}, ${t.samples_ns?.length || 0} ${t.samples_ns?.length === 1 ? "sample" : "samples"}, spread ${figure(100 * t.spread)}%${t.discarded ? `, ${t.discarded} discarded` : ""}${t.conditions?.disturbed ? `; ${t.conditions.disturbed}` : ""}`), box);
      const draw = () => samples(box, { candidate: t.samples_ns || [], baseline: t.baseline_ns || [], medians: [t.median_ns, t.baseline_median_ns], floor: t.floor_ns, format: time, label: `Samples at ${t.shape}: candidate ${time(t.median_ns)}, baseline ${time(t.baseline_median_ns)}` });
      if (t.samples_ns?.length) redraw.push(draw);
    }
  };
  timings("Samples of the search", r.timings);
  timings("Samples of the finals", c.finals?.timings);
  timings("Held-out shapes", c.finals?.held_out);
  for (const draw of redraw) draw();
  on.paint = () => redraw.forEach((draw) => draw());

  const source = section("Source");
  const family = section("Lineage");
  if (!rendered) source.append(empty("There is no source: nothing was rendered for this result."));
  await Promise.all([rendered && sources(source, path, c, signal, query, keep), lineage(family, path, c, signal)]);
}

function step(st) {
  const list = st.evidence || [];
  const bad = list.some((e) => e.outcome !== "passed");
  return h("details", { open: bad }, h("summary", {}, badge({ text: st.outcome, kind: outcomeKind[st.outcome] }), ` ${st.stage} `, h("span", { class: "soft" }, `${duration(st.elapsed_ns)}, ${list.length} ${list.length === 1 ? "check" : "checks"}`)),
    list.length ? table(`Checks of ${st.stage}`, ["Check", "Outcome", "Value", "Limit", "Detail"], list.map((e) => [
      e.check, badge({ text: e.outcome, kind: outcomeKind[e.outcome] }), e.value !== undefined ? `${figure(e.value)} ${e.unit || ""}` : "",
      e.limit !== undefined ? `${e.at_least ? "≥" : "≤"} ${figure(e.limit)}` : "", (e.detail || "").length > 160 ? h("details", {}, h("summary", {}, `${e.detail.slice(0, 80)}…`), h("pre", { tabindex: 0 }, e.detail)) : e.detail || ""]), [2, 3]) : empty("Nothing was noted."));
}

// Source, held against the parent or the baseline.

async function sources(section, path, c, signal, query, keep) {
  const parents = c.parent_ids || [];
  const choose = h("select", { id: "against", onchange: () => { keep({ against: choose.value || "nothing" }); load(); } },
    h("option", { value: "baseline" }, "the baseline"), parents.map((p) => h("option", { value: p }, `parent ${short(p)}`)), h("option", { value: "" }, "nothing: the whole source"));
  choose.value = query.get("against") === "nothing" ? "" : query.get("against") || parents[0] || "baseline";
  if (choose.selectedIndex < 0) choose.value = "baseline";
  const box = h("div", { id: "source" });
  section.append(h("div", { class: "tools" }, h("label", { for: "against" }, "Against"), choose), box);
  async function load() {
    try {
      const src = await get(`${path}/source${choose.value ? `?against=${encodeURIComponent(choose.value)}` : ""}`, signal);
      if (!choose.value) box.replaceChildren(h("pre", { class: "source", tabindex: 0 }, src.source));
      else box.replaceChildren(diffView(src.other || "", src.source));
    } catch (err) {
      if (err.name === "AbortError") return;
      box.replaceChildren(err.status >= 400 && err.status < 500 ? empty(err.message) : problem(err, load));
    }
  }
  await load();
}

function diffView(before, after) {
  const rows = compare(before, after);
  const less = rows.filter(([k]) => k === "-").length;
  const more = rows.filter(([k]) => k === "+").length;
  const line = ([kind, i, j, text]) => h("tr", { class: { "-": "less", "+": "more" }[kind] }, h("td", { class: "no" }, i || ""), h("td", { class: "no" }, j || ""), h("td", { class: "sign" }, kind), h("td", {}, text));
  const body = h("tbody");
  for (const part of hunks(rows)) {
    if (!part.hidden) {
      body.append(...part.rows.map(line));
      continue;
    }
    const fold = h("tr", { class: "fold" }, h("td", { colspan: 4 }, h("button", { type: "button", class: "quiet", onclick: () => fold.replaceWith(...part.rows.map(line)) }, `Show ${part.rows.length} equal lines`)));
    body.append(fold);
  }
  return h("div", {}, h("p", { id: "diff-sum", class: "soft" }, less + more ? `${more} lines more, ${less} lines less` : "The sources are equal."),
    h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Differences" }, h("table", { class: "diff" }, h("caption", { class: "visually-hidden" }, "Differences by line"), body)));
}

// Ancestors and children, to walk. At most so many are drawn: who goes on sees the next.

const generations = 4;
const mostNodes = 40;

async function lineage(section, path, c, signal) {
  let l;
  let children = [];
  try {
    [l, children] = await Promise.all([get(`${path}/lineage`, signal), get(`${path}/children`, signal)]);
  } catch (err) {
    if (err.name === "AbortError" || passing(err)) throw err;
    section.append(problem(err));
    return;
  }
  // Columns: children, the candidate, then each generation of ancestors.
  const columns = [children.slice(0, 12).map((child) => ({ c: child, to: [0], child: true })), [{ c: l.candidates[0], i: 0, to: [] }]];
  const seen = new Set([0]);
  let total = 1;
  for (let g = 0; g < generations; g++) {
    const next = [];
    for (const node of columns.at(-1)) {
      for (const p of l.parents[node.i] || []) {
        node.to.push(p);
        if (seen.has(p) || total >= mostNodes) continue;
        seen.add(p);
        total++;
        next.push({ c: l.candidates[p], i: p, to: [] });
      }
    }
    if (!next.length) break;
    columns.push(next);
  }
  if (!columns[0].length) columns.shift();
  const tell = h("div", { id: "lineage-tell", role: "status", "aria-live": "polite", class: "card" });
  const w = 168;
  const step = 214;
  const tall = Math.max(...columns.map((col) => col.length)) * 58 + 10;
  const svg = s("svg", { class: "lineage", id: "lineage", width: columns.length * step, height: tall, role: "group", "aria-label": "Lineage. Arrow keys move, Enter opens." });
  const at = new Map();
  columns.forEach((col, x) => col.forEach((node, y) => {
    node.x = (columns.length - 1 - x) * step + 8;
    node.y = 8 + (tall - col.length * 58) / 2 + y * 58;
    node.col = x;
    node.row = y;
    if (!node.child) at.set(node.i, node);
  }));
  const flat = columns.flat();
  for (const node of flat) {
    for (const p of node.to) {
      const to = at.get(p);
      if (to && to !== node) svg.append(s("path", { class: "edge", d: `M${node.x} ${node.y + 22}C${node.x - 26} ${node.y + 22} ${to.x + w + 26} ${to.y + 22} ${to.x + w} ${to.y + 22}` }));
    }
  }
  const current = flat.find((n) => n.i === 0);
  for (const node of flat) {
    const told = node.c.told;
    const value = told?.fitness > 0 ? reading(1 / told.fitness) : told?.verdict || "pending";
    node.el = s("a", { href: `#/candidates/${encodeURIComponent(node.c.id)}`, class: node === current ? "node here" : "node", tabindex: node === current ? 0 : -1, "data-id": node.c.id, "aria-current": node === current ? "true" : undefined,
      "aria-label": `${node === current ? "this candidate" : node.child ? "child" : "ancestor"} ${short(node.c.id)}, ${node.c.asked.operator}, ${value}`, onfocus: () => show(node) },
    s("rect", { x: node.x, y: node.y, width: w, height: 44, rx: 6 }), s("text", { x: node.x + 10, y: node.y + 18, class: "mono" }, short(node.c.id)), s("text", { x: node.x + 10, y: node.y + 35, class: "soft" }, `${node.c.asked.operator} · ${value}`));
    svg.append(node.el);
  }
  function show(node) {
    for (const n of flat) n.el.setAttribute("tabindex", n === node ? 0 : -1);
    const parent = node.child ? l.candidates[0] : l.candidates[(l.parents[node.i] || [])[0]];
    tell.replaceChildren(h("b", { class: "mono" }, short(node.c.id)), ` by ${node.c.asked.operator}. `, parent ? changes(parent.asked.genome, node.c.asked.genome) : "It has no parents: it was drawn, or named by the definition.");
  }
  svg.addEventListener("keydown", (e) => {
    const node = flat.find((n) => n.el === document.activeElement);
    if (!node) return;
    let to = null;
    if (e.key === "ArrowLeft") to = (node.to.map((p) => at.get(p)).find(Boolean));
    if (e.key === "ArrowRight") to = flat.find((n) => n.to.includes(node.i));
    if (e.key === "ArrowUp") to = columns[node.col][node.row - 1];
    if (e.key === "ArrowDown") to = columns[node.col][node.row + 1];
    if (!to) return;
    e.preventDefault();
    to.el.focus();
  });
  section.append(h("p", { class: "soft" }, `${l.candidates.length - 1} ancestors, ${children.length} children. Parents are to the left. Arrow keys move, Enter opens.`),
    h("div", { class: "wide" }, svg), tell);
  show(current);
}

// changes says which genes are others. The canonical encoding is NAME=value,NAME="text",...
function changes(before, after) {
  const read = (text) => new Map([...text.matchAll(/([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]*)/g)].map((m) => [m[1], m[2]]));
  const a = read(before);
  const b = read(after);
  const list = [...b].filter(([k, v]) => a.get(k) !== v).map(([k, v]) => `${k} ${a.has(k) ? a.get(k) : "none"} → ${v}`);
  return list.length ? `Against its first parent: ${list.join(", ")}.` : "It has the genes of its first parent.";
}
