#!/usr/bin/env bash
# bn-download of a URL whose file is here already: conditional requests, servers without versions, replaced files. Then what the
# header of a file must be before it gets its name. The server is tests/httpd. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
server=
cleanup() { [ -z "$server" ] || kill "$server" 2>/dev/null; tap_end; }
trap cleanup EXIT
export HOME=$tmp/home XDG_STATE_HOME=$tmp/state
unset CURL_CA_BUNDLE SSL_CERT_FILE HF_TOKEN HF_ENDPOINT HF_HOME HF_HUB_OFFLINE HF_HUB_CACHE http_proxy https_proxy ALL_PROXY all_proxy
mkdir -p "$tmp/root" "$tmp/home"
fixture=$PWD/fixtures/nano-bitnet-b1.58-i2_s-42.gguf
other=$PWD/fixtures/nano-llama-i2_s-42.gguf
cd "$tmp" || exit 1
: >script
: >log
"$bin/tests/httpd/httpd" root script log >port &
server=$!
wait_for test -s port
url=http://127.0.0.1:$(cat port)
digest() { sha256sum <"$1" | cut -d' ' -f1; }
settle() {
    { exec 3<>"/dev/tcp/127.0.0.1/$(cat port)" && printf 'GET /-/quiet HTTP/1.1\r\n\r\n' >&3 && read -r -t 600 _ <&3 && exec 3>&-; } 2>/dev/null
}
# get FILE ARGUMENTS...: leaves $status, out, err; the log is of this run
get() {
    local file=$1
    shift
    settle
    : >log
    timeout 600 "$bin/bn-download" "$url/$file" --to to "$@" >out 2>err </dev/null
    status=$?
    settle
}
# sent: bytes of bodies; statuses: of the answers
sent() { awk '{ n += $8 } END { printf "%.0f\n", n }' log; }
statuses() { awk '{ print $7 }' log | tr '\n' ' '; }
# shellcheck disable=SC2154 # get sets it
succeeds() { [ "$status" -eq 0 ] && cmp "$1" "to/$2"; }

# ---- conditional requests ----
cp "$fixture" root/m.gguf
old=$(digest root/m.gguf)
get m.gguf
check 'the first download' succeeds "$fixture" m.gguf
get m.gguf
check 'the same URL again: the file is kept' succeeds "$fixture" m.gguf
check 'one request, answered with 304' equal "$(statuses)" '304 '
check 'and no byte is sent' equal "$(sent)" 0
check 'a note says so' grep -q 'to/m.gguf: unchanged on the server' err
get m.gguf --json
check '--json says so' grep -q '"event":"done".*"replaced":null.*"unchanged":true' out
check 'the state has no URL in clear text' bash -c "! grep -rq m.gguf state"
echo '* /m.gguf noetag' >script
get m.gguf
check 'by the date of change alone' equal "$(statuses)" '304 '
echo '* /m.gguf nolastmod' >script
get m.gguf
check 'by the ETag alone' equal "$(statuses)" '304 '
echo '* /m.gguf etag=W/"1"' >script
get m.gguf --force
check '--force downloads it again' test "$(sent)" -ge "$(stat -c %s "$fixture")"
get m.gguf
check 'a weak ETag is good enough' equal "$(statuses)" '304 '
echo '* /m.gguf status=503' >script
get m.gguf --retries 0
check 'a server in trouble is an error: 6, with the way to use the file' bash -c "[ $status -eq 6 ] && grep -q 'hint: --offline' err"
get m.gguf --offline
check 'which works' bash -c "[ $status -eq 0 ] && [ ! -s log ]"
: >script

cp "$other" root/m.gguf
touch -d '2031-02-03' root/m.gguf
new=$(digest root/m.gguf)
get m.gguf
check 'a new version on the server is downloaded' succeeds "$other" m.gguf
check 'and both digests are named' grep -q "replaced sha256 ${old:0:16}\.\.\. with ${new:0:16}" err
get m.gguf
check 'it is remembered in turn' equal "$(statuses)" '304 '
cp "$fixture" root/m.gguf
touch -d '2032-02-03' root/m.gguf
get m.gguf --json
check '--json names the digest that was replaced' bash -c "[ $status -eq 0 ] && grep -q '\"replaced\":\"$new\",.*\"unchanged\":false' out"
printf 'x' | dd of=to/m.gguf bs=1 seek=3000 conv=notrunc 2>/dev/null
get m.gguf
check 'a file that was damaged here is downloaded again' succeeds "$fixture" m.gguf
cp "$other" to/m.gguf
get m.gguf --sha256 "$(digest "$other")"
check 'a file with the demanded digest needs no request' bash -c "[ $status -eq 0 ] && [ ! -s log ]"
rm to/m.gguf
get m.gguf
check 'a file that was deleted is downloaded' succeeds "$fixture" m.gguf

# A server that no longer has the version of the first download, but the same bytes.
rm -rf to state
cp "$fixture" root/m.gguf
: >script
get m.gguf
echo '* /m.gguf etag="other"' >script
get m.gguf
check 'the same bytes under another version are unchanged' bash -c "[ $status -eq 0 ] && grep -q 'unchanged on the server' err && ! grep -q replaced err"
: >script

# ---- servers without versions ----
rm -rf to state
echo '* /m.gguf noetag nolastmod' >script
get m.gguf
get m.gguf
check 'no version, the same size: kept' bash -c "[ $status -eq 0 ] && [ $(sent) -le 1 ]"
check 'the note names --force' grep -q 'same size (--force' err
{ cat "$fixture"; echo more; } >root/m.gguf
get m.gguf
check 'no version, another size: downloaded' succeeds root/m.gguf m.gguf
cp to/m.gguf mine
rm -rf state
echo "* /m.gguf header=X-Linked-Etag:\"$(digest mine)\"" >script
get m.gguf
check 'the server names the digest: unchanged, though nothing was remembered' bash -c "[ $status -eq 0 ] && [ $(sent) -le 1 ] && grep -q unchanged err"
printf 'x' | dd of=to/m.gguf bs=1 seek=3000 conv=notrunc 2>/dev/null
get m.gguf
check 'the server names another digest: downloaded' succeeds mine m.gguf
: >script
rm -rf state
printf 'x' | dd of=to/m.gguf bs=1 seek="$(stat -c %s "$fixture")" conv=notrunc 2>/dev/null
get m.gguf
check 'another file of the same size, of which nothing is remembered: downloaded' succeeds mine m.gguf
check 'and both digests are named' grep -q "replaced sha256 .* with $(digest mine | head -c 16)" err
rm -rf state
mkdir -p state
: >state/bn
get m.gguf
check 'a state folder that cannot be written: the download works' test "$status" -eq 0
rm -r state

# ---- the header of a file ----
# refused TITLE PATTERN FILE: exit code 4, a reason, and nothing is left
refused() {
    local title=$1 pattern=$2
    rm -rf to
    get "$3"
    if [ "$status" -eq 4 ] && grep -qE -- "$pattern" err && [ -z "$(ls -A to)" ]; then ok "$title"; else not_ok "$title" "status $status" "$(cat err; ls -A to)"; fi
}
size=$(stat -c %s "$fixture")
head -c $((size - 1000)) "$fixture" >root/short.gguf
refused 'a GGUF file that is truncated in its tensors' 'tensor.*(past|beyond|ends|outside)' short.gguf
head -c 600 "$fixture" >root/keys.gguf
refused 'one that is truncated in its keys' 'the file ends after|more than fit' keys.gguf
{ printf 'GGUF\7\0\0\0'; head -c 100 /dev/zero; } >root/version.gguf
refused 'a version that does not exist' 'version is 7, expected 2 or 3' version.gguf
{ printf 'GGUF\3\0\0\0\377\377\377\377\0\0\0\0'; head -c 100 /dev/zero; } >root/counts.gguf
refused 'a number of tensors over the limit' 'names 4294967295 tensors .limit 65536' counts.gguf
printf '\n<html><body>Log in</body></html>\n' >root/page.gguf
refused 'a web page' 'a web page \(HTML\), not a GGUF file' page.gguf
# One tensor of a type that the engine does not run (2: Q4_0, 18 bytes for 32 elements).
{
    printf 'GGUF\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    printf '\1\0\0\0\0\0\0\0t\1\0\0\0\40\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0'
    head -c 64 /dev/zero
} >root/q4.gguf
get q4.gguf
check 'a model with types of other engines is downloaded' succeeds root/q4.gguf q4.gguf

# tensors FILE BYTES HEADER: a safetensors file
# shellcheck disable=SC2059 # the format is the number
tensors() { { printf "\\x$(printf %x "${#3}")\\0\\0\\0\\0\\0\\0\\0"; printf %s "$3"; head -c "$2" /dev/zero; } >"root/$1"; }
json='{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
tensors good.safetensors 16 "$json"
get good.safetensors
check 'a safetensors file' succeeds root/good.safetensors good.safetensors
tensors short.safetensors 12 "$json"
refused 'truncated in its tensors' 'truncated: .*its range 0 to 16 is not within the 12 bytes of data' short.safetensors
head -c 40 root/good.safetensors >root/head.safetensors
refused 'truncated in its header' 'truncated: .*a header of 86 bytes in 32 bytes' head.safetensors
tensors json.safetensors 16 "${json%\}}]"
refused 'a header that is not JSON' 'not JSON' json.safetensors
tensors offsets.safetensors 16 '{"a":{"dtype":"F32","shape":[4]}}'
refused 'a tensor without a place' 'data_offsets is missing' offsets.safetensors
cp root/page.gguf root/page.safetensors
refused 'a web page under that name' 'a web page \(HTML\), not a safetensors file' page.safetensors
cp "$fixture" root/m.safetensors
refused 'a GGUF file under that name' "not a safetensors file: the server sent 'GGUF" m.safetensors
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n' >root/pointer.safetensors
refused 'a pointer of git-lfs' 'git-lfs pointer' pointer.safetensors
