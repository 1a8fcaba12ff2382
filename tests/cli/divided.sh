#!/usr/bin/env bash
# mpirun bn-run: the answers, the chains and the receipts are those of one process; a rank that dies or cannot open the model
# ends the others; what cannot be divided is refused.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/mpi/mpirun.sh
. tests/mpi/mpirun.sh
has_mpi || { skip 'a model divided among ranks' 'mpirun or bn-mpi.so is missing'; exit; }
model=fixtures/shakespeare-5m-i2_s.gguf
run="$out/bn-run"
chain() { sed -n 's/.*"chain": "\(.*\)".*/\1/p' "$1"; }
# same_chain ARGUMENTS...: two ranks print what one process prints
same_chain() {
    "$run" generate -m "$model" --json --threads 1 "$@" >"$tmp/one" 2>"$tmp/err" || return 1
    mpi 2 "$run" generate -m "$model" --json --threads 1 "$@" >"$tmp/two" 2>"$tmp/err" || { cat "$tmp/err"; return 1; }
    [ -n "$(chain "$tmp/one")" ] && equal "$(chain "$tmp/one")" "$(chain "$tmp/two")"
}

check 'a greedy text has the chain of one process' same_chain -p 'ROMEO:' -n 40
check 'so has one that is sampled, in batches' \
    same_chain -p 'First Citizen: before we proceed' -n 70 --temp 0.8 --top-k 40 --repack always --batch 3
check 'one that is sampled from all tokens' same_chain -p 'JULIET:' -n 12 --temp 1 --seed 9
check 'one that drafts' same_chain -p 'ROMEO: ROMEO: ROMEO: ROMEO:' -n 24 --speculate ngram --draft-always
printf 'root ::= "I am " [a-z]+ "."\n' >"$tmp/grammar"
check 'one under a grammar, with a head that is screened' \
    same_chain -p 'ROMEO:' -n 16 --grammar "$tmp/grammar" --repack always
check 'only the first rank prints' equal "$(mpi 2 "$run" -q -m "$model" -p 'ROMEO:' -n 9 2>/dev/null)" \
    "$("$run" -q -m "$model" -p 'ROMEO:' -n 9 2>/dev/null)"
check 'all logits are the same' equal "$(mpi 2 "$run" logits -m "$model" --tokens 1,2,3,4,5 --all --digest 2>/dev/null)" \
    "$("$run" logits -m "$model" --tokens 1,2,3,4,5 --all --digest)"
check 'a score is the same' equal "$(mpi 2 "$run" score -m "$model" -p 'To be, or not to be' 2>/dev/null)" \
    "$("$run" score -m "$model" -p 'To be, or not to be')"
check 'a chat is the same' equal "$(printf 'ROMEO:\nJULIET:\n' | mpi 2 "$run" chat -m "$model" -n 12 2>/dev/null)" \
    "$(printf 'ROMEO:\nJULIET:\n' | "$run" chat -m "$model" -n 12 2>/dev/null)"
printf '"ROMEO:"\n"JULIET: what"\n"ROMEO: I am"\n' >"$tmp/lines"
check 'lines of a file are the same' equal \
    "$(mpi 2 "$run" -m "$model" --batch-file "$tmp/lines" -n 8 --sequences 2 2>/dev/null)" \
    "$("$run" -m "$model" --batch-file "$tmp/lines" -n 8 --sequences 2 2>/dev/null)"
says 0 '-v states the part of the first rank' '2 ranks; this one has [0-9.]+ MiB of weights' \
    mpi 2 "$run" -v -m "$model" -p 'ROMEO:' -n 2

# ---- receipts ----

mpi 2 "$run" -m "$model" -p 'ROMEO:' -n 66 --receipt "$tmp/two.json" >/dev/null 2>&1
check 'a receipt states the ranks' grep -qE '"count": 2' "$tmp/two.json"
says 0 'it verifies and replays on one process' 'replay' "$out/bn-verify-receipt" "$tmp/two.json" --replay -m "$model"
sed 's/"count": 2/"count": 3/' "$tmp/two.json" >"$tmp/edited.json"
says 5 'edited, it is refused' 'self-digest' "$out/bn-verify-receipt" "$tmp/edited.json"
mpi 2 "$run" -m "$model" -p 'ROMEO:' -n 6 -t 1 --receipt "$tmp/two.json" >/dev/null 2>&1
# forged RULE CHANGE: a change in Python to the predicate p is refused by this rule, although the receipt is sealed again
forged() {
    python3 tests/cli/forge_receipt.py "$tmp/two.json" "$2" >"$tmp/forged.json" || return 1
    "$out/bn-verify-receipt" "$tmp/forged.json" -m "$model" --replay >"$tmp/forged"
    equal "$? $(sed -n 's/^FAIL  \([a-z-]*\).*/\1/p' "$tmp/forged" | head -1)" "1 $1" || { cat "$tmp/forged"; return 1; }
}
check 'ranks that are taken out are missed' forged attention-work 'del p["measurement"]["ranks"]'
check 'a time of theirs above the total' forged layer-work 'p["measurement"]["ranks"]["ns"] = 10**15'
check 'one that is not a number' forged layer-work 'p["measurement"]["ranks"]["ns"] = "x"'
check 'one that is missing' forged layer-work 'del p["measurement"]["ranks"]["ns"]'
"$run" -m "$model" -p 'ROMEO:' -n 66 --receipt "$tmp/one.json" >/dev/null 2>&1
receipt_chain() { grep -oE '"chain": "[0-9a-f]+"' "$1"; }
mpi 2 "$run" -m "$model" -p 'ROMEO:' -n 66 --receipt "$tmp/two.json" >/dev/null 2>&1
check 'its chain is that of one process' equal "$(receipt_chain "$tmp/two.json")" "$(receipt_chain "$tmp/one.json")"

# ---- faults ----

says 9 'more ranks than KV heads are refused' '2 KV heads, which cannot be divided among 3 ranks' \
    mpi 3 "$run" -m "$model" -p 'ROMEO:'
says 9 'a model with recurrent layers is refused' 'recurrent layers cannot be divided' \
    mpi 2 "$run" -m fixtures/quad-qwen35-q2_0-v331-tied-42.gguf --tokens 1,2
says 9 'a trace is refused' '--trace needs the whole model' mpi 2 "$run" -m "$model" -p 'ROMEO:' --trace "$tmp/trace"
says 9 'so is a prompt cache' '--prompt-cache needs the whole model' \
    mpi 2 "$run" -m "$model" -p 'ROMEO:' --prompt-cache "$tmp/cache"
says 2 'a wrong option is one error' 'unknown option' mpi 2 "$run" -m "$model" --nonsense
says 3 'so is a model that does not exist' 'no such file|No such file' mpi 2 "$run" -m "$tmp/none.gguf" -p 'ROMEO:'
refused='error: mpirun started 2 copies, and .* does not divide its work'
says 2 'bn-serve is one process' "bn-serve: $refused" mpi 2 "$out/bn-serve" -m "$model" --port 0
says 2 'a command of a program that divides others, too' "bn-run: $refused" mpi 2 "$out/bn-run" tokenize -p a
says 2 'a single receipt' "bn-verify-receipt: $refused" mpi 2 "$out/bn-verify-receipt" fixtures/receipts/statement.json
says 0 'one copy divides nothing' '^[0-9]' mpi 1 "$out/bn-run" tokenize --ids -p a
# other SHELL ARGUMENTS...: bn-run on two ranks, of which the second runs SHELL first
# shellcheck disable=SC2016 # for the script
other() {
    printf '#!/bin/sh\nif [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then %s\nfi\nexec "%s" "$@"\n' "$1" "$run" >"$tmp/other"
    chmod +x "$tmp/other"
    shift
    mpi 2 "$tmp/other" "$@"
}
# shellcheck disable=SC2016 # for the script
says 3 'a rank that lacks the file is named' 'rank 1: ' \
    other 'export BN_MODEL=/nowhere/model.gguf' generate -p 'ROMEO:'
# shellcheck disable=SC2016
says 1 'so is a rank with another model' 'rank 1 has a model' \
    other 'export BN_MODEL=fixtures/tiny-bitnet-b1.58-i2_s-v320-42.gguf' generate --tokens 1,2
# The first rank waits for a message, the second one is killed.
# shellcheck disable=SC2016
other '(sleep 1; kill -9 $$) &' chat -m "$model" >"$tmp/out" 2>"$tmp/err" < <(sleep 30)
check 'a rank that dies ends the others' equal $? 137
check 'and mpirun names the signal' grep -q 'signal 9' "$tmp/err"
