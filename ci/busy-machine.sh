#!/usr/bin/env bash
# Speed of the built-in model on a machine that does other work: medians of N runs (default 7) in alternation, and the
# four ratios of docs/explain/performance.md. Needs an idle machine with two cores.
# Usage: ci/busy-machine.sh [BN-RUN [N]]
set -euo pipefail
cd "$(dirname "$0")/.."
bn_run=${1:-build/gcc/bn-run} n=${2:-7}
cores=$(taskset -cp $$ | sed 's/.*: //')
[ "$(nproc)" -eq 2 ] || { echo "error: needs exactly 2 usable cores, has the cores $cores (use taskset -c)" >&2; exit 2; }
tmp=$(mktemp -d)
loop=''
end_loop() { [ -z "$loop" ] || { kill "$loop"; wait "$loop" 2>/dev/null || :; loop=''; }; }
trap 'end_loop; rm -rf "$tmp"' EXIT
begin_loop() { sh -c 'while :; do :; done' & loop=$!; }
rate() { # SERIES THREADS: one run, its tokens/s added to the series
    "$bn_run" -q -p 'ROMEO:' -n 900 -t "$2" --json 2>/dev/null | sed -n 's/.*"decode_tokens_per_second": \([0-9.]*\).*/\1/p' >>"$tmp/$1"
}
median() { sort -g "$tmp/$1" | sed -n "$(((n + 1) / 2))p"; }
for ((i = 0; i < n; i++)); do
    rate alone1 1
    rate alone2 2
    rate alone4 4
    rate left 2 & rate right 2
    wait $!
    begin_loop
    rate loop1 1
    rate loop2 2
    end_loop
done
paste "$tmp/left" "$tmp/right" | awk '{ print $1 + $2 }' >"$tmp/both"
show() { printf '%-44s %8.0f tok/s\n' "$1" "$(median "$2")"; }
show '-t 1 alone' alone1
show '-t 2 alone' alone2
show '-t 4 alone' alone4
show 'two runs with -t 2 at once, together' both
show '-t 1 next to a busy loop' loop1
show '-t 2 next to a busy loop' loop2
ratio() { awk -v what="$1" -v a="$(median "$2")" -v b="$(median "$3")" 'BEGIN { printf "%-44s %7.0f %%\n", what, 100 * a / b }'; }
ratio 'two runs at once / one run' both alone2
ratio 'next to a loop: -t 2 / -t 1' loop2 loop1
ratio '-t 4 / -t 2' alone4 alone2
