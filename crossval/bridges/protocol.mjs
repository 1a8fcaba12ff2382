// SPDX-License-Identifier: MIT
//
// The protocol for the bridges in JavaScript: reads bn.reference/1 requests from standard input, calls one
// function for each operation, writes the answers. See docs/explain/crossval.md.
import {endianness} from "node:os";
import {open} from "node:fs/promises";

const LONGEST_LINE = 16 * 1024 * 1024;

// An error that becomes an answer with "ok": false.
export class Failure extends Error {
    constructor(kind, message) {
        super(message);
        this.kind = kind;
    }
}

export function textOf(request, name) {
    if (typeof request[name] !== "string") throw new Failure("argument", `"${name}" must be a text`);
    return request[name];
}

export function countOf(request, name, otherwise = 0) {
    const n = request[name] ?? otherwise;
    if (!Number.isInteger(n) || n < 0) throw new Failure("argument", `"${name}" must be a whole number`);
    return n;
}

// The token ids of a request: at most nContext, each below nVocab (Infinity if unknown).
export function tokensOf(request, nVocab, nContext) {
    const tokens = request.tokens;
    if (!Array.isArray(tokens) || tokens.length === 0) throw new Failure("argument", '"tokens" must be a list of ids');
    if (!tokens.every((t) => Number.isInteger(t) && t >= 0 && t < nVocab))
        throw new Failure("argument", `"tokens" must hold ids from 0 to ${nVocab - 1}`);
    if (tokens.length > nContext) throw new Failure("argument", `more tokens than the context, ${nContext}`);
    return tokens;
}

// Checks the model file as far as possible without the engine.
export async function checkModel(path) {
    let file;
    try {
        file = await open(path);
    } catch (e) {
        throw new Failure("not_found", `${path}: ${e.code ?? e.message}`);
    }
    try {
        const {buffer, bytesRead} = await file.read(Buffer.alloc(4), 0, 4, 0).catch(() => ({bytesRead: 0}));
        if (bytesRead !== 4 || buffer.toString("latin1") !== "GGUF") throw new Failure("format", `${path} is not a GGUF file`);
    } finally {
        await file.close();
    }
}

async function* lines(input) {
    let parts = [];
    let length = 0;
    for await (const chunk of input) {
        let from = 0;
        for (let at; (at = chunk.indexOf(10, from)) >= 0; from = at + 1) {
            parts.push(chunk.subarray(from, at));
            yield Buffer.concat(parts);
            parts = [];
            length = 0;
        }
        parts.push(chunk.subarray(from));
        length += chunk.length - from;
        if (length > LONGEST_LINE) throw new Error("the line is longer than 16 MiB");
    }
}

function write(bytes) {
    return new Promise((resolve, reject) => process.stdout.write(bytes, (e) => (e ? reject(e) : resolve())));
}

// A function of `operations` takes the request and returns the answer's fields. `floats` among them is a
// Float32Array: its length is written into the line, its numbers after the line.
async function answer(operations, request) {
    const op = textOf(request, "op");
    if (!Object.hasOwn(operations, op)) throw new Failure("unsupported", `unknown operation "${op}"`);
    const fields = (await operations[op](request)) ?? {};
    const {floats} = fields;
    if (!floats) return [fields];
    const bytes = Buffer.from(floats.buffer, floats.byteOffset, floats.byteLength);
    if (endianness() === "BE") bytes.swap32();
    return [{...fields, floats: floats.length}, bytes];
}

// Answers until "close" or the end of the input.
export async function serve(operations) {
    const decoder = new TextDecoder("utf-8", {fatal: true});
    for await (const line of lines(process.stdin)) {
        let id = null;
        let fields, bytes, last;
        try {
            let request;
            try {
                request = JSON.parse(decoder.decode(line));
            } catch (e) {
                throw new Failure("argument", `not a request: ${e.message}`);
            }
            if (request === null || typeof request !== "object" || Array.isArray(request))
                throw new Failure("argument", "a request must be an object");
            if (["number", "string"].includes(typeof request.id)) id = request.id;
            [fields, bytes] = await answer(operations, request);
            last = request.op === "close";
        } catch (e) {
            fields = {ok: false, error: String(e.message), kind: e instanceof Failure ? e.kind : "internal"};
        }
        await write(JSON.stringify({id, ok: true, ...fields}) + "\n");
        if (bytes) await write(bytes);
        if (last) return;
    }
}
