// One answer: its request and events, its figures, and the replay of its receipt.

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

// Asks, and calls progress() after each piece of text. Returns when the answer has ended; throws as request() does.
// answer gets content, tokens, promptTokens, cachedTokens, first (seconds to the first token, as they pass here), rate (tokens
// a second after that, as the server measured them), receipt, chain, seed, finish (why it ended).
async function stream(path, body, answer, signal, progress) {
  const start = performance.now();
  const response = await request(path, {body: Object.assign({stream: true, stream_options: {include_usage: true}}, body), signal});
  answer.tokens = 0;
  for await (const event of eventsOf(response)) {
    if (event.error) throw new Failure(sentence(event.error.message), "", event.error.code);
    const choice = event.choices[0];
    const text = choice ? choice.text || choice.delta && choice.delta.content || "" : "";
    if (text !== "") {
      if (answer.first === undefined) answer.first = (performance.now() - start) / 1000;
      answer.content += text;
      answer.tokens++;
      progress();
    }
    if (choice && choice.bn) Object.assign(answer, {receipt: choice.bn.receipt, chain: choice.bn.chain, seed: choice.bn.seed, finish: choice.bn.end});
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

// "24 tokens, 41.2 tok/s, first after 0.31 s"
function figuresOf(answer) {
  const parts = [];
  if (answer.tokens) parts.push(count(answer.tokens, "token"));
  if (answer.rate) parts.push(digits(answer.rate) + " tok/s");
  if (answer.first !== undefined) parts.push("first token after " + seconds(answer.first));
  if (answer.stopped) parts.push("stopped");
  else if (ENDED[answer.finish]) parts.push(ENDED[answer.finish]);
  return parts.join(" \u00b7 ");
}

// ---- thoughts ----

// Models of the Qwen family write their thoughts before the answer, in a think block; the prompt may open it.
function splitThoughts(text) {
  const open = /^\s*<think>/.exec(text), end = text.indexOf("</think>");
  if (!open && end < 0) return {thoughts: "", answer: text, thinking: false};
  const from = open ? open[0].length : 0;
  if (end < 0) return {thoughts: text.slice(from).trim(), answer: "", thinking: true};
  return {thoughts: text.slice(from, end).trim(), answer: text.slice(end + 8).replace(/^\s+/, ""), thinking: false};
}

// ---- verification ----

const fact = (name, value) => [el("dt", {}, name), el("dd", {}, value)];

function showVerdict(panel, answer, result, elapsed) {
  const shown = result.verified && result.text !== undefined && result.text !== answer.content;
  const good = result.verified && !shown;
  const said = good ? "The server generated this answer again from its receipt. All " + count(result.tokens, "token") + " and the chain of digests are the same." :
    shown ? "The receipt replays, but its text is not the one on this page." : "The replay does not agree with the receipt: " + result.reason + ".";
  panel.classList.add(good ? "good" : "bad");
  panel.dataset.verdict = good ? "verified" : "failed";
  find("#said").textContent = good ? "The answer is verified." : "The answer is not verified.";
  panel.replaceChildren(el("h4", {}, good ? "Verified" : "Not verified"), el("p", {}, said));
  return el("dl", {}, ...fact("Receipt", answer.receipt), ...fact("Chain", answer.chain), ...fact("Seed", String(answer.seed)),
    ...fact("Model", result.model), ...fact("Time of the replay", seconds(elapsed)));
}

async function addReceipt(panel, facts, answer) {
  const text = JSON.stringify(await requestJson("/v1/receipts/" + answer.receipt), null, 2) + "\n", copy = button("Copy", () => copyText(text, copy), {class: "link"});
  const name = "receipt-" + answer.receipt + ".json";
  panel.append(facts,
    el("details", {}, el("summary", {}, "Receipt"), el("pre", {tabindex: "0"}, text)),
    el("p", {class: "row"}, copy, button("Save receipt", () => saveFile(name, text), {class: "link"})),
    el("p", {class: "soft"}, "To verify it without this server: ", el("code", {}, "bn-verify-receipt " + name + " --model FILE --replay")));
}

// Fills the panel: first "Replaying", then the verdict, the facts and the receipt.
async function verify(panel, answer) {
  const start = performance.now();
  delete panel.dataset.verdict;
  panel.classList.remove("good", "bad");
  panel.replaceChildren(el("p", {class: "busy"}, "Replaying " + count(answer.tokens, "token") + "\u2026"));
  try {
    const result = await requestJson("/v1/receipts/" + answer.receipt + "/replay", {body: {}});
    const facts = showVerdict(panel, answer, result, (performance.now() - start) / 1000);
    await addReceipt(panel, facts, answer);
    panel.scrollIntoView({block: "nearest"});
  } catch (e) {
    panel.classList.add("bad");
    panel.append(el("h4", {}, "Could not verify"), el("p", {}, e.message + " " + (e.hint || "")));
    const busy = panel.querySelector(".busy");
    if (busy) busy.remove();
    if (!panel.dataset.verdict) panel.dataset.verdict = "error";
  }
}
