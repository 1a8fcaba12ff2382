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
for kind in 'baselines/*/*.json' 'docs/baselines/perf/phase1*.txt' 'docs/baselines/perf/phase2*.md' 'docs/baselines/perf/flamegraphs/phase2*.json' \
    'docs/baselines/perf/flamegraphs/phase2*.md' 'docs/baselines/perf/flamegraphs/phase2*.svg' 'fixtures/prompts.jsonl'; do
    file=$(first "$kind")
    cp "$file" "$tmp/kept"
    sed -i -E "s/$built_in|$(grep -v '^#' fixtures/generated.txt | cut -d ' ' -f 1 | paste -sd '|')/$other/g" "$file"
    says 1 "$kind of another model is refused" "${file##*/} was measured with model $other" ci/evidence.sh "$copy"
    sed -i "s/$other/unknown/g" "$file"
    says 1 "$kind of no model is refused" "${file##*/} does not name its model" ci/evidence.sh "$copy"
    cp "$tmp/kept" "$file"
done
sed -i "s/$built_in/$other/" "$copy/fixtures/SHA256SUMS"
says 1 "all of the built-in model are refused when it changes" "prompts.jsonl was measured with model $built_in" ci/evidence.sh "$copy"
rm -r "$copy/baselines" "$copy/docs" "$copy/fixtures/prompts.jsonl"
says 1 "without a file the check fails" "no file to check" ci/evidence.sh "$copy"
