// The script of a flame graph (lab/stacks/svg.c). It takes the tree from the element "data" and draws what is to be seen of it:
// the frame that is zoomed into, all below it that is wide enough, and the way up to the root. Nodes are numbers in depth-first
// order, so that all below a node are those up to end[node].
(function () {
"use strict";
const SVG = "http://www.w3.org/2000/svg", HTML = "http://www.w3.org/1999/xhtml";
const svg = document.currentScript.ownerSVGElement;
const D = JSON.parse(svg.querySelector("#data").textContent);
const MARGIN = 10, ROW = D.frameHeight, THIN = 3, SEEN = 40; // px; boxes have no edge when they are THIN; a match should be as wide as SEEN
const isDiff = D.before !== undefined;

// ---- trees ----

// Totals, ends and places from depth, frame, look, self, samples.
function finish(t) {
  const n = t.depth.length;
  t.parent = new Int32Array(n);
  t.end = new Int32Array(n);
  t.total = Float64Array.from(t.self);
  t.left = new Float64Array(n);
  t.sums = t.samples ? Float64Array.from(t.samples) : null;
  const path = [0];
  for (let i = 1; i < n; i++) {
    t.parent[i] = path[t.depth[i] - 1];
    path[t.depth[i]] = i;
  }
  for (let i = n - 1; i >= 0; i--) {
    if (t.end[i] === 0) t.end[i] = i + 1;
    if (i === 0) break;
    const p = t.parent[i];
    t.total[p] += t.total[i];
    if (t.sums) t.sums[p] += t.sums[i];
    if (t.end[p] === 0) t.end[p] = t.end[i];
  }
  const next = new Float64Array(n); // where the next child begins
  for (let i = 1; i < n; i++) {
    const p = t.parent[i];
    next[i] = t.left[i] = next[p];
    next[p] += t.total[i];
  }
  return t;
}

// Upside down: the functions that were running first, then who called them; tags stay above.
function callersOf(t) {
  const root = {frame: -1, look: -1, self: 0, samples: 0, below: new Map()};
  for (let i = 0; i < t.depth.length; i++) {
    if (t.self[i] === 0 && !(t.samples && t.samples[i])) continue;
    const path = [];
    for (let k = i; k > 0; k = t.parent[k]) path.push(k); // innermost first
    const tags = path.filter(k => D.frames[t.frame[k]][3]).reverse();
    let at = root;
    for (const k of tags.concat(path.filter(k => !D.frames[t.frame[k]][3]))) {
      if (!at.below.has(t.frame[k]))
        at.below.set(t.frame[k], {frame: t.frame[k], look: t.look[k], self: 0, samples: 0, below: new Map()});
      at = at.below.get(t.frame[k]);
    }
    at.self += t.self[i];
    if (t.samples) at.samples += t.samples[i];
  }
  const out = {depth: [], frame: [], look: [], self: [], samples: t.samples ? [] : null};
  const text = (a, b) => a < b ? -1 : a > b ? 1 : 0;
  const order = (a, b) => {
    const f = D.frames[a.frame], g = D.frames[b.frame];
    return f[2] - g[2] || text(f[0], g[0]) || text(f[1], g[1]);
  };
  (function walk(node, depth) {
    out.depth.push(depth);
    for (const list of ["frame", "look", "self"]) out[list].push(node[list]);
    if (out.samples) out.samples.push(node.samples);
    for (const child of Array.from(node.below.values()).sort(order)) walk(child, depth + 1);
  })(root, 0);
  return finish(out);
}

const trees = {calls: finish(D), callers: null};
function tree() {
  if (!state.callers) return trees.calls;
  return trees.callers || (trees.callers = callersOf(trees.calls));
}

// ---- texts ----

function fixed(value, decimals) {
  const parts = Math.pow(10, decimals), r = Math.floor(Math.abs(value) * parts + 0.5) / parts;
  return (value < 0 && r !== 0 ? "-" : "") + r.toFixed(decimals);
}
function scaled(value) {
  const size = Math.abs(value);
  return fixed(value, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3);
}
const UNITS = {ns: [["s", 1e9], ["ms", 1e6], ["us", 1e3]], bytes: [["GiB", 1073741824], ["MiB", 1048576], ["KiB", 1024]]};
function weight(value) {
  const unit = (UNITS[D.unit] || []).find(u => Math.abs(value) >= u[1]);
  if (unit) return scaled(value / unit[1]) + " " + unit[0];
  return (Number.isInteger(value) ? fixed(value, 0) : scaled(value)) + " " + D.unit;
}
const percent = share => (share > 0 && share < 0.00005 ? "< 0.01" : fixed(share * 100, 2)) + " %";
const points = share => (share > 0 ? "+" : "") + fixed(share * 100, 2);
const million = value => value / 1e6;

function wilson(share, n) {
  const z = 1.959963984540054, zz = z * z / n, middle = (share + 0.5 * zz) / (1 + zz);
  const half = z * Math.sqrt(share * (1 - share) / n + 0.25 * zz / n) / (1 + zz);
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}
function amount(t, value, samples) {
  const share = value / t.total[0];
  let text = weight(value) + ", " + percent(share);
  if (!t.sums || t.sums[0] === 0) return text;
  const ends = wilson(Math.min(share, 1), t.sums[0]);
  text += " (95 %: " + percent(ends[0]) + " to " + percent(ends[1]) + ")";
  return text + ", " + samples + " samples";
}
function change(i) {
  if (i === 0) return ["before " + weight(D.whole[0]) + ", after " + weight(D.whole[1])].concat(D.method ? "significance: " + D.method : []);
  const before = million(D.before[i]), after = million(D.after[i]);
  const lines = ["before " + percent(before) + ", after " + percent(after)];
  let text = "difference " + points(million(D.after[i] - D.before[i])) + " points";
  if (D.low[i] !== null && D.high[i] !== null) text += " (95 %: " + points(million(D.low[i])) + " to " + points(million(D.high[i])) + ")";
  if (D.q[i] !== null) text += D.q[i] < 1 ? ", q < 0.001" : ", q = " + (D.q[i] / 1000).toFixed(3);
  lines.push(text + (D.significant[i] ? "" : D.q[i] === null ? ", not judged" : ", not significant"));
  if (before <= 0 || after <= 0) lines.push(before > 0 ? "gone: only before" : "new: only after");
  return lines;
}
const nameOf = (t, i) => i === 0 ? "all" : D.frames[t.frame[i]][0];
function tip(t, i) {
  const lines = [nameOf(t, i)];
  if (i > 0 && D.frames[t.frame[i]][1]) lines.push(D.frames[t.frame[i]][1]);
  if (isDiff) return lines.concat(change(i)).join("\n");
  const samples = k => t.sums ? k[i] : 0;
  lines.push("total " + amount(t, t.total[i], samples(t.sums)), "self " + amount(t, t.self[i], samples(t.samples)));
  return lines.join("\n");
}

// ---- state: all that the address keeps ----

const EMPTY = {zoom: 0, search: "", case: false, callers: false, icicle: false};
const state = Object.assign({}, EMPTY);
let shown = new Map(); // node -> its group
let width = 0, focus = 0, found = [], current = -1, hits = null, error = "";

function address() {
  const parts = new URLSearchParams();
  if (state.zoom) parts.set("zoom", state.zoom);
  if (state.search) parts.set("search", state.search);
  for (const flag of ["case", "callers", "icicle"]) if (state[flag] !== EMPTY[flag]) parts.set(flag, Number(state[flag]));
  return parts.toString();
}
// A zoom is a step that "back" undoes; what is typed is not.
function keep(isStep) {
  const to = address();
  if (to === location.hash.slice(1)) return;
  if (isStep) location.hash = to;
  else location.replace("#" + to);
}
function restore() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const flag = (name) => parts.has(name) ? parts.get(name) === "1" : EMPTY[name];
  Object.assign(state, {search: parts.get("search") || "", case: flag("case"),
    callers: flag("callers") && !isDiff, icicle: flag("icicle")});
  const zoom = Number(parts.get("zoom"));
  state.zoom = Number.isInteger(zoom) && zoom > 0 && zoom < tree().depth.length ? zoom : 0;
  focus = state.zoom;
  input.value = state.search;
  find();
  draw();
}

// ---- the page ----

function element(space, name, attributes, parent) {
  const e = document.createElementNS(space, name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(e);
  return e;
}
function html(name, attributes, parent, text) {
  const e = element(HTML, name, attributes, parent);
  if (text !== undefined) e.textContent = text;
  return e;
}
function button(text, title, press) {
  const b = html("button", {type: "button", title: title}, form, text);
  b.addEventListener("click", press);
  return b;
}

svg.querySelector("#static").remove();
svg.classList.add("live");
const headBox = element(SVG, "foreignObject", {x: 0, y: 0}, svg);
const head = html("div", {class: "head"}, headBox);
if (D.title) html("h1", {}, head, D.title);
if (D.subtitle) html("p", {class: "soft"}, head, D.subtitle);
const form = html("form", {role: "search"}, head);
const input = html("input", {type: "search", id: "search", placeholder: "search by regular expression   /", "aria-label": "search names by a regular expression",
  autocomplete: "off", spellcheck: "false"}, form);
const caseButton = button("Match case", "search is case-sensitive", () => { state.case = !state.case; searched(); });
const previousButton = button("\u2039", "previous match (N)", () => go(-1));
const nextButton = button("\u203a", "next match (n)", () => go(1));
const resetButton = button("Reset zoom", "show all (Escape)", () => zoom(0));
const callersButton = isDiff ? null : button("Callers", "inverted: the running functions first, then their callers", turn);
const icicleButton = button("Icicle", "the root on top", () => { state.icicle = !state.icicle; keep(true); draw(); });
const output = html("output", {id: "matched", for: "search", "aria-live": "polite"}, form);
const legend = html("ul", {"aria-label": "colours"}, head);
for (const row of D.legend) {
  const item = html("li", {}, legend);
  html("i", {class: "b" + row[0]}, item);
  item.appendChild(document.createTextNode(row[1]));
}
const boxes = element(SVG, "g", {class: "boxes", role: "tree", "aria-label": D.title || "flame graph"}, svg);
const notesBox = element(SVG, "foreignObject", {x: 0}, svg);
const notes = html("div", {class: "notes"}, notesBox);
for (const line of D.notes) html("p", {}, notes, line);
const barBox = element(SVG, "foreignObject", {x: 0}, svg);
const bar = html("div", {class: "bar", id: "details", "aria-live": "polite"}, barBox);

// ---- drawing ----

const pen = document.createElementNS(HTML, "canvas").getContext("2d");
function fit(text, room) {
  if (room < 20) return "";
  if (pen.measureText(text).width <= room) return text;
  const chars = Array.from(text.slice(0, 4096));
  const cut = n => chars.slice(0, n).join("") + "\u2026";
  let low = 0, high = chars.length; // the most characters that fit
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (pen.measureText(cut(middle)).width <= room) low = middle; else high = middle;
  }
  return low < 2 ? "" : cut(low);
}

// The nodes that are to be seen: [node, x, width, whether it is above the zoom].
function visible(t) {
  const z = state.zoom, room = width - 2 * MARGIN, scale = room / t.total[z], list = [];
  for (let i = z; i > 0;) list.unshift([i = t.parent[i], 0, room, true]);
  for (let i = z; i < t.end[z];) {
    const w = t.total[i] * scale;
    if (i !== z && (w < D.minWidth || w <= 0)) { i = t.end[i]; continue; }
    list.push([i, (t.left[i] - t.left[z]) * scale, w, false]);
    i++;
  }
  return list;
}
const px = value => String(Math.round(value * 100) / 100);

function drawBox(t, seen, y, parent) {
  const [i, x, w, above] = seen, frame = D.frames[t.frame[i]];
  const share = isDiff ? "" : ", " + percent(t.total[i] / t.total[0]);
  const g = element(SVG, "g", {"data-node": i, role: "treeitem", tabindex: i === focus ? 0 : -1, "aria-level": t.depth[i] + 1,
    "aria-label": nameOf(t, i) + share}, parent);
  const classes = [i === 0 ? "root" : frame[3] ? "tag" : "", above ? "above" : "", w < THIN ? "thin" : "", hits && i > 0 && hits[t.frame[i]] ? "hit" : ""];
  g.setAttribute("class", classes.filter(Boolean).join(" "));
  element(SVG, "rect", {class: i === 0 ? "" : "b" + t.look[i], x: px(MARGIN + x), y: px(y), width: px(w), height: ROW}, g);
  const label = fit(nameOf(t, i), (w - 8) * (frame && frame[3] || i === 0 || hits ? 0.94 : 1)); // bold is wider
  if (label) element(SVG, "text", {x: px(MARGIN + x + 4), y: px(y + ROW / 2 + fontSize * 0.35)}, g).textContent = label;
  shown.set(i, g);
}

let fontSize = 12;
// All that is to be seen, anew. again: for the second time, since a scroll bar came or went.
function draw(again, hadFocus = boxes.contains(document.activeElement)) {
  const t = tree();
  width = room();
  headBox.setAttribute("width", width);
  notesBox.setAttribute("width", width);
  barBox.setAttribute("width", width);
  const list = visible(t), depth = list.reduce((most, seen) => Math.max(most, t.depth[seen[0]]), 0);
  shown = new Map(list.map(seen => [seen[0], null]));
  if (!shown.has(focus)) focus = state.zoom;
  buttons();
  const top = Math.ceil(head.offsetHeight);
  headBox.setAttribute("height", top);
  boxes.textContent = "";
  const style = getComputedStyle(element(SVG, "text", {}, boxes));
  fontSize = parseFloat(style.fontSize);
  pen.font = style.fontSize + " " + style.fontFamily;
  const all = document.createDocumentFragment();
  for (const seen of list) drawBox(t, seen, top + ROW * (state.icicle ? t.depth[seen[0]] : depth - t.depth[seen[0]]), all);
  boxes.textContent = "";
  boxes.appendChild(all);
  boxes.classList.toggle("searching", hits !== null);
  markHolders(t);
  height = top + ROW * (depth + 1) + 8;
  notesBox.setAttribute("y", height);
  notesBox.setAttribute("height", notes.offsetHeight);
  height += Math.ceil(notes.offsetHeight);
  place();
  if (room() !== width && !again) { draw(true, hadFocus); return; }
  if (hadFocus) setFocus(focus);
  else details(focus);
}
function room() {
  return D.width || Math.max(240, (svg.parentNode === document ? document.documentElement.clientWidth : svg.clientWidth) || window.innerWidth);
}

// The bar with the details stays at the lower edge of the window.
let height = 0;
function place() {
  const high = Math.ceil(bar.offsetHeight), all = height + high;
  if (svg.getAttribute("width") !== String(width)) svg.setAttribute("width", width);
  svg.removeAttribute("viewBox");
  svg.setAttribute("height", all);
  barBox.setAttribute("height", high);
  const y = svg.parentNode === document ? Math.min(height, window.scrollY + window.innerHeight - high) : height;
  barBox.setAttribute("y", Math.max(0, y));
}

// Frames in which there are matches that are not drawn.
function markHolders(t) {
  for (let i of found) {
    if (shown.has(i)) continue;
    while (i > 0 && !shown.has(i)) i = t.parent[i];
    if (i > 0) shown.get(i).classList.add("holds");
  }
}

function buttons() {
  resetButton.disabled = state.zoom === 0;
  previousButton.disabled = nextButton.disabled = found.length === 0;
  caseButton.setAttribute("aria-pressed", state.case);
  icicleButton.setAttribute("aria-pressed", state.icicle);
  if (callersButton) callersButton.setAttribute("aria-pressed", state.callers);
  input.setAttribute("aria-invalid", error !== "");
  output.className = error ? "error" : "";
  output.textContent = error || (hits ? matched() : "");
}

function details(i) {
  const lines = tip(tree(), i).split("\n");
  bar.textContent = "";
  html("b", {}, bar, lines[0].length > 300 ? lines[0].slice(0, 300) + "\u2026" : lines[0]);
  bar.appendChild(document.createTextNode("\n" + lines.slice(1).join("\n")));
  place();
}

function setFocus(i) {
  const old = shown.get(focus), now = shown.get(i);
  if (old) { old.setAttribute("tabindex", -1); old.classList.remove("focus"); }
  focus = i;
  now.setAttribute("tabindex", 0);
  now.classList.add("focus");
  now.focus({preventScroll: true});
  const box = now.getBoundingClientRect(), low = window.innerHeight - bar.offsetHeight;
  if (box.top < 0 || box.bottom > low) window.scrollBy(0, box.top < 0 ? box.top - ROW : box.bottom - low + ROW);
  details(i);
}

// ---- zoom ----

function zoom(i) {
  state.zoom = i;
  focus = i;
  keep(true);
  draw();
  if (shown.has(i)) setFocus(i);
}
function turn() {
  state.callers = !state.callers;
  state.zoom = 0;
  focus = 0;
  keep(true);
  find();
  draw();
}

// ---- search ----

function find() {
  found = [];
  hits = null;
  error = "";
  current = -1;
  if (!state.search) return;
  let pattern = null;
  try {
    pattern = new RegExp(state.search, state.case ? "" : "i");
  } catch (e) {
    error = e.message;
    return;
  }
  const t = tree();
  hits = D.frames.map(frame => pattern.test(frame[0]));
  for (let i = 1; i < t.depth.length; i++) if (hits[t.frame[i]] && t.total[i] > 0) found.push(i);
}
// The share of what is found, in which a frame inside another one that is found does not count again.
function matched() {
  const t = tree(), sum = [0, 0, 0];
  let end = 0;
  for (const i of found) {
    if (i < end) continue;
    end = t.end[i];
    sum[0] += t.total[i];
    if (isDiff) { sum[1] += D.before[i]; sum[2] += D.after[i]; }
  }
  const hidden = found.filter(i => !shown.has(i)).length;
  const share = isDiff ? "before " + percent(million(sum[1])) + ", after " + percent(million(sum[2])) : percent(sum[0] / t.total[0]);
  const frames = found.length + (found.length === 1 ? " frame" : " frames") + (hidden ? ", " + hidden + " not drawn" : "");
  return (current >= 0 ? current + 1 + " of " : "") + frames + ": " + share;
}
function searched() {
  keep(false);
  find();
  draw();
}
// The next or previous match, zoomed so that it can be seen: no nearer than it must be.
function go(step) {
  if (found.length === 0) return;
  current = current < 0 ? (step > 0 ? 0 : found.length - 1) : (current + step + found.length) % found.length;
  const t = tree(), i = found[current], room = width - 2 * MARGIN;
  const seen = z => i >= z && i < t.end[z] && t.total[i] / t.total[z] * room >= SEEN;
  if (!seen(state.zoom)) {
    let z = i;
    while (z > 0 && seen(t.parent[z])) z = t.parent[z];
    state.zoom = z;
    keep(true);
  }
  focus = i;
  draw();
  setFocus(i);
}

// ---- keys and pointers ----

const nodeAt = event => {
  const g = event.target.closest ? event.target.closest("[data-node]") : null;
  return g ? Number(g.getAttribute("data-node")) : -1;
};
boxes.addEventListener("click", event => { if (nodeAt(event) >= 0) zoom(nodeAt(event)); });
boxes.addEventListener("pointerover", event => {
  const i = nodeAt(event), g = shown.get(i);
  if (i < 0) return;
  details(i);
  if (!g.querySelector("title")) g.insertBefore(element(SVG, "title", {}), g.firstChild).textContent = tip(tree(), i);
});
boxes.addEventListener("pointerleave", () => details(focus));
boxes.addEventListener("focusin", event => { if (nodeAt(event) >= 0 && nodeAt(event) !== focus) setFocus(nodeAt(event)); });

// The child that is widest, the parent, or the neighbour on the same level, of those that are drawn.
function neighbour(direction) {
  const t = tree(), level = Array.from(shown.keys()).filter(i => t.depth[i] === t.depth[focus]).sort((a, b) => a - b);
  if (direction === "parent") return focus === 0 ? -1 : t.parent[focus];
  if (direction === "child") {
    let widest = -1;
    for (const i of shown.keys()) if (i > 0 && t.parent[i] === focus && (widest < 0 || t.total[i] > t.total[widest])) widest = i;
    return widest;
  }
  const next = level.indexOf(focus) + (direction === "right" ? 1 : -1);
  return next >= 0 && next < level.length ? level[next] : -1;
}
const KEYS = {
  ArrowUp: () => move(state.icicle ? "parent" : "child"),
  ArrowDown: () => move(state.icicle ? "child" : "parent"),
  ArrowLeft: () => move("left"),
  ArrowRight: () => move("right"),
  Enter: () => zoom(focus),
  " ": () => zoom(focus),
  Escape: () => { if (state.zoom) zoom(0); else clear(); },
  n: () => go(1),
  N: () => go(-1),
  "/": () => { input.focus(); input.select(); },
};
function move(direction) {
  const to = neighbour(direction);
  setFocus(to >= 0 && shown.has(to) ? to : focus);
}
function clear() {
  input.value = state.search = "";
  searched();
}
window.addEventListener("keydown", event => {
  if ((event.ctrlKey || event.metaKey) && event.key === "f" && event.target !== input) {
    event.preventDefault();
    input.focus();
    input.select();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === input) {
    if (event.key === "Enter") { event.preventDefault(); go(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { event.preventDefault(); clear(); setFocus(focus); }
    return;
  }
  if (event.target.localName === "button" && (event.key === "Enter" || event.key === " ")) return;
  if (Object.prototype.hasOwnProperty.call(KEYS, event.key)) { event.preventDefault(); KEYS[event.key](); }
});
form.addEventListener("submit", event => event.preventDefault());
input.addEventListener("input", () => { state.search = input.value; searched(); });
window.addEventListener("hashchange", () => {
  if (location.hash.slice(1) !== address()) restore();
});
window.addEventListener("scroll", place);
let resizing = 0;
window.addEventListener("resize", () => { cancelAnimationFrame(resizing); resizing = requestAnimationFrame(() => draw()); });
// On paper all is to be seen, as wide as the page.
window.addEventListener("beforeprint", () => {
  svg.setAttribute("viewBox", "0 0 " + width + " " + height);
  svg.setAttribute("width", "100%");
  svg.removeAttribute("height");
});
window.addEventListener("afterprint", () => draw());
restore();
})();
