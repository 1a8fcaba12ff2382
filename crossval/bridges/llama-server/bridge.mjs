#!/usr/bin/env node
// SPDX-License-Identifier: MIT
//
// Speaks bn.reference/1 for a running llama-server: tokens, the most likely next tokens with their
// log-probabilities, and the times that the server measures itself. The server's answers have two forms; both are read:
//
//   new: "completion_probabilities": [{"id": 5, "logprob": -0.1, "top_logprobs": [{"id": 5, "token": " a", "logprob": -0.1}, ...]}]
//   old: "completion_probabilities": [{"content": " a", "probs": [{"tok_str": " a", "prob": 0.9}, ...]}]
//
// The old form names tokens by their text, which /tokenize turns into ids. A text that is not one token has no
// id and is reported as null.
import {Failure, checkModel, countOf, serve, textOf, tokensOf} from "../protocol.mjs";

const usage = `usage: bridge.mjs [--url URL] [--timeout SECONDS]

Speaks bn.reference/1 on standard input and output for a running llama-server.

  --url URL          address of the server [$LLAMA_SERVER_URL, else http://127.0.0.1:8080]
  --timeout SECONDS  for one of its answers [120]
  --help

The server runs the model that it was started with; open only compares the file's name.
`;

function options(argv) {
    const o = {url: process.env.LLAMA_SERVER_URL ?? "http://127.0.0.1:8080", timeout: 120};
    for (let i = 0; i < argv.length; i++) {
        if (argv[i] === "--help") {
            process.stdout.write(usage);
            process.exit(0);
        }
        const value = argv[i + 1];
        if (argv[i] === "--url" && value) o.url = value;
        else if (argv[i] === "--timeout" && Number(value) > 0) o.timeout = Number(value);
        else {
            process.stderr.write(`error: ${argv[i]}\n${usage}`);
            process.exit(2);
        }
        i++;
    }
    o.url = o.url.replace(/\/+$/, "");
    return o;
}

const {url, timeout} = options(process.argv.slice(2));
let opened = false;
let nContext = Infinity;
let nVocab = 0; // 0: unknown

// The server's answer to a request; `body` makes it a POST.
async function call(path, body) {
    let response, text;
    try {
        response = await fetch(url + path, {
            method: body ? "POST" : "GET",
            headers: {"content-type": "application/json"},
            body: body ? JSON.stringify(body) : undefined,
            signal: AbortSignal.timeout(timeout * 1000)
        });
        text = await response.text();
    } catch (e) {
        throw new Failure("internal", `${url}${path}: ${e.cause?.code ?? e.cause?.message ?? e.message}`);
    }
    if (!response.ok) {
        const failure = new Failure("internal", `${url}${path}: status ${response.status}: ${text.slice(0, 300)}`);
        throw Object.assign(failure, {status: response.status});
    }
    try {
        return JSON.parse(text);
    } catch {
        throw new Failure("internal", `${url}${path}: not JSON: ${text.slice(0, 100)}`);
    }
}

const properties = () => call("/props").catch(() => ({}));

async function hello() {
    const props = await properties();
    return {
        protocol: "bn.reference/1",
        name: "llama-server",
        version: props.build_info ?? null,
        commit: null,
        capabilities: ["tokenize", "top_logprobs", "bench"],
        details: {url, model: props.model_path ?? null}
    };
}

// Old servers do not report their model; then the name cannot be compared.
async function open(request) {
    const path = textOf(request, "model");
    await checkModel(path);
    const props = await properties();
    const base = (p) => p.split(/[/\\]/).at(-1);
    if (props.model_path && base(props.model_path) !== base(path))
        throw new Failure("not_found", `the server runs ${props.model_path}, not ${path}`);
    const models = await call("/v1/models").catch(() => ({}));
    const meta = models.data?.[0]?.meta ?? {};
    nContext = props.default_generation_settings?.n_ctx ?? meta.n_ctx_train ?? Infinity;
    nVocab = meta.n_vocab ?? 0;
    opened = true;
    // The server opened it before.
    return {n_vocab: nVocab, n_ctx: Number.isFinite(nContext) ? nContext : 0, arch: null, open_ns: null};
}

function mustBeOpen() {
    if (!opened) throw new Failure("argument", "no model is open");
}

// A server that is too old to know the field always parses special tokens.
async function tokenize(request) {
    mustBeOpen();
    const content = textOf(request, "text");
    if (content === "") return {tokens: []};
    const {tokens} = await call("/tokenize", {
        content,
        add_special: request.bos === true,
        parse_special: request.special === true
    });
    if (!Array.isArray(tokens) || !tokens.every(Number.isInteger)) throw new Failure("internal", "the answer has no token ids");
    return {tokens};
}

async function idOfText(text) {
    const {tokens} = await call("/tokenize", {content: text, add_special: false, parse_special: true});
    return Array.isArray(tokens) && tokens.length === 1 ? tokens[0] : null;
}

async function candidates(first) {
    if (Array.isArray(first?.top_logprobs)) return first.top_logprobs.map((c) => ({id: c.id ?? null, logprob: c.logprob}));
    // Some versions in between have the probability itself under the new name.
    const list = first?.probs ?? first?.top_probs;
    if (!Array.isArray(list)) throw new Failure("internal", "the answer has no probabilities");
    return Promise.all(
        list.map(async (c) => ({id: c.id ?? (await idOfText(c.tok_str ?? c.token)), logprob: Math.log(c.prob)}))
    );
}

// Old servers compute the probabilities of the plain softmax only at a temperature below 0. New ones always
// compute them, and refuse such a temperature.
async function complete(body) {
    try {
        return await call("/completion", {...body, temperature: -1});
    } catch (e) {
        if (e.status !== 400) throw e;
        return call("/completion", {...body, temperature: 0});
    }
}

// After the last token, best first, over the whole vocabulary: no sampler shortens the list.
async function topLogprobs(request) {
    mustBeOpen();
    const n = countOf(request, "n", 10);
    const answer = await complete({
        prompt: tokensOf(request, Infinity, nContext),
        n_predict: 1,
        n_probs: n,
        samplers: [],
        repeat_penalty: 1,
        post_sampling_probs: false,
        cache_prompt: false,
        stream: false
    });
    const list = (await candidates(answer.completion_probabilities?.[0])).slice(0, n);
    // The logarithm of a probability of 0 cannot be written in JSON.
    const usable = list.filter((c) => Number.isFinite(c.logprob)).sort((a, b) => b.logprob - a.logprob);
    return {ids: usable.map((c) => c.id), logprobs: usable.map((c) => c.logprob)};
}

// The server's own times: of the prompt until its first token is chosen, then of the others, each after one evaluation. Its
// number of threads is the one that it was started with.
async function bench(request) {
    mustBeOpen();
    const [prompt, decode] = [countOf(request, "prompt"), countOf(request, "decode")];
    if (prompt === 0 || prompt + decode > nContext) throw new Failure("argument", "prompt and decode do not fit into the context");
    const {timings} = await complete({
        prompt: Array.from({length: prompt}, (_, i) => (i * 37) % (nVocab || 1000)),
        n_predict: decode + 1,
        ignore_eos: true,
        cache_prompt: false,
        stream: false
    });
    if (timings?.prompt_n !== prompt || timings.predicted_n !== decode + 1)
        throw new Failure("internal", `the server's timings are not of ${prompt} and ${decode + 1} tokens: ${JSON.stringify(timings)}`);
    const ns = (ms) => Math.round(ms * 1e6);
    return {prompt_ns: ns(timings.prompt_ms), decode_ns: decode ? ns(timings.predicted_ms) : 0, peak_bytes: null};
}

await serve({hello, open, tokenize, top_logprobs: topLogprobs, bench, close: () => {}});
