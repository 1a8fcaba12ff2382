// Saved runs of bn-bench, of the folder of bn-serve --dashboard: a plot for each benchmark, with 95 % intervals of the medians.

let saved = null, runPlots = [];

const METRICS = {
  ns_per_token: {name: "Rate", format: value => digits(value) + " tok/s", of: value => 1e9 / value},
  first_token_ns: {name: "Time to first token"}, token_ns: {name: "Time between tokens"}, load_ns: {name: "Time to load"},
  peak_rss_bytes: {name: "Peak memory"}, nll: {name: "Negative log likelihood"}, accuracy: {name: "Accuracy"}, perplexity: {name: "Perplexity"},
};

// How a metric is shown; a time per token is shown as its rate.
function viewOf(metric, unit) {
  const known = METRICS[metric] || {};
  const format = known.format || (unit === "ns" ? value => seconds(value / 1e9) : unit === "bytes" ? bytes : value => digits(value) + (unit === "1" ? "" : " " + unit));
  return {name: known.name || metric, format, of: known.of || (value => value)};
}

function pointOf(p, view) {
  const ends = [p.low, p.high].filter(v => v !== null).map(view.of).sort((a, b) => a - b), value = view.of(p.median), date = (p.created || "").slice(0, 10);
  const interval = ends.length === 2 ? view.format(ends[0]) + " to " + view.format(ends[1]) : "no interval";
  return {value, low: ends[0], high: ends[1], label: date.slice(5), state: p.state, date, interval, commit: (p.commit || "").slice(0, 10) || "unknown", n: p.n,
    title: `${date}, commit ${(p.commit || "unknown").slice(0, 10)}, ${p.state}: ${view.format(value)} (${interval})`};
}

function drawHistory() {
  const line = saved.lines[Number(find("#line").value)], metric = find("#metric").value;
  runPlots = line.series.filter(s => s.metric === metric).map(s => {
    const view = viewOf(s.metric, s.unit), points = s.points.map(p => pointOf(p, view));
    const plot = newFigure(s.test, () => [["Date", "Commit", view.name, "95 % interval", "Samples", "State"],
      ...points.map(p => [p.date, p.commit, view.format(p.value), p.interval, String(p.n), p.state])]);
    plot.legend.textContent = view.name + ", " + ((METRICS[s.metric] || {}).of ? "higher" : s.better) + " is better";
    return {plot, points, view};
  });
  find("#history-plots").replaceChildren(...runPlots.map(r => r.plot.figure));
  redrawHistory();
}

function redrawHistory() {
  for (const r of runPlots) drawRuns(r.plot, r.points, r.view.format);
}

// The metrics that this line has, those that people know first.
function fillMetrics() {
  const line = saved.lines[Number(find("#line").value)], known = Object.keys(METRICS);
  const rank = m => known.includes(m) ? known.indexOf(m) : known.length;
  const metrics = [...new Set(line.series.map(s => s.metric))].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  const before = find("#metric").value;
  find("#metric").replaceChildren(...metrics.map(m => el("option", {value: m}, viewOf(m, "1").name)));
  if (metrics.includes(before)) find("#metric").value = before;
  drawHistory();
}

function showReports() {
  if (saved.reports.length === 0) return;
  find("#reports").replaceChildren(el("h2", {}, "Reports"), el("ul", {class: "reports"}, ...saved.reports.map(r =>
    el("li", {}, storedKey() ? r.name : el("a", {href: "/dashboard/reports/" + r.number, target: "_blank", rel: "noopener"}, r.name), el("span", {class: "soft"}, " " + bytes(r.bytes))))));
}

async function showHistory() {
  const note = find("#history-note");
  if (!latest().benchmarks) {
    note.replaceChildren("Start the server with ", el("code", {}, "bn-serve --dashboard FOLDER"), " to see saved runs of bn-bench here.");
    return;
  }
  try {
    saved = await requestJson("/v1/benchmarks");
  } catch (e) {
    note.textContent = e.message;
    return;
  }
  const skipped = saved.skipped.length ? " Not shown: " + saved.skipped.map(s => s.name + " (" + s.reason + ")").join("; ") + "." : "";
  note.textContent = (saved.lines.length ? "Medians of saved runs, with 95 % intervals. A large dot is a baseline, a cross a run that regressed." : "There are no saved runs in the folder.") + skipped;
  showReports();
  if (saved.lines.length === 0) return;
  find("#line").replaceChildren(...saved.lines.map((line, i) => el("option", {value: String(i)}, line.suite + " on " + line.machine + ", model " + line.model.slice(0, 8))));
  find("#line").addEventListener("change", fillMetrics);
  find("#metric").addEventListener("change", drawHistory);
  find("#history-controls").hidden = false;
  fillMetrics();
  document.documentElement.dataset.history = "shown";
}
