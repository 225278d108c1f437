// A form that submits a campaign, made from the kernel's definition.

import { count, empty, figure, h, problem, say, table, title } from "./dom.js";
import { get, post, whole } from "./api.js";
import { away } from "./fleet.js";
import { budgetInputs, budgetOf, clearErrors, field, may, refused, showErrors } from "./actions.js";

const recorded = "\u0000recorded";

export async function submit({ el, signal, query, keep }) {
  el.append(title("Submit a campaign"));
  if (!may("runner")) {
    el.append(empty("Your token may look and not submit: that needs the scope runner."));
    return;
  }
  const [list, devices, all] = await Promise.all([whole("/v1/kernels", signal), whole("/v1/devices", signal), get("/v1/fleet", signal)]);
  // Of the fleet, one entry for each kind of device that workers have.
  const hosts = (all.hosts || []).filter((x) => !away(x));
  // What neither a device of the service nor a worker can run is not offered.
  const able = new Set([...devices.map((d) => d.backend), ...hosts.map((x) => x.backend)]);
  const runs = (k) => !k.backends?.length || k.backends.some((b) => able.has(b));
  const kinds = [...new Map(hosts.filter((x) => x.backend !== "replay").map((x) => [x.device.fingerprint, x])).values()];
  const workers = (n) => (n === 1 ? "1 worker" : `${count(n)} workers`);
  const rest = h("div", { id: "form-error", class: "problem", role: "alert", tabindex: -1, hidden: true });
  const made = h("div", { id: "of-kernel" });
  const kernel = h("select", { id: "kernel", name: "kernel", "aria-describedby": "kernel-hint kernel-error", onchange: () => changed() },
    list.map((k) => h("option", { value: k.name, disabled: !runs(k) }, runs(k) ? k.name : `${k.name} (needs ${k.backends.join(" or ")})`)), h("option", { value: recorded }, "a recorded table"));
  const button = h("button", { type: "submit", class: "primary", id: "submit" }, "Submit");
  // A key for each form: sending it twice submits one campaign.
  let key = crypto.randomUUID?.() || String(Math.random());
  const form = h("form", { class: "submit", novalidate: true, onsubmit: send },
    h("div", { class: "field", "data-field": "body.kernel" }, h("label", { for: "kernel" }, "Kernel"), kernel, h("span", { class: "soft", id: "kernel-hint" }), h("span", { class: "error", id: "kernel-error" })),
    made, budgetInputs("budget-", { time_ns: 120e9 }),
    h("details", {}, h("summary", {}, "Search, seed and priority"), h("div", { class: "fields" },
      field("strategy", "body.strategy", "Strategy", "empty: evolution", { type: "text", placeholder: "evolution", autocomplete: "off" }),
      field("seed", "body.seed", "Seed", "fixes the path of the search", { type: "number", step: 1, placeholder: "1" }),
      field("window", "body.window", "Window", "proposals in flight", { type: "number", min: 0, step: 1, placeholder: "default" }),
      field("finalists", "body.finalists", "Finalists", "measured again at the end; 0: no finals", { type: "number", min: 0, step: 1, placeholder: "default" }),
      field("sanitize", "body.sanitize", "Sanitized", "contenders: slow candidates are timed unsanitized, and never win", {}, "select", h("option", { value: "" }, "all"), h("option", { value: "contenders" }, "contenders")),
      field("warm_start", "body.warm_start", "Warm start", "begin with so many earlier winners; 0: none", { type: "number", min: 0, step: 1, placeholder: "default" }),
      field("priority", "body.priority", "Priority", "the larger is run first", { type: "number", min: -100, max: 100, step: 1, placeholder: "0" }),
      field("strict", "body.strict", "Strict", "refuse a kernel that proves nothing at these shapes", { type: "checkbox" }),
      field("sweep", "body.sweep", "Sweep", "measure every genome, or a sample", { type: "checkbox" }))),
    rest, h("div", { class: "buttons" }, button));
  el.append(form);
  form.querySelector("details").addEventListener("invalid", (e) => { e.currentTarget.open = true; }, true);
  const wanted = query.get("kernel");
  const first = list.find((k) => k.name === wanted && runs(k)) || list.find(runs);
  kernel.value = first ? first.name : recorded;
  await load();

  // Another kernel is in the address, and what fails in passing is asked for again.
  async function changed() {
    keep({ kernel: kernel.value === recorded ? "" : kernel.value });
    try {
      await load();
    } catch (err) {
      if (err.name !== "AbortError") made.replaceChildren(problem(err, changed));
    }
  }

  function checks(legend, path, name, all, on, note, backends = () => null) {
    return h("fieldset", { class: "field", "data-field": path }, h("legend", {}, legend), note ? h("p", { class: "soft" }, note) : null,
      h("div", { class: "checks" }, all.map(([value, text], i) => h("label", { for: `${name}-${i}`, "data-backends": backends(value)?.join(" ") }, h("input", { type: "checkbox", id: `${name}-${i}`, name, value, checked: on(value) }), h("span", {}, text)))), h("span", { class: "error" }));
  }

  async function load() {
    clearErrors(form, rest);
    if (kernel.value === recorded) {
      form.querySelector("#kernel-hint").textContent = "Results are taken from a table; nothing runs.";
      const replays = hosts.filter((x) => x.backend === "replay").length;
      made.replaceChildren(field("table", "body.table", "Table", "a path on the server's disk", { type: "text", autocomplete: "off", spellcheck: "false" }),
        replays ? field("device", "body.device", "Device", "", {}, "select", h("option", { value: "" }, "this service"), h("option", { value: "fleet" }, `fleet: ${workers(replays)}`)) : "");
      return;
    }
    const name = kernel.value;
    const k = await get(`/v1/kernels/${encodeURIComponent(name)}`, signal);
    if (kernel.value !== name) return;
    form.querySelector("#kernel-hint").textContent = [k.builtin ? "" : "Not built in.", k.description ? `${k.description}.` : "", k.space_size ? `${figure(k.space_size)} genomes.` : ""].filter(Boolean).join(" ");
    const shapes = (k.shapes || []).filter((x) => x.uses.includes("tune") && x.backends.some((b) => able.has(b)));
    const backends = (k.backends || []).filter((b) => able.has(b));
    const gpus = devices.filter((d) => d.backend === "cuda");
    const of = (implementation) => [...new Set((k.genes || []).filter((g) => g.implementation === implementation).map((g) => g.backend))];
    const backend = field("backend", "body.backend", "Backend", "", { onchange: () => fit() }, "select", h("option", { value: "" }, "auto"), backends.map((b) => h("option", { value: b }, b)));
    // What another backend has is not offered.
    const fit = () => {
      const b = backend.querySelector("select").value;
      for (const label of made.querySelectorAll("[data-backends]")) {
        label.hidden = !label.dataset.backends.split(" ").some((x) => (b === "" ? able.has(x) : x === b));
        if (label.hidden) label.querySelector("input").checked = false;
      }
    };
    made.replaceChildren(
      h("div", { class: "fields" }, backend,
        gpus.length || kinds.length ? field("device", "body.device", "Device", "", {}, "select", h("option", { value: "" }, "any"), gpus.map((d) => h("option", { value: d.facts?.uuid || d.name }, `${d.name} ${d.facts?.uuid || ""}`)),
          kinds.length ? h("option", { value: "fleet" }, "fleet") : null,
          kinds.map((x) => h("option", { value: `fleet:${x.device.fingerprint}` }, `fleet: ${x.device.name}, ${workers(hosts.filter((o) => o.device.fingerprint === x.device.fingerprint).length)}`))) : null),
      shapes.length ? checks("Shapes", "body.shapes", "shape", shapes.map((x) => [x.name, `${x.name} (${k.dims.map((d) => `${d} ${count(x.dims[d])}`).join(", ")})`]), (v) => v === shapes[0].name, "They are tuned together.", (v) => shapes.find((x) => x.name === v).backends) : "",
      (k.implementations || []).length > 1 ? checks("Implementations", "body.implementations", "implementation", k.implementations.map((x) => [x, x]), () => false, "None chosen: all that the backend can run.", of) : "",
      (k.genes || []).length ? h("details", {}, h("summary", {}, `${k.genes.length} genes`), table("Genes", ["Implementation", "Backend", "Gene", "Values", "When"], k.genes.map((g) => [g.implementation, g.backend, g.name, g.values.map(String).join(", "), g.when || ""]))) : "");
    fit();
  }

  async function send(e) {
    e.preventDefault();
    clearErrors(form, rest);
    if (refused(form, rest)) return;
    const body = { budget: budgetOf(form, "budget-") };
    const chosen = (name) => [...form.querySelectorAll(`input[name="${name}"]:checked`)].map((i) => i.value);
    if (kernel.value === recorded) {
      body.backend = "replay";
      body.table = form.querySelector("#table").value.trim();
      if (form.querySelector("#device")?.value) body.device = form.querySelector("#device").value;
    } else {
      body.kernel = kernel.value;
      for (const [path, name] of [["shapes", "shape"], ["implementations", "implementation"]]) if (chosen(name).length) body[path] = chosen(name);
      for (const name of ["backend", "device"]) if (form.querySelector(`#${name}`)?.value) body[name] = form.querySelector(`#${name}`).value;
    }
    if (form.querySelector("#strategy").value.trim()) body.strategy = form.querySelector("#strategy").value.trim();
    for (const name of ["seed", "window", "finalists", "warm_start", "priority"]) {
      const text = form.querySelector(`#${name}`).value.trim();
      if (text !== "") body[name] = Number(text);
    }
    if (form.querySelector("#sanitize").value) body.sanitize = form.querySelector("#sanitize").value;
    for (const name of ["strict", "sweep"]) if (form.querySelector(`#${name}`).checked) body[name] = true;
    button.disabled = true;
    try {
      const c = await post("/v1/campaigns", body, { key });
      say("Submitted.");
      location.hash = `#/campaigns/${encodeURIComponent(c.id)}`;
    } catch (err) {
      button.disabled = false;
      if (err.status > 0) key = crypto.randomUUID?.() || String(Math.random());
      showErrors(form, rest, err);
    }
  }
}
