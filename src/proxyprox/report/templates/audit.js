"use strict";
// Draws the figures of an audit from the embedded data, in the colours of the page.
(() => {
  const data = JSON.parse(document.getElementById("figures-data").textContent);
  const frames = [...document.querySelectorAll(".plot")];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

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
      const figure = data.figures[i];
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
