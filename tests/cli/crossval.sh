#!/usr/bin/env bash
# bn-crossval: agreement with the oracle on every fixture; planted faults, found and named; references that
# misbehave, which never count as agreeing; tokens, dumps, three-way comparison, JSON and exit codes. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
xval=$out/bn-crossval
model=fixtures/shakespeare-5m-i2_s.gguf
tiny=fixtures/tiny-bitnet-b1.58-i2_s-v320-42.gguf
ids=192,32,59,115,215,215,308,286,127,40,258,148,166,227
# shellcheck source=tests/tap.sh
. tests/tap.sh

# ---- agreement ----

for fixture in fixtures/*.gguf; do
    says 0 "agrees with the oracle: $(basename "$fixture" .gguf)" '^agree: 14 tokens, 1 reference$' \
        "$xval" ladder -q -m "$fixture" --tokens $ids --ref oracle --trace always
done
says 0 "agrees with the oracle on 48 tokens of text" '^agree: 48 tokens' \
    "$xval" ladder -q -f fixtures/validation.txt --positions 48 --ref oracle
says 0 "every limit is shown with its margin" '^first +cosine +worst +1 +>= 0\.998 +0\.002' \
    "$xval" ladder --tokens $ids --ref oracle
says 0 "what the reference cannot do is said" 'skip +tokens +the reference cannot tokenize' \
    "$xval" ladder -p 'To be' --ref oracle
says 0 "another process of this engine: tokens, too" 'pass +tokens +2 tokens, all equal' "$xval" ladder -p 'To be' --ref bn
says 0 "TEXT is -p TEXT" 'pass +tokens +2 tokens, all equal' "$xval" 'To be' --ref bn
says 0 "in other commands, too" 'pass +tokens +2 tokens, all equal' "$xval" tokens 'To be' --ref bn
says 2 "one text" 'both give a text' "$xval" logits 'To be' -p x --ref bn
says 2 "a text and tokens" 'cannot be combined with a text' "$xval" x --tokens 1,2 --ref bn
says 2 "a misspelt command is not a text" 'did you mean bench.*needs -p' "$xval" bnch --ref bn
says 0 "another instruction set, threads and batch: to the bit" 'pass +trace +[0-9]+ records .* ([0-9]+) records equal to the bit' \
    "$xval" trace --exact -p 'To be, or not to be' --ref 'bn --isa ref --threads 1 --batch 3'
says 1 "to the bit is more than near" 'is the first whose bits differ' "$xval" trace --exact -p 'To be' --ref oracle

says 0 "the same weights in another format" '^agree: 14 tokens, 1 reference$' \
    "$xval" ladder -q -m "$tiny" --tokens $ids --ref oracle --ref-model fixtures/tiny-bitnet-b1.58-tq2_0-v320-42.gguf
says 1 "other weights are no other format" 'has a vocabulary of 512, this engine of 320' \
    "$xval" ladder -q -m "$tiny" --tokens $ids --ref oracle --ref-model fixtures/nano-bitnet-b1.58-i2_s-42.gguf

# ---- planted faults: each is found, and attributed to its operation ----

# faults MODEL NAME=OPERATION...: the ladder fails, and its last line names the operation: "q" of layer 0, "q@3" of layer 3,
# "logits@" outside the layers
faults() {
    local model=$1 fault wanted
    shift
    for fault; do
        wanted=${fault#*=} fault=${fault%%=*}
        case $wanted in
        *@) wanted="${wanted%@} outside the layers" ;;
        *@*) wanted="${wanted%@*} of layer ${wanted#*@}" ;;
        *) wanted="$wanted of layer 0" ;;
        esac
        says 1 "fault $fault is found in $wanted" \
            "^oracle --fault $fault: DIFFERS from rung [a-z]+ on; $wanted is the first out of tolerance" \
            "$xval" ladder -q -m "$model" --tokens $ids --ref "oracle --fault $fault"
    done
}
# (those of the trained model are in crossval_sweep.sh)
faults $tiny silu=ffn_act rope-norm=q_rope no-sub-norm=attn_o head-map=attn_out code-map=q scale=q block-64=q \
    position=q_rope rope-base=q_rope epsilon=attn_norm swap-k=k swap-ffn=gate no-residual=attn_res sees-next=attn_out \
    no-sqrt=attn_out head-q8=logits@ embd-scale=embd@ no-bos=embd@
faults fixtures/nano-qwen3-q2_0-v331-yarn-tied-42.gguf no-yarn=q_rope no-magnitude=q_rope no-head-norm=q_rope \
    width-64=attn_out neighbour=embd@
faults fixtures/pair-gemma3-q2_0-v331-w8-p2-42.gguf no-embd-scale=embd@ window=attn_out no-window=attn_out \
    all-local=q_rope@1 swap-base=q_rope no-head-norm=q_rope no-post-norm=attn_res norm-plus-one=attn_norm silu=ffn_act
faults fixtures/nano-minicpm-q2_0-v331-longrope-tied-42.gguf no-embd-scale=embd@ no-depth-scale=attn_o \
    logit-scale=output_norm@ rope-norm=q_rope long-factors=q_rope no-factors=q_rope
for m in fixtures/nano-qwen3-i2_s-v331-embedding-42.gguf fixtures/nano-gemma3-i2_s-v331-embedding-42.gguf; do
    faults $m no-input-norm=q one-input-norm=attn_k_norm_in
done
faults fixtures/nano-qwen3-ptq1_0-v331-hadamard64-tied-42.gguf no-hadamard=embd@ no-inverse=embd@ no-signs=embd@ \
    signs-after=q head-unrotated=logits@
faults fixtures/quad-qwen35-ptq1_0-v331-hadamard64-42.gguf grouped-heads=attn_out late-update=attn_out no-key-root=attn_out \
    unordered-out=attn_out gate-halves=q_rope@3 rope-all=q_rope@3 signs-after=mix
faults fixtures/duo-maple-tq2_0-v331-42.gguf router-input=router unnormed-experts=expert_weights swap-weights=expert_weights \
    first-expert=expert_weights no-limit=ffn_act no-window=attn_out rope-global=q_rope@1
says 1 "a norm of inputs that was left out is named" 'its input attn_q_norm_in was not sent' \
    "$xval" ladder -q -m fixtures/nano-qwen3-i2_s-v331-embedding-42.gguf --tokens $ids --ref 'oracle --fault no-input-norm'
says 1 "a norm that was left out is named" 'its input attn_sub_norm was not sent' \
    "$xval" ladder -q --tokens $ids --ref 'oracle --fault no-sub-norm'
says 1 "the layers are listed" '^0 .* ffn_act$' "$xval" logits --tokens $ids --ref 'oracle --fault silu'
says 1 "the decode rung sees a fault, too" 'FAIL +decode +step [0-9]+: token' \
    "$xval" ladder --tokens $ids --ref 'oracle --fault silu' --trace never
says 1 "the likelihood rung sees a fault, too" 'FAIL +likelihood' "$xval" ladder -q --tokens $ids --ref 'oracle --fault silu'
says 1 "the mask rung sees a fault, too" 'FAIL +mask +[0-9]+ of [0-9]+ limits broken: nrmse' \
    "$xval" ladder --tokens $ids --ref 'oracle --fault sees-next' --trace never
says 1 "and guesses the cause" 'likely the attention of the reference sees later tokens: tokens from 7 on' \
    "$xval" ladder --tokens $ids --ref 'oracle --fault sees-next' --trace never
says 1 "a fault elsewhere leaves the mask alone" 'pass +mask +7 rows' "$xval" ladder --tokens $ids --ref 'oracle --fault silu'
says 0 "this engine's mask holds to the bit" 'pass +mask +7 rows, [0-9]+ logits, 7 rows equal to the bit' \
    "$xval" ladder --tokens $ids --ref 'bn --isa ref --batch 5'
says 0 "one token has no later ones" 'skip +mask +a prompt of one token' "$xval" ladder --tokens 5 --ref oracle
says 1 "a trace alone sees a fault" 'swap-k: DIFFERS; k of layer 0' "$xval" trace -q --tokens $ids --ref 'oracle --fault swap-k'

# ---- three-way ----

says 1 "the odd one out is a reference" '^odd one out: oracle --fault silu$' \
    "$xval" logits -q --tokens $ids --ref oracle --ref 'oracle --fault silu'
says 1 "the odd one out is this engine" '^odd one out: this engine$' \
    "$xval" logits -q --tokens $ids --ref 'oracle --fault silu' --ref 'oracle --fault silu --float-quant'
says 1 "without a majority no engine is the odd one out" '^odd one out: none' \
    "$xval" logits -q --tokens $ids --ref 'oracle --fault silu' --ref 'oracle --fault code-map'
lacks "three that agree have no odd one" 'odd one out' "$xval" logits -q --tokens $ids --ref oracle --ref bn

# ---- tokens ----


# canned FILE: a command whose answers are the lines of the file
canned() { echo "exec 3<'$1'; while IFS= read -r answer <&3 && IFS= read -r request; do echo \"\$answer\"; done"; }
hello='{"id":1,"ok":true,"protocol":"bn.reference/1","name":"canned","version":"1","commit":null,"capabilities":["tokenize","logits","trace"]}'
tokens() { # IDS VOCAB: the answers of a reference that finds these tokens
    printf '%s\n' "$hello" "{\"id\":2,\"ok\":true,\"n_vocab\":$2,\"n_ctx\":512,\"arch\":null}" \
        "{\"id\":3,\"ok\":true,\"tokens\":[$1]}" '{"id":4,"ok":true}' >"$tmp/tokens"
}
# told IDS STATUS TITLE PATTERN: what is said of a reference that finds these tokens in "To be"
told() {
    tokens "$1" 320
    says "$2" "$3" "$4" "$xval" tokens -m $tiny -p 'To be' --ref "$(canned "$tmp/tokens")"
}
told 314,51,78,296,68 0 "equal tokens agree" '^agree'
told 51,78,296,68 1 "a missing BOS is guessed" 'likely BOS: this engine puts'
told 51,78,296,68 1 "both sequences are shown" 'here +\[314\] 51 78'
told 314,51,7,296,68 1 "the first difference is marked" 'there +314 51 \[7\] 296 68'
told 314,51,7,296,68 1 "another pre-tokenizer is guessed" 'likely another pre-tokenizer'
told 314,51,78,296,68,315 1 "an end-of-sequence token is guessed" 'likely one side goes on'
says 1 "ids in place of a text compare no tokens: no data is a failure" 'NOTHING was compared' \
    "$xval" tokens --tokens 1,2 --ref bn
says 1 "a reference that cannot tokenize: no data is a failure" 'NOTHING was compared' "$xval" tokens -p 'To be' --ref oracle

# ---- references that misbehave ----

# broken TITLE PATTERN COMMAND: a failure of the reference, status 1, never agreement; $limit is the time for an answer, in seconds
limit=600
broken() {
    local text got
    text=$("$xval" ladder -q -m $model --tokens 1,2,3 --timeout "$limit" --ref "$3" 2>&1 </dev/null); got=$?
    if [ $got -eq 1 ] && grep -qE "$2" <<<"$text" && ! grep -q '^agree' <<<"$text"; then ok "$1"; else not_ok "$1" "status $got: $text"; fi
}
open="read x; echo '$hello'; read x; echo '{\"id\":2,\"ok\":true,\"n_vocab\":2048,\"n_ctx\":512}'"
row="read x; echo '{\"id\":3,\"ok\":true,\"rows\":1,\"cols\":2048,\"floats\":2048}'"
broken "a reference that ends at once" 'ended with status 5 without an answer' 'exit 5'
broken "its last words are shown" 'its last words: .*cannot load' 'echo cannot load the library >&2; exit 1'
limit=2 broken "a reference that hangs" 'did not answer within the time limit' 'exec sleep 1000'
broken "a reference that prints garbage" 'not a JSON object: Segmentation fault' 'echo Segmentation fault; cat >/dev/null'
broken "a reference of another vocabulary" 'has a vocabulary of 32000, this engine of 2048' "${open/2048/32000}; cat >/dev/null"
broken "numbers that are cut off" 'after 4000 of 8192 bytes of numbers' "$open; $row; head -c 4000 /dev/zero"
limit=5 broken "numbers that stop" 'did not answer within the time limit' "$open; $row; head -c 4000 /dev/zero; exec sleep 1000"
broken "logits that are not numbers" 'sent a logit that is not finite, 0 at position 0' \
    "$open; $row; head -c 8192 /dev/zero | tr '\\0' '\\377'; cat >/dev/null"
broken "a reference that is killed" 'ended by signal 9' "$open; kill -9 \$\$"
broken "an empty trace" 'sent an empty trace' "$open; $row; head -c 8192 /dev/zero; read x; echo '{\"id\":4,\"ok\":true,\"rows\":18,\"cols\":2048,\"floats\":36864}'; head -c 147456 /dev/zero; read x; echo '{\"id\":5,\"ok\":true,\"records\":[],\"floats\":0}'; sleep 100"
says 1 "one that fails next to one that agrees" '^sh -c .exit 1.: FAILED, no agreement: ended with status 1 without an answer$' \
    "$xval" ladder -q --tokens 1,2,3 --ref oracle --ref "sh -c 'exit 1'"
lacks "then there is no agreement" '^agree' "$xval" ladder -q --tokens 1,2,3 --ref oracle --ref 'exit 1'
misspelt=$("$xval" ladder -q --tokens 1,2,3 --ref oracel 2>&1)
check "a misspelt name is one line with a suggestion" equal "$misspelt" \
    'oracel: FAILED, no agreement: not found: neither a reference that was set up nor a program; did you mean oracle?'
status 3 "and a status of its own" "$xval" ladder -q --tokens 1,2,3 --ref oracel
mkdir "$tmp/copied"
cp "$xval" "$tmp/copied"
says 3 "the last line says that the oracle is missing" '^oracle: FAILED, no agreement: bn-reference: not found next to bn-crossval' \
    bash -c "'$tmp/copied/bn-crossval' -q --tokens 1,2,3 --ref oracle | tail -n 1; exit \${PIPESTATUS[0]}"
lacks "the help has at most 80 columns" '^.{81}' bash -c "for c in '' ladder sweep bench setup; do '$xval' \$c --help; done"
says 0 "one token is not 1 tokens" '^agree: 1 token, 1 reference$' "$xval" logits -q --tokens 1 --ref bn

# ---- processes that references leave ----

gone() { local pid; for pid; do ! kill -0 "$pid" 2>/dev/null || return 1; done; }
mkfifo "$tmp/left"
says 1 "a reference that leaves processes in sessions of their own" 'ended with status 1' "$xval" ladder -q --tokens 1,2,3 --ref \
    "setsid sh -c 'setsid sleep 1000 & echo \$\$ \$! >$tmp/pids; echo >$tmp/left; wait' >/dev/null 2>&1 & read -r _ <$tmp/left; exit 1"
read -r first second <"$tmp/pids"
check "they end with the program" gone "$first" "$second"
kill -KILL "$first" "$second" 2>/dev/null
says 1 "a child that was there before the program" 'ended with status 1' sh -c "sleep 1000 & echo \$! >$tmp/pids; exec \"\$@\"" sh \
    "$xval" ladder -q --tokens 1,2,3 --ref 'exit 1'
read -r first <"$tmp/pids"
check "is left alone" kill -0 "$first"
kill -KILL "$first"

# ---- exit codes ----

says 2 "no reference" 'no reference is given' "$xval" ladder --tokens 1,2
says 2 "no prompt" 'no text is given' "$xval" ladder --ref oracle
says 2 "a text and ids" 'cannot be combined with a text' "$xval" ladder --ref oracle --tokens 1 -p x
says 3 "no such model" 'none.gguf' "$xval" ladder -m "$tmp/none.gguf" --tokens 1,2 --ref oracle
says 3 "no such reference" 'could not be started' "$xval" ladder --tokens 1,2 --ref /no/such/reference
says 3 "a reference that finds no model" 'refused: no' "$xval" ladder --tokens 1,2 \
    --ref "read x; echo '$hello'; read x; echo '{\"id\":2,\"ok\":false,\"error\":\"no\",\"kind\":\"not_found\"}'; cat"
says 9 "a reference that cannot read the model" 'refused: I2_S' "$xval" ladder --tokens 1,2 \
    --ref "read x; echo '$hello'; read x; echo '{\"id\":2,\"ok\":false,\"error\":\"I2_S\",\"kind\":\"unsupported\"}'; cat"
says 4 "thresholds that are misspelt" 'unknown measure "cosin"' "$xval" ladder --tokens 1,2 --ref oracle \
    --thresholds <(sed 's/"cosine"/"cosin"/' crossval/thresholds.json)
sed 's/"cosine": {"min": 0.998/"cosine": {"min": 1.1/' crossval/thresholds.json >"$tmp/strict.json"
says 1 "thresholds that no reference meets" 'BROKEN' "$xval" ladder --tokens 1,2 --ref oracle --thresholds "$tmp/strict.json"

# ---- dumps ----

dump() { echo "crossval/bridges/dump/bridge.py '$1' 2048"; }
"$out/bn-run" logits -m $model --tokens $ids --all -o "$tmp/own.f32" --trace "$tmp/own"
says 0 "a dump of logits agrees" '^agree: 14 tokens' "$xval" ladder -q -m $model --tokens $ids --ref "$(dump "$tmp/own.f32")"
says 0 "its prompt cannot be changed" 'skip +mask +refused: the recorded numbers are of one prompt' \
    "$xval" ladder -m $model --tokens $ids --ref "$(dump "$tmp/own.f32")"
says 0 "a dump of a trace agrees to the bit" '^agree: 14 tokens' "$xval" trace -q -m $model --exact --tokens $ids --ref "$(dump "$tmp/own")"
says 1 "a dump of other tokens differs" 'DIFFERS' "$xval" logits -q -m $model --tokens 1,2,3 --ref "$(dump "$tmp/own.f32")"
says 1 "a dump that is not there" 'its last words: .*No such file' "$xval" logits -q -m $model --tokens 1,2,3 --ref "$(dump "$tmp/none")"
"$out/crossval/bn-reference" trace -m $model --tokens $ids --fault rope-norm -o "$tmp/norm"
says 1 "a fault in a dump is found" 'q_rope of layer 0 is the first' "$xval" logits -q -m $model --tokens $ids --ref "$(dump "$tmp/norm")"
printf '\000\000\200\077' | dd of="$tmp/own/L3.up.f32" bs=4 seek=5 conv=notrunc status=none
says 1 "one wrong number in a dump is found to the bit" 'up of layer 3 is the first' "$xval" trace -q -m $model --exact --tokens $ids --ref "$(dump "$tmp/own")"

# ---- JSON ----

"$xval" ladder --json --tokens $ids --ref oracle --ref 'oracle --fault silu' >"$tmp/r.json"
says 0 "JSON has the parity block" '"status": "diverged"' cat "$tmp/r.json"
says 0 "JSON names the operation" '"op": "ffn_act"' cat "$tmp/r.json"
says 0 "parity is ok when all agree" '"status": "ok"' "$xval" ladder --json --tokens $ids --ref oracle

# ---- receipts ----

"$out/bn-run" -q -m $model -p 'ROMEO:' -n 4 --receipt "$tmp/receipt.json" >/dev/null
says 0 "a receipt takes the result" '^agree' "$xval" ladder -q -m $model -p 'ROMEO:' --ref oracle --receipt "$tmp/receipt.json"
says 0 "and is verified with it" 'pass +parity +ok' "$out/bn-verify-receipt" -v "$tmp/receipt.json"
cp "$tmp/receipt.json" "$tmp/before.json"
says 1 "the result of another prompt is not put into it" 'about another prompt than the one compared: the ids have sha256 [0-9a-f]+\.\.\. and' \
    "$xval" ladder -q -m $model --tokens 845 --ref oracle --receipt "$tmp/receipt.json"
says 1 "the hint names the tokens of its prompt" '^hint: --tokens with the ids of its request.prompt_ids$' "$xval" ladder -q -m $model --tokens 25,845 --ref oracle --receipt "$tmp/receipt.json"
check "and it is as it was" cmp "$tmp/before.json" "$tmp/receipt.json"
cp "$tmp/receipt.json" "$tmp/bad.json"
says 1 "a receipt with a result that differs" 'DIFFERS' "$xval" ladder -q -m $model -p 'ROMEO:' --ref 'oracle --fault silu' --receipt "$tmp/bad.json"
says 1 "is refused" 'FAIL +parity +parity is "diverged"' "$out/bn-verify-receipt" "$tmp/bad.json"
sed 's/"tokens_generated": 4/"tokens_generated": 5/' "$tmp/receipt.json" >"$tmp/forged.json"
says 5 "a receipt that was edited is not sealed again" 'its own digest does not hold' \
    "$xval" ladder -q -m $model --tokens $ids --ref oracle --receipt "$tmp/forged.json"
says 1 "a receipt of another model" 'about another model' "$xval" ladder -q -m $tiny --tokens $ids --ref oracle --receipt "$tmp/receipt.json"

