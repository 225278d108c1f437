// The devices, what they are measured to be able to do, and how near the best kernels are.

import { count, empty, facts, figure, h, problem, rate, table, time, title } from "./dom.js";
import { get, passing, whole } from "./api.js";
import { roofline } from "./charts.js";

// A peak's name says its pipe, and for CPUs for how many threads it was measured.
const unitOf = (name) => (/^(memory|llc|l2|copy|read|write)\b/.test(name) ? "B/s" : name.includes("clock") ? "Hz" : "op/s");

export async function devices({ el, signal, on, again }) {
  el.append(title("Devices"));
  const [list, board] = await Promise.all([whole("/v1/devices", signal), whole("/v1/leaderboard", signal)]);
  if (!list.length) el.append(empty("This service has no devices. Those of workers on other machines are in the ", h("a", { href: "#/fleet" }, "fleet"), "."));
  // The work of a kernel is known by the campaigns of its best.
  const rooflines = new Map();
  const real = new Set(list.filter((d) => d.backend !== "replay").map((d) => d.fingerprint));
  const kernels = new Map(board.filter((row) => real.has(row.device)).slice(0, 100).map((row) => [row.campaign, row.kernel]));
  await Promise.all([...kernels].slice(0, 24).map(async ([campaign, kernel]) => {
    try {
      rooflines.set(campaign, { ...(await get(`/v1/campaigns/${encodeURIComponent(campaign)}/roofline`, signal)), kernel });
    } catch (err) {
      if (err.name === "AbortError" || passing(err)) throw err; // a kernel that is gone has no work to tell
    }
  }));
  const redraw = [];
  for (const d of list) {
    const peaks = Object.entries(d.peaks || {});
    const box = h("div");
    el.append(h("section", { class: "device" }, h("h2", {}, d.name || d.backend),
      facts([["Backend", d.backend], ["Campaigns", d.campaigns?.length ? d.campaigns.map((id) => [h("a", { href: `#/campaigns/${encodeURIComponent(id)}` }, id), " "]) : "none now: it is free"],
        ["Measures", d.usage ? `${figure(100 * d.usage.measuring)}% of the time` : ""], ["Kept free", d.usage ? `${figure(100 * d.usage.reserved)}% of the time` : ""], ["Fingerprint", d.fingerprint],
        ...Object.entries(d.facts || {}).sort()]),
      peaks.length ? table(`Measured peaks of ${d.name}`, ["Peak", "Measured"], peaks.sort(([a], [b]) => a.localeCompare(b)).map(([name, v]) => [name, rate(v, unitOf(name))]), [1]) : null,
      h("h3", {}, "Roofline"), box));
    const here = [...rooflines.values()].filter((r) => r.device === d.fingerprint);
    const roofs = roofsOf(peaks.length ? d.peaks : here.find((r) => r.peaks)?.peaks || {});
    if (!roofs.length) {
      box.append(empty(d.backend === "replay" ? "Recorded results have no device, and no peaks." : "Peaks are measured when the first campaign runs here."));
      continue;
    }
    const points = here.flatMap(pointsOf);
    const chart = h("div");
    box.append(chart, rooflineTable(points));
    redraw.push(() => roofline(chart, { roofs, points, label: `Roofline of ${d.name}: ${count(points.length)} kernels` }));
  }
  on.paint = () => {
    try {
      redraw.forEach((f) => f());
    } catch (err) {
      el.append(problem(err, again));
    }
  };
  on.paint();
}

// roofsOf gives the roofs of a device: one for each pipe, with as many threads as do most.
export function roofsOf(peaks) {
  if (!(peaks?.memory > 0)) return [];
  const best = new Map();
  for (const [name, v] of Object.entries(peaks)) {
    if (unitOf(name) !== "op/s") continue;
    const [pipe] = name.split("/");
    if (!(best.get(pipe)?.compute > v)) best.set(pipe, { name: name.replace("/", ", threads: "), memory: peaks.memory, compute: v });
  }
  return [...best.values()].sort((a, b) => b.compute - a.compute).slice(0, 4);
}

// pointsOf are the points of a campaign's roofline that have work and time.
export function pointsOf(r) {
  return (r.points || []).filter((p) => p.intensity > 0 && p.operations_rate > 0).map((p) => ({
    ...p, kernel: r.kernel, x: p.intensity, y: p.operations_rate, href: p.candidate ? `#/candidates/${encodeURIComponent(p.candidate)}` : undefined,
    title: `${r.kernel} ${p.shape}, ${p.candidate ? "the best" : "the baseline"}: ${rate(p.operations_rate, "op/s")}`,
  }));
}

export function rooflineTable(points) {
  if (!points.length) return empty("No kernel with known work was measured here.");
  return table("Kernels under the roof", ["Kernel", "Shape", "Which", "Operations per byte", "Reached", "Memory", "Time", "At least"], points.map((p) => [
    p.kernel, p.shape, p.candidate ? h("a", { href: p.href }, "the best") : "the baseline", figure(p.x), rate(p.y, "op/s"), rate(p.bytes_rate, "B/s"), time(p.median_ns), time(p.floor_ns)]), [3, 4, 5, 6, 7]);
}
