#!/usr/bin/env bash
# Writes docs/baselines/perf/phase2_timing_i2s.md: how long the parts of a decoded token take, measured now, on this machine, with
# the built programs. Every figure in the document is measured; a missing figure makes the script fail.
#
#     ci/phase2-timing.sh [MODEL | 2b]
#
# The default of MODEL is the built-in model. 2b is a random model of the 2B shape (ci/phase2-2b.sh), whose document is
# phase2_timing_i2s-2b.md. Environment variables: OUT (build/gcc), PHASE2_OUT (the document), PHASE2_TOKENS (128 decoded tokens
# of a run, 32 of 2b), PHASE2_THREADS (1).
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 0 ;; esac
bench=${OUT:-build/gcc}/bn-bench
name=phase2_timing_i2s.md tokens=128 threads=${PHASE2_THREADS:-1}
model=()
case ${1:-} in
'') ;;
2b)
    second=$(ci/phase2-2b.sh)
    model=(-m "$second") name=phase2_timing_i2s-2b.md tokens=32
    ;;
*) model=(-m "$1") ;;
esac
document=${PHASE2_OUT:-docs/baselines/perf/$name} tokens=${PHASE2_TOKENS:-$tokens}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# A measurement that reports itself invalid (exit 1: the machine was disturbed) is repeated.
measure() { # file, arguments
    local file=$1 try
    shift
    for try in 1 2 3 4 5; do
        "$bench" "$@" --json -q "${model[@]}" >"$tmp/$file" && return
        echo "phase2-timing: attempt $try of bn-bench $1 failed" >&2
    done
    return 1
}
measure run run -p 0 -n "$tokens" -t "$threads" -r 10
for level in layer brick; do
    measure "$level" profile -p 4 -n "$tokens" -t "$threads" --level "$level"
done

# The value of the first member of this name in an indented document.
member() { # file, name
    local value
    value=$(sed -nE 's/^ *"'"$2"'": "?([^"]*[^",])"?,?$/\1/p' "$1" | head -n 1)
    [ -n "$value" ] || {
        echo "phase2-timing: $1 has no $2" >&2
        return 1
    }
    echo "$value"
}
# For each series whose metric matches: metric, median, median distance from it, least, greatest (us), samples.
summarize() { # file, pattern
    awk -v pattern="$2" '
        function sort(x, n,   i, j, t) { for (i = 2; i <= n; i++) for (j = i; j > 1 && x[j - 1] > x[j]; j--) { t = x[j]; x[j] = x[j - 1]; x[j - 1] = t } }
        function median(x, n) { sort(x, n); return n % 2 ? x[(n + 1) / 2] : (x[n / 2] + x[n / 2 + 1]) / 2 }
        /^ *"metric": / { metric = $2; gsub(/[",]/, "", metric) }
        /^ *"warmup": [0-9]/ { warmup = $2 + 0 }
        /^ *"samples": \[[0-9.]/ && metric ~ pattern {
            sub(/.*\[/, ""); sub(/\].*/, ""); n = split($0, x, /, */) - warmup
            for (i = 1; i <= n; i++) x[i] = x[i + warmup]
            m = median(x, n); least = x[1]; most = x[n]
            for (i = 1; i <= n; i++) d[i] = x[i] > m ? x[i] - m : m - x[i]
            printf "%s %.2f %.2f %.2f %.2f %d\n", metric, m / 1e3, median(d, n) / 1e3, least / 1e3, most / 1e3, n
            metric = ""
        }' "$1"
}
row() { # title, file, metric
    local line
    line=$(summarize "$2" "^$3\$")
    [ -n "$line" ] || {
        echo "phase2-timing: no series $3" >&2
        return 1
    }
    echo "$line" | awk -v title="$1" '{ printf "| %s | %s | %s | %s | %s | %s |\n", title, $2, $3, $4, $5, $6 }'
}
head='| | median | +- | least | most | tokens |
|---|---:|---:|---:|---:|---:|'

mkdir -p "$(dirname "$document")"
{
    echo '<!-- Written by ci/phase2-timing.sh; changes by hand are lost. -->'
    echo '# Where the time of a decoded token goes'
    echo
    echo "| measured | $(member "$tmp/layer" created) |"
    echo '|---|---|'
    echo "| program | commit $(member "$tmp/layer" commit), dirty: $(member "$tmp/layer" dirty), $(member "$tmp/layer" compiler), $(member "$tmp/layer" flags) |"
    echo "| machine | $(member "$tmp/layer" cpu_model), $(member "$tmp/layer" cpus_usable) CPUs, Linux $(member "$tmp/layer" kernel), virtual: $(member "$tmp/layer" hypervisor); $(member "$tmp/layer" label) |"
    others=$(sed -nE 's/^ *"used_cpus": ([0-9.e+-]+),?$/\1/p' "$tmp/layer" | head -n 1)
    echo "| CPUs used by other processes | ${others:-unknown} |"
    sed -n '/^  "model": {/,/^  }/p' "$tmp/layer" >"$tmp/model"
    echo "| model | $(member "$tmp/model" name), sha256 $(member "$tmp/model" sha256) |"
    echo "| kernels | $(member "$tmp/layer" isa), threads: $threads |"
    echo "| work | decoding, one token at a time, after a prompt of 4 |"
    echo
    echo 'Microseconds of one token; +- is the median of the distances from the median.'
    echo
    echo "$head"
    row embed "$tmp/layer" Embedding_ns_per_token
    row layers "$tmp/layer" Layer_ns_per_token
    row 'last norm' "$tmp/layer" RmsNorm_ns_per_token
    # Where the head is screened, most of its time is here.
    [ -z "$(summarize "$tmp/layer" '^HeadScreen_ns_per_token$')" ] || row 'bounds of the head' "$tmp/layer" HeadScreen_ns_per_token
    row head "$tmp/layer" LmHead_ns_per_token
    row sample "$tmp/layer" Sampling_ns_per_token
    row 'the token, with these stamps' "$tmp/layer" ns_per_token
    row "the token, without (bn-bench run, 10 generations)" "$tmp/run" token_ns
    echo
    echo 'The same brick by brick, from a run of its own. With several threads these are times of all of them together.'
    echo
    echo "$head"
    summarize "$tmp/brick" '^[A-Z].*_ns_per_token$' | sort -k2,2gr |
        awk '{ sub(/_ns_per_token/, "", $1); printf "| %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5, $6 }'
    row 'the token, with these stamps' "$tmp/brick" ns_per_token
    echo
    echo 'Made by:'
    echo
    case ${1:-} in '' | 2b) echo "    ci/phase2-timing.sh${1:+ $1}" ;; *) echo "    ci/phase2-timing.sh MODEL" ;; esac
} >"$tmp/document"
mv "$tmp/document" "$document"
echo "phase2-timing: $document" >&2
