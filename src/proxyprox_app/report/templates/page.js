"use strict";
// Explains terms, hides methods, changes axes, sorts tables. The page is whole without it.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const tip = document.getElementById("tip");
  const hide = () => { tip.hidden = true; };
  function show(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x - width / 2, document.documentElement.clientWidth - width - 8))}px`;
    tip.style.top = `${y - height - 10 < 8 ? y + 22 : y - height - 10}px`;
  }

  for (const term of all("[data-tip]")) {
    if (!term.dataset.tip) continue;
    const open = () => {
      const box = term.getClientRects()[0];
      show(term.dataset.tip, box.left + box.width / 2, box.top);
    };
    term.setAttribute("aria-describedby", "tip");
    for (const event of ["pointerenter", "focus", "click"]) term.addEventListener(event, open);
    for (const event of ["pointerleave", "blur"]) term.addEventListener(event, hide);
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", hide, { passive: true });

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
