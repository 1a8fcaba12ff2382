#!/usr/bin/env bash
# bn-download doctor: each problem that it is to find, planted. Then bn-download tokenizer, and models that do not fit. The hub is
# tests/httpd. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
server=
cleanup() { [ -z "$server" ] || kill "$server" 2>/dev/null; tap_end; }
trap cleanup EXIT
export HOME=$tmp/home HF_HUB_CACHE=$tmp/cache XDG_STATE_HOME=$tmp/state BN_REGISTRY=$tmp/registry.json
unset CURL_CA_BUNDLE SSL_CERT_FILE HF_TOKEN HF_TOKEN_PATH HF_HOME HF_HUB_OFFLINE
unset http_proxy https_proxy HTTPS_PROXY ALL_PROXY all_proxy
mkdir -p "$tmp/root/api" "$tmp/home" "$tmp/cache"
model=$PWD/fixtures/nano-bitnet-b1.58-i2_s-42.gguf
cd "$tmp" || exit 1
bn=$bin/bn-download
commit=1111111111111111111111111111111111111111
cp "$model" root/m.gguf
echo '{"name": "somebody"}' >root/whoami
: >log
"$bin/tests/httpd/httpd" root script log >port &
server=$!
wait_for test -s port
HF_ENDPOINT=http://127.0.0.1:$(cat port)
export HF_ENDPOINT
digest() { sha256sum <"$1" | cut -d' ' -f1; }
size() { stat -c %s "$1"; }
blob() { printf 'blob %d\0' "$(size "$1")" | cat - "$1" | sha1sum | cut -d' ' -f1; }
large() { echo "* /acme/$1/resolve/main/$2 file=/$2 header=X-Repo-Commit:$commit header=X-Linked-Etag:\"$(digest "root/$2")\" header=X-Linked-Size:${3:-$(size "root/$2")}"; }
# small REPO FILE SOURCE
small() { echo "* /acme/$1/resolve/main/$2 file=/$3 header=X-Repo-Commit:$commit etag=\"$(blob "root/$3")\""; }
hub() {
    large m m.gguf
    large huge m.gguf 1125899906842624
    echo '* /api/whoami-v2 file=/whoami'
}
hub >script
cat >registry.json <<END
{"schema": "bn.registry/1", "models": [
  {"name": "two", "title": "Two", "parameters": "1 M", "arch": "bitnet-b1.58", "licence": "MIT", "licence_url": "-",
   "files": [{"variant": "i2_s", "repo": "acme/m", "file": "m.gguf", "runs": "yes"},
             {"variant": "bf16", "repo": "acme/tok", "file": "model.safetensors", "runs": "weights in safetensors"}]}
]}
END
# doctor STATUS TITLE PATTERN ARGUMENTS...
doctor() {
    local want=$1 title=$2 pattern=$3
    shift 3
    timeout 600 "$bn" doctor "$@" >out 2>err </dev/null
    status=$?
    if [ $status -eq "$want" ] && grep -qE -- "$pattern" out; then ok "$title"; else not_ok "$title" "status $status, not $want" "$(cat out err)"; fi
}

# ---- doctor ----
doctor 0 'all is well' '^ok +network +http://127.0.0.1.*reached'
check 'no line is longer than 80 columns but for paths' bash -c "! grep -v / out | grep -E '.{81}'"
check 'nothing was written' bash -c "[ -z \"\$(ls -A cache)\" ] && [ ! -e state ]"
doctor 0 'a model that can be downloaded' '^ok +model +acme/m:m.gguf: can be downloaded; 18.* KiB; sha256' acme/m:m.gguf
doctor 1 'a model that does not fit the disk' '^FAIL +space +.*the model needs' acme/huge:m.gguf
check 'the way to fix it' grep -qE '^ +fix: bn-download clean' out
doctor 1 'a model that does not exist' '^FAIL +model +acme/none:m.gguf: not found' acme/none:m.gguf
HF_TOKEN=hf_secret doctor 0 'a token that is accepted' '^ok +token +present, and accepted'
check 'it is sent to the endpoint' grep -q 'whoami.*Bearer_hf_secret' log
check 'and never printed' bash -c "! grep -q secret out err"
echo '* /api/whoami-v2 status=401' >script
HF_TOKEN=hf_secret doctor 1 'a token that is not accepted' '^FAIL +token +present, but not accepted .HTTP 401'
: >script
HF_TOKEN=hf_secret doctor 0 'an endpoint that does not know tokens' '^note +token +present; the endpoint cannot check it .HTTP 404'
hub >script
HF_ENDPOINT=http://127.0.0.1:9 doctor 1 'no server' '^FAIL +network +http://127.0.0.1:9: .*onnect'
https_proxy=http://user:pass@127.0.0.1:9 HF_ENDPOINT=https://hub.example.org doctor 1 'a proxy that does not listen' 'proxy http://127.0.0.1:9'
check 'its password is not printed' bash -c "! grep -q pass out err && grep -q 'fix: check the proxy' out"
echo '* / status=503' >script
doctor 1 'a server in trouble' '^FAIL +network +.*HTTP 503'
hub >script
doctor 0 '--offline: what is possible' '^note +network +off' --offline
doctor 1 '--offline: a model that is not here' '^FAIL +model +acme/m:m.gguf: not in the cache' acme/m:m.gguf --offline
"$bn" -q acme/m:m.gguf >/dev/null 2>&1
HF_HUB_OFFLINE=1 doctor 0 '--offline: a model that is here' '^ok +model +acme/m:m.gguf: already here' acme/m:m.gguf
part=cache/models--acme--m/blobs/$(printf '%064d' 7).part
head -c 1000 /dev/zero >"$part"
doctor 0 'an unfinished download' '^ok +downloads +0 in progress elsewhere; 1 unfinished; 1 complete'
mkfifo release
(exec 9>"cache/.locks/models--acme--m/$(printf '%064d' 7).lock" && flock 9 && : >held && read -r _ <release) &
holder=$!
wait_for test -e held
doctor 0 'a download of another process' '^note +downloads +1 in progress elsewhere; 0 unfinished'
echo >release
wait $holder
: >file
HF_HUB_CACHE=$tmp/file/cache doctor 1 'a cache that cannot be written' '^FAIL +cache +.*cannot be written'
HF_HUB_CACHE=$tmp/file/cache doctor 0 'with --to that is a note' '^note  cache' --to "$tmp/to"
doctor 1 '--to a folder that cannot be made' '^FAIL +folder +.*cannot be written' --to "$tmp/file/to"
doctor 0 '--json' '"schema": "bn.doctor/1"' --json
check 'says whether a download can work' grep -q '"ready": true' out

# ---- tokenizer ----
# A tokenizer.json that fits the model: its texts, ids and special tokens, and merges that are left out.
python3=$(command -v python3 || true)
if [ -z "$python3" ]; then
    skip 'tokenizer files' 'python3 is not installed'
    exit 0
fi
cat >make.py <<'END'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
at = 24
def u(n):
    global at
    value = int.from_bytes(data[at:at + n], "little"); at += n
    return value
def text():
    global at
    n = u(8); value = data[at:at + n].decode(); at += n
    return value
SIZE = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
tokens = []
for _ in range(int.from_bytes(data[16:24], "little")):
    key, kind = text(), u(4)
    if kind == 9:
        kind, n = u(4), u(8)
        values = [text() if kind == 8 else u(SIZE[kind]) for _ in range(n)]
        if key == "tokenizer.ggml.tokens": tokens = values
    elif kind == 8: text()
    else: u(SIZE[kind])
n = len(tokens) - 6
doc = {"version": "1.0", "added_tokens": [{"id": n + i, "content": tokens[n + i], "special": True} for i in range(6)],
       "model": {"type": "BPE", "vocab": {tokens[i]: i for i in range(n)}, "merges": ["a b", ["c", "]\""]] * 9, "x": 1}}
json.dump(doc, open("root/good.json", "w"))
json.dump({"bos_token": tokens[n], "eos_token": {"content": tokens[n + 1]}}, open("root/config.json", "w"))
json.dump({"bos_token": tokens[n + 1]}, open("root/otherbos.json", "w"))
doc["added_tokens"].append({"id": len(tokens), "content": "<more>", "special": False})
json.dump(doc, open("root/more.json", "w"))
doc["added_tokens"].pop()
doc["model"]["vocab"][tokens[7] + "X"] = doc["model"]["vocab"].pop(tokens[7])
json.dump(doc, open("root/text.json", "w"))
piece = lambda t: b"\x0a" + bytes([len(t) + 2]) + b"\x0a" + bytes([len(t)]) + t
open("root/spm", "wb").write(b"".join(piece(b"t%d" % i) for i in range(len(tokens))))
open("root/spm9", "wb").write(b"".join(piece(b"t%d" % i) for i in range(len(tokens) + 9)))
END
"$python3" make.py "$model"
echo '{"no": "tokenizer"}' >root/wrong.json
echo 'hello' >root/text
# tokenizer JSON CONFIG MODEL: what the repository acme/tok has; - for a file that it lacks
tokenizer() {
    {
        [ "$1" = - ] || small tok tokenizer.json "$1"
        [ "$2" = - ] || small tok tokenizer_config.json "$2"
        [ "$3" = - ] || small tok tokenizer.model "$3"
        echo "* /acme/m/resolve/main/tokenizer.json status=404 header=X-Error-Code:EntryNotFound"
    } >script
}
# tok STATUS TITLE PATTERN ARGUMENTS...
tok() {
    local want=$1 title=$2 pattern=$3
    shift 3
    timeout 600 "$bn" tokenizer "$@" >out 2>err </dev/null
    status=$?
    if [ $status -eq "$want" ] && cat out err | grep -qE -- "$pattern"; then ok "$title"; else not_ok "$title" "status $status, not $want" "$(cat out err)"; fi
}
tokenizer good.json config.json -
tok 0 'the tokenizer of a repository' 'acme/tok: 512 tokens, 6 of them special' acme/tok
check 'its paths are all of standard output' equal "$(cat out)" "$tmp/cache/models--acme--tok/snapshots/$commit/tokenizer.json
$tmp/cache/models--acme--tok/snapshots/$commit/tokenizer_config.json"
tok 0 'a name: the repository of the variant that has one' '/models--acme--tok/' two
check 'its digest is recorded' grep -q '"hf:acme/tok:tokenizer.json"' "$tmp/state/bn/pins.json"
tok 0 'and in the document' "\"sha256\": \"$(sha256sum <root/good.json | cut -c1-64)\"" two --json
tokenizer more.json config.json -
tok 5 'another file under that name is refused' 'tokenizer.json: sha256 is ' two --to other
tok 0 'a repository has no recorded digest' '513 tokens' acme/tok --to other
tokenizer good.json config.json -
tok 0 '--to' '^to/tokenizer.json' acme/tok --to to
tok 0 '--check: it fits' 'acme/tok fits the model: 512 tokens' acme/tok --check "$model"
tok 0 '--json' '"fits": true' acme/tok --check "$model" --json
tok 0 '--offline: what is here' 'fits the model' acme/tok --check "$model" --offline
tok 3 '--offline: what is not here' 'no tokenizer file found' acme/other --offline
tok 3 'a repository without a tokenizer' 'no tokenizer file found' acme/m
tok 2 'a file is not a repository' 'is not a model of the registry or a repository' acme/m:m.gguf
tokenizer more.json - -
tok 1 'more tokens than the model has' '^differs: the tokenizer has 513 tokens, the model 512' acme/tok --check "$model"
tokenizer text.json - -
tok 1 'another text of a token' "^differs: token 7 is '.*X' in the tokenizer and '.' in the model" acme/tok --check "$model"
tokenizer good.json otherbos.json -
tok 1 'another special token' "^differs: bos_token is '<.end_of_text.>' in the tokenizer and 506 '<.begin_of_text.>'" acme/tok --check "$model"
tok 1 '--json names the difference' '"fits": false' acme/tok --check "$model" --json
tokenizer - - spm
tok 0 'a SentencePiece model' 'acme/tok fits the model' acme/tok --check "$model"
tokenizer - - spm9
tok 1 'with more pieces' '^differs: the tokenizer has 521 tokens, the model 512' acme/tok --check "$model"
tokenizer - - text
tok 4 'a tokenizer.model of another kind' 'neither a SentencePiece model nor a rank file' acme/tok
tokenizer wrong.json - -
tok 4 'a tokenizer.json of another kind' 'it has no model.vocab' acme/tok
tokenizer text - -
tok 4 'a tokenizer.json that is not JSON' 'not JSON' acme/tok
