// SPDX-License-Identifier: MIT
//
// Records what llama.cpp computes for generated models, for fixtures/golden-llama.cpp.json: for each position of
// a prompt the five largest logits, then a greedy continuation. `bn-fixtures verify` compares the engine with it,
// without llama.cpp.
//
//   node golden.mjs BRIDGE BN-FIXTURES LOCK >golden-llama.cpp.json
//
// BRIDGE is the installed bridge (install.sh), LOCK its package-lock.json.
import {spawn, execFileSync} from "node:child_process";
import {createHash} from "node:crypto";
import {mkdtempSync, readFileSync, rmSync} from "node:fs";
import {tmpdir} from "node:os";
import {join, basename} from "node:path";

const [bridge, fixtures, lockPath] = process.argv.slice(2);
// The options of bn-fixtures gen that make each model; true is an option without a value.
const MODELS = [
    {size: "tiny", arch: "bitnet", format: "tq2_0", vocab: 320},
    {size: "tiny", arch: "bitnet", format: "tq1_0", vocab: 320},
    {size: "tiny", arch: "llama", format: "tq2_0", vocab: 320},
    {size: "tiny", arch: "llama", format: "f16", vocab: 320},
    {size: "nano", arch: "qwen3", format: "q2_0", vocab: 331, tied: true, yarn: true},
    {size: "micro", arch: "qwen3", format: "tq2_0", vocab: 331, yarn: true},
    {size: "micro", arch: "llama", format: "tq1_0", vocab: 331, group: 256},
    {size: "pair", arch: "gemma3", format: "f16", vocab: 331, window: 8, period: 2},
    {size: "nano", arch: "minicpm", format: "q2_0", vocab: 331, tied: true, "long-rope": true},
    {size: "quad", arch: "qwen35", format: "f16", vocab: 331, embedding: "f16"}
];
const PROMPT = Array.from({length: 37}, (_, i) => ((i + 1) * 151 + 7) % 256);
const N_TOP = 5;
const N_NEXT = 8;

// Talks to the bridge: a line of JSON each way, then the announced numbers.
class Reference {
    constructor(path) {
        this.child = spawn("node", [path], {stdio: ["pipe", "pipe", "inherit"]});
        this.bytes = Buffer.alloc(0);
        this.id = 0;
        this.child.stdout.on("data", (chunk) => {
            this.bytes = Buffer.concat([this.bytes, chunk]);
            this.wake?.();
        });
        this.child.on("exit", () => {
            this.ended = true;
            this.wake?.();
        });
    }
    async until(ready) {
        for (let got; ; ) {
            if ((got = ready()) !== undefined) return got;
            if (this.ended) throw new Error("the bridge has ended");
            await new Promise((resolve) => (this.wake = resolve));
        }
    }
    take(n) {
        const part = this.bytes.subarray(0, n);
        this.bytes = this.bytes.subarray(n);
        return part;
    }
    async ask(members) {
        this.child.stdin.write(JSON.stringify({id: ++this.id, ...members}) + "\n");
        const end = await this.until(() => (this.bytes.indexOf(10) < 0 ? undefined : this.bytes.indexOf(10)));
        const answer = JSON.parse(this.take(end + 1).toString());
        if (!answer.ok) throw new Error(JSON.stringify(answer));
        if (answer.floats === undefined) return answer;
        await this.until(() => (this.bytes.length < answer.floats * 4 ? undefined : true));
        const raw = Buffer.from(this.take(answer.floats * 4));
        answer.values = new Float32Array(raw.buffer, raw.byteOffset, answer.floats);
        return answer;
    }
}

const top = (row) =>
    [...row.keys()]
        .sort((a, b) => row[b] - row[a] || a - b)
        .slice(0, N_TOP)
        .map((id) => [id, Number(row[id].toFixed(4))]);
const lock = JSON.parse(readFileSync(lockPath)).packages;
const packages = ["node-llama-cpp", "@node-llama-cpp/linux-x64"].map((name) => {
    const {version, integrity} = lock[`node_modules/${name}`];
    return {name, version, integrity};
});
const folder = mkdtempSync(join(tmpdir(), "bn-golden-"));
const reference = new Reference(bridge);
const hello = await reference.ask({op: "hello"});
const outputs = [];
for (const spec of MODELS) {
    const options = Object.entries(spec).flatMap(([name, value]) => (value === true ? [`--${name}`] : [`--${name}`, String(value)]));
    const path = execFileSync(fixtures, ["gen", ...options, "-o", folder]).toString().trim().split("  ")[1];
    const vocab = spec.vocab;
    await reference.ask({op: "open", model: path, threads: 1});
    const {values} = await reference.ask({op: "logits", tokens: PROMPT, last: false});
    const rows = PROMPT.map((_, i) => top(values.subarray(i * vocab, (i + 1) * vocab)));
    const next = [];
    while (next.length < N_NEXT) {
        const last = await reference.ask({op: "logits", tokens: [...PROMPT, ...next], last: true});
        next.push(top(last.values)[0][0]);
    }
    const sha256 = createHash("sha256").update(readFileSync(path)).digest("hex");
    outputs.push({model: basename(path), spec, sha256, top: rows, next});
}
reference.child.stdin.end();
rmSync(folder, {recursive: true});

// One line for each position, so that differences of two recordings can be read.
const line = (value) => JSON.stringify(value).replaceAll(",", ", ").replaceAll(":", ": ");
const members = (o) => [["model", o.model], ...Object.entries(o.spec), ["sha256", o.sha256], ["next", o.next]];
const output = (o) =>
    `    {\n${members(o)
        .map(([name, value]) => `      "${name}": ${line(value)},\n`)
        .join("")}      "top": [\n${o.top.map((r) => `        ${line(r)}`).join(",\n")}\n      ]\n    }`;
process.stdout.write(
    `{\n  "schema": "bn.golden-reference/1",\n  "origin": {\n    "engine": ${JSON.stringify(hello.engine ?? hello.name ?? "llama.cpp")},\n` +
        `    "packages": [\n${packages.map((p) => `      ${JSON.stringify(p)}`).join(",\n")}\n    ]\n  },\n` +
        `  "prompt": ${line(PROMPT)},\n  "outputs": [\n${outputs.map(output).join(",\n")}\n  ]\n}\n`
);
