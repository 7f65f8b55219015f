"use strict";
// Draws the panels from the embedded data, and redraws on a change of axis or colour scheme.
(() => {
  const data = JSON.parse(document.getElementById("figures-data").textContent);
  const symbols = {
    o: "circle", s: "square", "^": "triangle-up", D: "diamond", v: "triangle-down", P: "cross",
    X: "x", "<": "triangle-left", ">": "triangle-right", "*": "star", p: "pentagon",
  };

  // Rows to panels of curves, in the order in which they first appear.
  function grouped(rows, field) {
    const groups = new Map();
    for (const row of rows) {
      if (!groups.has(String(row[field]))) groups.set(String(row[field]), []);
      groups.get(String(row[field])).push(row);
    }
    return [...groups];
  }

  function curveOf(method, rows) {
    const { colour, marker, dash } = data.styles[method];
    const column = (field) => rows.map((row) => row[field] ?? null);
    const axes = Object.keys(data.labels).filter((field) => field !== data.metric);
    return {
      method, colour, symbol: symbols[marker],
      dash: dash.map((length) => `${2 * length}px`).join(",") || "solid",
      x: Object.fromEntries(axes.map((field) => [field, column(field)])),
      median: column(`${data.metric}_median`),
      q25: column(`${data.metric}_q25`), q75: column(`${data.metric}_q75`),
    };
  }

  data.panels = grouped(data.rows, "panel").map(([title, rows]) => (
    { title, curves: grouped(rows, "method").map(([method, found]) => curveOf(method, found)) }
  ));
  const frames = [...document.querySelectorAll(".plot")];
  const logX = document.getElementById("log-x");
  const logY = document.getElementById("log-y");
  const radios = [...document.querySelectorAll('input[name="x-axis"]')];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const hidden = new Set();
  const glyphs = {
    circle: "●", square: "■", "triangle-up": "▲", diamond: "◆", "triangle-down": "▼", cross: "✚",
    x: "✖", "triangle-left": "◀", "triangle-right": "▶", star: "★", pentagon: "⬟",
  };

  const faint = (colour, alpha) => {
    const part = (start) => parseInt(colour.slice(start, start + 2), 16);
    return `rgba(${part(1)},${part(3)},${part(5)},${alpha})`;
  };

  // A logarithmic axis has no place for 0 or below.
  const shown = (values, log) => values.map((v) => (v === null || (log && v <= 0) ? null : v));

  function band(curve, x, y) {
    const points = curve.x[x]
      .map((at, i) => [at, curve.q25[i], curve.q75[i]])
      .filter((p) => p.every((v) => v !== null) && !(y && p[1] <= 0) && !(logX.checked && p[0] <= 0));
    const there = points.map((p) => p[0]);
    return {
      x: [...there, ...there.slice().reverse()],
      y: [...points.map((p) => p[2]), ...points.map((p) => p[1]).reverse()],
      type: "scatter", mode: "lines", fill: "toself", fillcolor: faint(curve.colour, 0.16),
      line: { width: 0 }, visible: !hidden.has(curve.method), hoverinfo: "skip",
    };
  }

  function line(curve, x, y) {
    const n = curve.median.length;
    const every = Math.max(1, Math.floor(n / 10));
    return {
      x: shown(curve.x[x], logX.checked), y: shown(curve.median, y), name: curve.method,
      type: "scatter", mode: "lines+markers", visible: !hidden.has(curve.method),
      line: { color: curve.colour, dash: curve.dash, width: 2.2 },
      marker: {
        color: curve.colour, symbol: curve.symbol, opacity: 1, line: { width: 0 },
        size: curve.median.map((_, i) => (i % every && i !== n - 1 ? 0 : 9)),
      },
      hovertemplate: "%{fullData.name}<br>%{x:,.4~g} → %{y:.3~g}<extra></extra>",
    };
  }

  // All panels share the y axis, as in print, so that heights compare.
  function shared(y) {
    const values = data.panels.flatMap((p) => p.curves)
      .flatMap((c) => [...c.median, ...c.q25, ...c.q75])
      .filter((v) => v !== null && (!y || v > 0))
      .map((v) => (y ? Math.log10(v) : v));
    if (!values.length) return undefined;
    const [low, high] = values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    const room = 0.04 * (high - low) || 0.5;
    return [low - room, high + room];
  }

  function layout(x, y) {
    const ink = css("--ink");
    const range = shared(y);
    // Few values in all, such as numbers of labels: each is a tick.
    const values = [...new Set(data.panels.flatMap((p) => p.curves).flatMap((c) => c.x[x]))].filter((v) => v > 0);
    const ticks = logX.checked && values.length <= 8 ? { tickvals: values, ticktext: values.map(String) } : { dtick: logX.checked ? 1 : undefined };
    const decades = y && range && range[1] - range[0] > 2; // otherwise 2 and 5 are labelled too
    const axis = {
      gridcolor: css("--grid"), linecolor: css("--line"), zeroline: false, automargin: true,
      ticks: "outside", tickcolor: css("--line"), exponentformat: "power",
    };
    return {
      xaxis: { ...axis, title: { text: data.labels[x] }, type: logX.checked ? "log" : "linear", ...ticks, rangemode: "tozero" },
      yaxis: { ...axis, title: { text: data.labels[data.metric] }, type: y ? "log" : "linear", range, dtick: decades ? 1 : undefined },
      font: { color: ink, size: 14, family: "system-ui, sans-serif" },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      hoverlabel: { bgcolor: css("--panel"), bordercolor: css("--line"), font: { color: ink } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--soft"), activecolor: css("--accent") },
      margin: { l: 60, r: 20, t: 30, b: 50 }, height: 420, hovermode: "closest",
      uirevision: `${x}${logX.checked}${y}`,
    };
  }

  function draw() {
    const x = radios.find((radio) => radio.checked).value;
    const y = logY.checked;
    tellAbsent(x);
    frames.forEach((frame, i) => {
      const { curves } = data.panels[i];
      const traces = [...curves.map((c) => band(c, x, y)), ...curves.map((c) => line(c, x, y))];
      Plotly.react(frame, traces, layout(x, y), {
        responsive: true, displaylogo: false,
        modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
      });
    });
  }

  function tellAbsent(x) {
    const spends = (c) => c.x[x].some((v) => v !== null && (!logX.checked || v > 0));
    const curves = data.panels.flatMap((p) => p.curves);
    const names = new Set(curves.map((c) => c.method));
    curves.filter(spends).forEach((c) => names.delete(c.method));
    document.getElementById("absent").textContent = names.size
      ? `Without a place on this axis, since they spend none: ${[...names].join("; ")}.` : "";
  }

  function legend() {
    const curves = new Map(data.panels.flatMap((p) => p.curves).map((c) => [c.method, c]));
    for (const curve of curves.values()) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      const dash = curve.dash === "solid" ? "" : curve.dash.replaceAll("px", "");
      // Colour, dash and glyph come from the library's own table, not from the user's data.
      button.innerHTML = `<svg width="44" height="16" aria-hidden="true"><line x1="0" x2="44" y1="8" y2="8" stroke="${curve.colour}" stroke-width="2.2" stroke-dasharray="${dash}"/><text x="22" y="12.5" text-anchor="middle" font-size="13" fill="${curve.colour}">${glyphs[curve.symbol]}</text></svg>`;
      button.append(curve.method);
      button.addEventListener("click", () => {
        const show = hidden.delete(curve.method);
        if (!show) hidden.add(curve.method);
        button.setAttribute("aria-pressed", String(show));
        draw();
      });
      document.getElementById("legend").append(button);
    }
  }

  radios.forEach((radio, i) => radio.addEventListener("change", () => {
    logX.checked = i > 0; // methods differ in the other costs by orders of magnitude
    draw();
  }));
  logX.addEventListener("change", draw);
  logY.addEventListener("change", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  matchMedia("print").addEventListener("change", draw);
  legend();
  draw();
})();
