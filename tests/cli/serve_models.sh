#!/usr/bin/env bash
# bn-serve with several models: names, opening on use, closing when idle or for room, what waits for a model meanwhile.
# TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh
# shellcheck disable=SC2034 # read by start
defaults=(--template instruct)
mkdir "$tmp/models" "$tmp/other" "$tmp/none"
cp fixtures/shakespeare-5m-i2_s.gguf "$tmp/models/bard.gguf"
cp fixtures/nano-llama-i2_s-42.gguf "$tmp/models/nano.gguf"
cp fixtures/nano-llama-i2_s-42.gguf "$tmp/other/nano.gguf"
body='"prompt": "ROMEO:", "max_tokens": 24, "temperature": 0.8, "top_k": 40, "seed": 7'
chain_of() { value 'd["choices"][0]["bn"]["chain"]' "$tmp/reply"; }
# One model by its name, or by its place.
model_is() {
    curl -sS -m 60 "$url/v1/status" >"$tmp/models.json"
    equal "$(value "[m for m in d['models'] if m['id'] == '$1'][0]['$2']" "$tmp/models.json")" "$3"
}
# answers MODEL CHAIN MEMBERS: a request of it gets this chain
answers() {
    replies 200 text_completion /v1/completions "{\"model\": \"$1\", $body${3:+, $3}}" && equal "$(chain_of)" "$2"
}
lacks_label() { ! curl -sS -m 60 "$url/metrics" | grep -q 'model='; }

# ---- one model, also of a folder ----

start -m "$tmp/models/bard.gguf"
check 'a model alone' replies 200 text_completion /v1/completions "{$body}"
bard=$(chain_of)
start -m "$tmp/other/" --keep-alive 0
check 'another one' replies 200 text_completion /v1/completions "{$body}"
nano=$(chain_of)
check 'they answer differently' [ "$bard" != "$nano" ]
check 'a folder with one model is one model' replies 200 '"id":"nano.gguf","loaded":true' /v1/models ''
check 'any name means it' answers gpt-4o "$nano" '"keep_alive": 0'
check 'which stays open' model_is nano.gguf state open
check 'its metrics have no label' lacks_label

# ---- names ----

start -m "$tmp/models" -m "$tmp/other/nano.gguf" --keep-alive forever --receipts "$tmp/receipts"
check 'the start lists them' grep -q 'model other/nano.gguf, 0.3 MiB, opened on its first use' "$tmp/log"
check 'those of a folder are sorted, and same names told apart' equal \
    "$(curl -sS -m 60 "$url/v1/models" | python3 -c 'import json,sys; print([(m["id"], m["loaded"]) for m in json.load(sys.stdin)["data"]])')" \
    "[('bard.gguf', True), ('models/nano.gguf', False), ('other/nano.gguf', False)]"
check 'an unknown model is 404' replies 404 'model_not_found.*this server has bard.gguf, models/nano.gguf, other/nano.gguf' \
    /v1/completions "{\"model\": \"nano.gguf\", $body}"
check 'without a name it is the first' replies 200 '"model":"bard.gguf"' /v1/completions "{$body}"
check 'as alone' equal "$(chain_of)" "$bard"
check 'looking opens none' model_is models/nano.gguf state closed
check 'its facts are there' replies 200 '"id":"models/nano.gguf","loaded":false' /v1/models/models/nano ''
check 'its size is known' model_is models/nano.gguf file_bytes "$(stat -c %s "$tmp/models/nano.gguf")"
check 'another one is opened on its first use' answers models/nano "$nano"
first=$(header X-BN-Receipt)
check 'and stays open' model_is models/nano.gguf state open
check "Ollama's tag means it" answers bard:latest "$bard"
second=$(header X-BN-Receipt)
check 'tokens of a text' replies 200 '"tokens":\[845,25\]' /tokenize '{"content": "ROMEO:"}'
check 'are those of the model that is named, which is opened' replies 200 '"tokens":\[[0-9]+,[0-9]+,[0-9]+' /tokenize \
    '{"model": "other/nano", "content": "ROMEO:"}'
check 'the metrics name each' equal "$(curl -sS -m 60 "$url/metrics" | grep -c '^bn_model_users{model="[a-z/]*.gguf"} 0$')" 3
check 'requests name theirs' replies 200 '"requests":\[\{[^}]*"model":"bard.gguf"' /v1/status ''
ask "/v1/receipts/$first" '' >"$tmp/status" && cp "$tmp/reply" "$tmp/first.json"
ask "/v1/receipts/$second" '' >"$tmp/status" && cp "$tmp/reply" "$tmp/second.json"
check 'receipts of one' "$bin/bn-verify-receipt" "$tmp/first.json" --model "$tmp/models/nano.gguf" --replay
check 'and of the other replay' "$bin/bn-verify-receipt" "$tmp/second.json" --model "$tmp/models/bard.gguf" --replay

start -m "$tmp/models" --receipts "$tmp/receipts" --keep-alive 0
check 'the server replays a receipt with its model, which it opens' replies 200 '"model":"nano.gguf".*"verified":true' \
    "/v1/receipts/$first/replay" '{}'
check 'and those of the first' replies 200 '"model":"bard.gguf".*"verified":true' "/v1/receipts/$second/replay" '{}'

# ---- idle ----

check 'with --keep-alive 0 it is closed when it is idle' wait_for model_is nano.gguf state closed
check 'opened again it gives the same' answers nano "$nano" '"keep_alive": "1h"'
check 'a request can keep it' answers bard "$bard" '"keep_alive": 0'
check 'the first one can be closed too' wait_for model_is bard.gguf state closed
check 'the other one was kept' model_is nano.gguf state open
check 'and is not any more' answers nano "$nano" '"keep_alive": 0'
check 'when that is asked for' wait_for model_is nano.gguf state closed
check 'the first one is opened again' answers '' "$bard"
for time in '"x"' true '[]' '"5 m"'; do
    check "keep_alive $time is refused" replies 400 '"param":"keep_alive"' /v1/completions "{\"keep_alive\": $time, $body}"
done
start -m "$tmp/models" --keep-alive 1s
check 'one that was used' answers nano "$nano"
check 'is closed after --keep-alive' wait_for model_is nano.gguf state closed

# ---- all at once ----

start -m "$tmp/models" --keep-alive 0 --max-queue 64
python3 tests/serve/models.py "$port" 2 "bard=$bard" "nano=$nano" >"$tmp/results"
verdicts "$tmp/results"
start -m "$tmp/models" -m "$tmp/other" --max-models 1
timeout 600 python3 tests/serve/models.py "$port" 1 "bard=$bard" "models/nano=$nano" "other/nano=$nano" >"$tmp/results"
check 'with --max-models 1 nobody waits forever' equal $? 0
verdicts "$tmp/results"
# Two contexts of 25 MB and what belongs to them do not fit.
cp "$tmp/models/bard.gguf" "$tmp/other/bard.gguf"
start -m "$tmp/models/bard.gguf" -m "$tmp/other/bard.gguf" --max-memory 48M
timeout 600 python3 tests/serve/models.py "$port" 1 "models/bard=$bard" "other/bard=$bard" >"$tmp/results"
check 'with --max-memory neither' equal $? 0
verdicts "$tmp/results"

# ---- models that do not open ----

head -c 5000 "$tmp/models/nano.gguf" >"$tmp/other/broken.gguf"
cp "$tmp/models/nano.gguf" "$tmp/other/gone.gguf"
start -m "$tmp/models/bard.gguf" -m "$tmp/other/broken.gguf" -m "$tmp/other/gone.gguf" --keep-alive 0
rm "$tmp/other/gone.gguf"
check 'a broken model is 500 with the reason' replies 500 'model broken.gguf cannot be opened: ' /v1/completions "{\"model\": \"broken\", $body}"
check 'to embed too' replies 500 'model broken.gguf cannot be opened: ' /v1/embeddings '{"model": "broken", "input": "a"}'
check 'one that is gone is 503' replies 503 'model gone.gguf cannot be opened: ' /v1/completions "{\"model\": \"gone\", $body}"
check 'the first one goes on' answers bard "$bard"
cp "$tmp/models/nano.gguf" "$tmp/other/gone.gguf"
check 'the next request tries again' answers gone "$nano"
check 'the server is healthy' replies 200 '"status":"ok"' /health ''
check 'one that is kept' answers gone "$nano" '"keep_alive": -1'
cp "$tmp/models/bard.gguf" "$tmp/new.gguf" && mv "$tmp/new.gguf" "$tmp/other/gone.gguf"
check 'is not used any more when its file was replaced' replies 503 'was changed while it was in use' /v1/completions "{\"model\": \"gone\", $body}"
check 'but closed' wait_for model_is gone.gguf state closed
check 'and the new file opened' answers gone "$bard"

# ---- Ollama's API ----

check 'all models are listed' equal "$(ask /api/tags '' >/dev/null; value '[(m["name"], m["size"] > 0) for m in d["models"]]' "$tmp/reply")" \
    "[('bard.gguf', True), ('broken.gguf', True), ('gone.gguf', True)]"
check 'a model that is not open is shown when it is' replies 200 '"model_info":\{' /api/show '{"model": "gone:latest"}'
check 'a request without a prompt opens one' replies 200 '"done_reason":"load"' /api/generate '{"model": "gone", "keep_alive": "1h", "stream": false}'
ask /api/ps '' >"$tmp/status"
check 'which is listed with the end of its time' equal "$(value '[m["name"] for m in d["models"] if "9999" not in m["expires_at"]]' "$tmp/reply")" "['gone.gguf']"
check 'or closes it' replies 200 '"done_reason":"unload"' /api/generate '{"model": "gone", "keep_alive": 0, "stream": false}'
check 'at once' wait_for model_is gone.gguf state closed
check 'an answer says how long its model took to open' replies 200 '"load_duration":[1-9]' /api/generate '{"model": "gone", "prompt": "a", "stream": false}'

# ---- while one is being opened: its digest takes minutes, most of its file is a hole ----

cp "$tmp/models/nano.gguf" "$tmp/large.gguf"
truncate -s 200G "$tmp/large.gguf"
start -m "$tmp/models/bard.gguf" -m "$tmp/large.gguf" --max-models 2 --max-queue 3 --sequences 1
request="{\"model\": \"large\", $body}"
post() { curl -sS -m 300 -o "$tmp/waited" -w '%{http_code}' -H 'Content-Type: application/json' "$url/v1/completions" -d "$request"; }
curl -sS -m 300 -H 'Content-Type: application/json' "$url/v1/completions" -d "$request" >"$tmp/waited" &
one=$!
check 'a large model is being opened' wait_for model_is large.gguf state opening
check 'its request waits' model_is large.gguf waiting 1
check 'others are answered' answers bard "$bard"
check 'it is still being opened' model_is large.gguf state opening
kill "$one"
wait "$one" 2>/dev/null
check 'a client that leaves is noticed' wait_for model_is large.gguf waiting 0
for i in 1 2 3 4; do post >"$tmp/wait$i.status" & done
check 'others wait' wait_for model_is large.gguf waiting 4
check 'until the queue is full' replies 429 queue_full /v1/completions "$request"
kill "$server"
wait "$server"
check 'SIGTERM ends the server while one is being opened' equal "$?" 0
server=''
wait
check 'those that wait are told' equal "$(cat "$tmp"/wait?.status)" 503503503503
start -m "$tmp/models/bard.gguf" -m "$tmp/large.gguf" --max-models 2 --max-time 1s
check 'the time limit counts while a model is opened' replies 503 'large.gguf could not be opened in time' /v1/completions "$request"
stop_server

# ---- command lines ----

says 2 'the same file twice' 'given more than once' "$bin/bn-serve" -m "$tmp/models/bard.gguf" -m "$tmp/models/bard.gguf" --port 0
says 3 'a folder without models' 'no \.gguf file in it' "$bin/bn-serve" -m "$tmp/none" --port 0
says 3 'a file that is not there' 'missing.gguf: cannot open' "$bin/bn-serve" -m "$tmp/models" -m "$tmp/missing.gguf" --port 0
says 2 'an invalid time' "keep-alive: 'soon' is not a time" "$bin/bn-serve" -m "$tmp/models" --keep-alive soon --port 0
