// SPDX-License-Identifier: MIT
// Writes a model of a GGUF file as a folder of the Hugging Face hub: config.json, tokenizer.json, safetensors.
//   folder.mjs MODEL.gguf DIR LAYOUT [CHANGE...]
// LAYOUT: multiply or divide (four rows a byte, weight_scale), trits (binary32, -s 0 +s), masters (binary32 whose
// mean magnitude is the scale), shards (trits in two files), mlx (two bits, scales and biases: of PQ2_0 files). CHANGE: a fault to plant, or a variant; spm=FILE: the
// vocabulary of that GGUF file, SentencePiece.
import fs from 'node:fs';

const [, , source, dir, layout, ...changes] = process.argv;
const has = (change) => changes.includes(change);
let file, at;
const u32 = () => { at += 4; return file.readUInt32LE(at - 4); };
const u64 = () => { at += 8; return Number(file.readBigUInt64LE(at - 8)); };
const str = () => { const n = u64(); at += n; return file.toString('utf8', at - n, at); };
const value = (type) => {
    switch (type) {
    case 4: case 5: return u32();
    case 6: at += 4; return file.readFloatLE(at - 4);
    case 7: at += 1; return file[at - 1] === 1;
    case 8: return str();
    case 9: { const of = u32(), n = u64(); return Array.from({length: n}, () => value(of)); }
    default: throw new Error(`value of type ${type}`);
    }
};
function read(path) {
    file = fs.readFileSync(path);
    at = 4 + 4;
    const n_tensors = u64(), n_kv = u64(), keys = {}, tensors = {};
    for (let i = 0; i < n_kv; i++) { const key = str(); keys[key] = value(u32()); }
    for (let i = 0; i < n_tensors; i++) {
        const name = str(), ne = Array.from({length: u32()}, () => u64()), type = u32();
        tensors[name] = {ne, type, offset: u64()};
    }
    return {keys, tensors};
}
const spm = changes.find((change) => change.startsWith('spm='))?.slice(4);
const vocabulary = spm ? read(spm).keys : null;
const {keys, tensors} = read(source);
const data = Math.ceil(at / 32) * 32, arch = keys['general.architecture'];
const key = (suffix) => keys[`${arch}.${suffix}`];

// ---- weights ----

const half = (bits) => {
    const exponent = bits >> 10 & 31, fraction = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
    return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
};

// Values -1, 0, 1 of a tensor in I2_S, Q2_0 or PQ2_0, and its scale or the scale of each 64 or 128.
function trits(t) {
    const n = t.ne[0] * t.ne[1], values = new Int8Array(n), from = data + t.offset;
    if (t.type === 42 || t.type === 142) {
        const group = t.type === 42 ? 64 : 128, size = 2 + group / 4;
        const halves = Array.from({length: n / group}, (_, b) => file.readUInt16LE(from + size * b));
        for (let i = 0; i < n; i++)
            values[i] = (file[from + size * Math.floor(i / group) + 2 + Math.floor(i % group / 4)] >> 2 * (i % 4) & 3) - 1;
        return {values, group, halves, scales: halves.map(half)};
    }
    for (let i = 0; i < n; i++) {
        const j = i % 128;
        values[i] = (file[from + (i - j) / 4 + j % 32] >> (6 - 2 * Math.floor(j / 32)) & 3) - 1;
    }
    return {values, scale: file.readFloatLE(from + n / 4)};
}

// Rows of each head: pairs (2i, 2i + 1), as GGUF files with NORM rope have them, to (i, i + d/2).
function halves(values, columns, heads) {
    const out = new values.constructor(values.length), d = values.length / columns / heads;
    for (let r = 0; r < values.length / columns; r++) {
        const i = r % d, to = r - i + (i % 2) * (d / 2) + (i - i % 2) / 2;
        out.set(values.subarray(r * columns, (r + 1) * columns), to * columns);
    }
    return out;
}

const entries = []; // {name, dtype, shape, bytes}
function put(name, dtype, shape, bytes) { entries.push({name, dtype, shape, bytes: Buffer.from(bytes)}); }
const floats = (values) => Buffer.from(Float32Array.from(values).buffer);

function linear(name, t, heads) {
    const [columns, rows] = t.ne, {values: stored, scale, scales, group, halves: bits} = trits(t);
    if (layout === 'mlx') {
        const words = new Uint32Array(rows * columns / 16), by_groups = [rows, columns / group];
        stored.forEach((v, i) => { words[i >> 4] |= (v + 1) << 2 * (i % 16); });
        const biases = bits.map((h) => h ^ 0x8000);
        if (has('bias')) biases[0] ^= 1;
        put(`${name}.weight`, 'U32', [rows, columns / 16], Buffer.from(words.buffer));
        put(`${name}.scales`, 'F16', by_groups, Buffer.from(Uint16Array.from(bits).buffer));
        put(`${name}.biases`, 'F16', by_groups, Buffer.from(Uint16Array.from(biases).buffer));
        return;
    }
    if (scales) {
        const weights = Float32Array.from(stored, (v, i) => v * scales[Math.floor(i / group)]);
        put(`${name}.weight`, 'F32', [rows, columns], floats(heads ? halves(weights, columns, heads) : weights));
        return;
    }
    const values = heads && !has('swapped') ? halves(stored, columns, heads) : stored;
    if (layout === 'multiply' || layout === 'divide') {
        const packed = new Uint8Array(rows / 4 * columns);
        for (let r = 0; r < rows; r++)
            for (let c = 0; c < columns; c++) {
                const plane = Math.floor(r / (rows / 4));
                packed[r % (rows / 4) * columns + c] |= (values[r * columns + c] + 1) << (2 * plane);
            }
        if (has('code3')) packed[0] |= 3;
        put(`${name}.weight`, 'U8', has('shape') ? [rows, columns / 4] : [rows / 4, columns], packed);
        put(`${name}.weight_scale`, 'F32', [1], floats([layout === 'divide' ? 1 / scale : scale]));
        return;
    }
    // Masters: magnitudes below and above the threshold, whose mean is the scale.
    let small = 0, zeros = 0;
    for (const v of values) zeros += v === 0;
    if (layout === 'masters') small = scale / 4;
    const large = (scale * values.length - small * zeros) / (values.length - zeros);
    let i = 0;
    put(`${name}.weight`, 'F32', [rows, columns],
        floats(Array.from(values, (v) => (layout === 'masters' ? (v === 0 ? (i++ % 2 ? small : -small) : v * large)
                                                               : v * scale))));
}

const LINEAR = {attn_q: 'self_attn.q_proj', attn_k: 'self_attn.k_proj', attn_v: 'self_attn.v_proj',
    attn_output: 'self_attn.o_proj', ffn_gate: 'mlp.gate_proj', ffn_up: 'mlp.up_proj', ffn_down: 'mlp.down_proj'};
const NORM = {attn_norm: 'input_layernorm', attn_sub_norm: 'self_attn.attn_sub_norm',
    ffn_norm: 'post_attention_layernorm', ffn_sub_norm: 'mlp.ffn_sub_norm',
    attn_q_norm: 'self_attn.q_norm', attn_k_norm: 'self_attn.k_norm'};
for (const [part, name] of Object.entries(LINEAR)) NORM[`${part}_norm_in`] = `${name}.norm`;
if (arch === 'gemma3')
    Object.assign(NORM, {ffn_norm: 'pre_feedforward_layernorm', post_attention_norm: 'post_attention_layernorm',
        post_ffw_norm: 'post_feedforward_layernorm'});
const TOP = {token_embd: 'model.embed_tokens', output_norm: 'model.norm', output: 'lm_head'};

for (const [name, t] of Object.entries(tensors)) {
    if (name.startsWith('rope_factors')) continue;
    const [, layer, part] = name.match(/^(?:blk\.(\d+)\.)?(\w+)\.weight$/);
    const to = layer === undefined ? TOP[part] : `model.layers.${layer}.${LINEAR[part] ?? NORM[part]}`;
    const heads = !['llama', 'minicpm'].includes(arch) || has('qwen3') ? 0 : part === 'attn_q' ? key('attention.head_count')
        : part === 'attn_k' ? key('attention.head_count_kv') : 0;
    const n = t.ne.reduce((a, b) => a * b);
    const values = (size, get) => Array.from({length: n}, (_, i) => get(data + t.offset + size * i));
    if (t.type === 36 || t.type === 42 || t.type === 142) linear(to, t, heads);
    else if (arch === 'gemma3' && t.ne.length === 1 && !part.endsWith('_norm_in') && !has('unshifted')) // 1 + w
        put(`${to}.weight`, 'F32', t.ne, floats((t.type === 1 ? values(2, (p) => half(file.readUInt16LE(p)))
            : values(4, (p) => file.readFloatLE(p))).map((w) => w - 1)));
    else put(`${to}.weight`, t.type === 1 ? 'F16' : 'F32', [...t.ne].reverse(),
        file.subarray(data + t.offset, data + t.offset + n * (t.type === 1 ? 2 : 4)));
}
const ones = (n) => floats(new Array(n).fill(1));
const head = key('embedding_length') / key('attention.head_count');
if (has('qwen3'))
    for (const e of entries.filter((x) => /self_attn.[qk]_proj.weight$/.test(x.name)))
        put(e.name.replace('_proj', '_norm'), 'F32', [head],
            floats(Array.from({length: head}, (_, i) => 0.75 + i / head)));
if (has('embedding'))
    for (const e of entries.filter((x) => x.name.endsWith('_proj.weight')))
        put(e.name.replace('.weight', '.norm.weight'), 'F32', [e.shape[1]], ones(e.shape[1]));
if (has('embedding')) entries.splice(entries.findIndex((e) => e.name === 'lm_head.weight'), 1);
if (has('extra')) put('model.layers.0.self_attn.q_proj.bias', 'F32', [1], floats([1]));
if (has('frequencies')) put('model.layers.0.self_attn.rotary_emb.inv_freq', 'F32', [1], floats([1]));
if (has('missing')) entries.splice(entries.findIndex((e) => e.name.endsWith('down_proj.weight')), 1);

// ---- files ----

function safetensors(path, list) {
    const header = {__metadata__: {format: 'pt'}};
    let end = 0;
    for (const e of list) {
        header[e.name] = {dtype: e.dtype, shape: e.shape, data_offsets: [end, end + e.bytes.length]};
        end += e.bytes.length;
    }
    let text = JSON.stringify(header);
    text += ' '.repeat((8 - text.length % 8) % 8);
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
    fs.writeFileSync(path, Buffer.concat([length, Buffer.from(text), ...list.map((e) => e.bytes)]));
}

fs.mkdirSync(dir, {recursive: true});
const json = (name, document) => fs.writeFileSync(`${dir}/${name}`, JSON.stringify(document, null, 1));
if (layout === 'shards') {
    const half = entries.length >> 1, parts = [entries.slice(0, half), entries.slice(half)], map = {};
    parts.forEach((list, i) => {
        const name = `model-0000${i + 1}-of-00002.safetensors`;
        safetensors(`${dir}/${name}`, list);
        for (const e of list) map[e.name] = name;
    });
    if (has('index')) delete map[entries[0].name];
    if (has('path')) map[entries[0].name] = '../model.safetensors';
    json('model.safetensors.index.json', {metadata: {}, weight_map: map});
} else {
    safetensors(`${dir}/model.safetensors`, entries);
}
const [class_name, model_type, activation] = {llama: ['LlamaForCausalLM', 'llama', 'silu'],
    qwen3: ['Qwen3Model', 'qwen3', 'silu'], minicpm: ['MiniCPMForCausalLM', 'minicpm', 'silu'],
    gemma3: ['Gemma3TextModel', 'gemma3_text', 'gelu_pytorch_tanh']}[arch] ?? ['BitNetForCausalLM', 'bitnet', 'relu2'];
const config = {
    architectures: [class_name], model_type,
    [arch === 'gemma3' ? 'hidden_activation' : 'hidden_act']: activation, hidden_size: key('embedding_length'),
    intermediate_size: key('feed_forward_length'), num_hidden_layers: key('block_count'),
    num_attention_heads: key('attention.head_count'), num_key_value_heads: key('attention.head_count_kv'),
    vocab_size: keys['tokenizer.ggml.tokens'].length, max_position_embeddings: key('context_length'),
    rms_norm_eps: Number(key('attention.layer_norm_rms_epsilon').toPrecision(7)), rope_theta: key('rope.freq_base'),
    tie_word_embeddings: !('output.weight' in tensors), bos_token_id: keys['tokenizer.ggml.bos_token_id'],
    eos_token_id: keys['tokenizer.ggml.eos_token_id'],
};
if (layout === 'multiply' || layout === 'divide')
    config.quantization_config = {quant_method: 'bitnet',
        ...(layout === 'multiply' ? {linear_class: 'autobitlinear', quantization_mode: 'offline'} : {})};
if (has('qwen3')) Object.assign(config, {architectures: ['Qwen3ForCausalLM'], model_type: 'qwen3', head_dim: head});
if (key('attention.key_length')) config.head_dim = key('attention.key_length');
if (arch === 'minicpm') {
    delete config.rope_theta; // 10000, if it is not there
    Object.assign(config, {scale_emb: 12, scale_depth: 1.4, dim_model_base: 256, rope_theta: key('rope.freq_base')});
    const factors = (kind) => Array.from({length: tensors['rope_factors_long.weight'].ne[0]},
        (_, i) => file.readFloatLE(data + tensors[`rope_factors_${kind}.weight`].offset + 4 * i));
    if ('rope_factors_long.weight' in tensors)
        config.rope_scaling = {rope_type: 'longrope', long_factor: factors('long'), short_factor: factors('short'),
            original_max_position_embeddings: has('longer') ? 64 : config.max_position_embeddings};
}
if (arch === 'gemma3') {
    const window = key('attention.sliding_window'), period = key('attention.sliding_window_pattern') ?? 6;
    Object.assign(config, {query_pre_attn_scalar: has('scalar') ? 32 : config.head_dim, sliding_window: window ?? null,
        attn_logit_softcapping: null, final_logit_softcapping: has('capped') ? 30 : null});
    delete config.tie_word_embeddings;
    if (has('new-names')) {
        config.layer_types = Array.from({length: config.num_hidden_layers},
            (_, i) => ((i + 1) % period === 0 ? 'full_attention' : 'sliding_attention'));
        config.rope_parameters = {full_attention: {rope_type: 'default', rope_theta: config.rope_theta},
            sliding_attention: {rope_type: 'default', rope_theta: 10000}};
        delete config.rope_theta;
    } else {
        Object.assign(config, {sliding_window_pattern: period, rope_local_base_freq: 10000});
    }
    if (has('types')) config.layer_types = ['full_attention', 'sliding_attention'];
    if (has('bidirectional')) config.use_bidirectional_attention = true;
}
if (layout === 'mlx') config.quantization = {group_size: has('group32') ? 32 : 128, bits: 2};
if (has('unsaid')) {
    delete config.quantization_config;
    delete config.quantization;
}
if (has('yarn-of-bonsai')) config.rope_scaling = {rope_type: 'yarn', factor: key('rope.scaling.factor'),
    original_max_position_embeddings: key('rope.scaling.original_context_length')};
if (has('yarn')) config.rope_scaling = {rope_type: 'yarn', factor: 4, original_max_position_embeddings: 64};
if (has('parameters')) {
    config.rope_parameters = {rope_type: 'yarn', rope_theta: config.rope_theta, factor: 4,
        original_max_position_embeddings: 64};
    delete config.rope_theta;
}
if (has('llama3')) config.rope_scaling = {rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4,
    original_max_position_embeddings: 64};
if (has('partial')) config.partial_rotary_factor = 0.5;
if (has('window')) config.use_sliding_window = true;
json('config.json', config);

if (key('pooling_type') === 3) {
    fs.mkdirSync(`${dir}/1_Pooling`);
    json('1_Pooling/config.json', {pooling_mode_mean_tokens: false, pooling_mode_lasttoken: true});
}

// ---- the vocabulary ----

// Merges of a SentencePiece vocabulary: every way to make a token of two, the highest score first.
function spm_json(k) {
    const tokens = k['tokenizer.ggml.tokens'], kinds = k['tokenizer.ggml.token_type'], scores = k['tokenizer.ggml.scores'];
    const vocab = Object.fromEntries(tokens.map((text, id) => [text, id])), pairs = [], added = [];
    tokens.forEach((text, id) => {
        if (kinds[id] === 2 || kinds[id] === 3)
            added.push({id, content: text, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true});
        const letters = [...text];
        for (let i = 1; kinds[id] === 1 && i < letters.length; i++) {
            const parts = [letters.slice(0, i).join(''), letters.slice(i).join('')];
            if (parts.every((part) => part in vocab)) pairs.push({parts, score: scores[id]});
        }
    });
    pairs.sort((a, b) => b.score - a.score);
    if (has('badmerge')) pairs[0].parts = ['e', 'no such token'.replaceAll(' ', '_')];
    const replace = {type: 'Replace', pattern: {String: ' '}, content: '\u2581'};
    return {version: '1.0', added_tokens: added,
        normalizer: has('metaspace') ? null : has('noprefix') ? replace
            : {type: 'Sequence', normalizers: [{type: 'Prepend', prepend: '\u2581'}, has('nfkc') ? {type: 'NFKC'} : replace]},
        pre_tokenizer: has('metaspace') ? {type: 'Metaspace', replacement: '\u2581', prepend_scheme: 'first', split: false}
            : has('noprefix') ? {type: 'Split', pattern: {String: ' '}, behavior: 'MergedWithPrevious', invert: false} : null,
        post_processor: null, decoder: null,
        model: {type: 'BPE', unk_token: tokens[0], fuse_unk: true, byte_fallback: true, vocab,
            merges: has('pairs') ? pairs.map((p) => p.parts) : pairs.map((p) => p.parts.join(' '))}};
}

// The same as SentencePiece's own file: fields of protocol buffers.
function spm_model(k) {
    const varint = (n) => (n < 128 ? [n] : [n % 128 + 128, ...varint(Math.floor(n / 128))]);
    const bytes = (number, content) => [...varint(number * 8 + 2), ...varint(content.length), ...content];
    const flag = (number, n) => [...varint(number * 8), ...varint(n)];
    const pieces = k['tokenizer.ggml.tokens'].flatMap((text, id) => {
        const score = Buffer.alloc(4);
        score.writeFloatLE(k['tokenizer.ggml.scores'][id]);
        return bytes(1, [...bytes(1, [...Buffer.from(text)]), 2 * 8 + 5, ...score,
            ...flag(3, k['tokenizer.ggml.token_type'][id])]);
    });
    return Buffer.from([...pieces, ...bytes(2, flag(3, has('unigram') ? 1 : 2)),
        ...bytes(3, [...bytes(1, [...Buffer.from('identity')]), ...(has('charsmap') ? bytes(2, [1, 2, 3]) : []),
            ...flag(3, has('noprefix') ? 0 : 1), ...flag(4, 0)])]);
}

const types = keys['tokenizer.ggml.token_type'], vocab = {}, added = [];
keys['tokenizer.ggml.tokens'].forEach((text, id) => {
    if (types[id] === 1) vocab[text] = id;
    else added.push({id, content: text, single_word: false, lstrip: false, rstrip: false, normalized: false,
        special: types[id] === 3});
});
const DIGITS = has('qwen') ? '\\p{N}' : '\\p{N}{1,3}';
const REGEX = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${DIGITS}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|` +
    '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const merges = keys['tokenizer.ggml.merges'];
const END = {type: 'TemplateProcessing', pair: [], special_tokens: {},
    single: [{Sequence: {id: 'A', type_id: 0}}, {SpecialToken: {id: added[0]?.content, type_id: 0}}]};
json('tokenizer.json', vocabulary ? spm_json(vocabulary) : {
    version: '1.0', truncation: null, padding: null, added_tokens: added,
    normalizer: has('qwen') ? {type: 'NFC'} : null,
    pre_tokenizer: has('falcon') ? {type: 'Sequence', pretokenizers: [
        {type: 'Punctuation', behavior: 'Contiguous'},
        {type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true},
        {type: 'Split', pattern: {Regex: has('digits') ? '[0-9][0-9][0-9]' : '[0-9]'}, behavior: 'Isolated', invert: false}]}
    : {type: 'Sequence', pretokenizers: [
        {type: 'Split', pattern: {Regex: has('regex') ? '\\w+' : REGEX}, behavior: 'Isolated', invert: false},
        {type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false}]},
    post_processor: has('end') ? END : null, decoder: {type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true},
    model: {type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
        fuse_unk: false, byte_fallback: false, ignore_merges: !has('qwen'), vocab,
        merges: has('pairs') ? merges.map((m) => m.split(' ')) : merges},
});
if (has('model')) {
    fs.writeFileSync(`${dir}/tokenizer.model`, spm_model(vocabulary));
    fs.rmSync(`${dir}/tokenizer.json`);
}
json('tokenizer_config.json', {bos_token: vocabulary?.['tokenizer.ggml.tokens'][vocabulary['tokenizer.ggml.bos_token_id']], add_bos_token: keys['tokenizer.ggml.add_bos_token'] ?? true,
    add_eos_token: keys['tokenizer.ggml.add_eos_token'],
    chat_template: has('template') ? '{{ messages }}' : undefined});
