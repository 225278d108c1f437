// The dashboard: who is logged in, which view is open, and whether the service answers.

import { h, problem, say, title } from "./dom.js";
import { get, passing, pause, session, stream } from "./api.js";
import { forgetColors } from "./charts.js";
import { campaigns } from "./campaigns.js";
import { campaign } from "./campaign.js";
import { candidates } from "./candidates.js";
import { candidate } from "./candidate.js";
import { genes } from "./genes.js";
import { leaderboard } from "./leaderboard.js";
import { compare } from "./compare.js";
import { devices } from "./devices.js";
import { fleet } from "./fleet.js";
import { submit } from "./submit.js";
import { admin } from "./admin.js";

const byId = (id) => document.getElementById(id);
const main = byId("main");

// Routes, by what follows # in the address: links can be shared.
const routes = [
  [/^\/campaigns$/, campaigns],
  [/^\/campaigns\/([^/]+)$/, campaign],
  [/^\/campaigns\/([^/]+)\/candidates$/, candidates],
  [/^\/campaigns\/([^/]+)\/genes$/, genes],
  [/^\/candidates\/([^/]+)$/, candidate],
  [/^\/leaderboard$/, leaderboard],
  [/^\/compare$/, compare],
  [/^\/devices$/, devices],
  [/^\/fleet$/, fleet],
  [/^\/submit$/, submit],
  [/^\/admin$/, admin],
];

// find gives the view of a path and its arguments; nothing for one that no view has, such as one
// with a % that encodes nothing.
function find(path) {
  for (const [pattern, view] of routes) {
    const found = pattern.exec(path);
    if (!found) continue;
    try {
      return [view, found.slice(1).map(decodeURIComponent)];
    } catch {
      return null;
    }
  }
  return null;
}

// The open view. Each is called with a context: main's new content, an abort signal that
// ends with it, its arguments, and `on`, which the view fills with what it listens to.
let open = null;

async function show() {
  open?.abort.abort();
  if (!session.who) return login();
  const [path, query] = (location.hash.slice(1) || "/campaigns").split("?");
  const found = find(path);
  for (const a of document.querySelectorAll("#nav a")) {
    const here = path.startsWith(a.getAttribute("href").slice(1));
    if (here) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  const el = h("div", { class: "view" });
  const loading = h("p", { class: "working loading", role: "status" }, "Loading …");
  const view = { abort: new AbortController(), on: {} };
  open = view;
  main.replaceChildren(el, loading);
  window.scrollTo(0, 0);
  if (!found) {
    loading.remove();
    el.setAttribute("data-ready", "");
    el.append(title("Not found"), h("p", {}, `There is no view ${path}. `, h("a", { href: "#/campaigns" }, "Campaigns")));
    return;
  }
  const [run, args] = found;
  const state = new URLSearchParams(query || "");
  // keep writes what a view shows, such as its filters, into the address: it can be shared, and
  // outlives a reload. What is empty is left out.
  const keep = (values) => {
    for (const [name, value] of Object.entries(values)) {
      if (value) state.set(name, value);
      else state.delete(name);
    }
    if (open === view) history.replaceState(null, "", `#${path}${state.size ? `?${state}` : ""}`);
  };
  const ctx = { el, signal: view.abort.signal, args, query: state, keep, on: view.on, again: show };
  try {
    await run(ctx);
    failures = 0;
  } catch (err) {
    if (err.name === "AbortError" || open !== view || !session.who) return;
    el.append(problem(err, show));
    if (passing(err)) retry(view);
  }
  loading.remove();
  if (open === view) {
    // The heading tells people who cannot see it that the view is another, unless they went on already.
    if (!document.activeElement || document.activeElement === document.body || document.activeElement.closest("#nav")) el.querySelector("h1")?.focus({ preventScroll: true });
    el.setAttribute("data-ready", "");
  }
}

// retry opens a view again that failed in passing: as soon as the service is back, else after a
// while that grows.
let failures = 0;

function retry(view) {
  view.on.back = show;
  const wait = Math.min(30, 2 ** ++failures);
  pause(1000 * wait, view.abort.signal).then(show, () => {});
}

// Login.

function login(message) {
  for (const id of ["nav", "logout", "connection"]) byId(id).hidden = true;
  const field = h("input", { id: "token", name: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "login-error login-hint" });
  const error = h("p", { id: "login-error", class: "error", role: "alert" }, message || "");
  const button = h("button", { type: "submit", class: "primary" }, "Log in");
  const form = h("form", {
    class: "login",
    onsubmit: async (e) => {
      e.preventDefault();
      error.textContent = "";
      button.disabled = true;
      session.token = field.value.trim();
      try {
        await enter();
      } catch (err) {
        session.token = "";
        field.setAttribute("aria-invalid", "true");
        error.textContent = err.status === 401 ? "The service does not know this token, or it has expired or was revoked." : err.message;
        field.focus();
        field.select();
      }
      button.disabled = false;
    },
  }, title("Log in"), h("label", { for: "token" }, "Token"), field, error, button,
  h("p", { id: "login-hint", class: "soft" }, "The file that ", h("code", {}, "tune serve --token-file FILE"), " wrote holds an admin's token. An admin makes others. The token stays in this tab."));
  main.replaceChildren(form);
  field.focus();
}

// enter asks the service who has the token.
async function enter() {
  session.who = await get("/v1/whoami");
  byId("nav").hidden = byId("logout").hidden = byId("connection").hidden = false;
  byId("admin-link").hidden = session.who.scope !== "admin";
  byId("logout").title = `${session.who.name} (${session.who.scope}), evotune ${session.who.version}`;
  follow();
  show();
}

function leave(message) {
  session.token = "";
  session.who = null;
  following?.abort();
  open?.abort.abort();
  login(message);
}
session.lost = (detail) => leave(`The service no longer takes the token: ${detail || "log in again"}.`);

// Events of all campaigns. This one stream also shows whether the service answers.

let following = null;

function follow() {
  following?.abort();
  following = new AbortController();
  let was = "";
  stream("/v1/events", {
    signal: following.signal,
    event: (e) => open?.on.event?.(e),
    tell: (state, more) => {
      if (state === "ended") return;
      const pill = byId("connection");
      pill.dataset.state = state;
      pill.title = state === "live" ? "Events arrive as they happen." : `The service does not answer; the next try is in ${more} s.`;
      if (state === was) return;
      pill.textContent = state === "live" ? "live" : "reconnecting";
      // What was missed is asked for again, without a reload.
      if (state === "live" && was === "reconnecting") open?.on.back?.();
      was = state;
    },
  });
}

// Light and dark.

const themes = ["auto", "light", "dark"];

function paint(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `Theme: ${theme}`;
  forgetColors();
  open?.on.paint?.();
}

let theme = localStorage.getItem("evotune-theme");
if (!themes.includes(theme)) theme = "auto";
paint(theme);
byId("theme").addEventListener("click", () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  localStorage.setItem("evotune-theme", theme);
  paint(theme);
  say(`Theme: ${theme}`);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => paint(theme));
let narrow = 0;
addEventListener("resize", () => {
  if (innerWidth !== narrow) open?.on.paint?.();
  narrow = innerWidth;
});

byId("skip").addEventListener("click", (e) => {
  e.preventDefault();
  main.focus();
});
byId("logout").addEventListener("click", () => leave());
addEventListener("hashchange", show);

async function begin() {
  for (;;) {
    try {
      return await enter();
    } catch (err) {
      if (err.status === 401) return leave("The token is no longer valid.");
      main.replaceChildren(problem(err, () => location.reload()));
      if (!passing(err)) return;
      await pause(2000);
    }
  }
}

if (session.token) begin();
else login();
