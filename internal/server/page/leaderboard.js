// The best of each kernel, device and set of shapes.

import { badge, confidence, count, empty, h, ratio, short, table, time, title } from "./dom.js";
import { whole } from "./api.js";

export async function leaderboard({ el, signal, on, again }) {
  el.append(title("Leaderboard"), h("p", { class: "soft" }, "~ means that nothing is proven: finals have not found it to be faster than the baseline by more than noise."));
  const all = await whole("/v1/leaderboard", signal);
  if (!all.length) {
    el.append(empty("Nothing has been measured yet. ", h("a", { href: "#/submit" }, "Submit a campaign")));
    return;
  }
  const box = h("div");
  const choose = (id, label, get) => {
    const list = [...new Set(all.map(get))].sort();
    return h("select", { id, "aria-label": label, onchange: draw }, h("option", { value: "" }, `all ${label}`), list.map((v) => h("option", { value: v }, v)));
  };
  const kernel = choose("by-kernel", "kernels", (r) => r.kernel);
  const device = choose("by-device", "devices", (r) => r.device_name);
  const shape = h("input", { id: "by-shape", type: "search", placeholder: "Shape", "aria-label": "Shape", oninput: draw });
  const sum = h("p", { class: "soft", role: "status" });
  el.append(h("div", { class: "tools" }, kernel, device, shape), sum, box);
  function draw() {
    const list = all.filter((r) => (!kernel.value || r.kernel === kernel.value) && (!device.value || r.device_name === device.value) && (!shape.value || r.shapes.join(" ").includes(shape.value)));
    sum.textContent = `${count(list.length)} of ${count(all.length)}${list.length > 500 ? ": the first 500 are shown, choose a kernel or a device" : ""}`;
    box.replaceChildren(table("Leaderboard", ["Kernel", "Device", "Shapes", "Speedup", "Confidence", "Time", "Baseline", "Candidate", "Campaign"], list.slice(0, 500).map((r) => [
      r.kernel, r.device_name || r.device, r.shapes.join(" "), `${r.proven && r.significant ? "" : "~ "}${ratio(r.speedup)}`, badge(confidence({ ...r, significant: r.proven && r.significant })), time(r.median_ns), time(r.baseline_ns),
      h("a", { class: "mono", href: `#/candidates/${encodeURIComponent(r.candidate)}` }, short(r.candidate)), h("a", { href: `#/campaigns/${encodeURIComponent(r.campaign)}` }, r.campaign)]), [3, 5, 6]));
  }
  draw();
  on.back = again;
}
