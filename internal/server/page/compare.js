// Campaigns held against each other over equal device seconds.

import { count, duration, empty, figure, h, problem, ratio, reading, short, table, title } from "./dom.js";
import { get, whole } from "./api.js";
import { hues, steps } from "./charts.js";

// mostCompared is how many campaigns are compared at once: each has a color.
export const mostCompared = hues.length;

export async function compare({ el, signal, query, keep, on }) {
  const all = (await whole("/v1/campaigns?limit=1000", signal)).filter((c) => c.evaluated > 0);
  let ids = (query.get("ids") || "").split(",").filter((id) => all.some((c) => c.id === id)).slice(0, mostCompared);
  const known = new Map();
  let apart = [];
  el.append(title("Compare"), h("p", { class: "soft" }, "The best that each campaign had found after the same time on its device. Seconds in which a campaign waited or was paused do not count."));
  if (!all.length) {
    el.append(empty("No campaign has results yet."));
    return;
  }
  const search = h("input", { type: "search", id: "find", placeholder: "Kernel, device or ID", "aria-label": "Search", value: query.get("find") || "", oninput: () => { keep({ find: search.value.trim() }); choose(); } });
  const boxes = h("div", { class: "checks", role: "group", "aria-label": `Campaigns, at most ${mostCompared}` });
  const log = h("input", { type: "checkbox", id: "log-time", checked: query.has("log"), onchange: () => { keep({ log: log.checked ? "1" : "" }); draw(); } });
  const chart = h("div", { id: "compare-chart" });
  const legend = h("p", { class: "legend" });
  const below = h("div");
  el.append(h("details", { open: ids.length < 2 }, h("summary", {}, "Choose campaigns"), search, boxes), h("div", { class: "tools" }, h("label", { for: "log-time" }, log, " logarithmic time")), legend, chart, below);

  function choose() {
    const text = search.value.toLowerCase();
    const list = all.filter((c) => ids.includes(c.id) || `${c.id} ${c.kernel} ${c.device}`.toLowerCase().includes(text)).slice(0, 60);
    boxes.replaceChildren(...list.length ? [] : [empty("No campaign is like this.")], ...list.map((c, i) => h("label", { for: `pick-${i}` }, h("input", { type: "checkbox", id: `pick-${i}`, checked: ids.includes(c.id), onchange: (e) => {
      ids = e.target.checked ? [...ids, c.id].slice(-mostCompared) : ids.filter((id) => id !== c.id);
      keep({ ids: ids.join(",") });
      if (e.target.checked && ids.length === mostCompared) choose();
      load().catch((err) => { if (err.name !== "AbortError") below.replaceChildren(problem(err, load)); });
    } }), ` ${c.id} `, h("span", { class: "soft" }, `${c.kernel} on ${c.device || c.backend}, ${count(c.evaluated)} evaluations`))));
  }

  async function load() {
    await Promise.all(ids.filter((id) => !known.has(id)).map(async (id) => {
      const [s, c] = await Promise.all([get(`/v1/campaigns/${encodeURIComponent(id)}/summary`, signal), get(`/v1/campaigns/${encodeURIComponent(id)}`, signal)]);
      known.set(id, { best: s.best || [], spent: s.device_ns, c });
    }));
    draw();
    // Whether speedups of two campaigns are of the same thing is the service's to say.
    const pairs = ids.slice(1).map((id) => get(`/v1/campaigns/${encodeURIComponent(ids[0])}/compare?with=${encodeURIComponent(id)}`, signal));
    apart = (await Promise.all(pairs)).flatMap((a) => (a.not_comparable || []).map((why) => `${a.a.campaign} and ${a.b.campaign}: ${why}`));
    draw();
  }

  const unproven = (p) => (p ? reading(p.speedup) : "–");
  const at = (k, ns) => k.best.filter((p) => p.device_ns <= ns).at(-1);

  function draw() {
    if (!ids.length) {
      legend.replaceChildren();
      below.replaceChildren();
      chart.replaceChildren(empty("Choose two campaigns or more."));
      return;
    }
    const list = ids.map((id) => known.get(id)).filter(Boolean);
    const most = Math.max(...list.map((k) => k.spent));
    const equal = Math.min(...list.map((k) => k.spent));
    steps(chart, {
      series: list.map((k, i) => ({ points: k.best.map((p) => [p.device_ns / 1e9, p.speedup, `${k.c.id}: ${ratio(p.speedup)} after ${duration(p.device_ns)}`]), end: k.spent / 1e9, hue: i })),
      x: { label: "device seconds", log: log.checked, hi: most / 1e9 }, y: { label: "times the baseline's speed", format: (v) => `${figure(v)}x`, rule: 1 }, label: `Best so far of ${list.length} campaigns over device seconds`,
    });
    legend.replaceChildren(...list.map((k, i) => h("span", {}, h("i", { class: `swatch fill-${hues[i]}` }), k.c.id)));
    below.replaceChildren(
      apart.length ? h("div", { class: "problem" }, h("p", {}, "Not comparable:"), h("ul", {}, apart.map((why) => h("li", {}, why)))) : "",
      table("At equal device seconds", ["Campaign", `Best after ${duration(equal)}`, "Best of all", "after", "Evaluated", "Candidate"], list.map((k) => {
        const end = k.best.at(-1);
        return [k.c.id, unproven(at(k, equal)), unproven(end), duration(end?.device_ns), count(k.c.evaluated), end ? h("a", { class: "mono", href: `#/candidates/${encodeURIComponent(end.candidate)}` }, short(end.candidate)) : "–"];
      }), [1, 2, 3, 4]),
      h("p", { class: "soft" }, "These are readings of the search, so ~ stands before all of them: only finals prove a difference."));
  }
  on.paint = draw;
  choose();
  await load();
}
