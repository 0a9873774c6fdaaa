// Does what a reader of the page does, and notes what comes of it.
(async () => {
  const root = document.documentElement;
  const all = (what) => [...document.querySelectorAll(what)];
  const first = all(".chart")[0];
  const plot = first.querySelector(".plot");
  const drawn = (key) => all(".chart").map((chart) => chart.querySelectorAll(`[data-curve="${CSS.escape(key)}"]`).length);
  seen.answer = document.querySelector("h1").textContent;
  seen.charts = all(".chart").map((chart) => [chart.id, chart.querySelectorAll(".plot [data-curve]").length]);
  seen.facts = all("dd[data-key]").map((fact) => [fact.dataset.key, fact.dataset.v, fact.textContent]);

  // A name in a legend hides its curve and brings it back; so does the check box of an arm, in every chart.
  const button = () => first.querySelector(".legend button");
  const { key } = button().dataset;
  seen.series = [[drawn(key), button().getAttribute("aria-pressed")]];
  for (let n = 0; n < 2; n++) {
    button().focus();
    button().click();
    seen.series.push([drawn(key), button().getAttribute("aria-pressed")]);
  }
  seen.keepsFocus = document.activeElement === button();
  const box = document.querySelector("[data-arm]");
  const ofArm = () => drawn(`arm-${box.dataset.arm.split(" ").at(-1)}`);
  seen.boxes = [];
  if (box) {
    seen.boxes.push(ofArm());
    for (let n = 0; n < 2; n++) {
      box.click();
      seen.boxes.push(ofArm());
    }
  }

  // One bar drives all charts.
  const titles = () => [...plot.querySelectorAll(".title")].map((title) => title.textContent);
  const choose = (group, place) => document.querySelectorAll(`#bar [aria-label="${group}"] button`)[place]?.click();
  seen.titles = [titles()];
  choose("against", 1);
  seen.titles.push(titles());
  document.getElementById("logarithm").click();
  seen.titles.push(titles());
  choose("show", 1);
  seen.titles.push(titles());

  // Arms take the colours of one axis of a study, and their own ones again.
  const groups = all('#bar [aria-label="colours by"] button');
  const pressed = () => groups.filter((group) => group.getAttribute("aria-pressed") === "true").map((group) => group.textContent);
  const keys = () => all("[data-key-of]").map((place) => [Number(place.dataset.keyOf), place.innerHTML]);
  seen.groups = [];
  for (const group of [...groups, ...groups.slice(0, 1)]) {
    group.click();
    seen.groups.push([group.textContent, pressed(), keys()]);
  }

  // The pointer and the arrow keys show values.
  const tip = () => { const place = plot.querySelector(".tip"); return place.hidden ? "" : place.textContent; };
  const at = plot.getBoundingClientRect();
  plot.dispatchEvent(new PointerEvent("pointermove", { clientX: at.left + at.width / 2, clientY: at.top + 150, bubbles: true }));
  seen.hover = tip();
  plot.dispatchEvent(new PointerEvent("pointerleave"));
  plot.focus();
  plot.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  seen.keys = [document.activeElement === plot, tip()];
  plot.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  seen.keys.push(tip());

  all("details").forEach((details) => { details.open = true; });
  const table = document.querySelector("table.sortable");
  const cells = [...table.tBodies[0].rows[0].cells];
  const head = cells.findIndex((cell, place) => place > 0 && "v" in cell.dataset);
  const column = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[head].dataset.v));
  const sorter = table.tHead.rows[0].cells[head].querySelector("button");
  seen.sorted = [];
  for (let n = 0; n < 2; n++) {
    sorter.focus();
    sorter.click();
    seen.sorted.push([sorter.parentElement.getAttribute("aria-sort"), column()]);
  }
  seen.focused = document.activeElement === sorter && sorter.tabIndex === 0;

  // Every table can be saved.
  let saved;
  URL.createObjectURL = (blob) => { saved = blob; return "#"; };
  HTMLAnchorElement.prototype.click = () => {};
  const saves = all(".csv");
  const [cell] = document.querySelector(".scroll table").tBodies[0].rows[0].cells;
  const shown = [...cell.childNodes];
  cell.textContent = "=1+1";
  saves[0].click();
  cell.replaceChildren(...shown);
  seen.csv = [saves.length, all(".scroll table").length, await saved.text()];

  const colors = () => [getComputedStyle(document.body).backgroundColor, getComputedStyle(plot.querySelector("text")).fill];
  seen.themes = [colors()];
  for (let n = 0; n < 2; n++) {
    document.querySelector("#theme").click();
    seen.themes.push(colors());
  }
  seen.width = [innerWidth, root.scrollWidth, root.clientWidth];
  const start = (parts) => parts.map((part) => part.outerHTML.slice(0, 120));
  const isWide = (part) => part.getBoundingClientRect().right > root.clientWidth + 1;
  seen.wide = start(all("main *").filter((part) => isWide(part) && !part.closest(".scroll, pre, .plot")));
  const isCut = (text) => text.getBoundingClientRect().right > text.closest(".plot").getBoundingClientRect().right + 1;
  seen.cut = start(all(".plot text").filter(isCut));
  const isMute = (place) => place.scrollWidth - place.scrollLeft > place.clientWidth + 2 && !place.parentElement.matches(".goes-on");
  seen.mute = start(all(".scroll").filter(isMute));
  const label = (part) => part.getAttribute("aria-label")
    || document.getElementById(part.getAttribute("aria-labelledby"))?.textContent;
  const isUnnamed = (part) => {
    if (part.matches("table")) return !part.caption.textContent.trim();
    return !(label(part) || (part.matches("button, figure") && part.textContent))?.trim();
  };
  seen.unnamed = start(all("button, [role=group], [role=region], main table, figure").filter(isUnnamed));
  const unscoped = "thead th:not([scope]), tbody tr > :first-child:not(th[scope])";
  seen.unscoped = all("main table").filter((table) => table.querySelector(unscoped)).length;
  seen.board = all(".board tbody tr").map((row) => [row.cells[0].textContent, row.cells[1].dataset.v]);
  seen.links = all("td a").map((link) => link.getAttribute("href"));
  parent.postMessage(JSON.stringify(seen), "*");
})();
