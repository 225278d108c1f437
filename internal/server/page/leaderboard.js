// The best of each kernel, device and set of shapes.

import { badge, confidence, count, empty, h, order, ratio, short, table, time, title } from "./dom.js";
import { whole } from "./api.js";

// What columns are sorted by.
const values = {
  Kernel: (r) => r.kernel || "", Device: (r) => r.device_name || r.device || "", Shapes: (r) => (r.shapes || []).join(" "),
  Speedup: (r) => r.speedup || 0, Time: (r) => r.median_ns || 0, Baseline: (r) => r.baseline_ns || 0, Campaign: (r) => r.campaign || "",
};

export async function leaderboard({ el, signal, query, keep, on, again }) {
  el.append(title("Leaderboard"), h("p", { class: "soft" }, "~ means that nothing is proven: finals have not found it to be faster than the baseline by more than noise."));
  const all = await whole("/v1/leaderboard", signal);
  if (!all.length) {
    el.append(empty("Nothing has been measured yet. ", h("a", { href: "#/submit" }, "Submit a campaign")));
    return;
  }
  const box = h("div");
  const changed = () => {
    keep({ kernel: kernel.value, device: device.value, shape: shape.value });
    draw();
  };
  const choose = (name, label, get) => {
    const list = [...new Set(all.map(get))].sort();
    return h("select", { id: `by-${name}`, "aria-label": label, onchange: changed }, h("option", { value: "" }, `all ${label}`), list.map((v) => h("option", { value: v, selected: v === query.get(name) }, v)));
  };
  const kernel = choose("kernel", "kernels", (r) => r.kernel);
  const device = choose("device", "devices", (r) => r.device_name);
  const shape = h("input", { id: "by-shape", type: "search", placeholder: "Shape", "aria-label": "Shape", value: query.get("shape") || "", oninput: changed });
  const sort = order(values, query.get("sort"), (by) => { keep({ sort: by }); draw(); });
  const sum = h("p", { class: "soft", role: "status" });
  el.append(h("div", { class: "tools" }, kernel, device, shape), sum, box);
  function draw() {
    const list = all.filter((r) => (!kernel.value || r.kernel === kernel.value) && (!device.value || r.device_name === device.value) && (!shape.value || r.shapes.join(" ").includes(shape.value)));
    sum.textContent = `${count(list.length)} of ${count(all.length)}${list.length > 500 ? ": the first 500 are shown, choose a kernel or a device" : ""}`;
    box.replaceChildren(!list.length ? empty("Nothing is like this.") : table("Leaderboard", ["Kernel", "Device", "Shapes", "Speedup", "Confidence", "Time", "Baseline", "Candidate", "Campaign"], sort.sorted(list).slice(0, 500).map((r) => [
      r.kernel, r.device_name || r.device, r.shapes.join(" "), `${r.proven && r.significant ? "" : "~ "}${ratio(r.speedup)}`, badge(confidence({ ...r, significant: r.proven && r.significant })), time(r.median_ns), time(r.baseline_ns),
      h("a", { class: "mono", href: `#/candidates/${encodeURIComponent(r.candidate)}` }, short(r.candidate)), h("a", { href: `#/campaigns/${encodeURIComponent(r.campaign)}` }, r.campaign)]), [3, 5, 6], sort));
  }
  draw();
  on.back = again;
}
