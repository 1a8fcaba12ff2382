#!/usr/bin/env bash
# Ollama's API in bn-serve: each address, streams of lines, options, what is refused and how, receipts that replay, the chains
# of the other protocols, a thousand random requests. Its own client: serve_npm.sh. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh
is() { equal "$(value "$1" "$tmp/reply")" "$2"; }
# lines EXPRESSION WANTED: of the lines of the last reply, d
lines() { equal "$(python3 -c 'import json,sys; d = [json.loads(x) for x in open(sys.argv[2])]; print(eval(sys.argv[1]))' "$1" "$tmp/reply")" "$2"; }
talk='[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Who is there?"}]'
options='"options": {"seed": 7, "num_predict": 6, "temperature": 0.9, "top_k": 30, "top_p": 0.8, "min_p": 0.01, "repeat_penalty": 1.1, "presence_penalty": 0.5, "num_ctx": 9999, "mirostat": 0}'
same='"seed": 7, "max_tokens": 6, "temperature": 0.9, "top_k": 30, "top_p": 0.8, "min_p": 0.01, "repeat_penalty": 1.1, "presence_penalty": 0.5'

start --pooling mean --receipts "$tmp/receipts"

# ---- models ----

check 'the version is one of Ollama' replies 200 '"version":"0\.[0-9]+\.[0-9]+"' /api/version ''
check 'models are listed' replies 200 '"name":"shakespeare-5m-i2_s.gguf"' /api/tags ''
check 'with their digests' is 'd["models"][0]["digest"]' "$(sha256sum "$model" | cut -d ' ' -f 1)"
check 'and sizes' is 'd["models"][0]["size"], d["models"][0]["details"]["quantization_level"]' \
    "$(stat -L -c %s "$model") I2_S"
check 'and times' is 'd["models"][0]["modified_at"]' "$(date -u -d "@$(stat -L -c %Y "$model")" +%Y-%m-%dT%H:%M:%SZ)"
check 'open models are listed' replies 200 '"expires_at":"9999-' /api/ps ''
check 'with the length of their contexts' is 'd["models"][0]["context_length"]' 1024
check 'a model is shown' replies 200 '"capabilities":\["completion","tools","embedding"\]' /api/show \
    '{"model": "shakespeare-5m-i2_s.gguf:latest"}'
check 'with the keys of its file' is 'd["model_info"]["bitnet-b1.58.embedding_length"], d["template"]' '256 instruct'
for name in pull push create copy nothing; do
    check "$name is not supported" replies 501 '^\{"error":"/api/'$name' is not supported.*bn-download' /api/$name '{"model": "x"}'
done
check 'nor is delete, with its method' replies 501 bn-download /api/delete '{"model": "x"}' -X DELETE
check 'nor are blobs' replies 501 bn-download "/api/blobs/sha256:$(printf '0%.0s' {1..64})" '' -X POST -d ''
check 'the server is found by HEAD' equal "$(curl -sS -o "$tmp/reply" -I -w '%{http_code}' "$url/")" 200
check 'another method is 405, in this form' replies 405 '^\{"error":"/api/chat takes POST"\}' /api/chat '' -X PUT

# ---- chats ----

check 'a chat is a stream, unless it is not asked for' replies 200 '"done":true' /api/chat "{\"messages\": $talk, $options}"
check 'of lines of JSON' equal "$(header Content-Type)" application/x-ndjson
check 'of one message' lines '{x["message"]["role"] for x in d}, [x["done"] for x in d].count(True), d[-1]["done"]' "({'assistant'}, 1, True)"
check 'which ends at the limit' lines 'd[-1]["done_reason"], d[-1]["eval_count"], d[-1]["load_duration"]' "('length', 6, 0)"
check 'with times that were measured' lines '0 < d[-1]["eval_duration"] + d[-1]["prompt_eval_duration"] <= d[-1]["total_duration"]' True
text=$(python3 -c 'import json,sys; print("".join(json.loads(x)["message"]["content"] for x in open(sys.argv[1])), end="|")' "$tmp/reply")
chain=$(tail -n 1 "$tmp/reply" | sed 's/.*"chain":"\([0-9a-f]*\)".*/\1/')
receipt=$(header X-BN-Receipt)
check 'its receipt is served' replies 200 predicateType "/v1/receipts/$receipt" ''
check 'and replays' "$bin/bn-verify-receipt" "$tmp/reply" --model "$model" --replay
check 'also on the server' replies 200 '"verified":true' "/v1/receipts/$receipt/replay" '{}'
check 'without a stream it is one document' replies 200 '"done":true' /api/chat "{\"messages\": $talk, $options, \"stream\": false}"
check 'with the same text' equal "$(value 'd["message"]["content"]' "$tmp/reply")|" "$text"
check 'and chain' is 'd["bn"]["chain"]' "$chain"
check "it is that of OpenAI's API" replies 200 "$chain" /v1/chat/completions "{\"messages\": $talk, $same}"
check 'a system message and a prompt are a chat' replies 200 "$chain" /api/generate \
    "{\"system\": \"Be kind.\", \"prompt\": \"Who is there?\", $options}"
check 'whose pieces are responses' lines '"".join(x["response"] for x in d) + "|"' "$text"
check 'text parts are text' replies 200 "$chain" /api/chat \
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be kind.\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Who is there?\"}]}], $options}"
check 'a stop text ends it' replies 200 '"done_reason":"stop"' /api/chat \
    "{\"messages\": $talk, \"options\": {\"temperature\": 0, \"stop\": [\"e\"], \"num_predict\": 200}}"
check 'at most as many tokens as the context holds' replies 200 '"end":"(context|end|stop)"' /api/chat \
    "{\"messages\": $talk, \"options\": {\"num_predict\": -1, \"seed\": -1}, \"stream\": false}"
check 'the answer may be JSON' replies 200 '"done":true' /api/chat \
    "{\"messages\": $talk, \"format\": \"json\", \"options\": {\"num_predict\": 300, \"seed\": 1}, \"stream\": false}"
check 'of a schema' replies 200 '"done_reason":"stop"' /api/chat \
    "{\"messages\": $talk, \"format\": {\"enum\": [\"yes\", \"no\"]}, \"stream\": false}"
check 'which it has' is 'json.loads(d["message"]["content"]) in ("yes", "no")' True
many=$(python3 -c 'import json; print(json.dumps([{"role": r, "content": "the king and " * 40} for _ in range(20) for r in ("user", "assistant")] + [{"role": "user", "content": "Who?"}]))')
check 'the oldest turns are dropped to fit' replies 200 '"dropped_turns":[1-9]' /api/chat "{\"messages\": $many, $options}"
check 'unless it is not wanted' replies 400 'maximum context length is 1024' /api/chat "{\"messages\": $many, \"truncate\": false}"
check 'no messages open the model' replies 200 '"done_reason":"load"' /api/chat '{"model": "x", "messages": [], "keep_alive": "5m"}'
check 'so does no prompt' replies 200 '"done_reason":"load".*"response":""' /api/generate '{"model": "x", "keep_alive": -1}'

# ---- texts ----

check 'raw: a text without a template' replies 200 '"done":true' /api/generate "{\"prompt\": \"ROMEO:\", \"raw\": true, \"stream\": false, $options}"
chain=$(value 'd["bn"]["chain"]' "$tmp/reply")
check "its chain is that of OpenAI's API" replies 200 "$chain" /v1/completions "{\"prompt\": \"ROMEO:\", $same}"
"$bin/bn-run" -m "$model" -p ROMEO: -n 6 --seed 7 --temp 0.9 --top-k 30 --top-p 0.8 --min-p 0.01 --repeat-penalty 1.1 --presence-penalty 0.5 \
    --receipt "$tmp/run" >/dev/null 2>&1
check 'and of bn-run' equal "$(value 'd["predicate"]["result"]["chain"]' "$tmp/run")" "$chain"

# ---- vectors ----

ask /v1/embeddings '{"input": ["a king", "Who is there?"]}' >"$tmp/status"
vectors=$(value '[x["embedding"] for x in d["data"]]' "$tmp/reply")
check 'texts are embedded' replies 200 '"embeddings":\[\[.*"prompt_eval_count":[1-9]' /api/embed '{"input": ["a king", "Who is there?"]}'
check "as by OpenAI's API" is 'd["embeddings"]' "$vectors"
check 'also by the older address' replies 200 '^\{"embedding":\[' /api/embeddings '{"prompt": "a king"}'
check 'to the same vector' is '[d["embedding"]]' "$(python3 -c "print(${vectors}[:1])")"
long=$(printf 'the king and %.0s' $(seq 800))
check 'a long text is cut' replies 200 '"prompt_eval_count":1024' /api/embed "{\"input\": \"$long\"}"
check 'unless it is not wanted' replies 400 'maximum context length' /api/embed "{\"input\": \"$long\", \"truncate\": false}"
check 'vectors are not shortened' replies 400 'dimensions is not 256' /api/embed '{"input": "a", "dimensions": 3}'

# ---- refusals ----

refused() { check "refused: $3" replies 400 "^\\{\"error\":\"$2" "$1" "$3"; }
refused /api/chat 'a message has a role' '{"messages": [{"role": "wizard", "content": "a"}]}'
refused /api/chat 'a message has a content' '{"messages": [{"role": "user", "content": 5}]}'
refused /api/chat 'images is not supported: this model reads text only' '{"messages": [{"role": "user", "content": "a", "images": ["AAAA"]}]}'
refused /api/chat 'tools ' '{"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function"}]}'
refused /api/chat 'format is not ..json.. or a JSON Schema' '{"messages": [{"role": "user", "content": "a"}], "format": "xml"}'
refused /api/chat 'think is not supported' '{"messages": [{"role": "user", "content": "a"}], "think": "low"}'
refused /api/chat 'think is not true, false' '{"messages": [{"role": "user", "content": "a"}], "think": "deeply"}'
refused /api/chat 'stream is not true or false' '{"messages": [], "stream": 1}'
refused /api/chat 'options is not an object' '{"messages": [], "options": [1]}'
refused /api/generate 'keep_alive is not' '{"prompt": "a", "keep_alive": "soon"}'
refused /api/generate 'prompt is not a text' '{"prompt": [1, 2]}'
refused /api/generate 'context is not supported: send the conversation to /api/chat' '{"prompt": "a", "context": [1]}'
refused /api/generate 'system cannot be used together with raw' '{"prompt": "a", "raw": true, "system": "b"}'
for member in suffix template; do
    refused /api/generate "$member is not supported" "{\"prompt\": \"a\", \"$member\": \"b\"}"
done
for option in '"temperature": -1' '"top_p": 2' '"num_predict": 1.5' '"num_predict": "a"' '"seed": 0.5' '"stop": [5]'; do
    name=${option#\"}
    refused /api/generate "${name%%\"*} " "{\"prompt\": \"a\", \"options\": {$option}}"
done
refused /api/embed 'input is missing' '{}'
refused /api/show 'the body is not a JSON object' '[]'
check 'what is empty is not refused' replies 200 '"done":true' /api/generate \
    '{"prompt": "a", "suffix": "", "template": "", "images": [], "context": [], "format": "", "think": false, "tools": [],
      "logprobs": false, "options": {"num_predict": 1, "unknown": 1, "stop": null}}'

# ---- thoughts, on a model with some tokens renamed: its greedy answer to hello thinks until token 288 ----

python3 tests/cli/edit_vocabulary.py "$model" "$tmp/thinks.gguf" qwen2 "{{ '<|im_start|>' }}{% if enable_thinking is defined and \
enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{% else %}{{- '<think>\\n' }}" \
    '2041=<|im_start|>' '2042=<|im_end|>' '2043=<|endoftext|>' '2044=<think>' '288=</think>' '2040=<tool_call>'
defaults=(-m "$tmp/thinks.gguf")
start
hello='"messages": [{"role": "user", "content": "hello"}], "options": {"temperature": 0, "num_predict": 32}'
check 'the model is shown as one that thinks' replies 200 '"capabilities":\["completion","tools","thinking"' /api/show '{"name": "thinks"}'
check 'without --pooling there are no vectors' replies 400 'start bn-serve with --pooling mean' /api/embed '{"input": "a"}'
check 'thoughts are apart from the text' replies 200 '"thinking":"[^"]' /api/chat "{$hello, \"stream\": false}"
whole=$(value 'd["message"]["thinking"], d["message"]["content"]' "$tmp/reply")
check 'also in a stream' replies 200 '"thinking":"[^"]' /api/chat "{$hello, \"think\": \"high\"}"
check 'of the same texts' lines '"".join(x["message"].get("thinking", "") for x in d) + " " + "".join(x["message"]["content"] for x in d)' "$whole"
check 'and in texts' replies 200 "\"thinking\":\"[^\"]" /api/generate "{\"prompt\": \"hello\", ${hello#*], }, \"stream\": false}"
check 'which are the same' equal "$(value 'd["thinking"], d["response"]' "$tmp/reply")" "$whole"
check 'a model may be told not to think' replies 200 '"done":true' /api/chat "{$hello, \"think\": false, \"stream\": false}"
check 'and does not' is '"thinking" in d["message"]' False
check 'its receipt states it' replies 200 'qwen35-no-think' "/v1/receipts/$(header X-BN-Receipt)" ''

# ---- calls of functions: the mark of a call is token 2040, which a bias makes the model choose ----

tools='"tools": [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters":
    {"type": "object", "properties": {"city": {"enum": ["Rome", "Paris"]}}, "required": ["city"]}}}]'
call='"options": {"temperature": 0, "num_predict": 200, "logit_bias": {"2040": 100}, "stop": ["\n<tool_call>"]}'
question='{"role": "user", "content": "What is the weather in Rome?"}'
check 'functions are a capability' replies 200 '"capabilities":\["completion","tools","thinking"' /api/show '{}'
check 'a function is called' replies 200 '"tool_calls":' /api/chat "{\"messages\": [$question], $tools, $call, \"think\": false, \"stream\": false}"
check 'with arguments that its schema permits' is 'd["message"]["content"], [(c["function"]["name"], c["function"]["arguments"]["city"] in ("Rome", "Paris")) for c in d["message"]["tool_calls"]]' \
    " [('get_weather', True)]"
check 'and the answer ends' is 'd["done_reason"]' stop
calls=$(value 'd["message"]["tool_calls"][0]["function"]' "$tmp/reply") chain=$(value 'd["bn"]["chain"]' "$tmp/reply")
check 'its receipt is served' replies 200 predicateType "/v1/receipts/$(header X-BN-Receipt)" ''
check 'and replays' "$bin/bn-verify-receipt" "$tmp/reply" --model "$tmp/thinks.gguf" --replay
check 'a call comes in one line of a stream' replies 200 "$chain" /api/chat "{\"messages\": [$question], $tools, $call, \"think\": false}"
check 'with the same arguments' lines '[x["message"]["tool_calls"][0]["function"] for x in d if "tool_calls" in x["message"]][0]' "$calls"
check 'its result is answered' replies 200 '"done":true' /api/chat "{\"messages\": [$question, {\"role\": \"assistant\", \"content\": \"\",
    \"tool_calls\": [{\"function\": {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}}]}, {\"role\": \"tool\", \"tool_name\": \"get_weather\",
    \"content\": \"It rains.\"}], $tools, \"options\": {\"num_predict\": 4}}"
check 'a schema that is not supported is refused' replies 400 '^\{"error":".*get_weather' /api/chat \
    "{\"messages\": [$question], ${tools/enum/not}, $call}"

# ---- an error in a stream: of the answers that wait for one place, while the file of the model is changed ----

cp "$model" "$tmp/changing.gguf"
defaults=(-m "$tmp/changing.gguf" --template instruct)
start --pooling mean --sequences 1 --max-queue 40
streams=()
for i in {1..12}; do
    : >"$tmp/reply$i"
    curl -sS -m 300 -N -o "$tmp/reply$i" -H 'Content-Type: application/json' "$url/api/generate" \
        -d '{"prompt": "a", "raw": true, "options": {"num_predict": 900}}' &
    streams+=($!)
done
check 'an answer runs' wait_for grep -q '"done":false' "$tmp"/reply?*
touch "$tmp/changing.gguf"
wait "${streams[@]}"
for i in {1..12}; do
    if tail -n 1 "$tmp/reply$i" | grep -q '^{"error"'; then cp "$tmp/reply$i" "$tmp/reply"; fi
done
check 'a stream ends with an error' lines 'list(d[-1]), "was changed" in d[-1]["error"]' "(['error'], True)"
check 'requests are refused after it' replies 503 '^\{"error":"the file of the model was changed' /api/embed '{"input": "a"}'
defaults=(-m "$model" --template instruct)

# ---- random requests ----

start --pooling mean --max-tokens 4
random() { python3 tests/serve/random_requests.py "$url" "$@"; }
check 'random chats' random /api/chat \
    "{\"model\": \"m\", \"messages\": $talk, $options, \"format\": {\"type\": \"object\"}, \"think\": false, \"keep_alive\": \"5m\"}" \
    '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "thinking": "t", "tool_calls":
      [{"function": {"name": "f", "arguments": {"a": 1}}}]}, {"role": "tool", "tool_name": "f", "content": "1"},
      {"role": "user", "content": "b"}], "stream": false, "options": {"stop": ["x"], "num_predict": 2}}' \
    '{"messages": [{"role": "user", "content": "a"}], "stream": false, "tools": [{"type": "function", "function":
      {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]}'
check 'random texts' random /api/generate "{\"prompt\": \"a\", \"system\": \"b\", \"stream\": true, \"context\": [], $options}" \
    '{"prompt": "ROMEO:", "raw": true, "stream": false, "format": "json"}'
check 'random texts to embed' random /api/embed '{"input": ["a", "b"], "truncate": true, "dimensions": 256}' '{"input": "a"}'
check 'and by the older address' random /api/embeddings '{"prompt": "a", "options": {}, "keep_alive": 5}'
check 'random names of models' random /api/show '{"model": "a", "verbose": true}' --n 200
check 'the server has no errors' metric_is 'bn_responses_total{status="5xx"}' 0

# A server with errors is noticed.
python3 - <<'END' >"$tmp/fault" 2>&1 &
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        size = int(self.headers["Content-Length"])
        self.send_response((200, 400, 500)[size % 3])
        self.end_headers()
        self.rfile.read(size)
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
END
fault=$!
wait_for grep -q . "$tmp/fault"
says 1 'a status of 500 is found' 'request [0-9]*: status 500' \
    python3 tests/serve/random_requests.py "http://127.0.0.1:$(head -n 1 "$tmp/fault")" / '{"prompt": "a"}' --n 50
kill "$fault"
