// Making elements, and writing figures.

// h makes an element: properties that are functions listen, "class", "text" and "data" are
// what they say, the others are attributes. Nothing is ever parsed as HTML.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// s makes an element of SVG.
export function s(tag, props, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(el, props, children) {
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") el.addEventListener(key.slice(2), value);
    else if (key === "class") el.setAttribute("class", value);
    else if (key === "text") el.textContent = value;
    else if (key === "value") el.value = value;
    else if (key === "checked") el.checked = value;
    else el.setAttribute(key, value === true ? "" : value);
  }
  el.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return el;
}

// say tells something to those who cannot see the page change.
export function say(text) {
  document.getElementById("say").textContent = text;
}

const places = (v, n) => (v === 0 ? "0" : Number(v.toPrecision(n)).toString());

// figure writes a number with three digits that count.
export const figure = (v) => {
  if (!Number.isFinite(v)) return "–";
  const a = Math.abs(v);
  if (a >= 1e15 || (a > 0 && a < 1e-3)) return v.toExponential(2);
  if (a >= 1000) return Math.round(v).toLocaleString("en-US");
  return places(v, 3);
};

// count writes a whole number.
export const count = (n) => (n ?? 0).toLocaleString("en-US");

// ratio writes a speedup.
export const ratio = (v) => (v > 0 ? `${v.toFixed(v < 10 ? 3 : v < 100 ? 2 : 1)}x` : "–");

// reading writes a speedup that the search has read: nothing is proven by one.
export const reading = (v) => `~ ${ratio(v)}`;

// time writes nanoseconds of a kernel.
export function time(ns) {
  if (!(ns > 0)) return "–";
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const [size, unit] = units.find(([size]) => ns >= size) || units[3];
  return `${(ns / size).toPrecision(3)} ${unit}`;
}

// duration writes nanoseconds of a campaign.
export function duration(ns) {
  if (!Number.isFinite(ns) || ns < 0) return "–";
  const s = ns / 1e9;
  if (s > 0 && s < 10) return `${s.toFixed(1)} s`;
  const whole = Math.round(s);
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

// age writes milliseconds in one unit.
export function age(ms) {
  const s = Math.max(0, ms) / 1000;
  const [size, unit] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([size]) => s >= 2 * size) || [1, "s"];
  return `${Math.floor(s / size)} ${unit}`;
}

// rate writes a figure per second with a prefix: 4.8 TB/s.
export function rate(v, unit) {
  if (!(v > 0)) return "–";
  const prefixes = ["", "k", "M", "G", "T", "P"];
  let i = 0;
  while (v >= 1000 && i < 5) {
    v /= 1000;
    i++;
  }
  return `${places(v, 3)} ${prefixes[i]}${unit}`;
}

// when writes an instant as the reader's clock has it.
export function when(text) {
  const t = new Date(text);
  if (!text || Number.isNaN(t.getTime()) || t.getUTCFullYear() < 1971) return "–";
  return t.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

// short is a candidate's ID as tables show it.
export const short = (id) => (id || "").slice(0, 16);

// probability writes the p-value of a test.
export const probability = (t) => `p = ${figure(t.p)}`;

// timeLeft says how long a campaign's search goes on. Finals have no budget to tell it by.
export function timeLeft(c) {
  if (c.state === "queued") return `number ${c.position} in the queue`;
  if (c.state === "finals") return "finals";
  if (!c.progress) return "–";
  return c.progress.remaining_ns >= 0 ? duration(c.progress.remaining_ns) : "unknown";
}

// preparing says which step of the preparation of a campaign or an operation is under way, and for how long.
export function preparing(c) {
  const p = c.state === "preparing" && (c.preparing || c.progress?.preparing);
  return p ? ` ${p.step}: ${duration(p.since_ns)} so far` : "";
}

// interval writes a finalist's speedup with its bounds.
export const interval = (e) => `${ratio(e.speedup)}${e.lo > 0 ? ` (95%: ${ratio(e.lo)} to ${ratio(e.hi)})` : ""}`;

// confidence says how far a speedup is proven. Only finals prove one: of many readings of a
// search the best are also the luckiest.
export function confidence(c) {
  if (!(c.speedup > 0)) return { text: "–", kind: "", title: "nothing correct yet" };
  if (c.unproven) return { text: "not proven", kind: "idle", title: c.unproven };
  if (c.significant) return { text: "significant", kind: "good", title: "finals found it to be faster than the baseline by more than noise" };
  if (c.backend === "replay") return { text: "recorded", kind: "idle", title: "the time that a table has recorded: nothing was tested" };
  if (c.measured === "finals" && c.speedup <= 1) return { text: "not faster", kind: "idle", title: "finals did not find it to be faster than the baseline, which is what to use" };
  if (c.measured === "finals") return { text: "not significant", kind: "idle", title: "finals found no difference from the baseline beyond noise: the baseline is what to use" };
  return { text: "~ unproven", kind: "idle", title: "measured by the search alone: finals have not compared it" };
}

// nothingFaster says that the finals of a campaign found nothing faster than the baseline: what the service
// calls significant is faster. Of a recorded table nothing is tested.
export const nothingFaster = (c) => c.measured === "finals" && !c.significant && c.backend !== "replay";

// speedup writes a speedup, with ~ before what is not proven.
export const speedup = (c) => (c.speedup > 0 ? `${c.significant && !c.unproven ? "" : "~ "}${ratio(c.speedup)}` : "–");

export const badge = ({ text, kind, title }) => h("span", { class: `badge ${kind || ""}`, title }, text);

const stateKind = { finished: "good", failed: "bad", cancelled: "idle", paused: "idle", queued: "idle", preparing: "live", searching: "live", finals: "live" };
export const stateBadge = (state) => h("span", { class: `badge state ${stateKind[state] || ""}`, "data-state": state }, state);

// table makes a small table. Cells are nodes or text; numeric ones are named by position. On a
// phone each row flows: its cells come with the names of their columns.
export function table(caption, heads, rows, numeric = [], sort = null) {
  const side = (i) => (numeric.includes(i) ? "num" : undefined);
  return h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption },
    h("table", { class: "stack" }, h("caption", { class: "visually-hidden" }, caption),
      h("thead", {}, h("tr", {}, heads.map((t, i) => h("th", { scope: "col", class: side(i), "aria-sort": sort?.by === t ? sort.order : undefined },
        sort?.by !== undefined && t ? h("button", { type: "button", class: "head", onclick: () => sort.to(t) }, t) : t)))),
      h("tbody", {}, rows.map((r) => h("tr", {}, r.map((c, i) => h("td", { "data-name": heads[i], class: cellClass(c, side(i)) }, c)))))));
}

// order makes what a sorted table needs: columns by their names, each with the value that it is sorted
// by, and which one it is now ("-NAME" for the largest first), as the address has it.
export function order(values, now, changed) {
  const has = (name) => Object.hasOwn(values, name); // and not what every object has, such as "constructor"
  const known = has((now || "").replace(/^-/, ""));
  const it = {
    by: known ? now.replace(/^-/, "") : "",
    down: known && now.startsWith("-"),
    get order() { return it.down ? "descending" : "ascending"; },
    to(name) {
      if (!has(name)) return;
      it.down = it.by === name ? !it.down : typeof values[name]({}) !== "string"; // numbers begin with the largest
      it.by = name;
      changed(`${it.down ? "-" : ""}${name}`);
    },
    sorted(list) {
      if (!it.by) return list;
      const of = values[it.by];
      const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
      return [...list].sort((a, b) => (it.down ? compare(of(b), of(a)) : compare(of(a), of(b))));
    },
  };
  return it;
}

// cellClass is that of a cell: one that says nothing is left out on a phone.
export const cellClass = (content, side) => [side, content === "" || content === "–" || content === null || content === undefined ? "none" : ""].filter(Boolean).join(" ") || undefined;

// facts makes a list of names and what they are; what is empty is left out.
export const facts = (pairs) => h("dl", {}, pairs.filter(([, v]) => v !== undefined && v !== null && v !== "").map(([k, v]) => h("div", {}, h("dt", {}, k), h("dd", {}, v))));

// cards are a campaign's few large figures.
export const cards = (list) => h("div", { class: "cards" }, list.map(([label, value, title]) => h("div", { title }, h("b", {}, value), h("span", {}, label))));

export const empty = (text, ...more) => h("p", { class: "empty" }, text, ...more);

// problem shows an error, and how to try again.
export function problem(err, retry) {
  return h("div", { class: "problem", role: "alert" }, h("p", {}, err.message || String(err)),
    err.problem?.errors?.length ? h("ul", {}, err.problem.errors.map((e) => h("li", {}, `${e.location ? `${e.location}: ` : ""}${e.message}`))) : null,
    err.problem?.request ? h("p", { class: "soft" }, `Request ${err.problem.request}`) : null,
    retry ? h("button", { type: "button", onclick: retry }, "Try again") : null);
}

// crumbs say where a view is.
export const crumbs = (...links) => h("p", { class: "crumbs" }, links.map(([href, text], i) => [i ? " / " : "", h("a", { href }, text)]));

// title is a view's heading, which takes the focus when the view opens.
export function title(text, ...more) {
  document.title = `${text} · evotune`;
  return h("h1", { tabindex: -1 }, text, more.length ? " " : null, ...more);
}

// ask shows a dialog and gives what its button says: null when it was closed.
export function ask(heading, content, yes, danger) {
  return new Promise((resolve) => {
    const done = (v) => { dialog.close(); dialog.remove(); resolve(v); };
    const form = h("form", { onsubmit: (e) => { e.preventDefault(); done(form); } },
      h("h2", {}, heading), content,
      h("div", { class: "buttons" }, h("button", { type: "submit", class: danger ? "danger" : "primary" }, yes),
        h("button", { type: "button", onclick: () => done(null) }, "Close")));
    const dialog = h("dialog", { "aria-label": heading, oncancel: (e) => { e.preventDefault(); done(null); } }, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}
