"use strict";
// Draws the figures of an audit from the embedded data, in the colours of the page.
(() => {
  const data = JSON.parse(document.getElementById("figures-data").textContent);
  const frames = [...document.querySelectorAll(".plot")];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const [grey, blue, orange, green] = ["#737373", "#0072B2", "#D55E00", "#009E73"];

  const dots = (name, x, y, color, symbol, size) => ({
    name, x, y, type: "scatter", mode: "markers", marker: { color, symbol, size },
    hovertemplate: "%{x}: %{y:.3~g}<extra>%{fullData.name}</extra>",
  });

  // A logarithmic axis of whole decades: one label each, and two at least.
  function decades(text, values) {
    const logs = values.filter((v) => v !== null && v > 0).map(Math.log10);
    if (!logs.length) logs.push(0);
    const low = Math.floor(Math.min(...logs) - 0.05);
    const high = Math.ceil(Math.max(...logs) + 0.05);
    const dtick = Math.max(1, Math.floor((high - low) / 6));
    return { title: { text }, type: "log", range: [low, high], dtick };
  }

  function spectra() {
    // Below rounding error a logarithm shows noise: such values are laid on the floor.
    const floor = 1e-10 * Math.max(data.target[0], 1e-300);
    const raised = (values) => values.map((v) => Math.max(v, floor));
    const ranks = (values) => values.map((_, i) => i + 1);
    const [target, difference] = [raised(data.target), raised(data.difference)];
    return {
      traces: [
        dots("target ∇²L", ranks(target), target, grey, "circle", 7),
        dots("difference ∇²L − ∇²L̂", ranks(difference), difference, blue, "square", 7),
      ],
      xaxis: { title: { text: "rank" } },
      yaxis: decades("absolute eigenvalue", [...target, ...difference]),
    };
  }

  function limits(name, x, found, color, symbol) {
    return {
      ...dots(name, x, found.map((f) => f.estimate), color, symbol, 10),
      error_y: {
        type: "data", symmetric: false,
        array: found.map(({ estimate, high }) => (high === null ? 0 : high - estimate)),
        arrayminus: found.map(({ estimate, low }) => (low === null ? 0 : estimate - low)),
      },
    };
  }

  function path() {
    const { points, secants } = data;
    const names = points.map((_, i) => (i ? `point ${i}` : "start"));
    const between = secants.map((_, i) => `${names[i]} → ${names[i + 1]}`);
    const order = names.flatMap((name, i) => [name, ...between.slice(i, i + 1)]);
    const traces = [
      limits("H at points", names, points.map((p) => p.H), grey, "circle"),
      limits("δ at points", names, points.map((p) => p.delta), blue, "square"),
    ];
    if (secants.length) {
      traces.push(limits("H by secant", between, secants.map((s) => s.H), green, "diamond"));
      traces.push(limits("δ by secant", between, secants.map((s) => s.delta), orange, "triangle-up"));
    }
    return {
      traces, xaxis: { type: "category", categoryorder: "array", categoryarray: order },
      yaxis: { title: { text: "curvature" }, rangemode: "tozero" },
    };
  }

  function counts() {
    const names = ["SGD", "accelerated SGD", "ProxyProx", "ProxyProx, offered"];
    const [tuned, order] = [data.rehearsed, data.theory].map((found) => (
      [found.sgd, found.accelerated, found.proxyprox, found.offered].map((v) => v ?? null)
    ));
    const shown = (v) => (v === null ? "" : v >= 10 ? Math.round(v).toLocaleString("en") : v.toPrecision(2));
    // Points, not bars: a bar on a logarithmic axis has no foot to stand on.
    const trace = (name, values, color, symbol, side) => {
      const known = values.map((v) => (v > 0 ? v : null));
      return {
        ...dots(name, names, known, color, symbol, 11), mode: "markers+text", cliponaxis: false,
        text: known.map(shown), textposition: `middle ${side}`,
      };
    };
    return {
      traces: [
        trace("tuned, on the quadratic model", tuned, blue, "square", "left"),
        trace("theory, constants left out", order, grey, "circle", "right"),
      ],
      xaxis: { type: "category", range: [-0.6, names.length - 0.4] },
      yaxis: decades("target gradients", [...tuned, ...order]),
    };
  }

  const figures = [spectra(), path(), counts()];

  function layout(figure) {
    const ink = css("--ink");
    const axis = {
      gridcolor: css("--grid"), linecolor: css("--line"), zerolinecolor: css("--line"),
      automargin: true, ticks: "outside", tickcolor: css("--line"), exponentformat: "power",
    };
    return {
      xaxis: { ...axis, ...figure.xaxis }, yaxis: { ...axis, ...figure.yaxis },
      font: { color: ink, size: 14, family: "system-ui, sans-serif" },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      showlegend: figure.traces.length > 1,
      legend: { orientation: "h", y: -0.28, x: 0 },
      hoverlabel: { bgcolor: css("--panel"), bordercolor: css("--line"), font: { color: ink } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--soft"), activecolor: css("--accent") },
      margin: { l: 60, r: 20, t: 20, b: 50 }, height: 420, hovermode: "closest",
    };
  }

  function draw() {
    frames.forEach((frame, i) => {
      const figure = figures[i];
      Plotly.react(frame, structuredClone(figure.traces), layout(figure), {
        responsive: true, displaylogo: false,
        modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
      });
    });
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  matchMedia("print").addEventListener("change", draw);
  draw();
})();
