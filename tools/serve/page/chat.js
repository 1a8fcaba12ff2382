// The chat: conversations in localStorage, one key each, messages, settings. One answer is streamed at a time; it goes on when
// another conversation is opened.

const STORE = "bn.chat.";
const DEFAULTS = {system: "", tools: "", model: "", temperature: "0.7", top_p: "0.95", top_k: "40", min_p: "0", seed: "", max_tokens: ""};
const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "seed", "max_tokens"];
const CONTINUATION_TOKENS = 128; // of a base model, which rarely ends by itself

let model = {name: "", chat: true, known: false};
let models = []; // of the server
let settings = Object.assign({}, DEFAULTS);
let conversation = null;
let running = null; // {conversation, answer, controller}
const shown = new WeakMap(); // of messages: their elements

// ---- storage ----

function keep(key, value) {
  try {
    local.setItem(key, JSON.stringify(value));
  } catch (e) {
    notify("The browser's storage is full: this is not kept. Delete old conversations.");
  }
}

function stored(key) {
  try { return JSON.parse(local.getItem(key)); } catch (e) { return null; }
}

function storedConversations() {
  const all = [];
  for (let i = 0; i < local.length; i++) {
    const found = local.key(i).startsWith(STORE) ? stored(local.key(i)) : null;
    if (found && Array.isArray(found.messages)) all.push(found);
  }
  return all.sort((a, b) => b.updated - a.updated);
}

function saveConversation(c) {
  if (c.messages.length === 0 || c.removed) return;
  c.updated = Date.now();
  keep(STORE + c.id, c);
}

function newConversation() {
  const id = Date.now().toString(36) + Math.random().toString(36).slice(2, 8);
  return {id, title: "", updated: Date.now(), system: settings.system, messages: []};
}

function titleOf(text) {
  const line = text.trim().split("\n")[0];
  return line.length > 60 ? line.slice(0, 57) + "\u2026" : line;
}

// ---- the list of conversations ----

function showList() {
  const list = find("#conversations");
  list.replaceChildren(...storedConversations().map(c => {
    const open = button(c.title || "Untitled", () => { openConversation(c.id); showSide(false); closeShared(); }, {"aria-current": c.id === conversation.id});
    const remove = button("\u2715", () => removeConversation(c), {class: "icon remove", "aria-label": "Delete \u201c" + c.title + "\u201d", title: "Delete"});
    return el("li", {}, open, remove);
  }));
}

function openConversation(id) {
  const found = running && running.conversation.id === id ? running.conversation : stored(STORE + id);
  if (!found) return;
  // A page that was closed while an answer came.
  const last = found.messages[found.messages.length - 1];
  if (last && last.role === "assistant" && !last.finish && !last.error && !(running && running.answer === last)) last.stopped = true;
  conversation = found;
  showConversation();
}

function removeConversation(c) {
  if (running && running.conversation.id === c.id) {
    running.conversation.removed = true;
    running.controller.abort();
  }
  local.removeItem(STORE + c.id);
  if (conversation.id === c.id) {
    conversation = newConversation();
    showConversation();
  }
  showList();
  notify("Deleted.", "Undo", () => { keep(STORE + c.id, c); showList(); });
}

// What is below the receipt of a link comes back.
function closeShared() {
  if (location.hash.startsWith("#receipt=")) location.hash = "";
}

function startNew() {
  closeShared();
  conversation = newConversation();
  showConversation();
  showSide(false);
  focusPrompt();
}

function exportAll() {
  const all = storedConversations();
  if (all.length === 0) { notify("There are no conversations yet."); return; }
  const document_ = {format: "bn.conversations/1", exported: new Date().toISOString(), model: model.name, conversations: all};
  saveFile("conversations.json", JSON.stringify(document_, null, 2) + "\n");
}

function showSide(open) {
  document.body.classList.toggle("side-open", open);
  find("#menu").setAttribute("aria-expanded", String(open));
}

// ---- messages ----

// Whether the end of the messages is in view; then it stays there.
const atEnd = () => { const s = find("#scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 80; };
function toEnd() { const s = find("#scroll"); s.scrollTop = s.scrollHeight; }

function showConversation() {
  const log = find("#log");
  // A conversation that is opened is not read aloud.
  log.setAttribute("aria-live", "off");
  setTimeout(() => log.removeAttribute("aria-live"), 500);
  log.replaceChildren(...conversation.messages.map(messageElement));
  log.setAttribute("aria-busy", String(running !== null && running.conversation === conversation));
  find("#empty").hidden = conversation.messages.length > 0;
  showDropped();
  document.title = (conversation.title || "Chat") + " - bn-serve";
  showAbout();
  showList();
  showRunning();
  toEnd();
}

// The place from which on the model reads the conversation.
function showDropped() {
  const first = conversation.messages[conversation.from || 0];
  find("#dropped")?.remove();
  if (conversation.from && shown.has(first))
    shown.get(first).article.before(el("p", {id: "dropped", class: "soft"},
      "The " + count(conversation.from, "oldest message") + " were left out to fit the context."));
}

function showAbout() {
  const parts = [!model.chat ? "Base model" : model.template ? "Template " + model.template : "Opened by its first message"], {tools} = toolsOf(settings.tools);
  if (model.context) parts.push("context of " + count(model.context, "token"));
  if (model.chat && conversation.system.trim() !== "") parts.push("system prompt");
  if (model.chat && tools.length > 0) parts.push(count(tools.length, "tool"));
  if (model.known) find("#about").textContent = parts.join(" \u00b7 ");
}

function messageElement(message) {
  const mine = message.role === "user";
  const parts = {text: el("div", {class: "text"}), figures: el("span", {class: "figures"}), actions: el("span", {class: "actions"}),
    panel: el("section", {class: "receipt", "aria-label": "Receipt", "aria-live": "off", hidden: true})};
  parts.article = el("article", {class: "message " + (mine ? "mine" : "answer"), "aria-live": mine ? "off" : undefined},
    el("h3", {class: "hidden"}, mine ? "You" : message.model || "Answer"), parts.text,
    el("div", {class: "meta"}, parts.figures, parts.actions), parts.panel);
  shown.set(message, parts);
  if (mine) showPrompt(message, parts);
  else showAnswer(message);
  return parts.article;
}

function showPrompt(message, parts) {
  parts.text.replaceChildren(message.content);
  parts.actions.replaceChildren(button("Edit", () => editMessage(message), {class: "link edit"}), copyButton("Copy", () => message.content));
}

function showAnswer(answer) {
  const parts = shown.get(answer), live = running !== null && running.answer === answer;
  if (!parts) return;
  showText(answer, parts, live);
  parts.figures.textContent = figuresOf(answer, models.length > 1);
  for (const old of parts.article.querySelectorAll(".error, .results")) old.remove();
  if (answer.error) parts.text.after(errorElement(answer.error));
  const calls = answer.calls || [], asks = calls.length > 0 && !live && conversation.messages.at(-1) === answer;
  if (asks && answer.finish && !answer.error && calls.every(isComplete)) parts.text.after(resultForm(calls, results => giveResults(answer, results)));
  parts.actions.replaceChildren(...(live ? [] : actionsOf(answer, parts)));
}

function actionsOf(answer, parts) {
  const actions = answer.content === "" ? [] : [copyButton("Copy", () => splitThoughts(answer).answer)];
  if (!answer.error || answer.error.code !== "context_length_exceeded")
    actions.push(button(answer.error ? "Try again" : "Regenerate", () => regenerate(answer), {class: "link"}));
  if (answer.plain && answer.content !== "" && answer.finish !== "context") actions.push(button("Continue", () => continueText(answer), {class: "link"}));
  if (answer.receipt && !answer.error) {
    const toggle = button("Verify", () => {
      parts.panel.hidden = !parts.panel.hidden;
      toggle.setAttribute("aria-expanded", String(!parts.panel.hidden));
      if (!parts.panel.hidden) verify(parts.panel, answer);
    }, {class: "link", "aria-expanded": String(!parts.panel.hidden)});
    actions.push(toggle, linkButton(answer.receipt));
  }
  return actions;
}

// ---- answers ----

// The messages that are sent: from a turn on that the context has room for. An answer with neither text nor results is not.
const sentOf = (c, upTo) => c.messages.slice(c.from || 0, upTo).filter(m => m.role === "user" || !m.error)
  .flatMap(sentForm).filter(m => m.role !== "assistant" || m.content !== "" || m.tool_calls);

// Leaves out one more turn; false: only the newest is left.
function dropTurn(c, upTo) {
  const next = c.messages.findIndex((m, i) => i > (c.from || 0) && i < upTo && m.role === "user");
  if (next > 0) c.from = next;
  return next > 0;
}

// The server drops as few turns as it can. The request after that drops some more, so that the next ones only add to it.
function makeRoom(c, upTo) {
  const size = () => sentOf(c, upTo).reduce((sum, m) => sum + m.content.length, 0), most = size() * 3 / 4;
  if (c.full) while (size() > most && dropTurn(c, upTo));
  c.full = false;
}

async function ask(c, answer, signal, progress) {
  const at = c.messages.indexOf(answer);
  if (!model.chat) return stream("/v1/completions", bodyOf(c, at), answer, signal, progress);
  makeRoom(c, at);
  if (conversation === c) showDropped();
  await stream("/v1/chat/completions", bodyOf(c, at), answer, signal, progress);
  for (let n = answer.dropped || 0; n > 0 && dropTurn(c, at); n--) c.full = true;
  if (conversation === c) showDropped();
}

function bodyOf(c, upTo) {
  const body = {model: model.name}, again = c.messages[upTo] && c.messages[upTo].again;
  for (const name of NUMBERS) {
    const value = settings[name].trim();
    if (value === "" || !Number.isFinite(Number(value))) continue;
    body[name] = name === "seed" ? again || value : Number(value);
  }
  if (!model.chat) {
    body.prompt = c.messages[upTo - 1].content;
    if (body.max_tokens === undefined) body.max_tokens = CONTINUATION_TOKENS;
    return body;
  }
  const {tools} = toolsOf(settings.tools);
  body.messages = sentOf(c, upTo);
  body.truncation = "auto";
  if (tools.length > 0) body.tools = tools;
  if (c.system.trim() !== "") body.messages.unshift({role: "system", content: c.system});
  return body;
}

// Answers the last message of the conversation on the page; again: the seed, where that of the settings gave an answer already.
async function answerLast(again) {
  const c = conversation, answer = {role: "assistant", content: "", plain: !model.chat, asked: settings.seed.trim(), again, model: model.name};
  const controller = new AbortController();
  c.messages.push(answer);
  running = {conversation: c, answer, controller};
  for (const m of c.messages) if (m.calls) showAnswer(m);
  find("#log").append(messageElement(answer));
  find("#empty").hidden = true;
  find("#log").setAttribute("aria-busy", "true");
  showRunning();
  toEnd();
  await receive(c, answer, controller.signal);
  saveConversation(c);
  if (model.chat && !model.template && !answer.error) await showModel(); // the answer has opened it
  const follow = atEnd();
  running = null;
  find("#log").setAttribute("aria-busy", "false");
  showAnswer(answer);
  showList();
  showRunning();
  if (conversation === c && follow) toEnd();
  find("#said").textContent = answer.error ? "" : answer.stopped ? "The answer was stopped." :
    answer.calls ? "The model asks for " + count(answer.calls.length, "result") + "." : "The answer is complete.";
}

// Draws at most once a frame, and saves at most once a second.
async function receive(c, answer, signal) {
  let drawing = false, saved = Date.now();
  const progress = () => {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => {
      const follow = atEnd();
      drawing = false;
      if (running && running.answer === answer && shown.has(answer)) {
        showText(answer, shown.get(answer), true);
        shown.get(answer).figures.textContent = figuresOf(answer, models.length > 1);
      }
      if (conversation === c && follow) toEnd();
      if (Date.now() - saved > 1000) { saved = Date.now(); saveConversation(c); }
    });
  };
  saveConversation(c);
  showList();
  try {
    if (!model.known) await readModel();
    answer.plain = !model.chat;
    await ask(c, answer, signal, progress);
  } catch (e) {
    if (e.name === "AbortError") answer.stopped = true;
    else answer.error = {message: e.message, hint: e.hint || "", code: e.code};
  }
}

function showRunning() {
  const here = running !== null;
  find("#send").hidden = here;
  find("#stop").hidden = !here;
}

function send(text) {
  if (running) { notify("An answer is being generated. Stop it first, or wait."); return false; }
  if (conversation.title === "") conversation.title = titleOf(text);
  const message = {role: "user", content: text};
  conversation.messages.push(message);
  find("#log").append(messageElement(message));
  answerLast();
  return true;
}

// The results of the calls of the last answer, which the next one reads.
function giveResults(answer, results) {
  if (running) { notify("An answer is being generated. Stop it first, or wait."); return; }
  results.forEach((result, i) => { answer.calls[i].result = result; });
  answerLast();
  focusPrompt();
}

function stop() {
  if (!running) return;
  running.controller.abort();
  focusPrompt();
}

// Not on a phone, where the keyboard would open.
function focusPrompt() {
  if (!matchMedia("(pointer: coarse)").matches) find("#prompt").focus();
}

// The messages from this one on are replaced.
function cutAt(message) {
  const at = conversation.messages.indexOf(message);
  for (const m of conversation.messages.splice(at)) shown.get(m).article.remove();
  if (at <= conversation.from) conversation.from = 0;
  showDropped();
}

// As /regen of bn-run chat: after an answer with the seed of the settings comes the next seed.
function regenerate(answer) {
  if (running) return;
  const repeats = answer.seed !== undefined && settings.seed.trim() !== "" && answer.asked === settings.seed.trim();
  const again = repeats ? String(answer.seed + 1) : undefined;
  if (/^0*(\.0*)?$/.test(settings.temperature.trim() || "1")) notify("With temperature 0 the same question gets the same answer.");
  else if (repeats) notify("Answering again with the next seed, " + again + ".");
  cutAt(answer);
  answerLast(again);
  focusPrompt();
}

function continueText(answer) {
  const prompt = conversation.messages[conversation.messages.indexOf(answer) - 1].content, input = find("#prompt");
  input.value = prompt + answer.content;
  fit(input);
  input.focus();
}

function editMessage(message) {
  const parts = shown.get(message);
  if (running) { notify("An answer is being generated. Stop it first, or wait."); return; }
  const input = el("textarea", {"aria-label": "Edit your message", rows: "3"});
  const close = () => { parts.article.classList.remove("editing"); showPrompt(message, parts); };
  const accept = () => {
    const text = input.value.trim() === "" ? "" : input.value;
    if (text === "" || running) return;
    if (conversation.messages[0] === message) conversation.title = titleOf(text);
    cutAt(message);
    send(text);
    focusPrompt();
  };
  input.value = message.content;
  input.addEventListener("keydown", event => {
    if (event.key === "Escape") { event.stopPropagation(); close(); find("#prompt").focus(); }
  });
  onEnter(input, accept);
  input.addEventListener("input", () => fit(input));
  parts.article.classList.add("editing");
  parts.text.replaceChildren(input);
  parts.actions.replaceChildren(button("Cancel", close, {class: "link"}), button("Send", accept, {class: "primary"}));
  fit(input);
  input.focus();
}

// ---- settings ----

function fillSettings() {
  for (const name of NUMBERS) find("#" + name).value = settings[name];
  find("#system").value = conversation.system;
  find("#tools").value = settings.tools;
  find("#system-field").hidden = find("#tools-field").hidden = !model.chat;
  find("#model-field").hidden = models.length < 2;
  find("#model-choice").replaceChildren(...models.map(m => el("option", {selected: m.id === model.name}, m.id)));
  showTools();
  find("#max-help").textContent = model.chat ? "empty: until the answer ends" : "empty: " + CONTINUATION_TOKENS;
}

// Wrong tools are not sent.
function showTools() {
  const {tools, error} = toolsOf(settings.tools);
  find("#tools").setAttribute("aria-invalid", String(error !== ""));
  find("#tools-said").textContent = error || (tools.length > 0 ? "Sent with each message: " + tools.map(tool => tool.function.name).join(", ") + "." :
    "A list of functions in the form of OpenAI\u2019s API. You give the results of their calls.");
}

function takeSettings() {
  for (const name of NUMBERS) if (find("#" + name).validity.valid) settings[name] = find("#" + name).value;
  settings.system = conversation.system = find("#system").value;
  settings.tools = find("#tools").value;
  if (models.length > 1) settings.model = find("#model-choice").value;
  keep("bn.settings", settings);
  saveConversation(conversation);
  showTools();
  if (model.known) useModel();
}

// ---- the model ----

async function readModel() {
  models = (await requestJson("/v1/models")).data;
  useModel();
  for (const m of conversation.messages) if (m.role === "assistant") showAnswer(m);
}

// That of the settings, or the first.
function useModel() {
  const found = models.find(m => m.id === settings.model) || models[0];
  model = {name: found.id, chat: !found.base, template: found.template, context: found.max_model_len, known: true};
  find("#model").textContent = found.id;
  showAbout();
  find("#empty-title").textContent = model.chat ? "Ask " + found.id : "Continue a text";
  find("#empty-text").replaceChildren(...(model.chat ? ["Conversations stay in this browser."] :
    ["This is a base model: it has no chat template, so it does not answer questions. It continues the text that you write. " +
      "To chat with it all the same, start bn-serve with ", el("code", {}, "--template instruct"), "."]));
  find("#prompt-label").textContent = model.chat ? "Message" : "Text to continue";
  find("#prompt").placeholder = model.chat ? "Message" : "Write the beginning of a text";
}

async function showModel() {
  try {
    await readModel();
    document.documentElement.dataset.ready = "yes";
  } catch (e) {
    find("#about").textContent = e.message;
    find("#empty-title").textContent = "No connection";
    find("#empty-text").replaceChildren(e.message + " " + (e.hint || ""), el("br"), button("Try again", showModel, {class: "link"}));
  }
}

// ---- the page ----

function fit(input) {
  if (!CSS.supports("field-sizing", "content")) input.rows = Math.min(10, Math.max(1, input.value.split("\n").length));
}

// On a phone Enter starts a new line.
function onEnter(input, act) {
  input.addEventListener("keydown", event => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    act();
  });
}

function onKey(event) {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (document.body.classList.contains("side-open")) showSide(false);
    else stop();
  }
}

function onPromptKey(event) {
  const last = conversation.messages.findLast(m => m.role === "user");
  if (event.key !== "ArrowUp" || event.target.value !== "" || running || !last) return;
  event.preventDefault();
  editMessage(last);
}

function submit(event) {
  const input = find("#prompt");
  event.preventDefault();
  if (input.value.trim() === "" || !send(input.value)) return;
  input.value = "";
  fit(input);
}

document.addEventListener("DOMContentLoaded", () => {
  const dialog = find("#settings"), scroll = find("#scroll");
  settings = Object.assign({}, DEFAULTS, stored("bn.settings"));
  conversation = newConversation();
  const latest = storedConversations()[0];
  if (latest) openConversation(latest.id);
  else showConversation();
  find("#composer").addEventListener("submit", submit);
  find("#prompt").addEventListener("keydown", onPromptKey);
  onEnter(find("#prompt"), () => find("#composer").requestSubmit());
  find("#prompt").addEventListener("input", event => fit(event.target));
  find("#stop").addEventListener("click", stop);
  find("#new").addEventListener("click", startNew);
  find("#export").addEventListener("click", exportAll);
  find("#menu").addEventListener("click", () => showSide(true));
  find("#hide").addEventListener("click", () => showSide(false));
  find("#veil").addEventListener("click", () => showSide(false));
  find("#open-settings").addEventListener("click", () => { fillSettings(); dialog.showModal(); });
  find("#settings-form").addEventListener("input", takeSettings);
  find("#reset").addEventListener("click", () => {
    settings = Object.assign({}, DEFAULTS, {model: settings.model});
    conversation.system = "";
    fillSettings();
    takeSettings();
  });
  dialog.addEventListener("close", () => { if (find("#tools").getAttribute("aria-invalid") === "true") notify("The tools are not sent. " + find("#tools-said").textContent); });
  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
  scroll.addEventListener("scroll", () => {
    if (atEnd() && document.activeElement === find("#latest")) focusPrompt();
    find("#latest").hidden = atEnd();
  });
  find("#latest").addEventListener("click", toEnd);
  addEventListener("keydown", onKey);
  addEventListener("storage", showList);
  addEventListener("hashchange", showShared);
  showModel();
  focusPrompt();
  showShared();
});
