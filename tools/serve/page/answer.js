// One answer: its request and events, its figures, thoughts and calls, and the replay of its receipt.

// The events of a stream, as documents; comments and [DONE] are left out.
async function* eventsOf(response) {
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const {done, value} = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, {stream: true});
      const parts = rest.split("\n\n");
      rest = parts.pop();
      for (const part of parts)
        for (const line of part.split("\n"))
          if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
      if (done) return;
    }
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Failure("The connection ended before the answer did.", UNREACHABLE[1]);
  }
}

// Adds pieces of calls; what a piece does not name belongs to the call with its index.
function takeCalls(answer, pieces) {
  answer.calls = answer.calls || [];
  for (const {index, id, function: said} of pieces) {
    let call = answer.calls.find(c => c.index === index);
    if (!call) answer.calls.push(call = {index, id: "", name: "", arguments: ""});
    call.id = id || call.id || "call_" + index;
    call.name += said && said.name || "";
    call.arguments += said && said.arguments || "";
  }
}

// Asks, and calls progress() after each piece of text. Returns when the answer has ended; throws as request() does.
// answer gets content, thoughts, calls, tokens, promptTokens, cachedTokens, first (seconds to the first token, as they pass here),
// rate (tokens a second after that, as the server measured them), receipt, chain, seed, finish (why it ended), model, dropped
// (turns that the server left out).
async function stream(path, body, answer, signal, progress) {
  const start = performance.now();
  const response = await request(path, {body: Object.assign({stream: true, stream_options: {include_usage: true}}, body), signal});
  answer.tokens = 0;
  for await (const event of eventsOf(response)) {
    if (event.error) throw new Failure(sentence(event.error.message), "", event.error.code);
    const choice = event.choices[0] || {}, delta = choice.delta || {}, calls = delta.tool_calls || [];
    const text = choice.text || delta.content || "", thoughts = delta.reasoning_content || "";
    if (text !== "" || thoughts !== "" || calls.length > 0) {
      if (answer.first === undefined) answer.first = (performance.now() - start) / 1000;
      answer.content += text;
      if (thoughts !== "") answer.thoughts = (answer.thoughts || "") + thoughts;
      if (calls.length > 0) takeCalls(answer, calls);
      answer.tokens++;
      progress();
    }
    if (event.model) answer.model = event.model;
    if (choice.bn)
      Object.assign(answer, {receipt: choice.bn.receipt, chain: choice.bn.chain, seed: choice.bn.seed, finish: choice.bn.end, dropped: choice.bn.dropped_turns});
    if (event.timings) answer.rate = event.timings.predicted_per_second ?? undefined;
    if (event.usage) {
      answer.promptTokens = event.usage.prompt_tokens;
      answer.cachedTokens = event.usage.prompt_tokens_details.cached_tokens;
      answer.tokens = event.usage.completion_tokens;
    }
  }
  if (!answer.finish) throw new Failure("The connection ended before the answer did.", UNREACHABLE[1]);
}

// Ends other than that of the text.
const ENDED = {length: "ended at the token limit", context: "context full", cancelled: "ended at the time limit"};

// "24 tokens, 41.2 tok/s, first after 0.31 s", with the model where there are several
function figuresOf(answer, several) {
  const parts = several && answer.model ? [answer.model] : [];
  if (answer.tokens) parts.push(count(answer.tokens, "token"));
  if (answer.rate) parts.push(digits(answer.rate) + " tok/s");
  if (answer.first !== undefined) parts.push("first token after " + seconds(answer.first));
  if (answer.stopped) parts.push("stopped");
  else if (ENDED[answer.finish]) parts.push(ENDED[answer.finish]);
  return parts.join(" \u00b7 ");
}

// ---- thoughts and calls ----

// Thoughts are apart in the stream, or a think block before the answer.
function splitThoughts(answer) {
  const text = answer.content, open = answer.plain ? null : /^\s*<think>/.exec(text), end = text.indexOf("</think>");
  if (answer.thoughts) return {thoughts: answer.thoughts.trim(), answer: text.trimStart(), thinking: text === "" && !answer.calls};
  if (!open) return {thoughts: "", answer: text, thinking: false};
  if (end < 0) return {thoughts: text.slice(open[0].length).trim(), answer: "", thinking: true};
  return {thoughts: text.slice(open[0].length, end).trim(), answer: text.slice(end + 8).trimStart(), thinking: false};
}

// Thoughts are folded until somebody opens them; an answer without any text yet shows that it is being made.
function showText(answer, parts, live) {
  const split = splitThoughts(answer), calls = answer.calls || [];
  let body = parts.text.querySelector(":scope > .body"), thoughts = parts.text.querySelector(":scope > details");
  if (!body) parts.text.append(body = el("div", {class: "body"}), el("div", {class: "calls"}));
  if (split.thoughts && !thoughts) parts.text.prepend(thoughts = el("details", {class: "thoughts"}, el("summary", {"aria-live": "off"}), el("div", {"aria-live": "off"})));
  if (thoughts) {
    thoughts.firstElementChild.textContent = (split.thinking && live ? "Thinking" : "Thoughts") + ", " + count(split.thoughts.split(/\s+/).length, "word");
    thoughts.lastElementChild.textContent = split.thoughts;
  }
  parts.article.classList.toggle("waiting", live && split.answer === "" && calls.length === 0);
  if (answer.plain) body.textContent = answer.content;
  else putMarkdown(body, split.answer);
  body.classList.toggle("plain", Boolean(answer.plain));
  body.nextElementSibling.replaceChildren(...calls.flatMap(call => [codeBlock("Call of " + call.name, indented(call.arguments)),
    call.result === undefined ? null : codeBlock("Result of " + call.name, indented(call.result))].filter(Boolean)));
}

// JSON with a line for each member, its numbers and strings as they are; another text as it is.
function indented(text) {
  if (!isJson(text)) return text;
  let level = 0;
  const line = () => "\n" + "  ".repeat(Math.min(level, 40));
  return text.replace(/"(?:[^"\\]+|\\.)*"|\s+|[{}[\],:]/g, token => {
    if (/^\s/.test(token)) return "";
    if (token === "{" || token === "[") { level++; return token + line(); }
    if (token === "}" || token === "]") { level--; return line() + token; }
    return token === "," ? "," + line() : token === ":" ? ": " : token;
  }).replace(/([{[])\n +\n *([}\]])/g, "$1$2");
}

function isJson(text) {
  try { JSON.parse(text); } catch (e) { return false; }
  return true;
}

const isComplete = call => call.name !== "" && (call.arguments === "" || isJson(call.arguments));

// A field for the result of each call; give() goes on when they are in the calls.
function resultForm(calls, give) {
  const inputs = calls.map(() => el("textarea", {rows: "2", autocomplete: "off", spellcheck: "false"}));
  const form = el("form", {class: "results"}, ...calls.map((call, i) => el("label", {}, "Result of " + call.name, inputs[i])),
    el("p", {class: "row end"}, el("button", {type: "submit", class: "primary"}, calls.length > 1 ? "Send results" : "Send result")));
  form.addEventListener("submit", event => {
    event.preventDefault();
    give(inputs.map(input => input.value));
  });
  for (const input of inputs) onEnter(input, () => form.requestSubmit());
  return form;
}

// The messages of the API that a message is. Calls without results are left out, as thoughts are.
function sentForm(message) {
  const calls = (message.calls || []).filter(call => call.result !== undefined);
  const text = {role: message.role, content: message.content};
  if (calls.length === 0) return [text];
  text.tool_calls = calls.map(call => ({id: call.id, type: "function", function: {name: call.name, arguments: call.arguments || "{}"}}));
  return [text, ...calls.map(call => ({role: "tool", tool_call_id: call.id, content: call.result}))];
}

// The tools of a text of the settings: {tools, error}.
function toolsOf(text) {
  let tools = [];
  try {
    tools = JSON.parse(text.trim() || "[]");
  } catch (e) {
    return {tools: [], error: "This is not JSON: " + e.message};
  }
  const wrong = !Array.isArray(tools) ? "a list is expected, [ ... ]" : tools.map((tool, i) => {
    const f = tool && tool.function, name = "tool " + (i + 1);
    if (!f || tool.type !== "function") return name + ' is not {"type": "function", "function": {...}}';
    if (typeof f.name !== "string" || !/^[\w-]{1,64}$/.test(f.name)) return name + " needs a name of up to 64 letters, digits, _ and -";
    if (tools.findIndex(other => other?.function?.name === f.name) < i) return name + " has the name of another one, " + f.name;
    return f.parameters === undefined || (f.parameters && typeof f.parameters === "object" && !Array.isArray(f.parameters)) ? "" : name + ": parameters is not a JSON schema, {...}";
  }).find(Boolean);
  return wrong ? {tools: [], error: sentence(wrong)} : {tools, error: ""};
}

const errorElement = error => el("div", {class: "error"}, el("p", {}, error.message), error.hint ? el("p", {class: "soft"}, error.hint) : null);

// ---- receipts ----

const fact = (name, value) => [el("dt", {}, name), el("dd", {}, value)];
const linkButton = id => copyButton("Copy link", () => location.origin + location.pathname + "#receipt=" + id, {title: "Copy a link to the receipt of this answer"});

// Whether a text has what the page shows, thoughts before the answer. A page that was opened by a link shows nothing else, and
// calls are made of the text by the rules of a template.
function isShown(answer, text) {
  if (answer.content === undefined || answer.calls) return true;
  if (!answer.thoughts) return text === answer.content;
  const rest = text.replace(answer.thoughts, "");
  return text.includes(answer.thoughts) && rest.replace(/^\s*(<think>)?\s*(<\/think>)?\s*/, "") === answer.content.trimStart();
}

function showVerdict(panel, answer, result) {
  const other = result.verified && result.text !== undefined && !isShown(answer, result.text);
  const good = result.verified && !other;
  const said = good ? "The server generated this answer again from its receipt. All " + count(result.tokens, "token") + " and the chain of digests are the same." :
    other ? "The receipt replays, but its text is not the one on this page." : "The replay does not agree with the receipt: " + result.reason + ".";
  panel.classList.add(good ? "good" : "bad");
  panel.dataset.verdict = good ? "verified" : "failed";
  find("#said").textContent = good ? "The answer is verified." : "The answer is not verified.";
  panel.replaceChildren(el("h4", {}, good ? "Verified" : "Not verified"), el("p", {}, said));
  if (result.text !== undefined && (answer.content === undefined || answer.calls || other))
    panel.append(el("p", {class: "soft"}, "The text that was generated:"), el("pre", {tabindex: "0", class: "replayed"}, result.text));
  return el("dl", {}, ...fact("Receipt", answer.receipt), ...fact("Chain", answer.chain), ...fact("Seed", String(answer.seed)),
    ...fact("Model", result.model), ...fact("Time of the replay", seconds(result.seconds)));
}

// The text of a receipt, as the server has it: numbers may have more digits than those of a browser.
const readReceipt = async id => (await request("/v1/receipts/" + id)).text();

function receiptParts(id, text) {
  const name = "receipt-" + id + ".json", save = button("Save receipt", () => saveFile(name, text), {class: "link"});
  return [el("details", {}, el("summary", {}, "Receipt"), el("pre", {tabindex: "0"}, text)),
    el("p", {class: "row"}, copyButton("Copy", () => text), linkButton(id), save),
    el("p", {class: "soft"}, "To verify it without this server: ", el("code", {}, "bn-verify-receipt " + name + " --model FILE --replay"))];
}

// Fills the panel: first "Replaying", then the verdict, the facts and the receipt.
async function verify(panel, answer) {
  delete panel.dataset.verdict;
  panel.classList.remove("good", "bad");
  panel.replaceChildren(el("p", {class: "busy"}, "Replaying " + count(answer.tokens, "token") + "\u2026"));
  try {
    const result = await requestJson("/v1/receipts/" + answer.receipt + "/replay", {body: {}});
    const facts = showVerdict(panel, answer, result);
    if (answer.content !== undefined) panel.append(facts, ...receiptParts(answer.receipt, await readReceipt(answer.receipt)));
    panel.scrollIntoView({block: "nearest"});
  } catch (e) {
    panel.classList.add("bad");
    panel.append(el("h4", {}, "Could not verify"), el("p", {}, e.message + " " + (e.hint || "")));
    panel.querySelector(".busy")?.remove();
    if (!panel.dataset.verdict) panel.dataset.verdict = "error";
  }
}

// ---- a receipt that a link names ----

// The statement of a receipt, which an envelope may hold, and its seed with all digits.
function statementOf(text) {
  const document_ = JSON.parse(text), signed = document_.payload !== undefined;
  const inside = signed ? new TextDecoder().decode(Uint8Array.from(atob(document_.payload), c => c.charCodeAt(0))) : text;
  return {signed, seed: (/"seed": ?(\d+)/.exec(inside) || [])[1], facts: JSON.parse(inside).predicate};
}

function factsOf(id, text) {
  const {signed, seed, facts} = statementOf(text), {request: asked, result} = facts;
  const sampling = ["temperature", "top_k", "top_p", "min_p", "repeat_penalty"].map(name => name + " " + asked[name]).join(", ");
  const shown = [["Receipt", id], ["Made", facts.timestamp], ["Model", facts.model.path], ["SHA-256 of the model", facts.model.sha256],
    ["Prompt", count(result.prompt_tokens, "token") + ", template " + asked.template], ["Answer", count(result.ids.length, "token")],
    ["Sampling", sampling], ["Seed", seed], ["Chain", result.chain], ["Machine", facts.machine.cpu_model],
    ["Signature", signed ? "yes; bn-verify-receipt checks it" : "none"]];
  return {answer: {receipt: id, chain: result.chain, seed, tokens: result.ids.length}, list: el("dl", {}, ...shown.flatMap(([name, value]) => fact(name, String(value))))};
}

// Shows the receipt of the address; only a click replays it.
async function showShared() {
  const given = location.hash.startsWith("#receipt="), id = location.hash.slice(9), place = find("#shared");
  document.body.classList.toggle("sharing", given);
  place.hidden = !given;
  find("#scroll").scrollTop = given ? 0 : find("#scroll").scrollHeight;
  if (!given) return;
  const title = el("h2", {tabindex: "-1"}, "Receipt of an answer"), panel = el("section", {class: "receipt", "aria-label": "Verdict", hidden: true});
  const back = button("Open the chat", () => { closeShared(); focusPrompt(); });
  const show = (...parts) => { place.replaceChildren(title, ...parts); title.focus(); };
  show(el("p", {class: "busy"}, "Reading the receipt\u2026"));
  try {
    if (!/^[\w-]{1,64}$/.test(id)) throw new Failure("This link does not name a receipt.");
    const text = await readReceipt(id), {answer, list} = factsOf(id, text);
    const start = button("Verify", () => { panel.hidden = false; verify(panel, answer); }, {class: "primary"});
    if (location.hash.slice(9) !== id) return;
    show(el("p", {}, "A server states here how it generated an answer. Verify it, and this server generates the answer again, shows it, and compares all tokens."),
      el("p", {class: "row"}, start, back), panel, el("div", {class: "receipt"}, list, ...receiptParts(id, text)));
  } catch (e) {
    show(errorElement(e), el("p", {class: "row"}, back));
  }
}
