#!/usr/bin/env bash
# The bridge to llama-server, with a small server that answers like old and like new versions: the protocol and the results.
# TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
if ! command -v node >/dev/null || [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
    echo "ok 1 - bridge to llama-server # SKIP no node of version 20"
    exit 0
fi
# shellcheck source=tests/protocol/client.sh
. tests/protocol/client.sh
# shellcheck source=tests/tap.sh
. tests/tap.sh
trap 'kill "${server_pid:-$$}" 2>/dev/null || :; tap_end' EXIT
bridge=crossval/bridges/llama-server/bridge.mjs
model=fixtures/nano-llama-i2_s-42.gguf
good() { ask "$1" && [ "$(member ok)" = true ]; }
list() { printf '%s' "$answer" | grep -oE "\"$1\": *\[[^]]*\]" | sed -E 's/^[^[]*\[//; s/\]$//'; }
start_server() { # old or new, model
    rm -f "$tmp/port" # of the server before
    node tests/protocol/fake_llama_server.mjs "$1" "$2" >"$tmp/port" &
    server_pid=$!
    for _ in $(seq 1200); do [ -s "$tmp/port" ] && break; sleep 0.1; done
    url=http://127.0.0.1:$(cat "$tmp/port")
}
stop_server() { kill "$server_pid"; wait "$server_pid" 2>/dev/null; }

for age in old new; do
    start_server $age "/models/$(basename $model)"
    mkdir -p "$tmp/own"
    check "$age server: the protocol" env BN_BRIDGE_MODEL=$model bash tests/cli/bridge_protocol.sh node $bridge --url "$url"
    reference_start "$tmp/own" node $bridge --url "$url/"
    ask '"op": "hello"' >/dev/null
    check "$age server: open" good "\"op\": \"open\", \"model\": \"$model\""
    ask '"op": "tokenize", "text": "abc", "bos": true, "special": false' >"$tmp/said"
    check "$age server: tokens" equal "$(list tokens)" 7,0,1,2
    ask '"op": "top_logprobs", "tokens": [0, 1, 6], "n": 3' >"$tmp/said"
    check "$age server: the likeliest next tokens" equal "$(list ids)" 7,0,1
    check "$age server: their log-probabilities" equal "$(list logprobs | tr , '\n' | awk '{ printf "%.4f ", $1 }')" \
        "-0.6931 -1.3863 -2.0794 "
    ask '"op": "bench", "prompt": 8, "decode": 2, "threads": 1' >"$tmp/said"
    check "$age server: the times that it measured, and no memory" equal \
        "$(member prompt_ns) $(member decode_ns) $(member peak_bytes)" "4000000 500000 null"
    reference_end
    stop_server
done

age=another
start_server new /models/other.gguf
reference_start "$tmp/own" node $bridge --url "$url"
ask "\"op\": \"open\", \"model\": \"$model\"" >/dev/null
check "$age server: that runs another model is refused" equal "$(member kind)" not_found
reference_end
stop_server
age=no
reference_start "$tmp/own" node $bridge --url "$url"
ask "\"op\": \"open\", \"model\": \"$model\"" >/dev/null
ask '"op": "top_logprobs", "tokens": [0], "n": 1' >/dev/null
check "$age server: is a failure with its address" equal "$(member kind) $(member error | grep -c "$url/completion")" "internal 1"
reference_end
