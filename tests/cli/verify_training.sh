#!/usr/bin/env bash
# bn-verify-receipt with the record of a training run: each planted fault fails the rule that it is for, and the first steps
# are repeated with the same bits. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
unset BN_MODEL BN_THREADS SOURCE_DATE_EPOCH
train=$bin/bn-train verify=$bin/bn-verify-receipt
[ -x "$train" ] || { skip 'bn-train' 'it was not built: no OpenBLAS'; exit; }
head -c 30000 fixtures/validation.txt >"$tmp/text"
head -c 20000 fixtures/validation.txt | tail -c 9000 >"$tmp/late"
tail -c 4000 fixtures/validation.txt >"$tmp/held-out"
cd "$tmp" || exit 1
run=(--vocab 300 --layers 1 --width 128 --context 32 --batch 256 --micro-batch 64 --steps 12 --warm-up 3 --rate 0.0037 --rate-2 0.003
    --clip 0.9 --seed 7)
"$train" train -q --text text:2 --late-text late --late 0.5 --validation held-out "${run[@]}" --validate-every 4 \
    --embedding q8_0 --name 'A model' --model-ctx 64 -o run || exit 1

cp text late held-out run

# rule RULE STATUS ARGUMENTS...: the receipt is refused by this rule first
rule() {
    local want=$1 code=$2 out
    shift 2
    out=$("$verify" "$@" 2>&1)
    equal "$? $(sed -n 's/^FAIL  \([a-z-]*\).*/\1/p' <<<"$out" | head -1)" "$code $want" || { echo "$out"; return 1; }
}
# changed PYTHON: a copy of the run whose record was changed
changed() {
    rm -rf bad && cp -r run bad
    python3 -c 'import json, sys
d = json.load(open("run/training.json"))
exec(sys.argv[1])
json.dump(d, open("bad/training.json", "w"))' "$1"
}

says 0 'the record verifies' '^run/training.json: verified, level: consistency' "$verify" run/training.json -v
says 0 'model, checkpoint and texts are compared' 'pass  training-texts .* 3 of 3 texts' "$verify" run/training.json -v
says 0 'the first steps are repeated' 'pass  replay .* the first 3 steps gave the same bits' \
    "$verify" run/training.json --replay --replay-steps 3 -v
says 0 'which is a part of the run' 'verified, level: partial .* 3 of 12 steps repeated' "$verify" run/training.json --replay --replay-steps 3
says 0 'also in JSON' '"level": "partial"' "$verify" run/training.json --replay --replay-steps 3 --json
says 0 'with the number of steps' '"repeated_steps": 3' "$verify" run/training.json --replay --replay-steps 3 --json
says 0 'all of them are the level replay' 'level: replay .* 12 of 12 steps' "$verify" run/training.json --replay --replay-steps 12
says 0 'all steps, the late text included, on 2 threads' 'the first 12 steps' "$verify" run/training.json --replay --replay-steps 50 -t 2 -v
"$train" train -q --text text:2 "${run[@]}" --optimiser muon --arch qwen3 --group 64 --type q2_0 -o muon || exit 1
says 0 'steps of Muon are repeated' 'the first 3 steps gave the same bits' "$verify" muon/training.json --replay --replay-steps 3 --texts . -v
says 0 'all of them, with a type of the weights' 'level: replay' "$verify" muon/training.json --replay --replay-steps 12 --texts .
mkdir older && python3 -c 'import json
d = json.load(open("muon/training.json"))
del d["model_file"]
json.dump(d, open("older/training.json", "w"))'
says 0 'steps of an older record without it' 'the first 3 steps' "$verify" older/training.json -v --replay --replay-steps 3 --texts .
says 0 '--json names the form' '"form": "training"' "$verify" run/training.json --json
check 'nothing is left in the temporary folder' equal "$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'bn-repeat-*' -newer text | wc -l)" 0

changed 'd["losses"][1]["loss"] *= 1 + 1e-15'
check 'a loss that differs in its last bits fails the replay' rule replay 1 bad/training.json --replay
check 'and nothing else' rule '' 0 bad/training.json
changed 'd["settings"]["rate"] = 0.003'
check 'so does another learning rate' rule replay 1 bad/training.json --replay
changed 'd["losses"][5]["loss"] = None'
check 'a loss that is not finite' rule training-losses 1 bad/training.json
changed 'del d["losses"][5]'
check 'a step that is missing' rule training-losses 1 bad/training.json
changed 'd["losses"].pop()'
check 'a last step that is missing' rule training-losses 1 bad/training.json
changed 'd["result"]["tokens"] += 1'
check 'a number of tokens that steps do not give' rule training-steps 1 bad/training.json
changed 'd["result"]["complete"] = False'
check 'a contradiction about the end' rule training-steps 1 bad/training.json
changed 'd["validations"][-1]["bits_per_byte"] *= 0.999'
check 'bits per byte that do not follow from the loss' rule training-validations 1 bad/training.json
changed 'd["validations"][0]["perplexity"] += 0.01'
check 'a perplexity that does not' rule training-validations 1 bad/training.json
changed 'd["data"] = []'
check 'no texts' rule training-texts 5 bad/training.json
changed ''
printf 'x' | dd of=bad/model.gguf bs=1 seek=40000 conv=notrunc 2>/dev/null
check 'another model' rule training-model 5 bad/training.json
check 'unless it is named' rule '' 0 bad/training.json -m run/model.gguf
changed ''
printf 'x' | dd of=bad/checkpoint.bntrain bs=1 seek=40000 conv=notrunc 2>/dev/null
check 'another checkpoint' rule training-checkpoint 5 bad/training.json
changed ''
rm bad/model.gguf bad/checkpoint.bntrain
says 9 'files that are not at hand are skipped' 'skip  training-model .* not at hand' "$verify" bad/training.json -v
says 9 'and then nothing binds the record' 'PROVES NOTHING \(bound to no run\), level: none' "$verify" bad/training.json
check 'a policy refuses it' rule bound-to-run 1 bad/training.json --policy <(echo '{}')
says 0 'a replay binds it' 'verified, level: replay' "$verify" bad/training.json --policy <(echo '{"require": ["replay"]}') \
    --replay --replay-steps 12
check 'a policy can require them' rule training-model 1 bad/training.json --policy <(echo '{"require": ["training-model"]}')
check 'a policy can list models' rule model-allowed 1 run/training.json --policy \
    <(echo "{\"model_sha256\": [\"$(printf '%064d' 0)\"]}")
check 'a record is not a signed receipt' rule signature 5 run/training.json --policy <(echo '{"require_signature": true}')
cp run/training.json run/again.json
echo '{"schema": "bn.training/1"}' >run/short.json
says 1 'a batch may have records' '^3 receipts: 2 verified, 1 refused' "$verify" --batch run --replay --replay-steps 1
rm run/again.json run/short.json

# ---- what a record says is not believed ----

# A loss of a step that is not repeated.
changed 'for o in d["losses"][6:]: o["loss"] = 0.01'
says 0 'losses that no step showed are not covered by a replay of others' 'level: partial .* 4 of 12' "$verify" bad/training.json --replay
check 'a replay of all steps finds them' rule replay 1 bad/training.json --replay --replay-steps 12

# A model that these steps do not give; and validations that follow from invented losses.
changed ''
"$train" export run --embedding q8_0 --name Other -o bad/model.gguf >/dev/null
rm bad/checkpoint.bntrain
python3 -c 'import hashlib, json
d = json.load(open("bad/training.json"))
d["result"].update(model_sha256=hashlib.sha256(open("bad/model.gguf", "rb").read()).hexdigest(), checkpoint_sha256="0" * 64)
json.dump(d, open("bad/training.json", "w"))'
says 0 'another model is not covered by a replay of some steps' 'level: partial .* 4 of 12' "$verify" bad/training.json --replay
check 'a replay of all steps finds it' rule replay 1 bad/training.json --replay --replay-steps 12
changed 'import math
for o in d["validations"]: o["loss"] /= 2; o["bits_per_byte"] /= 2; o["perplexity"] = math.exp(o["loss"])'
says 0 'neither are validations' 'level: partial .* 4 of 12' "$verify" bad/training.json --replay
check 'which it finds too' rule replay 1 bad/training.json --replay --replay-steps 12
# To read this file 4000 times takes ten minutes at least.
truncate -s 256M large
changed 'import hashlib
d["data"] += 4000 * [dict(d["data"][0], path="large", bytes=2**28, sha256=hashlib.sha256(open("large", "rb").read()).hexdigest())]'
mv large bad/
says 0 'a text is read once, however often it is named' '4003 of 4003 texts' timeout 240 "$verify" bad/training.json -v

for path in /etc/passwd ../../../../../../etc/passwd ../outside "$tmp/outside" link; do
    echo 'a secret of 24 characters' >outside
    changed "d['data'][0]['path'] = '$path'"
    rm -f bad/passwd bad/outside
    ln -s /etc/passwd bad/link
    says 1 "a text at $path is not looked for" 'FAIL  replay .* not below the folder' "$verify" bad/training.json --replay
    lacks 'nothing is printed about it' "bytes|length|$(sha256sum /etc/passwd | cut -c 1-8)|$(sha256sum outside | cut -c 1-8)" \
        "$verify" -v bad/training.json
done
changed 'd["data"][0]["path"] = "passwd"'
check 'a folder of texts can be named' rule training-texts 5 bad/training.json --texts /etc
lacks 'and still no digest of theirs is printed' "$(sha256sum /etc/passwd | cut -c 1-8)" "$verify" -v bad/training.json --texts /etc
rm -f bad/model.gguf && ln -s /etc/passwd bad/model.gguf
lacks 'a link is not the model' "$(sha256sum /etc/passwd | cut -c 1-8)" "$verify" -v bad/training.json --texts /etc

while read -r name value; do
    changed "d['settings']['$name'] = $value"
    check "the setting $name is not $value" rule training-settings 1 bad/training.json --replay
done <<'END'
micro_batches 1000000
micro_batches 0
layers 513
width 1e6
heads 0
context 1048576
kv_heads -1
rate 1e31
steps "12"
late None
END

# Hundreds of seconds of work before the first step ends.
slow='s = d["settings"]; s["micro_batches"] = 65536; s["slices"] = 16; s["steps"] = 1
d["result"].update(step=1, tokens=65536 * 16 * s["windows_per_slice"] * s["context"]); d["losses"] = d["losses"][:1]
d["validations"] = [v for v in d["validations"] if v["step"] == 1] or [dict(d["validations"][0], step=1)]'
mkdir temp
export TMPDIR=$tmp/temp
running() { grep -qsa "$tmp/temp/[b]n-repeat" /proc/[0-9]*/cmdline; }
nothing_left() { equal "$(find temp -name 'bn-repeat-*')" '' && ! running; }
changed "$slow"
says 9 'a run that takes too long is undecided' 'undecided  replay .* time limit' "$verify" bad/training.json --replay --timeout 1s
check 'it is ended, and its folder removed' nothing_left
for end in TERM INT HUP; do
    env --default-signal=INT,HUP "$verify" bad/training.json --replay >out 2>&1 &
    pid=$!
    wait_for running
    kill -$end $pid
    wait $pid
    check "$end ends the verifier" equal $? $((128 + $(kill -l $end)))
    wait_for nothing_left
    check 'and the run and its folder' nothing_left
done
"$verify" --batch bad --replay >out 2>&1 &
pid=$!
wait_for running
kill -TERM $pid
wait $pid
check 'a batch ends likewise' equal $? 143
check 'and leaves nothing' nothing_left
unset TMPDIR
if sanitized address thread; then
    skip 'short memory' 'a sanitizer needs all address space'
else
    short_memory() { (ulimit -v 200000 && exec timeout 120 "$@"); }
    says 10 'memory that OpenBLAS would ask for for ever' 'not enough memory: OpenBLAS needs' short_memory \
        "$train" train -q --text text "${run[@]}" -o short
    says 10 'which is not a verdict on a record' 'UNDECIDED' short_memory "$verify" run/training.json --replay
fi

tr a b <run/text >other && mv other run/text
check 'a text that changed' rule training-texts 5 run/training.json
echo x >>run/text
check 'a text of another length' rule training-texts 5 run/training.json
rm run/text
check 'without a text nothing can be repeated' rule replay 1 run/training.json --replay
"$train" train -q --text late "${run[@]}" --rate 1e30 --clip 0 --warm-up 0 -o nan >out 2>&1
check 'the record of a run that diverged' rule training-steps 1 nan/training.json
rules=$("$verify" rules --training | awk '{print $1}')
missing=$(for r in $rules; do grep -qF "\`$r\`" "$OLDPWD/docs/reference/receipt.md" || echo "$r"; done)
check 'every rule is in docs/reference/receipt.md' equal "$missing" ''
