#!/usr/bin/env bash
# bn-serve: answers of OpenAI's form that are the same alone and among others, receipts that replay, errors, limits,
# clients that misbehave or leave, a clean end. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh
key=0123456789abcdef-key
other_key=fedcba9876543210-key

start --receipts "$tmp/receipts" --max-queue 40 --sequences 6 --batch 32 --max-body 64K --timeout 2s

# ---- addresses and errors ----

check 'only root is warned of' equal "$(grep -c 'warning: bn-serve runs as root' "$tmp/log")" "$(($(id -u) == 0))"

check 'the server is healthy' replies 200 '"status":"ok"' /health ''
check 'it lists its model' replies 200 '"id":"shakespeare-5m-i2_s.gguf"' /v1/models ''
check 'one model is served by its name' replies 200 '^\{.*"id":"shakespeare-5m-i2_s.gguf".*"object":"model"' \
    /v1/models/shakespeare-5m-i2_s.gguf ''
check 'its name can be escaped' replies 200 '"object":"model"' /v1/models/%73hakespeare-5m-i2_s%2Egguf ''
for name in gpt-4 shakespeare-5m-i2_s.gguf/x shakespeare ''; do
    check "the model '$name' is 404" replies 404 '"code":"model_not_found".*this server has shakespeare-5m-i2_s.gguf' "/v1/models/$name" ''
done
check 'a model is not changed' replies 405 'takes GET' /v1/models/shakespeare-5m-i2_s.gguf '{}'
check 'an unknown address is 404' replies 404 '"type":"not_found_error"' /v1/nothing ''
check 'a path cannot lead to a file' replies 404 'no such receipt' '/v1/receipts/../../../etc/passwd' '' --path-as-is
check 'nor can an escaped one' replies 404 'no such receipt' '/v1/receipts/%2e%2e%2f%2e%2e%2fetc%2fpasswd' ''
check 'another method is 405' replies 405 'takes POST' /v1/completions '' -X PUT
check 'which names those that work' equal "$(header Allow)" POST
check 'another type of content is 415' replies 415 application/json /v1/completions '{}' -H 'Content-Type: text/plain'
check 'malformed JSON is named with its place' replies 400 'at byte 10' /v1/completions '{"prompt":'
check 'a list is not a request' replies 400 'not a JSON object' /v1/completions '[]'
check 'a request needs a prompt' replies 400 '"param":"prompt"' /v1/completions '{}'
check 'a chat needs messages' replies 400 '"param":"messages"' /v1/chat/completions '{"prompt": "a"}'
check 'a message needs a role' replies 400 'a role other than' /v1/chat/completions \
    '{"messages": [{"role": "wizard", "content": "a"}]}'
for member in '"tools": [{"type": "function"}]' '"echo": true' \
    '"best_of": 3' '"suffix": "x"'; do
    name=${member#\"}
    name=${name%%\"*}
    check "$name is refused by name" replies 400 "\"message\":\"$name is not supported\"" /v1/completions \
        "{\"prompt\": \"a\", $member}"
done
check 'members that change nothing are accepted' replies 200 '"text":' /v1/completions \
    '{"prompt": "a", "max_tokens": 1, "tools": [], "response_format": {"type": "text"}, "echo": false, "user": "u",
      "presence_penalty": 0, "frequency_penalty": null, "logit_bias": {}, "best_of": 1, "stop": null, "seed": null, "unknown": {}}'
for member in '"temperature": -1' '"n": 0' '"n": 9' '"max_tokens": 0' '"max_tokens": 1.5' '"top_p": 2' '"seed": -1' \
    '"logprobs": 21' '"stop": [""]' '"stream": 1' '"presence_penalty": 2.5' '"frequency_penalty": "1"' '"logit_bias": {"11": 101}' \
    '"logit_bias": [11]' '"logit_bias": {"x": 1}' '"logit_bias": {"99999999": 1}'; do
    name=${member#\"}
    name=${name%%\"*}
    check "$member is refused" replies 400 "\"param\":\"$name\"" /v1/completions "{\"prompt\": \"a\", $member}"
done
for prompt in '[-1]' '[99999999]' '[[]]' '[]' '7' '["a", 5]' '""'; do
    check "the prompt $prompt is refused" replies 400 '"param":"prompt"' /v1/completions "{\"prompt\": $prompt}"
done
long=$(printf 'the king and %.0s' $(seq 2000))
check 'a prompt that the context does not hold is named' replies 400 '"code":"context_length_exceeded"' \
    /v1/completions "{\"prompt\": \"$long\"}"
printf '{"prompt": "%70000s"}' x >"$tmp/large"
check 'a large body is 413' replies 413 'more than 65536 bytes' /v1/completions "@$tmp/large"
check 'a foreign Host is 403' replies 403 '--allow-host' /health '' -H 'Host: evil.example'
check 'no Host is 403' replies 403 '--allow-host' /health '' -H 'Host;'
check 'localhost is known' replies 200 ok /health '' -H "Host: localhost:$port"
check 'a page of another origin is 403' replies 403 origins /health '' -H 'Origin: http://evil.example'
check 'one of this server is not' replies 200 ok /health '' -H "Origin: $url"

# ---- answers ----

request='{"prompt": "ROMEO:", "max_tokens": 24, "temperature": 0.8, "top_k": 40, "seed": 7}'
"$bin/bn-run" -m "$model" --json -p ROMEO: -n 24 --temp 0.8 --top-k 40 --seed 7 >"$tmp/run" 2>/dev/null
check 'a completion is answered' replies 200 '"object":"text_completion"' /v1/completions "$request"
cp "$tmp/reply" "$tmp/alone"
alone=$(header X-BN-Receipt)
check 'with the chain of bn-run' equal "$(value 'd["choices"][0]["bn"]["chain"]' "$tmp/alone")" \
    "$(value 'd["chain"]' "$tmp/run")"
check 'with the reason and the counts' equal \
    "$(value 'd["choices"][0]["finish_reason"], d["usage"]["prompt_tokens"], d["usage"]["completion_tokens"]' "$tmp/alone")" \
    'length 2 24'
"$bin/bn-run" -m "$model" --json -p ROMEO: -n 24 --temp 0.8 --seed 7 --presence-penalty 0.5 --frequency-penalty 0.25 --logit-bias 11=-100 \
    >"$tmp/run" 2>/dev/null
check 'penalties and biases are taken' replies 200 '"object":"text_completion"' /v1/completions \
    '{"prompt": "ROMEO:", "max_tokens": 24, "temperature": 0.8, "seed": 7, "presence_penalty": 0.5, "frequency_penalty": 0.25, "logit_bias": {"11": -100}}'
check 'with the chain of bn-run, too' equal "$(value 'd["choices"][0]["bn"]["chain"]' "$tmp/reply")" "$(value 'd["chain"]' "$tmp/run")"
ask "/v1/receipts/$(header X-BN-Receipt)" '' >"$tmp/status"
check 'and a receipt that replays' "$bin/bn-verify-receipt" "$tmp/reply" --model "$model" --replay
check 'a prompt that came before is not evaluated again' replies 200 '"cached_tokens":1' /v1/completions "$request"
check 'a chat is answered' replies 200 '"role":"assistant"' /v1/chat/completions \
    '{"messages": [{"role": "developer", "content": "Be short."}, {"role": "user", "content": [{"type": "text", "text": "Who?"}]}],
      "max_completion_tokens": 5, "logprobs": true, "top_logprobs": 2}'
check 'with log-probabilities of its tokens' equal \
    "$(value '[len(x["top_logprobs"]) for x in d["choices"][0]["logprobs"]["content"]], d["choices"][0]["logprobs"]["content"][0]["logprob"] <= 0' "$tmp/reply")" \
    '[2, 2, 2, 2, 2] True'
check 'an answer has the times that the engine measured' equal \
    "$(value '(lambda t: [t["prompt_n"] + t["cache_n"] == d["usage"]["prompt_tokens"], t["predicted_n"], abs(t["predicted_per_second"] * t["predicted_ms"] / 1e3 - 4) < 1e-6, t["prompt_per_second"] > 0])(d["timings"])' "$tmp/reply")" \
    '[True, 5, True, True]'
check 'it ended at its limit' equal "$(value 'd["choices"][0]["bn"]["end"]' "$tmp/reply")" length
check 'a chat without a limit' replies 200 '"role":"assistant"' /v1/chat/completions \
    '{"messages": [{"role": "user", "content": "Who is there?"}], "temperature": 0}'
check 'ends when the context is full, which OpenAI calls length' equal \
    "$(value 'd["choices"][0]["finish_reason"], d["choices"][0]["bn"]["end"], d["usage"]["total_tokens"]' "$tmp/reply")" 'length context 1025'
check 'one token has no rate' replies 200 '"predicted_n":1,"predicted_per_second":null' /v1/completions '{"prompt": "a", "max_tokens": 1}'
check 'two prompts, two answers of each' replies 200 '"index":3' /v1/completions \
    '{"prompt": ["ROMEO:", [40, 41]], "n": 2, "max_tokens": 3}'
check 'each has a receipt' equal "$(header X-BN-Receipt | tr -cd , | wc -c)" 3
check 'an answer ends before a stop text' replies 200 '"finish_reason":"stop"' /v1/completions \
    '{"prompt": "ROMEO:", "max_tokens": 200, "temperature": 0, "stop": ["\n"]}'
check 'which is not in it' equal "$(value '"\n" in d["choices"][0]["text"]' "$tmp/reply")" False
check 'tokens of a text' replies 200 '"tokens":\[845,25\]' /tokenize '{"content": "ROMEO:"}'
check 'text of tokens' replies 200 '"content":"ROMEO:"' /detokenize '{"tokens": [845, 25]}'
check 'tokens that do not exist are refused' replies 400 '"param":"tokens"' /detokenize '{"tokens": [99999999]}'

# ---- numbers at the ends of their ranges ----

greedy=$(ask /v1/completions '{"prompt": "ROMEO:", "max_tokens": 12, "temperature": 0}' >/dev/null; value 'd["choices"][0]["text"]' "$tmp/reply")
for top_p in 0 -0.0 1e-300 1e-45; do
    check "top_p $top_p keeps the most likely token" replies 200 text_completion /v1/completions \
        "{\"prompt\": \"ROMEO:\", \"max_tokens\": 12, \"temperature\": 1, \"top_p\": $top_p}"
    check 'which it draws' equal "$(value 'd["choices"][0]["text"]' "$tmp/reply")" "$greedy"
    ask "/v1/receipts/$(header X-BN-Receipt)" '' >"$tmp/status"
    check 'as its receipt replays' "$bin/bn-verify-receipt" "$tmp/reply" --model "$model" --replay
done
check 'no number gives an error of the server' timeout 300 python3 - "$port" <<'END'
import http.client, json, sys
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=100)
values = "0 -0.0 -1 1 2 0.5 1e-45 1e-300 1e300 1e9 2147483648 4294967296 9007199254740992 18446744073709551616 1e999".split()
bad = []
for name in ("max_tokens max_completion_tokens n_predict temperature top_p top_k min_p repeat_penalty seed n logprobs best_of "
             "presence_penalty frequency_penalty").split():
    for value in values:
        rest = "" if "tokens" in name or name == "n_predict" else ', "max_tokens": 2'
        c.request("POST", "/v1/completions", '{"prompt": "ROMEO:"%s, "%s": %s}' % (rest, name, value), {"Content-Type": "application/json"})
        reply = c.getresponse()
        text = reply.read()
        if reply.status not in (200, 400):
            bad.append((name, value, reply.status, text[:200]))
sys.exit(str(bad) if bad else 0)
END

# ---- streams ----

events() { sed -n 's/^data: {/{/p' "$1"; }
text_of() { events "$1" | python3 -c 'import json,sys
print("".join(c["text"] if "text" in c else c["delta"].get("content", "") for e in sys.stdin for c in json.loads(e)["choices"]))'; }
ask /v1/completions "${request%\}}, \"stream\": true, \"stream_options\": {\"include_usage\": true}}" >"$tmp/status"
check 'a stream has its type' equal "$(header Content-Type)" 'text/event-stream; charset=utf-8'
check 'it ends with [DONE]' equal "$(grep . "$tmp/reply" | tail -1)" 'data: [DONE]'
check 'its pieces are the whole' equal "$(text_of "$tmp/reply")" "$(value 'd["choices"][0]["text"]' "$tmp/alone")"
check 'its usage has no choices' grep -qE '"choices":\[\],.*"completion_tokens":24' "$tmp/reply"
check 'its receipt is named before it ends' replies 200 '"_type"' "/v1/receipts/$(header X-BN-Receipt)" ''
ask /v1/chat/completions '{"messages": [{"role": "user", "content": "Who?"}], "max_tokens": 4, "stream": true}' >"$tmp/status"
check 'a chat begins with a role' equal "$(events "$tmp/reply" | head -1 | grep -o '"role":"assistant"')" '"role":"assistant"'
check 'its times come with its end' equal \
    "$(events "$tmp/reply" | python3 -c 'import json,sys
print([(e["timings"]["predicted_n"], e["choices"][0]["finish_reason"]) for e in map(json.loads, sys.stdin) if "timings" in e])')" "[(4, 'length')]"
check 'without usage unless it is asked for' equal "$(grep -c usage "$tmp/reply")" 0

# ---- the same answer among others ----

pids=()
for i in $(seq 16); do
    stream=$([ $((i % 2)) = 1 ] && echo true || echo false)
    curl -sS -m 300 -o "$tmp/busy.$i" -H 'Content-Type: application/json' "$url/v1/completions" \
        -d "{\"prompt\": \"JULIET: $i and then\", \"max_tokens\": $((40 + i * 3)), \"seed\": $i, \"stream\": $stream}" &
    pids+=($!)
done
check 'a request among 16 others is answered' replies 200 '"object":"text_completion"' /v1/completions "$request"
cp "$tmp/reply" "$tmp/among"
among=$(header X-BN-Receipt)
wait "${pids[@]}"
check 'with the same text' equal "$(value 'd["choices"][0]["text"]' "$tmp/among")" "$(value 'd["choices"][0]["text"]' "$tmp/alone")"
check 'and the same chain' equal "$(value 'd["choices"][0]["bn"]["chain"]' "$tmp/among")" \
    "$(value 'd["choices"][0]["bn"]["chain"]' "$tmp/alone")"
check 'the others were answered too' equal "$(cat "$tmp"/busy.* | grep -o '"finish_reason":"length"' | wc -l)" 16
for name in "$alone" "$among"; do
    check "receipt $name is served" replies 200 '"predicateType"' "/v1/receipts/$name" ''
    check 'as it is in its file' cmp "$tmp/reply" "$tmp/receipts/$name.json"
    check 'and replays' "$bin/bn-verify-receipt" "$tmp/reply" --model "$model" --replay
done
sed -i 's/"seed": 7/"seed": 8/' "$tmp/reply"
status 5 'a receipt that was changed does not' "$bin/bn-verify-receipt" "$tmp/reply" --model "$model" --replay

# ---- clients that misbehave or leave ----

cat >"$tmp/raw.py" <<'END'
import socket, sys
port, data = int(sys.argv[1]), sys.argv[2].encode().decode("unicode_escape").encode("latin-1")
s = socket.create_connection(("127.0.0.1", port))
s.settimeout(100)
try:
    s.sendall(data)
    got = b""
    while True:
        more = s.recv(65536)
        if not more:
            break
        got += more
        if b"\r\n" in got:
            break
    print(got.split(b"\r\n")[0].decode("latin-1") or "closed")
except OSError:
    print("closed")
END
# raw PATTERN BYTES: the status line, or "closed"
raw() {
    local got
    got=$(timeout 110 python3 "$tmp/raw.py" "$port" "$2")
    [[ $got =~ $1 ]] || { echo "got $got, expected $1"; return 1; }
}
bad=' 4[0-9][0-9] |closed'
check 'what is not HTTP is refused' raw "$bad" 'hello\r\n\r\n'
check 'zeros are refused' raw "$bad" '\0\0\0\0\r\n\r\n'
check 'a request without a Host is refused' raw "$bad" 'GET /health HTTP/1.1\r\n\r\n'
check 'two Host headers are refused' raw "$bad" 'GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n'
check 'two lengths are refused' raw "$bad" \
    'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}'
check 'a length and chunks are refused' raw "$bad" \
    'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
check 'a negative length is refused' raw "$bad" 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n'
check 'large headers are refused' raw "$bad" "GET /health HTTP/1.1\\r\\nHost: localhost\\r\\nX: $(printf '%40000s' x)\\r\\n\\r\\n"
check 'another host in the address is refused' raw "$bad" 'GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n'
check 'a request that does not come in time is dropped' raw "$bad" 'POST /tokenize HTTP/1.1\r\nHost: localh'
check 'nor does a body' raw "$bad" \
    'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{'
# One byte at a time, so that the connection is never idle for long; and a client that never reads its stream.
cat >"$tmp/slow.py" <<'END'
import socket, sys, time
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(b"GET /health HTTP/1.1\r\nX-Slow: ")
try:
    for i in range(1000):
        s.sendall(b"x")
        time.sleep(0.1)
except OSError:
    sys.exit(0)
sys.exit("it was never dropped")
END
check 'a header that comes byte by byte is dropped' timeout 110 python3 "$tmp/slow.py" "$port"
cat >"$tmp/mute.py" <<'END'
import socket, sys, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
s.connect(("127.0.0.1", int(sys.argv[1])))
body = b'{"prompt": ["a", "b", "c", "d"], "max_tokens": 900, "stream": true, "logprobs": 5}'
s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
          b"Content-Length: %d\r\n\r\n" % len(body) + body)
time.sleep(600)
END
python3 "$tmp/mute.py" "$port" &
mute=$!
check 'a client that does not read does not stop others' replies 200 text_completion /v1/completions "$request"
kill "$mute"
wait "$mute" 2>/dev/null
check 'the server is still healthy' replies 200 ok /health ''

ended() { [ "$(metric bn_jobs_total)" = "$(metric bn_jobs_ended_total)" ]; }
check 'all requests have ended' wait_for ended
left=$(metric bn_jobs_cancelled_total)
for stream in true false; do
    curl -sS -o /dev/null -H 'Content-Type: application/json' "$url/v1/completions" \
        -d "{\"prompt\": [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\"], \"max_tokens\": 1000, \"stream\": $stream}" 2>/dev/null &
    gone=$!
    accepted() { [ "$(metric bn_jobs_total)" -gt "$(metric bn_jobs_ended_total)" ]; }
    check "a long request runs (stream: $stream)" wait_for accepted
    kill "$gone"
    wait "$gone" 2>/dev/null
    check 'it ends when its client leaves' wait_for ended
    left=$((left + 1))
    check 'as one that was cancelled' metric_is bn_jobs_cancelled_total "$left"
done
check 'the next answer is as before' replies 200 "$(value 'd["choices"][0]["bn"]["chain"]' "$tmp/alone")" /v1/completions "$request"

# ---- the end ----

kill -TERM "$server"
wait "$server"
check 'SIGTERM ends the server with success' equal $? 0
server=''
check 'it leaves its receipts' test -s "$tmp/receipts/$alone.json"

# ---- keys, limits ----

printf '# keys\n%s\n%s\n' "$key" "$other_key" >"$tmp/keys"
start --api-key-file "$tmp/keys" --max-queue 1 --sequences 1 --max-receipts 2 --max-tokens 900
check 'health needs no key' replies 200 ok /health ''
check 'the rest does' replies 401 'no key' /v1/models ''
check 'a wrong one is refused' replies 401 invalid_api_key /v1/models '' -H "Authorization: Bearer ${key}x"
check 'a right one is not' replies 200 shakespeare /v1/models '' -H "Authorization: Bearer $key"
check 'in the other header too' replies 200 shakespeare /v1/models '' -H "X-Api-Key: $other_key"
check 'an answer' replies 200 text_completion /v1/completions "$request" -H "X-Api-Key: $key"
name=$(header X-BN-Receipt)
check 'its receipt is for the same key' replies 200 predicate "/v1/receipts/$name" '' -H "X-Api-Key: $key"
check 'not for another one' replies 404 'no such receipt' "/v1/receipts/$name" '' -H "X-Api-Key: $other_key"
check 'nor is what was evaluated' replies 200 '"cached_tokens":0' /v1/completions "$request" -H "X-Api-Key: $other_key"
check 'more answers than can run and wait are refused for good' replies 400 'at most 2 .*"param":"n"' /v1/completions \
    '{"prompt": "a", "n": 3, "max_tokens": 900}' -H "X-Api-Key: $key"
check 'so they are not tried again' equal "$(header X-Should-Retry)" false
m=/v1/messages/count_tokens
check 'errors of a count have the form of Anthropic: no key' replies 401 '"type":"error"' $m '{}'
check 'another method' replies 405 '"type":"error"' $m '' -H "X-Api-Key: $key"
check 'another type' replies 415 '"type":"error"' $m '{}' -H "X-Api-Key: $key" -H 'Content-Type: text/plain'
check 'a prompt longer than the context is counted' replies 200 '"input_tokens":[0-9]{4}\}' $m \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"$long\"}]}" -H "X-Api-Key: $key"
for path in /v1/chat/completions /v1/messages /api/chat; do
    check "a chat that ends with an answer is refused by $path" replies 400 'the last of messages is not' $path \
        '{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}' -H "X-Api-Key: $key"
done
for _ in 1 2; do ask /v1/completions "$request" -H "X-Api-Key: $key" >"$tmp/status"; done
check 'old receipts are dropped' replies 404 'no such receipt' "/v1/receipts/$name" '' -H "X-Api-Key: $key"

# ---- clients take turns ----

start --api-key-file "$tmp/keys" --pooling mean
metric() { curl -sS -m 60 -H "X-Api-Key: $key" "$url/metrics" | sed -n "s/^$1 //p"; }
check 'a text is embedded' replies 200 '"embedding":\[' /v1/embeddings '{"input": "To be"}' -H "X-Api-Key: $other_key"
cp "$tmp/reply" "$tmp/vector"
python3 -c 'print({"input": [[i % 1900 + 40] * 90 for i in range(2000)]})' | tr "'" '"' >"$tmp/texts"
curl -sS -o /dev/null -H 'Content-Type: application/json' -H "X-Api-Key: $key" -d "@$tmp/texts" "$url/v1/embeddings" 2>/dev/null &
gone=$!
check 'many texts of a key are embedded' wait_for accepted
check 'a text of another key is, too' replies 200 '"embedding":\[' /v1/embeddings '{"input": "To be"}' -H "X-Api-Key: $other_key"
check 'before them' accepted
check 'and has the same vector' cmp "$tmp/reply" "$tmp/vector"
kill "$gone"
wait "$gone" 2>/dev/null
check 'those end with their client' wait_for ended
stop_server

# ---- a model without a chat template, as the built-in one ----

defaults=()
start --receipts "$tmp/base"
has_log() { grep -qE -- "$1" "$tmp/log" || { cat "$tmp/log"; return 1; }; }
check 'the start names the model, its size and its template' has_log 'model built-in-i2_s.gguf, 3\.3 MiB, template instruct, 8 sequences of 1024 tokens$'
check 'it warns that this is a base model, and names the option' has_log 'warning: this is a base model: .*--template instruct$'
check 'it names the pages' has_log "chat +$url/\$"
check 'and the dashboard' has_log "dashboard +$url/dashboard\$"
check 'and the base URL for clients' has_log "API +$url/v1 "
check 'standard output has the address alone' equal "$(cat "$tmp/address")" "bn-serve: $url"
check 'a chat is answered all the same' replies 200 '"role":"assistant"' /v1/chat/completions \
    '{"messages": [{"role": "user", "content": "Who?"}], "max_tokens": 6}'
name=$(header X-BN-Receipt)
check 'its receipt states the template' replies 200 '"template": *"instruct"' "/v1/receipts/$name" ''
check 'and replays' "$bin/bn-verify-receipt" "$tmp/reply" --replay
check 'clients can know it' replies 200 '"base":true.*"template":"instruct"' /v1/models ''
start -q
check 'with -q the start says nothing but the address' equal "$(cat "$tmp/log" "$tmp/address")" "bn-serve: $url"
start --template instruct
check 'a template that was asked for needs no advice' has_log 'warning: this is a base model: it continues text and does not answer questions$'
says 0 '--help shows --template and its values' '--template +?.*auto\|instruct\|' "$bin/bn-serve" --help
stop_server
defaults=(-m "$model" --template instruct)

for mode in 666 640; do
    chmod "$mode" "$tmp/keys"
    says 7 "a file of keys of mode $mode is refused" "mode is $mode" timeout 60 "$bin/bn-serve" --port 0 --api-key-file "$tmp/keys"
done
says 7 'with what to do' 'hint: chmod 600' timeout 60 "$bin/bn-serve" --port 0 --api-key-file "$tmp/keys"
chmod 600 "$tmp/keys"
says 2 'other machines need a key' 'api-key-file' "$bin/bn-serve" --host 0.0.0.0
says 2 'a host is an address' 'not an IPv4 or IPv6 address' "$bin/bn-serve" --host example.com
says 9 'a template needs its marks in the vocabulary' 'no token <.im_start' "$bin/bn-serve" --port 0 --template chatml
echo short >"$tmp/short"
says 4 'a key is long' 'fewer than 16' "$bin/bn-serve" --port 0 --api-key-file "$tmp/short"
start
says 8 'a port that is taken is named' "port $port: Address already in use" "$bin/bn-serve" --port "$port"
