#!/usr/bin/env bash
# For tests/cli/oom.sh: a bn-serve that some allocations fail in, and clients that ask it. The exit status is the server's;
# 3 when a later client gets no answer although the server has memory again. serve.sh BN-SERVE MODEL FOLDER KEY, with
# BN_OOM_... of tests/oom/oom.c in BN_SERVE_OOM ("AT=3"), or BN_OOM_COUNT.
set -u
program=$1 model=$2 folder=$3 key=$4
address=$folder/address
: >"$address"
env ${BN_SERVE_OOM:+"BN_OOM_$BN_SERVE_OOM"} LD_PRELOAD="$BN_SERVE_PRELOAD" "$program" -m "$model" --port 0 -t 1 --sequences 2 \
    --receipts "$folder/receipts" --sign "$key" --api-key-file "$folder/keys" --cors http://a --log >"$address" 2>"$folder/log" &
server=$!
for ((i = 0; i < 1000; i++)); do
    grep -q http "$address" && break
    kill -0 "$server" 2>/dev/null || { wait "$server"; exit; }
    sleep 0.02
done
python3 - "$(grep -oE '[0-9]+$' "$address")" "$server" <<'END'
import http.client, json, os, signal, sys
port, server = int(sys.argv[1]), int(sys.argv[2])
def ask(method, path, body=None, more={}):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        c.request(method, path, body, {"Authorization": "Bearer 0123456789abcdef", "Content-Type": "application/json", **more})
        r = c.getresponse()
        return r.status, r.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        c.close()
page = {"Origin": "http://a"}
ask("GET", "/v1/models")
ask("POST", "/tokenize", '{"content": "a"}')
ask("POST", "/detokenize", '{"tokens": [40, 41]}')
status, body = ask("POST", "/v1/completions", '{"prompt": [[40, 41], [40]], "max_tokens": 3, "logprobs": 1}')
ask("POST", "/v1/completions", '{"prompt": [40], "max_tokens": 3, "stream": true, "stop": ["x"]}', page)
ask("POST", "/v1/completions", '{"prompt": [40], "max_tokens": 2, "temperature": 1, "response_format": {"type": "json_object"}}')
ask("OPTIONS", "/v1/completions", None, {**page, "Access-Control-Request-Method": "POST"})
try:
    ask("GET", "/v1/receipts/" + json.loads(body)["choices"][0]["bn"]["receipt"])
except (ValueError, KeyError):
    pass
ask("GET", "/metrics")
# A single failure is over by now; with FROM= memory fails until the end.
if not os.environ.get("BN_SERVE_OOM", "").startswith("FROM=") and ask("GET", "/health")[0] != 200:
    os.kill(server, signal.SIGKILL)
    sys.exit(3)
END
silent=$?
kill -TERM "$server" 2>/dev/null
wait "$server"
code=$?
[ "$silent" -eq 0 ] || exit 3
exit $code
