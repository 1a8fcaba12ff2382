// The live view: polls /v1/status once a second, while the page is visible. Rates are differences of two answers over the
// server's own time, so they do not depend on when a poll arrives.

const SPAN_S = 180, FIRST_SPAN_S = 60, EVERY_MS = 1000, SMOOTH = 4;

let polls = []; // {at, status} of the last minutes, by the server's clock
let timer = 0, paused = false, failures = 0;
let plots = null;

const latest = () => polls.length ? polls[polls.length - 1].status : null;

// The change of a counter per second, between a poll and the one `back` before it.
function rateAt(i, name, back) {
  const j = Math.max(0, i - back), time = polls[i].at - polls[j].at;
  return time > 0 ? (polls[i].status.counters[name] - polls[j].status.counters[name]) / time : NaN;
}

// Rates are the same in a tile, in the legend of a plot, and at the end of its line.
const generatedRate = i => rateAt(i, "generated_tokens", SMOOTH);
const promptRate = i => rateAt(i, "prompt_tokens", SMOOTH) - rateAt(i, "cached_tokens", SMOOTH);
const rate = value => value < 10 ? String(Math.round(value * 10) / 10) : digits(value);
const valuesOf = read => polls.map((poll, i) => read(poll.status, i));

// ---- tiles ----

function tile(name, value, ...notes) {
  return el("div", {class: "tile"}, el("dt", {}, name), el("dd", {}, el("b", {}, value), ...notes.map(note => el("span", {}, note))));
}

const tail = latency => latency.n ? "p95 " + seconds(latency.p95) + ", p99 " + seconds(latency.p99) : "none yet";

function showTiles(s) {
  const i = polls.length - 1, c = s.counters, l = s.latency_s, cached = c.prompt_tokens > 0 ? c.cached_tokens / c.prompt_tokens * 100 : NaN;
  find("#tiles").replaceChildren(
    tile("Generation", rate(generatedRate(i)) + " tok/s", count(c.generated_tokens, "token") + " since the start"),
    tile("Prompts", rate(promptRate(i)) + " tok/s", count(c.prompt_tokens, "token") + " since the start"),
    tile("Running", s.queue.running + " of " + places(s), s.queue.waiting + " waiting, at most " + s.model.max_queue),
    tile("Time to first token", l.first_token.n ? seconds(l.first_token.p50) : "\u2013", tail(l.first_token)),
    tile("Between tokens", l.next_token.n ? seconds(l.next_token.p50) : "\u2013", tail(l.next_token)),
    tile("Cache hits", Number.isFinite(cached) ? digits(Math.round(cached * 10) / 10) + " %" : "\u2013", "of the prompts' tokens"),
    tile("Memory", bytes(s.memory_bytes.resident), "peak " + bytes(s.memory_bytes.peak) + ", contexts up to " + bytes(s.memory_bytes.contexts)),
    tile("Requests", c.jobs_ended.toLocaleString("en"), c.jobs_rejected + " refused, " + c.jobs_cancelled + " cancelled, " + count(c.errors, "error")));
}

// ---- plots ----

const LINES = [
  {title: "Tokens per second", whole: true, format: rate, series: () => [
    {name: "generated", mark: "a", values: valuesOf((s, i) => generatedRate(i))},
    {name: "of prompts", mark: "b", values: valuesOf((s, i) => promptRate(i))}]},
  {title: "Requests", whole: true, format: digits, series: () => [
    {name: "running", mark: "a", values: valuesOf(s => s.queue.running)},
    {name: "waiting", mark: "b", values: valuesOf(s => s.queue.waiting)}]},
  {title: "Time between tokens", format: seconds, series: () => [
    {name: "p50", mark: "a", values: valuesOf(s => s.latency_s.next_token.n ? s.latency_s.next_token.p50 : NaN)},
    {name: "p99", mark: "b", values: valuesOf(s => s.latency_s.next_token.n ? s.latency_s.next_token.p99 : NaN)}]},
  {title: "Tokens per pass", whole: true, format: rate, series: () => [
    {name: "evaluated together", mark: "a", values: valuesOf((s, i) => rateAt(i, "passes", SMOOTH) > 0 ? rateAt(i, "evaluated_tokens", SMOOTH) / rateAt(i, "passes", SMOOTH) : NaN)}]},
];

// One row for each ten seconds.
function rowsOf(line) {
  const series = line.series(), rows = [["Seconds ago", ...series.map(s => s.name)]], end = polls.length ? polls[polls.length - 1].at : 0;
  for (let i = polls.length - 1; i >= 0; i -= 10) rows.push([digits(Math.round(end - polls[i].at)), ...series.map(s => line.format(s.values[i]))]);
  return rows;
}

function showPlots() {
  if (!plots) {
    plots = LINES.map(line => newFigure(line.title, () => rowsOf(line)));
    find("#plots").append(...plots.map(plot => plot.figure));
  }
  const end = polls[polls.length - 1].at, ages = polls.map(poll => end - poll.at);
  const span = ages[0] > FIRST_SPAN_S ? SPAN_S : FIRST_SPAN_S;
  LINES.forEach((line, i) => drawLines(plots[i], span, ages, line.series(), line.format, line.whole));
}

// ---- tables ----

const cell = (text, attributes) => el("td", attributes, text);
const clientName = n => n === 0 ? "other" : String(n);

// Answers at a time, of all models that are open.
const places = s => s.models.reduce((sum, m) => sum + m.sequences, 0);
const modelCell = m => m && cell(m, {class: "left"});

function showModels(s) {
  const several = s.models.length > 1;
  find("#models").hidden = !several;
  for (const heading of document.querySelectorAll(".several")) heading.hidden = !several;
  find("#models tbody").replaceChildren(...s.models.map(m => el("tr", {}, el("th", {scope: "row", class: "left"}, m.id), cell(m.state, {class: "left"}),
    cell(String(m.users)), cell(String(m.waiting)), cell(bytes(m.file_bytes)), cell(bytes(m.context_bytes)), cell(seconds(m.idle_s ?? NaN)))));
}

function showSequences(s) {
  const rows = s.sequences.slice().sort((a, b) => a.sequence - b.sequence);
  find("#sequences tbody").replaceChildren(...rows.map(q => el("tr", {}, el("th", {scope: "row"}, String(q.sequence + 1)), modelCell(q.model),
    cell(q.state === "prompt" ? "reading the prompt" : "answering", {class: "left " + q.state}), cell(clientName(q.client)),
    el("td", {class: "left"}, el("progress", {max: q.n_ctx || s.model.n_ctx, value: q.position, "aria-label": "Context used"}), " " + q.position.toLocaleString("en") + " of " + (q.n_ctx || s.model.n_ctx).toLocaleString("en")),
    cell(q.prompt_tokens.toLocaleString("en")), cell(q.generated_tokens.toLocaleString("en")), cell(seconds(q.age_s)))));
  find("#sequences").hidden = rows.length === 0;
  const free = places(s) - rows.length;
  find("#free").textContent = rows.length === 0 ? "All " + count(places(s), "sequence") + " are free." : free > 0 ? count(free, "sequence") + (free === 1 ? " is free." : " are free.") : "";
}

const ENDS = {length: "token limit", end: "end of answer", stop: "stop text", stop_id: "stop token", context: "context full", grammar: "form complete", stuck: "no token fits", embedded: "embedded"};

function showRequests(s) {
  find("#requests tbody").replaceChildren(...s.requests.map(r => el("tr", {}, el("th", {scope: "row"}, new Date(r.ended * 1000).toLocaleTimeString("en-GB")), modelCell(r.model),
    cell(clientName(r.client)), ...[r.prompt_tokens, r.cached_tokens, r.generated_tokens].map(n => cell(n.toLocaleString("en"))),
    cell(seconds(r.first_token_s ?? NaN)), cell(seconds(r.total_s ?? NaN)), cell(digits(r.tokens_per_s ?? NaN)),
    cell(ENDS[r.end] || r.end, {class: "left" + (r.end === "cancelled" ? " prompt" : "")}))));
  find("#requests").hidden = s.requests.length === 0;
  find("#no-requests").hidden = s.requests.length > 0;
}

// ---- files of --dashboard ----

// A link cannot send a key.
async function showReports() {
  const list = latest().benchmarks ? (await requestJson("/v1/benchmarks")).reports : [];
  find("#reports-note").replaceChildren(...(latest().benchmarks ? list.length ? [] : ["There are no reports in the folder."] :
    ["Start the server with ", el("code", {}, "bn-serve --dashboard FOLDER"), " to see the reports of bn-bench here."]));
  find("#reports").replaceChildren(...list.map(r =>
    el("li", {}, storedKey() ? r.name : el("a", {href: "/dashboard/reports/" + r.number, target: "_blank", rel: "noopener"}, r.name), el("span", {class: "soft"}, " " + bytes(r.bytes)))));
}

// ---- polling ----

function setState(text, kind) {
  find("#state").className = "state " + kind;
  if (find("#state").textContent !== text) find("#state").textContent = text;
}

function take(status) {
  const before = latest();
  // Another start of the server counts from zero.
  if (before && (before.started !== status.started || before.counters.passes > status.counters.passes)) polls = [];
  polls.push({at: status.uptime_s, status});
  while (polls.length > 1 && polls[polls.length - 1].at - polls[0].at > SPAN_S) polls.shift();
}

function show() {
  const s = latest();
  find("#about").textContent = s.models.length > 1 ? count(s.models.length, "model") : s.model.id + " \u00b7 " + (s.model.base ? "base model" : "template " + s.model.template) + " \u00b7 " + count(s.model.threads, "thread") + " \u00b7 context of " + count(s.model.n_ctx, "token");
  find("#foot").textContent = "bn-serve " + s.version + ", up " + seconds(s.uptime_s) + ". Percentiles are of the last 512 events; rates are of the last seconds. Clients are numbers.";
  showTiles(s);
  showPlots();
  showModels(s);
  showSequences(s);
  showRequests(s);
  document.documentElement.dataset.polls = String(Number(document.documentElement.dataset.polls || 0) + 1);
}

async function poll() {
  clearTimeout(timer);
  if (paused || document.hidden) return;
  try {
    const first = !latest();
    take(await requestJson("/v1/status"));
    failures = 0;
    find("#problem").hidden = true;
    const state = {ok: "Live", stopping: "The server is stopping"}[latest().state] || "The model's file was changed";
    setState(state, latest().state === "ok" ? "live" : "late");
    show();
    if (first) await showReports();
  } catch (e) {
    failures++;
    setState("No connection", "late");
    find("#problem").hidden = false;
    find("#problem").textContent = e.message + " " + (e.hint || "");
    if (e.status === 401) { setPaused(true); return; }
  }
  timer = setTimeout(poll, failures ? Math.min(10000, EVERY_MS * 2 ** Math.min(failures, 4)) : EVERY_MS);
}

function setPaused(on) {
  paused = on;
  find("#pause").textContent = on ? "Resume" : "Pause";
  find("#pause").setAttribute("aria-pressed", String(on));
  if (on) { clearTimeout(timer); setState("Paused", ""); } else poll();
}

document.addEventListener("DOMContentLoaded", () => {
  find("#pause").addEventListener("click", () => setPaused(!paused));
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
  addEventListener("resize", () => { if (latest()) showPlots(); });
  poll();
});
