"use strict";
// Sorts a table when one of its headings is pressed.
(() => {
  for (const table of document.querySelectorAll("table:not(.plain)")) {
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
