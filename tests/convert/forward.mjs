// SPDX-License-Identifier: MIT
// The logits of a folder with a model, computed as the Python classes of the hub compute them, from the safetensors
// and config.json alone, in binary64 without rounding of activations: what a converted file is compared with.
//   forward.mjs DIR IDS > logits.f32      (all positions, binary32; weights F32 or F16, in one file)
import fs from 'node:fs';

const [, , dir, list] = process.argv;
const config = JSON.parse(fs.readFileSync(`${dir}/config.json`, 'utf8'));
const file = fs.readFileSync(`${dir}/model.safetensors`), n_header = Number(file.readBigUInt64LE(0));
const header = JSON.parse(file.toString('utf8', 8, 8 + n_header));

function half(bits) {
    const sign = bits & 0x8000 ? -1 : 1, exponent = bits >> 10 & 31, fraction = bits & 1023;
    return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
function tensor(name) {
    const t = header[name] ?? header[`model.${name}`];
    if (!t) return undefined;
    const from = 8 + n_header + t.data_offsets[0], n = t.shape.reduce((a, b) => a * b, 1);
    return Float64Array.from({length: n}, (_, i) => (t.dtype === 'F32' ? file.readFloatLE(from + 4 * i)
                                                                      : half(file.readUInt16LE(from + 2 * i))));
}
const need = (name) => tensor(name) ?? (() => { throw new Error(`no ${name}`); })();

const linear = (w, x) => {
    const rows = w.length / x.length, y = new Float64Array(rows);
    for (let r = 0; r < rows; r++)
        for (let c = 0, at = r * x.length; c < x.length; c++) y[r] += w[at + c] * x[c];
    return y;
};
// Gemma multiplies by 1 + w, but in the norms of a linear layer's inputs, which are BitNet's.
const gemma = config.model_type === 'gemma3_text', minicpm = config.model_type === 'minicpm';
const norm = (x, w, shift = gemma ? 1 : 0) => {
    if (!w) return x;
    const mean = x.reduce((a, b) => a + b * b, 0) / x.length, scale = 1 / Math.sqrt(mean + config.rms_norm_eps);
    return x.map((v, i) => v * scale * (w[i] + shift));
};
const add = (x, y) => x.map((v, i) => v + y[i]);

// ---- rotation: the two halves of a head, as transformers' rotate_half ----

const n_head = config.num_attention_heads, n_kv = config.num_key_value_heads;
const d = config.head_dim ?? config.hidden_size / n_head;
const rope = config.rope_parameters?.full_attention ?? config.rope_parameters ?? config.rope_scaling ?? {};
const plain = (theta) => Array.from({length: d / 2}, (_, i) => theta ** (-2 * i / d));
const all = (() => {
    const theta = rope.rope_theta ?? config.rope_theta ?? (gemma ? 1e6 : 1e4), frequencies = plain(theta);
    if (rope.rope_type === 'longrope') // texts are shorter than the original context
        return {frequencies: frequencies.map((f, i) => f / rope.short_factor[i]), magnitude: 1};
    if (rope.rope_type !== 'yarn') return {frequencies, magnitude: 1};
    const at = (turns) => d * Math.log(rope.original_max_position_embeddings / (turns * 2 * Math.PI)) / (2 * Math.log(theta));
    const low = Math.max(Math.floor(at(32)), 0), high = Math.min(Math.ceil(at(1)), d - 1);
    const share = (i) => 1 - Math.min(Math.max((i - low) / Math.max(high - low, 0.001), 0), 1);
    return {frequencies: frequencies.map((f, i) => f / rope.factor * (1 - share(i)) + f * share(i)),
        magnitude: 0.1 * Math.log(rope.factor) + 1};
})();
const near = {magnitude: 1, frequencies: plain(config.rope_parameters?.sliding_attention?.rope_theta ??
    config.rope_local_base_freq ?? 1e4)};
// Whether a layer of Gemma sees the last positions only.
const is_local = (n) => gemma && config.sliding_window && (config.layer_types
    ? config.layer_types[n] === 'sliding_attention' : (n + 1) % (config.sliding_window_pattern ?? 6) !== 0);
function rotate(x, position, {frequencies, magnitude}) {
    const out = x.slice();
    for (let i = 0; i < d / 2; i++) {
        const cos = Math.cos(position * frequencies[i]) * magnitude, sin = Math.sin(position * frequencies[i]) * magnitude;
        out[i] = x[i] * cos - x[i + d / 2] * sin;
        out[i + d / 2] = x[i + d / 2] * cos + x[i] * sin;
    }
    return out;
}

const activation = config.hidden_act === 'relu2' ? (v) => Math.max(v, 0) ** 2
    : gemma ? (v) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3)))
    : (v) => v / (1 + Math.exp(-v));
// What a half of a layer adds is normed by Gemma, and multiplied by MiniCPM.
const added = (x, w) => (minicpm ? x.map((v) => v * config.scale_depth / Math.sqrt(config.num_hidden_layers))
    : gemma ? norm(x, w) : x);

function layer(n, xs) {
    const w = (name) => need(`layers.${n}.${name}.weight`), maybe = (name) => tensor(`layers.${n}.${name}.weight`);
    const q = w('self_attn.q_proj'), k = w('self_attn.k_proj'), v = w('self_attn.v_proj'), o = w('self_attn.o_proj');
    const gate = w('mlp.gate_proj'), up = w('mlp.up_proj'), down = w('mlp.down_proj'), first = w('input_layernorm');
    const q_norm = maybe('self_attn.q_norm'), k_norm = maybe('self_attn.k_norm');
    const before = (x, name) => norm(x, maybe(`${name}.norm`), 0); // BitNet's embedding models
    const keys = [], values = [], turn = is_local(n) ? near : all;
    return xs.map((x, position) => {
        const a = norm(x, first);
        const queries = linear(q, before(a, 'self_attn.q_proj')), key = linear(k, before(a, 'self_attn.k_proj'));
        keys.push(Array.from({length: n_kv}, (_, h) => rotate(norm(key.slice(h * d, h * d + d), k_norm), position, turn)));
        values.push(linear(v, before(a, 'self_attn.v_proj')));
        const mixed = new Float64Array(n_head * d), hidden = is_local(n) ? Math.max(0, position + 1 - config.sliding_window) : 0;
        for (let h = 0; h < n_head; h++) {
            const kv = Math.floor(h / (n_head / n_kv));
            const query = rotate(norm(queries.slice(h * d, h * d + d), q_norm), position, turn);
            const scores = keys.slice(hidden).map((row) => row[kv].reduce((s, b, i) => s + b * query[i], 0) / Math.sqrt(d));
            const top = Math.max(...scores), e = scores.map((s) => Math.exp(s - top)), sum = e.reduce((s, b) => s + b, 0);
            e.forEach((p, t) => {
                for (let i = 0; i < d; i++) mixed[h * d + i] += p / sum * values[hidden + t][kv * d + i];
            });
        }
        const output = linear(o, before(norm(mixed, maybe('self_attn.attn_sub_norm')), 'self_attn.o_proj'));
        const after = add(x, added(output, maybe('post_attention_layernorm')));
        const f = norm(after, w(gemma ? 'pre_feedforward_layernorm' : 'post_attention_layernorm'));
        const g = linear(gate, before(f, 'mlp.gate_proj')).map(activation), u = linear(up, before(f, 'mlp.up_proj'));
        const inner = norm(g.map((b, i) => b * u[i]), maybe('mlp.ffn_sub_norm'));
        return add(after, added(linear(down, before(inner, 'mlp.down_proj')), maybe('post_feedforward_layernorm')));
    });
}

const table = need('embed_tokens.weight'), head = tensor('lm_head.weight') ?? table, width = config.hidden_size;
const scale = gemma ? Math.sqrt(width) : minicpm ? config.scale_emb : 1;
let xs = list.split(',').map((id) => table.slice(id * width, (Number(id) + 1) * width).map((v) => v * scale));
for (let n = 0; n < config.num_hidden_layers; n++) xs = layer(n, xs);
const last = need('norm.weight'), logits = (x) => linear(head, minicpm ? x.map((v) => v * config.dim_model_base / width) : x);
process.stdout.write(Buffer.concat(xs.map((x) => Buffer.from(Float32Array.from(logits(norm(x, last))).buffer))));
