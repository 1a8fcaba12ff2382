#!/usr/bin/env bash
# bn-fixtures: the committed files are reproduced, and each kind of damage is found.
set -u
cd "$(dirname "$0")/../.." || exit 1
fixtures=${OUT:-build/gcc}/bn-fixtures
# shellcheck source=tests/tap.sh
. tests/tap.sh
# prints TEXT TITLE COMMAND...: its output has the text
prints() {
    local want=$1 title=$2 out; shift 2
    out=$("$@" 2>&1)
    case $out in *"$want"*) ok "$title" ;; *) not_ok "$title" "no '$want' in: ${out:0:300}" ;; esac
}
fresh() { rm -rf "$tmp/f"; cp -r fixtures "$tmp/f"; }
resum() { "$fixtures" sums -o "$tmp/f" >/dev/null; }
# flip FILE OFFSET: one bit
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N1 "$1")
    # shellcheck disable=SC2059
    printf "\\$(printf '%03o' $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

status 0 "the committed fixtures hold" "$fixtures" verify
prints "0 do not" "and it says so" "$fixtures" verify

fresh; flip "$tmp/f/validation.txt" 100
status 5 "a flipped bit is found by its digest" "$fixtures" verify -o "$tmp/f"
prints "validation.txt" "and the file is named" "$fixtures" verify -o "$tmp/f"
fresh; rm "$tmp/f/validation.txt"
status 3 "a missing file" "$fixtures" verify -o "$tmp/f"
fresh; echo >"$tmp/f/new.txt"
status 5 "an unlisted file" "$fixtures" verify -o "$tmp/f"
resum
status 0 "sums lists it" "$fixtures" verify -o "$tmp/f"
status 0 "as sha256sum does" sh -c "cd '$tmp/f' && sha256sum --check --quiet SHA256SUMS"
fresh; mkdir "$tmp/f/sub"; echo >"$tmp/f/sub/new.txt"
prints "sub/new.txt" "an unlisted file in a folder below" "$fixtures" verify -o "$tmp/f"
fresh; : >"$tmp/f/SHA256SUMS"
status 1 "an empty list does not pass" "$fixtures" verify -o "$tmp/f"
fresh; echo "no digest" >>"$tmp/f/SHA256SUMS"
status 4 "an invalid list" "$fixtures" verify -o "$tmp/f"
fresh; sed -i 's|  validation.txt|  ../f/validation.txt|' "$tmp/f/SHA256SUMS"
status 4 "a name that leaves the folder" "$fixtures" verify -o "$tmp/f"

fresh; flip "$tmp/f/nano-llama-i2_s-42.gguf" 300000; resum
status 1 "a model that does not come out again" "$fixtures" verify -o "$tmp/f"
prints "generated" "is reported as such" "$fixtures" verify -o "$tmp/f"
fresh; sed -i '0,/"prompt_logits_sha256": "./s//"prompt_logits_sha256": "x/' "$tmp/f/golden.json"; resum
status 1 "a golden digest that the engine does not give" "$fixtures" verify -o "$tmp/f"
prints "golden" "is reported as such" "$fixtures" verify -o "$tmp/f"
fresh; sed -i 's/"embedding_sha256": "./"embedding_sha256": "x/' "$tmp/f/golden.json"; resum
prints "the embedding of the prompt differ" "a golden embedding that the engine does not give" "$fixtures" verify -o "$tmp/f"
fresh; sed -i 's/\[\[133, 3.289\]/[[133, 3.789]/' "$tmp/f/golden-llama.cpp.json"; resum
status 1 "a logit of llama.cpp that the engine does not give" "$fixtures" verify -o "$tmp/f"
prints "a logit differs by" "is reported with the difference" "$fixtures" verify -o "$tmp/f"
fresh; sed -i '0,/"next": \[[0-9]*, /s//"next": [1, /' "$tmp/f/golden-llama.cpp.json"; resum
prints "continuation is 1, ours is" "another greedy token is reported" "$fixtures" verify -o "$tmp/f"
fresh; sed -i '0,/"sha256": "./s//"sha256": "x/' "$tmp/f/golden-llama.cpp.json"; resum
prints "not the one that llama.cpp ran" "another model than llama.cpp ran is reported" "$fixtures" verify -o "$tmp/f"
fresh; sed -i 's/sha512-/none-/' "$tmp/f/golden-llama.cpp.json"; resum
prints "no version and digest" "packages without digests are reported" "$fixtures" verify -o "$tmp/f"
status 3 "no such folder" "$fixtures" verify -o "$tmp/none"

bonsai=(--size nano --arch qwen3 --vocab 331 --yarn --tied)
status 2 "a SentencePiece vocabulary needs --tokenizer-only" "$fixtures" gen --size nano --spm -o "$tmp/g"
run=${OUT:-build/gcc}/bn-run
tokens() { "$run" tokenize -q --ids -m "fixtures/$1" -p 'the quick brown fox, 42'; }
status 0 "a tokenizer-only file gives the tokens of its model" test "$(tokens tokenizers/nano-tokenizer-42.gguf)" = "$(tokens nano-bitnet-b1.58-i2_s-42.gguf)"
status 0 "and its ids are text again" test "$("$run" detokenize -q -m fixtures/tokenizers/nano-tokenizer-42.gguf --tokens "$(tokens tokenizers/nano-tokenizer-42.gguf)" | grep -c 'quick brown fox, 42')" = 1
spm=$("$run" tokenize -q --ids -m fixtures/tokenizers/nano-tokenizer-spm-42.gguf -p 'the cat ä')
status 0 "SentencePiece: start of text, pieces with their space, bytes for what has no piece" test "$spm" = "$("$run" tokenize -q --ids -m fixtures/tokenizers/nano-tokenizer-spm-42.gguf -p 'the cat'),259,198,167"
status 0 "and these ids are text again" test "$("$run" detokenize -q -m fixtures/tokenizers/nano-tokenizer-spm-42.gguf --tokens "$spm" | grep -c 'the cat ä')" = 1
status 4 "it is not a model to run" "$run" -q -m fixtures/tokenizers/nano-tokenizer-42.gguf -p x -n 1
"$fixtures" gen --size nano --seed 43 -o "$tmp/g" >/dev/null
if cmp -s "$tmp/g/nano-bitnet-b1.58-i2_s-43.gguf" fixtures/nano-bitnet-b1.58-i2_s-42.gguf; then
    not_ok "another seed is another model"
else
    ok "another seed is another model"
fi
"$fixtures" gen --size nano -o "$tmp/g" >"$tmp/sum"
status 0 "gen prints what sha256sum checks" sha256sum --check --quiet "$tmp/sum"
status 0 "gen -o FILE.gguf" "$fixtures" gen --size nano -o "$tmp/g/own.gguf"
check "writes the same into that file" cmp "$tmp/g/own.gguf" "$tmp"/g/nano-*-42.gguf
prints '"bytes": 18' "gen --json" "$fixtures" gen --size nano -o "$tmp/g" --json
status 2 "groups smaller than a block" "$fixtures" gen "${bonsai[@]}" --format ptq1_0 --group 64 -o "$tmp/g"
status 2 "groups that the rows do not hold" "$fixtures" gen "${bonsai[@]}" --format q2_0 --group 1024 -o "$tmp/g"
status 2 "a transform in an architecture that has none" "$fixtures" gen --arch gemma3 --format pq2_0 --hadamard 64 -o "$tmp/g"
status 2 "a period of windows without a window" "$fixtures" gen --arch gemma3 --period 2 -o "$tmp/g"
status 2 "blocks of a transform whose factor is not exact" "$fixtures" gen --arch qwen3 --format pq2_0 --hadamard 128 -o "$tmp/g"
says 0 "the share of zeros is rounded, not cut" 'nano-bitnet-b1.58-i2_s-z90-42.gguf' "$fixtures" gen --size nano --zeros 0.9 -o "$tmp/z90"
says 0 "--zeros and the group are in the name" 'nano-qwen3-q2_0-v331-group128-z38-yarn-tied-42' "$fixtures" gen "${bonsai[@]}" --format q2_0 \
    --group 128 --zeros 0.38 -o "$tmp/g"
for copy in a b; do "$fixtures" gen --size nano --idle 18 -o "$tmp/idle-$copy" >/dev/null; done
idle=nano-bitnet-b1.58-i2_s-idle18-42.gguf
status 0 "--idle is in the name, and gives the same bytes again" cmp "$tmp/idle-a/$idle" "$tmp/idle-b/$idle"
status 1 "and other weights" cmp -s "$tmp/idle-a/$idle" fixtures/nano-bitnet-b1.58-i2_s-42.gguf
for share in 0 91; do status 2 "--idle $share" "$fixtures" gen --size nano --idle "$share" -o "$tmp/g"; done
status 2 "rows too short for the blocks" "$fixtures" gen --size nano --format tq2_0 -o "$tmp/g"
status 2 "an unknown size" "$fixtures" gen --size huge -o "$tmp/g"
status 2 "a vocabulary that is too small" "$fixtures" gen --vocab 261 -o "$tmp/g"
status 2 "both kinds of vocabulary" "$fixtures" gen --vocab 300 --tokenizer x -o "$tmp/g"
status 3 "no such rank file" "$fixtures" gen --tokenizer "$tmp/none" -o "$tmp/g"
status 4 "an invalid rank file" "$fixtures" gen --tokenizer fixtures/validation.txt -o "$tmp/g"
status 1 "failures leave no temporary files" compgen -G "$tmp/g/*.tmp-*"
"$fixtures" golden -o "$tmp/gold" >/dev/null
status 0 "golden gives the committed outputs" cmp "$tmp/gold/golden.json" fixtures/golden.json
cp -r fixtures "$tmp/o"
sed -i 's/"command": "bn-fixtures golden"/"command": "a notebook"/' "$tmp/o/golden.json"
"$fixtures" sums -o "$tmp/o" >/dev/null
prints 'origin.command is not' "golden outputs of another origin are reported" "$fixtures" verify -o "$tmp/o"
