"use strict";
// Sorts the tables, offers each as CSV, and says which ones go on to the right.
(() => {
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

  // Returns a table as CSV, with its numbers in full.
  function csv(table) {
    // A spreadsheet would carry out a cell that begins so.
    const harmless = (text) => (/^[=+\-@\t\r\n]/.test(text) && !Number.isFinite(Number(text)) ? `'${text}` : text);
    const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const told = (cell) => quoted(harmless(cell.dataset.v ?? cell.textContent.trim().replace(/\s+/g, " ")));
    return [...table.rows].map((row) => [...row.cells].map(told).join(",") + "\r\n").join("");
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, head, column));
      head.append(button);
    });
  }

  const scrolls = [...document.querySelectorAll(".scroll")];
  for (const place of scrolls) {
    const table = place.querySelector("table");
    const save = document.createElement("button");
    save.className = "csv";
    save.textContent = "CSV";
    save.setAttribute("aria-label", `Save as CSV: ${table.caption.textContent}`);
    save.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv(table)], { type: "text/csv" }));
      link.download = `${(table.caption.textContent.toLowerCase().match(/[a-z0-9]+/g) ?? ["table"]).slice(0, 6).join("-")}.csv`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
    place.before(save);
  }

  // The edge of a table that goes on is shaded, and a line above it says so.
  function mark() {
    for (const place of scrolls) {
      const rest = place.scrollWidth - place.clientWidth - place.scrollLeft;
      place.parentElement.classList.toggle("goes-on", rest > 2);
    }
  }
  scrolls.forEach((place) => place.addEventListener("scroll", mark, { passive: true }));
  addEventListener("resize", mark);
  document.addEventListener("toggle", mark, true);
  mark();
})();
