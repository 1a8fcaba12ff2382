#!/usr/bin/env bash
# bn-serve: OpenAI's /v1/responses without its client: items, the order of the events, what is refused, conversations that are
# kept for each key, their bound, receipts. tests/serve/openai.mjs has the client. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh
R=/v1/responses
key=0123456789abcdef-key
other_key=fedcba9876543210-key
same='"max_output_tokens": 8, "seed": 5, "temperature": 0.7'
chat='"max_tokens": 8, "seed": 5, "temperature": 0.7'
chain_of_chat() { ask /v1/chat/completions "{\"messages\": [$1], $chat}" >"$tmp/status"; value 'd["choices"][0]["bn"]["chain"]' "$tmp/reply"; }
chain_of() { ask $R "{\"input\": $1, $same}" >"$tmp/status"; value 'd["bn"]["chain"]' "$tmp/reply"; }

start --receipts "$tmp/receipts" --max-body 2M

# ---- answers ----

check 'a text is answered' replies 200 '"object":"response"' $R "{\"input\": \"Who is there?\", $same, \"metadata\": {\"a\": \"b\"}}"
cp "$tmp/reply" "$tmp/first"
id=$(value 'd["id"]' "$tmp/first")
check 'the response repeats its request' equal \
    "$(value 'd["metadata"], d["max_output_tokens"], d["temperature"], d["tool_choice"], d["tools"], d["store"], d["error"], d["instructions"]' "$tmp/first")" \
    "{'a': 'b'} 8 0.7 auto [] True None None"
check 'it has one message' equal "$(value '[(i["type"], i["role"], i["content"][0]["type"], i["status"]) for i in d["output"]]' "$tmp/first")" \
    "[('message', 'assistant', 'output_text', 'incomplete')]"
check 'which was cut' equal "$(value 'd["status"], d["incomplete_details"]["reason"], d["bn"]["end"]' "$tmp/first")" \
    'incomplete max_output_tokens length'
check 'no thoughts have no tokens' equal "$(value 'd["usage"]["output_tokens"], d["usage"]["output_tokens_details"]["reasoning_tokens"]' "$tmp/first")" '8 0'
check 'a chat with the same message has the same chain' equal "$(chain_of_chat '{"role": "user", "content": "Who is there?"}')" \
    "$(value 'd["bn"]["chain"]' "$tmp/first")"
check 'so has the message as an item' equal "$(chain_of '[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Who "}, {"type": "input_text", "text": "is there?"}]}]')" \
    "$(value 'd["bn"]["chain"]' "$tmp/first")"
check 'instructions are a message of the system' replies 200 '"instructions":"Be short."' $R "{\"input\": \"Who?\", \"instructions\": \"Be short.\", $same}"
check 'which a chat has, too' equal "$(value 'd["bn"]["chain"]' "$tmp/reply")" \
    "$(chain_of_chat '{"role": "system", "content": "Be short."}, {"role": "user", "content": "Who?"}')"
check 'thoughts that come back are those of the message after them' equal \
    "$(chain_of '[{"role": "user", "content": "a"}, {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]')" \
    "$(chain_of_chat '{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "t"}, {"role": "user", "content": "c"}')"
check 'encrypted thoughts are left out' equal \
    "$(chain_of '[{"role": "user", "content": "a"}, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]')" \
    "$(chain_of_chat '{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}')"
ask "/v1/receipts/$(value 'd["bn"]["receipt"]' "$tmp/first")" '' >"$tmp/status"
check 'the receipt replays' "$bin/bn-verify-receipt" "$tmp/reply" --model "$model" --replay
check 'an object' replies 200 '"status":"completed"' $R '{"input": "a", "max_output_tokens": 300, "seed": 1,
    "text": {"format": {"type": "json_schema", "name": "x", "strict": true, "schema": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 5}}, "required": ["n"], "additionalProperties": false}}}}'
check 'that its schema describes' equal "$(value '1 <= json.loads(d["output"][0]["content"][0]["text"])["n"] <= 5' "$tmp/reply")" True
turns=$(printf '{"role": "user", "content": "the king and the queen and all of us are here"}, {"role": "assistant", "content": "so"}, %.0s' $(seq 120))
check 'a conversation that is too long is refused' replies 400 '"param":"input"' $R "{\"input\": [$turns{\"role\": \"user\", \"content\": \"a\"}], $same}"
check 'or loses its beginning, when that is asked for' replies 200 '"dropped_turns":[0-9]' $R \
    "{\"input\": [$turns{\"role\": \"user\", \"content\": \"a\"}], $same, \"truncation\": \"auto\"}"

# ---- what is refused ----

while IFS='|' read -r name pattern members; do
    check "$name is refused by name" replies 400 "$pattern" $R "{$members}"
done <<'REFUSED'
no input|input is missing|"model": "x"
an empty input|"param":"input"|"input": []
a number as the input|"param":"input"|"input": 5
an image|part of type input_image|"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]
a sound|part of type input_audio|"input": [{"role": "user", "content": [{"type": "input_audio", "data": "x"}]}]
a file|part of type input_file|"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]
an unknown item|item of the type .+item_reference|"input": [{"type": "item_reference", "id": "msg_1"}]
an unknown role|a role other than|"input": [{"role": "wizard", "content": "a"}]
web search|the type .+web_search|"input": "a", "tools": [{"type": "web_search"}]
a function without a name|"param":"tools"|"input": "a", "tools": [{"type": "function"}]
a choice without functions|"param":"tool_choice"|"input": "a", "tool_choice": "required"
a strange choice|"param":"tool_choice"|"input": "a", "tool_choice": {"type": "file_search"}
work in the background|"param":"background"|"input": "a", "background": true
a conversation of the server|"param":"conversation"|"input": "a", "conversation": "conv_1"
a template of the server|"param":"prompt"|"input": "a", "prompt": {"id": "p"}
a strange form|"param":"text.format"|"input": "a", "text": {"format": {"type": "xml"}}
a form without a schema|"param":"text.format"|"input": "a", "text": {"format": {"type": "json_schema", "name": "x"}}
a strange schema|"param":"text.format"|"input": "a", "text": {"format": {"type": "json_schema", "schema": {"type": "strange"}}}
no tokens|"param":"max_output_tokens"|"input": "a", "max_output_tokens": 0
a text as stream|"param":"stream"|"input": "a", "stream": "yes"
metadata as a list|"param":"metadata"|"input": "a", "metadata": ["b"]
a number in metadata|"param":"metadata"|"input": "a", "metadata": {"a": 1}
instructions as a list|"param":"instructions"|"input": "a", "instructions": ["b"]
REFUSED
letters() { printf "%$1s" '' | sed 's/ /é/g'; }
check 'metadata has texts of 512 characters' replies 200 '"metadata":.+é' $R "{\"input\": \"a\", $same, \"metadata\": {\"a\": \"$(letters 512)\"}}"
check 'and no longer ones' replies 400 '"param":"metadata"' $R "{\"input\": \"a\", $same, \"metadata\": {\"a\": \"$(letters 513)\"}}"
check 'and at most 16' replies 400 '"param":"metadata"' $R "{\"input\": \"a\", $same, \"metadata\": {$(printf '"%s": "", ' {1..16})\"a\": \"\"}}"
check 'members that change nothing are accepted' replies 200 '"object":"response"' $R \
    "{\"input\": \"a\", $same, \"background\": false, \"conversation\": null, \"include\": [\"reasoning.encrypted_content\"], \"top_logprobs\": 0,
      \"service_tier\": \"auto\", \"prompt_cache_key\": \"k\", \"reasoning\": {\"effort\": \"minimal\"}, \"text\": {\"verbosity\": \"low\"}, \"unknown\": {}}"

# ---- events ----

events() { python3 tests/serve/response_events.py "$1"; }
ask $R "{\"input\": \"Who is there?\", $same, \"stream\": true}" >"$tmp/status"
cp "$tmp/reply" "$tmp/stream"
order='created in_progress output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done'
check 'events are named, numbered and in their order' equal "$(events "$tmp/stream")" \
    "$order incomplete $(value 'd["bn"]["chain"]' "$tmp/first")"
check 'a stream has its type' equal "$(header Content-Type)" 'text/event-stream; charset=utf-8'
grep -v 'output_text.done' "$tmp/stream" >"$tmp/damaged"
status 1 'an event that is missing is seen' events "$tmp/damaged"
ask $R '{"input": "a", "text": {"format": {"type": "json_schema", "schema": {"const": 7}}}, "stream": true}' >"$tmp/status"
check 'a whole answer is completed' equal "$(events "$tmp/reply" | cut -d' ' -f 1-9)" "$order completed"

# ---- conversations ----

text=$(value 'json.dumps(d["output"][0]["content"][0]["text"])' "$tmp/first")
all="{\"role\": \"user\", \"content\": \"Who is there?\"}, {\"role\": \"assistant\", \"content\": $text}, {\"role\": \"user\", \"content\": \"And?\"}"
check 'a response goes on with a past one' replies 200 "\"previous_response_id\":\"$id\"" $R "{\"input\": \"And?\", \"previous_response_id\": \"$id\", $same}"
check 'as a chat with all messages' equal "$(value 'd["bn"]["chain"]' "$tmp/reply")" "$(chain_of_chat "$all")"
streamed=$(grep -oE 'resp_[0-9a-f]+' "$tmp/stream" | head -1)
check 'and with one that was streamed' replies 200 '"object":"response"' $R "{\"input\": \"And?\", \"previous_response_id\": \"$streamed\", $same}"
check 'a past response is served' replies 200 "\"id\":\"$id\"" "$R/$id" ''
check 'as it was' cmp "$tmp/reply" "$tmp/first"
check 'it is removed' replies 200 '"deleted":true' "$R/$id" '' -X DELETE
check 'once' replies 404 'no such response' "$R/$id" '' -X DELETE
check 'then it is gone' replies 404 'no such response' "$R/$id" ''
check 'nothing goes on with it' replies 404 '"code":"previous_response_not_found"' $R "{\"input\": \"a\", \"previous_response_id\": \"$id\", $same}"
for name in '"resp_"' '"resp_0"' '""' 5 '{}'; do
    check "nor with $name" replies 404 '"param":"previous_response_id"' $R "{\"input\": \"a\", \"previous_response_id\": $name, $same}"
done
check 'it cannot be changed' replies 405 'takes GET, HEAD, DELETE' "$R/$id" '{}'
check 'other addresses cannot be removed' replies 405 'takes GET, HEAD"' /v1/models '' -X DELETE
ask $R "{\"input\": \"a\", \"store\": false, $same}" >"$tmp/status"
check 'what shall not be stored is not' replies 404 'no such response' "$R/$(value 'd["id"]' "$tmp/reply")" ''

# ---- functions ----

tools='[{"type": "function", "name": "get_weather", "description": "The weather.", "strict": true, "parameters": {"type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": false}}]'
of_chat=$(python3 -c 'import json, sys
print(json.dumps([{"type": "function", "function": {k: v for k, v in t.items() if k != "type"}} for t in json.loads(sys.argv[1])]))' "$tools")
asked='"seed": 5, "temperature": 0.7, "tool_choice": "required", "parallel_tool_calls": false'
check 'a function is called' replies 200 '"type":"function_call"' $R "{\"input\": \"Who is there?\", \"max_output_tokens\": 200, $asked, \"tools\": $tools}"
cp "$tmp/reply" "$tmp/call"
check 'with arguments of its schema' equal \
    "$(value '(lambda i, a: [i["status"], i["name"], len(a["city"]) <= 12, 1 <= a["days"] <= 9, sorted(a), len(d["output"])])(d["output"][0], json.loads(d["output"][0]["arguments"]))' "$tmp/call")" \
    "['completed', 'get_weather', True, True, ['city', 'days'], 1]"
ask "/v1/receipts/$(value 'd["bn"]["receipt"]' "$tmp/call")" '' >"$tmp/status"
check 'its receipt replays' "$bin/bn-verify-receipt" "$tmp/reply" --model "$model" --replay
ask /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": \"Who is there?\"}], \"max_tokens\": 200, $asked, \"tools\": $of_chat}" >"$tmp/status"
check 'a chat with the same function has the same chain' equal "$(value 'd["choices"][0]["bn"]["chain"]' "$tmp/reply")" "$(value 'd["bn"]["chain"]' "$tmp/call")"
ask $R "{\"input\": \"Who is there?\", \"max_output_tokens\": 200, $asked, \"tools\": $tools, \"stream\": true}" >"$tmp/status"
check 'its events are in their order' equal "$(events "$tmp/reply")" \
    "created in_progress output_item.added function_call_arguments.delta function_call_arguments.done output_item.done completed $(value 'd["bn"]["chain"]' "$tmp/call")"
result="{\"type\": \"function_call_output\", \"call_id\": \"$(value 'd["output"][0]["call_id"]' "$tmp/call")\", \"output\": \"rain\"}"
check 'its result comes back' replies 200 '"type":"message"' $R \
    "{\"input\": [$result], \"previous_response_id\": \"$(value 'd["id"]' "$tmp/call")\", \"tools\": $tools, \"tool_choice\": \"none\", $same}"
value 'd["bn"]["chain"]' "$tmp/reply" >"$tmp/chain"
items=$(value 'json.dumps(d["output"])[1:-1]' "$tmp/call")
check 'as with all items' replies 200 '"type":"message"' $R "{\"input\": [{\"role\": \"user\", \"content\": \"Who is there?\"}, $items, $result], \"tools\": $tools, \"tool_choice\": \"none\", $same}"
check 'to the same chain' equal "$(value 'd["bn"]["chain"]' "$tmp/reply")" "$(cat "$tmp/chain")"

# 60 of 1.5 MB are more than the 64 MiB that are kept.
ask $R "{\"input\": \"a\", $same}" >"$tmp/status"
oldest=$(value 'd["id"]' "$tmp/reply")
printf '{"input": "b", "max_output_tokens": 1, "user": "%01500000d"}' 0 >"$tmp/large"
for ((i = 0; i < 60; i++)); do ask $R "@$tmp/large" >"$tmp/status"; done
check 'the newest ones are kept' replies 200 '"object":"response"' "$R/$(value 'd["id"]' "$tmp/reply")" ''
check 'the oldest ones go' replies 404 'no such response' "$R/$oldest" ''
stop_server

# ---- keys ----

printf '%s\n%s\n' "$key" "$other_key" >"$tmp/keys"
start --api-key-file "$tmp/keys" --max-body 2M
mine=(-H "Authorization: Bearer $key")
theirs=(-H "Authorization: Bearer $other_key")
check 'a response needs a key' replies 401 authentication_error $R "{\"input\": \"a\", $same}"
ask $R "{\"input\": \"a\", $same}" "${mine[@]}" >"$tmp/status"
id=$(value 'd["id"]' "$tmp/reply")
check 'its key has it' replies 200 "\"id\":\"$id\"" "$R/$id" '' "${mine[@]}"
check 'another key does not' replies 404 'no such response' "$R/$id" '' "${theirs[@]}"
check 'nor goes on with it' replies 404 previous_response_not_found $R "{\"input\": \"a\", \"previous_response_id\": \"$id\", $same}" "${theirs[@]}"
check 'nor removes it' replies 404 'no such response' "$R/$id" '' -X DELETE "${theirs[@]}"
check 'its key goes on with it' replies 200 previous_response_id $R "{\"input\": \"a\", \"previous_response_id\": \"$id\", $same}" "${mine[@]}"
for ((i = 0; i < 40; i++)); do ask $R "@$tmp/large" "${theirs[@]}" >"$tmp/status"; done
check 'what another key keeps does not push it out' replies 200 "\"id\":\"$id\"" "$R/$id" '' "${mine[@]}"
stop_server

# ---- an end in the middle ----

start --sequences 1 --grace 60s --max-body 4K
long="{\"input\": \"$(printf 'the king and %.0s' {1..230})\", \"truncation\": \"auto\", $same}"
ask $R "$long" >"$tmp/status"
check 'a conversation goes on' replies 200 '"object":"response"' $R "${long%\}}, \"previous_response_id\": \"$(value 'd["id"]' "$tmp/reply")\"}"
check 'until it is larger than a body may be' replies 400 'more than 4096 bytes .*"param":"previous_response_id"' $R \
    "{\"input\": \"a\", \"previous_response_id\": \"$(value 'd["id"]' "$tmp/reply")\", $same}"
# One at a time: of 24 that were accepted most wait.
curl -sS -N -m 300 -Z --parallel-immediate --parallel-max 24 -o "$tmp/waits.#1" -H 'Content-Type: application/json' \
    -d '{"input": "a", "max_output_tokens": 900, "stream": true}' "$url$R?[1-24]" &
asking=$!
accepted() { equal "$(cat "$tmp"/waits.* | grep -c '^event: response.in_progress')" 24; }
wait_for accepted
kill "$server"
wait "$asking"
failed=$(grep -l '^event: error' "$tmp"/waits.* | head -1)
check 'a response that fails has both events' equal "$(sed -n 's/^event: //p' "$failed" | xargs)" 'response.created response.in_progress error response.failed'
check 'which say why' equal "$(sed -n 's/^data: //p' "$failed" | tail -2 | grep -c 'the server is stopping')" 2
check 'each one ends' equal "$(cat "$tmp"/waits.* | grep -cE '^event: response.(completed|incomplete|failed)')" 24
stop_server

# ---- thoughts ----

marks=('2041=<|im_start|>' '2042=<|im_end|>' '2043=<|endoftext|>' '2044=<think>' '288=</think>')
think="{{ '<|im_start|>' }}{% if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{% else %}{{- '<think>\\n' }}"
python3 tests/cli/edit_vocabulary.py "$model" "$tmp/thinks.gguf" qwen2 "$think" "${marks[@]}"
defaults=(-m "$tmp/thinks.gguf")
start
check 'a model thinks' replies 200 '"type":"reasoning"' $R '{"input": "hello", "temperature": 0, "max_output_tokens": 60}'
cp "$tmp/reply" "$tmp/thought"
check 'before it answers' equal "$(value '[(i["type"], i["status"], i["content"][0]["type"]) for i in d["output"]]' "$tmp/thought")" \
    "[('reasoning', 'completed', 'reasoning_text'), ('message', 'completed', 'output_text')]"
ask "/v1/receipts/$(value 'd["bn"]["receipt"]' "$tmp/thought")" '' >"$tmp/status"
check 'the tokens of its thoughts are those before the mark' equal "$(value 'd["usage"]["output_tokens_details"]["reasoning_tokens"]' "$tmp/thought")" \
    "$(value 'd["predicate"]["result"]["ids"].index(288)' "$tmp/reply")"
ask $R '{"input": "hello", "temperature": 0, "max_output_tokens": 60, "stream": true}' >"$tmp/status"
check 'its events are in their order' equal "$(events "$tmp/reply")" "created in_progress output_item.added content_part.added reasoning_text.delta reasoning_text.done content_part.done output_item.done \
output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done completed $(value 'd["bn"]["chain"]' "$tmp/thought")"
check 'it does not when it shall not' replies 200 '"reasoning_tokens":0' $R '{"input": "hello", "temperature": 0, "max_output_tokens": 9, "reasoning": {"effort": "minimal"}}'
check 'then there is a message only' equal "$(value '[i["type"] for i in d["output"]]' "$tmp/reply")" "['message']"
ask $R "{\"input\": \"And?\", \"previous_response_id\": \"$(value 'd["id"]' "$tmp/thought")\", $same}" >"$tmp/status"
chain=$(value 'd["bn"]["chain"]' "$tmp/reply")
check 'a conversation goes on with the thoughts' equal "$(chain_of_chat "$(value 'json.dumps([{"role": "user", "content": "hello"}, {"role": "assistant", "reasoning_content": d["output"][0]["content"][0]["text"],
    "content": d["output"][1]["content"][0]["text"]}, {"role": "user", "content": "And?"}])[1:-1]' "$tmp/thought")")" "$chain"
defaults=(-m "$model" --template instruct)

# ---- any bytes ----

start --max-tokens 4
# PATH BODY...: a thousand requests to another address
random() {
    check "no random request to $1 is an error of the server" timeout 500 \
        python3 tests/serve/random_requests.py "$url" "$@"
}
TOOL='{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
random /v1/messages '{"max_tokens": 4, "system": "a", "messages": [{"role": "user", "content": "b"}], "stop_sequences": ["c"]}' \
    '{"max_tokens": 4, "stream": true, "thinking": {"type": "disabled"}, "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "b", "signature": ""},
            {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "d"}]}]}],
      "tools": [{"name": "f", "input_schema": '"$TOOL"'}], "tool_choice": {"type": "any"}}'
random /v1/completions '{"prompt": "a", "max_tokens": 4, "logprobs": 2, "n": 2, "logit_bias": {"5": 1}, "stop": ["b"]}' \
    '{"prompt": [[1, 2], [3]], "max_tokens": 4, "stream": true, "presence_penalty": 0.5, "json_schema": '"$TOOL"'}'
random /v1/chat/completions '{"messages": [{"role": "user", "content": "a"}], "max_tokens": 4, "truncation": "auto"}' \
    '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"id": "b", "type": "function",
        "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "b", "content": "c"}], "max_tokens": 4,
      "stream": true, "tools": [{"type": "function", "function": {"name": "f", "parameters": '"$TOOL"'}}], "tool_choice": "required"}'
check 'no random request is an error of the server' timeout 500 python3 tests/serve/random_requests.py "$url" $R \
    '{"input": "Who is there?", "temperature": 0.5, "stream": true, "metadata": {"a": "b"}}' \
    '{"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "c"}]}, {"role": "user", "content": "d"}], "instructions": "e",
      "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}}}' \
    '{"input": [{"role": "user", "content": "a"}, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "b"}], "tool_choice": "auto", "truncation": "auto", "store": false,
      "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]}'
