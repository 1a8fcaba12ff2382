#!/usr/bin/env bash
# Whole programs without memory: at a sample of positions an allocation fails, alone or with all later ones, in the programs
# and in their libraries. The program then ends with 0 (it did not need the memory) or 10, never by a signal and never with a
# verdict. BN_OOM_POSITIONS (12) is the number of positions per command; more positions find more.
# shellcheck disable=SC2154 # tests/tap.sh sets tmp
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
root=$PWD
library=$out/tests/faults/faults.so
# shellcheck source=tests/tap.sh
. tests/tap.sh
if sanitized address; then
    skip "allocation failures" "a sanitizer replaces malloc"
    exit
fi
positions=${BN_OOM_POSITIONS:-12}
export HF_HOME=$tmp/hub XDG_CACHE_HOME=$tmp/cache XDG_STATE_HOME=$tmp/state XDG_DATA_HOME=$tmp/data XDG_CONFIG_HOME=$tmp/config
export BN_THREADS=1 # the number of allocations is the same each time

# survives NAME ALLOWED COMMAND...: ALLOWED is a list of exit codes besides 10.
survives() {
    local name=$1 allowed=" $2 10 " total step at mode code bad=''
    shift 2
    (cd "$tmp" && timeout 60 env BN_FAULT_REPORT="$tmp/count" LD_PRELOAD="$library" "$@" >/dev/null 2>&1 </dev/null)
    code=$?
    read -r total _ < <(cat "$tmp/count" 2>/dev/null || echo 0)
    if [[ $allowed != *" $code "* ]] || [ "$total" -lt 1 ]; then
        not_ok "$name: ends with $code after $total allocations, with memory enough"
        return
    fi
    step=$((total / positions + 1))
    for mode in AT FROM; do
        at=1
        [ "$mode" = AT ] || at=$((step / 2 + 1)) # the positions of the two rounds interleave
        # The last ones too, one by one, where `last` gives their number.
        for (( ; at <= total; at += at + ${last:-0} < total ? step : 1)); do
            (cd "$tmp" && timeout 60 env BN_FAULT=memory "BN_FAULT_$mode=$at" LD_PRELOAD="$library" "$@" >"$tmp/said" 2>&1 </dev/null)
            code=$?
            [[ $allowed != *" $code "* ]] || continue
            bad+="BN_FAULT_$mode=$at: exit $code: $(tail -n 1 "$tmp/said" | tr -d '\0' | cut -c 1-150)"$'\n'
        done
    done
    if [ -z "$bad" ]; then ok "$name ($total allocations)"; else not_ok "$name ($total allocations)" "$bad"; fi
}

bn() { echo "$out/bn-$1"; }
model=$root/fixtures/nano-bitnet-b1.58-i2_s-42.gguf
run=$(bn run) verify=$(bn verify-receipt)
cd "$tmp" || exit 1
"$run" -q -m "$model" --tokens 1,2,3 -n 8 --receipt "$tmp/r.json" >/dev/null
"$verify" keygen -o "$tmp/key" >/dev/null 2>&1
cd "$root" || exit 1

bench=$(bn bench) crossval=$(bn crossval) flame=$(bn flamegraph) download=$(bn download)
"$run" -q -m "$model" --tokens 1,2,3 -n 8 --profile "$tmp/profile.json" >/dev/null 2>&1
printf 'main;work 10\nmain;wait 5\n' >"$tmp/stacks.folded"
"$bench" run -q -m "$model" -p 4 -n 2 -r 3 -t 1 --json >"$tmp/bench.json" 2>/dev/null
sed 's/"sha256": "./"sha256": "x/; s/"key": "./"key": "x/' "$tmp/bench.json" >"$tmp/other.json" # another model, another machine
"$verify" sign -q --key "$tmp/key" -o "$tmp/envelope.json" "$tmp/r.json" 2>/dev/null

echo 'root ::= ([A-Z] [a-z]{1,5} | "(" root ")"){1,90} "."' >"$tmp/form.gbnf"
survives "bn-run generate" 0 "$run" -m "$model" --tokens 1,2 -n 4
survives "bn-run generate --receipt" 0 "$run" -m "$model" --tokens 1,2 -n 4 --receipt o.json
last=40 survives "bn-run generate --grammar" 0 "$run" -p a -n 4 --temp 1 --grammar form.gbnf
last=60 survives "bn-run generate --json-schema" 0 "$run" -p a -n 4 --temp 1 --json-schema '{"type": "object"}'
survives "bn-run chat" 0 "$run" chat -m "$model" -n 2
survives "bn-run chat -p" 0 "$run" chat -p ROMEO: -n 2
survives "bn-run chat --json" 0 "$run" chat -p ROMEO: -n 2 --json --receipts receipts
survives "bn-run tokenize" 0 "$run" tokenize -p 'ROMEO: what?'
survives "bn-run detokenize" 0 "$run" detokenize --tokens 845,25
survives "bn-run score" 0 "$run" score -m "$model" --tokens 1,2,3,4
survives "bn-run logits --digest" 0 "$run" logits -m "$model" --tokens 1,2 --digest
survives "bn-run inspect" 0 "$run" inspect -m "$model"
{ head -c -256 "$root/fixtures/shakespeare-5m-i2_s.gguf" && head -c 256 /dev/zero; } >"$tmp/damaged.gguf"
survives "bn-run inspect --judge" 1 "$run" inspect --judge -m damaged.gguf
survives "bn-download list" 0 "$download" list
survives "bn-download clean" 0 "$download" clean
survives "bn-download get, offline" 3 "$download" --offline bitnet-b1.58-2b-4t
survives "bn-download doctor, offline" 0 "$download" doctor --offline
mkdir "$tmp/root"
cp "$model" "$tmp/root/m.gguf"
"$out/tests/httpd/httpd" "$tmp/root" /dev/null "$tmp/log" >"$tmp/port" &
server=$!
wait_for test -s "$tmp/port"
# 6: libcurl reports some failed allocations as a broken connection; 8: a thread without memory for it is one too many.
survives "bn-download get" "0 6 8" "$download" "http://127.0.0.1:$(cat "$tmp/port")/m.gguf" --to "$tmp/to" --force --retries 0
"$download" -q "http://127.0.0.1:$(cat "$tmp/port")/m.gguf" --to "$tmp/to" --force >/dev/null
check "and the file is complete after all of them" cmp "$tmp/to/m.gguf" "$model"
survives "bn-download get, unchanged" "0 6 8" "$download" "http://127.0.0.1:$(cat "$tmp/port")/m.gguf" --to "$tmp/to" --retries 0
kill "$server"
survives "bn-bench report" 0 "$bench" report bench.json
survives "bn-bench report --format html" 0 "$bench" report --format html bench.json
survives "bn-bench report of two models" 0 "$bench" report --format html bench.json other.json
survives "bn-bench suite --dry-run" 0 "$bench" suite --dry-run "$root/baselines/suite.yaml"
survives "bn-bench limits" 0 "$bench" limits -q -m "$model" -p 4 -n 2 -t 1 --min-time 0 --json
survives "bn-bench compare" 0 "$bench" compare bench.json bench.json
survives "bn-crossval ladder" 0 "$crossval" ladder -q -m "$model" --tokens 1,2 --ref 'bn --isa ref'
echo '{"tokens": [1, 2]}' >"$tmp/prompts.jsonl"
survives "bn-crossval sweep" 0 "$crossval" sweep -q -m "$model" --prompts prompts.jsonl --ref 'bn --isa ref' -n 2
survives "bn-crossval refs" 0 "$crossval" refs --json
convert=$(bn convert)
survives "bn-convert" 0 "$convert" "$model" --to pq2_0 -o converted.gguf
"$convert" -q "$model" --to pq2_0 -o "$tmp/converted.gguf" >/dev/null
survives "bn-convert --check" 0 "$convert" converted.gguf --check
if command -v node >/dev/null; then
    node tests/convert/folder.mjs "$model" "$tmp/folder" trits pairs template
    survives "bn-convert of a folder" 0 "$convert" folder --to pq2_0 -o folder.gguf
    "$convert" -q "$tmp/folder" --to pq2_0 -o "$tmp/again.gguf" >/dev/null
    check "the last file is that of a run with memory" cmp "$tmp/folder.gguf" "$tmp/again.gguf"
fi
survives "bn-flamegraph render" 0 "$flame" render stacks.folded -o flame.svg
survives "bn-flamegraph text" 0 "$flame" text stacks.folded
survives "bn-verify-receipt" 0 "$verify" r.json
survives "bn-verify-receipt --replay" 0 "$verify" --model "$model" --replay r.json
survives "bn-verify-receipt sign" 0 "$verify" sign --key key -o signed.json r.json
survives "bn-verify-receipt of an envelope" 0 "$verify" --public-key key.pub --require-signature envelope.json
says 0 "bn-serve" '^ok 2 - bn-serve: memory' python3 tests/faults/torture.py "$out" faults --jobs '^bn-serve$' --faults memory \
    --positions $(((positions + 3) / 4))
