"use strict";
// Draws the charts that the element `charts` describes, and has one bar of buttons drive them all; sorts the tables.
(() => {
  const root = document.documentElement;
  const { arms, charts } = JSON.parse(document.getElementById("charts").textContent);
  const bar = document.getElementById("bar");
  const state = { metric: null, axis: null, logs: {}, group: null, hidden: new Set() };
  const distinct = (list) => [...new Set(list)];
  const make = (name, attributes, ...inside) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...inside);
    return element;
  };

  // Returns how an arm is drawn: by itself, or by its value of the axis that arms are grouped by.
  function styleOf(arm) {
    if (arm.is_reference) return { color: 6, dash: 1, shape: 0 };
    const value = arm.axes[state.group];
    if (value === undefined) return { color: arm.color, dash: arm.dash, shape: arm.place };
    const values = distinct(arms.map((other) => other.axes[state.group]).filter((of) => of !== undefined));
    const group = arms.filter((other) => other.axes[state.group] === value);
    const place = group.findIndex((other) => other.place === arm.place);
    return { color: values.indexOf(value) % 8, dash: place % 6, shape: place };
  }

  // Returns the curves of a chart that are wanted, along an axis of it.
  function curves(chart, isAll) {
    const choice = chart.choices.find((of) => of.metric === state.metric) ?? chart.choices[0];
    const along = axisOf(chart);
    const at = (lists) => (lists.length ? lists[Math.min(along, lists.length - 1)] : []);
    const seeds = (arm) => choice.series.filter((series) => series.arm === arm && series.seed !== undefined).length;
    const all = choice.series.map((series, place) => {
      const arm = arms.find((of) => of.place === series.arm);
      const key = arm ? `arm-${arm.place}` : `${chart.id}-${series.name || place}`;
      const own = { color: series.color, dash: drawing.strokes[series.stroke] ?? 0, shape: place };
      return {
        ...series, key, label: arm ? arm.name : series.name, style: arm ? styleOf(arm) : own,
        arm: series.arm ?? null, seed: series.seed ?? null, isPoints: series.stroke === "points",
        // The interval of two values is so long that its band would cover the chart.
        isUnsure: seeds(series.arm) === 2,
        isReference: arm?.is_reference ?? false,
        x: at(series.x), y: at(series.y), low: at(series.low ?? []), high: at(series.high ?? []),
        rounds: series.x[chart.rounds] ?? [], lengths: chart.bars.length ? series.x[0] : null,
      };
    });
    return isAll ? all : all.filter((curve) => !state.hidden.has(curve.key));
  }

  const axisOf = (chart) => Math.max(0, chart.across.findIndex((axis) => axis.name === state.axis));
  const isLog = (chart) => {
    const axis = chart.across[axisOf(chart)];
    return state.logs[axis.name] ?? axis.unit === "bytes";
  };

  function draw(chart) {
    const { plot } = chart;
    const style = getComputedStyle(plot);
    const width = Math.max(240, plot.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
    const across = chart.across[axisOf(chart)];
    if (chart.bars.length) {
      drawing.bars(plot, { curves: curves(chart), names: chart.bars, isShare: chart.isShare, across, width });
      return;
    }
    const choice = chart.choices.find((of) => of.metric === state.metric) ?? chart.choices[0];
    const view = { id: chart.id, curves: curves(chart), across, up: choice.up, better: chart.better, isLabelled: true,
      isLog: isLog(chart), width, height: width < 640 ? 330 : 400 };
    chart.shown = drawing.lines(plot, view);
    chart.view = view;
    plot.append(chart.tip);
    chart.tip.hidden = true;
  }

  const drawAll = () => charts.forEach(draw);

  // Shows what all curves have at a horizontal place, or of points the one that is nearest.
  function point(chart, [px, py]) {
    const { shown, view, tip, plot } = chart;
    if (!shown || px < shown.left - 4 || px > shown.right + 4) return leave(chart);
    const { box, means } = shown;
    const near = means.flatMap((curve) => {
      const points = curve.x.map((x, n) => ({ curve, n, px: box.x.at(x), py: box.y.at(curve.y[n]) }));
      const known = points.filter((of) => Number.isFinite(of.px));
      const best = known.reduce((one, of) => (!one || Math.abs(of.px - px) < Math.abs(one.px - px) ? of : one), null);
      return best && (curve.label || curve.arm !== null) ? [best] : [];
    });
    const isFront = near.length > 0 && near.every((of) => of.curve.isPoints);
    const far = (of) => Math.hypot(of.px - px, py === null ? 0 : of.py - py);
    const told = isFront ? near.toSorted((a, b) => far(a) - far(b)).slice(0, 1) : near.toSorted((a, b) => a.py - b.py);
    if (!told.length) return leave(chart);
    const at = isFront || py === null ? told[0].px : px;
    const cross = plot.querySelector(".cross");
    cross.setAttribute("transform", `translate(${at} 0)`);
    cross.setAttribute("visibility", "visible");
    const [up, across] = [view.up.unit, view.across.unit].map((unit) => drawing.words[unit]);
    const rows = told.slice(0, 14).map(({ curve, n }) => {
      const range = curve.low.length ? ` (${up(curve.low[n])} to ${up(curve.high[n])})` : "";
      const hasPlace = curve.x.length > 2 || curve.isPoints;
      const hasRound = hasPlace && curve.rounds.length > n && view.across.name !== "rounds";
      const round = hasRound ? `, round ${curve.rounds[n].toFixed(0)}` : "";
      const cost = hasPlace ? ` at ${across(curve.x[n], 3)}${unitOf(view.across)}` : "";
      const swatch = make("span", {});
      swatch.innerHTML = drawing.key(curve);
      return make("div", {}, swatch, make("b", {}, curve.label), ` ${up(curve.y[n])}${range}${cost}${round}`);
    });
    if (told.length > 14) rows.push(make("div", {}, `and ${told.length - 14} more`));
    tip.replaceChildren(...rows);
    tip.hidden = false;
    const room = plot.clientWidth - tip.offsetWidth - 4;
    tip.style.left = `${Math.max(0, Math.min(at + 14 > room ? at - tip.offsetWidth - 14 : at + 14, room))}px`;
    tip.style.top = `${Math.max(0, Math.min(py ?? 30, plot.clientHeight - tip.offsetHeight))}px`;
    chart.at = at;
  }

  // The unit of a time stands in the title of its axis.
  const unitOf = (axis) => {
    if (axis.name === "rounds") return "";
    const unit = axis.title.match(/\[(.*)\]$/);
    return unit ? ` ${unit[1]}` : "";
  };

  function leave(chart) {
    chart.tip.hidden = true;
    chart.plot.querySelector(".cross")?.setAttribute("visibility", "hidden");
  }

  // Goes to the next point to the left or to the right.
  function step(chart, isRight) {
    const { shown, at } = chart;
    const all = shown.means.flatMap((curve) => curve.x.map((x) => shown.box.x.at(x))).filter(Number.isFinite);
    const places = distinct(all).toSorted((a, b) => a - b);
    const from = chart.tip.hidden ? (isRight ? -Infinity : Infinity) : at;
    const next = isRight ? places.find((place) => place > from + 0.5) : places.findLast((place) => place < from - 0.5);
    if (next !== undefined) point(chart, [next, null]);
  }

  // Hides what has a key, or shows it again, in every chart and table.
  // The keys of the arms of a row of the leaderboard.
  const keysOf = (box) => box.dataset.arm.split(" ").map((place) => `arm-${place}`);

  function toggle(...keys) {
    const isHidden = keys.every((key) => state.hidden.has(key));
    for (const key of keys) state.hidden[isHidden ? "delete" : "add"](key);
    showHidden();
    drawAll();
  }

  function showHidden() {
    for (const box of document.querySelectorAll("[data-arm]")) {
      const isHidden = keysOf(box).every((key) => state.hidden.has(key));
      box.checked = !isHidden;
      box.closest("tr").classList.toggle("off", isHidden);
    }
    charts.forEach(legend);
  }

  // Writes the legend of a chart, which has a button for each name.
  function legend(chart) {
    const named = curves(chart, true).filter((curve) => curve.label && curve.seed === null);
    const buttons = named.map((curve) => {
      const button = make("button", { "data-key": curve.key, "aria-pressed": !state.hidden.has(curve.key) });
      button.innerHTML = drawing.key(curve);
      button.append(curve.label);
      return make("li", {}, button);
    });
    const focused = document.activeElement?.dataset?.key;
    const isInside = chart.legend.contains(document.activeElement);
    chart.legend.replaceChildren(...buttons);
    if (isInside) chart.legend.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  // The keys of the leaderboard look like the curves.
  function showKeys() {
    for (const place of document.querySelectorAll("[data-key-of]")) {
      const arm = arms.find((of) => of.place === Number(place.dataset.keyOf));
      place.innerHTML = drawing.key({ arm: arm.place, style: styleOf(arm), stroke: "", isPoints: false });
    }
    for (const dot of document.querySelectorAll("[data-dot-of]")) {
      const arm = arms.find((of) => of.place === Number(dot.dataset.dotOf));
      dot.style.setProperty("--c", `var(--c${styleOf(arm).color})`);
    }
  }

  // Adds buttons to the bar of which one is pressed.
  function choice(name, values, chosen, choose) {
    if (values.length < 2) return;
    const buttons = values.map((value) => make("button", { "aria-pressed": value === chosen, "data-choice": value }, value));
    const group = make("div", { class: "choice", role: "group", "aria-label": name }, make("span", {}, name), ...buttons);
    group.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      for (const other of buttons) other.setAttribute("aria-pressed", other === button);
      choose(button.dataset.choice);
      refresh();
    });
    bar.append(group);
  }

  const log = make("input", { type: "checkbox", id: "logarithm" });
  function refresh() {
    const chart = charts.find((of) => of.across.length > 1) ?? charts.find((of) => !of.bars.length);
    if (chart) log.checked = isLog(chart);
    showKeys();
    charts.forEach(legend);
    drawAll();
  }

  function prepareBar() {
    // A page without a chart has none.
    if (!bar) return;
    const drawn = charts.filter((chart) => !chart.bars.length);
    const metrics = distinct(drawn.flatMap((chart) => chart.choices.map((of) => of.metric))).filter((name) => name);
    const axes = distinct(drawn.filter((chart) => chart.across.length > 1).flatMap((chart) => chart.across.map((axis) => axis.name)));
    // A round is what readers know best.
    axes.sort((a, b) => (b === "rounds") - (a === "rounds"));
    const groups = distinct(arms.flatMap((arm) => Object.keys(arm.axes)));
    [state.metric, state.axis] = [metrics[0], axes[0]];
    choice("show", metrics, state.metric, (metric) => { state.metric = metric; });
    choice("against", axes, state.axis, (axis) => { state.axis = axis; });
    if (axes.length) {
      bar.append(make("label", {}, log, "logarithmic"));
      log.addEventListener("change", () => {
        state.logs[state.axis] = log.checked;
        refresh();
      });
    }
    if (groups.length) choice("colours by", ["arm", ...groups], "arm", (group) => { state.group = group; });
    bar.hidden = !bar.childElementCount;
  }

  function prepare(chart) {
    const figure = document.getElementById(chart.id);
    chart.plot = figure.querySelector(".plot");
    chart.legend = figure.querySelector(".legend");
    chart.tip = make("div", { class: "tip", role: "status" });
    if (chart.bars.length) {
      const share = make("button", { class: "share", "aria-pressed": "false" }, "as shares");
      share.addEventListener("click", () => {
        chart.isShare = !chart.isShare;
        share.setAttribute("aria-pressed", chart.isShare);
        draw(chart);
      });
      chart.legend.before(share);
    } else {
      chart.plot.addEventListener("pointermove", (event) => {
        const at = chart.plot.querySelector("svg").getBoundingClientRect();
        point(chart, [event.clientX - at.left, event.clientY - at.top]);
      });
      chart.plot.addEventListener("pointerleave", () => leave(chart));
      chart.plot.addEventListener("blur", () => leave(chart));
      chart.plot.addEventListener("keydown", (event) => {
        if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
          event.preventDefault();
          step(chart, event.key === "ArrowRight");
        } else if (event.key === "Escape") leave(chart);
      });
    }
    chart.legend.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) toggle(button.dataset.key);
    });
  }

  for (const box of document.querySelectorAll("[data-arm]")) {
    box.disabled = false;
    box.addEventListener("change", () => toggle(...keysOf(box)));
  }

  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const theme = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const nameTheme = () => { theme.textContent = isDark() ? "Light colours" : "Dark colours"; };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  prefersDark.addEventListener("change", nameTheme);
  nameTheme();

  // On a phone what stands above the arms would push them below the screen, so that it is folded.
  if (matchMedia("screen and (max-width: 40rem)").matches) {
    const fold = (block, title, rest) =>
      block.replaceWith(make("details", { class: block.className }, make("summary", {}, title), ...rest));
    for (const note of document.querySelectorAll("main p.note")) fold(note, note.firstChild, [...note.childNodes].slice(1));
    for (const terms of document.querySelectorAll("main p.terms")) fold(terms, "What all share, and what differs", [...terms.childNodes]);
  }

  // A chart in a folded part has no width until it is opened. Paper is narrower than most screens.
  document.addEventListener("toggle", (event) => {
    charts.filter((chart) => event.target.contains(chart.plot)).forEach(draw);
  }, true);
  let resized;
  addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(drawAll, 100);
  });
  charts.forEach(prepare);
  prepareBar();
  refresh();
})();
