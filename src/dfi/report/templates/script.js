(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("data").textContent);
  var tip = document.getElementById("tip");
  var byId = function (id) { return document.getElementById(id); };

  // Theme: the system decides until the reader does.
  var root = document.documentElement;
  var remembered = null;
  try { remembered = localStorage.getItem("dfi-theme"); } catch (e) { remembered = null; }
  if (remembered === "dark" || remembered === "light") { root.dataset.theme = remembered; }
  byId("theme").addEventListener("click", function () {
    var system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    var next = (root.dataset.theme || system) === "dark" ? "light" : "dark";
    root.dataset.theme = next;
    try { localStorage.setItem("dfi-theme", next); } catch (e) { /* not remembered */ }
  });
  byId("print").addEventListener("click", function () { window.print(); });

  // Values on hover and focus; the same unit lights up everywhere.
  function digits(value) {
    if (value === null || value === undefined) { return "–"; }
    var size = Math.abs(value);
    if (size >= 1e15 || (size < 1e-4 && size > 0)) { return value.toExponential(2); }
    if (size >= 1e12) { return digits(value / 1e12) + " trillion"; }
    if (size >= 1e9) { return digits(value / 1e9) + " billion"; }
    if (size >= 1e6) { return digits(value / 1e6) + " million"; }
    return Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 });
  }
  function describe(row, line) {
    if (row.lines) {
      // an arrow marks the line of the chart that the bar stands in
      var lines = row.lines.map(function (text, k) { return k === line ? "▸ " + text : text; });
      return [row.name].concat(lines).join("\n");
    }
    var level = Math.round(data.level * 1000) / 10;
    var said = [row.name];
    function share(value) { return (100 * value).toFixed(1); }
    if (row.share !== null && row.share !== undefined) {
      var ends = row.share_low === null ? "" : " (" + share(row.share_low) + " to " + share(row.share_high) + " %)";
      said.push(share(row.share) + " %" + ends + " of " + data.whole);
    }
    said.push("score " + digits(row.score) + (row.ci_low === null ? "" : " (" + digits(row.ci_low) + " to " + digits(row.ci_high) + ")"));
    if (row.ci_low !== null) { said.push("in brackets " + level + " % intervals"); }
    if (row.p_adj !== null) { said.push("adjusted p " + (row.p_adj < 0.001 ? "< 0.001" : row.p_adj.toFixed(3))); }
    if (row.latent !== null && row.latent !== undefined) { said.push("latent score " + digits(row.latent)); }
    if (row.of_null !== null && row.of_null !== undefined) { said.push((100 * row.of_null).toFixed(1) + " % of " + data.null); }
    return said.join("\n");
  }
  function rows(kind) {
    return kind === "group" ? data.groups : data.features;
  }
  function textOf(mark) {
    var kind = mark.dataset.kind, row = rows(kind === "weight" ? "feature" : kind)[Number(mark.dataset.u)];
    if (kind === "weight") {
      var source = data.features[Number(mark.dataset.v)];
      return mark.dataset.w + " of the latent score of " + source.name + " is attributed to " + row.name;
    }
    var chart = mark.closest("[data-line]");
    return describe(row, chart ? Number(chart.dataset.line) : null);
  }
  var hot = [];
  function clear() {
    hot.forEach(function (mark) { mark.classList.remove("hot"); });
    hot = [];
    tip.hidden = true;
  }
  function light(mark, x, y) {
    clear();
    var kind = mark.dataset.kind;
    if (kind === "weight") { hot = [mark]; } else {
      hot = Array.from(document.querySelectorAll('[data-kind="' + kind + '"][data-u="' + mark.dataset.u + '"]'));
    }
    hot.forEach(function (each) { each.classList.add("hot"); });
    tip.textContent = textOf(mark);
    tip.hidden = false;
    var width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - width - 6)) + "px";
    tip.style.top = (y + 18 + height > innerHeight ? Math.max(4, y - height - 12) : y + 18) + "px";
  }
  document.addEventListener("pointermove", function (event) {
    var mark = event.target.closest ? event.target.closest("[data-u]") : null;
    if (mark) { light(mark, event.clientX, event.clientY); } else if (hot.length) { clear(); }
  });
  document.addEventListener("focusin", function (event) {
    var mark = event.target.closest("[data-u]");
    if (!mark) { clear(); return; }
    var box = mark.getBoundingClientRect();
    light(mark, box.left + box.width / 2, box.top + box.height / 2);
  });
  document.addEventListener("focusout", clear);
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") { clear(); } });

  // The table: sorted by any column, filtered by name.
  var table = byId("scores");
  var body = table.tBodies[0];
  var lines = Array.from(body.rows);
  function value(line, key) { return data.features[Number(line.dataset.u)][key]; }
  function sort(head) {
    var key = head.dataset.key, now = head.getAttribute("aria-sort");
    var first = head.dataset.upward === undefined ? "descending" : "ascending";
    var order = now ? (now === "ascending" ? "descending" : "ascending") : first;
    Array.from(table.tHead.rows[0].cells).forEach(function (cell) { cell.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", order);
    var sign = order === "ascending" ? 1 : -1;
    lines.sort(function (a, b) {
      var u = value(a, key), v = value(b, key);
      if (u === null || u === undefined) { return v === null || v === undefined ? 0 : 1; }
      if (v === null || v === undefined) { return -1; }
      return sign * (typeof u === "string" ? u.localeCompare(v, undefined, { numeric: true }) : u - v);
    });
    lines.forEach(function (line) { body.appendChild(line); });
  }
  Array.from(table.tHead.rows[0].cells).forEach(function (head) {
    head.querySelector("button").addEventListener("click", function () { sort(head); });
  });
  var filter = byId("filter"), onlySure = byId("only-sure");
  function narrow() {
    var wanted = filter.value.toLowerCase(), shown = 0;
    lines.forEach(function (line) {
      var row = data.features[Number(line.dataset.u)];
      var keep = row.name.toLowerCase().indexOf(wanted) >= 0 && (!onlySure.checked || row.significant);
      line.hidden = !keep;
      if (keep) { shown += 1; }
    });
    byId("count").textContent = shown + " of " + lines.length;
  }
  filter.addEventListener("input", narrow);
  onlySure.addEventListener("change", narrow);

  // Single rows: one is chosen in a list, and drawn from its base to its prediction.
  function svg(name, attributes) {
    // the charts above have the namespace, so that no address has to be in the page
    var made = document.createElementNS(document.querySelector("svg").namespaceURI, name);
    Object.keys(attributes).forEach(function (key) { made.setAttribute(key, attributes[key]); });
    return made;
  }
  function text(tag, name, content) {
    var made = document.createElement(tag);
    made.className = name;
    made.textContent = content;
    return made;
  }
  function signed(value) { return (value < 0 ? "−" : "+") + digits(Math.abs(value)); }
  function steps(row) {
    // the smallest first, so that the largest ends at the prediction
    var at = row.base, found = [];
    if (row.rest) { found.push({ name: (data.rows.names.length - row.parts.length) + " others", size: row.rest, spread: null, value: "" }); }
    row.parts.slice().reverse().forEach(function (part) {
      found.push({ name: data.rows.labels[part[0]], size: part[1], spread: part[2], value: part[3] });
    });
    found.forEach(function (step) { step.from = at; at += step.size; step.to = at; });
    return found.reverse();
  }
  function drawRow(row) {
    var found = steps(row), ends = [row.base, row.prediction];
    found.forEach(function (step) { ends.push(step.from, step.to, step.to - (step.spread || 0), step.to + (step.spread || 0)); });
    var low = Math.min.apply(null, ends), high = Math.max.apply(null, ends), room = (high - low) || 1;
    var place = function (value) { return 2 + 96 * (value - low) / room; };
    // as many decimals for all as the largest needs
    var top = Math.max.apply(null, found.map(function (step) { return Math.abs(step.size); }).concat(0));
    var places = Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(top || 1))));
    function even(value) {
      var plain = top < 1e6 && top >= 1e-4;
      var size = plain ? Math.abs(value).toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places }) : digits(Math.abs(value));
      return (value < 0 ? "−" : "+") + size;
    }
    var box = byId("waterfall");
    box.textContent = "";
    function line(label, level, value, name) {
      var made = text("div", "bar-row", ""), picture = svg("svg", { "class": "bar", width: "100%", height: "22", "aria-hidden": "true", focusable: "false" });
      made.setAttribute("role", "listitem");
      made.tabIndex = 0;
      made.setAttribute("aria-label", name);
      made.appendChild(text("span", "bar-label" + (level === null ? "" : " end"), label));
      if (level !== null) { picture.appendChild(svg("line", { "class": "limit", x1: place(level) + "%", x2: place(level) + "%", y1: 2, y2: 20 })); }
      made.appendChild(picture);
      made.appendChild(text("span", "bar-value", value));
      box.appendChild(made);
      return picture;
    }
    line("prediction", row.prediction, digits(row.prediction), "prediction " + digits(row.prediction));
    found.forEach(function (step) {
      var label = step.name + (step.value ? " = " + step.value : "");
      var told = label + ": " + signed(step.size) + ", from " + digits(step.from) + " to " + digits(step.to);
      if (step.spread) { told += ", spread over models of disjoint halves " + digits(step.spread); }
      var picture = line(label, null, even(step.size), told);
      picture.parentNode.title = told;
      picture.appendChild(svg("line", { "class": "level", x1: place(row.base) + "%", x2: place(row.base) + "%", y1: 0, y2: 22 }));
      picture.appendChild(svg("rect", { "class": step.size > 0 ? "up" : "down", x: place(Math.min(step.from, step.to)) + "%", width: Math.max(0.3, 96 * Math.abs(step.size) / room) + "%", y: 4, height: 14 }));
      if (step.spread) { picture.appendChild(svg("line", { "class": "whisker", x1: place(step.to - step.spread) + "%", x2: place(step.to + step.spread) + "%", y1: 11, y2: 11 })); }
    });
    line("base", row.base, digits(row.base), "base " + digits(row.base));
    var much = row.higher > 1 ? "; interactions of three and more leave " + digits(row.higher) + " standard deviations to divide: ask with refine=128" : "";
    byId("row-name").textContent = "Row " + row.row + ": " + data.rows.explains + " " + digits(row.prediction) + much;
  }
  if (data.rows) {
    var choice = byId("row-choice"), find = byId("row-filter"), options = Array.from(choice.options);
    var searched = data.rows.list.map(function (row) {
      return ("row " + row.row + " " + row.parts.map(function (part) { return data.rows.names[part[0]] + " = " + part[3]; }).join(" ")).toLowerCase();
    });
    var drawChosen = function () { if (choice.value !== "") { drawRow(data.rows.list[Number(choice.value)]); } };
    choice.addEventListener("change", drawChosen);
    find.addEventListener("input", function () {
      var wanted = find.value.toLowerCase(), kept = options.filter(function (option) { return searched[Number(option.value)].indexOf(wanted) >= 0; });
      choice.textContent = "";
      kept.forEach(function (option) { choice.appendChild(option); });
      byId("row-count").textContent = kept.length + " of " + options.length;
      if (kept.length) { choice.selectedIndex = 0; drawChosen(); }
    });
    drawChosen();
  }

  // Downloads are made here, from the numbers in this page.
  function save(name, type, text) {
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: type }));
    link.download = name;
    document.body.appendChild(link);
    link.click();
    link.remove();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
  }
  function cell(item) {
    if (item === null || item === undefined) { return ""; }
    var text = String(item);
    // a spreadsheet runs a cell that begins as a formula does
    if (typeof item === "string" && /^ *[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(item)) { text = "'" + text; }
    return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }
  byId("csv").addEventListener("click", function () {
    var keys = data.columns.map(function (column) { return column[0]; });
    var out = [data.columns.map(function (column) {
      return cell(column[0] === "name" ? "feature" : column[2] || column[0]);
    }).join(",")];
    data.features.forEach(function (row) { out.push(keys.map(function (key) { return cell(row[key]); }).join(",")); });
    save(data.file + ".csv", "text/csv", out.join("\r\n") + "\r\n");
  });
  byId("json").addEventListener("click", function () {
    save("specification.json", "application/json", JSON.stringify(data.spec, null, 2));
  });
}());
