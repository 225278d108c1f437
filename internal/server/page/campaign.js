// One campaign, live.

import { badge, cards, confidence, count, crumbs, duration, empty, facts, figure, h, interval, nothingFaster, preparing, probability, problem, ratio, reading, short, speedup, stateBadge, table, time, timeLeft, title, when } from "./dom.js";
import { get, later, passing, stream } from "./api.js";
import { bars, roofline, steps } from "./charts.js";
import { actions, budgetFields } from "./actions.js";
import { pointsOf, rooflineTable, roofsOf } from "./devices.js";

const ended = (state) => ["finished", "failed", "cancelled"].includes(state);

// Which verdicts are the candidate's, and which are not its fault, or say nothing against it.
export const verdictKind = (v) => (v === "correct" ? "good" : v === "slower" || v === "infrastructure" ? "idle" : v === "infeasible" ? "idle" : "bad");

const mostRecords = 20;
const mostNewest = 12;

export async function campaign({ el, signal, args: [id], on }) {
  const path = `/v1/campaigns/${encodeURIComponent(id)}`;
  // What is only in the log may come later than the campaign itself, which is shown at once.
  const first = get(`${path}/summary`, signal);
  first.catch(() => {}); // it is awaited below
  let c = await get(path, signal);
  let summary = { best: [], funnel: [], stages: {} };
  const here = `#/campaigns/${encodeURIComponent(c.id)}`;

  const parts = Object.fromEntries(["state", "buttons", "note", "cards", "evaluations", "time", "funnel", "stages", "workers", "usage", "phases", "finals", "budget", "roofline", "about"].map((n) => [n, h("div", { id: `part-${n}` })]));
  const records = h("ol", { class: "feed", id: "records", reversed: true });
  const newest = h("ol", { class: "feed", id: "newest" });
  const section = (name, ...what) => h("section", {}, h("h2", {}, name), ...what);
  const quiet = empty("New results appear here.");
  const unbeaten = empty("No result yet is the best so far.");
  parts.buttons.className = "buttons";
  el.append(crumbs(["#/campaigns", "Campaigns"]), title(c.id), parts.state, parts.buttons, parts.note, parts.cards,
    h("nav", { class: "tabs", "aria-label": "This campaign" }, h("a", { href: `${here}/candidates` }, "All candidates"), h("a", { href: `${here}/genes` }, "Genes"), h("a", { href: `#/compare?ids=${encodeURIComponent(c.id)}` }, "Compare")),
    h("div", { class: "columns" }, section("Best over evaluations", parts.evaluations), section("Best over time", parts.time)),
    section("Finals", parts.finals),
    h("div", { class: "columns" }, section("Verdicts", parts.funnel), section("Workers", parts.workers, parts.usage)),
    h("div", { class: "columns" }, section("New bests", records, unbeaten), section("Newest results", newest, quiet)),
    h("div", { class: "columns" }, section("Time by stage", parts.phases, parts.stages), section("Budget", parts.budget)),
    section("Roofline", parts.roofline), section("About", parts.about));

  function top() {
    const p = c.progress;
    const best = c.best ? h("a", { href: `#/candidates/${encodeURIComponent(c.best)}` }, speedup(c)) : "–";
    parts.state.replaceChildren(h("p", { class: "headline" }, stateBadge(c.state), " ", c.state === "queued" ? `number ${c.position} in the queue` : "", c.reason ? ` ${c.reason}` : "", preparing(c), " ", h("span", { class: "soft" }, `${c.kernel} ${(c.shapes || []).join(" ")} on ${c.device || c.backend}`)));
    parts.cards.replaceChildren(cards([
      nothingFaster(c) ? [`nothing faster was found: ${count(p?.evaluated ?? c.evaluated)} genomes tried; nearest, in finals`, best] : [c.measured === "finals" ? "best against the baseline, in finals" : "best against the baseline", best],
      [tested() || "confidence", badge(confidence(c)), confidence(c).title],
      ["evaluated", count(p?.evaluated ?? c.evaluated)],
      ["evaluations per minute", p?.per_minute ? figure(p.per_minute) : "–"],
      ["time left", timeLeft(c)],
      ...(c.budget?.cost_per_hour ? [["cost", figure((c.budget.cost_per_hour * spent()) / 3.6e12)]] : []),
    ]));
    const now = actions(c, { done: reload, note: parts.note, signal });
    // Buttons are made anew only where they are others: one may have the focus.
    if (now.map((b) => b.id).join() !== [...parts.buttons.children].map((b) => b.id).join()) parts.buttons.replaceChildren(...now);
    workers();
    budget();
  }

  // tested is what the finals say of the campaign's best: the test and the interval.
  function tested() {
    const f = summary.finals;
    if (!f?.vs_baseline || c.measured !== "finals" || f.winner !== c.best || f.vs_baseline.n1 < 2) return "";
    const e = f.entries.find((e) => e.candidate === f.winner);
    return `${probability(f.vs_baseline)}${e?.lo > 0 ? `, 95%: ${ratio(e.lo)} to ${ratio(e.hi)}` : ""}`;
  }

  const spent = () => Math.max(c.progress?.elapsed_ns || 0, summary.elapsed_ns || 0);

  function workers() {
    const p = c.progress;
    parts.workers.replaceChildren(p?.workers?.length ? h("table", { id: "workers" }, h("thead", {}, h("tr", {}, ["Worker", "Stage", "For", "Candidate"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, p.workers.map((w, i) => h("tr", {}, h("td", {}, String(i + 1)), h("td", {}, w.candidate ? w.stage || "begins" : h("span", { class: "soft" }, "idle")), h("td", {}, duration(w.since_ns)), h("td", { class: "mono" }, short(w.candidate)))))) : empty(ended(c.state) || c.state === "paused" ? "No workers: the campaign does not run." : c.state === "queued" ? "No workers yet: the campaign waits for a device." : "No workers yet."));
    const u = p?.usage;
    parts.usage.replaceChildren(u ? facts([["Devices measure", `${figure(100 * u.measuring)}% of the time`], ["Kept free to measure", `${figure(100 * u.reserved)}% of the time`]]) : "");
  }

  function budget() {
    const b = c.budget || {};
    const evaluated = c.progress?.evaluated ?? c.evaluated;
    const used = { evaluations: evaluated, time_ns: spent(), target: c.speedup || 0, patience: evaluated - (summary.best.at(-1)?.evaluations || 0), max_cost: ((b.cost_per_hour || 0) * spent()) / 3.6e12 };
    const write = { time_ns: duration, target: ratio };
    const rows = budgetFields.filter(([name]) => b[name] && name in used).map(([name, label]) => ({
      label: name === "time_ns" ? "Time" : label, value: Math.min(1, used[name] / b[name]), title: `${figure((100 * used[name]) / b[name])}%`,
      text: `${(write[name] || figure)(used[name])} of ${(write[name] || figure)(b[name])}`,
    }));
    rows.push({ label: "", value: 1, text: "", kind: "hidden" }); // the whole is the measure
    parts.budget.replaceChildren(rows.length > 1 ? bars(rows, "Budget used") : empty("No limit is known."));
  }

  function charts() {
    const total = c.progress?.evaluated ?? c.evaluated;
    const tip = (p) => `${ratio(p.speedup)} after ${count(p.evaluations)} evaluations, ${duration(p.elapsed_ns)}: ${short(p.candidate)}`;
    const y = { label: "times the baseline's speed", format: (v) => `${figure(v)}x`, rule: 1, ruleTitle: "the baseline" };
    const none = empty(summary.evaluated === undefined ? "Loading …" : "Nothing correct yet.");
    // The curve is of readings of the search: its best is also its luckiest. Finals are beside it.
    const f = summary.finals;
    const won = f?.entries.find((e) => e.candidate === f.winner && e.speedup > 0);
    const mark = (x) => (won ? { x, y: won.speedup, lo: won.lo, hi: won.hi, title: `finals: ${interval(won)}` } : undefined);
    const legend = () => h("p", { class: "legend" }, h("span", {}, h("i", { class: "swatch line-swatch" }), "readings of the search"), won ? h("span", {}, h("i", { class: "swatch fill-b" }), `the finals: ${interval(won)}`) : null);
    if (!summary.best.length) {
      parts.evaluations.replaceChildren(none);
      parts.time.replaceChildren(none.cloneNode(true));
    } else {
      const last = summary.best.at(-1);
      const say = `Best so far: ${ratio(last.speedup)} after ${count(last.evaluations)} of ${count(total)} evaluations`;
      steps(parts.evaluations, { series: [{ points: summary.best.map((p) => [p.evaluations, p.speedup, tip(p)]), end: total }], mark: mark(f?.evaluations), x: { label: "evaluations", format: (v) => (Number.isInteger(v) ? count(v) : "") }, y, label: say });
      steps(parts.time, { series: [{ points: summary.best.map((p) => [p.elapsed_ns / 1e9, p.speedup, tip(p)]), end: spent() / 1e9 }], mark: mark(f?.elapsed_ns / 1e9), x: { label: "seconds of the campaign" }, y, label: `${say}, over time` });
      for (const n of ["evaluations", "time"]) parts[n].append(legend());
    }
    const funnel = [...(summary.funnel || [])].sort((a, b) => b.count - a.count);
    parts.funnel.replaceChildren(funnel.length ? bars(funnel.slice(0, 14).map((f) => ({ label: f.verdict + (f.stage ? ` at ${f.stage}` : ""), value: f.count, text: count(f.count) + (f.reason ? ` · ${f.reason}` : ""), kind: verdictKind(f.verdict), title: f.reason })), "Candidates by verdict") : none.cloneNode(true));
    const order = ["render", "compile", "inspect", "parity", "sanitize", "benchmark", "finals"];
    const stages = Object.entries(summary.stages || {}).filter(([, ns]) => ns > 0).sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
    parts.stages.replaceChildren(stages.length ? bars(stages.map(([name, ns]) => ({ label: name, value: ns, text: duration(ns) })), "Time of all candidates by stage") : empty("No stage has taken time yet."));
    phases();
    finals();
    if (records.children.length === 0) for (const p of summary.best.slice(-mostRecords)) record(p.candidate, p.speedup, `after ${count(p.evaluations)} evaluations`);
  }

  function phases() {
    const p = summary.phases;
    const text = p ? [["prepared in", p.prepared_ns], ["searched in", p.searched_ns], ["finals in", p.finals_ns]].filter(([, ns]) => ns > 0).map(([what, ns]) => `${what} ${duration(ns)}`).join(", ") : "";
    parts.phases.replaceChildren(text ? h("p", {}, text.charAt(0).toUpperCase() + text.slice(1), ".") : "");
  }

  function finals() {
    const f = summary.finals;
    parts.finals.parentElement.hidden = !f;
    if (!f) return;
    const test = (what, t) => (t ? h("li", {}, `${what}: `, t.significant ? "" : "~ no difference: ", `time ratio ${figure(t.ratio)}, ${probability(t)}, ${t.n1} and ${t.n2} samples${(t.warnings || []).map((w) => `; ${w}`).join("")}`) : null);
    const tests = c.backend === "replay" && !(f.vs_baseline?.n1 > 1) ? [h("li", {}, "Nothing was tested: the times are those that the table has recorded.")]
      : [test("Winner against baseline", f.vs_baseline), test(`Winner against runner-up ${short(f.runner_up)}`, f.vs_runner_up)];
    parts.finals.replaceChildren(
      f.early ? h("p", { class: "problem", id: "finals-early" }, `They ended early: ${f.early}.`) : "",
      f.winner ? "" : h("p", { class: "problem" }, "No finalist survived: there is no winner."),
      table("Finals", ["Candidate", "Verdict", "Time", "Baseline", "Speedup", "95% interval"], f.entries.map((e) => [
        [h("a", { class: "mono", href: `#/candidates/${encodeURIComponent(e.candidate)}` }, short(e.candidate)), e.candidate === f.winner ? " winner" : ""],
        [e.reason?.startsWith("not run") ? "" : badge({ text: e.verdict, kind: verdictKind(e.verdict) }), e.reason ? h("span", { class: "soft" }, ` ${e.reason}`) : ""], time(e.median_ns), time(e.baseline_ns), ratio(e.speedup), e.lo > 0 ? `${ratio(e.lo)} to ${ratio(e.hi)}` : "–"]), [2, 3, 4, 5]),
      h("ul", { class: "plain", id: "finals-tests" }, tests));
  }

  function record(candidate, value, note) {
    if ([...records.children].some((li) => li.dataset.id === candidate)) return;
    records.prepend(h("li", { "data-id": candidate }, h("b", {}, reading(value)), " ", h("a", { class: "mono", href: `#/candidates/${encodeURIComponent(candidate)}` }, short(candidate)), " ", h("span", { class: "soft" }, note)));
    unbeaten.hidden = true;
    while (records.children.length > mostRecords) records.lastChild.remove();
  }

  function about() {
    const l = c.log;
    parts.about.replaceChildren(facts([
      ["Kernel", c.kernel], ["Shapes", (c.shapes || []).join(", ")], ["Backend", c.backend], ["Device", c.device],
      ["Submitted", c.submitted ? `${when(c.submitted)} by ${c.by}` : ""], ["Started", l ? when(l.started_at) : ""], ["Newest event", l ? when(l.last_at) : ""],
      ["Search", l ? `${l.started.strategy}, version ${l.started.search_version}, seed ${l.started.seed}` : ""],
      ["Sanitized", l && c.backend !== "replay" ? (l.started.config?.sanitize === "contenders" ? "contenders; slower candidates were timed unsanitized" : "all that passed parity") : ""], ["Priority", String(c.priority || 0)],
    ]));
  }

  async function sums(asked = get(`${path}/summary`, signal)) {
    const now = await asked;
    summary = { ...now, best: now.best || [], funnel: now.funnel || [], stages: now.stages || {} };
    charts();
    budget();
    top();
  }
  // What the device can do at most is only known of kernels that run.
  let roofOf = "";
  async function roof() {
    const of = c.log && c.backend !== "replay" ? `${c.best} ${c.measured}` : "";
    if (of === roofOf) return;
    const r = await get(`${path}/roofline`, signal).catch((err) => {
      if (passing(err) || err.name === "AbortError") throw err;
      return null; // the kernel is gone, or nothing is correct yet
    });
    roofOf = of;
    const roofs = roofsOf(r?.peaks);
    const points = r ? pointsOf({ ...r, kernel: c.kernel }) : [];
    parts.roofline.parentElement.hidden = !roofs.length;
    if (!roofs.length) return;
    const box = h("div");
    parts.roofline.replaceChildren(box, rooflineTable(points));
    roofline(box, { roofs, points, label: `Roofline: ${points.map((p) => p.title).join("; ")}` });
  }
  let heard = 0; // states that the stream has told
  async function reload() {
    const before = heard;
    const now = await get(path, signal);
    // What the stream has told since this answer was asked for is newer.
    if (heard !== before) Object.assign(now, { state: c.state, reason: c.reason, position: c.position, progress: c.progress });
    c = now;
    top();
    about();
    if (!following && !ended(c.state)) follow();
    await roof();
  }
  const soon = later(() => Promise.all([reload(), sums()]), 1000, signal);

  let following = false;
  let seen = 0; // the newest event of the log
  function follow() {
    following = true;
    let waiting = [];
    let due = 0;
    const flush = () => {
      due = 0;
      // However many arrive at once, only the newest become elements.
      for (const e of waiting.slice(-mostNewest)) {
        newest.prepend(h("li", { "data-id": e.candidate }, badge({ text: e.verdict, kind: verdictKind(e.verdict), title: e.reason }), " ", e.fitness > 0 ? h("b", {}, reading(1 / e.fitness)) : "", " ",
          h("a", { class: "mono", href: `#/candidates/${encodeURIComponent(e.candidate)}` }, short(e.candidate)), " ", h("span", { class: "soft" }, e.reason || e.operator)));
      }
      quiet.hidden = newest.children.length > 0;
      while (newest.children.length > mostNewest) newest.lastChild.remove();
      for (const e of waiting.filter((e) => e.record && e.fitness > 0).slice(-mostRecords)) record(e.candidate, 1 / e.fitness, `number ${count(e.index + 1)}`);
      waiting = [];
      soon();
    };
    stream(`${path}/events`, {
      signal,
      // What was before is in the summary; a few of the newest are shown at once.
      last: Math.max(seen, (c.log?.last || 0) - 2 * mostNewest),
      done: (e) => e.event === "state" && ended(e.state),
      event: (e, id) => {
        if (id) seen = id;
        if (e.event === "state") {
          heard++;
          const other = e.state !== c.state;
          Object.assign(c, { state: e.state, reason: e.reason, position: e.position, progress: e.progress });
          top();
          if (other) soon();
        } else if (e.event === "evaluated" || e.event === "measured") {
          waiting.push(e);
          due ||= requestAnimationFrame(flush);
        } else {
          soon();
        }
      },
    }).then(() => { following = false; }).catch(() => { following = false; });
  }

  on.paint = charts;
  on.back = soon;
  // The campaign's own stream has ended once it did; that of all campaigns tells if it goes on.
  on.event = (e) => { if (e.campaign === c.id && !following && !ended(e.state)) soon(); };
  top();
  about();
  charts();
  parts.roofline.parentElement.hidden = true;
  follow();
  try {
    await Promise.all([sums(first), roof()]);
  } catch (err) {
    if (!passing(err)) throw err;
    parts.note.replaceChildren(problem(err));
    soon(); // until it is there
  }
}
