// Tokens, and who did what: for admins.

import { ask, badge, empty, h, problem, table, title, when } from "./dom.js";
import { get, post, remove, whole } from "./api.js";
import { clearErrors, field, showErrors } from "./actions.js";

export async function admin({ el, signal, again }) {
  el.append(title("Admin"));
  const newest = get("/v1/audit", signal);
  newest.catch(() => {}); // it is awaited below
  const tokens = await whole("/v1/tokens", signal);
  const rest = h("div", { class: "problem", role: "alert", tabindex: -1, hidden: true });
  const made = h("div", { role: "status" });
  const form = h("form", { novalidate: true, onsubmit: async (e) => {
    e.preventDefault();
    clearErrors(form, rest);
    const lasts = Number(form.querySelector("#token-days").value);
    const body = { name: form.querySelector("#token-name").value.trim(), scope: form.querySelector("#token-scope").value };
    if (lasts > 0) body.expires = new Date(Date.now() + lasts * 864e5).toISOString();
    try {
      const t = await post("/v1/tokens", body);
      made.replaceChildren(h("div", { class: "done" }, h("p", {}, `The token of ${t.name}. It is shown this once:`), h("pre", { id: "secret", tabindex: 0 }, t.secret), h("button", { type: "button", onclick: again }, "I have kept it")));
      made.querySelector("pre").focus();
    } catch (err) {
      showErrors(form, rest, err);
    }
  } }, h("fieldset", { class: "fields" }, h("legend", {}, "A new token"),
    field("token-name", "body.name", "Name", "who uses it", { type: "text", autocomplete: "off" }),
    field("token-scope", "body.scope", "Scope", "an author's kernels run code on the server; a worker may evaluate, and nothing else", {}, "select", ["viewer", "runner", "author", "admin", "worker"].map((x) => h("option", { value: x }, x))),
    field("token-days", "body.expires", "Days", "until it expires; empty: never", { type: "number", min: 0, step: "any", value: "90" })), rest, h("button", { type: "submit", class: "primary" }, "Make a token"));
  const past = (t) => t && new Date(t).getTime() < Date.now() && new Date(t).getUTCFullYear() > 1971;
  el.append(h("section", {}, h("h2", {}, "Tokens"), tokens.length ? table("Tokens", ["Name", "Scope", "Created", "Expires", "Last used", ""], tokens.map((t) => [
    t.name, t.scope, when(t.created), t.expires ? when(t.expires) : "never", when(t.used),
    past(t.revoked) ? badge({ text: "revoked", kind: "idle" }) : past(t.expires) ? badge({ text: "expired", kind: "idle" }) : h("button", { type: "button", class: "danger", onclick: async () => {
      if (!(await ask(`Revoke the token of ${t.name}?`, h("p", {}, "Who uses it can do nothing any more."), "Revoke", true))) return;
      await remove(`/v1/tokens/${encodeURIComponent(t.id)}`).catch((err) => el.prepend(problem(err)));
      again();
    } }, "Revoke")])) : empty("No tokens."), made, form));
  const audit = h("section", {}, h("h2", {}, "Audit"));
  el.append(audit);
  let next = "";
  const rows = [];
  const box = h("div");
  const more = h("button", { type: "button", hidden: true, onclick: () => load() }, "Older");
  audit.append(box, more);
  async function load() {
    const page = await (next ? get(`/v1/audit?cursor=${encodeURIComponent(next)}`, signal) : newest);
    next = page.next;
    for (const a of page.items || []) rows.push([when(a.time), a.token, a.from, a.action, String(a.status), h("span", { class: "mono" }, a.request)]);
    box.replaceChildren(rows.length ? table("Audit", ["Time", "Token", "From", "Action", "Status", "Request"], rows, [4]) : empty("Nothing yet."));
    more.hidden = !next;
  }
  await load();
}
