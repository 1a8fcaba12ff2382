#!/usr/bin/env bash
# bn-fixtures: what is committed is what comes out, and each kind of damage is seen.
set -u
cd "$(dirname "$0")/../.." || exit 1
fixtures=${OUT:-build/gcc}/bn-fixtures
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0 failures=0
ok() { n=$((n + 1)); echo "ok $n - $1"; }
not_ok() { n=$((n + 1)) failures=$((failures + 1)); echo "not ok $n - $1"; shift; [ $# -eq 0 ] || echo "# $*"; }
# status N TITLE COMMAND...: it ends with N
status() {
    local want=$1 title=$2 got out; shift 2
    out=$("$@" 2>&1); got=$?
    if [ "$got" -eq "$want" ]; then ok "$title"; else not_ok "$title" "status $got, not $want: ${out:0:300}"; fi
}
# says TEXT TITLE COMMAND...: its output has the text
says() {
    local want=$1 title=$2 out; shift 2
    out=$("$@" 2>&1)
    case $out in *"$want"*) ok "$title" ;; *) not_ok "$title" "no '$want' in: ${out:0:300}" ;; esac
}
fresh() { rm -rf "$dir/f"; cp -r fixtures "$dir/f"; }
resum() { "$fixtures" sums -o "$dir/f" >/dev/null; }
# flip FILE OFFSET: one bit
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N1 "$1")
    # shellcheck disable=SC2059
    printf "\\$(printf '%03o' $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

status 0 "the committed fixtures hold" "$fixtures" verify
says "0 do not" "and it says so" "$fixtures" verify

fresh; flip "$dir/f/validation.txt" 100
status 5 "a flipped bit is seen by its digest" "$fixtures" verify -o "$dir/f"
says "validation.txt" "and the file is named" "$fixtures" verify -o "$dir/f"
fresh; rm "$dir/f/validation.txt"
status 3 "a missing file" "$fixtures" verify -o "$dir/f"
fresh; echo >"$dir/f/new.txt"
status 5 "an unlisted file" "$fixtures" verify -o "$dir/f"
resum
status 0 "sums lists it" "$fixtures" verify -o "$dir/f"
status 0 "as sha256sum does" sh -c "cd '$dir/f' && sha256sum --check --quiet SHA256SUMS"
fresh; mkdir "$dir/f/sub"; echo >"$dir/f/sub/new.txt"
says "sub/new.txt" "an unlisted file in a folder below" "$fixtures" verify -o "$dir/f"
fresh; : >"$dir/f/SHA256SUMS"
status 1 "an empty list is no pass" "$fixtures" verify -o "$dir/f"
fresh; echo "no digest" >>"$dir/f/SHA256SUMS"
status 4 "a list that is none" "$fixtures" verify -o "$dir/f"
fresh; sed -i 's|  validation.txt|  ../f/validation.txt|' "$dir/f/SHA256SUMS"
status 4 "a name that leaves the folder" "$fixtures" verify -o "$dir/f"

fresh; flip "$dir/f/nano-llama-i2_s-42.gguf" 300000; resum
status 1 "a model that does not come out again" "$fixtures" verify -o "$dir/f"
says "generated" "is reported as such" "$fixtures" verify -o "$dir/f"
fresh; sed -i '0,/"prompt_logits_sha256": "./s//"prompt_logits_sha256": "x/' "$dir/f/golden.json"; resum
status 1 "a golden digest that the engine does not give" "$fixtures" verify -o "$dir/f"
says "golden" "is reported as such" "$fixtures" verify -o "$dir/f"
status 3 "no such folder" "$fixtures" verify -o "$dir/none"

for arch in bitnet-b1.58 bitnet llama; do
    "$fixtures" gen --size nano --arch $arch -o "$dir/g" >/dev/null
    status 0 "gen gives the committed nano $arch" cmp "$dir/g/nano-$arch-i2_s-42.gguf" "fixtures/nano-$arch-i2_s-42.gguf"
done
"$fixtures" gen --size nano --seed 43 -o "$dir/g" >/dev/null
if cmp -s "$dir/g/nano-bitnet-b1.58-i2_s-43.gguf" fixtures/nano-bitnet-b1.58-i2_s-42.gguf; then
    not_ok "another seed is another model"
else
    ok "another seed is another model"
fi
"$fixtures" gen --size nano -o "$dir/g" >"$dir/sum"
status 0 "gen prints what sha256sum checks" sha256sum --check --quiet "$dir/sum"
says '"bytes": 18' "gen --json" "$fixtures" gen --size nano -o "$dir/g" --json
status 2 "rows too short for the blocks" "$fixtures" gen --size nano --format tq2_0 -o "$dir/g"
status 2 "an unknown size" "$fixtures" gen --size huge -o "$dir/g"
status 2 "a vocabulary that is too small" "$fixtures" gen --vocab 261 -o "$dir/g"
status 2 "both kinds of vocabulary" "$fixtures" gen --vocab 300 --tokenizer x -o "$dir/g"
status 3 "no such rank file" "$fixtures" gen --tokenizer "$dir/none" -o "$dir/g"
status 4 "a rank file that is none" "$fixtures" gen --tokenizer fixtures/validation.txt -o "$dir/g"
status 1 "failures leave no temporary files" compgen -G "$dir/g/*.tmp-*"
"$fixtures" golden -o "$dir/gold" >/dev/null
status 0 "golden gives the committed outputs" cmp "$dir/gold/golden.json" fixtures/golden.json
cp -r fixtures "$dir/o"
sed -i 's/"command": "bn-fixtures golden"/"command": "a notebook"/' "$dir/o/golden.json"
"$fixtures" sums -o "$dir/o" >/dev/null
says 'origin.command is not' "golden outputs of another origin are reported" "$fixtures" verify -o "$dir/o"
exit $((failures > 0))
