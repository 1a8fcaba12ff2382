#!/usr/bin/env bash
# Trains the built-in model: built-in.sh DIR [OPTION OF bn-train]...
#
# DIR gets the texts, the vocabulary, and the run. When the same command is given again, a run that was stopped continues from its
# checkpoint. At its end the temperature is fitted to texts that were not trained on, and DIR/built-in-i2_s.gguf is written.
# STEPS (2600) is the length of the run: 10.6 million tokens. The last quarter is mostly the text that the model is for.
# BN_TRAIN names the program.
set -eu
recipes=$(cd "$(dirname "$0")" && pwd)
dir=$1
shift
program=$(realpath "${BN_TRAIN:-$recipes/../../build/gcc/bn-train}")
mkdir -p "$dir/texts"
dir=$(realpath "$dir")
[ -e "$dir/texts/SHA256SUMS" ] || python3 "$recipes/public-domain.py" "$dir/texts" "$dir/packages"
cd "$dir/texts"
sha256sum --quiet -c SHA256SUMS
main=(--text shakespeare.txt:4 --text austen.txt --text kjv.txt --text web.txt --text spurgeon.txt --text henry.txt --text jargon.txt
    --text devil.txt --text newton.txt)
late=(--late-text shakespeare.txt:8 --late-text austen.txt --late-text kjv.txt --late-text newton.txt --late-text devil.txt)
# Names of Shakespeare and stage directions get tokens of their own.
[ -e vocabulary.gguf ] || "$program" tokenizer "${main[@]}" --vocab 4096 -o vocabulary.gguf
cp "$recipes/../../fixtures/validation.txt" shakespeare-validation.txt
if [ -e "$dir/run/checkpoint.bntrain" ]; then
    "$program" resume -o "$dir/run" --name built-in --model-ctx 1024 "$@"
else
    "$program" train "${main[@]}" "${late[@]}" --late 0.75 --validation shakespeare-validation.txt --tokenizer vocabulary.gguf \
        --layers 6 --width 256 --ffn 768 --heads 4 --kv-heads 2 --context 512 --steps "${STEPS:-2600}" --batch 4096 --micro-batch 1024 \
        --optimiser muon --rate 0.012 --rate-2 0.009 --warm-up 100 --validate-every 200 --save-every 50 --seed 42 --name built-in \
        --model-ctx 1024 -o "$dir/run" "$@"
fi
[ -e "$dir/run/model.gguf" ] || exit 0 # a run that goes on later
# Half of the validation text fits the temperature; the other half shows whether it helps.
head -c 27885 shakespeare-validation.txt >shakespeare-first-half.txt
BN_TRAIN=$program BN_RUN=${BN_RUN:-$(dirname "$program")/bn-run} python3 "$recipes/temperature.py" "$dir/run" \
    shakespeare-first-half.txt austen-validation.txt >"$dir/temperature.json"
temperature=$(sed -nE 's/^  "temperature": ([0-9.]+)$/\1/p' "$dir/temperature.json")
"$program" export "$dir/run" -o "$dir/built-in-i2_s.gguf" --name built-in --model-ctx 1024 --temperature "$temperature"
