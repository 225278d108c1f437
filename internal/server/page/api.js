// The service's API: requests with the session's token, and streams of events.

const key = "evotune-token";

export const session = {
  get token() { return sessionStorage.getItem(key) || ""; },
  set token(t) { if (t) sessionStorage.setItem(key, t); else sessionStorage.removeItem(key); },
  who: null,
  // lost is called when the service no longer takes the token.
  lost: () => {},
};

// A Failure is what the service refused, or that it does not answer (status 0).
export class Failure extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the service answers with status ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

// passing says whether an error may be gone in a while: the service does not answer, or cannot now.
export const passing = (err) => err.status === 0 || err.status === 429 || err.status >= 500;

async function send(method, path, { body, signal, headers } = {}) {
  const all = { ...headers };
  if (session.token) all.Authorization = `Bearer ${session.token}`;
  if (body !== undefined) all["Content-Type"] = "application/json";
  let resp;
  try {
    resp = await fetch(path, { method, signal, headers: all, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", credentials: "omit", redirect: "error" });
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new Failure(0, { detail: "The service does not answer. Is it running?" });
  }
  if (resp.ok) return resp;
  let problem;
  try {
    problem = await resp.json();
  } catch {
    problem = { title: resp.statusText };
  }
  if (resp.status === 401 && session.who) session.lost(problem.detail);
  throw new Failure(resp.status, problem);
}

export async function get(path, signal) {
  return (await send("GET", path, { signal })).json();
}

// patiently asks again for what is still being computed, or cannot be had now.
export async function patiently(path, signal) {
  for (;;) {
    try {
      return await get(path, signal);
    } catch (err) {
      if (!passing(err)) throw err;
      await pause(2000, signal);
    }
  }
}

// getTagged gives the body and its version, for If-Match.
export async function getTagged(path, signal) {
  const resp = await send("GET", path, { signal });
  return [await resp.json(), resp.headers.get("ETag")];
}

// post asks for something. A key makes repeating it harmless.
export async function post(path, body, { match, key: idem } = {}) {
  return change("POST", path, body, match, idem);
}

export async function patch(path, body, match) {
  return change("PATCH", path, body, match);
}

export async function remove(path) {
  return change("DELETE", path);
}

async function change(method, path, body, match, idem) {
  const headers = {};
  if (match) headers["If-Match"] = match;
  if (idem) headers["Idempotency-Key"] = idem;
  const resp = await send(method, path, { body, headers });
  const text = await resp.text();
  return text ? JSON.parse(text) : null;
}

// whole gives all parts of a list, whether it comes in parts or not.
export async function whole(path, signal, most = 10000) {
  let list = [];
  let cursor = "";
  do {
    const page = await get(path + (cursor ? `${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(cursor)}` : ""), signal);
    if (Array.isArray(page)) return page;
    list = list.concat(page.items || []);
    cursor = page.next;
  } while (cursor && list.length < most);
  return list;
}

// download saves a file. A link could not send the token.
export async function download(path) {
  const resp = await send("GET", path);
  const name = /filename="?([^";]+)"?/.exec(resp.headers.get("Content-Disposition") || "")?.[1] || path.split("/").pop();
  const url = URL.createObjectURL(await resp.blob());
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
  return name;
}

// operation waits for a slow action.
export async function operation(op, signal, tell) {
  for (let wait = 100; op.state === "queued" || op.state === "preparing"; wait = Math.min(2000, wait * 1.5)) {
    tell?.(op);
    await pause(wait, signal);
    op = await get(`/v1/operations/${encodeURIComponent(op.id)}`, signal);
  }
  if (op.state !== "finished") throw new Error(op.error || `the operation was ${op.state}`);
  return op;
}

export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => { clearTimeout(timer); reject(new DOMException("ended", "AbortError")); }, { once: true });
  });
}

// later calls f soon, and once however often it is asked to: one call ends before the next
// begins, however slow the service is. A call that fails in passing is made again.
export function later(f, ms, signal) {
  let timer = 0;
  let busy = false;
  let again = false;
  let wait = ms;
  async function run() {
    timer = 0;
    busy = true;
    again = false;
    try {
      await f();
      wait = ms;
    } catch (err) {
      if (!signal.aborted && !passing(err)) throw err;
      again = true;
      wait = Math.min(30000, 2 * wait);
    } finally {
      busy = false;
      if (again && !signal.aborted) timer = setTimeout(run, wait);
    }
  }
  return () => {
    if (busy) again = true;
    else timer ||= setTimeout(run, ms);
  };
}

// A silent service sends a comment every 15 seconds; after this time it is taken for gone.
const silence = 40000;

// stream follows events until signal aborts or the stream is done. It names the last event
// that it has seen when it comes back, so that nothing is missed. done(event) says
// whether the stream has nothing more after an event. tell hears "live", and
// "reconnecting" with the seconds until the next try.
export async function stream(path, { last = 0, event, done = () => false, tell = () => {}, signal }) {
  let wait = 250;
  let over = false;
  while (!signal.aborted) {
    try {
      await shown(signal);
    } catch {
      return;
    }
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop);
    const hide = () => { if (document.hidden) stop(); };
    document.addEventListener("visibilitychange", hide);
    let watchdog = 0;
    const alive = () => { clearTimeout(watchdog); watchdog = setTimeout(stop, silence); };
    try {
      alive();
      const headers = { Accept: "text/event-stream" };
      if (last > 0) headers["Last-Event-ID"] = String(last);
      const resp = await send("GET", path, { signal: attempt.signal, headers });
      const reader = resp.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done: end } = await reader.read();
        if (end) break;
        alive();
        tell("live");
        wait = 250;
        rest += value;
        let cut;
        while ((cut = rest.indexOf("\n\n")) >= 0) {
          const e = parse(rest.slice(0, cut));
          rest = rest.slice(cut + 2);
          if (!e) continue;
          if (e.id) last = e.id;
          over = done(e.data);
          event(e.data, e.id);
        }
      }
      if (over) return;
    } catch (err) {
      if (signal.aborted) return;
      if (err.status >= 400 && err.status < 500 && err.status !== 429) {
        tell("ended", err);
        return;
      }
    } finally {
      clearTimeout(watchdog);
      signal.removeEventListener("abort", stop);
      document.removeEventListener("visibilitychange", hide);
    }
    if (signal.aborted) return;
    if (document.hidden) continue;
    tell("reconnecting", wait / 1000);
    try {
      await pause(wait * (0.75 + Math.random() / 2), signal);
    } catch {
      return;
    }
    wait = Math.min(10000, wait * 2);
  }
}

// shown waits until the tab can be seen. One that cannot holds no stream: a browser has six
// connections to a host, for all tabs together.
export function shown(signal) {
  return new Promise((resolve, reject) => {
    if (!document.hidden) return resolve();
    const look = () => { if (!document.hidden) resolve(); };
    document.addEventListener("visibilitychange", look, { signal });
    signal.addEventListener("abort", () => reject(new DOMException("ended", "AbortError")), { once: true });
  });
}

function parse(block) {
  let id = 0;
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("id:")) id = Number(line.slice(3));
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  return data.length ? { id, data: JSON.parse(data.join("\n")) } : null;
}
