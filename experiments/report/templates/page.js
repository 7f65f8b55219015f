"use strict";
// Hides methods, changes axes, sorts tables. The page is whole without it.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  for (const section of all("section")) {
    for (const button of all(".legend button", section)) {
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") === "false";
        button.setAttribute("aria-pressed", String(shown));
        for (const g of all("g[data-method]", section)) {
          if (g.dataset.method === button.dataset.name) g.toggleAttribute("hidden", !shown);
        }
      });
    }
    all(".axes input", section).forEach((radio, i) => radio.addEventListener("change", () => {
      for (const part of all("[data-axis]", section)) part.hidden = part.dataset.axis !== String(i);
    }));
  }

  for (const table of all("table:not(.plain)")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const numeric = head.classList.contains("num");
      const body = table.tBodies[0];
      const sorted = [...body.rows].sort((a, b) => {
        if (!numeric) return key(a).localeCompare(key(b));
        const [left, right] = [key(a), key(b)].map((k) => (k === "" ? Infinity : Number(k)));
        return left === right ? 0 : left - right;
      });
      body.append(...(down ? sorted.reverse() : sorted));
    }));
  }
})();
