// All campaigns, live.

import { badge, confidence, count, empty, figure, h, speedup, stateBadge, timeLeft, title, when } from "./dom.js";
import { later, whole } from "./api.js";

const ended = (state) => ["finished", "failed", "cancelled"].includes(state);

export async function campaigns({ el, signal, on }) {
  const filter = h("select", { id: "filter", "aria-label": "State", onchange: () => draw() },
    ["all", "running", "waiting", "ended"].map((t) => h("option", { value: t }, t)));
  const search = h("input", { id: "search", type: "search", placeholder: "Kernel, device or ID", "aria-label": "Search", oninput: () => draw() });
  const body = h("tbody");
  const note = h("div");
  const more = h("button", { type: "button", hidden: true, onclick: () => { shown += 200; draw(); } }, "Show more");
  const box = h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Campaigns" }, h("table", { class: "stack" },
    h("thead", {}, h("tr", {}, ["Campaign", "State", "Kernel", "Device", "Best", "Confidence", "Evaluated", "Per minute", "Time left", "Cost"].map((t, i) => h("th", { scope: "col", class: i > 5 || i === 4 ? "num" : undefined }, t)))), body));
  el.append(title("Campaigns"), h("div", { class: "tools" }, filter, search, h("a", { class: "button primary", href: "#/submit" }, "Submit a campaign")), note, box, more);
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

  function cells(c) {
    const p = c.progress;
    const cost = p?.cost || 0;
    return [
      ["Campaign", h("a", { href: `#/campaigns/${encodeURIComponent(c.id)}` }, c.id)],
      ["State", [stateBadge(c.state), c.reason && c.state !== "finished" ? h("span", { class: "soft reason" }, c.reason) : null]],
      ["Kernel", `${c.kernel} ${(c.shapes || []).join(" ")}`],
      ["Device", c.device || c.backend],
      ["Best", speedup(c), true],
      ["Confidence", badge(confidence(c))],
      ["Evaluated", count(p?.evaluated ?? c.evaluated) + (c.budget?.evaluations ? ` of ${count(c.budget.evaluations)}` : ""), true],
      ["Per minute", p?.per_minute ? figure(p.per_minute) : "–", true],
      ["Time left", timeLeft(c), true],
      ["Cost", c.budget?.cost_per_hour && p ? figure(cost) : "–", true],
    ];
  }

  function row(c) {
    const tr = rows.get(c.id) || h("tr", { "data-id": c.id });
    rows.set(c.id, tr);
    // A row keeps its link, which may have the focus.
    const made = cells(c);
    if (!tr.children.length) tr.append(...made.map(([name, value, num]) => h("td", { "data-name": name, class: num ? "num" : undefined }, value)));
    else made.forEach(([, value], i) => { if (i) tr.children[i].replaceChildren(...[value].flat().filter(Boolean)); });
    tr.title = c.log?.started_at ? `started ${when(c.log.started_at)}` : "";
    return tr;
  }

  function draw() {
    const now = list.filter(fits);
    const want = now.slice(0, shown).map(row);
    if (want.length !== body.children.length || want.some((tr, i) => body.children[i] !== tr)) body.replaceChildren(...want);
    more.hidden = now.length <= shown;
    box.hidden = !now.length;
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
  await load();
}
