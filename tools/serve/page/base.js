// What both pages share: elements, theme, key, requests, notices, numbers. Texts become text nodes, never markup.
"use strict";

// An element with attributes, and children that are elements or texts.
function el(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {}))
    if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  element.append(...children.filter(child => child !== undefined && child !== null));
  return element;
}

function button(text, action, attributes) {
  const element = el("button", Object.assign({type: "button"}, attributes), text);
  element.addEventListener("click", action);
  return element;
}

// The browser's storage; where it is switched off, one that ends with the page.
function storageOf(name) {
  try {
    return globalThis[name];
  } catch (e) {
    const map = new Map();
    return {getItem: key => map.has(key) ? map.get(key) : null, setItem: (key, value) => map.set(key, value), removeItem: key => map.delete(key),
      key: i => [...map.keys()][i], get length() { return map.size; }};
  }
}

const local = storageOf("localStorage"), session = storageOf("sessionStorage");
const find = selector => document.querySelector(selector);

// ---- theme ----

// Without a stored one, as the system has it.
function showTheme() {
  const theme = local.getItem("bn.theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function labelTheme() {
  const control = find("#theme");
  control.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
  control.title = control.getAttribute("aria-label");
}

// Back to the system's theme when both are the same.
function switchTheme() {
  const wanted = isDark() ? "light" : "dark";
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  if (wanted === system) local.removeItem("bn.theme");
  else local.setItem("bn.theme", wanted);
  showTheme();
  labelTheme();
}

showTheme();

// ---- key ----

let asking = null;
const storedKey = () => session.getItem("bn.key") || "";

// Asks for the key of the server; several requests share one dialog. False: it was cancelled.
function askKey(wrong) {
  if (asking) return asking;
  asking = new Promise(done => {
    const input = el("input", {type: "password", id: "key", autocomplete: "off", spellcheck: "false", required: true});
    const dialog = el("dialog", {class: "small", "aria-labelledby": "key-title"});
    const form = el("form", {method: "dialog"},
      el("h2", {id: "key-title"}, "This server needs a key"),
      el("p", {class: "soft"}, wrong ? "The key was not accepted." : "The key is in the file that bn-serve --api-key-file names. " +
        "This tab keeps it until it is closed."),
      el("label", {for: "key"}, "Key"), input,
      el("p", {class: "row end"}, button("Cancel", () => dialog.close(), {class: "plain"}), el("button", {class: "primary", type: "submit"}, "Use key")));
    let given = false;
    form.addEventListener("submit", event => {
      event.preventDefault();
      session.setItem("bn.key", input.value.trim());
      given = true;
      dialog.close();
    });
    dialog.addEventListener("close", () => { dialog.remove(); asking = null; done(given); });
    dialog.append(form);
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}

// ---- requests ----

// An error that a person reads: what happened, and what helps.
class Failure extends Error {
  constructor(message, hint, status, code) {
    super(message);
    this.hint = hint || "";
    this.status = status || 0;
    this.code = code || "";
  }
}

const UNREACHABLE = ["The server cannot be reached.", "Check that bn-serve is still running, then try again."];

function hintOf(status, code, retryAfter) {
  if (code === "context_length_exceeded") return "Edit the last message to shorten it.";
  if (status === 429) return retryAfter ? " There may be room in " + retryAfter + " s." : "";
  if (status === 503) return "Try again when the server has started.";
  if (status === 404) return "The server keeps the receipts of its last answers only.";
  return "";
}

const sentence = text => text.slice(0, 1).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

async function failureOf(response) {
  let error = {};
  try { error = (await response.json()).error || {}; } catch (e) { /* no document */ }
  const said = sentence(error.message || "the server answered with status " + response.status);
  const hint = hintOf(response.status, error.code, response.headers.get("Retry-After"));
  return response.status === 429 ? new Failure("The server is busy.", said + hint, 429, error.code) : new Failure(said, hint, response.status, error.code);
}

// A response of the server with a status below 400; otherwise a Failure, or the AbortError of the signal.
async function request(path, options) {
  const {body, signal} = options || {};
  for (;;) {
    const headers = {}, key = storedKey();
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (key) headers.Authorization = "Bearer " + key;
    let response;
    try {
      response = await fetch(path, {method: body === undefined ? "GET" : "POST", headers, signal, cache: "no-store",
        body: body === undefined ? undefined : JSON.stringify(body)});
    } catch (e) {
      if (e.name === "AbortError") throw e;
      throw new Failure(...UNREACHABLE);
    }
    if (response.ok) return response;
    if (response.status !== 401) throw await failureOf(response);
    if (!await askKey(key !== "")) throw new Failure("This server needs a key.", "", 401);
  }
}

const requestJson = async (path, options) => (await request(path, options)).json();

// ---- notices ----

// A line at the bottom for some seconds, with one action.
function notify(text, action, act) {
  const place = find("#notices"), line = el("div", {class: "notice"}, el("span", {}, text));
  if (action) line.append(button(action, () => { line.remove(); act(); }, {class: "link"}));
  place.replaceChildren(line);
  setTimeout(() => line.remove(), action ? 8000 : 4000);
}

// The clipboard exists only for https and localhost.
async function copyText(text, control) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (e) {
    const area = el("textarea", {class: "hidden", "aria-hidden": "true"});
    area.value = text;
    (control.closest("dialog") || document.body).append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    control.focus();
  }
  const before = control.dataset.label || control.textContent;
  control.dataset.label = before;
  control.textContent = "Copied";
  setTimeout(() => { control.textContent = before; }, 1500);
}

const copyButton = (name, textOf, attributes) =>
  button(name, event => copyText(textOf(), event.currentTarget), Object.assign({class: "link"}, attributes));

function saveFile(name, text) {
  const link = el("a", {download: name, href: URL.createObjectURL(new Blob([text], {type: "application/json"}))});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// ---- numbers ----

function digits(value) {
  if (!Number.isFinite(value)) return "\u2013";
  if (value === 0) return "0";
  const n = Math.abs(value);
  return n >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : n >= 10 ? value.toFixed(1) : n >= 1 ? value.toFixed(2) : value.toPrecision(2);
}

function seconds(value) {
  if (!Number.isFinite(value)) return "\u2013";
  if (value === 0) return "0 s";
  if (value < 0.001) return digits(value * 1e6) + " \u00b5s";
  if (value < 1) return digits(value * 1e3) + " ms";
  if (value < 120) return digits(value) + " s";
  if (value < 7200) return Math.floor(value / 60) + " min " + Math.round(value % 60) + " s";
  return Math.floor(value / 3600) + " h " + Math.round(value % 3600 / 60) + " min";
}

function bytes(value) {
  if (!Number.isFinite(value)) return "\u2013";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; value >= 1024 && i + 1 < units.length; i++) value /= 1024;
  return digits(value) + " " + units[i];
}

const count = (n, what) => n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s");

document.addEventListener("DOMContentLoaded", () => {
  labelTheme();
  find("#theme").addEventListener("click", switchTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", labelTheme);
});
