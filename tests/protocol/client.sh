# shellcheck shell=bash disable=SC2034 # what sources it reads the variables
# Talks to a reference (docs/explain/crossval.md) from a shell script: source it, then
#
#   reference_start FOLDER COMMAND...    starts it; its standard error goes to FOLDER/err
#   ask '"op": "hello"'                  sends the members; leaves the line in $answer, the raw numbers in FOLDER/floats
#   member NAME                          prints a member of $answer, texts without quotes
#   reference_end                        closes its input and waits; leaves the exit status in $reference_status
#
# ask fails when no answer is received within REFERENCE_TIMEOUT seconds (600), or one with another id, or fewer numbers than
# announced.

reference_start() {
    reference_dir=$1
    shift
    rm -f "$reference_dir/to" "$reference_dir/from"
    mkfifo "$reference_dir/to" "$reference_dir/from"
    "$@" <"$reference_dir/to" >"$reference_dir/from" 2>"$reference_dir/err" &
    reference_pid=$!
    exec {reference_to}>"$reference_dir/to" {reference_from}<"$reference_dir/from"
    # A reference that has ended is a failed check; it does not end the script.
    trap '' PIPE
    request_id=0
}

member() {
    printf '%s' "$answer" | grep -oE "\"$1\": *(\"([^\"\\\\]|\\\\.)*\"|[^],}[]*)" | head -n 1 | sed -E 's/^"[^"]*": *//; s/^"(.*)"$/\1/'
}

# One line out, one line and its numbers in.
ask() {
    request_id=$((request_id + 1))
    ask_line "{\"id\": $request_id, $1}" || return 1
    [ "$(member id)" = "$request_id" ] || { echo "# id $(member id) instead of $request_id"; return 1; }
}

ask_line() {
    local n
    answer=
    : >"$reference_dir/floats"
    { printf '%s\n' "$1" >&"$reference_to"; } 2>/dev/null || { echo "# the reference does not read: ${1:0:200}"; return 1; }
    if ! IFS= read -r -t "${REFERENCE_TIMEOUT:-600}" answer <&"$reference_from"; then
        echo "# no answer to ${1:0:200}; $(tail -n 2 "$reference_dir/err" | tr '\n' ' ')"
        return 1
    fi
    case $answer in '{'*'}') ;; *) echo "# not an object: ${answer:0:200}"; return 1 ;; esac
    n=$(member floats)
    [ -n "$n" ] || return 0
    [[ $n =~ ^[0-9]+$ ]] || { echo "# floats is '$n'"; return 1; }
    timeout "${REFERENCE_TIMEOUT:-600}" head -c $((n * 4)) <&"$reference_from" >"$reference_dir/floats"
    [ "$(stat -c %s "$reference_dir/floats")" -eq $((n * 4)) ] || { echo "# fewer than the $n numbers announced"; return 1; }
}

reference_end() {
    exec {reference_to}>&-
    # Reads the rest of its output, so that it can end.
    timeout "${REFERENCE_TIMEOUT:-600}" cat <&"$reference_from" >"$reference_dir/rest" || kill "$reference_pid" 2>/dev/null
    exec {reference_from}<&-
    wait "$reference_pid" 2>/dev/null
    reference_status=$?
}
