#!/usr/bin/env bash
# bn-bench serve: loads on bn-serve and on a server that fails or answers differently each time. TAP on standard output.
# shellcheck disable=SC2317,SC2154 # functions are called through check; tap.sh sets tmp
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
server='' fake=''
finish() {
    # shellcheck disable=SC2086 # none or several
    kill $server $fake 2>/dev/null
    wait
    tap_end
}
trap finish EXIT
load() { timeout 200 "$bin/bn-bench" serve "$@"; }
value() { python3 -c "import json,sys; d = json.load(open(sys.argv[1])); print($1)" "$tmp/document"; }

echo 0123456789abcdef-key >"$tmp/keys"
chmod 600 "$tmp/keys"
"$bin/bn-serve" -m fixtures/shakespeare-5m-i2_s.gguf --port 0 -t 1 --ctx 400 --api-key-file "$tmp/keys" >"$tmp/address" 2>"$tmp/log" &
server=$!
wait_for grep -q http "$tmp/address"
url=$(grep -oE 'http://.*' "$tmp/address")

says 0 'loads are compared' '12 of 12 are the same' load "$url" --api-key-file "$tmp/keys" --clients 1,2,6 --requests 6 --tokens 8
narrow() { ! load "$url" --api-key-file "$tmp/keys" --clients 2 --requests 4 --tokens 40 --interrupt 100 | grep -E '.{81}' | grep -v '^machine'; }
check 'the table fits into 80 columns' narrow
load "$url/v1/" --api-key-file "$tmp/keys" --clients 2 --requests 6 --tokens 30 --shared 20 --interrupt 100 --json >"$tmp/document"
check 'a document has the load' equal "$(value 'd["command"], d["tests"][0]["clients"], d["tests"][0]["failed"], d["tests"][0]["verdict"]')" 'serve 2 0 valid'
check 'and counts tokens as the server does' equal "$(value 'd["tests"][0]["completion_tokens"], d["tests"][0]["cached_tokens"] > 0, d["tests"][0]["interrupt_tokens"] >= 100')" '180 True True'
check 'gaps are between tokens' equal "$(value 'sum(len(s["samples"]) for s in d["series"] if "between" in s["metric"]) <= 6 * 29')" True
check 'its series can be read' equal "$(value 'sorted(s["metric"] for s in d["series"] if s["metric"][0] != "i")')" "['ns_between_tokens', 'ns_per_token', 'ns_to_first_token']"
says 1 'a missing key fails' 'status 401' load "$url" --clients 1 --requests 2 --tokens 4
says 1 'a prompt that is too long fails' 'status 400' load "$url" --api-key-file "$tmp/keys" --clients 1 --requests 1 --prompt 900
says 6 'no server is one error with the URL' '^bn-bench: error: http://127.0.0.1:1: no request was answered: .*refused$' load http://127.0.0.1:1 --clients 1 --requests 2
for wrong in https://127.0.0.1:1 http://example.com:80 http://127.0.0.1:99999 127.0.0.1:80 http://; do
    says 2 "$wrong is refused" 'with an address' load "$wrong"
done

# Answers in one piece, without chunks: they count, break off, are not JSON, or never come.
cat >"$tmp/fake.py" <<'END2'
import itertools, socket, sys, threading
count, s = itertools.count(), socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
def answer(c):
    data = b""
    while b"\r\n\r\n" not in data or b"max_tokens" not in data:
        data += c.recv(65536)
    event = lambda text: b'data: {"choices":[{"text":"%s"}]}\n\n' % text
    words = {b"count": event(b"%d" % next(count)) + b"data: [DONE]\n\n", b"same": event(b"x") * 3 + b"data: [DONE]\n\n",
             b"short": event(b"x"), b"junk": b"data: {\n\n", b"error": b'data: {"error":{"message":"no luck"}}\n\n'}
    for word, body in words.items():
        if b'"model":"%s"' % word in data:
            c.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body)
            c.close()
            return
    threading.Event().wait()
for c, _ in iter(s.accept, None):
    threading.Thread(target=answer, args=(c,), daemon=True).start()
END2
python3 "$tmp/fake.py" >"$tmp/port" &
fake=$!
wait_for test -s "$tmp/port"
other=http://localhost:$(cat "$tmp/port")
says 0 'texts are compared where there is no chain' '4 of 4 are the same' load "$other" --model-name same --clients 1,4 --requests 4
says 1 'answers that differ are found' 'answers depend on the load' load "$other" --model-name count --clients 1,4 --requests 4
says 1 'an answer that breaks off is one that failed' 'ended before the answer' load "$other" --model-name short --clients 1 --requests 1
says 1 'so is an event that is not JSON' 'not JSON' load "$other" --model-name junk --clients 1 --requests 1
says 1 'and an error in a stream' 'no luck' load "$other" --model-name error --clients 1 --requests 1
says 1 'a server that does not answer is given up' 'within --timeout' load "$other" --model-name mute --clients 2 --requests 4 --timeout 0.3
