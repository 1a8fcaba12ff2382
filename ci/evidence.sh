#!/usr/bin/env bash
# Checks that committed measurements are of models that the project has: ci/evidence.sh [FOLDER]
#
# Each file in baselines/MACHINE and docs/baselines (but indexes and archives), and fixtures/prompts.jsonl, must name its model by SHA-256:
# each record of a ledger and each line of prompts.jsonl, too. Each digest must be that of the built-in model, or of a line in
# fixtures/generated.txt where the file's name says so (-2b) or it is a baseline. The page, the picture, the recording and the row
# of the index of one flame graph must be of the same recording, and compared with the timing document of their model.
#
# Prints what is wrong and ends with 1. When the built-in model changes, this names the files to make again;
# docs/howto/measure.md has the commands.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1
hex='[0-9a-f]{64}'
built_in=$(grep ' built-in-i2_s\.gguf$' fixtures/SHA256SUMS | cut -d ' ' -f 1)
known=$(grep -v '^#' fixtures/generated.txt | cut -d ' ' -f 1)
[[ $built_in =~ ^$hex$ && ${known%%$'\n'*} =~ ^$hex$ ]] || { echo "evidence: fixtures/ lists no models" >&2; exit 1; }

bad=0 files=0
wrong() { echo "evidence: $1" >&2; bad=1; }
# The text of a file without spaces and without the quotes of SVG.
plain() { tr -d ' \n' <"$1" | sed 's/&quot;/"/g'; }
# The digests of models in a file: JSON (also inside of SVG) by the member's name, text by the line's beginning.
models_in() {
    plain "$1" | grep -oaE "\"model_sha256\":\"$hex\"|\"model\":\{[^{}]*\"sha256\":\"$hex\"" | grep -oE "$hex"
    grep -aE '^(\| model \||\| sha256 of the model \||# model )' "$1" | grep -oE "$hex"
}
# How many records of a ledger, or lines of a list, have to name a model: each has a member of this name.
n_records() {
    case $1 in
    *.jsonl) grep -c . "$1" ;;
    baselines/*) plain "$1" | grep -oaE '"binary_sha256":"[0-9a-f]' | grep -c . ;;
    *) echo 1 ;;
    esac
}
# The fingerprint of a recording, in any of its files.
fingerprint_of() { plain "$1" | grep -oaE "\"fingerprint\":\"$hex\"|\|fingerprint\|\`$hex" | grep -oE "$hex" | head -n 1; }

while IFS= read -r file; do
    files=$((files + 1))
    named=$(models_in "$file")
    [[ -n $named && $(wc -l <<<"$named") -ge $(n_records "$file") ]] || wrong "$file does not name its model by SHA-256"
    while read -r digest; do
        case $file in *-2b.* | baselines/*) allowed=$built_in$'\n'$known ;; *) allowed=$built_in ;; esac
        grep -qx "$digest" <<<"$allowed" && continue
        if grep -qx "$digest" <<<"$known"; then
            wrong "$file was measured with model $digest, which is not the built-in model"
        else
            wrong "$file was measured with model $digest, which is neither built in nor generated"
        fi
    done < <(grep . <<<"$named" | sort -u)
done < <(find baselines/*/ docs/baselines fixtures/prompts.jsonl -type f ! -name README.md ! -name timeline.md ! -path '*/archives/*' 2>/dev/null | LC_ALL=C sort)
[ "$files" -gt 0 ] || wrong "no file to check"

for recording in docs/baselines/perf/flamegraphs/*.json; do
    [ -f "$recording" ] || continue
    fingerprint=$(fingerprint_of "$recording") page=${recording%.json}.md
    for file in "$page" "${recording%.json}.svg"; do
        [[ -f $file && $(fingerprint_of "$file") = "$fingerprint" ]] || wrong "$file is not of the recording ${recording##*/}"
    done
    grep -F "](${recording##*/})" "${recording%/*}/README.md" 2>/dev/null | grep -qF "\`${fingerprint:0:12}\`" ||
        wrong "README.md does not list the recording ${recording##*/}"
    for timing in docs/baselines/perf/phase2_timing_*.md; do
        grep -qsF "sha256 $(models_in "$recording" | head -n 1)" "$timing" || continue
        ! grep -qs 'not compared: .it was measured with another model' "$page" || wrong "$page is not compared with $timing, which is of the same model"
    done
done
exit "$bad"
