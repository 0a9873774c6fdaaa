"use strict";
// Draws the charts that the element `charts` describes, sorts the tables, and changes the colours.
(() => {
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const shapes = ["circle", "square", "diamond", "triangle-up", "cross", "triangle-down"];
  const dashes = { dash: "dash", dot: "dot", "dash-dot": "dashdot", "dot-steps": "dot" };
  let printedWidth = null;

  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const faded = (hex) => hex + "26";

  // How the numbers of a unit are written on an axis and beside the pointer.
  const units = {
    number: { tick: {}, hover: ",.6~g", suffix: "" },
    accuracy: { tick: { tickformat: ".3~f" }, hover: ".4f", suffix: "" },
    share: { tick: { tickformat: ".1~%" }, hover: ".2%", suffix: "" },
    bytes: { tick: { tickformat: "~s", ticksuffix: "B" }, hover: ".4s", suffix: "B" },
    "bytes-per-second": { tick: { tickformat: "~s", ticksuffix: "B/s" }, hover: ".4s", suffix: "B/s" },
  };

  function hover(chart, axis) {
    const [x, y] = [units[axis.unit], units[chart.up.unit]];
    if (chart.bars.length) return `%{fullData.name}, %{y}<br>%{customdata:.4s}B<extra></extra>`;
    return `%{fullData.name}<br>%{y:${y.hover}}${y.suffix}<br>%{x:${x.hover}}${x.suffix}<extra></extra>`;
  }

  // Returns the traces of one series: its line, and its band if it has one.
  function traces(chart, series, place) {
    const { state } = chart;
    const which = Math.min(state.x, series.x.length - 1);
    const [x, y] = [series.x[which], series.y[Math.min(which, series.y.length - 1)]];
    const ink = color("--c" + (series.color % 8));
    const common = {
      name: series.name,
      visible: !state.hidden.has(place),
      showlegend: false,
      hovertemplate: hover(chart, chart.across[which]),
      meta: place,
    };
    if (chart.bars.length) {
      const sums = chart.bars.map((_, bar) => chart.series.reduce((sum, other, number) =>
        sum + (state.hidden.has(number) ? 0 : other.x[0][bar]), 0));
      const lengths = state.share ? x.map((part, bar) => (sums[bar] ? part / sums[bar] : 0)) : x;
      // A part has its name on it where it is long enough for one.
      const longest = state.share ? 1 : Math.max(...sums);
      const text = lengths.map((length) => (length > longest / 8 ? series.name : ""));
      return [{ ...common, type: "bar", orientation: "h", x: lengths, y: chart.bars, customdata: x, text,
        textposition: "inside", insidetextanchor: "middle", insidetextfont: { color: color("--bg") },
        marker: { color: ink, line: { color: color("--bg"), width: 1 } } }];
    }
    const low = series.low && series.low[Math.min(which, series.low.length - 1)];
    const high = series.high && series.high[Math.min(which, series.high.length - 1)];
    if (series.stroke === "points" || series.stroke === "ring") {
      const isRing = series.stroke === "ring";
      const marker = isRing
        ? { color: ink, size: 16, symbol: "circle-open", line: { width: 2.5 } }
        : { color: ink, size: 10, symbol: shapes[place % shapes.length] };
      const bars = low && { type: "data", symmetric: false, color: ink, thickness: 1.2, width: 4,
        array: high.map((end, n) => end - y[n]), arrayminus: low.map((end, n) => y[n] - end) };
      const points = { type: "scatter", mode: "markers", x, y, marker, cliponaxis: false };
      return [{ ...common, ...points, error_y: bars || undefined }];
    }
    const isThin = ["thin", "dot-steps"].includes(series.stroke);
    const line = { color: ink, width: isThin ? 1.5 : 2.5, dash: dashes[series.stroke] || "solid" };
    if (series.stroke.endsWith("steps")) line.shape = "hv";
    const mode = x.length === 1 ? "markers" : "lines";
    const own = { ...common, type: "scatter", mode, x, y, line, marker: { color: ink, size: 9 } };
    if (!low || x.length < 2) return [own];
    // A logarithmic axis has no place for an end that is not positive.
    const least = state["log-y"] ? Math.min(...y.filter((value) => value > 0)) / 10 : -Infinity;
    const ends = [...high, ...low.toReversed()].map((end) => Math.max(end, least));
    const band = { ...common, type: "scatter", mode: "lines", x: [...x, ...x.toReversed()], y: ends, fill: "toself",
      fillcolor: faded(ink), line: { width: 0 }, hoverinfo: "skip", hovertemplate: undefined };
    return [band, own];
  }

  function axisLayout(axis, isLog, unit) {
    return {
      ...units[unit].tick,
      title: { text: axis.title, standoff: 10 },
      type: isLog ? "log" : "linear",
      dtick: isLog && unit !== "accuracy" ? 1 : undefined,
      rangemode: axis.from_zero ? "tozero" : "normal",
      automargin: true,
      gridcolor: color("--grid"),
      linecolor: color("--muted"),
      zerolinecolor: color("--line"),
      zeroline: axis.from_zero,
      autorange: true,
    };
  }

  function draw(chart) {
    const { state } = chart;
    const isNarrow = root.clientWidth < 640 && !printedWidth;
    const hasBars = chart.bars.length > 0;
    const axis = chart.across[state.x];
    const y = hasBars
      ? { automargin: true, autorange: "reversed", linecolor: color("--muted"), fixedrange: true }
      : axisLayout(chart.up, state["log-y"], chart.up.unit);
    const layout = {
      width: printedWidth || chart.plot.clientWidth,
      height: hasBars ? 100 + 44 * chart.bars.length : isNarrow || printedWidth ? 320 : 400,
      margin: { l: 10, r: 14, t: isNarrow || printedWidth ? 10 : 32, b: 10 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: isNarrow ? 11 : 13, color: color("--text") },
      hoverlabel: { bgcolor: color("--surface"), bordercolor: color("--muted"), font: { color: color("--text") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: color("--muted"), activecolor: color("--accent") },
      hovermode: "closest",
      barmode: "stack",
      bargap: 0.35,
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      xaxis: axisLayout(axis, state["log-x"], hasBars && state.share ? "share" : axis.unit),
      yaxis: y,
    };
    if (hasBars && state.share) layout.xaxis.title.text = "share";
    const config = { displaylogo: false, displayModeBar: isNarrow ? false : "hover",
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
      toImageButtonOptions: { format: "svg", filename: chart.id } };
    const data = chart.series.flatMap((series, place) => traces(chart, series, place));
    Plotly.react(chart.plot, data, layout, config);
  }

  const drawAll = () => charts.forEach(draw);

  function prepare(chart) {
    const figure = document.getElementById(chart.id);
    chart.plot = figure.querySelector(".plot");
    chart.state = { x: 0, "log-x": false, "log-y": false, share: false, hidden: new Set() };
    figure.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      const { x, toggle, series } = button.dataset;
      if (x !== undefined) {
        chart.state.x = Number(x);
        figure.querySelectorAll("[data-x]").forEach((other) => other.setAttribute("aria-pressed", other === button));
      } else {
        const isOn = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", isOn);
        if (toggle) chart.state[toggle] = isOn;
        else if (isOn) chart.state.hidden.delete(Number(series));
        else chart.state.hidden.add(Number(series));
      }
      draw(chart);
    });
  }

  // Sorts by a column: by numbers where cells have them, otherwise by words. Rows without a value stay at the end.
  function sort(table, head, column) {
    const isUp = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
    const value = (row) => {
      const cell = row.cells[column];
      return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
    };
    const compare = (one, other) => {
      const [a, b] = [value(one), value(other)];
      if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
      const order = typeof a === "number" ? a - b : a.localeCompare(b, "en");
      return isUp ? order : -order;
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, head, column));
      head.append(button);
    });
  }

  const theme = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  function showColors() {
    theme.textContent = isDark() ? "Light colours" : "Dark colours";
    drawAll();
  }
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    showColors();
  });
  prefersDark.addEventListener("change", showColors);

  // Paper is light, and narrower than most screens.
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    printedWidth = 660;
    drawAll();
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    printedWidth = null;
    drawAll();
  });

  let resized;
  addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(drawAll, 100);
  });

  charts.forEach(prepare);
  showColors();
})();
