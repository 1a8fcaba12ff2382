#!/usr/bin/env bash
# bn-convert: folders of qwen35 (Bonsai 27B and Bonsai 2), in the layouts of transformers, Qwen3-Next and MLX, and rotated. Converted,
# they have the logits of the GGUF file that the folder was made of, bit for bit. Planted faults change them. tests/convert/hybrid_folder.py
# writes the folders. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
if ! command -v python3 >/dev/null; then
    skip "folders of qwen35" "python3 is not installed"
    exit
fi
convert=$out/bn-convert
plain=fixtures/quad-qwen35-q2_0-v331-tied-42.gguf rotated=fixtures/quad-qwen35-ptq1_0-v331-hadamard64-42.gguf
digest() { "$out/bn-run" logits -q -m "$1" --tokens "$(seq -s, 3 7 250)" --all --digest; }
# folder MODEL CHANGES...: $tmp/folder, and $tmp/folder.gguf with the logits that it must have
folder() { rm -rf "$tmp/folder" && python3 tests/convert/hybrid_folder.py "$1" "$tmp/folder" "${@:2}"; }
# to TYPE: $tmp/TYPE.gguf
to() { "$convert" -q "$tmp/folder" --to "$1" -o "$tmp/$1.gguf"; }
same() { # MODEL TYPE CHANGES...
    folder "$1" "${@:3}"
    check "$(basename "$1" .gguf) ${*:3}" to "$2"
    check "has the logits of the original" equal "$(digest "$tmp/$2.gguf")" "$(digest "$tmp/folder.gguf")"
}
differs() { # MODEL TYPE FAULT
    folder "$1" "$3"
    check "$(basename "$1" .gguf), $3" to "$2"
    check "has other logits" bash -c "[ '$(digest "$tmp/$2.gguf")' != '$(digest "$tmp/folder.gguf")' ]"
}
refuse() { # MODEL CHANGE STATUS PATTERN
    folder "$1" "$2"
    says "$3" "refused: $2" "$4" "$convert" "$tmp/folder" --to q2_0 -o "$tmp/no.gguf"
}

for changes in '' text fused 'text fused' mlx list preset 'tower next'; do
    # shellcheck disable=SC2086 # words
    same $plain q2_0 $changes
done
says 0 "what is left out is counted" '1 tensors of the vision tower, 2 of layers that predict further tokens' "$convert" "$tmp/folder" --to q2_0 --dry-run
check "and recorded" grep -q '"next_tokens": *2' "$tmp/q2_0.gguf.json"
check "no key says that there are such layers" bash -c "! grep -qa nextn_predict_layers '$tmp/q2_0.gguf'"
ids() { "$out/bn-run" tokenize -m "$1" --ids -f README.md | sha256sum; }
check "the tokens are those of the original" equal "$(ids "$tmp/q2_0.gguf")" "$(ids $plain)"
kept() { "$out/bn-run" inspect -m "$tmp/q2_0.gguf" | grep -E "$1"; }
check "the matrices of ssm_alpha keep their type" kept 'blk.0.ssm_alpha.weight +BF16'
for fault in tiled decay plus-one swapped grouped-out; do differs $plain q2_0 $fault; done
refuse $plain squeezed 4 'linear_attn.conv1d.weight: the shape is 512 x 4, expected 512 x 1 x 4'
refuse $plain no-gate 9 'attn_output_gate false is not supported'
refuse $plain wide-values 9 'linear_value_head_dim 128 is not linear_key_head_dim 64'
folder $plain shuffled
check "layers in an order that does not repeat" to q2_0
check "are a list" kept 'qwen35.attention.recurrent_layers +array +\[4 x bool\]'
check "and run" digest "$tmp/q2_0.gguf"
refuse $plain odd 4 'no tensor layers.0.self_attn.q_proj'
refuse $plain described 9 'describes rotated weights, and there is no hadamard_packing.json'
folder $plain
sed -i 's/"qwen3_5_text"/"qwen3_5_moe_text"/' "$tmp/folder/config.json"
says 9 "experts are refused" "model_type 'qwen3_5_moe_text'" "$convert" "$tmp/folder" --to q2_0 --dry-run

folder $plain
sed -i 's/"model_type": "qwen3_5", "text_config"/"model_type": "prism_hadamard_qwen35", "text_config"/' "$tmp/folder/config.json"
says 9 "and so are rotated models of MLX" "model_type 'prism_hadamard_qwen35'" "$convert" "$tmp/folder" --to q2_0 --dry-run

# Rotated weights: hadamard_packing.json becomes keys, out_proj keeps its order.
for changes in '' text; do
    # shellcheck disable=SC2086 # words
    same $rotated ptq1_0 $changes
done
keys() { "$out/bn-run" inspect --json -m "$1" | python3 -c "
import json, sys
print({k['key']: k['value'] for k in json.load(sys.stdin)['keys'] if k['key'].startswith('prism.')})"; }
check "the keys are those of the original" equal "$(keys "$tmp/ptq1_0.gguf" | tr ',' '\n' | sort)" "$(keys $rotated | tr ',' '\n' | sort)"
folder $rotated tied
says 4 "refused: tied, with a head" 'tied_output is true, and the model has a head of its own' to ptq1_0
tied=$("$out/bn-fixtures" gen -q --size quad --vocab 331 --arch qwen35 --hadamard 64 --tied --format ptq1_0 -o "$tmp" | sed 's/^[0-9a-f]*  //')
same "$tied" ptq1_0
says 0 "a rotated embedding that is the head has version 2" "prism.hadamard.version': '2'" keys "$tmp/ptq1_0.gguf"
for fault in one-sign tiled; do differs $rotated ptq1_0 $fault; done
refuse $rotated schema 9 'schema_version is not 1, 2 or 3'
refuse $rotated transform 9 "name 'normalized-sylvester-walsh-hadamard-2' is not supported"
refuse $rotated axis 9 "the axis of '.*' is not -1"
refuse $rotated twice 4 "is duplicate"
refuse $rotated sign 4 "the signs of the width '128' are not as many numbers 1 and -1"
refuse $rotated width 9 'there are no signs for its width'
refuse $rotated other 9 'in_proj_a.weight. cannot be rotated: it is not a linear layer'
refuse $rotated unknown 9 "the model has no tensor '.*layers.99.mlp.up_proj.weight'"
refuse $rotated one-out 9 '2 of 3 out_proj are rotated, expected all or none'
check "no output appeared" bash -c "! ls '$tmp'/no.gguf* 2>/dev/null"
