// What can be asked of a campaign.

import { ask, h, preparing, problem, say } from "./dom.js";
import { Failure, download, getTagged, operation, patch, post, session } from "./api.js";

const scopes = ["viewer", "runner", "author", "admin"];
export const may = (scope) => scopes.indexOf(session.who?.scope) >= scopes.indexOf(scope);

// budgetFields are those of a budget, as people give them: nanoseconds as minutes.
export const budgetFields = [
  ["evaluations", "Evaluations", 1, "candidates at most"],
  ["time_ns", "Minutes", 60e9, "of wall time, over all resumptions"],
  ["target", "Target", 1, "speedup over the baseline that is enough"],
  ["patience", "Patience", 1, "candidates without a new best"],
  ["cost_per_hour", "Cost of an hour", 1, "of the machine"],
  ["max_cost", "Cost at most", 1, "of the search"],
];

// budgetInputs makes the fields of a budget.
export function budgetInputs(prefix, budget = {}) {
  return h("fieldset", { class: "fields", "data-field": "body.budget" }, h("legend", {}, "Budget"),
    h("p", { class: "soft" }, "The limit that is reached first ends the search. An empty field sets none."),
    budgetFields.map(([name, label, unit, hint]) => field(`${prefix}${name}`, `body.budget.${name}`, label, hint,
      { type: "number", min: 0, step: unit === 1 && hint.startsWith("candidates") ? 1 : "any", inputmode: "decimal", value: budget[name] ? String(budget[name] / unit) : "" })));
}

// budgetOf reads them.
export function budgetOf(root, prefix) {
  const out = {};
  for (const [name, , unit] of budgetFields) {
    const text = root.querySelector(`#${prefix}${name}`).value.trim();
    if (text !== "") out[name] = Number(text) * unit;
  }
  return out;
}

// field is a labelled input, where errors about `path` are shown: names of the field, the first one that of the body.
export function field(id, path, label, hint, props, tag = "input", ...children) {
  return h("div", { class: "field", "data-field": path }, h("label", { for: id }, label),
    h(tag, { id, name: id, "aria-describedby": `${id}-hint ${id}-error`, ...props }, ...children),
    hint ? h("span", { class: "soft", id: `${id}-hint` }, hint) : null, h("span", { class: "error", id: `${id}-error` }));
}

// refused says whether inputs of a form have values that they do not take, and tells all of them.
export function refused(root, rest) {
  clearErrors(root, rest);
  const wrong = [...root.querySelectorAll("input,select,textarea")].filter((i) => !i.validity.valid && !i.closest("[hidden]"));
  for (const input of wrong) {
    tell(input.closest("[data-field]"), `${input.validationMessage}${/[.!]$/.test(input.validationMessage) ? "" : "."}`);
  }
  wrong[0]?.focus();
  return wrong.length > 0;
}

// tell puts what is wrong at a field, and gives its first input.
function tell(at, message) {
  const place = at?.querySelector(":scope > .error") || at?.querySelector(".error");
  if (!place) return null;
  place.textContent = [place.textContent, message].filter(Boolean).join("; ");
  const input = at.querySelector("input,select,textarea");
  input?.setAttribute("aria-invalid", "true");
  for (let box = at.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  return input;
}

// showErrors puts what a problem says at the fields that it names, what names none into
// `rest`, and the focus on the first that is wrong.
export function showErrors(root, rest, err) {
  clearErrors(root, rest);
  let first = null;
  const left = [];
  for (const e of err.problem?.errors || []) {
    let path = e.location || "";
    let at = null;
    // The field itself, or the smallest group that it is in.
    while (path && !at) {
      at = root.querySelector(`[data-field~="${CSS.escape(path)}"]`);
      path = path.replace(/(\.|\[)[^.[]*$|^[^.[]*$/, "");
    }
    const input = tell(at, e.message);
    if (!input) left.push(`${e.location ? `${e.location}: ` : ""}${e.message}`);
    first ||= input;
  }
  rest.replaceChildren(h("p", {}, err.message), left.length ? h("ul", {}, left.map((t) => h("li", {}, t))) : "");
  rest.hidden = false;
  (first || rest).focus();
}

export function clearErrors(root, rest) {
  for (const e of root.querySelectorAll(".error")) e.textContent = "";
  for (const e of root.querySelectorAll("[aria-invalid]")) e.removeAttribute("aria-invalid");
  rest.hidden = true;
}

// actions are the buttons for a campaign as it is. done() is called
// when it has changed, note is where outcomes are told.
export function actions(c, { done, note, signal }) {
  const ended = ["finished", "failed", "cancelled"].includes(c.state);
  const act = async (what) => {
    try {
      await what();
      note.replaceChildren();
    } catch (err) {
      if (err.name === "AbortError") return;
      note.replaceChildren(h("p", { class: "problem", role: "alert" }, err instanceof Failure && err.status === 412 ? "The campaign has changed meanwhile. It is shown as it is now: try again if you still want this." : err.message));
    }
    await done();
  };
  const path = `/v1/campaigns/${encodeURIComponent(c.id)}`;
  const button = (name, label, what, kind) => h("button", { type: "button", id: `action-${name}`, class: kind, onclick: what }, label);
  const list = [];
  if (may("runner")) {
    if (!ended && c.state !== "paused") list.push(button("pause", "Pause", () => act(async () => { await post(`${path}/pause`); say("Pausing: what is in flight ends first."); })));
    if (c.state === "paused" || c.state === "failed") list.push(button("resume", "Resume", () => act(async () => { await post(`${path}/resume`); say("Resumed."); })));
    if (!ended) {
      list.push(button("cancel", "Cancel", async () => {
        if (await ask("Cancel this campaign?", h("p", {}, "It ends at once, for good. What it has found stays."), "Cancel the campaign", true)) act(async () => { await post(`${path}/cancel`); say("Cancelled."); });
      }, "danger"));
    }
    if (c.state !== "cancelled") list.push(button("change", "Budget and priority", () => change(path, act, note)));
  }
  if (c.best && may("runner")) {
    list.push(button("verify", "Verify the best", (e) => verify(e.target, note, signal, c.best, done)));
    list.push(button("export", "Export as a library", (e) => exported(e.target, note, signal, c)));
  }
  if (c.log) {
    list.push(button("report", "Save the report", async (e) => {
      note.replaceChildren(h("p", { class: "working", role: "status" }, "The report is being written …"));
      e.target.disabled = true;
      await act(async () => { say(`Saved as ${await download(`${path}/report`)}.`); });
      e.target.disabled = false;
    }));
  }
  return list;
}

async function change(path, act, note) {
  let c;
  let match;
  try {
    [c, match] = await getTagged(path); // what is changed is what the dialog shows
  } catch (err) {
    note.replaceChildren(problem(err));
    return;
  }
  const content = h("div", {}, budgetInputs("change-", c.budget),
    field("change-priority", "body.priority", "Priority", "the larger is run first, from -100 to 100", { type: "number", min: -100, max: 100, step: 1, value: String(c.priority || 0) }));
  const form = await ask("Budget and priority", content, "Change");
  if (form) act(() => patch(path, { budget: budgetOf(form, "change-"), priority: Number(form.querySelector("#change-priority").value || 0) }, match));
}

// verify has a candidate judged again.
export const verify = (button, note, signal, id, done) => slow(button, note, signal, "Verifying", () => post(`/v1/candidates/${encodeURIComponent(id)}/verify`, {}), done);

// exported saves the proven winners of a kernel for the shapes and the device of one result.
export const exported = (button, note, signal, { kernel, shapes, device, backend }) => slow(button, note, signal, "Exporting", () => post("/v1/exports", { kernels: [kernel], shapes: shapes || [], devices: device ? [device] : [], lang: backend === "cuda" ? "cuda" : "c" }));

// slow runs an operation, says how it goes, and saves what it made.
async function slow(button, note, signal, doing, start, done = () => {}) {
  const status = h("p", { class: "working", role: "status" }, `${doing} …`);
  note.replaceChildren(status);
  button.disabled = true;
  try {
    const op = await operation(await start(), signal, (op) => { status.textContent = `${doing}: ${op.state === "queued" ? "waits for its turn" : preparing(op) || "runs"} …`; });
    const saved = op.download ? await download(op.download) : "";
    const r = op.result || {};
    const text = saved ? `Saved as ${saved}.` : op.kind === "verify" ? (r.reproduced ? `Reproduced. ${r.reason || ""}` : `Not reproduced: ${r.disturbed || r.reason || "see the result"}.`) : "Done.";
    note.replaceChildren(h("div", { class: "done", role: "status", id: "outcome" }, h("p", {}, text),
      op.result && !saved ? h("details", {}, h("summary", {}, "The whole result"), h("pre", { tabindex: 0 }, JSON.stringify(op.result, null, 2))) : null));
    await done();
  } catch (err) {
    if (err.name === "AbortError") return;
    note.replaceChildren(h("div", { class: "problem", role: "alert", id: "outcome" }, h("p", {}, err.message)));
  }
  button.disabled = false;
}
