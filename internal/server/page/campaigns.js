// All campaigns, live.

import { age, badge, cellClass, confidence, count, empty, figure, h, nothingFaster, order, preparing, speedup, stateBadge, timeLeft, title, when } from "./dom.js";
import { later, whole } from "./api.js";
import { mostCompared } from "./compare.js";

const ended = (state) => ["finished", "failed", "cancelled"].includes(state);

// begun is when a campaign was submitted or, where nobody submitted it, began: in milliseconds.
const begun = (c) => new Date(c.submitted || c.log?.started_at || 0).getTime() || 0;

// What columns are sorted by.
const values = {
  Campaign: (c) => c.id || "", State: (c) => c.state || "", Kernel: (c) => c.kernel || "", Device: (c) => c.device || c.backend || "", Started: begun,
  Best: (c) => c.speedup || 0, Evaluated: (c) => c.progress?.evaluated ?? c.evaluated ?? 0, "Per minute": (c) => c.progress?.per_minute || 0,
};

export async function campaigns({ el, signal, on, query, keep }) {
  const changed = () => {
    keep({ state: filter.value === "all" ? "" : filter.value, find: search.value.trim() });
    draw();
  };
  const filter = h("select", { id: "filter", "aria-label": "State", onchange: changed },
    ["all", "running", "waiting", "ended"].map((t) => h("option", { value: t, selected: t === query.get("state") }, t)));
  const search = h("input", { id: "search", type: "search", placeholder: "Kernel, device or ID", "aria-label": "Search", value: query.get("find") || "", oninput: changed });
  const body = h("tbody");
  const note = h("div");
  const more = h("button", { type: "button", hidden: true, onclick: () => { shown += 200; draw(); } }, "Show more");
  const sort = order(values, query.get("sort"), (by) => { keep({ sort: by }); mark(); draw(); });
  const heads = ["", "Campaign", "State", "Kernel", "Device", "Started", "Best", "Confidence", "Evaluated", "Per minute", "Time left", "Cost"].map((t) => h("th", { scope: "col", class: numeric.has(t) ? "num" : undefined },
    t in values ? h("button", { type: "button", class: "head", onclick: () => sort.to(t) }, t) : t || h("span", { class: "visually-hidden" }, "To compare")));
  const mark = () => heads.forEach((th) => (th.textContent === sort.by ? th.setAttribute("aria-sort", sort.order) : th.removeAttribute("aria-sort")));
  const box = h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Campaigns" }, h("table", { class: "stack", id: "campaigns" }, h("thead", {}, h("tr", {}, heads)), body));
  let chosen = (query.get("chosen") || "").split(",").filter(Boolean);
  const compare = h("a", { class: "button", id: "compare-chosen" });
  el.append(title("Campaigns"), h("div", { class: "tools" }, filter, search, compare, h("a", { class: "button primary", href: "#/submit" }, "Submit a campaign")), note, box, more);
  let list = [];
  let shown = 200;
  const rows = new Map();

  const load = async () => {
    list = await whole("/v1/campaigns?limit=1000", signal);
    draw();
  };
  const soon = later(load, 500, signal);

  function fits(c) {
    const text = search.value.trim().toLowerCase();
    const wait = c.state === "queued" || c.state === "paused";
    const kind = { running: !wait && !ended(c.state), waiting: wait, ended: ended(c.state), all: true }[filter.value];
    return kind && (!text || [c.id, c.kernel, c.device, c.backend].some((t) => (t || "").toLowerCase().includes(text)));
  }

  function choose(id, yes) {
    chosen = yes ? [...chosen, id].slice(-mostCompared) : chosen.filter((c) => c !== id);
    keep({ chosen: chosen.join(",") });
    draw();
  }

  function cells(c) {
    const p = c.progress;
    const cost = p?.cost || 0;
    return [
      ["", h("input", { type: "checkbox", "aria-label": `Compare ${c.id}`, onchange: (e) => choose(c.id, e.target.checked) })],
      ["Campaign", h("a", { href: `#/campaigns/${encodeURIComponent(c.id)}` }, c.id)],
      ["State", [stateBadge(c.state), c.reason && c.state !== "finished" ? h("span", { class: "soft reason" }, c.reason) : null, preparing(c)]],
      ["Kernel", `${c.kernel} ${(c.shapes || []).join(" ")}`],
      ["Device", c.device || c.backend],
      ["Started", begun(c) ? [h("time", { title: when(new Date(begun(c))) }, `${age(Date.now() - begun(c))} ago`)] : "–"],
      ["Best", nothingFaster(c) ? "none faster" : speedup(c)],
      ["Confidence", confidence(c).text === "–" ? "–" : badge(confidence(c))],
      ["Evaluated", count(p?.evaluated ?? c.evaluated) + (c.budget?.evaluations ? ` of ${count(c.budget.evaluations)}` : "")],
      ["Per minute", p?.per_minute ? figure(p.per_minute) : "–"],
      ["Time left", timeLeft(c)],
      ["Cost", c.budget?.cost_per_hour && p ? figure(cost) : "–"],
    ];
  }

  function row(c) {
    const tr = rows.get(c.id) || h("tr", { "data-id": c.id });
    rows.set(c.id, tr);
    // A row keeps its box and its link, which may have the focus.
    const made = cells(c);
    if (!tr.children.length) tr.append(...made.map(([name, value]) => h("td", { "data-name": name }, value)));
    else made.forEach(([, value], i) => { if (i > 1) tr.children[i].replaceChildren(...[value].flat().filter(Boolean)); });
    made.forEach(([name, value], i) => tr.children[i].setAttribute("class", cellClass(value, numeric.has(name) ? "num" : "") || ""));
    tr.querySelector("input").checked = chosen.includes(c.id);
    return tr;
  }

  function draw() {
    const now = sort.sorted(list.filter(fits));
    const want = now.slice(0, shown).map(row);
    if (want.length !== body.children.length || want.some((tr, i) => body.children[i] !== tr)) body.replaceChildren(...want);
    more.hidden = now.length <= shown;
    box.hidden = !now.length;
    compare.hidden = !chosen.length;
    compare.href = `#/compare?ids=${chosen.map(encodeURIComponent).join(",")}`;
    compare.textContent = `Compare ${count(chosen.length)} chosen`;
    note.replaceChildren(...(now.length ? [] : [empty(list.length ? "No campaign is like this." : "No campaigns yet. ", list.length ? null : h("a", { href: "#/submit" }, "Submit the first one"))]));
  }

  on.event = (e) => {
    const c = list.find((c) => c.id === e.campaign);
    if (!c) return soon();
    if (c.state !== e.state || e.progress?.evaluated > (c.progress?.evaluated ?? c.evaluated)) soon(); // its best may be another
    Object.assign(c, { state: e.state, reason: e.reason, position: e.position, progress: e.progress });
    if (rows.has(c.id)) row(c);
  };
  on.back = soon;
  mark();
  await load();
}

const numeric = new Set(["Best", "Evaluated", "Per minute", "Time left", "Cost"]);
