#!/usr/bin/env node
// SPDX-License-Identifier: MIT
//
// Speaks bn.reference/1 for the prebuilt llama.cpp in node-llama-cpp, on the CPU. Its evaluation returns the
// logits of every requested position. README.md describes how to install it and what it loads.
import {getLlama, getModuleVersion} from "node-llama-cpp";
import {Failure, checkModel, countOf, serve, textOf, tokensOf} from "../protocol.mjs";

// Each row arrives as a map of all ids, some 50 bytes per id. This is the limit of entries in memory.
const ENTRIES_AT_ONCE = 2_000_000;

if (process.argv.length > 2) {
    process.stdout.write("usage: bridge.mjs\n\nSpeaks bn.reference/1 on standard input and output. It takes no options.\n");
    process.exit(process.argv[2] === "--help" ? 0 : 2);
}
const llama = await getLlama({
    gpu: false,
    build: "never",
    skipDownload: true,
    progressLogs: false,
    logLevel: "warn",
    logger: (level, message) => process.stderr.write(`${level}: ${message}\n`)
});
let model = null;
let context = null;
let sequence = null;
let nVocab = 0;
let threads = 0;

function opened() {
    if (!model) throw new Failure("argument", "no model is open");
    return model;
}

async function closeContext() {
    await context?.dispose();
    context = sequence = null;
}

async function close() {
    await closeContext();
    await model?.dispose();
    model = null;
}

// An empty context for that many tokens.
async function emptySequence(nTokens) {
    const size = Math.max(512, Math.ceil(nTokens / 256) * 256);
    if (!context || context.contextSize < size) {
        await closeContext();
        context = await model.createContext({
            contextSize: size,
            batchSize: Math.min(512, size),
            sequences: 1,
            flashAttention: false,
            threads: {ideal: threads || llama.cpuMathCores, min: 1}
        });
        sequence = context.getSequence();
    }
    await sequence.clearHistory();
    return sequence;
}

async function open(request) {
    const path = textOf(request, "model");
    await checkModel(path);
    threads = countOf(request, "threads");
    await close();
    try {
        model = await llama.loadModel({modelPath: path, gpuLayers: 0});
    } catch (e) {
        throw new Failure("unsupported", `llama.cpp did not load ${path}: ${e.message}`);
    }
    const head = model.fileInfo.fullTensorInfo?.find((t) => t.name === "token_embd.weight");
    if (!head) throw new Failure("format", "no token_embd.weight");
    nVocab = Number(head.dimensions[1]);
    return {n_vocab: nVocab, n_ctx: model.trainContextSize, arch: model.fileInfo.metadata.general.architecture ?? null};
}

// A begin token is added only where the file asks for one, as llama.cpp does by itself.
function tokenize(request) {
    const text = textOf(request, "text");
    const {bos, shouldPrependBosToken} = opened().tokens;
    const tokens = text === "" ? [] : model.tokenize(text, request.special === true);
    return {tokens: request.bos === true && shouldPrependBosToken && bos !== null ? [bos, ...tokens] : [...tokens]};
}

function fillRow(row, logits) {
    if (logits?.size !== nVocab) throw new Failure("internal", `${logits?.size ?? 0} logits of ${nVocab} came back`);
    for (const [id, logit] of logits) row[id] = logit;
}

async function logits(request) {
    opened();
    const tokens = tokensOf(request, nVocab, model.trainContextSize);
    const evaluated = await emptySequence(tokens.length);
    const first = request.last === true ? tokens.length - 1 : 0;
    const rows = tokens.length - first;
    const floats = new Float32Array(rows * nVocab);
    // Temperature 0 selects the greatest logit and does not change the logits; the selected token is not used.
    const wanted = {generateNext: {logits: true, temperature: 0}};
    const step = request.last === true ? tokens.length : Math.max(1, Math.floor(ENTRIES_AT_ONCE / nVocab));
    for (let at = 0; at < tokens.length; at += step) {
        const part = tokens.slice(at, at + step);
        const results = await evaluated.controlledEvaluate(part.map((t, i) => (at + i >= first ? [t, wanted] : t)));
        part.forEach((_, i) => {
            const row = at + i - first;
            if (row >= 0) fillRow(floats.subarray(row * nVocab, (row + 1) * nVocab), results[i]?.next?.logits);
        });
    }
    return {rows, cols: nVocab, floats};
}

// As generating does: logits of the last token of the prompt and of each single token, of which the best is chosen. No map
// of logits is made. The times include what the library does in JavaScript for a call: some promises and objects.
async function bench(request) {
    opened();
    const [prompt, decode] = [countOf(request, "prompt"), countOf(request, "decode")];
    if (prompt === 0 || prompt + decode > model.trainContextSize) throw new Failure("argument", "prompt and decode do not fit into the context");
    const evaluated = await emptySequence(prompt + decode);
    const ids = Array.from({length: prompt}, (_, i) => (i * 37) % nVocab);
    const best = (id) => [id, {generateNext: {token: true, options: {temperature: 0}}}];
    const start = process.hrtime.bigint();
    await evaluated.controlledEvaluate([...ids.slice(0, -1), best(ids.at(-1))]);
    const middle = process.hrtime.bigint();
    for (let i = 0; i < decode; i++) await evaluated.controlledEvaluate([best(ids[i % prompt])]);
    return {prompt_ns: Number(middle - start), decode_ns: Number(process.hrtime.bigint() - middle)};
}

async function hello() {
    return {
        protocol: "bn.reference/1",
        name: "node-llama-cpp",
        version: await getModuleVersion(),
        commit: null,
        capabilities: ["tokenize", "logits", "bench"],
        details: {llama_cpp: llama.llamaCppRelease, system: llama.systemInfo, node: process.version}
    };
}

await serve({hello, open, tokenize, logits, bench, close});
await llama.dispose();
