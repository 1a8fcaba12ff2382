#!/usr/bin/env bash
# bn-convert: round trips between the ternary types, folders with safetensors in every layout, refusals, records, and that no
# output appears after an error, an interruption or a kill. TAP on standard output. BN_KILLS is the number of kills (8).
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
convert=$out/bn-convert
bitnet=fixtures/tiny-bitnet-b1.58-i2_s-v320-42.gguf llama=fixtures/nano-llama-i2_s-42.gguf
digest() { "$out/bn-run" logits -q -m "$1" --tokens 1,2,3,4,5,6,7,8 --all --digest; }
# to MODEL TYPE OPTIONS...: writes $tmp/TYPE.gguf
to() { "$convert" -q "$1" --to "$2" -o "$tmp/$2.gguf" "${@:3}"; }

# ---- between the types of GGUF ----
expected=$(digest $bitnet)
for type in tq2_0 tq1_0 q2_0 pq2_0 ptq1_0 f16 f32; do
    check "i2_s to $type" to $bitnet $type
    check "and back: the same file" bash -c "'$convert' '$tmp/$type.gguf' --to i2_s -o '$tmp/back.gguf' && cmp '$tmp/back.gguf' $bitnet"
done
check "ternary floats give the same logits" equal "$(digest "$tmp/f32.gguf")" "$expected"
check "tq1_0 and tq2_0 give the same logits" equal "$(digest "$tmp/tq1_0.gguf")" "$(digest "$tmp/tq2_0.gguf")"
groups=$(digest "$tmp/q2_0.gguf" 2>/dev/null)
if [ -n "$groups" ]; then
    check "pq2_0 gives those of q2_0" equal "$(digest "$tmp/pq2_0.gguf")" "$groups"
    check "ptq1_0 does" equal "$(digest "$tmp/ptq1_0.gguf")" "$groups"
else
    skip "logits of q2_0, pq2_0, ptq1_0" "the engine does not run them"
fi
# The reference has its own reader, and computes in binary64.
reference=$out/crossval/bn-reference
oracle() { "$reference" logits -m "$1" --tokens 1,2,3,4,5,6,7,8 --all -o "$tmp/oracle.f32" && sha256sum <"$tmp/oracle.f32"; }
if [ -x "$reference" ]; then
    original=$(oracle $bitnet)
    for type in tq2_0 tq1_0 f16 f32; do
        check "$type has the logits of the original in the reference" equal "$(oracle "$tmp/$type.gguf")" "$original"
    done
fi
cp "$tmp/tq2_0.gguf" "$tmp/first.gguf"
cp "$tmp/ptq1_0.gguf" "$tmp/p.gguf"
check "through two types to a third" bash -c "'$convert' '$tmp/p.gguf' --to q2_0 -o '$tmp/a.gguf' &&
    '$convert' '$tmp/a.gguf' --to tq2_0 -o '$tmp/b.gguf' && cmp '$tmp/b.gguf' '$tmp/first.gguf'"
check "a second run gives the same bytes" bash -c "'$convert' $bitnet --to tq2_0 -o '$tmp/again.gguf' && cmp '$tmp/again.gguf' '$tmp/first.gguf'"
check "and one thread does" bash -c "'$convert' $bitnet --to tq2_0 -t 1 -o '$tmp/again.gguf' && cmp '$tmp/again.gguf' '$tmp/first.gguf'"
says 9 "rows that are not whole blocks are refused" "tensor 'blk.0.attn_q.weight': rows of 128 weights are not a multiple of 256" to $llama tq2_0

# damage TENSOR BYTE VALUE [TYPE]: $tmp/damaged.gguf, a file with another byte in a tensor
damage() {
    local from=$tmp/${4:-q2_0}.gguf
    cp "$from" "$tmp/damaged.gguf"
    local offset
    offset=$("$out/bn-run" inspect --json -m "$from" 2>/dev/null | python3 -c "
import json, sys
print(next(t['offset'] for t in json.load(sys.stdin)['tensors'] if t['name'] == '$1') + $2)" 2>/dev/null) || return 1
    # shellcheck disable=SC2059
    printf "\\x$3" | dd of="$tmp/damaged.gguf" bs=1 seek="$offset" conv=notrunc status=none
}
if damage blk.0.attn_k.weight 2 ff; then
    says 9 "the code 3 cannot be stored in base 3" "tensor 'blk.0.attn_k.weight': row 0, column 0: the weight \\+2" to "$tmp/damaged.gguf" ptq1_0
    check "it can in pq2_0" to "$tmp/damaged.gguf" pq2_0
    check "and back to the same bytes" bash -c "'$convert' '$tmp/pq2_0.gguf' --to q2_0 -o '$tmp/back.gguf' && cmp '$tmp/back.gguf' '$tmp/damaged.gguf'"
    damage blk.0.attn_k.weight 19 3c
    says 9 "two scales in a larger block are refused" 'row 0, column 64: the scales .* and .* cannot be stored as one scale of PQ2_0' to "$tmp/damaged.gguf" pq2_0
    damage blk.0.attn_k.weight 66 01 f32
    says 9 "a float that is not ternary is refused" "tensor 'blk.0.attn_k.weight': row 0, column [0-9]+: the weight .* is not -s, 0 or" to "$tmp/damaged.gguf" i2_s
    check "or rounded" to "$tmp/damaged.gguf" i2_s --ternarise
    says 0 "which the record says" 'ternarised' cat "$tmp/i2_s.gguf.json"
    damage blk.0.attn_k.weight 1 7e
    says 4 "a scale that is not a number is refused" 'row 0, column 0: nan is not a finite number' to "$tmp/damaged.gguf" tq2_0
fi

# ---- the output ----
to $bitnet tq1_0 >/dev/null
check "the record has the digest of the input" grep -q "$(sha256sum <$bitnet | cut -d' ' -f1)" "$tmp/tq1_0.gguf.json"
check "and that of the output" grep -q "$(sha256sum <"$tmp/tq1_0.gguf" | cut -d' ' -f1)" "$tmp/tq1_0.gguf.json"
says 0 "--check compares them" 'the digest is that of its record' "$convert" "$tmp/tq1_0.gguf" --check
printf x >>"$tmp/tq1_0.gguf"
says 5 "--check reports a changed file" 'its digest is [0-9a-f]+, the record says' "$convert" "$tmp/tq1_0.gguf" --check
says 3 "--check needs a record" 'b.gguf.json' bash -c "rm '$tmp/b.gguf.json'; '$convert' '$tmp/b.gguf' --check"
cp $bitnet "$tmp/own.gguf"
says 2 "the output cannot be the input" 'the output is also an input' "$convert" "$tmp/own.gguf" --to tq2_0 -o "$tmp/own.gguf"
says 2 "a type is needed" 'no type is given' "$convert" $bitnet -o "$tmp/x.gguf"
says 2 "an output is needed" 'no output is given' "$convert" $bitnet --to tq2_0
says 0 "--dry-run lists the tensors" 'blk.0.attn_q.weight +.* I2_S +TQ2_0' "$convert" $bitnet --to tq2_0 --dry-run
check "--json is JSON" bash -c "'$convert' $bitnet --to tq2_0 --dry-run --json | python3 -m json.tool"
says 8 "a file that may not grow is reported" 'cannot write' bash -c "ulimit -f 100; '$convert' $bitnet --to f32 -o '$tmp/x.gguf'"
printf 'old' >"$tmp/kept.gguf"
printf 'record' >"$tmp/kept.gguf.json"
status 4 "an error while writing" "$convert" "$tmp/damaged.gguf" --to tq2_0 -o "$tmp/kept.gguf"
check "leaves the old output and its record" equal "$(cat "$tmp/kept.gguf" "$tmp/kept.gguf.json")" oldrecord
leftovers() { find "$1" -name '*.tmp-*' | grep . && return 1; return 0; }
check "and no temporary file" leftovers "$tmp"

# A process that is killed leaves the old output or all of the new one.
check "a larger model" "$out/bn-fixtures" gen --size small --format i2_s -o "$tmp/large"
large=$(find "$tmp/large" -name '*.gguf')
"$convert" "$large" --to f32 -o "$tmp/whole.gguf" >/dev/null
whole=$(sha256sum <"$tmp/whole.gguf")
mkdir "$tmp/kills"
half_written() {
    local i
    for ((i = 0; i < ${BN_KILLS:-8}; i++)); do
        timeout -s KILL "0.0$((i * 11 % 10 + 1))" "$convert" "$large" --to f32 -o "$tmp/kills/k.gguf" >/dev/null 2>&1
        [ ! -e "$tmp/kills/k.gguf" ] || [ "$(sha256sum <"$tmp/kills/k.gguf")" = "$whole" ] || return 1
        rm -f "$tmp/kills"/*
    done
}
check "a kill leaves no half of a file" half_written
# --foreground: one signal; without it the group gets a second one, which ends the process at once.
interrupted() {
    timeout --foreground -s INT 0.05 "$convert" -q "$large" --to f32 -o "$tmp/kills/i.gguf" >/dev/null 2>&1
    leftovers "$tmp/kills" && { [ ! -e "$tmp/kills/i.gguf" ] || [ "$(sha256sum <"$tmp/kills/i.gguf")" = "$whole" ]; }
}
check "an interruption removes the temporary file" interrupted

HF_HOME=$tmp/hub says 3 "a name is one of a downloaded model" 'bn-download ternary-bonsai-8b' "$convert" ternary-bonsai-8b --to pq2_0 --dry-run

# ---- folders ----
if ! command -v node >/dev/null; then
    skip "folders with safetensors" "no node"
    exit
fi
# folder MODEL LAYOUT CHANGES...: $tmp/folder
folder() { rm -rf "$tmp/folder" && node tests/convert/folder.mjs "$1" "$tmp/folder" "${@:2}"; }
ids() { "$out/bn-run" tokenize -m "$1" --ids -f README.md | sha256sum; }
for model in $bitnet $llama; do
    name=$(basename "$model" | cut -d- -f2)
    expected=$(digest "$model")
    for layout in trits multiply shards; do
        folder "$model" $layout
        check "$name, $layout" to "$tmp/folder" i2_s
        check "has the logits of the original" equal "$(digest "$tmp/i2_s.gguf")" "$expected"
        check "and its tokens" equal "$(ids "$tmp/i2_s.gguf")" "$(ids "$model")"
    done
done
# The safetensors alone, computed in binary64 as the classes of the hub do; the engine rounds activations to 8 bits.
compare=$out/crossval/bn-compare-logits
alone() { # MODEL CHANGES...
    local ids
    ids=$(seq -s, 3 7 250)
    folder "$1" trits "${@:2}" && to "$tmp/folder" i2_s || return 1
    "$out/bn-run" logits -q -m "$tmp/i2_s.gguf" --tokens "$ids" --all -o "$tmp/engine.f32" &&
        node tests/convert/forward.mjs "$tmp/folder" "$ids" >"$tmp/alone.f32"
}
agree() { "$compare" "$tmp/alone.f32" "$tmp/engine.f32" --vocab 320 --min-cosine 0.997 --min-argmax 30 --max-abs 0.5; }
if [ -x "$compare" ]; then
    "$out/bn-fixtures" gen --size tiny --vocab 320 --arch llama -o "$tmp/tiny" >/dev/null
    tiny=$(echo "$tmp/tiny"/*.gguf)
    check "logits of the safetensors, bitnet" alone $bitnet
    check "agree with those of the engine" agree
    check "logits of the safetensors, llama" alone "$tiny"
    check "agree with those of the engine" agree
    cp "$tmp/alone.f32" "$tmp/kept.f32"
    check "of a model with rows of heads in another order" alone "$tiny" swapped
    check "too" agree
    cp "$tmp/kept.f32" "$tmp/alone.f32"
    status 1 "but not with those of the first one" agree
fi
folder $llama divide
check "the dividing convention" to "$tmp/folder" i2_s
check "has the logits of the original" equal "$(digest "$tmp/i2_s.gguf")" "$expected"
check "read as the other convention" to "$tmp/folder" i2_s --weight-scale multiply
check "it has other logits" bash -c "[ '$(digest "$tmp/i2_s.gguf")' != '$expected' ]"
folder $llama divide unsaid
says 9 "packed bytes need a quantization_config" 'no quantization_config with quant_method bitnet' to "$tmp/folder" i2_s
check "or the option" to "$tmp/folder" i2_s --weight-scale divide
folder $bitnet masters
check "masters of a BitNet model are rounded" to "$tmp/folder" i2_s
check "to the original" equal "$(digest "$tmp/i2_s.gguf")" "$(digest $bitnet)"
folder $llama masters
says 9 "those of other models are not" 'is not -s, 0 or \+s' to "$tmp/folder" i2_s
check "without the option" to "$tmp/folder" i2_s --ternarise
check "which gives the original" equal "$(digest "$tmp/i2_s.gguf")" "$expected"
folder $llama trits pairs frequencies template
check "merges as pairs, tables of frequencies, a template" to "$tmp/folder" i2_s
check "the tokens are those of the original" equal "$(ids "$tmp/i2_s.gguf")" "$(ids $llama)"
check "the template is a key" grep -qa 'tokenizer.chat_template.*{{ messages }}' "$tmp/i2_s.gguf"
for spelling in yarn parameters; do
    folder $llama trits $spelling
    to "$tmp/folder" i2_s >/dev/null
    cp "$tmp/i2_s.gguf" "$tmp/$spelling.gguf"
done
check "YaRN is a key" grep -qa 'llama.rope.scaling.original_context_length' "$tmp/yarn.gguf"
check "in both spellings of config.json" cmp "$tmp/yarn.gguf" "$tmp/parameters.gguf"
folder $llama trits llama3
says 0 "the scaling of Llama 3 is a tensor" 'rope_freqs.weight +32 ' "$convert" "$tmp/folder" --to i2_s --dry-run
folder $llama trits qwen
check "Qwen's rule is recognised" bash -c "'$convert' '$tmp/folder' --to i2_s -o '$tmp/q.gguf' && grep -qa 'tokenizer.ggml.pre.\{12\}qwen2' '$tmp/q.gguf'"
folder $llama trits falcon
check "the rule of Falcon is recognised" bash -c "'$convert' '$tmp/folder' --to i2_s -o '$tmp/q.gguf' && grep -qa 'tokenizer.ggml.pre.\{12\}falcon_e' '$tmp/q.gguf'"
folder $llama trits falcon digits
says 9 "but not with another one for digits" '--pre NAME: falcon3 for Falcon3' to "$tmp/folder" i2_s
check "for which a name can be given" to "$tmp/folder" i2_s --pre falcon3
folder $llama trits end
to "$tmp/folder" i2_s >/dev/null
key() { "$out/bn-run" inspect --json -m "$tmp/i2_s.gguf" | python3 -c "
import json, sys
print(next(k['value'] for k in json.load(sys.stdin)['keys'] if k['key'] == 'tokenizer.ggml.$1'))"; }
check "a template that ends in another token sets the end" equal "$(key eos_token_id) $(key eot_token_id)" "506 507"
check "and that it is added" equal "$(key add_eos_token)" true
folder $llama trits qwen3
says 0 "norms of heads are for qwen3" 'blk.0.attn_q_norm.weight +64 ' "$convert" "$tmp/folder" --to q2_0 --dry-run
folder $llama trits qwen3 embedding
says 0 "norms of inputs, no head" 'blk.0.ffn_down_norm_in.weight +256 ' "$convert" "$tmp/folder" --to i2_s --dry-run

# Models with stages of their own: the converted file has the logits of the GGUF file that the folder was made of, and those of the
# safetensors in binary64.
own() { # MODEL TYPE LIMITS...
    local model=fixtures/$1.gguf type=$2 ids
    ids=$(seq -s, 3 7 250); shift 2
    folder "$model" trits
    check "$(basename "$model" .gguf)" to "$tmp/folder" "$type"
    check "has the logits of the original" equal "$(digest "$tmp/$type.gguf")" "$(digest "$model")"
    [ -x "$compare" ] || return
    "$out/bn-run" logits -q -m "$tmp/$type.gguf" --tokens "$ids" --all -o "$tmp/engine.f32"
    node tests/convert/forward.mjs "$tmp/folder" "$ids" >"$tmp/alone.f32"
    check "and those of its safetensors" "$compare" "$tmp/alone.f32" "$tmp/engine.f32" --vocab 331 "$@"
}
wide=(--min-cosine 0.999999 --max-abs 0.01) eight=(--min-cosine 0.998 --min-argmax 30 --max-abs 0.3)
own nano-minicpm-q2_0-v331-longrope-tied-42 q2_0 "${wide[@]}"
own nano-qwen3-i2_s-v331-embedding-42 i2_s "${eight[@]}"
own nano-gemma3-i2_s-v331-embedding-42 i2_s "${eight[@]}"
vector() { "$out/bn-run" embed -q -m "$1" 'To be'; }
check "gemma3: the vector of a text is that of the original" equal "$(vector "$tmp/i2_s.gguf")" "$(vector fixtures/nano-gemma3-i2_s-v331-embedding-42.gguf)"
gemma=fixtures/pair-gemma3-q2_0-v331-w8-p2-42.gguf
own "$(basename $gemma .gguf)" q2_0 "${wide[@]}"
cp "$tmp/q2_0.gguf" "$tmp/old-names.gguf"
folder $gemma trits new-names
check "gemma3 with a type for each layer" to "$tmp/folder" q2_0
check "is the same file" cmp "$tmp/q2_0.gguf" "$tmp/old-names.gguf"
folder $gemma trits unshifted
to "$tmp/folder" q2_0 >/dev/null
check "1 is added to norms: stored with it, the logits are others" bash -c "[ '$(digest "$tmp/q2_0.gguf")' != '$(digest $gemma)' ]"
refuse_own() { # MODEL CHANGE STATUS PATTERN
    folder "$1" trits "$2"
    says "$3" "refused: $2" "$4" "$convert" "$tmp/folder" --to q2_0 -o "$tmp/no.gguf"
}
refuse_own $gemma scalar 9 'query_pre_attn_scalar is 32, only the head_dim 128'
refuse_own $gemma capped 9 'final_logit_softcapping is not supported'
refuse_own $gemma bidirectional 9 'use_bidirectional_attention is not supported'
refuse_own $gemma types 9 'the types of the layers do not repeat: layer 1'
refuse_own fixtures/nano-minicpm-q2_0-v331-longrope-tied-42.gguf longer 9 'a context of 512 tokens, more than the original 64'

# Two bits with scales and biases, as MLX stores them.
bonsai=fixtures/nano-qwen3-pq2_0-v331-yarn-tied-42.gguf
folder $bonsai mlx yarn-of-bonsai
check "words of MLX" to "$tmp/folder" pq2_0
check "have the logits of the original" equal "$(digest "$tmp/pq2_0.gguf")" "$(digest $bonsai)"
refuse_mlx() { # CHANGE STATUS PATTERN
    folder $bonsai mlx yarn-of-bonsai "$1"
    says "$2" "refused: $1" "$3" "$convert" "$tmp/folder" --to pq2_0 -o "$tmp/no.gguf"
}
refuse_mlx bias 9 'row 0, column 0: the bias .* is not minus the scale'
refuse_mlx group32 9 'no quantization of 2 bits with a group_size of 64 or more'
refuse_mlx unsaid 9 'no quantization of 2 bits'

# SentencePiece in a tokenizer.json.
spm=fixtures/tokenizers/nano-tokenizer-spm-42.gguf
for change in strings pairs metaspace model; do
    folder $llama trits "spm=$spm" $change
    check "a SentencePiece vocabulary ($change)" to "$tmp/folder" i2_s
    check "has the tokens of the original" equal "$(ids "$tmp/i2_s.gguf")" "$(ids $spm)"
done
folder $llama trits "spm=$spm" noprefix
to "$tmp/folder" i2_s >/dev/null
tokens() { "$out/bn-run" tokenize -q -m "$1" --no-bos --ids -p "$2"; }
check "without a blank before the text" equal "$(tokens "$tmp/i2_s.gguf" ' the cat')" "$(tokens $spm 'the cat')"
folder $llama trits "spm=$spm" model noprefix
to "$tmp/folder" i2_s >/dev/null
check "nor in a tokenizer.model" equal "$(tokens "$tmp/i2_s.gguf" ' the cat')" "$(tokens $spm 'the cat')"
folder $llama trits "spm=$spm" model unigram
says 9 "a tokenizer.model that is not BPE is refused" 'tokenizer.model: the kind of the model is 1, expected 2' to "$tmp/folder" i2_s
folder $llama trits "spm=$spm" model charsmap
says 9 "and one that replaces characters" 'its normaliser is not supported' to "$tmp/folder" i2_s
folder $llama trits "spm=$spm" model
truncate -s 5000 "$tmp/folder/tokenizer.model"
says 4 "and one that is cut off" 'tokenizer.model: the field is damaged or cut off \(at byte' to "$tmp/folder" i2_s
for change in badmerge nfkc; do
    folder $llama trits "spm=$spm" $change
    case $change in badmerge) pattern='merge 0 makes no token' code=4 ;; *) pattern='normalizer and the pre_tokenizer' code=9 ;; esac
    says $code "refused: $change" "$pattern" to "$tmp/folder" i2_s
done

# What a model was trained with stays: the key bn.activations says it where the type does not.
activations() { "$out/bn-run" inspect -m "$1" | grep -a '^activations'; }
"$convert" fixtures/nano-llama-i2_s-42.gguf --to q2_0 --round-scales -o "$tmp/eight.gguf" >/dev/null 2>&1
says 0 "8-bit activations stay in blocks" 'int8-token' activations "$tmp/eight.gguf"
"$convert" "$tmp/eight.gguf" --to pq2_0 -o "$tmp/again.gguf" >/dev/null 2>&1
says 0 "and after another conversion" 'int8-token' activations "$tmp/again.gguf"
"$convert" fixtures/nano-qwen3-q2_0-v331-yarn-tied-42.gguf --to f16 -o "$tmp/wide.gguf" >/dev/null 2>&1
says 0 "16-bit ones stay in floats" 'int16-g64' activations "$tmp/wide.gguf"
check "and no key is needed" bash -c "! grep -qa bn.activations '$tmp/wide.gguf'"
says 9 "nor for qwen35" 'need 16 bits.*I2_S' \
    "$convert" fixtures/quad-qwen35-q2_0-v331-tied-42.gguf --to i2_s -o "$tmp/no.gguf"
says 9 "I2_S has 8-bit activations only" 'need 16 bits.*I2_S' \
    "$convert" fixtures/nano-qwen3-q2_0-v331-yarn-tied-42.gguf --to i2_s -o "$tmp/no.gguf"

# refuse CHANGE LAYOUT STATUS PATTERN
refuse() {
    folder $llama "$2" "$1"
    says "$3" "refused: $1" "$4" "$convert" "$tmp/folder" --to i2_s -o "$tmp/no.gguf"
}
refuse code3 multiply 4 "tensor 'blk.0.attn_q.weight': row [0-9]+, column 0: the code 3"
refuse shape multiply 4 'model.safetensors: .*q_proj.weight: the shape is 128 x 32, expected 32 x 128 \(at byte [0-9]+\)'
refuse missing trits 4 'no tensor layers.0.mlp.down_proj.weight'
refuse extra trits 9 'q_proj.bias: the architecture has no such tensor'
refuse regex trits 9 'pre_tokenizer is not one of'
refuse partial trits 9 'partial_rotary_factor 0.5 is not supported'
refuse window trits 9 'use_sliding_window is not supported'
refuse index shards 4 'model.safetensors.index.json: .*the index says nothing'
refuse path shards 4 'is not a .safetensors name'
check "no output appeared" bash -c "! ls '$tmp'/no.gguf* 2>/dev/null"
folder $llama trits
echo '{}' >"$tmp/folder/hadamard_packing.json"
says 9 "an unknown hadamard_packing.json is refused" 'hadamard_packing.json: schema_version is not 1, 2 or 3' to "$tmp/folder" i2_s
rm "$tmp/folder/hadamard_packing.json"
truncate -s -1 "$tmp/folder/model.safetensors"
says 4 "a file that is cut off" 'model.safetensors: .*is not within .*\(at byte' to "$tmp/folder" i2_s
folder $llama trits
check "the path of the safetensors is that of the folder" bash -c "'$convert' '$tmp/folder/model.safetensors' --to i2_s -o '$tmp/a.gguf' &&
    '$convert' '$tmp/folder' --to i2_s -o '$tmp/b.gguf' && cmp '$tmp/a.gguf' '$tmp/b.gguf'"
rm "$tmp/folder/model.safetensors"
says 3 "a folder without weights" 'model.safetensors' to "$tmp/folder" i2_s
