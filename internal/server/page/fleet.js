// The workers on other machines, live: what each does, and whether they agree.

import { age, ask, badge, cards, count, duration, empty, h, problem, say, short, table, title, when } from "./dom.js";
import { get, pause, post, remove, session, shown } from "./api.js";
import { field, may } from "./actions.js";

const every = 2000; // ms between two looks
const kinds = { idle: "idle", opening: "live", evaluating: "good", drained: "idle", leaving: "idle", troubled: "bad", lost: "bad", refused: "bad" };

// identity tells one that was refused from the worker that has its name.
const identity = (x) => (x.state === "refused" ? `${x.name} refused` : x.name);

// away are the states of workers that are not there.
export const away = (x) => x.state === "lost" || x.state === "refused";
const doings = { again: "again, to compare hosts", check: "the reference candidate", finals: "finals" };
const heads = ["Worker", "State", "Device", "Campaign", "Evaluates now", "Reference", "Evaluated", "Failures", "Compared", "Last heard", ""];

export async function fleet({ el, signal, query, keep, on }) {
  const totals = h("div", { id: "fleet-totals" });
  const note = h("div");
  const search = h("input", { id: "fleet-search", type: "search", placeholder: "Worker, device, state or campaign", "aria-label": "Search", value: query.get("find") || "", oninput: () => { keep({ find: search.value.trim() }); draw(); } });
  const body = h("tbody");
  const box = h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Workers" }, h("table", { class: "stack", id: "hosts" }, h("caption", { class: "visually-hidden" }, "Workers"),
    h("thead", {}, h("tr", {}, heads.map((t, i) => h("th", { scope: "col", class: numeric(i) }, t || h("span", { class: "visually-hidden" }, "Actions"))))), body));
  const more = h("button", { type: "button", hidden: true, onclick: () => { most += 200; draw(); } }, "Show more");
  const none = empty("No worker is enrolled. Start the service with ", h("code", {}, "tune serve --fleet ADDRESS"), ", and on each machine ",
    h("code", {}, "tune worker --server URL --token-file FILE"), ", with a token of the scope worker", may("admin") ? [": ", h("a", { href: "#/admin" }, "make one")] : "", ".");
  const unlike = empty("No worker is like this.");
  const tools = h("div", { class: "tools" }, search);
  const waiting = h("section", { id: "fleet-waiting" });
  const refused = h("section", { id: "fleet-refused" });
  el.append(title("Fleet"), totals, tools, note, box, more, none, unlike, waiting, refused);
  const rows = new Map();
  let state = { hosts: [] };
  let most = 200;

  async function load() {
    state = await get("/v1/fleet", signal);
    draw();
  }

  async function act(what, told) {
    try {
      await what();
      note.replaceChildren();
      say(told);
    } catch (err) {
      if (err.name !== "AbortError") note.replaceChildren(problem(err));
    }
    await load().catch(() => {});
  }

  // A row keeps its elements: one of them may have the focus, or be open.
  function row(x) {
    const path = `/v1/fleet/workers/${encodeURIComponent(x.name)}`;
    let r = rows.get(identity(x));
    if (!r) {
      const list = h("ul", { class: "plain" });
      const summary = h("summary");
      const doing = h("details", { hidden: true }, summary, list);
      const idle = h("span", { class: "soft" }, "nothing");
      const drain = h("button", { type: "button", "data-act": "drain", onclick: () => drained(x.name, path) }, "Drain");
      const go = h("button", { type: "button", "data-act": "go", onclick: () => act(() => post(`${path}/drain`, {}), `${x.name} may go on.`) }, "Let go on");
      const expel = h("button", { type: "button", class: "danger", "data-act": "expel", onclick: () => expelled(x.name, path) }, "Expel");
      const cells = heads.map((name, i) => h("td", { "data-name": name, class: numeric(i) }));
      cells[4].append(h("div", {}, doing, idle));
      cells[heads.length - 1].append(may("admin") ? h("div", { class: "buttons" }, drain, go, expel) : "");
      r = { tr: h("tr", { "data-worker": x.name }, cells), cells, doing, summary, list, idle, drain, go, expel, said: [] };
      rows.set(identity(x), r);
    }
    const put = (i, key, ...what) => {
      if (r.said[i] === key) return;
      r.said[i] = key;
      r.cells[i].replaceChildren(...what);
    };
    const s = x.stats;
    put(0, x.name, h("b", {}, x.name));
    const told = x.reason || (x.preparing ? `${x.preparing}: ${duration(x.preparing_ns)} so far` : "");
    put(1, `${x.state} ${told}`, h("div", {}, badge({ text: x.state, kind: kinds[x.state] }), told ? h("span", { class: "soft reason" }, told) : ""));
    put(2, `${x.device.name} ${x.version}`, h("span", { title: [x.device.fingerprint, ...(x.tools || []).map((t) => `${t.name} ${t.missing ? `missing: ${t.missing}` : t.version || ""}`), `evotune ${x.version}`].join("\n") }, x.device.name || x.backend));
    put(3, x.campaign || "", x.campaign ? h("a", { href: `#/campaigns/${encodeURIComponent(x.campaign)}` }, x.campaign) : "–");
    const now = x.doing || [];
    r.doing.hidden = !now.length;
    r.idle.hidden = now.length > 0;
    const text = `${count(now.length)} of ${count(x.slots)}${now.some((d) => d.alone) ? ", alone" : ""}`;
    if (r.summary.textContent !== text) r.summary.textContent = text;
    const key = JSON.stringify(now);
    if (r.said[4] !== key) {
      r.said[4] = key;
      r.list.replaceChildren(...now.map((d) => h("li", {}, d.candidate ? h("a", { class: "mono", href: `#/candidates/${encodeURIComponent(d.candidate)}` }, short(d.candidate)) : "",
        d.candidate ? ": " : "", [doings[d.kind], d.stage || "begins", d.alone ? "alone" : ""].filter(Boolean).join(", "))));
    }
    put(5, String(x.drift), x.drift ? h("span", { title: "time of the campaign's reference candidate here over that on the other hosts" }, x.drift.toFixed(3)) : h("span", { class: "soft" }, x.campaign ? "not known yet" : "–"));
    put(6, String(s.evaluated), count(s.evaluated));
    const failures = [[s.failed, "failed"], [s.lost, "lost"], [s.late, "late"]].filter(([n]) => n > 0).map(([n, what]) => `${count(n)} ${what}`).join(", ");
    put(7, failures, failures || "–");
    put(8, `${s.compared} ${s.disagreed}`, s.compared ? `${count(s.compared)}${s.disagreed ? `, ${count(s.disagreed)} disagreed` : ""}` : "–");
    const heard = `${age(Date.now() - new Date(x.seen))} ago`;
    put(9, heard, h("time", { title: when(x.seen) }, heard));
    r.drain.hidden = x.state === "drained" || x.state === "leaving" || away(x);
    r.go.hidden = x.state !== "drained";
    r.expel.hidden = x.state === "refused" && (state.hosts || []).some((o) => o.name === x.name && !away(o)); // which would be that one
    for (const b of [r.drain, r.go]) {
      if (b.hidden && document.activeElement === b) (b === r.drain ? r.go : r.drain).focus();
    }
    return r.tr;
  }

  async function drained(name, path) {
    const form = await ask(`Drain ${name}?`, h("div", {}, h("p", {}, "It ends what it has, and takes no more candidates until it is let go on."),
      field("drain-reason", "body.reason", "Reason", "everybody sees it", { type: "text", maxlength: 200, value: `by ${session.who.name}` })), "Drain");
    if (form) act(() => post(`${path}/drain`, { reason: form.querySelector("#drain-reason").value.trim() || `by ${session.who.name}` }), `${name} is drained.`);
  }

  async function expelled(name, path) {
    if (await ask(`Expel ${name}?`, h("p", {}, "Its credential ends, and its candidates go elsewhere. A worker that still has a valid token is admitted again: revoke that first to keep it out."), "Expel", true)) act(() => remove(path), `${name} is expelled.`);
  }

  function draw() {
    const hosts = state.hosts || [];
    const wanted = search.value.trim().toLowerCase();
    const found = hosts.filter((x) => !wanted || [x.name, x.state, x.device.name, x.campaign, x.backend].some((t) => (t || "").toLowerCase().includes(wanted)));
    for (const k of rows.keys()) if (!hosts.some((x) => identity(x) === k)) rows.delete(k);
    const list = found.slice(0, most).map(row);
    if (list.length !== body.children.length || list.some((tr, i) => body.children[i] !== tr)) body.replaceChildren(...list);
    more.hidden = found.length <= most;
    none.hidden = hosts.length > 0;
    unlike.hidden = !hosts.length || found.length > 0;
    box.hidden = !found.length;
    tools.hidden = !hosts.length;
    const sum = (f) => hosts.reduce((n, x) => n + f(x), 0);
    const waits = Object.entries(state.waiting || {}).sort();
    totals.replaceChildren(...(hosts.length ? [cards([["workers", count(sum((x) => !away(x)))], ["lost or refused", count(sum(away))], ["evaluate now", count(sum((x) => x.state === "evaluating" && x.doing?.length > 0))],
      ["candidates on workers", count(sum((x) => x.doing?.length || 0))], ["campaigns that wait for a worker", count(waits.length)]])] : []));
    lines(waiting, "Campaigns that wait for a worker", ["Campaign", "Why"], waits.map(([id, why]) => [id, why]));
    lines(refused, "What workers cannot evaluate", ["Campaign", "Worker", "Why"], hosts.flatMap((x) => Object.entries(x.refused || {}).map(([id, why]) => [id, x.name, why])).sort());
  }

  // lines fills a section with a table, whose first cells name campaigns; without any it is hidden.
  function lines(section, heading, names, list) {
    section.hidden = !list.length;
    const key = JSON.stringify(list);
    if (section.dataset.key === key) return;
    section.dataset.key = key;
    section.replaceChildren(h("h2", {}, heading), table(heading, names, list.map(([id, ...rest]) => [h("a", { href: `#/campaigns/${encodeURIComponent(id)}` }, id), ...rest])));
  }

  on.back = () => load().catch(() => {});
  await load();
  look().catch(() => {}); // which ends with the view

  async function look() {
    for (;;) {
      await pause(every, signal);
      await shown(signal);
      await load().catch(() => {}); // the pill above says when the service does not answer
      if (signal.aborted) return;
    }
  }
}

const numeric = (i) => (i === 5 || i === 6 ? "num" : undefined);
