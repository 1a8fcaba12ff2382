#!/usr/bin/env bash
# Usage: ci/machine.sh [SUITE.yaml]
# Measures this machine by a suite (baselines/machine.yaml), keeps the medians of all cases in baselines/MACHINE/machine/, and
# writes baselines/machines.md, which shows all machines side by side. The documents with every sample stay in build/machine;
# a case that did not change is not measured again, unless other processes disturbed it. When a case fails, nothing is kept.
# ci/machine.sh page writes the page alone.
set -euo pipefail
cd "$(dirname "$0")/.."
bench=${OUT:-build/gcc}/bn-bench
dir=${BN_BASELINES:-baselines} out=${BN_MACHINE_OUT:-build/machine}
contended() { # MEMBER SUITE.json: of the cases that other processes disturbed, as the suite says of each
    awk -F'"' -v member="$1" '$2 == member { value = $4 } $2 == "contended" && $3 ~ /true/ { print value }' "$2"
}
if [ "${1:-}" != page ]; then
    if [ -f "$out/suite.json" ]; then
        while IFS= read -r file; do
            rm -f -- "$out/$file"
        done < <(contended file "$out/suite.json")
    fi
    "$bench" suite -o "$out" "${1:-baselines/machine.yaml}"
    label=$(sed -nE 's/^ *"label": "(.*-[0-9]+cpu-[0-9a-f]+)",?$/\1/p' "$out/suite.json" | head -n 1)
    install -D -m 644 "$out/suite.json" "$dir/$label/machine/suite.json"
fi
{
    echo '<!-- Written by ci/machine.sh; changes by hand are lost. -->'
    echo '# Machines side by side'
    printf '\nMedians of the cases of baselines/machine.yaml: a column for each machine.\n"-" was not measured there.\n\n'
    for file in "$dir"/*/machine/suite.json; do
        cases=$(contended label "$file" | paste -sd, | sed 's/,/, /g')
        # An older suite says it of the whole only.
        [ -n "$cases" ] || ! grep -q '"result_class": "contended"' "$file" || cases='a case'
        [ -z "$cases" ] || printf '**Other processes disturbed %s of %s.**\n\n' "$cases" "$(basename "${file%/machine/*}")"
    done
    "$bench" report --format markdown "$dir"/*/machine/suite.json | sed '/^## \(Kernels\|Measurements\)/,$d' |
        grep -E '^- |^$|^\|[^|]*\|( metric | machine |---| rate | limit | [^|]*-[0-9]+cpu-)|^\| limits: reading' | cat -s
} >"$dir/machines.md"
echo "$dir/machines.md"
