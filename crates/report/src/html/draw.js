"use strict";
// Draws a chart as SVG into its place, and shows what lies below the pointer. Colours are variables of the style, so
// that a change of them redraws nothing.
const drawing = (() => {
  const shapes = [
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z", "M-4.5-4.5h9v9h-9z", "M0-6l6 6-6 6-6-6z",
    "M0-6l6 10.5H-6z", "M-2-5.5h4v3.5h3.5v4H2v3.5h-4V2h-3.5v-4H-2z", "M0 6L-6-4.5H6z",
  ];
  const dashes = ["", "9 5", "2 4", "11 4 2 4", "16 4", "5 3 1 3 1 3"];
  const strokes = { dash: 1, dot: 2, "dash-dot": 3, "dot-steps": 2 };

  const escaped = (text) => String(text).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const rounded = (value, digits) => Number(value.toPrecision(digits));
  const scaled = (unit) => (value, digits = 3) => {
    const prefixes = ["", "k", "M", "G", "T", "P", "E"];
    let place = 0;
    for (; Math.abs(value) >= 999.5 && place < prefixes.length - 1; place++) value /= 1000;
    return `${rounded(value, digits)} ${prefixes[place]}${unit}`;
  };
  // How the numbers of a unit are written.
  const words = {
    number: (value, digits = 4) => rounded(value, digits).toLocaleString("en", { maximumFractionDigits: 9 }),
    accuracy: (value) => value.toFixed(3).replace(/^(-?)0\./, "$1."),
    share: (value, digits = 3) => `${rounded(100 * value, digits)} %`,
    bytes: scaled("B"),
    "bytes-per-second": scaled("B/s"),
  };

  // Returns the round numbers from one end to the other, about `most` of them.
  function steps(from, to, most, isWhole) {
    const rough = Math.max((to - from) / most, isWhole ? 1 : 0);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, isWhole ? 5 : 2.5, 5, 10].find((part) => part * power >= rough * 0.999) * power;
    const ticks = [];
    for (let n = Math.ceil(from / step - 1e-9); n * step <= to + step * 1e-9; n++) ticks.push(n * step);
    return ticks;
  }

  // Returns powers of ten, with numbers between them where there are few.
  function powers(from, to, most) {
    const [first, last] = [from, to].map((end) => Math.floor(Math.log10(end)));
    for (const parts of [[1], [1, 3], [1, 2, 5]]) {
      const ticks = [];
      for (let n = first; n <= last; n++) ticks.push(...parts.map((part) => part * 10 ** n));
      const inside = ticks.filter((tick) => tick >= from && tick <= to);
      const every = Math.ceil(inside.length / most);
      if (inside.length >= 3) return inside.filter((_, place) => place % every === 0);
    }
    return steps(from, to, 5).filter((tick) => tick > 0);
  }

  // Returns an axis with these ends in the data and on the screen.
  function axis([from, to], isLog, [start, end], most, isWhole) {
    const bend = isLog ? Math.log : (value) => value;
    const part = (value) => (bend(value) - bend(from)) / (bend(to) - bend(from));
    return {
      at: (value) => (isLog && !(value > 0) ? NaN : start + part(value) * (end - start)),
      ticks: (isLog ? powers : steps)(from, to, most, isWhole),
    };
  }

  // Returns the ends of an axis that holds these values.
  function ends(values, isLog, fromZero) {
    let [from, to] = [Infinity, -Infinity];
    for (const value of values) {
      if (!Number.isFinite(value) || (isLog && value <= 0)) continue;
      [from, to] = [Math.min(from, value), Math.max(to, value)];
    }
    if (from > to) return isLog ? [1, 10] : [0, 1];
    if (isLog) {
      const room = from === to ? 2 : (to / from) ** 0.04;
      return [from / room, to * room];
    }
    const zero = fromZero && from >= 0;
    const room = (zero ? to : to - from || Math.abs(to)) * 0.06 || 1;
    return [zero ? 0 : from - room, to + room];
  }

  // Returns the values that the vertical axis has to hold: intervals, but none that is far beyond all means.
  function* heights(curves) {
    const means = curves.flatMap((curve) => curve.y);
    const [least, most] = [Math.min(...means), Math.max(...means)];
    const room = most - least || Math.abs(most) * 0.1;
    yield* means;
    for (const curve of curves.filter((of) => of.isPoints)) {
      for (const low of curve.low) yield Math.max(low, least - room);
      for (const high of curve.high) yield Math.min(high, most + room);
    }
  }

  // Returns the points of a front: those that no other one is better than in both.
  function front(points, better) {
    const isGain = (more, less) => (better === "higher" ? more > less : more < less);
    const ordered = points.toSorted((a, b) => a.x - b.x || (isGain(a.y, b.y) ? -1 : 1));
    const kept = [];
    for (const point of ordered) if (!kept.length || isGain(point.y, kept.at(-1).y)) kept.push(point);
    return kept;
  }

  const move = (points) => points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const stairs = (points) => points.map(([x, y], place) =>
    (place ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `M${x.toFixed(1)} ${y.toFixed(1)}`)).join("");
  const ink = (style) => `style="--c:var(--c${style.color})"`;
  const dash = (style) => (dashes[style.dash] ? ` stroke-dasharray="${dashes[style.dash]}"` : "");
  const shape = (style, x, y) =>
    `<path class="shape" ${ink(style)} transform="translate(${x.toFixed(1)} ${y.toFixed(1)})" d="${shapes[style.shape % shapes.length]}"/>`;

  // Returns the line of a curve with its band, or its points with their intervals.
  function drawn(curve, box) {
    const { style } = curve;
    const places = curve.x.map((x, n) => [box.x.at(x), box.y.at(curve.y[n]), n]).filter(([x]) => Number.isFinite(x));
    if (!places.length && !curve.isLevel) return "";
    const within = (value) => Math.min(Math.max(box.y.at(value), -9e3), 9e3);
    if (curve.stroke === "ring") {
      return places.map(([x, y]) => `<circle class="ring" ${ink(style)} cx="${x}" cy="${y}" r="9"/>`).join("");
    }
    if (curve.isLevel) {
      const [y] = curve.y.map(box.y.at);
      return `<path class="line" ${ink(style)}${dash({ dash: 1 })} d="M${box.left} ${y}H${box.right}"/>`;
    }
    if (curve.isPoints) {
      const bar = ([x, , n]) => (curve.low.length
        ? `<path class="interval" ${ink(style)} d="M${x} ${within(curve.low[n])}V${within(curve.high[n])}"/>` : "");
      return places.map((place) => bar(place) + shape(style, place[0], place[1])).join("");
    }
    const join = curve.stroke.endsWith("steps") ? stairs : move;
    let svg = "";
    if (curve.low.length && places.length > 1 && !curve.isUnsure) {
      const upper = places.map(([x, , n]) => [x, within(curve.high[n])]);
      const lower = places.map(([x, , n]) => [x, within(curve.low[n])]).toReversed();
      svg += `<path class="band" ${ink(style)} d="${move([...upper, ...lower])}z"/>`;
    }
    const isThin = curve.seed !== null || ["thin", "dot-steps"].includes(curve.stroke);
    const kind = curve.seed !== null ? "seed" : isThin ? "thin" : "line";
    svg += places.length === 1 && kind !== "seed"
      ? shape(style, places[0][0], places[0][1])
      : `<path class="${kind}" ${ink(style)}${kind === "seed" ? "" : dash(style)} d="${join(places)}"/>`;
    // Shapes along a line tell it apart without colours.
    if (curve.arm !== null && kind === "line" && places.length > 2) {
      const every = Math.max(1, Math.round(places.length / 5));
      const marked = places.filter((_, n) => n % every === Math.floor(every / 2));
      svg += marked.map(([x, y]) => shape(style, x, y)).join("");
    }
    return svg;
  }

  // Returns the mean width of the letters of a name at the end of a curve, and of digits if these are wider.
  const pen = document.createElement("canvas").getContext("2d");
  function widthOf(text) {
    pen.font = `600 12.5px ${getComputedStyle(document.body).fontFamily}`;
    return Math.max(pen.measureText(text).width / text.length, pen.measureText("0").width);
  }

  // Returns the names of curves beside their ends, moved apart; of too many, those that fit from above.
  function named(curves, box, place, room) {
    const lines = curves.map((curve) => {
      const last = curve.isLevel ? 0 : curve.x.findLastIndex((x) => Number.isFinite(box.x.at(x)));
      return { curve, y: box.y.at(curve.y[last]), value: curve.y[last] };
    }).filter((line) => Number.isFinite(line.y)).toSorted((a, b) => a.y - b.y);
    const height = 15;
    const most = Math.floor((box.bottom - box.top) / height);
    const kept = lines.slice(0, most);
    kept.forEach((line, n) => { line.y = Math.max(line.y, n ? kept[n - 1].y + height : box.top + 4); });
    let lowest = box.bottom;
    for (const line of kept.toReversed()) lowest = (line.y = Math.min(line.y, lowest)) - height;
    return kept.map(({ curve, y, value }) => {
      const number = words[box.unit](value);
      const letters = Math.max(4, Math.floor(room / widthOf(curve.label)) - number.length - 1);
      // Both ends of a name stay, since names differ in either.
      const [head, tail] = [Math.ceil((letters - 1) / 2), Math.floor((letters - 1) / 2)];
      const name = curve.label.length > letters ? `${curve.label.slice(0, head)}…${curve.label.slice(-tail)}` : curve.label;
      // A name that is written from the right would turn the number round.
      return `<text class="end" ${ink(curve.style)} x="${place}" y="${y + 4}">\u2068${escaped(name)}\u2069 ${number}</text>`;
    }).join("");
  }

  // Draws lines or points. `view` has the curves, the axes and the size.
  function lines(plot, view) {
    const { curves, across, up, isLog, width, height } = view;
    const isNarrow = width < 640;
    const means = curves.filter((curve) => curve.seed === null);
    // What costs nothing has no place among costs, and is a level; so is what all others are held against.
    for (const curve of means.filter((of) => of.isPoints)) {
      curve.isLevel = curve.isReference || (isLog && !(curve.x[0] > 0));
    }
    const labelled = view.isLabelled ? means.filter((curve) => curve.label && curve.stroke !== "ring") : [];
    const longest = Math.max(0, ...labelled.map((curve) => (curve.label.length + 7) * widthOf(curve.label)));
    const room = labelled.length ? Math.min(longest + 12, width * (isNarrow ? 0.36 : 0.3)) : 8;
    const [top, bottom] = [26, height - 44];
    const tall = ends(heights(curves), false, up.from_zero && !view.better);
    const y = axis(tall, false, [bottom, top], isNarrow ? 4 : 6);
    const left = 12 + 7.4 * Math.max(...y.ticks.map((tick) => words[up.unit](tick, 3).length));
    const right = width - room;
    const wide = ends(curves.flatMap((curve) => (curve.isLevel ? [] : curve.x)), isLog, across.from_zero && !view.better);
    const x = axis(wide, isLog, [left, right], Math.max(2, Math.floor((right - left) / 90)), across.name === "rounds");
    const box = { x, y, top, bottom, left, right, unit: up.unit };
    const frame = [left, top - 8, right - left + 10, bottom - top + 16];
    let svg = "";
    for (const tick of y.ticks) {
      svg += `<path class="grid" d="M${left} ${y.at(tick)}H${right}"/><text x="${left - 7}" y="${y.at(tick) + 4}" text-anchor="end">${words[up.unit](tick, 3)}</text>`;
    }
    for (const tick of x.ticks) {
      svg += `<path class="grid" d="M${x.at(tick)} ${top}V${bottom}"/><text x="${x.at(tick)}" y="${bottom + 18}" text-anchor="middle">${words[across.unit](tick, 3)}</text>`;
    }
    svg += `<text class="title" x="${left}" y="12">${escaped(up.title)}</text>`;
    svg += `<text class="title" x="${(left + right) / 2}" y="${bottom + 38}" text-anchor="middle">${escaped(across.title)}${isLog ? ", logarithmic" : ""}</text>`;
    let inner = "";
    if (view.better) {
      const at = (of) => (of.isLevel ? left : x.at(of.x[0]));
      const points = means.filter((of) => of.isPoints).map((of) => ({ x: at(of), y: of.y[0], class: of.class }));
      // What cannot be compared has fronts of its own.
      for (const alike of new Set(points.map((point) => point.class))) {
        const on = front(points.filter((point) => point.class === alike), view.better);
        // It is made of steps: up to the next point, whoever has more to spend reaches no more.
        const corners = on.map((point) => [point.x, y.at(point.y)]);
        inner += `<path class="front" d="${stairs(corners)}H${right}"/>`;
      }
    }
    const order = (curve) => (curve.seed !== null ? 0 : curve.isPoints || curve.stroke === "ring" ? 2 : 1);
    for (const curve of curves.toSorted((a, b) => order(a) - order(b))) {
      inner += `<g data-curve="${escaped(curve.key)}">${drawn(curve, box)}</g>`;
    }
    // An inner picture shows nothing beyond its edges.
    const [at, over, wideness, tallness] = frame;
    svg += `<svg x="${at}" y="${over}" width="${wideness}" height="${tallness}" viewBox="${frame.join(" ")}">${inner}</svg>${named(labelled, box, right + 8, room - 8)}`;
    svg += `<path class="cross" d="M0 ${top}V${bottom}" visibility="hidden"/>`;
    plot.innerHTML = `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" aria-hidden="true">${svg}</svg>`;
    return { box, left, right, means };
  }

  // Draws bars that consist of the curves.
  function bars(plot, view) {
    const { curves, names, isShare, width } = view;
    const sums = names.map((_, bar) => curves.reduce((sum, curve) => sum + curve.lengths[bar], 0));
    const left = 12 + 7.2 * Math.max(...names.map((name) => name.length));
    const longest = isShare ? 1 : Math.max(...sums, 1);
    const x = axis([0, longest], false, [left, width - 16], Math.max(2, Math.floor((width - left) / 110)));
    const bottom = 8 + 40 * names.length;
    const write = isShare ? words.share : words[view.across.unit];
    let svg = "";
    for (const tick of x.ticks) {
      svg += `<path class="grid" d="M${x.at(tick)} 4V${bottom}"/><text x="${x.at(tick)}" y="${bottom + 16}" text-anchor="middle">${write(tick, 3)}</text>`;
    }
    names.forEach((name, bar) => {
      const y = 10 + 40 * bar;
      svg += `<text x="${left - 8}" y="${y + 18}" text-anchor="end">${escaped(name)}</text>`;
      let from = 0;
      for (const curve of curves) {
        const part = isShare ? (sums[bar] ? curve.lengths[bar] / sums[bar] : 0) : curve.lengths[bar];
        const [start, end] = [x.at(from), x.at(from + part)];
        from += part;
        if (!part) continue;
        const told = `${curve.label}, ${name}: ${words[view.across.unit](curve.lengths[bar], 4)}`;
        svg += `<g data-curve="${escaped(curve.key)}"><rect class="part" ${ink(curve.style)} x="${start}" y="${y}" width="${Math.max(end - start, 0.5)}" height="28"><title>${escaped(told)}</title></rect>`;
        if (end - start > 8 * curve.label.length + 8) svg += `<text class="inside" x="${(start + end) / 2}" y="${y + 18}" text-anchor="middle">${escaped(curve.label)}</text>`;
        svg += "</g>";
      }
    });
    const height = bottom + 24;
    plot.innerHTML = `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" aria-hidden="true">${svg}</svg>`;
  }

  // Returns the picture beside a name in a legend.
  function key(curve) {
    const { style } = curve;
    let inside = `<path class="line" d="M1 7h24"${dash(style)}/>`;
    if (curve.lengths) inside = `<rect class="part" x="7" y="1" width="12" height="12"/>`;
    else if (curve.stroke === "ring") inside = `<circle class="ring" cx="13" cy="7" r="5"/>`;
    else if (curve.isPoints && !curve.isLevel) inside = shape(style, 13, 7);
    else if (curve.arm !== null) inside += shape(style, 13, 7);
    return `<svg class="key" width="26" height="14" aria-hidden="true" ${ink(style)}>${inside}</svg>`;
  }

  return { bars, key, lines, words, strokes };
})();
