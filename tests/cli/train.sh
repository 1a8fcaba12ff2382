#!/usr/bin/env bash
# bn-train: vocabularies, runs that learn, the same bits with any number of threads and interruptions, checkpoints that survive
# kills, model files of every type, and what is refused. TAP on standard output. BN_KILLS is the number of kills (8).
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
train=$out/bn-train run=$out/bn-run
[ -x "$train" ] || { echo "ok 1 - bn-train # SKIP it was not built: no OpenBLAS"; echo 1..1; exit 0; }
member() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"; }
head -c 40000 fixtures/validation.txt >"$tmp/text"
tail -c 8000 fixtures/validation.txt >"$tmp/held-out"

# ---- vocabulary ----
merges() { python3 - "$1" <<'END'
import struct, sys
data = open(sys.argv[1], 'rb').read()
at = data.index(b'tokenizer.ggml.merges') + 21 + 8
n, at = struct.unpack_from('<Q', data, at)[0], at + 8
for _ in range(n):
    length = struct.unpack_from('<Q', data, at)[0]
    print(data[at + 8:at + 8 + length].decode())
    at += 8 + length
END
}
check 'a vocabulary is learned' "$train" tokenizer -q --text "$tmp/text" --vocab 457 --pre gpt-2 -o "$tmp/v.gguf"
check 'another program learns the same merges' equal "$(merges "$tmp/v.gguf" | sha256sum)" \
    "$(python3 tests/cli/learn_vocabulary.py 200 "$tmp/text" | sha256sum)"
head -c 20000 "$tmp/text" >"$tmp/a"
tail -c +20001 "$tmp/text" >"$tmp/b"
"$train" tokenizer -q --text "$tmp/a" --text "$tmp/b" --vocab 400 -o "$tmp/ab.gguf" >/dev/null
"$train" tokenizer -q --text "$tmp/b" --text "$tmp/a" --vocab 400 -o "$tmp/ba.gguf" >/dev/null
check 'the order of texts does not matter' cmp "$tmp/ab.gguf" "$tmp/ba.gguf"
"$train" tokenizer -q --text "$tmp/a:2" --text "$tmp/b" --vocab 400 -o "$tmp/twice.gguf" >/dev/null
"$train" tokenizer -q --text "$tmp/a" --text "$tmp/a" --text "$tmp/b" --vocab 400 -o "$tmp/aab.gguf" >/dev/null
check 'FILE:2 counts a text twice' cmp "$tmp/twice.gguf" "$tmp/aab.gguf"
head -c 3000 /dev/urandom | tr -d '\0' >"$tmp/bytes"
check 'any bytes come back from tokens' bash -c "'$run' tokenize -m '$tmp/v.gguf' -f '$tmp/bytes' --ids | tr ' ' , |
    xargs -I{} '$run' detokenize -m '$tmp/v.gguf' --tokens {} >'$tmp/again'; cmp '$tmp/bytes' '$tmp/again'"
says 0 'a short text gives a smaller vocabulary, with a warning' 'give [0-9]+ tokens' \
    "$train" tokenizer --text "$tmp/held-out" --vocab 60000 -o "$tmp/short.gguf"
says 2 'an unknown splitting rule' "unknown splitting rule 'x'" "$train" tokenizer --text "$tmp/a" --pre x -o "$tmp/x.gguf"

# ---- a run ----
shape=(--text "$tmp/text" --validation "$tmp/held-out" --tokenizer "$tmp/v.gguf" --layers 2 --width 128 --context 32)
steps=(--batch 512 --micro-batch 128 --steps 24 --warm-up 4 --rate 0.004 --rate-2 0.003 --save-every 3 --validate-every 12)
begin() { "$train" train -q "${shape[@]}" "${steps[@]}" "$@"; }
check 'a run' begin -t 1 -o "$tmp/one"
check 'it learns' member "$tmp/one/training.json" '1 / (d["losses"][-1]["loss"] < d["losses"][0]["loss"] - 0.5)'
for file in checkpoint.bntrain model.gguf training.json; do check "it leaves $file" test -s "$tmp/one/$file"; done
check 'the record names the model by its digest' equal "$(member "$tmp/one/training.json" 'd["result"]["model_sha256"]')" \
    "$(sha256sum <"$tmp/one/model.gguf" | cut -d ' ' -f 1)"
check 'and the text' equal "$(member "$tmp/one/training.json" 'd["data"][0]["sha256"]')" "$(sha256sum <"$tmp/text" | cut -d ' ' -f 1)"
check 'and the checkpoint' equal "$(member "$tmp/one/training.json" 'd["result"]["checkpoint_sha256"]')" \
    "$(head -c -32 "$tmp/one/checkpoint.bntrain" | sha256sum | cut -d ' ' -f 1)"
# Perplexity by the engine, within 0.5 %.
near() { python3 -c 'import sys; a, b = map(float, sys.argv[1:]); sys.exit(abs(a / b - 1) > 0.005)' "$@" || { echo "$@"; return 1; }; }
engine() { "$run" score -q -m "$1" -f "$tmp/held-out" --ctx 32 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["perplexity"])'; }
trained=$(member "$tmp/one/training.json" 'd["validations"][-1]["perplexity"]')
check 'bn-run finds the perplexity of the trainer' near "$(engine "$tmp/one/model.gguf")" "$trained"

# ---- the same bits ----
check 'three threads' begin -t 3 -o "$tmp/three"
check 'give the same checkpoint' cmp "$tmp/one/checkpoint.bntrain" "$tmp/three/checkpoint.bntrain"
check 'and model' cmp "$tmp/one/model.gguf" "$tmp/three/model.gguf"
check 'a run that stops after step 7' begin -t 2 --until 7 -o "$tmp/parts"
check 'has no model yet' test ! -e "$tmp/parts/model.gguf"
check 'continues' "$train" resume -q -t 1 --until 16 -o "$tmp/parts"
check 'and ends' "$train" resume -q -t 3 -o "$tmp/parts"
check 'with the same checkpoint' cmp "$tmp/one/checkpoint.bntrain" "$tmp/parts/checkpoint.bntrain"
file=(--steps 3 --type q2_0 --embedding q8_0 --name Foo --model-ctx 64)
check 'options of the model file' begin "${file[@]}" -o "$tmp/file"
check 'are kept when a run stops' begin "${file[@]}" --until 1 -o "$tmp/file1"
for i in 2 3 4; do cp -r "$tmp/file1" "$tmp/file$i"; done
check 'continues without them' "$train" resume -q -o "$tmp/file1"
check 'and has the same model' cmp "$tmp/file/model.gguf" "$tmp/file1/model.gguf"
check 'continues with one of them' "$train" resume -q --type i2_s -o "$tmp/file2"
"$train" export -q "$tmp/file" --embedding q8_0 --name Foo --model-ctx 64 -o "$tmp/f.gguf" >/dev/null
check 'which counts' cmp "$tmp/file2/model.gguf" "$tmp/f.gguf"
# edited FOLDER PYTHON: its checkpoint, whose document d was changed.
edited() { python3 - "$1/checkpoint.bntrain" "$2" <<'END'
import hashlib, json, struct, sys
data = bytearray(open(sys.argv[1], 'rb').read())
n = struct.unpack_from('<Q', data, 8)[0]
d = json.loads(data[40:40 + n])
exec(sys.argv[2])
text = json.dumps(d, separators=(',', ':')).encode().ljust(n)
assert len(text) == n
data[40:40 + n] = text
data[-32:] = hashlib.sha256(data[:-32]).digest()
open(sys.argv[1], 'wb').write(data)
END
}
edited "$tmp/file3" 'del d["model_file"]'
check 'an older checkpoint without these members' "$train" resume -q -o "$tmp/file3"
"$train" export -q "$tmp/file" -o "$tmp/f.gguf" >/dev/null
check 'gives the default model' cmp "$tmp/file3/model.gguf" "$tmp/f.gguf"
edited "$tmp/file4" 'd["model_file"]["type"] = "f16"'
says 9 'a checkpoint with an unknown type' 'unknown type' "$train" resume -o "$tmp/file4"
check 'another seed gives another one' bash -c "'$train' train -q ${shape[*]} ${steps[*]} --seed 43 -o '$tmp/seed' &&
    ! cmp -s '$tmp/one/model.gguf' '$tmp/seed/model.gguf'"
check 'the parts of a run are the beginning of the whole' python3 train/recipes/same-start.py "$tmp/one/training.json" "$tmp/parts/training.json"
sed '0,/"loss": [0-9]/s//&1/' "$tmp/one/training.json" >"$tmp/edited.json"
says 1 'another loss is not' 'step 1: ' python3 train/recipes/same-start.py "$tmp/edited.json" "$tmp/parts/training.json"
says 3 'runs with other settings are not compared' 'settings.seed: 43, recorded 42' \
    python3 train/recipes/same-start.py "$tmp/one/training.json" "$tmp/seed/training.json"
check 'muon' begin --optimiser muon -t 2 -o "$tmp/muon"
check 'gives the same checkpoint with one thread' bash -c "'$train' train -q ${shape[*]} ${steps[*]} --optimiser muon -t 1 --until 9 \
    -o '$tmp/muon1' && '$train' resume -q -o '$tmp/muon1' && cmp '$tmp/muon/checkpoint.bntrain' '$tmp/muon1/checkpoint.bntrain'"
# A shell starts background commands without SIGINT.
env --default-signal=INT "$train" train -q "${shape[@]}" "${steps[@]}" -o "$tmp/interrupted" --steps 100000 >"$tmp/log" 2>&1 &
wait_for test -e "$tmp/interrupted/checkpoint.bntrain"
kill -INT $! && wait $!
check 'an interruption ends the run by its signal' equal $? 130
status 0 'its checkpoint is good' "$train" export "$tmp/interrupted" -o "$tmp/interrupted.gguf"

# ---- kills ----
kills=${BN_KILLS:-8} killed=0 RANDOM=1
mkdir "$tmp/killed"
for ((i = 0; killed < kills && i < 20 * kills; i++)); do
    if [ -e "$tmp/killed/checkpoint.bntrain" ]; then
        "$train" resume -q -t $((1 + RANDOM % 2)) -o "$tmp/killed" >/dev/null 2>"$tmp/killed.log" &
    else
        begin --steps $((kills + 20)) --save-every 1 -o "$tmp/killed" >/dev/null 2>"$tmp/killed.log" &
    fi
    pid=$!
    sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
    if kill -KILL $pid 2>/dev/null; then killed=$((killed + 1)); fi
    wait $pid 2>/dev/null
    # After a kill there is no checkpoint or a good one.
    if [ -e "$tmp/killed/checkpoint.bntrain" ] && ! "$train" export -q "$tmp/killed" -o "$tmp/k.gguf" >/dev/null 2>"$tmp/killed.log"; then break; fi
done 2>/dev/null
check "$kills kills leave good checkpoints" equal "$killed" "$kills"
if [ -e "$tmp/killed/checkpoint.bntrain" ]; then
    check 'the killed run ends' "$train" resume -q -o "$tmp/killed"
else
    check 'the killed run ends' begin --steps $((kills + 20)) --save-every 1 -o "$tmp/killed"
fi
check 'an undisturbed one' begin --steps $((kills + 20)) --save-every 1 -o "$tmp/undisturbed"
check 'has the same checkpoint' cmp "$tmp/killed/checkpoint.bntrain" "$tmp/undisturbed/checkpoint.bntrain"

# ---- model files ----
wide() { "$train" train -q --text "$tmp/text" --validation "$tmp/held-out" --tokenizer "$tmp/v.gguf" --layers 1 --width 256 --ffn 256 --context 32 \
    "${steps[@]}" "$@"; }
check 'a run whose rows fill blocks of 256' wide -o "$tmp/wide"
trained=$(member "$tmp/wide/training.json" 'd["validations"][-1]["perplexity"]')
for type in i2_s tq2_0 tq1_0 q2_0 pq2_0 ptq1_0; do
    check "export to $type" "$train" export "$tmp/wide" --type $type -o "$tmp/$type.gguf"
    check "$type has the perplexity of the trainer" near "$(engine "$tmp/$type.gguf")" "$trained"
done
check 'bn-convert makes the same weights of i2_s' bash -c "'$out/bn-convert' -q '$tmp/i2_s.gguf' --to tq2_0 -o '$tmp/c.gguf' &&
    [ \$(\"$run\" logits -q -m '$tmp/c.gguf' --tokens 1,2,3 --digest) = \$(\"$run\" logits -q -m '$tmp/tq2_0.gguf' --tokens 1,2,3 --digest) ]"
logits() { "$run" logits -q -m "$1" --tokens 1,2,3 -o "$2"; }
check 'a temperature' "$train" export "$tmp/wide" --temperature 2 -o "$tmp/cool.gguf"
check 'divides the logits' bash -c "$(declare -f logits); run='$run'; logits '$tmp/i2_s.gguf' '$tmp/warm' && logits '$tmp/cool.gguf' '$tmp/cool' &&
    python3 -c 'import array, sys
warm, cool = (array.array(\"f\", open(name, \"rb\").read()) for name in sys.argv[1:])
assert len(warm) > 0 and list(warm) == [2 * x for x in cool]' '$tmp/warm' '$tmp/cool'"
check 'an embedding in q8_0' "$train" export "$tmp/wide" --embedding q8_0 -o "$tmp/q8.gguf"
check 'is smaller' bash -c "[ \$(stat -c %s '$tmp/q8.gguf') -lt \$(stat -c %s '$tmp/i2_s.gguf') ]"
check 'and has the perplexity of the trainer' near "$(engine "$tmp/q8.gguf")" "$trained"
check 'qwen3 with a scale for each 64 weights' wide --arch qwen3 --group 64 --type q2_0 -o "$tmp/qwen3"
check 'has the perplexity of the trainer' near "$(engine "$tmp/qwen3/model.gguf")" \
    "$(member "$tmp/qwen3/training.json" 'd["validations"][-1]["perplexity"]')"
says 9 'a type that cannot store such scales' 'cannot store a scale for each 64 weights' "$train" export "$tmp/qwen3" -o "$tmp/x.gguf"
says 9 'rows that do not fill blocks' 'do not fill the blocks of 256' "$train" export "$tmp/one" --type tq1_0 -o "$tmp/x.gguf"

# ---- what is refused ----
diverge() { "$train" train "${shape[@]}" "${steps[@]}" --rate 1e30 --clip 0 --warm-up 0 "$@"; }
says 1 'a run that diverges ends' 'not finite .* The last checkpoint is kept' diverge --save-every 1 -o "$tmp/nan"
check 'the checkpoint before it is kept' "$train" export -q "$tmp/nan" -o "$tmp/nan.gguf"
says 1 'when there is one' 'There is no checkpoint' diverge --save-every 24 -o "$tmp/nan2"
says 9 'a type that cannot store the weights' 'do not fill the blocks of 256' begin --type tq2_0 --save-every 1 -o "$tmp/early"
says 9 'or the scales of groups' 'cannot store a scale for each 64 weights' begin --group 64 --save-every 1 -o "$tmp/early"
check 'is refused before the first step' test ! -e "$tmp/early/checkpoint.bntrain"
says 2 'a file instead of a folder, of any name' 'is a folder, not a file' begin -o "$tmp/text"
says 2 'a folder with a run is not overwritten' 'has the checkpoint of a run' begin -o "$tmp/one"
says 2 'a file instead of a folder' 'model is DIR/model.gguf' begin -o "$tmp/x.gguf"
says 2 'a batch of broken windows' 'not whole' begin --batch 500 -o "$tmp/x"
says 2 'a width that no type stores' 'expected a multiple of 128' begin --width 192 -o "$tmp/x"
says 2 'no text' 'no text is given' "$train" train -o "$tmp/x"
says 2 'a text shorter than a window' 'too short' "$train" train --text "$tmp/held-out" --tokenizer "$tmp/v.gguf" --context 16384 --batch 16384 --micro-batch 16384 \
    --layers 1 --width 128 -o "$tmp/x"
says 3 'a text that does not exist' 'nothing-here' "$train" train --text "$tmp/nothing-here" -o "$tmp/x"
says 4 'a file that is not a checkpoint' 'not a checkpoint' "$train" export "$tmp/v.gguf" -o "$tmp/x.gguf"
cp "$tmp/one/checkpoint.bntrain" "$tmp/bad"
printf 'x' | dd of="$tmp/bad" bs=1 seek=100000 conv=notrunc 2>/dev/null
says 5 'a damaged checkpoint' 'damaged' "$train" export "$tmp/bad" -o "$tmp/x.gguf"
head -c 50000 "$tmp/one/checkpoint.bntrain" >"$tmp/bad"
says 4 'a short checkpoint' 'do not match its length' "$train" export "$tmp/bad" -o "$tmp/x.gguf"
mkdir "$tmp/changed"
cp "$tmp/parts/checkpoint.bntrain" "$tmp/changed/"
echo more >>"$tmp/held-out"
says 5 'a text that changed' 'held-out: the digest is' "$train" resume -o "$tmp/changed"
