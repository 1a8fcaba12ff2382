#!/usr/bin/env bash
# bn-run chat --json: one object for each line of input, answers with their evidence, errors, options of one turn. TAP on
# standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
if ! command -v python3 >/dev/null; then
    skip "turns in JSON" "python3 is not installed"
    exit 0
fi
model=fixtures/shakespeare-5m-i2_s.gguf
# chat INPUT ARGUMENTS...: leaves $status, $tmp/out and $tmp/err.
chat() {
    printf '%b' "$1" | BN_MODEL=$model "$bin/bn-run" chat --json "${@:2}" >"$tmp/out" 2>"$tmp/err"
    status=$?
}
# holds CONDITION: of the list of objects that came out, o.
holds() {
    python3 -c 'import json, sys
o = [json.loads(line) for line in open(sys.argv[1])]
if not eval(sys.argv[2]): sys.exit(f"not {sys.argv[2]}: {o}")' "$tmp/out" "$1"
}
ended() { [ "$status" -eq "$1" ] || { echo "status $status, not $1"; cat "$tmp/out" "$tmp/err"; return 1; }; }

chat 'hello\n{"content": "world", "id": 7}\n' -n 6 --receipts "$tmp/receipts"
check 'a line of text and an object are turns' holds '[x["turn"] for x in o] == [1, 2]'
check 'each with its text, tokens and end' holds 'all(x["text"] and len(x["ids"]) == 6 and x["stop"] == "length" for x in o)'
check 'and its times' holds 'all(x["total_ns"] >= x["decode_ns"] > 0 for x in o)'
check 'the id of an object comes back' holds '"id" not in o[0] and o[1]["id"] == 7'
check 'the second turn reuses the first one' holds 'o[1]["cached_tokens"] > 0'
chain() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["predicate"]["result"]["chain"])' "$1"; }
check 'the chain is that of the receipt' holds "[x['chain'] for x in o] == ['$(chain "$tmp/receipts/0.json")', '$(chain "$tmp/receipts/1.json")']"
check 'whose prompt is the whole conversation' python3 -c 'import hashlib, json, sys
o = [json.loads(line) for line in open(sys.argv[1])]
text = "hello\n" + o[0]["text"] + "\nworld"
assert hashlib.sha256(text.encode()).hexdigest() == json.load(open(sys.argv[2]))["predicate"]["request"]["prompt_sha256"]' \
    "$tmp/out" "$tmp/receipts/1.json"
check 'which can be replayed' "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/receipts/1.json"
cp "$tmp/out" "$tmp/json"
printf 'hello\nworld\n' | "$bin/bn-run" chat -q -m "$model" -n 6 >"$tmp/plain"
check 'the texts are those without --json' equal \
    "$(python3 -c 'import json, sys
for line in open(sys.argv[1]): print(json.loads(line)["text"])' "$tmp/json")" "$(cat "$tmp/plain")"
chat '{"content": "hello", "temperature": 1, "seed": 3, "n_predict": 9}\nhello\n' -n 4
check 'an object has options for its own turn' holds '[(len(x["ids"]), x["seed"]) for x in o] == [(9, 3), (4, 42)]'
chat '{"content": "", "id": 1}\n{"content": "hello", "n_predict": -1}\n' --ctx 20 -n 2
check 'an object without text before any other is an error' holds 'o[0]["error"]["exit"] == 2 and o[0]["id"] == 1'
check 'the next one is answered, as long as n_predict allows' holds 'o[1]["turn"] == 1 and len(o[1]["ids"]) > 2'
chat '/system Be brief.\n{"content": "/bye"}\n/undo\n/bye\nhello\n' -n 4
check 'a command gives an object' holds 'o[0] == {"command": "/system Be brief."} and o[2] == {"command": "/undo"}'
check 'the content of an object is never a command' holds 'o[1]["turn"] == 1'
check '/bye ends' holds 'len(o) == 4'
chat 'hello\n/regen\n' -n 4 --temp 1
check '/regen gives an answer' holds 'o[1]["turn"] == 1 and o[1]["seed"] == o[0]["seed"] + 1'
bad='{"content": 3}\n{"contents": "x"}\n{"content": "x", "top_p": 2, "id": "a"}\n{"content"\n/foo\n{}\n'
chat "${bad}hello\n" -n 2
check 'what is wrong gives an error each' holds 'all("error" in x for x in o[:6]) and len(o) == 7'
check 'with a message and an exit code' holds 'all(x["error"]["message"] and x["error"]["exit"] > 1 for x in o[:6])'
check 'and the id of its object' holds 'o[2]["id"] == "a"'
check 'the next turn is answered' holds 'o[6]["turn"] == 1'
check 'the exit status is that of the last error' ended 4
words='one two three four five six seven eight nine ten'
chat "$words\n$words\n$words\n$words\n" --ctx 64 -n 2
check 'dropped turns are counted' holds 'o[3]["dropped_turns"] > 0 and "dropped_turns" not in o[0]'
chat "$words $words $words $words $words $words\n" --ctx 64 -n 2
check 'a message that is too long is an error' holds 'o[0]["error"]["status"] == "limit" and "too long" in o[0]["error"]["message"]'
model=$tmp/none.gguf chat ''
check 'a program that cannot start prints its error as JSON' holds 'o[0]["schema"] == "bn.error/1"'
check 'and ends with it' ended 3
chat 'hello\n' -q -n 2 </dev/null
check 'nothing else is printed' equal "$(wc -l <"$tmp/out") $(cat "$tmp/err")" '1 '
