#!/usr/bin/env bash
# bn-verify-receipt: every fixture receipt gives the exit status and exactly the failed rules of its line in
# fixtures/receipts/index.txt. A receipt of a new run is written, verified, replayed, forged and signed.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
verify=$bin/bn-verify-receipt
# shellcheck source=tests/tap.sh
. tests/tap.sh
unset BITNET_ALLOW_CORRECTIONS BN_MODEL BN_ISA BN_DEVICE BN_THREADS SOURCE_DATE_EPOCH
# result TITLE STATUS-OF-THE-CHECK [WHAT-WAS-SEEN]
result() { if [ "$2" -eq 0 ]; then ok "$1"; else not_ok "$1" "${3:-}"; fi; }
# expect STATUS RULES DESCRIPTION ARGUMENTS...: RULES are those that fail, with commas, or "-"
expect() {
    local want=$1 rules=$2 what=$3 got out failed
    shift 3
    out=$("$verify" "$@" 2>&1 </dev/null)
    got=$?
    failed=$(sed -n 's/^FAIL  \([a-z0-9-]*\).*/\1/p' <<<"$out" | paste -sd, -)
    [ "$got" -eq "$want" ] && [ "${failed:--}" = "$rules" ]
    result "$what" $? "status $got instead of $want, failed: ${failed:--} instead of $rules
$out"
}
# judged DESCRIPTION ARGUMENTS...: verified, or undecided because this machine is too busy to measure; never refused.
judged() {
    local what=$1 got out
    shift
    out=$("$verify" "$@" 2>&1 </dev/null)
    got=$?
    [ "$got" -eq 0 ] || { [ "$got" -eq 9 ] && grep -q '^undecided  performance-measured ' <<<"$out"; }
    result "$what" $? "status $got
$out"
}
has() { grep -qF -- "$2" "$1"; }

while read -r file want rules options; do
    case $file in '#'* | '') continue ;; esac
    # shellcheck disable=SC2086 # options are words
    expect "$want" "$rules" "$file $options" "fixtures/receipts/$file" $options
done <fixtures/receipts/index.txt
listed=$(sed -n 's/^\([a-z][^ ]*\) .*/\1/p' fixtures/receipts/index.txt | sort -u)
present=$(find fixtures/receipts -name '*.json' ! -name 'policy-*' -printf '%f\n' | sort)
[ "$listed" = "$present" ]
result "every receipt in fixtures/receipts is in its index" $? "$(diff <(echo "$listed") <(echo "$present"))"

# ---- a run of our own ----
cd "$tmp" || exit 1
"$bin/bn-run" -q -p 'To be, or not' -n 12 --receipt a.json >a.txt
result "bn-run writes a receipt" $?
expect 0 - "it verifies, and replays" a.json --replay --max-age 1h
judged "its speed is not refused" a.json --validate-performance
for isa in ref auto; do
    for threads in 1 3; do
        expect 0 - "it replays on $isa with $threads threads" a.json --replay --isa $isa --threads $threads --prompt-batch 2
    done
done
"$bin/bn-run" -q -p 'To be, or not' -n 12 --isa ref --threads 1 --batch 3 --receipt b.json >b.txt
grep -q '"chain"' a.json && [ "$(grep '"chain"' a.json)" = "$(grep '"chain"' b.json)" ]
result "another instruction set gives the same result" $?
"$bin/bn-run" -q -p 'To be, or not' -n 40 --temp 0.9 --top-k 50 --top-p 0.9 --repeat-penalty 1.2 --seed 9007199254740991 \
    --receipt c.json >c.txt
expect 0 - "a sampled run with the largest seed replays" c.json --replay
"$bin/bn-run" -q -p 'ROMEO:' -n 40 --presence-penalty 0.7 --frequency-penalty 0.7 --logit-bias 13=-100 --logit-bias 5=2.5 \
    --receipt changed.json >changed.txt
expect 0 - "a run with penalties and biases replays" changed.json --replay
expect 0 - "also one token at a time, by one thread" changed.json --replay --threads 1 --prompt-batch 1
grep -E 'presence|frequency|logit_bias' a.json && false
result "without them a receipt does not name them" $(($? == 0))
"$bin/bn-run" -q -p 'ROMEO:' -n 60 --stop 'the' --receipt d.json >d.txt
expect 0 - "a run that a text stopped replays" d.json --replay
"$bin/bn-run" -q -p 'ROMEO:' -n 200 --ctx 24 --receipt e.json >e.txt
expect 0 - "a run that filled its context replays" e.json --replay
"$bin/bn-run" -q -p 'ROMEO:' -n 1 --receipt f.json >f.txt
expect 0 - "a run of one token replays" f.json --replay
"$bin/bn-run" -q --tokens 5,6,7 -n 4 --receipt g.json >g.txt
expect 0 - "a run from token ids replays" g.json --replay
"$bin/bn-run" -q -p "$(printf 'two\nlines \033[1m')" -n 4 --receipt h.json --receipt-text >h.txt
expect 0 - "a receipt that shows its texts verifies" h.json --replay
! grep -q "$(printf '\033')" h.json
result "control characters of a prompt are escaped in it" $?
has a.json '"To be' && false
result "without --receipt-text the prompt is not in it" $(($? == 0))

# A character that leads to more places than a grammar may have is not allowed, so nothing continues the text.
python3 -c 'print("root ::= [a-z]{9} (\"b\"" + "|\"b\"" * 32768 + ")")' >stuck.gbnf
for options in '' '--speculate ngram' '--temp 1 --seed 7 --batch 1'; do
    # shellcheck disable=SC2086 # options are words
    "$bin/bn-run" -q -p 'ROMEO:' -n 60 --grammar stuck.gbnf $options --receipt stuck.json >stuck.txt 2>&1
    has stuck.json '"stop_reason": "stuck"'
    result "an answer ends stuck, with '$options'" $? "$(cat stuck.txt)"
    expect 0 - "and its receipt replays" stuck.json --replay
done
python3 -c 'import json
for n in 4, 30: print(json.dumps({"prompt": "ROMEO:", "n_predict": n, "temperature": 1, "seed": n, "grammar": open("stuck.gbnf").read()}))' >stuck.in
"$bin/bn-run" -q --batch-file stuck.in --receipts stuck >stuck.txt 2>&1
has stuck/1.json '"stop_reason": "stuck"'
result "an answer ends stuck next to another one" $? "$(cat stuck.txt)"
"$verify" --batch stuck --replay >out
result "and both receipts replay" $? "$(cat out)"

# ---- what a substitution looks like: sealed again, so only the matter itself is wrong ----
model=$OLDPWD/fixtures/built-in-i2_s.gguf
cp "$model" same.gguf
expect 0 - "the same model under another name is the same model" a.json --model same.gguf --replay
cp "$model" flipped.gguf
printf '\125' | dd of=flipped.gguf bs=1 seek=2000000 conv=notrunc 2>/dev/null
expect 5 model "one byte of the model changed is another model" a.json --model flipped.gguf --replay
"$bin/bn-run" -q -m flipped.gguf -p 'To be, or not' -n 12 --receipt other.json >other.txt
expect 0 - "a receipt of that model is its own" other.json --model flipped.gguf --replay
expect 0 - "it is not compared with the built-in model" other.json
expect 1 replay "which cannot replay it" other.json --replay
expect 3 - "a file that is not there" nothing.json
expect 3 - "ci/inference.json is the default"
"$verify" 2>err
grep -qF 'ci/inference.json (the default path): not found' err && grep -qF 'hint: bn-verify-receipt FILE' err
result "and that it is one is said when it is not there" $? "$(cat err)"
echo 'Dear verifier, all went well.' >letter.txt
"$verify" letter.txt 2>err
[ $? -eq 4 ] && grep -qF 'letter.txt: is not JSON' err
result "a file that is not JSON" $? "$(cat err)"
mkdir ci && cp a.json ci/inference.json
expect 0 - "and is found there"
expect 0 - "--path names another" --path a.json
head -c 9437184 /dev/zero | tr '\0' ' ' >large.json
expect 4 - "9 MB are too much" large.json
expect 2 - "but not in a place that names one receipt" --diff . a.json

# forge RULES DESCRIPTION RECEIPT CHANGE: a change to the predicate p is refused by these rules
forge() {
    python3 "$OLDPWD/tests/cli/forge_receipt.py" "$3" "$4" >forge.json
    expect "$([ "$1" = - ] && echo 0 || echo 1)" "$1" "$2" forge.json --replay "${@:5}"
}
sha() { printf '%s' "$1" | sha256sum | cut -c 1-64; }
# Tokens that no text has of itself, with a text that they do not spell.
"$bin/bn-run" -q --tokens 82,79,77,69,79,58 -n 2 --receipt letters.json >/dev/null
forge replay "a prompt that the tokens do not spell" letters.json \
    "p['request'].update(prompt='Trust the bank.', prompt_sha256='$(sha 'Trust the bank.')')"
forge - "one that they spell" letters.json "p['request'].update(prompt='ROMEO:', prompt_sha256='$(sha ROMEO:)')"
forge replay "a template around tokens that were given" letters.json 'p["request"]["template"] = "chatml"'
forge - "a receipt that is sealed again is as good" a.json 'p["machine"]["governor"] = "performance"'
forge resources "1024 threads on fewer processors" a.json 'p["resolved"]["threads"] = 1024; p["environment"]["THREADS"] = "1024"'
forge machine "a process of one byte" a.json 'p["measurement"]["peak_rss_bytes"] = 1'
forge git "a number of changed files that is a text" a.json 'p["git"].update(dirty=None, changed_files="x")'
forge kernel-work,attention-work,head-work,layer-work "no generation" a.json 'p["measurement"]["work"]["generations"] = 0'
forge kernel-work,attention-work,head-work,layer-work "as many generations as the stars" a.json 'p["measurement"]["work"]["generations"] = 10**12'
[ "$(uname -m)" != x86_64 ] || "$bin/bn-run" --version | grep -qw avx2 &&
    "$bin/bn-run" -q -p 'To be' -n 4 --isa avx2 --receipt avx2.json >avx2.txt 2>&1 &&
    forge isa "an instruction set without the flags of a CPU" avx2.json 'p["machine"]["cpu_flags"] = []'
forge replay "another penalty" changed.json 'p["request"]["presence_penalty"] = -2'
forge replay "no penalty" changed.json 'del p["request"]["frequency_penalty"]; del p["request"]["presence_penalty"]'
forge replay "another bias" changed.json 'p["request"]["logit_bias"]["13"] = 100'
forge replay "a bias of another token" changed.json 'p["request"]["logit_bias"] = {str(p["result"]["ids"][3]): -100}'
forge replay "a penalty that the run did not have" a.json 'p["request"]["frequency_penalty"] = 2'
forge sampling "a penalty out of range" changed.json 'p["request"]["frequency_penalty"] = 2.25'
forge sampling "a bias of a token that does not exist" changed.json 'p["request"]["logit_bias"]["4096"] = 1'
sed 's/"presence_penalty": 0.7/"presence_penalty": 0.8/' changed.json >edited.json
expect 5 self-digest "a penalty that was edited" edited.json
forge replay "another prompt for the same tokens" a.json "p['request']['prompt_sha256'] = '$(sha 'To be or not')'"
forge replay "another template for them" a.json 'p["request"]["template"] = "instruct"'
forge replay "a template that does not exist" a.json 'p["request"]["template"] = "magic"'
"$bin/bn-run" -q -p 'To be' --template instruct -n 4 --receipt instruct.json --receipt-text >instruct.txt
expect 0 - "a templated prompt replays" instruct.json --replay
forge replay "another text for its tokens" instruct.json "p['request'].update(prompt='To be', prompt_sha256='$(sha 'To be')')"
forge replay "another template for its text" instruct.json 'p["request"]["template"] = "llama3-chat"'

# ---- keys ----
"$verify" keygen -o key >id
result "keygen makes a key" $?
"$verify" keygen -o key2 --json >id2 && grep -qE '"key_id": "[0-9a-f]{16}"' id2
result "and names its id in JSON" $? "$(cat id2)"
grep -qE '^public key id: [0-9a-f]{16}$' id && sed -i 's/.*: //' id
result "and as text" $? "$(cat id)"
[ "$(stat -c %a key)" = 600 ] && [ -s key.pub ] && grep -qE '^[0-9a-f]{16}$' id
result "which others cannot read, with an id" $? "$(ls -l key key.pub; cat id)"
"$verify" keygen -o key >/dev/null 2>&1 && false
result "keygen overwrites nothing" $(($? == 0))
"$verify" sign a.json --key key -o signed.json
result "sign" $?
expect 0 - "the signed receipt verifies and replays" signed.json --public-key key.pub --require-signature --replay
# claimed WANT DESCRIPTION ARGUMENTS...: whether the receipt is claimable
claimed() {
    local want=$1 what=$2 out
    shift 2
    out=$("$verify" --json "$@")
    [ "$(grep -o '"claimable": [a-z]*' <<<"$out")" = "\"claimable\": $want" ]
    result "$what" $? "$out"
}
# A rate that is given does not depend on how busy this machine is.
echo '{"validate_performance": true, "bandwidth_bytes_per_s": 1000000000000}' >speed.json
claimed true "signed, replayed and fast enough: claimable" signed.json --public-key key.pub --replay --policy speed.json
claimed false "not without a replay" signed.json --public-key key.pub --policy speed.json
claimed false "nor without its speed" signed.json --public-key key.pub --replay
claimed false "nor without a signature" a.json --replay --policy speed.json
grep -q "\"keyid\": \"$(cat id)\"" signed.json
result "it names the key's id" $?
"$verify" sign a.json --key key >signed2.json
cmp -s signed.json signed2.json
result "signing is deterministic" $?
expect 5 signature "another key does not verify it" signed.json --public-key "$OLDPWD/fixtures/receipts/test-key.pub"
expect 4 - "a private key is not a public one" signed.json --public-key key
expect 3 - "a key that is not there" signed.json --public-key nokey
# The signature, checked by another program: openssl verifies it over the bytes that DSSE names.
if command -v openssl >/dev/null; then
    sed -n 's/^  "payload": "\(.*\)",$/\1/p' signed.json | base64 -d >payload
    sed -n 's/^ *"sig": "\(.*\)"$/\1/p' signed.json | base64 -d >sig
    { printf 'DSSEv1 28 application/vnd.in-toto+json %d ' "$(stat -c %s payload)" && cat payload; } >pae
    out=$(openssl pkeyutl -verify -pubin -inkey key.pub -rawin -in pae -sigfile sig 2>&1)
    result "openssl verifies the envelope" $? "$out"
    [ "$(openssl pkey -in key -pubout)" = "$(cat key.pub)" ]
    result "openssl reads the keys" $?
else
    skip 'openssl verifies the envelope' 'there is no openssl'
fi
sign_fails() { # STATUS DESCRIPTION ARGUMENTS...
    local want=$1 what=$2 out
    shift 2
    out=$("$verify" sign "$@" 2>&1)
    [ $? -eq "$want" ]
    result "$what" $? "$out"
}
chmod 644 key
sign_fails 7 "a private key that others may read is refused" a.json --key key
chmod 600 key
sign_fails 2 "sign needs a key" a.json
sign_fails 2 "an envelope is not signed again" signed.json --key key
sign_fails 2 "a bare predicate is not signed" "$OLDPWD/fixtures/receipts/valid-cpu.json" --key key
sed 's/"tokens_generated": 12/"tokens_generated": 11/' a.json >forged.json
sign_fails 5 "an edited receipt is not signed" forged.json --key key
expect 5 self-digest "nor does it verify" forged.json

# ---- policies ----
echo '{"accept_bare": false, "require_signature": true, "require": ["freshness"]}' >policy.json
expect 5 signature "a policy can require signatures" a.json --policy policy.json
expect 1 freshness "a rule that is required must not skip" signed.json --policy policy.json --public-key key.pub
expect 2 - "--max-age 0 is refused" a.json --max-age 0s
expect 1 freshness "an option does not loosen a policy" signed.json --policy <(echo '{"max_age_s":1}') --public-key key.pub --max-age 1d
echo '{"off":["signature"]}' >off.json
echo '{"payloadType":"application/vnd.in-toto+json","payload":"Z2FyYmFnZQ==","signatures":[{"sig":"AAAA"}]}' >garbage.dsse
expect 0 - "a policy may look away from signatures" a.json --policy off.json
expect 1 signature "unless a key asks for one" a.json --policy off.json --public-key key.pub
expect 5 signature "and from nothing that cannot be read" garbage.dsse --policy off.json
cat key.pub key.pub >two.pub
expect 4 - "one key is in a file" signed.json --public-key two.pub
expect 0 - "and passes when there is data" signed.json --policy policy.json --public-key key.pub --max-age 1d
echo '{"off": ["bound-to-run"]}' >policy.json
expect 4 - "no policy can make a bare predicate a proof" "$OLDPWD/fixtures/receipts/valid-gpu.json" --policy policy.json
echo '{"off": ["no-such-rule"]}' >policy.json
expect 4 - "a policy about an unknown rule is refused" a.json --policy policy.json
echo "{\"model_sha256\": [\"$(printf '%064d' 0)\"]}" >policy.json
expect 1 model-allowed "a policy can list models" a.json --policy policy.json
echo '{"bandwidth_bytes_per_s": 1000, "validate_performance": true}' >policy.json
expect 1 performance-measured "bytes that the policy's memory does not deliver are refused" a.json --policy policy.json
echo '{"bandwidth_bytes_per_s": 100000000000000, "validate_performance": true}' >policy.json
expect 0 - "a policy's rate decides, whatever this machine can measure" a.json --policy policy.json
judged "the policy of this repository does not refuse it" a.json --policy "$OLDPWD/ci/receipt-policy.json"
echo '{"signature_threshold": 2}' >policy.json
expect 5 signature "a threshold of signatures requires signatures" a.json --policy policy.json
"$verify" -q "$OLDPWD/fixtures/receipts/valid-cpu.json" --policy "$OLDPWD/ci/receipt-policy.json" >out
[ $? -eq 1 ] && has out 'FAIL  form'
result "and refuses what nothing binds" $? "$(cat out)"
echo '{"accept_bare": false}' >policy.json
expect 1 bound-to-run,form "a policy can refuse bare predicates" "$OLDPWD/fixtures/receipts/valid-cpu.json" --policy policy.json
BITNET_ALLOW_CORRECTIONS=1 "$verify" -q "$OLDPWD/fixtures/receipts/bad-corrections.json" >out
[ $? -eq 9 ] && ! has out FAIL
result "BITNET_ALLOW_CORRECTIONS=1 allows corrections" $? "$(cat out)"
echo '{"allow_corrections": false}' >policy.json
BITNET_ALLOW_CORRECTIONS=1 "$verify" -q "$OLDPWD/fixtures/receipts/bad-corrections.json" --policy policy.json >out
[ $? -eq 1 ] && has out 'FAIL  corrections'
result "but not against a policy" $? "$(cat out)"
expect 1 bound-to-run "which the option adds to" "$OLDPWD/fixtures/receipts/bad-corrections.json" --policy policy.json --allow-corrections
echo '{"accept_statement": false}' >policy.json
expect 1 form "or statements" a.json --policy policy.json

# ---- what nothing binds ----
bare=$OLDPWD/fixtures/receipts/valid-gpu.json
"$verify" "$bare" >out
[ $? -eq 9 ] && has out 'valid-gpu.json: consistent, PROVES NOTHING (bound to no run), level: none' && ! has out verified
result "a bare predicate without a fault has a verdict of its own" $? "$(cat out)"
"$verify" "$bare" --json >out
[ $? -eq 9 ] && has out '"verdict": "unbound"' && has out '"verified": false' && has out '"exit_code": 9'
result "also in JSON" $? "$(head -n 12 out)"
expect 1 replay "it cannot be replayed" "$bare" --replay
mkdir bare && cp "$bare" bare/ && "$verify" --batch bare --junit bare.xml >out
[ $? -eq 9 ] && has out '0 verified, 1 bound to no run' && has bare.xml 'failures="1"' && has bare.xml '<failure type="bound-to-run"'
result "a batch counts it apart, and as a failure in JUnit" $? "$(cat out bare.xml)"
"$verify" --batch bare --require-gpu-kernels >out
[ $? -eq 1 ] && has out '0 verified, 1 refused'
result "and refuses it when something is required" $? "$(cat out)"
python3 -c 'import base64, json
p = json.load(open("signed.json"))
s = json.loads(base64.b64decode(p["payload"]))
del s["receipt_sha256"]
p["payload"] = base64.b64encode(json.dumps(s).encode()).decode()
json.dump(p, open("stripped.json", "w"))'
expect 9 - "an envelope that is read unverified and has no digest is not bound either" stripped.json --unverified
expect 0 - "unless its request gives the tokens again" stripped.json --unverified --replay

# ---- output ----
"$verify" a.json --json --replay >out.json 2>err
result "--json succeeds" $? "$(cat err)"
grep -q '"verified": true' out.json && grep -q '"level": "replay"' out.json && [ ! -s err ]
result "and is one document that says so" $? "$(head -n 12 out.json)"
"$verify" forged.json --json >out.json 2>err
[ $? -eq 5 ] && grep -q '"verified": false' out.json && grep -q '"level": "none"' out.json
result "--json keeps the exit status" $? "$(head -n 12 out.json)"
"$verify" "$OLDPWD/fixtures/receipts/malformed-comma.json" --json >out.json 2>err
[ $? -eq 4 ] && grep -q '"schema":"bn.error/1"' out.json
result "--json names the malformed part" $? "$(cat out.json)"
rules=$("$verify" rules | wc -l)
shown=$("$verify" -v a.json | grep -cE '^(pass|skip|FAIL)  ')
[ "$rules" -gt 40 ] && [ "$rules" -eq "$shown" ]
result "-v shows every rule" $? "$rules rules, $shown shown"
"$verify" a.json >out
[ "$(wc -l <out)" -eq 2 ] && grep -q '^a\.json: verified, level: consistency; .* (-v lists them)$' out
result "without it the verdict comes first, and no rule that passed" $? "$(cat out)"
"$verify" forged.json >out
[ "$(head -n 1 out | cut -d, -f1)" = 'forged.json: REFUSED' ] && [ "$(sed 1d out | grep -vc '^FAIL  ')" -eq 0 ]
result "and what failed when it is refused" $? "$(cat out)"
missing=$("$verify" rules | awk '{print $1}' | while read -r rule; do
    grep -qF "\`$rule\`" "$OLDPWD/docs/reference/receipt.md" || echo "$rule"
done)
[ -z "$missing" ]
result "every rule is in docs/reference/receipt.md" $? "$missing"
printf '{"compute_path": "\033[31mred", "schema_version": "1.0.0"}' >escape.json
printf '{"compute_path": "\\u001b[31mred", "schema_version": "1.0.0", "kernels": ["\\u009bx"]}' >escape.json
"$verify" escape.json >out 2>&1
! grep -q "$(printf '\033')" out
result "control characters of a receipt do not reach the terminal" $?
