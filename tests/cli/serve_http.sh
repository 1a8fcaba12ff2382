#!/usr/bin/env bash
# HTTP of bn-serve against clients that are hostile or slow: each fault gets an error of OpenAI's form or is cut off, and
# others are answered meanwhile. CORS, headers of errors, the access log. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh
request='{"prompt": "ROMEO:", "max_tokens": 8, "seed": 7}'
origin=http://localhost:3000
start --max-body 16K --timeout 2s --cors "$origin" --cors app://chat --log --max-queue 1 --sequences 1

# ---- what libmicrohttpd accepts and bn-serve refuses ----

# refused STATUS PATTERN BYTES: a reply of this status, whose body is an error document that matches
refused() {
    timeout 110 python3 tests/serve/raw.py "$port" "$3" >"$tmp/raw"
    python3 - "$tmp/raw" "$1" "$2" <<'END'
import json, re, sys
text, status, pattern = open(sys.argv[1]).read(), sys.argv[2], sys.argv[3]
head, _, body = text.partition("\n\n")
assert head.split(" ")[1:2] == [status], text[:300]
assert "\nContent-Type: application/json\n" in head + "\n", head
assert "\nX-Should-Retry: " in head and "\nX-Request-Id: " in head, head
error = json.loads(body)["error"]
assert re.search(pattern, error["message"]) and error["type"], error
END
}
host='Host: localhost\r\nConnection: close\r\n'
post="POST /tokenize HTTP/1.1\\r\\n${host}Content-Type: application/json\\r\\n"
check 'no Host' refused 403 Host 'GET /health HTTP/1.1\r\nConnection: close\r\n\r\n'
check 'an empty Host' refused 403 Host 'GET /health HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n'
check 'two Hosts' refused 400 'Host is given twice' "GET /health HTTP/1.1\\r\\nHost: localhost\\r\\n$host\\r\\n"
check 'a Host with a name before it' refused 403 Host 'GET /health HTTP/1.1\r\nHost: evil@localhost\r\nConnection: close\r\n\r\n'
check 'a Host with a path' refused 403 Host 'GET /health HTTP/1.1\r\nHost: localhost:1/evil\r\nConnection: close\r\n\r\n'
check 'a length and chunks' refused 400 'length of its body twice' \
    "${post}Content-Length: 2\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n"
check 'two lengths' refused 400 'Content-Length is given twice' "${post}Content-Length: 2\\r\\nContent-Length: 2\\r\\n\\r\\n{}"
check 'two codings' refused 400 'Transfer-Encoding is given twice' \
    "${post}Transfer-Encoding: chunked\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n"
check 'another coding' refused 501 'not chunked' "${post}Transfer-Encoding: gzip, chunked\\r\\n\\r\\n0\\r\\n\\r\\n"
check 'chunks of HTTP/1.0' refused 400 'HTTP/1.0' \
    'POST /tokenize HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
check 'a blank before the colon' refused 400 'name of a header' "${post}Content-Length : 2\\r\\n\\r\\n"
check 'two keys' refused 400 'Authorization is given twice' \
    "GET /health HTTP/1.1\\r\\n${host}Authorization: Bearer a\\r\\nAuthorization: Bearer b\\r\\n\\r\\n"
check 'two types' refused 415 'application/json' "${post}Content-Type: text/plain\\r\\nContent-Length: 2\\r\\n\\r\\n{}"
check 'an absolute address' refused 400 'not a path' "GET http://localhost/health HTTP/1.1\\r\\n$host\\r\\n"
check 'an address that is not a path' refused 400 'not a path' "OPTIONS * HTTP/1.1\\r\\n$host\\r\\n"
check 'an address with a blank' refused 400 'not a path' "GET /health /x HTTP/1.1\\r\\n$host\\r\\n"
check 'an address with a NUL' refused 400 'not a path' "GET /health%00.html HTTP/1.1\\r\\n$host\\r\\n"
check 'an address with bytes that are not ASCII' refused 400 'not a path' "GET /h\\xff HTTP/1.1\\r\\n$host\\r\\n"
check 'a long address' refused 414 '8192 bytes' "GET /$(printf '%9000s' x | tr ' ' x) HTTP/1.1\\r\\n$host\\r\\n"
check 'large headers' refused 431 '32768 bytes' "GET /health HTTP/1.1\\r\\n${host}X: $(printf '%40000s' x)\\r\\n\\r\\n"
many=$(for i in $(seq 320); do printf 'X-%0100d: x\\r\\n' "$i"; done)
check 'many headers' refused 431 '32768 bytes' "GET /health HTTP/1.1\\r\\n${host}$many\\r\\n"
check 'a method that is not known' refused 405 'takes GET' "BREW /health HTTP/1.1\\r\\n$host\\r\\n"
chunks=$(printf '4000\\r\\n%16384s\\r\\n' x x)
check 'a body of chunks that is too large' refused 413 '16384 bytes' \
    "${post}Transfer-Encoding: chunked\\r\\n\\r\\n${chunks}0\\r\\n\\r\\n"
check 'a body that is too large is read first' refused 413 '16384 bytes' "${post}Content-Length: 20000\\r\\n\\r\\n$(printf '%20000s' x)"
check 'one that is far too large is not' refused 413 '16384 bytes' "${post}Content-Length: 9999999999\\r\\n\\r\\n"
check 'a body without a type is read first' refused 415 "curl: -H 'Content-Type: application/json'" \
    "POST /tokenize HTTP/1.1\\r\\n${host}Content-Length: 2\\r\\n\\r\\n{}"
check 'a body that is asked for first' refused 404 'no such address' \
    "POST /nothing HTTP/1.1\\r\\n${host}Content-Length: 9\\r\\nExpect: 100-continue\\r\\n\\r\\n"
# cut: the reply is an error of libmicrohttpd or nothing, never an answer
cut() {
    local got
    got=$(timeout 110 python3 tests/serve/raw.py "$port" "$1" | head -n 1)
    [[ $got =~ ^HTTP/1.1\ [45] || $got = closed ]] || { echo "got $got"; return 1; }
}
check 'what is not HTTP is cut off' cut 'hello\r\n\r\n'
check 'so are zeros' cut '\0\0\0\0\r\n\r\n'
check 'TLS' cut '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'
check 'the preface of HTTP/2' cut 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
check 'HTTP/0.9' cut 'GET /health\r\n\r\n'
check 'a negative length' cut "${post}Content-Length: -1\\r\\n\\r\\n"
check 'a length with a sign' cut "${post}Content-Length: +2\\r\\n\\r\\n{}"
check 'a chunk with a bad size' cut "${post}Transfer-Encoding: chunked\\r\\n\\r\\nxyz\\r\\n\\r\\n"
check 'headers above 64 KiB' cut "GET /health HTTP/1.1\\r\\n${host}X: $(printf '%70000s' x)\\r\\n\\r\\n"
check 'a header without a colon' cut "GET /health HTTP/1.1\\r\\n${host}nonsense\\r\\n\\r\\n"
check 'a NUL in a name' cut "GET /health HTTP/1.1\\r\\n${host}X\\0: a\\r\\n\\r\\n"
check 'an address in a message is refused, not fetched' replies 400 '"param":"messages"' /v1/chat/completions \
    '{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/"}}]}]}'
# What another program reads as a body must not be a second request: one reply, then the end.
plain='POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
inner='GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n'
body='{"prompt":"a","max_tokens":1}'
line='a line of the head'
check 'a length in a line that goes on in the next one' refused 400 "$line" "${plain}Content-Length:\\r\\n 44\\r\\n\\r\\n$inner"
check 'another header that goes on in the next line' refused 400 "$line" "${plain}X: a\\r\\n\\tb\\r\\nContent-Length: 44\\r\\n\\r\\n$inner"
check 'CR alone before a length' refused 400 "$line" "${plain}X: a\\rContent-Length: 44\\r\\n\\r\\n$inner"
check 'LF alone before a length' refused 400 "$line" "${plain}X: a\\nContent-Length: 29\\r\\n\\r\\n$body"
check 'LF alone at the end' refused 400 "$line" "${plain}Content-Length: 29\\r\\n\\n$body"
check 'a NUL after a length' refused 400 "$line" "${plain}Content-Length: 29\\0 1\\r\\n\\r\\n$body"
check 'a NUL before a length' refused 400 "$line" "${plain}X: \\0Content-Length: 29\\r\\n\\r\\n$body"
check 'a line that begins with a NUL' refused 400 "$line" "${plain}X: a\\r\\n\\0Content-Length: 44\\r\\n\\r\\n$inner"
check 'a NUL after a coding' refused 400 "$line" \
    "${plain}Transfer-Encoding: chunked\\0x\\r\\n\\r\\n1d\\r\\n$body\\r\\n0\\r\\n\\r\\n"
check 'a NUL in Host' refused 400 "$line" 'GET /v1/models HTTP/1.1\r\nHost: localhost\0.evil.example\r\n\r\n'
check 'a NUL in Origin' refused 400 "$line" "GET /v1/models HTTP/1.1\\r\\nHost: localhost\\r\\nOrigin: http://localhost\\0.evil\\r\\n\\r\\n"
check 'another control character' refused 400 "$line" 'GET /health HTTP/1.1\r\nHost: localhost\r\nX: \x01\r\n\r\n'
check 'what follows chunks is not a request' equal "$(python3 tests/serve/raw.py "$port" \
    "${plain}Transfer-Encoding: chunked\\r\\n\\r\\n1d\\r\\n$body\\r\\n0\\r\\n\\r\\n$inner" | grep -c '^HTTP/1.1')" 1
check 'large headers in small pieces are read as others' timeout 100 python3 - "$port" <<'END'
import socket, sys, time
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
head = b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d:%s%s \r\n" % (i, b" " * (i % 4), b"x" * i) for i in range(200)) + b"\r\n"
for _ in range(2):
    for i in range(0, len(head), 997):
        s.sendall(head[i:i + 997])
        time.sleep(0.005)
    reply = s.recv(65536)
    assert reply.startswith(b"HTTP/1.1 200"), reply
END
check 'two requests in one piece are both answered' equal "$(python3 tests/serve/raw.py "$port" \
    "GET /health HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\nGET /v1/models HTTP/1.1\\r\\n$host\\r\\n" | grep -c '^HTTP/1.1 200')" 2

# ---- slow clients ----

cat >"$tmp/slow.py" <<'END'
import socket, sys, time
port, head, piece = int(sys.argv[1]), sys.argv[2].encode().decode("unicode_escape").encode(), sys.argv[3].encode()
s = socket.create_connection(("127.0.0.1", port))
s.sendall(head)
try:
    for i in range(1000):
        s.sendall(piece)
        time.sleep(0.1)
except OSError:
    sys.exit(0)
sys.exit("it was never dropped")
END
check 'a header that comes byte by byte is dropped' timeout 110 python3 "$tmp/slow.py" "$port" 'GET /health HTTP/1.1\r\nX: ' x
check 'so is a body' timeout 110 python3 "$tmp/slow.py" "$port" "${post}Content-Length: 9999\\r\\n\\r\\n" x
check 'so is a body of chunks' timeout 110 python3 "$tmp/slow.py" "$port" "${post}Transfer-Encoding: chunked\\r\\n\\r\\n" 1$'\r\n'x$'\r\n'
# Reads one byte a second, of an answer that is larger than all buffers on the way.
cat >"$tmp/sip.py" <<'END'
import json, socket, sys, time
port, stream = int(sys.argv[1]), sys.argv[2] == "true"
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
s.connect(("127.0.0.1", port))
body = json.dumps({"prompt": "a", "max_tokens": 300, "logprobs": 20, "stream": stream}).encode()
s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
          b"Content-Length: %d\r\n\r\n" % len(body) + body)
try:
    s.settimeout(200)
    s.recv(1)
    print("begun", flush=True)
    n = 1
    while True:
        time.sleep(1)
        got = s.recv(1)
        if not got:
            break
        n += 1
except OSError:
    pass
END
sip=''
is_dropped() { metric_is bn_connections 1; } # the one that asks
for stream in true false; do
    python3 "$tmp/sip.py" "$port" $stream >"$tmp/sip" &
    sip=$!
    check "an answer begins (stream: $stream)" wait_for grep -q begun "$tmp/sip"
    check 'while it is not read, others are answered' replies 200 '"tokens"' /tokenize '{"content": "a"}'
    check 'a client that reads byte by byte is dropped' wait_for is_dropped
    kill "$sip"
    wait "$sip" 2>/dev/null
done
all_ended() { [ "$(metric bn_jobs_total)" = "$(metric bn_jobs_ended_total)" ]; }
check 'in the end all requests have ended' wait_for all_ended

# ---- CORS ----

# preflight STATUS ORIGIN
preflight() {
    equal "$(ask /v1/chat/completions '' -X OPTIONS -H "Origin: $2" -H 'Access-Control-Request-Method: POST' \
        -H 'Access-Control-Request-Headers: authorization,content-type,x-stainless-lang')" "$1"
}
no_cors() { ! grep -qi '^access-control' "$tmp/headers"; }
check 'a preflight of a permitted origin' preflight 204 "$origin"
check 'names the origin' equal "$(header Access-Control-Allow-Origin)" "$origin"
check 'and what is permitted' equal \
    "$(header Access-Control-Allow-Headers | grep -ioE '(^| )(authorization|content-type|x-stainless-(lang|os|runtime)),' | wc -l)" 5
check 'for its origin alone' equal "$(header Vary)" Origin
check 'without credentials' equal "$(header Access-Control-Allow-Credentials)" ''
check 'another scheme can be permitted' preflight 204 app://chat
for other in http://evil.example "$origin.evil.example" "${origin}0" https://localhost:3000 null; do
    check "a preflight of $other is refused" preflight 403 "$other"
    check 'and gets no header of CORS' no_cors
done
check 'a permitted origin is answered' replies 200 text_completion /v1/completions "$request" -H "Origin: $origin"
check 'with its name' equal "$(header Access-Control-Allow-Origin)" "$origin"
check 'and may read the name of the receipt' equal "$(header Access-Control-Expose-Headers | grep -o X-BN-Receipt)" X-BN-Receipt
check 'so are its streams' replies 200 DONE /v1/completions "${request%\}}, \"stream\": true}" -H "Origin: $origin"
check 'with its name too' equal "$(header Access-Control-Allow-Origin)" "$origin"
check 'and its errors' replies 404 'no such address' /nothing '' -H "Origin: $origin"
check 'which it can read' equal "$(header Access-Control-Allow-Origin)" "$origin"
check 'another origin is refused' replies 403 origins /health '' -H 'Origin: http://evil.example'
check 'without a header of CORS' no_cors
check 'a request without an origin has none' replies 200 ok /health ''
check 'either' no_cors

# ---- headers of errors ----

check 'an error that stays' replies 400 prompt /v1/completions '{}'
check 'is not tried again' equal "$(header X-Should-Retry) $(header Retry-After)" 'false '
check 'and has an id' equal "$(header X-Request-Id | grep -cE '^[0-9a-f]{32}$')" 1
# Two long answers take both places; if they end too soon, it is done again.
full() {
    rm -f "$tmp/busy"
    curl -sS -N -o "$tmp/busy" -H 'Content-Type: application/json' "$url/v1/completions" \
        -d '{"prompt": "a", "n": 2, "max_tokens": 1000, "stream": true}' &
    local busy=$!
    wait_for grep -qs text_completion "$tmp/busy"
    replies 429 queue_full /v1/completions "$request"
    local got=$?
    kill "$busy" 2>/dev/null
    wait "$busy" 2>/dev/null
    return "$got"
}
check 'more answers than may wait' wait_for full
check 'are tried again' equal "$(header X-Should-Retry) $(($(header Retry-After) >= 1))" 'true 1'
check 'and have an id' equal "$(header X-Request-Id | grep -cE '^[0-9a-f]{32}$')" 1
check 'the others end with their client' wait_for all_ended
check 'an answer' replies 200 text_completion /v1/completions "$request"
check 'is not told to be tried again' equal "$(header X-Should-Retry)" ''
name=$(header X-BN-Receipt)
check 'and has the id of its receipt' equal "$(header X-Request-Id)" "$name"

# ---- the access log ----

logged() { wait_for grep -qE -- "$1" "$tmp/log"; }
check 'an answer is logged with times and sizes' logged \
    "from=127.0.0.1 method=POST path=/v1/completions status=200 seconds=[0-9.]+ bytes=[0-9]+ id=$name first=[0-9.]+ prompt=[0-9]+ cached=[0-9]+ tokens=8 receipt=$name\$"
check 'and its refusal' logged 'path=/v1/completions status=429'
curl -sS "$url/a%0Ab%20c%1b" >"$tmp/reply"
check 'a path is escaped' logged 'path=/a.x0Ab_c.x1B status=404'
check 'every line is one of the log' equal "$(grep -cvE '^(time=[0-9TZ:-]+ from=127.0.0.1 method=|bn-serve: )' "$tmp/log")" 0
ask /v1/completions '{"prompt": "my secret prompt", "max_tokens": 4}' >"$tmp/status"
check 'no text is in it' bash -c "! grep -q 'secret' '$tmp/log'"
curl -sS -m 1 -o "$tmp/reply" -H 'Content-Type: application/json' "$url/v1/completions" \
    -d '{"prompt": "a", "max_tokens": 900, "stream": true}' 2>/dev/null
check 'a client that left is marked' logged 'status=200 .*left=1$'

# ---- the memory of requests that wait ----

start --sequences 1 --max-queue 1000
check 'values that take much memory are refused' equal "$(python3 - "$url" <<'END'
import json, sys, urllib.error, urllib.request
body = b'{"prompt": "a", "x": [' + b"0," * 500000 + b"0]}"
try:
    urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/v1/completions", body, {"Content-Type": "application/json"}))
except urllib.error.HTTPError as e:
    print(e.code, json.load(e)["error"]["message"].split(" need")[0])
END
)" '400 the values of the JSON text'
# Each has values of 10 MB that are ignored; 32 requests for 8 times 900 tokens and 32 for a response wait or run in the end.
limit=150
! sanitized address || limit=600 # freed memory stays in a quarantine of 256 MB
check 'what a request did not need is not kept' timeout 200 python3 - "$port" "$server" $limit <<'END'
import json, socket, sys, time, urllib.request
port, server, limit = sys.argv[1:]
def resident_mb():
    return next(int(line.split()[1]) for line in open(f"/proc/{server}/status") if line.startswith("VmRSS")) / 1000
def status():
    return json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/status"))
status()
before, open_ones = resident_mb(), []
junk = b"[" + b"0," * 100000 + b"0]"
asked = [(b"completions", b'{"prompt": "a", "max_tokens": 900, "n": 8, "x": %s}' % junk),
         (b"responses", b'{"input": [{"role": "user", "content": "a", "x": %s}], "text": {"x": %s}}' % (junk, junk))]
for path, body in asked * 32:
    s = socket.create_connection(("127.0.0.1", int(port)))
    s.sendall(b"POST /v1/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
              % (path, len(body)) + body)
    open_ones.append(s)
while status()["counters"]["jobs"] < 64:
    time.sleep(0.1)
more = resident_mb() - before
print(f"{more:.0f} MB more")
sys.exit(more > int(limit))
END

# ---- connections of one address ----

start --max-per-address 3
cat >"$tmp/many.py" <<'END'
import socket, sys
port = int(sys.argv[1])
def works(source):
    s = socket.create_connection(("127.0.0.1", port), 60, (source, 0))
    open_ones.append(s)
    try:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return b"200" in s.recv(4096)
    except OSError:
        return False
open_ones = []
print([works("127.0.0.1") for _ in range(5)], works("127.0.0.2"))
END
check 'an address has no more connections than permitted, another one has its own' equal \
    "$(timeout 100 python3 "$tmp/many.py" "$port")" '[True, True, True, False, False] True'
refused_are() { [ "$(metric bn_connections_refused_total)" -ge 2 ]; }
check 'what was refused is counted' wait_for refused_are
# Heads that never end, more of them than connections are permitted, and the same with those that were answered.
start --max-connections 8 --timeout 100s
cat >"$tmp/crowd.py" <<'END'
import socket, sys
port, head = int(sys.argv[1]), sys.argv[2].encode().decode("unicode_escape").encode()
crowd = []
for _ in range(40):
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(head)
    crowd.append(s)
s = socket.create_connection(("127.0.0.1", port))
s.settimeout(20)
s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
sys.exit(b"200" not in s.recv(4096))
END
check 'slow connections of one client keep nobody out' timeout 100 python3 "$tmp/crowd.py" "$port" 'GET /health HTTP/1.1\r\nX: '
check 'nor do idle ones' timeout 100 python3 "$tmp/crowd.py" "$port" 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'
curl -sS -m 300 -N -o "$tmp/stream" -H 'Content-Type: application/json' "$url/v1/completions" \
    -d '{"prompt": "a", "max_tokens": 900, "n": 8, "stream": true}' &
stream=$!
check 'an answer runs' wait_for grep -q data: "$tmp/stream"
check 'one that runs does not give way' timeout 100 python3 "$tmp/crowd.py" "$port" 'GET /health HTTP/1.1\r\nX: '
wait "$stream"
check 'and ends' grep -q 'DONE' "$tmp/stream"
start
check 'this machine may have many' equal "$(timeout 100 python3 - "$port" <<'END'
import socket, sys
print(sum(1 for s in [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(100)]
          if s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") or b"200" in s.recv(4096)))
END
)" 100
stop_server

for bad in '*' null localhost http:// http://a/ 'http://a b' HTTP://a 'http://a,http://b'; do
    says 2 "--cors $bad is refused" 'not the origin of a page' "$bin/bn-serve" --cors "$bad"
done
