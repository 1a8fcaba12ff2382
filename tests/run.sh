#!/usr/bin/env bash
# Runs every test program and script given and counts their TAP lines ("ok ...", "not ok ...", "ok ... # SKIP").
# A program that prints no such line, or that fails without one, counts as one failure. The last line printed is
# "N passed, N failed[, N skipped]"; the exit status is 0 only when nothing failed and something passed.
set -u
cd "$(dirname "$0")/.." || exit 1
export OUT CMOCKA_MESSAGE_OUTPUT=TAP
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0
for test in "$@"; do
    start=$(date +%s)
    case $test in
    *.sh) bash "$test" >"$log" 2>&1 ;;
    *) "$test" >"$log" 2>&1 ;;
    esac
    status=$?
    # cmocka writes a skipped test as "not ok N # SKIP".
    sed -i -E 's/^not (ok .*# SKIP)/\1/' "$log"
    ok=$(grep -aEc '^ok ' "$log")
    skip=$(grep -aEc '^ok .*# SKIP' "$log")
    bad=$(grep -aEc '^not ok ' "$log")
    if [ "$bad" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$ok" -eq 0 ]; }; then bad=1; fi
    passed=$((passed + ok - skip)) failed=$((failed + bad)) skipped=$((skipped + skip))
    printf '%-44s %5d ok %3d failed %3d skipped %4d s\n' "$(basename "$test" .sh)" $((ok - skip)) "$bad" "$skip" \
        $(($(date +%s) - start))
    if [ "$bad" -ne 0 ]; then
        echo "---- $test ended with status $status:"
        grep -avE '^ok ' "$log" | tail -n 60
        echo "----"
    fi
    grep -aE '^ok .*# SKIP' "$log" | sed -E 's/^ok [0-9]* ?-? ?/    skipped: /' | sort | uniq -c | sort -rn | head -n 5
done
line="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
