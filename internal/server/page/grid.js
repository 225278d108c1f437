// A table of any length, of which only the visible rows exist.

import { h } from "./dom.js";

const rowHeight = 30;

// grid makes one: columns are {name, width, num, sort}, cells(i) gives the texts of the row at
// position i, opened(i) is what Enter and a click do. sorted(column) is called by the heads.
// The result has set(n), which says how many rows there are and draws them.
export function grid({ label, columns, cells, opened, sorted, rows = 14 }) {
  let n = 0;
  let at = 0; // the row that has the focus
  const template = columns.map((c) => c.width || "minmax(6rem,1fr)").join(" ");
  const heads = columns.map((c, i) => h("div", { role: "columnheader", class: c.num ? "num" : undefined, "aria-colindex": i + 1 },
    c.sort ? h("button", { type: "button", class: "head", onclick: () => sorted(i) }, c.name) : c.name));
  const head = h("div", { role: "row", class: "grid-row grid-head", "aria-rowindex": 1 }, heads);
  head.style.gridTemplateColumns = template;
  const body = h("div", { class: "grid-body", role: "rowgroup" });
  const el = h("div", { class: "grid-box", role: "grid", tabindex: 0, "aria-label": label, "aria-colcount": columns.length },
    h("div", { role: "rowgroup", class: "grid-heads" }, head), body);
  let due = 0;
  let drawn = "";
  const draw = () => {
    due = 0;
    const first = Math.max(0, Math.floor(el.scrollTop / rowHeight) - 4);
    const last = Math.min(n, first + rows + 10);
    const now = `${first} ${last} ${at}`;
    if (now === drawn) return;
    drawn = now;
    const list = [];
    for (let i = first; i < last; i++) {
      const row = h("div", { role: "row", class: i === at ? "grid-row at" : "grid-row", "aria-rowindex": i + 2, id: `${label.replace(/\W/g, "")}-${i}`, "aria-selected": i === at ? "true" : undefined, onclick: () => { at = i; opened?.(i); } },
        cells(i).map((c, k) => h("div", { role: "gridcell", class: columns[k].num ? "num" : undefined, "aria-colindex": k + 1 }, c)));
      row.style.gridTemplateColumns = template;
      row.style.top = `${i * rowHeight}px`;
      list.push(row);
    }
    body.replaceChildren(...list);
    if (n) el.setAttribute("aria-activedescendant", `${label.replace(/\W/g, "")}-${at}`);
  };
  el.addEventListener("scroll", () => { due ||= requestAnimationFrame(draw); });
  el.addEventListener("keydown", (e) => {
    if (e.target !== el) return;
    const move = { ArrowDown: 1, ArrowUp: -1, PageDown: rows - 1, PageUp: 1 - rows, Home: -n, End: n }[e.key];
    if (e.key === "Enter" && n) opened?.(at);
    else if (move === undefined) return;
    else at = Math.max(0, Math.min(n - 1, at + move));
    e.preventDefault();
    const top = at * rowHeight;
    const view = el.clientHeight - 2 * rowHeight;
    if (top < el.scrollTop) el.scrollTop = top;
    else if (top > el.scrollTop + view) el.scrollTop = top - view;
    draw();
  });
  return {
    el,
    set(count) {
      n = count;
      at = Math.min(at, Math.max(0, n - 1));
      el.setAttribute("aria-rowcount", n + 1);
      body.style.height = `${n * rowHeight}px`;
      el.style.height = `${Math.min(rows, Math.max(2, n + 1)) * rowHeight + 18}px`;
      drawn = "";
      draw();
    },
    mark(column, down) {
      heads.forEach((el, i) => (i === column ? el.setAttribute("aria-sort", down ? "descending" : "ascending") : el.removeAttribute("aria-sort")));
    },
  };
}
