#!/usr/bin/env bash
# Runs every test program and script given, JOBS at a time (default: two more than there are processors, since some wait), and
# counts their TAP lines ("ok ...", "not ok ...", "ok ... # SKIP"). A program that prints no such line, or that fails without
# one, counts as one failure; so does each unknown command of a script. UNDER is a command that runs the programs. The last
# line printed is "N passed, N failed[, N skipped]"; the exit status is 0 only when nothing failed and something passed.
set -u
cd "$(dirname "$0")/.." || exit 1
unset SOURCE_DATE_EPOCH # it stops the clock of programs
unset CC SAN COVER      # of the outer make; tests that build something build it plainly
export OUT UNDER=${UNDER:-} CMOCKA_MESSAGE_OUTPUT=TAP
export LSAN_OPTIONS=suppressions=$PWD/tests/leaks.txt:print_suppressions=0

# Runs one test, prints its report in one piece and appends "passed failed skipped" to $work/counts.
run_one() {
    local test=$1 log start status ok skip bad
    log=$(mktemp -p "$work")
    start=$(date +%s)
    case $test in
    *.sh) bash "$test" >"$log" 2>&1 ;;
    *) $UNDER "$test" >"$log" 2>&1 ;;
    esac
    status=$?
    # cmocka writes a skipped test as "not ok N # SKIP".
    sed -i -E 's/^not (ok .*# SKIP)/\1/' "$log"
    ok=$(grep -aEc '^ok ' "$log")
    skip=$(grep -aEc '^ok .*# SKIP' "$log")
    # A script goes on after a misspelled name of a check.
    bad=$(grep -aEc '^(not ok |[^ ]*: line [0-9]+: [^ ]+: command not found$)' "$log")
    if [ "$bad" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$ok" -eq 0 ]; }; then bad=1; fi
    {
        printf '%-44s %5d ok %3d failed %3d skipped %4d s\n' "$(basename "$test" .sh)" $((ok - skip)) "$bad" "$skip" \
            $(($(date +%s) - start))
        if [ "$bad" -ne 0 ]; then
            echo "---- $test ended with status $status:"
            grep -avE '^ok ' "$log" | tail -n 60
            echo "----"
        fi
        grep -aE '^ok .*# SKIP' "$log" | sed -E 's/^ok [0-9]* ?-? ?/    skipped: /' | sort | uniq -c | sort -rn | head -n 5
    } >"$log.report"
    (
        flock 9
        cat "$log.report"
        echo "$((ok - skip)) $bad $skip" >>"$work/counts"
    ) 9>"$work/lock"
    rm -f "$log" "$log.report"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work
export -f run_one
: >"$work/counts"
# shellcheck disable=SC2016 # the inner shell expands it
[ "$#" -eq 0 ] || printf '%s\0' "$@" | xargs -0 -n 1 -P "${JOBS:-$(($(nproc) + 2))}" bash -c 'run_one "$1"' _
read -r passed failed skipped missing < <(awk -v n="$#" '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0, n - NR }' \
    "$work/counts")
failed=$((failed + missing))
line="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
