// Plots as SVG, drawn at the width of their place: lines over the last minutes. Each has a name for screen readers and a table of its values.

const SVG = "http://www.w3.org/2000/svg";
const PLOT_HEIGHT = 190, RIGHT = 14, TOP = 12, BOTTOM = 26, DIGIT = 7.2;

function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// From 0, in steps of 1, 2 or 5 times a power of ten; of counts, at least 1.
function ticksOf(high, whole) {
  const rough = (high > 0 ? high : 1) / 4, power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map(n => n * power).find(s => s >= rough && (s >= 1 || !whole)) || 1;
  const ticks = [];
  for (let tick = 0; tick <= Math.ceil(rough * 4 / step); tick++) ticks.push(tick * step);
  return ticks;
}

// A figure: title, values now, plot, table. rowsOf() gives the table when it is opened.
function newFigure(title, rowsOf) {
  const legend = el("p", {class: "legend"}), place = el("div", {class: "place"}), table = el("table"), details = el("details", {}, el("summary", {}, "Table"), el("div", {class: "scroll"}, table));
  const figure = el("figure", {}, el("figcaption", {}, el("h3", {}, title), legend), place, details);
  const fill = () => {
    if (!details.open) return;
    const [head, ...rows] = rowsOf();
    table.replaceChildren(el("thead", {}, el("tr", {}, ...head.map(text => el("th", {scope: "col"}, text)))),
      el("tbody", {}, ...rows.map(row => el("tr", {}, ...row.map(text => el("td", {}, text))))));
  };
  details.addEventListener("toggle", fill);
  return {figure, legend, place, fill, title};
}

function frameOf(width, ticks, format) {
  const y = value => TOP + (ticks[ticks.length - 1] - value) / (ticks[ticks.length - 1] - ticks[0]) * (PLOT_HEIGHT - TOP - BOTTOM);
  const left = 16 + DIGIT * Math.max(...ticks.map(tick => format(tick).length));
  const parts = ticks.map(tick => svg("g", {}, svg("path", {class: "grid", d: `M${left} ${y(tick)}H${width - RIGHT}`}),
    svg("text", {x: left - 8, y: y(tick) + 4, class: "y"}, format(tick))));
  return {y, parts, left};
}

// Lines: series is [{name, mark, values}], of the same length as ages, which count back in seconds.
function drawLines(plot, span, ages, series, format, whole) {
  const width = Math.max(260, plot.place.clientWidth), all = series.flatMap(s => s.values).filter(Number.isFinite);
  const ticks = ticksOf(Math.max(...all, 0), whole), {y, parts, left} = frameOf(width, ticks, format);
  const x = age => width - RIGHT - age / span * (width - left - RIGHT);
  for (let age = 0; age <= span; age += span / 3) {
    parts.push(svg("text", {x: x(age), y: PLOT_HEIGHT - 8, class: age === 0 ? "end" : age === span ? "start" : "x"}, age === 0 ? "now" : "\u2212" + (age < 60 ? age + " s" : age / 60 + " min")));
  }
  for (const s of series) {
    let path = "", pen = "M";
    s.values.forEach((value, i) => {
      if (!Number.isFinite(value)) { pen = "M"; return; }
      path += `${pen}${x(ages[i]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    });
    parts.push(svg("path", {class: "line " + s.mark, d: path || "M0 0"}));
  }
  const now = s => s.values.length ? format(s.values[s.values.length - 1]) : "\u2013";
  const name = plot.title + ", the last " + seconds(span) + ". Now: " + series.map(s => s.name + " " + now(s)).join(", ");
  plot.place.replaceChildren(svg("svg", {role: "img", "aria-label": name, width, height: PLOT_HEIGHT, viewBox: `0 0 ${width} ${PLOT_HEIGHT}`}, ...parts));
  plot.legend.replaceChildren(...series.map(s => el("span", {class: "key " + s.mark}, s.name + " ", el("b", {}, now(s)))));
  plot.fill();
}
