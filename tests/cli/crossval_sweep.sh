#!/usr/bin/env bash
# bn-crossval sweep: the suite of prompts in fixtures/prompts.jsonl against the oracle and against the expected tokens, with
# seeds, as text and JSON; faults are planted in the expected tokens, in the reference and in the file. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
xval=$out/bn-crossval
suite=fixtures/prompts.jsonl # its expected tokens are of the built-in model
# shellcheck source=tests/tap.sh
. tests/tap.sh
sweep() { "$xval" sweep --prompts "$@"; }
n=$(wc -l <"$suite")

says 0 "the engine computes the expected tokens" "^$n of $n runs pass\$" sweep $suite
says 0 "with every instruction set" "^$n of $n runs pass\$" sweep $suite --isa ref -n 2
says 0 "the oracle agrees on every prompt" "^$n of $n runs pass\$" sweep $suite --ref oracle --record "$tmp/again.jsonl"
check "--record gives the same file again, to the byte" cmp "$tmp/again.jsonl" $suite
says 0 "one line for each prompt" '^pass  speaker: 2 tokens, 16 decoded, as expected$' sweep $suite
lacks "-q shows what fails" '^pass' sweep $suite -q
head -n 2 $suite >"$tmp/two.jsonl"
says 0 "seeds are runs of their own" '^6 of 6 runs pass$' sweep "$tmp/two.jsonl" --ref oracle --seeds 1,2 -n 4
sweep "$tmp/two.jsonl" --ref oracle --seeds 1,2 -n 4 --json >"$tmp/a.json"
sweep "$tmp/two.jsonl" --ref oracle --seeds 1,2 -n 4 --json >"$tmp/b.json"
decoded() { grep '"decoded"' "$1"; }
check "a seed gives the same tokens again" equal "$(decoded "$tmp/a.json")" "$(decoded "$tmp/b.json")"
check "two seeds and greedy give different tokens" equal "$(decoded "$tmp/a.json" | sort -u | wc -l)" 6
says 0 "JSON has the result of each reference" '"result": "agree"' cat "$tmp/a.json"
says 0 "and the digest of the prompt's ids" '"prompt_ids_sha256": "[0-9a-f]{64}"' cat "$tmp/a.json"
check "each line names the built-in model" equal "$(grep -o '"model_sha256":"[0-9a-f]*"' $suite | sort -u)" \
    "\"model_sha256\":\"$(sha256sum fixtures/built-in-i2_s.gguf | cut -c 1-64)\""

# ---- a value that is rounded to another integer ----

grep '"upper case"' $suite >"$tmp/rounded.jsonl"
rounded='explained by rounding: v of layer 5 turns a difference of 9\.27e-08 into 0\.00227; 0\.0202 is allowed'
text=$(sed 's/.*"prompt":"//; s/"}$//' "$tmp/rounded.jsonl")
says 0 "a difference by rounding is explained by its operation" "^      oracle: $rounded\$" sweep "$tmp/rounded.jsonl" -n 1 --ref oracle
says 0 "also as JSON" "\"reason\": \"$rounded\"" sweep "$tmp/rounded.jsonl" -n 1 --ref oracle --json
says 0 "ladder and logits explain it" "$rounded" "$xval" logits -p "$text" --ref oracle
says 0 "its limits are shown as explained" 'max_abs +worst +0\.045.*  explained$' "$xval" -p "$text" --ref oracle
says 1 "without a trace it is a difference" 'DIFFERS from rung first' "$xval" -p "$text" --ref oracle --trace never
for fault in silu rope-norm no-sub-norm head-map code-map scale block-64 position rope-base epsilon swap-k swap-ffn \
    no-residual sees-next no-sqrt head-q8 no-bos; do
    says 1 "fault $fault is not explained by it" '^0 of 1 runs pass$' sweep "$tmp/rounded.jsonl" -n 1 --ref "oracle --fault $fault"
done
says 1 "a limit of 0 requires the same bits" '^0 of 1 runs pass$' \
    sweep "$tmp/rounded.jsonl" -n 1 --ref oracle --thresholds <(sed 's/{"max": 0.005}/{"max": 0}/' crossval/thresholds.json)

# ---- planted faults ----

sed -E '2s/"expect":\[([0-9]+),[0-9]+,/"expect":[\1,0,/' "$tmp/two.jsonl" >"$tmp/bad.jsonl"
says 1 "a wrong expected token is found" '^      this engine differs from the expected tokens at step 1$' sweep "$tmp/bad.jsonl"
says 1 "and counted" "^1 of 2 runs pass\$" sweep "$tmp/bad.jsonl" -q
says 1 "as JSON" '"differs_at": 1' sweep "$tmp/bad.jsonl" --json
says 1 "a suite with a failure is not recorded" 'runs pass' sweep "$tmp/bad.jsonl" --record "$tmp/none.jsonl"
check "no file is written" test ! -e "$tmp/none.jsonl"
says 1 "a wrong reference is found" '^      oracle --fault silu: DIFFERS from rung first on; ffn_act of layer 0' \
    sweep "$tmp/two.jsonl" -n 2 --ref 'oracle --fault silu'
echo "echo x >>$tmp/starts; exec $xval serve" >"$tmp/once.sh"
says 0 "a reference answers all prompts" '^6 of 6 runs pass$' sweep "$tmp/two.jsonl" --ref "sh $tmp/once.sh" --seeds 1,2
check "it is started once" equal "$(wc -l <"$tmp/starts")" 1
echo "$xval serve; exit 3" >"$tmp/end.sh"
says 1 "a reference that fails at its end" "^FAIL  sh .* failed at its end: " sweep "$tmp/two.jsonl" --ref "sh $tmp/end.sh"
says 1 "as JSON" '"failed_at_the_end": \[$' sweep "$tmp/two.jsonl" --ref "sh $tmp/end.sh" --json
# It ends in its second answer; it is started again for the next prompt.
cat >"$tmp/dies.py" <<PY
import os, subprocess, sys
if os.path.exists("$tmp/died"): os.execv("$xval", ["$xval", "serve"])
serve = subprocess.Popen(["$xval", "serve"], stdin=0, stdout=subprocess.PIPE)
os.write(1, serve.stdout.read(10))
open("$tmp/died", "w").close()
serve.kill()
PY
says 1 "a reference that breaks fails one prompt" '^1 of 2 runs pass$' sweep "$tmp/two.jsonl" --ref "python3 $tmp/dies.py"
says 1 "a reference that fails" 'exit 1: FAILED, no agreement' sweep "$tmp/two.jsonl" --ref 'exit 1'
says 1 "one wrong reference of two" '^0 of 2 runs pass$' sweep "$tmp/two.jsonl" -n 2 --ref oracle --ref 'oracle --fault silu'
tiny=fixtures/tiny-bitnet-b1.58-i2_s-v320-42.gguf
says 1 "expected tokens of another model prove nothing" 'expected of another model' sweep "$tmp/two.jsonl" -m $tiny
says 0 "a reference does, with that model too" '^2 of 2 runs pass$' sweep "$tmp/two.jsonl" -m $tiny --ref oracle
: >"$tmp/empty.jsonl"
says 1 "no prompts: no data is a failure" 'NOTHING was compared' sweep "$tmp/empty.jsonl" --ref oracle
echo '{"prompt": "a"}' >"$tmp/bare.jsonl"
says 1 "neither a reference nor expected tokens: no data" '^0 of 1 runs pass$' sweep "$tmp/bare.jsonl"

# ---- files that cannot be read ----

bad() { echo "$2" >"$tmp/line.jsonl"; says 4 "$1" "$3" sweep "$tmp/line.jsonl" --ref oracle; }
bad "a line that is not JSON" 'prompt' 'line.jsonl'
bad "a line without a prompt" '{"name": "x"}' 'line 1: it needs a prompt or tokens'
bad "a line with a misspelt member" '{"prompt": "a", "expct": [1]}' 'line 1: it has an unknown member'
bad "ids that are texts" '{"tokens": ["a"]}' 'line 1: the ids are not a list of ids'
bad "a prompt that is a number" '{"prompt": 5}' 'the prompt is not a text'
bad "expected tokens that are not a list" '{"prompt": "a", "expect": 5}' 'line 1: the ids are not a list of ids'
says 2 "no file is given" 'no file of prompts is given' "$xval" sweep --ref oracle
says 3 "no such file" 'none' sweep "$tmp/none" --ref oracle
