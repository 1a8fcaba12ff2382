#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a qwen35 model of a GGUF file as a folder of the Hugging Face hub has it, and that GGUF file for comparison.

    hybrid_folder.py MODEL.gguf DIR [CHANGE...]      writes DIR and DIR.gguf

DIR.gguf is MODEL with each ssm_a replaced by -exp(A_log) in binary32: its logits are those of the converted folder, bit for bit.
Written from the classes of transformers (Qwen3_5ForConditionalGeneration, Qwen3-Next for "fused") and from PrismML's converter
(hadamard_packing.json), not from bn-convert. Standard library only.

Layouts: mlx (words of two bits, taps before the channel, norms with 1), fused (in_proj_qkvz and in_proj_ba), text (no vision part).
Variants: tower, next, list (no full_attention_interval), preset (what config.json may leave out), shuffled (the last layer first).
Faults: tiled (value heads in the order of GGUF), decay (A_log with the other sign), plus-one (norms with 1), grouped-out (out_proj in
the order of GGUF), swapped (the two rows of a head exchanged), and changes of hadamard_packing.json.
"""
import json
import math
import os
import struct
import sys

SOURCE, DIR, CHANGES = sys.argv[1], sys.argv[2], sys.argv[3:]


def has(change):
    return change in CHANGES


# ---- GGUF ----

FILE = open(SOURCE, 'rb').read()
at = 4 + 4


def number(form):
    global at
    (value,) = struct.unpack_from('<' + form, FILE, at)
    at += struct.calcsize(form)
    return value


def text():
    global at
    n = number('Q')
    at += n
    return FILE[at - n:at].decode()


def key_value(kind):
    if kind == 8:
        return text()
    if kind == 9:
        element, n = number('I'), number('Q')
        return [key_value(element) for _ in range(n)]
    return number({0: 'B', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q'}[kind])


n_tensors, n_keys = number('Q'), number('Q')
KEYS = {}
for _ in range(n_keys):
    key = text()
    KEYS[key] = key_value(number('I'))
TENSORS = {}
for _ in range(n_tensors):
    name = text()
    shape = [number('Q') for _ in range(number('I'))]
    TENSORS[name] = (shape, number('I'), number('Q'))
DATA = (at + 31) // 32 * 32


def arch(suffix, preset=None):
    return KEYS.get('qwen35.' + suffix, preset)


def half(bits):
    return struct.unpack('<e', struct.pack('<H', bits))[0]


def single(x):
    return struct.unpack('<f', struct.pack('<f', x))[0]


def base3(block):
    """128 weights of PTQ1_0: 24 bytes of five digits, 2 of four, the scale."""
    out = [0] * 128
    for first, weights, count, digits in ((0, 0, 16, 5), (16, 80, 8, 5), (24, 120, 2, 4)):
        for m in range(count):
            for k in range(digits):
                out[weights + k * count + m] = (block[first + m] * 3 ** k % 256 * 3 >> 8) - 1
    return out, half(block[26] | block[27] << 8)


def values(name):
    """Rows of floats, and the size of the groups with one scale (0: no groups)."""
    (k, *rest), kind, offset = TENSORS[name]
    rows, start, flat, group = math.prod(rest), DATA + offset, [], 0
    n = k * rows
    if kind == 0:
        flat = list(struct.unpack_from(f'<{n}f', FILE, start))
    elif kind == 30:
        flat = [struct.unpack('<f', struct.pack('<I', h << 16))[0] for h in struct.unpack_from(f'<{n}H', FILE, start)]
    elif kind == 42:
        group = 64
        for b in range(n // 64):
            block = FILE[start + 18 * b:start + 18 * b + 18]
            scale = half(block[0] | block[1] << 8)
            flat += [((block[2 + j // 4] >> 2 * (j % 4) & 3) - 1) * scale for j in range(64)]
    elif kind == 143:
        group = 128
        for b in range(n // 128):
            trits, scale = base3(FILE[start + 28 * b:start + 28 * b + 28])
            flat += [t * scale for t in trits]
    else:
        raise SystemExit(f'{name}: type {kind}')
    return [flat[r * k:r * k + k] for r in range(rows)], group


# ---- the order of heads: from that of GGUF to that of the hub ----

D, N_KEY, N_VALUE = arch('ssm.state_size'), arch('ssm.group_count'), arch('ssm.time_step_rank')
EACH = N_VALUE // N_KEY


def grouped(items, size):
    """Value head g of the hub belongs to key head g // EACH; it is head g % EACH * N_KEY + g // EACH of the file."""
    if has('tiled'):
        return items
    out = []
    for g in range(N_VALUE):
        h = g % EACH * N_KEY + g // EACH
        out += items[h * size:h * size + size]
    return out


# ---- safetensors ----

ENTRIES = []


def put(name, kind, shape, data):
    ENTRIES.append((name, kind, shape, bytes(data)))


def floats(items):
    return struct.pack(f'<{len(items)}f', *items)


def bfloats(items):
    return struct.pack(f'<{len(items)}H', *(struct.unpack('<I', struct.pack('<f', x))[0] >> 16 for x in items))


def put_matrix(name, rows, group):
    """A linear layer as floats, or as words of MLX with scales and biases. Groups of zeros have the scale 1."""
    if not has('mlx') or group == 0:
        put(name + '.weight', 'F32', [len(rows), len(rows[0])], floats([x for row in rows for x in row]))
        return
    words, scales = [], []
    for row in rows:
        for g in range(0, len(row), group):
            scale = max(abs(x) for x in row[g:g + group]) or 1.0
            scales.append(scale)
            codes = [round(x / scale) + 1 for x in row[g:g + group]]
            words += [sum(c << 2 * i for i, c in enumerate(codes[w:w + 16])) for w in range(0, group, 16)]
    shape = [len(rows), len(rows[0]) // group]
    put(name + '.weight', 'U32', [len(rows), len(rows[0]) // 16], struct.pack(f'<{len(words)}I', *words))
    put(name + '.scales', 'F16', shape, struct.pack(f'<{len(scales)}e', *scales))
    put(name + '.biases', 'F16', shape, struct.pack(f'<{len(scales)}e', *(-s for s in scales)))


TEXT = 'language_model.model.' if has('mlx') else 'model.' if has('text') else 'model.language_model.'
HEAD = 'language_model.lm_head' if has('mlx') else 'lm_head'


def put_norm(name, source, centred=True):
    """Norms are stored without the 1 that is added to them; MLX has added it."""
    (row,), _ = values(source)
    minus = 1.0 if centred and not has('mlx') and not has('plus-one') else 0.0
    put(name + '.weight', 'F32', [len(row)], floats([w - minus for w in row]))


def put_recurrent(n, source):
    to, of = f'{TEXT}layers.{n}.linear_attn.', f'blk.{source}.'
    keys = 2 * N_KEY * D
    mixed, group = values(of + 'attn_qkv.weight')
    z, _ = values(of + 'attn_gate.weight')
    v, z = grouped(mixed[keys:], D), grouped(z, D)
    q, k = mixed[:keys // 2], mixed[keys // 2:keys]
    a, b = (grouped(values(of + s + '.weight')[0], 1) for s in ('ssm_alpha', 'ssm_beta'))
    if has('swapped'):
        a, b = b, a
    if has('fused'):
        rows, pairs = [], []
        for c in range(N_KEY):
            own = slice(c * EACH * D, (c + 1) * EACH * D)
            rows += q[c * D:c * D + D] + k[c * D:c * D + D] + v[own] + z[own]
            pairs += b[c * EACH:c * EACH + EACH] + a[c * EACH:c * EACH + EACH]
        put_matrix(to + 'in_proj_qkvz', rows, group)
        put(to + 'in_proj_ba.weight', 'BF16', [2 * N_VALUE, len(a[0])], bfloats([x for row in pairs for x in row]))
    else:
        put_matrix(to + 'in_proj_qkv', q + k + v, group)
        put_matrix(to + 'in_proj_z', z, group)
        for name, rows in (('in_proj_a', a), ('in_proj_b', b)):
            put(f'{to}{name}.weight', 'BF16', [N_VALUE, len(rows[0])], bfloats([x for row in rows for x in row]))
    conv, _ = values(of + 'ssm_conv1d.weight')
    conv = conv[:keys] + grouped(conv[keys:], D)
    taps = len(conv[0])
    shape = [len(conv), taps, 1] if has('mlx') else [len(conv), taps] if has('squeezed') else [len(conv), 1, taps]
    put(to + 'conv1d.weight', 'F32', shape, floats([x for row in conv for x in row]))
    (dt,), _ = values(of + 'ssm_dt.bias')
    put(to + 'dt_bias', 'F32', [N_VALUE], floats(grouped(dt, 1)))
    logs = [single(math.log(-x)) for x in values(of + 'ssm_a')[0][0]]
    EXACT[of + 'ssm_a'] = [single(-math.exp(x)) for x in logs]
    put(to + 'A_log', 'F32', [N_VALUE], floats([-x if has('decay') else x for x in grouped(logs, 1)]))
    put_norm(to + 'norm', of + 'ssm_norm.weight', centred=False)
    out, group = values(of + 'ssm_out.weight')
    turned = of + 'ssm_out.weight' in KEYS.get('prism.hadamard.weight_names', [])
    put_matrix(to + 'out_proj', out if turned or has('grouped-out') else [grouped(row, D) for row in out], group)


EXACT = {}
LINEAR = {'self_attn.q_proj': 'attn_q', 'self_attn.k_proj': 'attn_k', 'self_attn.v_proj': 'attn_v', 'self_attn.o_proj': 'attn_output',
          'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up', 'mlp.down_proj': 'ffn_down'}
N_LAYER, INTERVAL = arch('block_count'), arch('full_attention_interval', 4)
ORDER = [*range(N_LAYER)][-1:] + [*range(N_LAYER)][:-1] if has('shuffled') else [*range(N_LAYER)]
FULL = [(i + 1) % INTERVAL == 0 for i in ORDER]
put_matrix(TEXT + 'embed_tokens', *values('token_embd.weight'))
for layer, source in enumerate(ORDER):
    for name, part in LINEAR.items():
        if FULL[layer] or name.startswith('mlp.'):
            put_matrix(f'{TEXT}layers.{layer}.{name}', *values(f'blk.{source}.{part}.weight'))
    if FULL[layer]:
        put_norm(f'{TEXT}layers.{layer}.self_attn.q_norm', f'blk.{source}.attn_q_norm.weight')
        put_norm(f'{TEXT}layers.{layer}.self_attn.k_norm', f'blk.{source}.attn_k_norm.weight')
    else:
        put_recurrent(layer, source)
    put_norm(f'{TEXT}layers.{layer}.input_layernorm', f'blk.{source}.attn_norm.weight')
    put_norm(f'{TEXT}layers.{layer}.post_attention_layernorm', f'blk.{source}.post_attention_norm.weight')
put_norm(TEXT + 'norm', 'output_norm.weight')
if 'output.weight' in TENSORS:
    put_matrix(HEAD, *values('output.weight'))
if has('tower'):
    put('model.visual.blocks.0.attn.qkv.weight', 'BF16', [3, 2], bytes(12))
if has('next'):
    put('mtp.fc.weight', 'BF16', [2, 4], bytes(16))
    put('mtp.layers.0.self_attn.q_proj.weight', 'BF16', [2, 2], bytes(8))

os.makedirs(DIR, exist_ok=True)
header, end = {'__metadata__': {'format': 'pt'}}, 0
for name, kind, shape, data in ENTRIES:
    header[name] = {'dtype': kind, 'shape': shape, 'data_offsets': [end, end + len(data)]}
    end += len(data)
head = json.dumps(header).encode()
head += b' ' * (-len(head) % 8)
with open(f'{DIR}/model.safetensors', 'wb') as out:
    out.write(struct.pack('<Q', len(head)) + head + b''.join(entry[3] for entry in ENTRIES))


# ---- the other files ----

def write(name, document):
    with open(f'{DIR}/{name}', 'w', encoding='utf-8') as out:
        json.dump(document, out)


heads, width = arch('attention.head_count'), arch('attention.key_length')
part = {
    'model_type': 'qwen3_5_text', 'hidden_act': 'silu', 'hidden_size': arch('embedding_length'), 'head_dim': width,
    'intermediate_size': arch('feed_forward_length'), 'num_hidden_layers': N_LAYER, 'num_attention_heads': heads,
    'num_key_value_heads': arch('attention.head_count_kv'), 'vocab_size': len(KEYS['tokenizer.ggml.tokens']),
    'max_position_embeddings': arch('context_length'), 'attn_output_gate': not has('no-gate'),
    'rms_norm_eps': float('%.7g' % arch('attention.layer_norm_rms_epsilon')), 'full_attention_interval': INTERVAL,
    'layer_types': ['full_attention' if full else 'linear_attention' for full in FULL],
    'linear_conv_kernel_dim': arch('ssm.conv_kernel'), 'linear_key_head_dim': D, 'linear_value_head_dim': D,
    'linear_num_key_heads': N_KEY, 'linear_num_value_heads': N_VALUE, 'mtp_num_hidden_layers': 1, 'mamba_ssm_dtype': 'float32',
    'rope_parameters': {'mrope_interleaved': True, 'mrope_section': arch('rope.dimension_sections')[:3], 'rope_type': 'default',
                        'rope_theta': arch('rope.freq_base'), 'partial_rotary_factor': arch('rope.dimension_count') / width},
}
if has('list'):
    del part['full_attention_interval']
if has('preset'):
    del part['layer_types'], part['rope_parameters']['partial_rotary_factor'], part['rope_parameters']['mrope_section']
if has('odd'):
    part['layer_types'][0] = 'full_attention'
if has('wide-values'):
    part['linear_value_head_dim'] *= 2
tied = {'tie_word_embeddings': 'output.weight' not in TENSORS}
quantization = {'quantization': {'bits': 2, 'group_size': 64}} if has('mlx') else {}
turning = {'hadamard': {'block_size': 64}} if has('described') else {}
if has('text'):
    write('config.json', {'architectures': ['Qwen3_5ForCausalLM'], **part, **tied, **quantization, **turning})
else:
    write('config.json', {'architectures': ['Qwen3_5ForConditionalGeneration'], 'model_type': 'qwen3_5', 'text_config': part,
                          'vision_config': {'model_type': 'qwen3_5'}, **tied, **quantization, **turning})

if 'prism.hadamard.version' in KEYS and not has('no-manifest'):
    def key(name):
        return KEYS['prism.hadamard.' + name]

    names = {f'blk.{n}.{p}.weight': f'{TEXT}layers.{n}.{s}.weight' for n in range(N_LAYER) for s, p in (
        *LINEAR.items(), ('linear_attn.in_proj_qkv', 'attn_qkv'), ('linear_attn.in_proj_z', 'attn_gate'), ('linear_attn.out_proj', 'ssm_out'))}
    names |= {'output.weight': HEAD + '.weight', 'token_embd.weight': TEXT + 'embed_tokens.weight'}
    signs, first = {}, 0
    for size in key('sign_widths'):
        signs[str(size)] = key('sign_values')[first:first + size]
        first += size
    manifest = {
        'schema_version': 1, 'kind': 'hadamard-weight-fold', 'status': 'requires-matching-runtime',
        'transform': {'name': 'normalized-signed-sylvester-walsh-hadamard', 'block_size': key('block_size'), 'sign_mode': 'explicit'},
        'signs': dict(reversed(signs.items())),
        'tensors': [{'name': names[n], 'axis': -1, 'role': 'fold-before-matmul'} for n in key('weight_names')]
        + [{'name': names[n], 'axis': -1, 'role': 'inverse-after-lookup'} for n in key('inverse_weight_names')],
    }
    if 'output.weight' not in TENSORS:
        manifest |= {'schema_version': 3, 'tied_output': True}
    if has('tied'):
        manifest |= {'schema_version': 3, 'tied_output': True}
    if has('schema'):
        manifest['schema_version'] = 4
    if has('transform'):
        manifest['transform']['name'] = 'normalized-sylvester-walsh-hadamard-2'
    if has('axis'):
        manifest['tensors'][0]['axis'] = 0
    if has('twice'):
        manifest['tensors'].append(manifest['tensors'][0])
    if has('sign'):
        manifest['signs'][str(key('sign_widths')[0])][5] = 0
    if has('width'):
        del manifest['signs'][str(key('sign_widths')[0])]
    if has('other'):
        manifest['tensors'].append({'name': f'{TEXT}layers.0.linear_attn.in_proj_a.weight', 'axis': -1})
    if has('unknown'):
        manifest['tensors'].append({'name': f'{TEXT}layers.99.mlp.up_proj.weight', 'axis': -1})
    if has('one-out'):
        manifest['tensors'] = [t for t in manifest['tensors'] if not t['name'].endswith('layers.0.linear_attn.out_proj.weight')]
    if has('one-sign'):
        row = manifest['signs'][str(key('sign_widths')[0])]
        row[3] = -row[3]
    write('hadamard_packing.json', manifest)

tokens, kinds = KEYS['tokenizer.ggml.tokens'], KEYS['tokenizer.ggml.token_type']
REGEX = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
write('tokenizer.json', {
    'version': '1.0', 'normalizer': {'type': 'NFC'}, 'post_processor': None,
    'added_tokens': [{'id': i, 'content': t, 'special': kinds[i] == 3} for i, t in enumerate(tokens) if kinds[i] != 1],
    'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [
        {'type': 'Split', 'pattern': {'Regex': REGEX}, 'behavior': 'Isolated', 'invert': False},
        {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': False, 'use_regex': False}]},
    'model': {'type': 'BPE', 'byte_fallback': False, 'ignore_merges': False,
              'vocab': {t: i for i, t in enumerate(tokens) if kinds[i] == 1}, 'merges': KEYS['tokenizer.ggml.merges']}})
write('tokenizer_config.json', {'add_bos_token': False, 'eos_token': tokens[KEYS['tokenizer.ggml.eos_token_id']],
                                'chat_template': KEYS.get('tokenizer.chat_template')})

exact = bytearray(FILE)
for name, items in EXACT.items():
    first = DATA + TENSORS[name][2]
    exact[first:first + 4 * len(items)] = floats(items)
with open(DIR + '.gguf', 'wb') as out:
    out.write(exact)
