# shellcheck shell=bash
# Sourced by the scripts in tests/cli. It provides functions that print TAP lines, and a temporary directory, $tmp, which is
# removed at the end. The exit status is 1 when a test failed. A script with more to clean up sets its own trap and calls
# tap_end in it.
#
#   ok TITLE, not_ok TITLE WHY..., skip TITLE REASON
#   verdicts FILE                      the tests of another program: lines of "pass TITLE", or another word and what went wrong
#   check TITLE COMMAND...             passes when the command exits with 0; its output is shown when it does not
#   status N TITLE COMMAND...          passes when it exits with N
#   says N TITLE PATTERN COMMAND...    passes when it exits with N and its output matches PATTERN, an extended regular expression
#   lacks TITLE PATTERN COMMAND...     passes when its output does not match
#   equal A B                          for check
#   sanitized NAME...                  whether the programs have one of these sanitizers
#   wait_for COMMAND...                repeats a command until it succeeds, for some minutes; its output is lost
tmp=$(mktemp -d)
tap_n=0 tap_failed=0
tap_end() {
    local status=$?
    rm -rf "$tmp"
    echo "1..$tap_n"
    [ "$tap_failed" -eq 0 ] || exit 1
    exit "$status"
}
trap tap_end EXIT
ok() { tap_n=$((tap_n + 1)); echo "ok $tap_n - $1"; }
not_ok() {
    tap_n=$((tap_n + 1)) tap_failed=$((tap_failed + 1))
    echo "not ok $tap_n - $1"
    shift
    [ $# -eq 0 ] || printf '%s\n' "$*" | tail -n 20 | cut -c 1-600 | sed 's/^/# /'
}
skip() { tap_n=$((tap_n + 1)); echo "ok $tap_n - $1 # SKIP $2"; }
verdicts() {
    local verdict title
    while read -r verdict title; do
        case $verdict in
        pass) ok "$title" ;;
        *) not_ok "$verdict $title" ;;
        esac
    done <"$1"
}
check() {
    local title=$1 said
    shift
    # Not in a subshell, so that the command can set variables.
    if "$@" >"$tmp/tap" 2>&1; then ok "$title"; else said=$?; not_ok "$title" "status $said" "$(cat "$tmp/tap")"; fi
}
status() {
    local want=$1 title=$2 got
    shift 2
    "$@" >"$tmp/tap" 2>&1 </dev/null
    got=$?
    if [ "$got" -eq "$want" ]; then ok "$title"; else not_ok "$title" "status $got, not $want" "$(cat "$tmp/tap")"; fi
}
says() {
    local want=$1 title=$2 pattern=$3 got
    shift 3
    "$@" >"$tmp/tap" 2>&1 </dev/null
    got=$?
    if [ "$got" -eq "$want" ] && grep -qaE -- "$pattern" "$tmp/tap"; then ok "$title"; else
        not_ok "$title" "status $got, not $want; or no $pattern in:" "$(cat "$tmp/tap")"
    fi
}
lacks() {
    local title=$1 pattern=$2
    shift 2
    "$@" >"$tmp/tap" 2>&1 </dev/null
    if grep -qaE -- "$pattern" "$tmp/tap"; then not_ok "$title" "$(cat "$tmp/tap")"; else ok "$title"; fi
}
sanitized() {
    local name
    for name; do [[ ${OUT:-build/gcc} != *-"$name"* ]] || return 0; done
    return 1
}
equal() { [ "$1" = "$2" ] || { echo "got      $1"; echo "expected $2"; return 1; }; }
# The libraries that a program or a library loads, by the loader of this shell: ldd may be that of another architecture.
libraries() { "$(readelf -lW "$BASH" | sed -n 's/.*interpreter: \(.*\)]/\1/p')" --list "$1"; }
loads() { libraries "$1" | grep -E "$2"; }
loads_not() { libraries "$1" >"$tmp/libraries" && ! grep -E "$2" "$tmp/libraries"; }
wait_for() {
    local i
    for ((i = 0; i < 12000; i++)); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.02
    done
    echo "this never succeeded: $*"
    return 1
}
