#!/usr/bin/env bash
# bn-download with a server that misbehaves (tests/httpd): for each fault the outcome, the exit code, the number of bytes sent,
# and that no incomplete file remains. Then killed processes, full disks, two downloads at once. TAP on standard output.
# BN_KILLS is the number of kills (12).
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
server=
cleanup() { [ -z "$server" ] || kill $server 2>/dev/null; tap_end; }
trap cleanup EXIT
export HOME=$tmp/home HF_HOME=$tmp/hf XDG_STATE_HOME=$tmp/state
unset CURL_CA_BUNDLE SSL_CERT_FILE HF_TOKEN HF_ENDPOINT HF_HUB_OFFLINE HF_HUB_CACHE https_proxy HTTPS_PROXY
# Proxies of the environment must not be used for a server on this machine; no proxy listens at this address.
export http_proxy=http://127.0.0.1:9 ALL_PROXY=http://127.0.0.1:9
unset no_proxy NO_PROXY all_proxy
mkdir -p "$tmp/root" "$tmp/home"
piece=4194304
# head_of_model: a GGUF file without keys and tensors
head_of_model() { printf 'GGUF\3\0\0\0' && head -c 16 /dev/zero; }
# random KEY SIZE: a file that begins like a model
random() { head_of_model && openssl enc -aes-128-ctr -nosalt -K "$1" -iv 00 </dev/zero 2>/dev/null | head -c $(($2 - 24)); }
size=18000001
random 01 $size >"$tmp/root/m.gguf"
random 02 $size >"$tmp/root/other.gguf"
touch -d '2020-01-01' "$tmp/root/other.gguf" # its etag has the time
sha=$(sha256sum <"$tmp/root/m.gguf" | cut -d' ' -f1)

# serve RULES...: a fresh server with these lines as its script, on the port of the first one
serve() {
    [ -z "$server" ] || { kill $server; wait $server 2>/dev/null; }
    printf '%s\n' "$@" >"$tmp/script"
    : >"$tmp/log"
    rm -f "$tmp/port"
    "$bin/tests/httpd/httpd" "$tmp/root" "$tmp/script" "$tmp/log" "${port-}" >"$tmp/port" &
    server=$!
    wait_for test -s "$tmp/port"
    port=$(cat "$tmp/port")
    url=http://127.0.0.1:$port
}
# settle: waits until the server has noticed that its clients have ended, so that its log is complete
settle() {
    { exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET /-/quiet HTTP/1.1\r\n\r\n' >&3 && read -r -t 600 _ <&3 && exec 3>&-; } 2>/dev/null
}
sent() {
    settle
    awk '{ n += $8 } END { printf "%.0f\n", n }' "$tmp/log"
}
forget() {
    settle
    : >"$tmp/log"
}
# get ARGUMENTS...: leaves $status
get() {
    timeout 600 "$bin/bn-download" "$url/m.gguf" --to "$tmp/to" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    status=$?
}
# whole [FILE]: the download succeeded, and the folder contains only the file
whole() { [ "$status" -eq 0 ] && cmp -s "$tmp/to/m.gguf" "$tmp/root/${1:-m.gguf}" && [ "$(cat "$tmp/out")" = "$tmp/to/m.gguf" ] && [ "$(ls -A "$tmp/to")" = m.gguf ]; }
nothing() { [ ! -e "$tmp/to/m.gguf" ] && [ ! -e "$tmp/to/m.gguf.lock" ]; }
report() { echo "status $status, $(sent) bytes sent:"; cat "$tmp/err" "$tmp/log"; ls -l "$tmp/to" 2>/dev/null; }
# good TITLE MOST ARGUMENTS...: complete, with at most MOST bytes sent in addition to the file's own
good() {
    local title=$1 most=$2
    shift 2
    rm -rf "$tmp/to"
    forget
    get "$@"
    local extra=$(($(sent) - size))
    if whole && [ $extra -le "$most" ]; then ok "$title ($extra bytes beyond the file's)"; else not_ok "$title" "$(report)"; fi
}
# bad TITLE STATUS PATTERN ARGUMENTS...: this exit status, one error with the reason, no file
bad() {
    local title=$1 want=$2 pattern=$3
    shift 3
    rm -rf "$tmp/to"
    get "$@"
    if [ "$status" -eq "$want" ] && nothing && grep -qE "^bn-download: error: .*$pattern" "$tmp/err"; then ok "$title"; else not_ok "$title" "$(report)"; fi
}

# ---- what works ----
serve ''
good 'one connection' 1 --parallel 1
good 'four connections' 1
good 'a digest that is right, in capitals' 1 --sha256 "${sha^^}"
forget
get --sha256 "$sha"
if whole && [ ! -s "$tmp/log" ]; then ok 'a file that is here is not requested'; else not_ok 'a file that is here is not requested' "$(report)"; fi
printf 'x' | dd of="$tmp/to/m.gguf" bs=1 seek=12345 conv=notrunc 2>/dev/null
get --sha256 "$sha"
if whole; then ok 'a damaged file is fetched anew'; else not_ok 'a damaged file is fetched anew' "$(report)"; fi
bad 'a digest that is wrong' 5 'sha256 is .*, expected' --sha256 "${sha/[0-9]/f}"
check 'keeps the bytes as .bad' cmp "$tmp/to/m.gguf.bad" "$tmp/root/m.gguf"
good 'limited' 1 --limit-rate 30M

# offline TITLE STATUS PATTERN ARGUMENTS...: no request is sent
offline() {
    local title=$1 want=$2 pattern=$3
    shift 3
    : >"$tmp/log"
    get --offline "$@"
    if [ "$status" -eq "$want" ] && [ ! -s "$tmp/log" ] && cat "$tmp/out" "$tmp/err" | grep -qE "$pattern"; then ok "$title"; else not_ok "$title" "$(report)"; fi
}
offline '--offline: a file that is here, with its digest' 0 '/to/m.gguf' --sha256 "$sha"
offline 'without a digest' 0 '/to/m.gguf'
offline 'with another digest' 5 'sha256 is' --sha256 "${sha/[0-9]/f}"
HF_HUB_OFFLINE=1 offline 'HF_HUB_OFFLINE' 0 '"cached":true.*"sha256":"'"$sha" --json
offline '--force contradicts it' 2 'force needs the network' --force
rm "$tmp/to/m.gguf"
offline 'a file that is not here' 3 'not on this machine'
check 'no folder or file is made for it' test -z "$(ls -A "$tmp/to")"

# ---- connections ----
url=http://127.0.0.1:9
bad 'no server listens' 6 '[Cc]onnect' --retries 1
serve '1-2 /m.gguf cut=-1'
good 'hung up before the header, twice' 1
for at in 0 1 $((piece - 1)) $piece $((piece * 3 + 5)); do
    serve "2 /m.gguf cut=$at"
    good "cut after $at bytes" 1 --parallel 1
    serve "2 /m.gguf rst=$at"
    good "reset after $at bytes" $piece --parallel 1
done
serve '2-9 /m.gguf cut=1000000'
good 'cut again and again, with progress' 1 --parallel 3
serve '2- /m.gguf cut=0'
bad 'cut for ever' 6 'attempts' --retries 2
# A limit that a download on a busy machine does not exceed by itself.
serve '2 /m.gguf stall=100000'
good 'stalled' $piece --parallel 1 --stall 2
# 4 bytes every 10 ms: each attempt brings some, and none brings enough.
serve '* /m.gguf drip=4'
bad 'a server that drips for ever' 6 'attempts' --parallel 1 --stall 2 --retries 1
serve '* /m.gguf drip=100000'
bad '--timeout' 6 'not complete after 1 s .--timeout' --parallel 1 --timeout 1
serve '* /m.gguf stall=-1'
bad '--timeout counts before the first byte' 6 'not complete after 1 s' --timeout 1
serve '* /m.gguf drip=100000'
good 'slow' 1 --parallel 8
good 'slow, for two seconds' 1 --parallel 1
check 'lines tell how far it is, without a terminal' grep -qE '^bn-download: m.gguf: [0-9.]+ [KM]?i?B of 17.17 MiB \([0-9]+ %\), [0-9.]+ [kM]B/s, 0:[0-9]+ left$' "$tmp/err"
good 'the same with -q' 1 --parallel 1 -q
check 'has none' test ! -s "$tmp/err"

# ---- statuses ----
serve '1-3 /m.gguf status=503'
good '503 three times' 1
serve '* /m.gguf status=503'
bad '503 for ever' 6 'HTTP 503' --retries 2
for after in 1 -5 soon 'Wed,_21_Oct_2015_07:28:00_GMT'; do
    serve "1-2 /m.gguf status=429 header=Retry-After:$after"
    good "429, Retry-After: $after" 1
done
serve '1 /m.gguf status=404'
bad '404' 3 'not found .HTTP 404'
serve '1 /m.gguf status=401'
bad '401' 7 'access denied'
serve '1 /m.gguf status=403 header=X-Error-Code:GatedRepo'
bad 'gated' 7 'approval of the repository.s owners'
serve '2 /m.gguf status=416'
good '416 once' 2 --parallel 1

# ---- ranges ----
serve '* /m.gguf whole'
good 'ranges ignored' $size
serve '3- /m.gguf whole'
good 'ranges ignored from the third request on' $((size + 4 * piece))
serve '2-3 /m.gguf from=7'
good 'another range than requested' $size --parallel 1
serve '2-3 /m.gguf norange'
good '206 without Content-Range' $size --parallel 1
serve '* /m.gguf star'
good 'the total is not said' $size
check 'and a request without an end has none' bash -c "grep -q ' bytes=0- ' '$tmp/log' && ! grep -q 'bytes=0-[1-9]' '$tmp/log'"
serve '2- /m.gguf total=999'
bad 'a total that changes' 6 'the file changes on the server'
serve '* /m.gguf total=1125899906842624'
bad 'a total of 2^50 bytes' 4 'limit is 16 TiB'
serve '1 /m.gguf total=60000000' '2 /m.gguf total=60000000 cut=100' '* /m.gguf status=503'
bad 'a total that is a lie, and 100 bytes' 6 'attempts' --retries 1 --parallel 1
check 'uses no disk space' test -z "$(ls -A "$tmp/to")"
serve '2 /m.gguf length=5000'
good 'a length that is too small' $((2 * piece)) --parallel 1 # what follows may be taken for the next answer
serve '* /m.gguf chunked whole'
good 'in chunks, without a length' $size
serve '* /m.gguf chunked whole' '2 /m.gguf chunked whole cut=9000000'
good 'in chunks, cut' $((2 * size))
serve '1 /m.gguf chunked whole' '2 /m.gguf chunked whole cut=9000000' '* /m.gguf whole'
good 'in chunks, cut, then with a length' $((2 * size))
serve '* /m.gguf close whole'
good 'until the connection ends' $size

# ---- versions ----
serve '4- /m.gguf file=/other.gguf'
rm -rf "$tmp/to"
get
if whole other.gguf; then ok 'replaced while it is fetched: the new one, unmixed'; else not_ok 'replaced while it is fetched' "$(report)"; fi
serve '4- /m.gguf file=/other.gguf'
bad 'replaced, and not the one that is wanted' 5 'sha256 is' --sha256 "$sha"
random 03 5000001 >"$tmp/root/less.gguf"
for how in '' whole; do
    serve "1 /m.gguf $how" "2 /m.gguf $how cut=9000000" "* /m.gguf $how file=/less.gguf"
    rm -rf "$tmp/to"
    get --sha256 "$(sha256sum <"$tmp/root/less.gguf" | cut -d' ' -f1)"
    if whole less.gguf; then ok "replaced by a smaller one, which is wanted ${how:+($how)}"; else not_ok "replaced by a smaller one ${how:+($how)}" "$(report)"; fi
done
serve '* /m.gguf etag=W/"1"'
good 'a weak etag' 1
none='noetag nolastmod'
serve "* /m.gguf $none"
good 'no validator' 1
for how in '' whole; do
    serve "1 /m.gguf $none $how" "2 /m.gguf $none $how cut=9000000" "* /m.gguf $none $how file=/other.gguf"
    rm -rf "$tmp/to"
    get
    if whole other.gguf; then ok "no validator, replaced while it is fetched: unmixed ${how:+($how)}"; else not_ok "no validator, replaced while it is fetched ${how:+($how)}" "$(report)"; fi
done
serve "1 /m.gguf $none" "* /m.gguf $none cut=9000000"
bad 'no validator, and always cut' 6 'attempts' --retries 2
good 'the same with a digest' 1 --sha256 "$sha"
serve '2 /m.gguf flip=5000000'
good 'a bit is wrong, once' $((size + 1)) --sha256 "$sha" --parallel 1
serve '* /m.gguf flip=5000000'
bad 'a bit is always wrong' 5 'sha256 is' --sha256 "$sha"

# ---- redirects ----
serve '* /m.gguf redirect=%p/a' '* /a redirect=/b' '* /b file=/m.gguf'
good 'two redirects, one of them relative' 1
serve '* /m.gguf redirect=%p/m.gguf'
bad 'redirects in a circle' 6 'redirects'
serve '* /m.gguf redirect=file:///etc/passwd'
bad 'a redirect to a file' 4 'redirect target is not a valid URL|only https is safe'
serve '* /m.gguf redirect=http://example.org/m.gguf'
bad 'a redirect to http elsewhere' 4 'refused a redirect to http://example.org'
serve '* /m.gguf redirect=%p/a' '1-2 /a file=/m.gguf' '3 /a status=403' '* /a file=/m.gguf'
good 'an address that runs out' $((4 * piece))
serve ''
first=$server first_log=$tmp/log1
cp "$tmp/script" "$tmp/script1"
server=
unset port
serve ''
elsewhere=$url
kill $first 2>/dev/null
"$bin/tests/httpd/httpd" "$tmp/root" "$tmp/script1" "$first_log" >"$tmp/port1" &
first=$!
wait_for test -s "$tmp/port1"
url=http://127.0.0.1:$(cat "$tmp/port1")
echo "* /m.gguf redirect=$elsewhere/m.gguf" >"$tmp/script1"
rm -rf "$tmp/to"
HF_TOKEN=hf_secret get
if whole && grep -q 'GET /m.gguf' "$first_log" && ! grep -q secret "$first_log" "$tmp/log"; then ok 'a URL that is not of the endpoint gets no token'; else
    not_ok 'a URL that is not of the endpoint gets no token' "$(report; cat "$first_log")"
fi
rm -rf "$tmp/to"
HF_ENDPOINT=$url HF_TOKEN=hf_secret get
kill $first
if whole && grep -q 'Bearer_hf_secret' "$first_log" && ! grep -q secret "$tmp/log"; then ok 'a token goes to its own origin only'; else
    not_ok 'a token goes to its own origin only' "$(report; cat "$first_log")"
fi
check 'and is in no message' bash -c "! grep -q secret '$tmp/err' '$tmp/out'"

# ---- proxies ----
: >"$tmp/proxy.log"
"$bin/tests/httpd/httpd" "$tmp/root" /dev/null "$tmp/proxy.log" >"$tmp/proxy.port" &
proxy=$!
wait_for test -s "$tmp/proxy.port"
for name in http_proxy ALL_PROXY all_proxy; do
    serve ''
    rm -rf "$tmp/to"
    for other in http_proxy ALL_PROXY; do unset $other; done
    export $name="http://127.0.0.1:$(cat "$tmp/proxy.port")"
    HF_ENDPOINT=$url HF_TOKEN=hf_secret get
    if whole && [ ! -s "$tmp/proxy.log" ]; then ok "$name gets no http request and no token"; else not_ok "$name gets no http request and no token" "$(report; cat "$tmp/proxy.log")"; fi
    unset $name
done
kill $proxy

# ---- contents ----
serve '* /m.gguf header=Content-Encoding:gzip'
bad 'compressed, although it was asked not to' 6 'compressed data .Content-Encoding: gzip'
serve '* /m.gguf header=Content-Type:text/html'
bad 'a web page, by its type' 4 'a web page \(HTML\), not a GGUF file'
printf '\n <!doctype html><title>Log in</title>' >"$tmp/root/page"
truncate -s 200M "$tmp/root/page"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n' >"$tmp/root/pointer"
printf 'PK\x03\x04\x1b]0;x\x07' >"$tmp/root/zip"
printf GGU >"$tmp/root/short"
: >"$tmp/root/empty"
for how in '' whole 'chunked whole'; do
    serve "* /m.gguf file=/page $how"
    bad "a web page, by its first bytes ${how:+($how)}" 4 'a web page \(HTML\), not a GGUF file'
    check 'is not downloaded first, and nothing is left' bash -c "[ $(sent) -lt 100000000 ] && [ -z \"\$(ls -A '$tmp/to')\" ]"
    serve "* /m.gguf file=/pointer $how"
    bad "a pointer of git-lfs ${how:+($how)}" 4 'git-lfs'
    serve "* /m.gguf file=/zip $how"
    bad "another file ${how:+($how)}" 4 "not a GGUF file: the server sent 'PK.x03.x04.x1B"
    serve "* /m.gguf file=/short $how"
    bad "a file of three bytes ${how:+($how)}" 4 'not a GGUF file: the server sent only 3 bytes'
    serve "* /m.gguf file=/empty $how"
    bad "an empty file ${how:+($how)}" 5 'the server sent an empty file'
    check 'is not requested for ever' test "$(grep -c ' 200 ' "$tmp/log")" -le 2
done
serve '* /m.gguf drip=1 file=/tiny'
{ head_of_model; printf 'and a little more'; } >"$tmp/root/tiny"
rm -rf "$tmp/to"
get
if whole tiny; then ok 'a model whose bytes come one by one'; else not_ok 'a model whose bytes come one by one' "$(report)"; fi
serve '* /m.gguf drip=1 file=/zip'
bad 'another file whose bytes come one by one' 4 'not a GGUF file'
serve "* /m.gguf file=/page" ''
rm -rf "$tmp/to"
mkdir "$tmp/to"
cp "$tmp/root/page" "$tmp/to/m.gguf"
get
if [ "$status" -eq 4 ]; then ok 'a page that was stored as a model is not taken for one'; else not_ok 'a page that was stored as a model is not taken for one' "$(report)"; fi
serve "* /m.gguf header=X-Linked-Etag:\"${sha/[0-9]/f}\""
bad 'the server says before that it has another file' 5 'another file' --sha256 "$sha"
check 'and nothing was fetched' test "$(sent)" -le 1
serve '* /m.gguf fat=70000'
bad 'a header of 70 kB' 6 'header' --retries 1

# ---- what an earlier run left ----
serve ''
# half: a part and its journal, as a killed run leaves them
half() {
    rm -rf "$tmp/to"
    serve '1 /m.gguf' "2 /m.gguf cut=$((3 * piece + 1000))" '* /m.gguf status=503'
    get --parallel 1 --retries 0
    serve ''
}
# resumes TITLE MOST: complete, with at most MOST bytes sent
resumes() {
    get "${@:3}"
    if whole && [ "$(sent)" -le "$2" ]; then ok "$1 ($(sent) bytes sent)"; else not_ok "$1" "$(report)"; fi
}
rest=$((size - 3 * piece))
half
resumes 'a later run downloads the missing pieces' $((rest + 1))
half
printf 'x' | dd of="$tmp/to/m.gguf.part" bs=1 seek=$((piece + 7)) conv=notrunc 2>/dev/null
resumes 'a piece that was damaged meanwhile is fetched again, and no other' $((rest + piece + 1))
half
truncate -s $piece "$tmp/to/m.gguf.part"
resumes 'a part that is shorter than its journal says' $((rest + 2 * piece + 1))
half
truncate -s -20 "$tmp/to/m.gguf.part.json"
resumes 'a journal whose last line was cut off' $((rest + piece + 1))
half
echo garbage >"$tmp/to/m.gguf.part.json"
resumes 'a journal that is not JSON' $((size + 1))
half
rm "$tmp/to/m.gguf.part.json"
resumes 'a part without a journal' $((size + 1))
half
serve '* /m.gguf file=/other.gguf'
get
if whole other.gguf; then ok 'another version since then: no byte of the old one stays'; else not_ok 'another version since then' "$(report)"; fi

# ---- killed ----
serve ''
rm -rf "$tmp/to"
get
: >"$tmp/to/m.gguf.lock"
get
if whole; then ok 'the lock that a killed run left next to a complete file goes'; else not_ok 'the lock that a killed run left next to a complete file goes' "$(report)"; fi
serve ''
rm -rf "$tmp/to"
kills=0 files=1
while [ $kills -lt "${BN_KILLS:-12}" ]; do
    timeout -s KILL "0.$(printf '%03d' $((RANDOM % 250 + 30)))" "$bin/bn-download" "$url/m.gguf" --to "$tmp/to" --limit-rate 60M --parallel 3 >/dev/null 2>&1 &&
        { cmp -s "$tmp/to/m.gguf" "$tmp/root/m.gguf" || { not_ok "killed: a file that is not whole"; break; }; rm -rf "$tmp/to"; files=$((files + 1)); continue; }
    kills=$((kills + 1))
    if [ -e "$tmp/to/m.gguf" ]; then cmp -s "$tmp/to/m.gguf" "$tmp/root/m.gguf" || { not_ok "killed: a file that is not whole"; break; }; fi
done 2>/dev/null
get
again=$((($(sent) - files * size) / kills))
# At most a piece per connection, and the bytes that the kernel had buffered.
if whole && [ $again -le $((4 * piece)) ]; then ok "killed $kills times during $files files, each whole in the end ($again bytes sent again for each kill)"; else not_ok "killed $kills times, $again bytes again" "$(report)"; fi
for signal in INT TERM; do
    serve '* /m.gguf stall=5000000' # a piece, and a part of the next one
    rm -rf "$tmp/to"
    "$bin/bn-download" "$url/m.gguf" --to "$tmp/to" --parallel 1 >"$tmp/out" 2>"$tmp/err" </dev/null &
    getter=$!
    wait_for grep -qs '"piece"' "$tmp/to/m.gguf.part.json"
    kill -$signal $getter
    wait $getter
    status=$?
    if [ "$status" -eq $((128 + $(kill -l $signal))) ] && nothing && grep -q '"piece"' "$tmp/to/m.gguf.part.json"; then ok "SIG$signal: exit code $status, and what was downloaded is kept"; else not_ok "SIG$signal" "$(report)"; fi
    serve ''
    resumes "after SIG$signal a later run downloads the rest" $((size - piece + 1))
done

# ---- two at once, and the disk ----
serve '* /m.gguf gate=/open'
rm -rf "$tmp/to"
"$bin/bn-download" "$url/m.gguf" --to "$tmp/to" >"$tmp/out1" 2>&1 &
first=$!
wait_for test -e "$tmp/to/m.gguf.part"
"$bin/bn-download" "$url/m.gguf" --to "$tmp/to" >"$tmp/out" 2>"$tmp/err" &
second=$!
wait_for grep -q 'another process' "$tmp/err"
: >"$tmp/root/open"
wait $second
status=$?
wait $first
if whole && [ "$(sent)" -le $((size + 3)) ]; then ok 'two processes fetch it once'; else not_ok 'two processes fetch it once' "$(report)"; fi
rm -rf "$tmp/to" "$tmp/root/open"
serve '* /m.gguf gate=/open'
"$bin/bn-download" "$url/m.gguf" --to "$tmp/to" --parallel 1 >/dev/null 2>&1 &
other=$!
wait_for test -e "$tmp/to/m.gguf.part"
get --no-wait
kill $other
wait $other 2>/dev/null
if [ "$status" -eq 8 ] && grep -q 'another process' "$tmp/err"; then ok '--no-wait'; else not_ok '--no-wait' "$(report)"; fi
mkdir "$tmp/small"
if mount -t tmpfs -o size=6m none "$tmp/small" 2>/dev/null; then
    echo old >"$tmp/small/m.gguf"
    serve ''
    status 8 'a disk that is too small' "$bin/bn-download" "$url/m.gguf" --to "$tmp/small" --force
    check 'is found before anything is downloaded' test "$(sent)" -le 1
    check 'and the old file stays' test "$(cat "$tmp/small/m.gguf")" = old
    umount "$tmp/small"
else
    skip 'a disk that is too small' 'nothing can be mounted here'
fi
echo >"$tmp/file"
status 3 'a folder that is a file' "$bin/bn-download" "$url/m.gguf" --to "$tmp/file"

# ---- TLS ----
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$tmp/key" -out "$tmp/cert" -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost 2>/dev/null
(cd "$tmp/root" && exec openssl s_server -accept 0 -key "$tmp/key" -cert "$tmp/cert" -WWW) >"$tmp/tls" 2>&1 </dev/null &
tls=$!
wait_for grep -q ACCEPT "$tmp/tls"
tls_port=$(sed -n 's/.*ACCEPT.*:\([0-9]*\)$/\1/p' "$tmp/tls")
rm -rf "$tmp/to"
says 6 'an untrusted certificate' 'certificate' "$bin/bn-download" "https://localhost:$tls_port/m.gguf" --to "$tmp/to"
check 'and nothing is there' nothing
says 0 'one that SSL_CERT_FILE vouches for' 'm.gguf' env SSL_CERT_FILE="$tmp/cert" "$bin/bn-download" "https://localhost:$tls_port/m.gguf" --to "$tmp/to"
says 6 'of another host' 'certificate|host' env SSL_CERT_FILE="$tmp/cert" "$bin/bn-download" "https://127.0.0.1:$tls_port/other.gguf" --to "$tmp/to"
kill $tls
