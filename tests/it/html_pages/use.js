// Does what a reader of the page does, and notes what comes of it.
const root = document.documentElement;
const all = (what) => [...document.querySelectorAll(what)];
const plot = (id) => document.querySelector(`#${id} .plot`);
const press = (what) => document.querySelector(what).click();
const shown = (id) => plot(id).data.filter((trace) => trace.meta === 0 && trace.visible).length;
const lines = (id) => plot(id).querySelectorAll(".scatterlayer .trace, .barlayer .trace").length;
const first = all(".chart")[0].id;
seen.charts = all(".chart").map((chart) => [chart.id, lines(chart.id)]);
seen.facts = all("[data-key]").map((fact) => [fact.dataset.key, fact.dataset.v, fact.textContent]);
seen.series = [[shown(first), lines(first)]];
for (let n = 0; n < 2; n++) {
  press(`#${first} [data-series="0"]`);
  seen.series.push([shown(first), lines(first)]);
}
seen.pressed = document.querySelector(`#${first} [data-series="0"]`).getAttribute("aria-pressed");
const axis = () => [plot(first)._fullLayout.xaxis.type, plot(first)._fullLayout.xaxis.title.text];
seen.axes = [axis()];
press(`#${first} [data-toggle="log-x"]`);
press(`#${first} [data-x]:last-of-type, #${first} [data-x="1"]`);
seen.axes.push(axis());
const pointed = plot(first).data.findIndex((trace) => trace.hovertemplate);
Plotly.Fx.hover(plot(first), [{ curveNumber: pointed, pointNumber: 0 }]);
seen.hover = plot(first).querySelector(".hoverlayer").textContent;
all("details").forEach((details) => { details.open = true; });
const table = document.querySelector("table.sortable");
const cells = [...table.tBodies[0].rows[0].cells];
const head = cells.findIndex((cell, place) => place > 0 && "v" in cell.dataset);
const column = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[head].dataset.v));
const button = table.tHead.rows[0].cells[head].querySelector("button");
seen.sorted = [];
for (let n = 0; n < 2; n++) {
  button.focus();
  button.click();
  seen.sorted.push([button.parentElement.getAttribute("aria-sort"), column()]);
}
seen.focused = document.activeElement === button && button.tabIndex === 0;
const colors = () => [getComputedStyle(document.body).backgroundColor, plot(first)._fullLayout.font.color];
seen.themes = [colors()];
press("#theme");
seen.themes.push(colors());
dispatchEvent(new Event("beforeprint"));
seen.printed = [colors(), plot(first)._fullLayout.width];
dispatchEvent(new Event("afterprint"));
seen.themes.push(colors());
seen.width = [innerWidth, root.scrollWidth, root.clientWidth];
const start = (parts) => parts.map((part) => part.outerHTML.slice(0, 120));
const isWide = (part) => part.getBoundingClientRect().right > root.clientWidth + 1;
seen.wide = start(all("main *").filter((part) => isWide(part) && !part.closest(".scroll, pre, .plot")));
const label = (part) => part.getAttribute("aria-label")
  || document.getElementById(part.getAttribute("aria-labelledby"))?.textContent;
const isUnnamed = (part) => {
  if (part.matches("table")) return !part.caption.textContent.trim();
  return !(label(part) || (part.matches("button, figure") && part.textContent))?.trim();
};
seen.unnamed = start(all("button, [role=img], [role=region], main table, figure").filter(isUnnamed));
const unscoped = "thead th:not([scope]), tbody tr > :first-child:not(th[scope])";
seen.unscoped = all("main table").filter((table) => table.querySelector(unscoped)).length;
parent.postMessage(JSON.stringify(seen), "*");
