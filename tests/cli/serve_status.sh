#!/usr/bin/env bash
# What the pages of bn-serve ask for, by curl: the replay of receipts, of changed ones too, /v1/status, /v1/benchmarks and
# reports. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh
# shellcheck disable=SC2034 # read by start
defaults=()
key=0123456789abcdef-key
other_key=fedcba9876543210-key
# change NAME PYTHON: a receipt in its file; d is the statement, p its predicate. Its digest of itself is made again.
change() {
    python3 - "$tmp/receipts/$1.json" "$2" <<'END'
import hashlib, json, sys
path, code = sys.argv[1:]
d = json.load(open(path))
p = d["predicate"]
exec(code)
del d["receipt_sha256"]
canonical = json.dumps(d, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
d["receipt_sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
json.dump(d, open(path, "w"))
END
}

# ---- replay ----

start --template instruct --receipts "$tmp/receipts" --sequences 2 --max-queue 2
request='{"prompt": "ROMEO:", "max_tokens": 24, "temperature": 0.8, "top_k": 40, "seed": 7}'
check 'an answer' replies 200 text_completion /v1/completions "$request"
name=$(header X-BN-Receipt)
text=$(value 'd["choices"][0]["text"]' "$tmp/reply")
check 'its receipt replays' replies 200 '"verified":true' "/v1/receipts/$name/replay" '{}'
check 'all of it' equal "$(value 'd["tokens"], d["chain"], d["reason"], d["receipt"]' "$tmp/reply")" "24 True None $name"
check 'to the same text' equal "$(value 'd["text"]' "$tmp/reply")" "$text"
check 'a replay has no receipt' equal "$(header X-BN-Receipt)" ''
check 'nothing is needed in the body' replies 200 '"verified":true' "/v1/receipts/$name/replay" '' -X POST
check 'a chat with a stop text' replies 200 chat.completion /v1/chat/completions \
    '{"messages": [{"role": "user", "content": "Who?"}], "max_tokens": 60, "seed": 3, "stop": ["\n\n"]}'
check 'replays too' replies 200 '"verified":true' "/v1/receipts/$(header X-BN-Receipt)/replay" '{}'
check 'another method is 405' replies 405 'takes POST' "/v1/receipts/$name/replay" ''
check 'an unknown receipt is 404' replies 404 'no such receipt' /v1/receipts/0123/replay '{}'
check 'so is a long name' replies 404 'no such receipt' "/v1/receipts/$(printf '%0200d' 0)/replay" '{}'
check 'so is a path' replies 404 'no such receipt' '/v1/receipts/../../etc/passwd/replay' '{}' --path-as-is
# changed TITLE PATTERN PYTHON: a changed receipt is not verified, for this reason
changed() {
    cp "$tmp/receipts/$name.json" "$tmp/good"
    change "$name" "$3"
    check "$1" replies 200 '"verified":false' "/v1/receipts/$name/replay" '{}'
    check "$1: the reason is named" grep -qE -- "$2" "$tmp/reply"
    cp "$tmp/good" "$tmp/receipts/$name.json"
}
changed 'a receipt with another seed is not verified' 'token [0-9]+ is [0-9]+ here' 'p["request"]["seed"] = 8'
changed 'with another token' 'token 23 is [0-9]+ here' 'p["result"]["ids"][-1] ^= 1'
changed 'with a token less' 'more tokens' 'p["result"]["ids"].pop()'
changed 'with another chain' 'the chain of digests differs' 'p["result"]["chain"] = "0" * 64'
changed 'with another prompt' 'tokens are not those of request' 'p["request"]["prompt_ids"][-1] += 1'
changed 'with a token that does not exist' 'token 0 has the id 99999999' 'p["request"]["prompt_ids"][0] = 99999999'
changed 'with a prompt longer than the context' 'tokens are not those of request' 'p["request"]["prompt_ids"] *= 2000'
changed 'of another model' 'the model has sha256' 'p["model"]["sha256"] = "0" * 64'
changed 'without a seed' 'missing or malformed' 'del p["request"]["seed"]'
sed -i 's/"seed": 7/"seed": 8/' "$tmp/receipts/$name.json"
check 'one that was edited by hand is refused' replies 200 'the receipt was changed' "/v1/receipts/$name/replay" '{}'
cp "$tmp/good" "$tmp/receipts/$name.json"
check 'the right one still replays' replies 200 '"verified":true' "/v1/receipts/$name/replay" '{}'
curl -sS -m 300 -o "$tmp/full" -H 'Content-Type: application/json' "$url/v1/completions" -d '{"prompt": ["a", "b", "c", "d"], "max_tokens": 1000}' &
busy=$!
is_full() { [ "$(curl -sS -m 60 "$url/v1/status" | grep -oE '"(running|waiting)":[1-9]' | wc -l)" -gt 0 ]; }
check 'the server is busy' wait_for is_full
refused() {
    replies 429 queue_full "/v1/receipts/$name/replay" '{}' || replies 200 '"verified":true' "/v1/receipts/$name/replay" '{}'
}
check 'a replay waits in the queue, or is refused when it is full' refused
wait "$busy"

# ---- status ----

check 'the status' replies 200 '"object":"bn.status"' /v1/status ''
cp "$tmp/reply" "$tmp/status"
check 'counts tokens' test "$(value 'd["counters"]["generated_tokens"]' "$tmp/status")" -ge 4072
check 'all jobs have ended' equal "$(value 'd["queue"]["running"], d["queue"]["waiting"], d["counters"]["jobs"] - d["counters"]["jobs_ended"], d["sequences"]' "$tmp/status")" '0 0 0 []'
check 'percentiles are in order' equal \
    "$(value '[l["p50"] <= l["p95"] <= l["p99"] <= l["max"] for l in d["latency_s"].values()]' "$tmp/status")" '[True, True, True]'
check 'the last requests are listed, the newest first' equal \
    "$(value 'd["requests"][0]["number"] - d["requests"][-1]["number"] == len(d["requests"]) - 1, {r["client"] for r in d["requests"]}' "$tmp/status")" 'True {1}'
check 'replays among them' equal "$(value '"replay" in {r["end"] for r in d["requests"]}' "$tmp/status")" True
check 'without keys no receipt is named' equal "$(value '{r["receipt"] for r in d["requests"]}' "$tmp/status")" '{None}'
check 'memory is known' test "$(value 'd["memory_bytes"]["resident"]' "$tmp/status")" -gt 1000000
curl -sS -m 300 -N -o /dev/null -H 'Content-Type: application/json' "$url/v1/completions" -d '{"prompt": "a", "max_tokens": 1000, "n": 2, "stream": true}' &
busy=$!
seen() { curl -sS -m 60 "$url/v1/status" >"$tmp/status" && grep -q '"state":"answer"' "$tmp/status"; }
check 'is seen while it runs' wait_for seen
check 'with its place and its tokens' equal \
    "$(value '[abs(s["prompt_tokens"] + s["generated_tokens"] - 1 - s["position"]) <= 1 and s["most_tokens"] == 1000 and s["sequence"] < 2 for s in d["sequences"]][0]' "$tmp/status")" True
wait "$busy"

# Tokens of prompts count when they are evaluated, not at the end of the answer: those of the answers that run are in.
start --sequences 2
curl -sS -m 300 -o "$tmp/answers" -H 'Content-Type: application/json' "$url/v1/completions" \
    -d '{"prompt": "And the king of the house said", "max_tokens": 1000, "n": 8}' &
busy=$!
check 'answers are seen while they run' wait_for seen
wait "$busy"
prompt=$(value 'd["usage"]["prompt_tokens"]' "$tmp/answers")
check 'the tokens of their prompts count already' equal \
    "$(value "d['counters']['prompt_tokens'] >= $prompt * (d['counters']['generations'] + sum(s['state'] == 'answer' for s in d['sequences']))" "$tmp/status")" True
check 'in the end' replies 200 '"object":"bn.status"' /v1/status ''
check 'all count once' equal "$(value "d['counters']['prompt_tokens'], d['counters']['evaluated_tokens'] - (d['counters']['prompt_tokens'] - d['counters']['cached_tokens']) - (d['counters']['generated_tokens'] - 8)" "$tmp/reply")" "$((8 * prompt)) 0"
check 'an answer up to the end of the context' replies 200 '"end":"context"' /v1/completions '{"prompt": "a", "max_tokens": 5000}'
check 'is listed as such' replies 200 '"end":"context"' /v1/status ''
check 'no folder of benchmarks' replies 404 'dashboard FOLDER' /v1/benchmarks ''
check 'and no reports' replies 404 'no such report' /dashboard/reports/0 ''

# ---- keys ----

printf '%s\n%s\n' "$key" "$other_key" >"$tmp/keys"
start --template instruct --api-key-file "$tmp/keys" --receipts "$tmp/receipts"
for path in / /dashboard; do check "$path needs no key" replies 200 '<!DOCTYPE html>' "$path" ''; done
check 'the status does' replies 401 'no key' /v1/status ''
check 'an answer' replies 200 text_completion /v1/completions "$request" -H "X-Api-Key: $key"
name=$(header X-BN-Receipt)
check 'a replay needs the key' replies 401 'no key' "/v1/receipts/$name/replay" '{}'
check 'of the same client' replies 404 'no such receipt' "/v1/receipts/$name/replay" '{}' -H "X-Api-Key: $other_key"
check 'then it is verified' replies 200 '"verified":true' "/v1/receipts/$name/replay" '{}' -H "X-Api-Key: $key"
check 'others see the numbers of a request' replies 200 '"client":1' /v1/status '' -H "X-Api-Key: $other_key"
lacks 'and not its receipt' "$name" cat "$tmp/reply"
check 'its owner does' replies 200 "$name" /v1/status '' -H "X-Api-Key: $key"

# ---- benchmarks ----

mkdir -p "$tmp/bench/sub/deep/deeper" "$tmp/bench/.hidden"
"$bin/bn-bench" run -p 0 -n 2 -r 1 -t 1 --json >"$tmp/bench/a.json" 2>"$tmp/log"
"$bin/bn-bench" report --format html "$tmp/bench/a.json" >"$tmp/bench/report.html" 2>>"$tmp/log"
echo '# A note' >"$tmp/bench/note.md"
echo '<svg xmlns="http://www.w3.org/2000/svg"/>' >"$tmp/bench/sub/deep/x.svg"
echo secret >"$tmp/bench/secret.key"
echo too deep >"$tmp/bench/sub/deep/deeper/y.md"
echo hidden >"$tmp/bench/.hidden/z.md"
ln -s /etc/passwd "$tmp/bench/link.txt"
says 3 'a folder that does not exist' 'not a folder' "$bin/bn-serve" --port 0 --dashboard "$tmp/none"
start --dashboard "$tmp/bench"
check 'benchmarks' replies 200 '"object":"bn.benchmarks"' /v1/benchmarks ''
cp "$tmp/reply" "$tmp/benchmarks"
check 'reports are listed, not links, hidden or other files' equal "$(value '[r["name"] for r in d["reports"]]' "$tmp/benchmarks")" "['a.json', 'note.md', 'report.html', 'sub/deep/x.svg']"
number=$(value 'd["reports"][1]["number"]' "$tmp/benchmarks")
check 'a report is text' replies 200 '# A note' "/dashboard/reports/$number" ''
check 'of its type' equal "$(header Content-Type)" 'text/plain; charset=utf-8'
check 'in a sandbox' grep -qi "^Content-Security-Policy: sandbox allow-scripts; default-src 'none'" "$tmp/headers"
for path in 999 -1 0x1 1/../2 99999999999999999999 ''; do
    check "/dashboard/reports/$path is not one" replies 404 'no such report' "/dashboard/reports/$path" '' --path-as-is
done
check 'the page of bn-bench report is one' replies 200 '<!DOCTYPE html>' "/dashboard/reports/2" ''
check 'so is a result' replies 200 '"schema"' "/dashboard/reports/0" ''
rm "$tmp/bench/note.md"
echo new >"$tmp/bench/new.txt"
check 'a change of the folder is seen' replies 200 'new.txt' /v1/benchmarks ''
lacks 'what is gone is not named' 'note\.md' cat "$tmp/reply"
