#!/usr/bin/env bash
# bn-run --grammar and --json-schema: complete answers are of the given form, for many schemas and seeds; what is not
# supported is named; receipts replay the grammar, and refuse an edited one. TAP on standard output.
# shellcheck disable=SC2317,SC2016 # functions are called through check; $ref is not a variable
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
model=fixtures/shakespeare-5m-i2_s.gguf
run() { "$bin/bn-run" -m "$model" -p 'ROMEO:' "$@" >"$tmp/out" 2>"$tmp/err"; }
said() { grep -qE -- "$1" "$tmp/err" || { cat "$tmp/err"; return 1; }; }

# ---- grammars ----

cat >"$tmp/list.gbnf" <<'END'
# names, with a number each
root ::= item (", " item){1,2} "."
item ::= [A-Z] [a-z]{1,5} " " [0-9]
END
run --grammar "$tmp/list.gbnf" -n 100
check 'an answer is of the grammar' grep -qE '^[A-Z][a-z]{1,5} [0-9](, [A-Z][a-z]{1,5} [0-9]){1,2}\.$' "$tmp/out"
check 'and ends with it' said 'stopped: grammar'
run --grammar "$tmp/list.gbnf" -n 3
check 'a short one says that it was cut' said 'stopped: length'
run --grammar "$tmp/list.gbnf" --temp 1.5 --seed 4 -n 100
check 'so is one that was drawn' grep -qE '^[A-Z][a-z]{1,5} [0-9](, [A-Z][a-z]{1,5} [0-9]){1,2}\.$' "$tmp/out"
for how in '--threads 1 --isa ref' '--repack always' '--speculate ngram --draft-always' '--batch 1'; do
    cp "$tmp/out" "$tmp/first"
    # shellcheck disable=SC2086 # words
    run --grammar "$tmp/list.gbnf" --temp 1.5 --seed 4 -n 100 $how
    check "the answer is the same with $how" cmp "$tmp/out" "$tmp/first"
done

run --json-schema '{"type": "integer", "minimum": 10, "maximum": 99}'
check 'a schema may be the argument itself' grep -qE '^[1-9][0-9]$' "$tmp/out"
says 4 'and is checked as a file is' '--json-schema: not JSON: .*byte 8' "$bin/bn-run" -p x --json-schema '{"type":'

# ---- limits ----

# Words of each length, each without two letters: a text can be read in very many ways.
{
    printf 'root ::= x* "~"\nx ::= '
    for i in {2..200}; do
        a=$((i % 26 + 97)) b=$((i * 7 % 26 + 97)) separator=' | '
        [ "$i" -lt 200 ] || separator=''
        printf "[^\\x$(printf %x $a)\\x$(printf %x $b)~]{%d}%s" "$i" "$separator"
    done
} >"$tmp/dear.gbnf"
says 4 'too much work on a grammar ends the text and is named' 'the grammar is over a limit of places, states or steps, after [1-9]' \
    "$bin/bn-run" -m "$model" -p x --temp 1 -n 200 --grammar "$tmp/dear.gbnf"

# ---- what is refused ----

# refuses STATUS PATTERN TEXT OPTION
refuses() {
    printf '%s' "$3" >"$tmp/bad"
    says "$1" "refused: ${3//$'\n'/ }" "$2" "$bin/bn-run" -p x "$4" "$tmp/bad"
}
refuses 4 'line 2: the rule b is not defined' $'root ::= "a"\na ::= b' --grammar
refuses 4 'the rule list begins with itself' $'root ::= list\nlist ::= list "," "a" | "a"' --grammar
refuses 4 'the rule root repeats something that may be empty' 'root ::= ("a"?)*' --grammar
refuses 4 "the type of #/properties/a is 'objekt'; it must be null, boolean, .* or object" '{"properties":{"a":{"type":"objekt"}}}' --json-schema
refuses 4 "the type of # is 'nul'" '{"type":["string","nul"]}' --json-schema
refuses 9 'the keyword "not" of #/properties/a is not supported' '{"type":"object","properties":{"a":{"not":{}}}}' --json-schema
refuses 9 '"patternProperties" of # is not supported' '{"patternProperties":{"^x":{}}}' --json-schema
refuses 9 'the keyword "format" of #/items is not one of date' '{"type":"array","items":{"type":"string","format":"iri"}}' --json-schema
refuses 9 '"uniqueItems" of # is not supported' '{"type":"array","uniqueItems":true}' --json-schema
refuses 9 '"multipleOf" of # is not supported' '{"type":"integer","multipleOf":3}' --json-schema
refuses 9 '"pattern" of # has a group that is not supported at byte 2' '{"type":"string","pattern":"^(?=a)b$"}' --json-schema
refuses 9 '"pattern" of # has an escape that is not supported' '{"type":"string","pattern":"(a)\\1"}' --json-schema
refuses 9 '"minimum" of # is supported for type "number" only when' '{"type":"number","minimum":0.5}' --json-schema
refuses 9 '"allOf" of # is supported for objects only' '{"type":"string","allOf":[{"title":"x"}]}' --json-schema
refuses 9 '"const" of # has a number that is not between -2.53 and 2.53' '{"const":12345678901234567891}' --json-schema
refuses 9 '"pattern" of # repeats something that may be empty at byte 11' '{"pattern":"^( *[a-z]*)*$"}' --json-schema
refuses 9 '"minimum" of # leaves no number' '{"type":"integer","minimum":5,"maximum":4}' --json-schema
refuses 9 'branches exclude each other; 0 and 1 do not' '{"oneOf":[{"type":"number"},{"type":"integer"}]}' --json-schema
refuses 9 '"properties" of # is not supported beside "anyOf"' '{"properties":{},"anyOf":[{}]}' --json-schema
refuses 9 '"additionalProperties" of # is not supported in "allOf"' '{"allOf":[{"additionalProperties":false},{}]}' --json-schema
refuses 9 '\$ref" of # is not a pointer inside' '{"$ref":"https://example.org/x"}' --json-schema
refuses 9 '\$ref" of # names a part that the schema does not have' '{"$ref":"#/$defs/x"}' --json-schema
refuses 9 '"\$ref" of # leads to itself' '{"$ref":"#"}' --json-schema
refuses 4 'matches no text' '{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}' --json-schema
refuses 9 'allows no value' '{"enum":[]}' --json-schema
refuses 4 'JSON' '{"type":' --json-schema
says 4 'a grammar on the command line' 'error: --grammar: .*the rule b is not defined' "$bin/bn-run" -p x --grammar 'root ::= b'
says 0 'which is obeyed' '^xxx$' "$bin/bn-run" -q -p x --grammar 'root ::= [x]{3}'
says 0 'as a schema is' '^5$' "$bin/bn-run" -q -p x --json-schema '{"const": 5}'
says 0 'in a chat, too' '^5$' "$bin/bn-run" chat -q x --json-schema '{"const": 5}'
"$bin/bn-run" chat -q x --grammar 'root ::= [x]{3}' --receipts "$tmp/chats" >"$tmp/out" 2>&1 </dev/null
status 0 'whose receipts replay' "$bin/bn-verify-receipt" --replay "$tmp/chats/0.json"
says 2 'one form at a time' 'cannot be combined' "$bin/bn-run" -p x --grammar "$tmp/bad" --json-schema "$tmp/bad"
says 3 'a grammar that is not there' 'no-such' "$bin/bn-run" -p x --grammar "$tmp/no-such"

# ---- many schemas and seeds ----

python=''
for candidate in /usr/bin/python3 python3; do
    [ -n "$python" ] || ! "$candidate" -c 'import jsonschema; jsonschema.Draft202012Validator' 2>/dev/null || python=$candidate
done
if [ -n "$python" ]; then
    "$python" tests/cli/constrain_schemas.py ask 10 >"$tmp/in"
    "$bin/bn-run" -q -m "$model" --batch-file "$tmp/in" --receipts "$tmp/receipts" >"$tmp/answers" 2>"$tmp/err"
    check 'each complete answer is valid under its schema' "$python" tests/cli/constrain_schemas.py check "$tmp/answers" 10
    "$python" tests/cli/constrain_schemas.py plant "$tmp/answers" >"$tmp/planted"
    status 1 'a bracket that was edited is found' "$python" tests/cli/constrain_schemas.py check "$tmp/planted" 10
    for i in 1 121 333; do
        status 0 "the receipt of answer $i replays it alone" "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/receipts/$i.json"
    done
else
    skip 'each complete answer is valid under its schema' 'python3-jsonschema is not installed'
fi
printf '%s\n' '"a"' '{"prompt": "b", "grammar": "root ::= [x]{3}"}' '{"prompt": "c", "json_schema": {"const": 5}}' >"$tmp/in"
"$bin/bn-run" -q -m "$model" --grammar "$tmp/list.gbnf" --batch-file "$tmp/in" -n 60 >"$tmp/out" 2>"$tmp/err"
check 'a line has the grammar of the command line' grep -qE '^.*"index":0,.*"stop":"grammar","text":"[A-Z]' "$tmp/out"
check 'or its own' grep -qE '"index":1,.*"text":"xxx"' "$tmp/out"
check 'or its own schema' grep -qE '"index":2,.*"text":"5"' "$tmp/out"
echo '{"prompt": "c", "json_schema": {"const": 5}, "grammar": "root ::= [x]"}' >"$tmp/in"
says 2 'but not both' 'line 1: .*one is allowed' "$bin/bn-run" --batch-file "$tmp/in"

# ---- receipts ----

run --grammar "$tmp/list.gbnf" -n 100 --repack always --receipt "$tmp/r.json"
status 0 'a receipt replays under its grammar' "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/r.json"
check 'and names it' grep -q '"kind": "gbnf"' "$tmp/r.json"
sed 's/{1,2} /{1,3} /' "$tmp/r.json" >"$tmp/edited.json"
status 5 'an edited grammar is refused' "$bin/bn-verify-receipt" "$tmp/edited.json"
# As its maker would: with the digests of the edited text.
if [ -n "$python" ]; then
    # reseal FILE STATEMENT: the receipt after a statement of Python on d, sealed again
    reseal() {
        "$python" - "$1" "$2" <<'END'
import hashlib, json, sys
d = json.load(open(sys.argv[1]))
g = d["predicate"]["request"]["grammar"]
sha256 = lambda text: hashlib.sha256(text.encode()).hexdigest()
exec(sys.argv[2])
d.pop("receipt_sha256")
d["receipt_sha256"] = sha256(json.dumps(d, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
print(json.dumps(d, indent=2, ensure_ascii=False))
END
    }
    reseal "$tmp/r.json" 'pass' >"$tmp/edited.json"
    status 0 'a receipt that is sealed again replays' "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/edited.json"
    reseal "$tmp/r.json" 'g["text"] = g["text"].replace("{1,2}", "{1,3}")' >"$tmp/edited.json"
    says 5 'an edited text has another digest' 'FAIL  text-digest .*request.grammar' "$bin/bn-verify-receipt" "$tmp/edited.json"
    reseal "$tmp/r.json" 'g["text"] = g["text"].replace("{1,2}", "{1,3}"); g["text_sha256"] = sha256(g["text"])' >"$tmp/edited.json"
    says 1 'with its digest it has another chain' 'FAIL  replay .*chain|FAIL  replay' "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/edited.json"
    reseal "$tmp/r.json" 'del d["predicate"]["request"]["grammar"]' >"$tmp/edited.json"
    says 1 'without the grammar the reason does not fit' 'FAIL  stop-reason' "$bin/bn-verify-receipt" "$tmp/edited.json"
fi

# ---- the server ----

server=''
finish() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
    tap_end
}
trap finish EXIT
"$bin/bn-serve" -m fixtures/shakespeare-5m-i2_s.gguf --port 0 --template instruct -t 1 >"$tmp/address" 2>"$tmp/log" &
server=$!
wait_for grep -q http "$tmp/address"
url=$(grep -oE 'http://.*' "$tmp/address")
# ask STATUS PATTERN MEMBERS: a chat with these members
ask() {
    local got most='"max_tokens": 200,'
    [[ $3 != *max_tokens* ]] || most=''
    got=$(curl -sS -m 120 -o "$tmp/reply" -D "$tmp/headers" -w '%{http_code}' -H 'Content-Type: application/json' \
        -d "{\"messages\": [{\"role\": \"user\", \"content\": \"Who?\"}], \"seed\": 3, $most $3}" "$url/v1/chat/completions")
    [ "$got" = "$1" ] && grep -qE -- "$2" "$tmp/reply" && return 0
    echo "status $got, expected $1 and $2 in:"
    cat "$tmp/reply"
    return 1
}
schema='{"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}, "s": {"enum": ["x", "y"]}}, "required": ["n", "s"]}'
check 'json_schema as OpenAI has it' ask 200 '"content":"\{ ?\\"n\\": ?[1-9], ?\\"s\\": ?\\"[xy]\\" ?\}"' \
    "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"a\", \"strict\": true, \"schema\": $schema}}"
check 'ends with the reason stop' grep -q '"finish_reason":"stop"' "$tmp/reply"
curl -sS -m 60 -o "$tmp/r.json" "$url/v1/receipts/$(sed -n 's/^X-BN-Receipt: \(.*\)\r$/\1/Ip' "$tmp/headers")"
status 0 'and its receipt replays alone' "$bin/bn-verify-receipt" --replay -m "$model" "$tmp/r.json"
check 'with the schema' grep -q '"kind": "json_schema"' "$tmp/r.json"
check 'json_object' ask 200 '"content":"\{' '"response_format": {"type": "json_object"}, "max_tokens": 12'
check 'a schema as llama-server has it' ask 200 '"content":"[1-9]"' '"json_schema": {"type": "integer", "minimum": 1, "maximum": 9}'
check 'a grammar' ask 200 '"content":"(yes|no)"' '"grammar": "root ::= \"yes\" | \"no\""'
check 'without a limit of its own' ask 200 '"content":"(yes|no)"' '"grammar": "root ::= \"yes\" | \"no\"", "n_predict": -1'
check 'streamed' ask 200 '"content":"(y|n|yes|no)"' '"grammar": "root ::= \"yes\" | \"no\"", "stream": true'
check 'an answer that is cut' ask 200 '"finish_reason":"length"' '"grammar": "root ::= \"a\"{50}", "max_tokens": 3'
check 'a keyword that is not supported is 400, with its place' \
    ask 400 'the keyword \\"not\\" of #/properties/a is not supported.*"param":"json_schema"' '"json_schema": {"properties": {"a": {"not": {}}}}'
check 'so is one of response_format' ask 400 '"param":"response_format"' \
    '"response_format": {"type": "json_schema", "json_schema": {"schema": {"contains": {}}}}'
check 'a schema that is missing' ask 400 '"param":"response_format"' '"response_format": {"type": "json_schema"}'
check 'an unknown type' ask 400 '"param":"response_format"' '"response_format": {"type": "xml"}'
check 'a grammar that is wrong' ask 400 'the rule x is not defined.*"param":"grammar"' '"grammar": "root ::= x"'
check 'a grammar of the empty text' ask 400 'empty text only.*"param":"grammar"' '"grammar": "root ::= \"\""'
check 'two forms at once' ask 400 'one is allowed' '"grammar": "root ::= [a]", "json_schema": {}'
check 'members that change nothing' ask 200 '"choices"' '"grammar": "", "json_schema": null, "response_format": {"type": "text"}, "max_tokens": 2'
