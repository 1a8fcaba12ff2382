#!/usr/bin/env bash
# Committed measurements are of models that the project has (ci/evidence.sh): the committed ones are, and each kind of
# file with another model, or with none, is refused. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh

status 0 "the committed measurements" ci/evidence.sh
copy=$tmp/copy
mkdir -p "$copy/docs" "$copy/fixtures"
cp -r baselines "$copy"
cp -r docs/baselines "$copy/docs"
cp fixtures/SHA256SUMS fixtures/generated.txt fixtures/prompts.jsonl "$copy/fixtures"
status 0 "a copy of them" ci/evidence.sh "$copy"

built_in=$(sed -n 's/ .*built-in-i2_s.gguf$//p' fixtures/SHA256SUMS)
other=$(printf '%064d' 7)
first() { find "$copy" -path "$copy/$1" | sort | head -n 1; }
kinds=('baselines/*/*.json' 'docs/baselines/perf/phase1*.txt' 'docs/baselines/perf/phase2*.md' 'docs/baselines/perf/flamegraphs/phase2*.json'
    'docs/baselines/perf/flamegraphs/phase2*.md' 'docs/baselines/perf/flamegraphs/phase2*.svg' 'fixtures/prompts.jsonl')
any="$built_in|$(grep -v '^#' fixtures/generated.txt | cut -d ' ' -f 1 | paste -sd '|')"
for word in "$other" unknown; do
    message='does not name its model'
    [ "$word" = unknown ] || message="was measured with model $other"
    for kind in "${kinds[@]}"; do cp "$(first "$kind")" "$tmp/${kind//[!a-z0-9]/-}" && sed -i -E "s/$any/$word/g" "$(first "$kind")"; done
    says 1 "files of the model '${word:0:8}' are refused" "$message" ci/evidence.sh "$copy"
    ci/evidence.sh "$copy" >"$tmp/said" 2>&1
    for kind in "${kinds[@]}"; do
        file=$(first "$kind")
        check "$kind is among them" grep -q "${file##*/} $message" "$tmp/said"
        cp "$tmp/${kind//[!a-z0-9]/-}" "$file"
    done
done

# ---- what one digest in a file, or one file of a flame graph, would hide ----
graphs=$copy/docs/baselines/perf/flamegraphs
planted() { # title, message, file, sed program
    cp "$3" "$tmp/kept"
    sed -i -E "$4" "$3"
    cmp -s "$3" "$tmp/kept" && { echo "not ok - nothing was planted: $1"; exit 1; }
    says 1 "$1" "$2" ci/evidence.sh "$copy"
    cp "$tmp/kept" "$3"
}
generated=$(grep -v '^#' fixtures/generated.txt | head -n 1 | cut -d ' ' -f 1)
ledger=$(grep -l '"records"' "$copy"/baselines/*/*.json | head -n 1)
planted 'one record of a ledger that names no model is found' "${ledger##*/} does not name its model" "$ledger" "0,/$built_in/s//unknown/"
planted 'one line of prompts.jsonl, too' 'prompts.jsonl does not name its model' "$copy/fixtures/prompts.jsonl" "3s/$built_in/unknown/"
for file in "$copy/docs/baselines/perf/phase1_quant_probe.txt" "$copy/docs/baselines/perf/phase2_timing_i2s.md" "$graphs/phase2_1tok.json" \
    "$copy/fixtures/prompts.jsonl"; do
    planted "${file##*/} of a generated model is refused" "${file##*/} was measured with model $generated, which is not the built-in" "$file" \
        "s/$built_in/$generated/g"
done
fingerprint=$(sed -n 's/.*"fingerprint":"\([0-9a-f]*\)".*/\1/p' "$graphs/phase2_1tok.json")
planted 'a page of another recording is refused' 'phase2_1tok.md is not of the recording' "$graphs/phase2_1tok.md" "s/$fingerprint/$other/"
planted 'a picture of another recording, too' 'phase2_1tok.svg is not of the recording' "$graphs/phase2_1tok.svg" "s/$fingerprint/$other/"
planted 'and an index' 'README.md does not list the recording phase2_1tok.json' "$graphs/README.md" "s/${fingerprint:0:12}/${other:0:12}/"
planted 'a page that is not compared with the timing document of its model is refused' 'is not compared with .*phase2_timing_i2s-2b.md' \
    "$graphs/phase2_1tok-2b.md" 's/: time of one token in decoding\./: not compared: \x60it was measured with another model\x60./'
echo 'one token takes 3 ms' >"$copy/docs/baselines/perf/a-new-page.md"
says 1 'a new file that names no model is refused' 'a-new-page.md does not name its model' ci/evidence.sh "$copy"
rm "$copy/docs/baselines/perf/a-new-page.md"
rm "$graphs/phase2_10tok.svg"
says 1 'and a recording without its picture' 'phase2_10tok.svg is not of the recording' ci/evidence.sh "$copy"
cp docs/baselines/perf/flamegraphs/phase2_10tok.svg "$graphs"
status 0 'the copy is as it was' ci/evidence.sh "$copy"

sed -i "s/$built_in/$other/" "$copy/fixtures/SHA256SUMS"
says 1 "all of the built-in model are refused when it changes" "prompts.jsonl was measured with model $built_in" ci/evidence.sh "$copy"
rm -r "$copy/baselines" "$copy/docs" "$copy/fixtures/prompts.jsonl"
says 1 "without a file the check fails" "no file to check" ci/evidence.sh "$copy"
