#!/usr/bin/env bash
# The receipts of bn-serve: signed, kept in a folder within a size, a number and an age, found again after a restart and by
# the key that asked only, written when a disk works again; the same answers on another instruction set. TAP on standard
# output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh
key=0123456789abcdef-key
other_key=fedcba9876543210-key
folder=$tmp/receipts
"$bin/bn-verify-receipt" keygen -o "$tmp/key" >/dev/null
# answer CURL-ARGUMENTS...: prints the name of its receipt
answer() {
    ask /v1/completions '{"prompt": "ROMEO:", "max_tokens": 4, "temperature": 0.8, "seed": 7}' "$@" >/dev/null
    header X-BN-Receipt
}
has() { replies 200 '"(predicateType|payloadType)"' "/v1/receipts/$1" '' "${@:2}"; }
lacks_receipt() { replies 404 'no such receipt' "/v1/receipts/$1" '' "${@:2}"; }
n_files() { equal "$(find "$folder" -name '*.json' | wc -l)" "$1"; }

# ---- signed ----

start --receipts "$folder" --sign "$tmp/key"
name=$(answer)
check 'a signed receipt is served' has "$name"
cp "$tmp/reply" "$tmp/signed"
check 'as JSON' equal "$(header Content-Type)" application/json
check 'which a shared cache does not keep' equal "$(header Cache-Control)" 'private, max-age=86400, immutable'
check 'it replays, and its signature is right' "$bin/bn-verify-receipt" "$tmp/signed" --model "$model" --replay \
    --public-key "$tmp/key.pub" --require-signature
"$bin/bn-verify-receipt" keygen -o "$tmp/stranger" >/dev/null
status 5 'another key does not verify it' "$bin/bn-verify-receipt" "$tmp/signed" --public-key "$tmp/stranger.pub" \
    --require-signature
python3 - "$tmp/signed" "$tmp/forged" <<'END'
import base64, json, sys
envelope = json.load(open(sys.argv[1]))
payload = base64.b64decode(envelope["payload"]).replace(b'"seed":7', b'"seed":8')
envelope["payload"] = base64.b64encode(payload).decode()
json.dump(envelope, open(sys.argv[2], "w"))
END
status 5 'nor is a changed one accepted' "$bin/bn-verify-receipt" "$tmp/forged" --public-key "$tmp/key.pub" --require-signature
ask /v1/completions '{"prompt": ["a", "b"], "n": 2, "max_tokens": 2}' >"$tmp/status"
for each in $(header X-BN-Receipt | tr -d ,); do
    check "receipt -${each##*-} of several answers is signed" has "$each"
    check 'and replays' "$bin/bn-verify-receipt" "$tmp/reply" --model "$model" --replay --public-key "$tmp/key.pub" \
        --require-signature
done
written() { metric_is bn_receipts_waiting 0; }
check 'all are written' wait_for written
check 'as files' n_files 5
check 'that only this user may read' equal "$(stat -c %a "$folder" "$folder/$name.json" | tr '\n' ' ')" '700 600 '
says 8 'a second server does not share the folder' 'another bn-serve' "$bin/bn-serve" -m "$model" --port 0 --receipts "$folder"

# ---- a restart ----

stop_server
echo foreign >"$folder/notes.json"
echo foreign >"$folder/0123456789abcdef0123456789abcde.json"
mkdir "$folder/0123456789abcdef0123456789abcdef.json"
ln -s /etc/passwd "$folder/0123456789abcdef0123456789abcdee.json"
echo half >"$folder/$name.json.tmp-0123456789abcdef"
start --receipts "$folder"
check 'a receipt is found after a restart' has "$name"
check 'with the same bytes' cmp "$tmp/reply" "$tmp/signed"
check 'an incomplete file is deleted' test ! -e "$folder/$name.json.tmp-0123456789abcdef"
check 'a link is not a receipt' lacks_receipt 0123456789abcdef0123456789abcdee
check 'nor is a folder' lacks_receipt 0123456789abcdef0123456789abcdef
check 'nor a file with another name' lacks_receipt notes
check 'the number of receipts is counted' metric_is bn_receipts 5
stop_server
touch -d '3 days ago' "$folder/$name.json"
start --receipts "$folder" --receipts-age 2d
check 'an old one is dropped' lacks_receipt "$name"
gone() { [ ! -e "$folder/$1.json" ]; }
check 'and deleted' wait_for gone "$name"
check 'the others are not' metric_is bn_receipts 4

# ---- bounds ----

start --receipts "$folder" --max-receipts 2
check 'the oldest are deleted above a number' metric_is bn_receipts 2
name=$(answer)
check 'the new one is kept' has "$name"
two() { metric_is bn_receipts 2; }
check 'and the oldest goes' wait_for two
start --receipts "$folder" --receipts-size 1
empty() { metric_is bn_receipts 0; }
check 'all go when none fits' wait_for empty
check 'foreign files stay' equal "$(find "$folder" -mindepth 1 | wc -l) $(cat "$folder/notes.json")" '4 foreign'
start --receipts-size 30K
for i in 1 2 3 4 5 6 7 8; do name=$(answer) && [ "$i" = 1 ] && first=$name; done
check 'in memory too the last one is kept' has "$name"
check 'and the first one is not' lacks_receipt "$first"
start --receipts-age 1s
name=$(answer)
expired() { lacks_receipt "$name"; }
check 'and none for longer than its age' wait_for expired

# ---- keys ----

printf '%s\n%s\n' "$key" "$other_key" >"$tmp/keys"
start --receipts "$folder" --api-key-file "$tmp/keys"
name=$(answer -H "X-Api-Key: $key")
check 'a receipt is for the key that asked' has "$name" -H "X-Api-Key: $key"
check 'not for another one' lacks_receipt "$name" -H "X-Api-Key: $other_key"
# In the other order, and with a new key between them.
printf '%s\nnew-key-0123456789\n%s\n' "$other_key" "$key" >"$tmp/keys"
start --receipts "$folder" --api-key-file "$tmp/keys"
check 'also after a restart with another file of keys' has "$name" -H "X-Api-Key: $key"
check 'not for another one then' lacks_receipt "$name" -H "X-Api-Key: $other_key"
check 'nor for a new one' lacks_receipt "$name" -H "X-Api-Key: new-key-0123456789"
start --receipts "$folder"
check 'nor for those without a key' lacks_receipt "$name"
start --receipts "$folder" --api-key-file "$tmp/keys" --receipts-size 1
owned() { [ "$(find "$folder" -name "$name.json" | wc -l)" = 0 ]; }
check 'it is deleted as others are' wait_for owned

# ---- folders of others ----

for mode in 777 775; do
    mkdir -m "$mode" "$tmp/shared-$mode"
    says 7 "a folder of mode $mode is refused" 'others may write to the folder' timeout 60 "$bin/bn-serve" "${defaults[@]}" --port 0 \
        --receipts "$tmp/shared-$mode"
done
says 7 'with what to do' 'hint: chmod go-w' timeout 60 "$bin/bn-serve" "${defaults[@]}" --port 0 --receipts "$tmp/shared-777"
if [ "$(id -u)" = 0 ]; then
    install -d -m 755 -o 65534 "$tmp/of-another"
    says 7 'so is one of another user' 'belongs to user 65534' timeout 60 "$bin/bn-serve" "${defaults[@]}" --port 0 --receipts "$tmp/of-another"
else
    says 7 'so is one of another user' 'belongs to user 0' timeout 60 "$bin/bn-serve" "${defaults[@]}" --port 0 --receipts /usr
fi
start --receipts "$folder"
name=$(answer)
check 'a receipt is written' wait_for test -e "$folder/$name.json"
echo '{"secret": "predicateType"}' >"$tmp/secret"
ln -sf "$tmp/secret" "$folder/$name.json"
check 'a link in its place is not followed' lacks_receipt "$name"
rm "$folder/$name.json"
mkfifo "$folder/$name.json"
check 'a pipe is not waited for' lacks_receipt "$name"
rm "$folder/$name.json"
cp "$tmp/secret" "$folder/$name.json"
check 'a file is read' has "$name"
if [ "$(id -u)" = 0 ]; then
    chown 65534 "$folder/$name.json"
    check 'one of another user is not' lacks_receipt "$name"
else
    skip 'one of another user is not' 'needs root'
fi
rm "$folder/$name.json"
stop_server
ln -s "$folder" "$tmp/linked"
start --receipts "$tmp/linked"
check 'the folder itself may be a link' has "$(answer)"
stop_server
owner=$(find "$folder" -maxdepth 1 -regex '.*/[0-9a-f]+' | head -n 1)
mv "$owner" "$tmp/elsewhere"
ln -s "$tmp/elsewhere" "$owner"
says 3 'the folder of a key may not' 'Not a directory' timeout 60 "$bin/bn-serve" "${defaults[@]}" --port 0 --receipts "$folder" \
    --api-key-file "$tmp/keys"
rm "$owner"

# ---- a disk that fails ----

start --receipts "$folder"
prlimit --pid "$server" --fsize=4000:unlimited
name=$(answer)
failed() { [ "$(metric bn_receipts_write_failures_total)" -ge 1 ]; }
check 'a full disk is counted' wait_for failed
check 'and reported' wait_for grep -q 'receipts wait in memory: .*File too large' "$tmp/log"
check 'the receipt is served from memory' has "$name"
cp "$tmp/reply" "$tmp/served"
check 'no part of it is on disk' equal "$(find "$folder" -name "$name*")" ''
for _ in 1 2 3; do answer >/dev/null; done
check 'answers go on' metric_is bn_receipts_waiting 4
prlimit --pid "$server" --fsize=unlimited
check 'when the disk works again they are written' wait_for written
check 'the file is as it was served' cmp "$tmp/served" "$folder/$name.json"
check 'none was lost' metric_is bn_receipts_lost_total 0
check 'and that is reported' grep -q 'written again' "$tmp/log"
prlimit --pid "$server" --fsize=4000:unlimited
name=$(answer)
twice() { [ "$(grep -c 'receipts wait in memory' "$tmp/log")" = 2 ]; }
check 'it fails again' wait_for twice
prlimit --pid "$server" --fsize=unlimited
stop_server
check 'the end writes what waits' test -s "$folder/$name.json"
start --receipts "$folder"
prlimit --pid "$server" --fsize=4000:unlimited
answer >/dev/null
stop_server
check 'or reports what it could not write' grep -q 'receipts that were not written: 1' "$tmp/log"

# ---- the file of the model changes ----

cp "$model" "$tmp/changing.gguf"
defaults=(-m "$tmp/changing.gguf" --template instruct)
start --sequences 1 --receipts "$folder"
name=$(answer)
check 'there are receipts before' has "$name"
curl -sS -m 300 -N -o "$tmp/stream" -D "$tmp/headers" -H 'Content-Type: application/json' "$url/v1/completions" \
    -d '{"prompt": "a", "max_tokens": 900, "n": 8, "stream": true}' &
stream=$!
check 'an answer runs' wait_for grep -q data: "$tmp/stream"
last=$(header X-BN-Receipt | tr -d ' ' | cut -d , -f 8)
# The time of writing is set back; that of the change cannot be.
python3 - "$tmp/changing.gguf" <<'END'
import os, sys
before = os.stat(sys.argv[1])
with open(sys.argv[1], "r+b") as f:
    f.seek(-64, 2)
    f.write(b"x")
os.utime(sys.argv[1], ns=(before.st_atime_ns, before.st_mtime_ns))
END
wait "$stream"
check 'an answer that runs meanwhile ends with an error' grep -q 'data: {"error":.*was changed' "$tmp/stream"
check 'and has no receipt' lacks_receipt "$last"
check 'which is reported' grep -q 'no receipt .*was changed' "$tmp/log"
check 'further requests are refused' replies 503 'file of the model was changed' /v1/completions '{"prompt": "a", "max_tokens": 2}'
check 'so are embeddings' replies 503 'file of the model was changed' /v1/embeddings '{"input": "a"}'
check 'and replays' replies 503 'file of the model was changed' "/v1/receipts/$name/replay" '{}'
check 'the server is not healthy' replies 503 'model changed' /health ''
check 'as its status says' replies 200 '"state":"model changed"' /v1/status ''
check 'earlier receipts are served' has "$name"
check 'and replay with the file that ran' "$bin/bn-verify-receipt" "$tmp/reply" --model "$model" --replay
defaults=(-m "$model" --template instruct)

# ---- another instruction set ----

request='"prompt": ["ROMEO:", "To be"], "n": 2, "max_tokens": 24, "temperature": 0.9, "top_p": 0.95, "seed": 11, "logprobs": 2'
chat='"messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 16, "seed": 3'
# The texts, chains and log-probabilities of both requests, whole and streamed; and all receipts.
collect() {
    local out=$1 path body stream each
    : >"$out"
    for stream in false true; do
        while read -r path body; do
            ask "$path" "{$body, \"stream\": $stream}" >"$tmp/status"
            python3 - "$tmp/reply" >>"$out" <<'END'
import json, sys
text = open(sys.argv[1]).read()
events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")] or [json.loads(text)]
answers = {}
for event in events:
    for c in event["choices"]:
        a = answers.setdefault(c["index"], {"text": "", "logprobs": [], "chain": None, "end": None})
        a["text"] += c["text"] if "text" in c else c.get("delta", c.get("message")).get("content") or ""
        a["logprobs"] += (c["logprobs"] or {}).get("token_logprobs", [])
        a["end"] = c["finish_reason"] or a["end"]
        a["chain"] = c.get("bn", {}).get("chain") or a["chain"]
for i in sorted(answers):
    print(json.dumps(answers[i], sort_keys=True))
END
            for each in $(header X-BN-Receipt | tr -d ,); do
                ask "/v1/receipts/$each" '' >"$tmp/status"
                cp "$tmp/reply" "$out.$((++n_receipts)).json"
            done
        done <<END
/v1/completions $request
/v1/chat/completions $chat
END
    done
}
start
n_receipts=0
collect "$tmp/best"
start --isa ref --batch 16
n_receipts=0
collect "$tmp/ref"
check 'ten answers' equal "$(wc -l <"$tmp/best") $n_receipts" '10 10'
check 'whole and streamed are the same' cmp <(head -n 5 "$tmp/best") <(tail -n 5 "$tmp/best")
check 'another instruction set gives the same texts, chains and log-probabilities' cmp "$tmp/best" "$tmp/ref"
names() { "$bin/bn-verify-receipt" "$1" --json 2>/dev/null | grep -q "$2" || grep -q "\"$2\"" "$1"; }
check 'the receipt names it' names "$tmp/ref.1.json" ref
for i in $(seq 10); do
    check "its receipt $i replays on the best one" "$bin/bn-verify-receipt" "$tmp/ref.$i.json" --model "$model" --replay
    check "receipt $i of the best one replays on it" "$bin/bn-verify-receipt" "$tmp/best.$i.json" --model "$model" --replay \
        --isa ref
done

says 2 'an age is a time' receipts-age "$bin/bn-serve" --receipts-age soon
says 7 'a key that others may read is refused' 'others may read' bash -c "chmod 644 '$tmp/key'; '$bin/bn-serve' --port 0 --sign '$tmp/key'"
