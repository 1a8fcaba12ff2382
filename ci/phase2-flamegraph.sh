#!/usr/bin/env bash
# Records two reference workloads, "2+2=" with one token and "What is 2+2?" with ten, with the commands of bn-flamegraph: pictures,
# pages and an index in docs/baselines/perf/flamegraphs.
#
#     ci/phase2-flamegraph.sh [MODEL [TOKENIZER] [DIR]] [-m MODEL]... [-t LIST] [--isa LIST] [OPTIONS]
#     ci/phase2-flamegraph.sh --committed | --redraw [- DIR] | --timeline [- DIR]
#
#     -m, --model MODEL   GGUF file or downloaded model; several may be given
#     -t, --threads LIST  numbers of threads, as 1,2 [1]
#     --isa LIST          instruction sets, as avx2,avx512vnni [auto]
#     --timing FILE       timing document; of FILE*.md that of the same model counts
#     --force             record again what is there with the same fingerprint
#     --redraw            record nothing: make the files of the recordings in DIR again
#     --archive           keep a copy in DIR/archives/<date>-<commit>
#     --timeline          write DIR/timeline.md: what changed from one archived recording to the next
#     --committed         the built-in model and a random model of the 2B shape (ci/phase2-2b.sh): what the repository has
#
# -F, -r, --duration, --sampler, --kind and --unwind are those of bn-flamegraph record. Every combination of the lists is recorded;
# the first of each is the default configuration, and the names of other files have the value: phase2_1tok-avx2-t2. The model is
# MODEL, -m, BN_MODEL, models/microsoft-bitnet-b1.58-2B-4T-gguf/ggml-model-i2_s.gguf, models/ggml-model-i2_s.gguf,
# ./ggml-model-i2_s.gguf, the download bitnet-b1.58-2b-4t or the built-in model: the first one found. "-" omits an argument. A
# tokenizer is ignored: the one in the GGUF file is used. No file is written before all are complete.
#
# Installs nothing and needs no privilege. Environment variables: BITNET_SKIP_BUILD=1 (do not build), BITNET_SEED,
# BITNET_FLAMEGRAPH_TOOL (auto, clock, timer; names of other programs mean auto), BN_MODEL, BN_THREADS, BN_ISA, OUT
# (build/gcc). Exit status: that of the command that failed, see bn(7).
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."
root=$PWD
complain() { echo "phase2-flamegraph: $1" >&2; }
fail() { complain "error: $2" && exit "$1"; }

models=() recording=() operands=() force='' redraw='' archive='' timeline='' committed=''
threads=${BN_THREADS:-${RAYON_NUM_THREADS:-1}} isas=${BN_ISA:-auto} timing=$root/docs/baselines/perf/phase2_timing_i2s.md
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 0 ;;
    --force) force=1 ;;
    --redraw) redraw=1 ;;
    --archive) archive=1 ;;
    --timeline) timeline=1 ;;
    --committed) committed=1 ;;
    -*[!-]*) # an option with a value
        [ $# -gt 1 ] || fail 2 "$1 needs a value"
        case $1 in
        -m | --model) models+=("$2") ;;
        -t | --threads) threads=$2 ;;
        --isa) isas=$2 ;;
        --timing) timing=$2 ;;
        -F | --frequency | -r | --runs | --duration | --sampler | --kind | --unwind) recording+=("$1" "$2") ;;
        *) fail 2 "unknown option '$1'; see --help" ;;
        esac
        shift
        ;;
    *) operands+=("$1") ;;
    esac
    shift
done
case ${BITNET_DETERMINISTIC:-1} in 1 | on | true | yes) ;; *) fail 2 "BITNET_DETERMINISTIC: '$BITNET_DETERMINISTIC' is not possible" ;; esac
case ${BITNET_FLAMEGRAPH_TOOL:-} in
cargo-flamegraph | flamegraph | samply | perf)
    complain "note: BITNET_FLAMEGRAPH_TOOL=$BITNET_FLAMEGRAPH_TOOL: other samplers are not used; using auto"
    export BITNET_FLAMEGRAPH_TOOL=auto
    ;;
esac
case ${#operands[@]} in
3) complain "warning: ignoring ${operands[1]}: the tokenizer in the GGUF file is used" && operands=("${operands[0]}" "${operands[2]}") ;;
2) [ ! -f "${operands[1]}" ] || { complain "warning: ignoring ${operands[1]}: the tokenizer in the GGUF file is used" && operands=("${operands[0]}"); } ;;
[!012]*) fail 2 'more than three arguments; see --help' ;;
esac
dir=${operands[1]:--}
[ "$dir" != - ] || dir=$root/docs/baselines/perf/flamegraphs

# ---- the program ----
out=${OUT:-build/gcc}
if [ "${BITNET_SKIP_BUILD:-0}" != 1 ]; then
    make --no-print-directory -s "$out/bn-flamegraph" "$out/bn-download" ${committed:+"$out/bn-fixtures"} >&2
elif [ ! -x "$out/bn-flamegraph" ]; then
    fail 3 "BITNET_SKIP_BUILD=1, but $out/bn-flamegraph does not exist"
fi
bin=$(cd "$out" && pwd)
flame=$bin/bn-flamegraph
# Recordings name their model by the path that was given: those that are committed, by one inside the repository.
[ -z "$committed" ] || { here=$root && models=(fixtures/built-in-i2_s.gguf "$(ci/phase2-2b.sh)"); }
cd "$here"
mkdir -p "$dir" || exit 8
dir=$(cd "$dir" && pwd)
new=$(mktemp -d "$dir/.new.XXXXXX") || exit 8
trap 'rm -rf "$new"' EXIT
digest_of() { sed -n 's/.*"fingerprint":"\([0-9a-f]*\)".*/\1/p' "$1" | head -n 1; }
created_of() { sed -n 's/.*"created":"\([^"]*\)".*/\1/p' "$1" | head -n 1; }
# Names of recordings in a folder, the default configuration first, then by configuration.
names_in() {
    local file name
    for file in "$1"/phase2_1tok*.json "$1"/phase2_10tok*.json; do
        name=$(basename "$file" .json)
        [ ! -f "$file" ] || [[ $name == *[!A-Za-z0-9._-]* ]] || echo "${name#phase2_1*tok} ${#name} $name"
    done | LC_ALL=C sort -u -k1,1 -k2,2n | awk '{ print $NF }'
}
# Archived recordings of a name, oldest first: "CREATED FOLDER".
archived() {
    local file
    for file in "$dir"/archives/*/"$1.json"; do
        [ ! -f "$file" ] || echo "$(created_of "$file") $(basename "$(dirname "$file")")"
    done | sort
}
significant='^ +[0-9.]+ +[0-9.]+ +[-+][0-9.]+[*] ' # rows of a comparison: before, after, change
# Compares functions of two recordings. Sets why: they are not recordings of the same thing.
compare() {
    "$flame" diff "$1" --vs "$2" --merge-inlined --top 20 >"$new/diff.txt" 2>"$new/said" || { cat "$new/said" >&2 && exit 4; }
    why=$(sed -n 's/.* they differ in: /another /p' "$new/said" | head -n 1)
}

# ---- how it changed ----
if [ -n "$timeline" ]; then
    [ -d "$dir/archives" ] || fail 3 "$dir/archives: no recordings; --archive keeps them"
    {
        echo '# Flame graphs over time'
        find "$dir/archives" -name 'phase2_*.json' 2>/dev/null | sed 's|.*/||; s|\.json$||' | sort -u >"$new/names"
        while read -r name; do
            printf '\n## %s\n' "$name"
            before=''
            while read -r _ folder; do
                file=$dir/archives/$folder/$name.json
                "$flame" text --json "$file" >"$new/text.json" || exit
                printf '\n### %s\n\n' "$folder"
                MODE=shares awk -f "$root/ci/flame-page.awk" "$new/text.json"
                echo
                if [ -n "$before" ]; then
                    compare "$dir/archives/$before/$name.json" "$file"
                    if [ -n "$why" ]; then
                        echo "Not compared with $before: $why."
                    else
                        echo "Since $before:"
                        grep -E "$significant" "$new/diff.txt" || echo '    nothing changed significantly'
                    fi
                fi
                before=$folder
            done < <(archived "$name")
        done <"$new/names"
    } >"$new/timeline.md"
    mv "$new/timeline.md" "$dir" && echo "$dir/timeline.md"
    exit 0
fi

# ---- what to record ----
find_model() {
    local place
    for place in models/microsoft-bitnet-b1.58-2B-4T-gguf/ggml-model-i2_s.gguf models/ggml-model-i2_s.gguf ./ggml-model-i2_s.gguf; do
        [ ! -r "$place" ] || { echo "$place" && return; }
    done
    "$bin/bn-download" path bitnet-b1.58-2b-4t 2>/dev/null || echo built-in
}
# A path as it is; the name of a downloaded model as its path.
locate() {
    [ ! -r "$1" ] || { echo "$1" && return; }
    "$bin/bn-download" path "$1" 2>/dev/null || fail 3 "$1: no such model; download it: bn-download bitnet-b1.58-2b-4t"
}
list=()
if [ -z "$redraw" ]; then
    [ "${operands[0]:--}" = - ] || models=("${operands[0]}")
    [ ${#models[@]} -gt 0 ] || models=("${BN_MODEL:-$(find_model)}")
    for i in "${!models[@]}"; do
        [ "${models[i]}" = built-in ] || models[i]=$(locate "${models[i]}")
        complain "model: ${models[i]}"
    done
fi
unset BN_MODEL BN_ISA BN_THREADS RAYON_NUM_THREADS
record() { # MODEL ISA THREADS PROMPT TOKENS FILE OPTIONS...
    local model=()
    [ "$1" = built-in ] || model=(-m "$1")
    # Five runs, so that comparisons know how runs vary, with enough samples to tell 1 % from 2 %.
    "$flame" record -q "${model[@]}" --isa "$2" -t "$3" -p "$4" -n "$5" -o "$6" -r 5 --duration 20 "${recording[@]}" "${@:7}"
}
# A recording is kept when a short one of the same has its fingerprint.
is_there() {
    [ -z "$force" ] && [ -f "$dir/$name.json" ] && record "$@" "$new/trial.json" -r 1 --min-samples 1 --allow-empty 2>/dev/null &&
        [ "$(digest_of "$new/trial.json")" = "$(digest_of "$dir/$name.json")" ]
}
for i in "${!models[@]}"; do
    [ -z "$redraw" ] || break
    for isa in ${isas//,/ }; do
        for t in ${threads//,/ }; do
            suffix=
            [ "$i" = 0 ] || suffix=-$(basename "${models[i]}" .gguf | tr -c 'A-Za-z0-9._\n-' _)
            [ "$isa" = "${isas%%,*}" ] || suffix+=-$isa
            [ "$t" = "${threads%%,*}" ] || suffix+=-t$t
            list+=("phase2_1tok$suffix|${models[i]}|$isa|$t|2+2=|1" "phase2_10tok$suffix|${models[i]}|$isa|$t|What is 2+2?|10")
        done
    done
done
twice=$(printf '%s\n' "${models[@]##*/}" "${list[@]%%|*}" | sort | uniq -d | head -n 1)
[ -z "$twice" ] || fail 2 "two have the name $twice: give each model, instruction set and number of threads once"
for i in "${!list[@]}"; do
    IFS='|' read -ra work <<<"${list[i]}"
    name=${work[0]}
    if is_there "${work[@]:1}"; then
        complain "$name is there with the same fingerprint; --force records it again"
        cp "$dir/$name.json" "$new"
    else
        complain "recording $name"
        record "${work[@]:1}" "$new/$name.json"
    fi
done
for name in $(names_in "$dir"); do [ -f "$new/$name.json" ] || "$flame" export -q --format json "$dir/$name.json" -o "$new/$name.json"; done
[ -n "$(names_in "$new")" ] || fail 3 "$dir: no recordings"

# ---- pictures and pages ----
page() { (cd "$root" && MODE=$1 NAME=$name FOLDER=$before CHANGE=$change WHY=$why TIMING=$document awk -f ci/flame-page.awk "$new/text.json"); }
block() { sed 's/^\(.\)/    \1/' "$1"; }
# Of FILE*.md the timing document of the same model, else FILE.
choose_timing() {
    local model
    timing=$(realpath -m "$timing")
    model=$(sed -n 's/.*"model":{[^{}]*"sha256":"\([0-9a-f]*\)".*/\1/p' "$new/$name.json" | head -n 1)
    for document in "${timing%.md}"*.md "$timing"; do grep -qs "sha256 ${model:-none}" "$document" && break; done
    document=${document#"$root/"}
}
for name in $(names_in "$new"); do
    why='there is no earlier recording in archives/' before='' change=''
    "$flame" text --json "$new/$name.json" >"$new/text.json"
    "$flame" text --top 12 --merge-inlined "$new/$name.json" >"$new/table.txt"
    while read -r created folder; do
        [[ $created < $(created_of "$new/$name.json") ]] || continue
        before=$folder
        compare "$dir/archives/$folder/$name.json" "$new/$name.json"
        [ -n "$why" ] || break
        why="$folder: $why"
    done < <(archived "$name" | sort -r)
    # The first row that is marked as significant: before, after, function.
    [ -n "$why" ] || change=$(awk -v row="$significant" '$0 ~ row { from = $1; to = $2; sub(/^.*(  gone  |  new   |        )/, ""); print from, to, $0; exit }' "$new/diff.txt")
    choose_timing
    page shows >"$new/shows.txt"
    {
        echo '<!-- Written by ci/phase2-flamegraph.sh; manual changes are lost. -->'
        # shellcheck disable=SC2016 # backticks of Markdown
        printf '# Where the time goes: `%s`\n\n[![flame graph](%s.svg)](%s.svg)\n\nStacks: [%s.json](%s.json).\n\n' "$name" "$name" "$name" "$name" "$name"
        page page
        block "$new/table.txt"
        # shellcheck disable=SC2016
        printf '\n## Bricks\n\nAs the profiler measured them, and whether the samples agree (`bn-flamegraph bricks`).\n\n'
        "$flame" bricks "$new/$name.json" >"$new/bricks.txt" 2>"$new/said" || [ $? = 1 ] || cat "$new/said" >"$new/bricks.txt"
        # The tree has bricks of 1 % and more; the comparison below it has all of them.
        awk '/^ +total  total %/ { tree = 1 } /^$/ && tree { if (few) print "    and " few " below 1 %"; tree = few = 0 }
            tree && $2 ~ /^([mun]?s|min)$/ && $3 < 1 { few++; next } { print }' "$new/bricks.txt" >"$new/most.txt"
        block "$new/most.txt"
        page timing
        printf '\n## Compared with the recording before\n\n'
        if [ -n "$why" ]; then echo "Not compared: \`$why\`."; else block "$new/diff.txt"; fi
        printf '\n## How to make it again\n\n'
        page again
        printf '\n[How to read it](README.md)\n'
    } >"$new/$name.md"
    page row >>"$new/rows.txt"
    "$flame" render -q --tags none --notes "$(cat "$new/shows.txt")" "$new/$name.json" -o "$new/$name.svg"
done
{
    printf '<!-- Written by ci/phase2-flamegraph.sh; manual changes are lost. -->\n# Flame graphs\n\n'
    printf '| picture | | | model | instruction set | threads | prompt | one pass | of the read bandwidth | largest class | recorded | commit | processor | sampler | fingerprint |\n'
    printf '|---|---|---|---|---|---:|---|---:|---:|---|---|---|---|---|---|\n'
    cat "$new/rows.txt"
    cat <<'END'

One pass is a token decoded alone; with one token, the pass over the prompt.

`ci/phase2-flamegraph.sh [MODEL] [DIR]` makes them again. With `--archive` it keeps a copy in `archives/`; with `--timeline` it
shows what changed.

## Read them

- A picture opens in any browser. The width of a frame is its share of the samples, with all functions that it called. Left and
  right have no meaning. *Self* is the time in the function itself; *total* includes the functions that it called.
- Click a frame to zoom in; press Ctrl-F to search. Colours are classes of work; the page lists them.
- Read on the page how the samples were taken, and how many were lost, before the figures.
- `bn-flamegraph diff OLD.json --vs NEW.json` compares two recordings; `bn-flamegraph text FILE.json` prints tables.

## From a picture to a faster program

1. The page names the largest class, and how much faster the work would be without it.
2. `bn-bench kernels --filter NAME` shows the kernel next to the limits of the machine.
3. Change it, and compare: `ci/bench-gate.sh HEAD~1` for the speed, `--timeline` for the picture.

When something is wrong, `bn-flamegraph doctor` says what this machine can record and how to change that. Few samples: more
repetitions (`-r`). Names that are missing: build with symbols (`make` does). Other processes: the page says how busy they were.
END
} >"$new/README.md"

# ---- all files are complete ----
place() { # FILE FOLDER
    [ ! -d "$2/$1" ] || fail 8 "$2/$1: is a directory"
    cp "$new/$1" "$2" && echo "$2/$1"
}
files=(README.md)
for name in $(names_in "$new"); do files+=("$name.json" "$name.svg" "$name.md"); done
for file in "${files[@]}"; do [ ! -d "$dir/$file" ] || fail 8 "$dir/$file: is a directory"; done
for file in "${files[@]}"; do place "$file" "$dir"; done
[ -n "$archive" ] || exit 0
for name in $(names_in "$new"); do
    commit=$(sed -n 's/.*"commit":"\([0-9a-f]*\)","compiler".*/\1/p' "$new/$name.json" | cut -c1-12)
    ! grep -q '"dirty":true,"flags"' "$new/$name.json" || commit+=-dirty
    day=$(created_of "$new/$name.json" | cut -c1-10)
    folder=$dir/archives/${day:-nodate}-${commit:-nocommit}
    for n in '' -{2..9999}; do
        cmp -s "$new/$name.json" "$folder$n/$name.json" && complain "archives/$(basename "$folder$n") has $name already" && break
        [ ! -e "$folder$n/$name.json" ] || continue
        mkdir -p "$folder$n"
        for end in json svg md; do place "$name.$end" "$folder$n"; done
        break
    done
done
