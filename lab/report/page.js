// Sorts the table of measurements by a click on a head, and filters its rows. No "less than" and no ampersand: the page is XML too.
"use strict";
document.addEventListener("DOMContentLoaded", function () {
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var body = table.tBodies[0], rows = Array.from(body.rows), heads = Array.from(table.tHead.rows[0].cells);
    if (rows.length === 1) return;
    function key(row, column) {
      var cell = row.cells[column], number = parseFloat(cell.title || cell.textContent);
      return Number.isNaN(number) ? cell.textContent : number;
    }
    function order(a, b) {
      if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
      return typeof a === "number" ? a - b : a.localeCompare(b);
    }
    heads.forEach(function (head, column) {
      var button = document.createElement("button"), up = false;
      button.type = "button";
      button.textContent = head.textContent;
      head.textContent = "";
      head.appendChild(button);
      button.addEventListener("click", function () {
        up = !up;
        heads.forEach(function (h) { h.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        rows.sort(function (a, b) { return order(key(a, column), key(b, column)) * (up ? 1 : -1); });
        rows.forEach(function (row) { body.appendChild(row); });
      });
    });
    if (15 > rows.length) return; // fewer rows are seen at once
    var label = document.createElement("label"), input = document.createElement("input");
    label.className = "filter";
    label.textContent = "Show tests and metrics with ";
    input.type = "search";
    label.appendChild(input);
    table.parentNode.parentNode.insertBefore(label, table.parentNode);
    input.addEventListener("input", function () {
      var wanted = input.value.toLowerCase();
      rows.forEach(function (row) { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
    });
  });
});
