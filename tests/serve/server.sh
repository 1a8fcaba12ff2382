# shellcheck shell=bash
# Sourced by tests/cli/serve*.sh after tests/tap.sh: a bn-serve to ask, which is ended when the script is.
#
#   start ARGUMENTS...                             a server on a free port, with $defaults before them; sets $server, $url, $port
#   stop_server                                    ends it by SIGTERM
#   ask PATH BODY CURL-ARGUMENTS...                leaves the reply in $tmp/reply, headers in $tmp/headers, prints the status
#   replies STATUS PATTERN PATH BODY CURL-ARGUMENTS...     for check
#   value EXPRESSION FILE                          of the JSON document d
#   header NAME                                    of the last reply
#   metric NAME, metric_is NAME VALUE
bin=$(cd "${OUT:-build/gcc}" && pwd)
model=fixtures/shakespeare-5m-i2_s.gguf
umask 077 # files with keys are private
defaults=(-m "$model" --template instruct)
server='' url='' port=''
stop_server() {
    [ -z "$server" ] || kill "$server" 2>/dev/null
    [ -z "$server" ] || wait "$server" 2>/dev/null
    server=''
}
finish() { stop_server; tap_end; }
trap finish EXIT
# shellcheck disable=SC2034,SC2154 # scripts use $port; tests/tap.sh sets $tmp
start() {
    stop_server
    : >"$tmp/address"
    "$bin/bn-serve" "${defaults[@]}" --port 0 -t 1 "$@" >"$tmp/address" 2>"$tmp/log" &
    server=$!
    wait_for grep -q http "$tmp/address" || { cat "$tmp/log"; exit 1; }
    url=$(grep -oE 'http://.*' "$tmp/address")
    port=${url##*:}
}
ask() {
    local path=$1 body=$2
    shift 2
    curl -sS -m 300 -o "$tmp/reply" -D "$tmp/headers" -w '%{http_code}' -H 'Content-Type: application/json' \
        "$@" ${body:+-d "$body"} "$url$path"
}
replies() {
    local want=$1 pattern=$2 got
    shift 2
    got=$(ask "$@")
    [ "$got" = "$want" ] && grep -qE -- "$pattern" "$tmp/reply" && return 0
    echo "status $got, expected $want and $pattern in:"
    cat "$tmp/reply"
    return 1
}
value() { python3 -c "import json,sys; d = json.load(open(sys.argv[1])); print($1)" "$2"; }
header() { sed -n "s/^$1: \\(.*\\)\\r\$/\\1/Ip" "$tmp/headers"; }
metric() { curl -sS -m 60 "$url/metrics" | sed -n "s/^$1 //p"; }
metric_is() { equal "$(metric "$1")" "$2"; }
