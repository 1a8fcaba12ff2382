#!/usr/bin/env bash
# bn-download and a hub on this machine (tests/httpd): which file a reference means, the cache that other tools share, digests,
# messages, and the commands that need no network. Faults of servers are in download_faults.sh. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
server=
cleanup() { [ -z "$server" ] || kill "$server" 2>/dev/null; tap_end; }
trap cleanup EXIT
export HOME=$tmp/home HF_HUB_CACHE=$tmp/cache XDG_STATE_HOME=$tmp/state BN_REGISTRY=$tmp/registry.json
unset CURL_CA_BUNDLE SSL_CERT_FILE HF_TOKEN HF_TOKEN_PATH HF_HOME HF_HUB_OFFLINE http_proxy https_proxy ALL_PROXY all_proxy BN_MODEL
mkdir -p "$tmp/root/cdn" "$tmp/home"
cd "$tmp" || exit 1
bn=$bin/bn-download

# ---- the hub ----
one=1111111111111111111111111111111111111111 two=2222222222222222222222222222222222222222
model=$OLDPWD/fixtures/nano-bitnet-b1.58-i2_s-42.gguf
cp "$model" root/cdn/a.gguf
head_of_model() { printf 'GGUF\3\0\0\0' && head -c 16 /dev/zero; } # without keys and tensors
{ head_of_model; echo 'another version'; } >root/cdn/b.gguf
printf '{"small": true}\n' >root/cdn/config.json
digest() { sha256sum <"$1" | cut -d' ' -f1; }
a=$(digest root/cdn/a.gguf) b=$(digest root/cdn/b.gguf)
size() { stat -c %s "$1"; }
blob() { printf 'blob %d\0' "$(size "$1")" | cat - "$1" | sha1sum | cut -d' ' -f1; }
: >script
: >log
"$bin/tests/httpd/httpd" root script log >port &
server=$!
wait_for test -s port
HF_ENDPOINT=http://127.0.0.1:$(cat port)
export HF_ENDPOINT
# large FILE REVISION COMMIT CDN: rules of a large file, which another server has
large() { echo "* /acme/$1 redirect=%p/cdn/$4 header=X-Repo-Commit:$3 header=X-Linked-Etag:\"$(digest "root/cdn/$4")\" header=X-Linked-Size:$(size "root/cdn/$4")"; }
# small FILE COMMIT CDN: rules of a small file, which the hub itself has
small() { echo "* /acme/$1 file=/cdn/$3 header=X-Repo-Commit:$2 etag=\"$(blob "root/cdn/$3")\""; }
listing() { # NAME FILES...
    local name=$1 f comma=
    shift
    { printf '{"sha": "%s", "siblings": [' $one; for f; do printf '%s{"rfilename": "%s", "size": 3}' "$comma" "$f"; comma=,; done; echo ']}'; } >"root/$name.json"
}
listing one README.md a.gguf
listing many a.gguf b.gguf
listing escape a.gguf 'b\u009b31m.gguf'
listing evil ../../evil.gguf
listing none README.md
# shellcheck disable=SC2046
listing lots $(seq -f model-%02g.gguf 40)
hub() { # COMMIT CDN: what main is
    {
        large m/resolve/main/a.gguf main "$1" "$2"
        large m/resolve/$one/a.gguf $one $one a.gguf
        large m/resolve/main/dir/sub/c.gguf main "$1" b.gguf
        large m/resolve/feature%2Fx/a.gguf x $two b.gguf
        small m/resolve/main/config.json $one config.json
        for f in one many lots escape evil none; do echo "* /api/models/acme/$f/revision/main file=/$f.json"; done
        echo "* /acme/renamed/resolve/main/a.gguf redirect=/acme/m/resolve/main/a.gguf status=307"
        echo "* /api/models/acme/renamed/revision/main redirect=/api/models/acme/one/revision/main status=307"
        large one/resolve/main/a.gguf main $one a.gguf
        large evil/resolve/main/a.gguf main ../../../../tmp/evil a.gguf
        echo "* /acme/mute/resolve/main/a.gguf stall=-1"
        echo "* /acme/gated/resolve/main/a.gguf status=403 header=X-Error-Code:GatedRepo"
        echo "* /acme/private/resolve/main/a.gguf status=401 header=X-Error-Code:RepoNotFound"
        echo "* /acme/m/resolve/main/none.gguf status=404 header=X-Error-Code:EntryNotFound"
        echo "* /acme/m/resolve/v9/a.gguf status=404 header=X-Error-Code:RevisionNotFound"
        echo "* /acme/plain/resolve/main/a.gguf file=/cdn/a.gguf etag=\"xyz\""
        echo "1-2 /acme/busy/resolve/main/a.gguf status=503"
        large busy/resolve/main/a.gguf main $one a.gguf
    } >script
}
hub $one a.gguf
cat >registry.json <<END
{"schema": "bn.registry/1", "models": [
  {"name": "pinned", "aliases": ["p"], "title": "Pinned", "parameters": "1 M", "arch": "bitnet-b1.58", "licence": "MIT", "licence_url": "https://example.org/licence",
   "files": [{"variant": "i2_s", "repo": "acme/m", "file": "a.gguf", "size": $(size root/cdn/a.gguf), "sha256": "$a", "runs": "yes"},
             {"variant": "bf16", "repo": "acme/m", "file": "dir/sub/c.gguf", "runs": "weights in safetensors"}]},
  {"name": "free", "title": "Free", "parameters": "1 M", "arch": "llama", "licence": "x", "licence_url": "-",
   "files": [{"variant": "i2_s", "repo": "acme/m", "file": "a.gguf", "runs": "yes"}]},
  {"name": "parts", "title": "Parts", "parameters": "1 M", "arch": "llama", "licence": "x", "licence_url": "-",
   "files": [{"variant": "s", "repo": "acme/m", "file": null, "runs": "weights in safetensors, in several files"}]}
]}
END
# settle: waits until the server has noticed that its clients have ended, so that its log is complete
settle() {
    { exec 3<>"/dev/tcp/127.0.0.1/$(cat port)" && printf 'GET /-/quiet HTTP/1.1\r\n\r\n' >&3 && read -r -t 600 _ <&3 && exec 3>&-; } 2>/dev/null
}
# get ARGUMENTS...: leaves $status, out, err; the log is of this run
get() {
    settle
    : >log
    timeout "${limit:-600}" "$bn" "$@" >out 2>err </dev/null
    status=$?
    settle
}
# is TITLE STATUS PATTERN ARGUMENTS...: a run ends with STATUS, and its standard error matches PATTERN
is() {
    local title=$1 want=$2 pattern=$3
    shift 3
    get "$@"
    if [ $status -eq "$want" ] && grep -qE -- "$pattern" err; then ok "$title"; else not_ok "$title" "status $status, not $want" "$(cat out err)"; fi
}
fresh() { rm -rf cache state; }

# ---- references, and the cache ----
get hf:acme/m:a.gguf
check 'a file of a repository' test $status -eq 0
check 'its path is all of standard output' equal "$(cat out)" "$tmp/cache/models--acme--m/snapshots/$one/a.gguf"
check 'the blob is called by its digest' cmp "cache/models--acme--m/blobs/$a" root/cdn/a.gguf
check 'the snapshot links to it, from where it is' equal "$(readlink "cache/models--acme--m/snapshots/$one/a.gguf")" "../../blobs/$a"
check 'the branch is recorded, without a newline' equal "$(od -An -v -c cache/models--acme--m/refs/main | tr -d ' \n')" $one
check 'nothing else is left there' equal "$(find cache -type f -o -type l | sort | tr '\n' ' ')" \
    "cache/.locks/models--acme--m/$a.lock cache/models--acme--m/blobs/$a cache/models--acme--m/refs/main cache/models--acme--m/snapshots/$one/a.gguf "
get hf:acme/m:a.gguf
check 'a branch is requested again, its bytes are not' bash -c "grep -q resolve/main log && awk '{ n += \$8 } END { exit n > 1 }' log"
get "hf:acme/m:a.gguf@$one"
check 'a commit that is here needs no request' bash -c "[ $status -eq 0 ] && [ ! -s log ]"
get hf:acme/m:dir/sub/c.gguf
check 'a file in folders links back over them' equal "$(readlink "cache/models--acme--m/snapshots/$one/dir/sub/c.gguf")" "../../../../blobs/$b"
get hf:acme/m:a.gguf@feature/x
check 'a branch with a slash' bash -c "[ $status -eq 0 ] && [ \"\$(cat cache/models--acme--m/refs/feature/x)\" = $two ]"
get hf:acme/m:config.json
check 'a small file is called by its git blob' test -e "cache/models--acme--m/blobs/$(blob root/cdn/config.json)"
get hf:acme/one
check 'a repository with one model file' bash -c "[ $status -eq 0 ] && cmp -s \"\$(cat out)\" root/cdn/a.gguf"
get acme/one
check 'a repository without hf:' bash -c "[ $status -eq 0 ] && cmp -s \"\$(cat out)\" root/cdn/a.gguf"
is 'several model files: they are listed' 2 'repository has 2 GGUF files: a.gguf, b.gguf' acme/many
is 'forty of them' 2 '40 GGUF files: model-01.gguf, .*model-[0-9]*.gguf, \.\.\.$' acme/lots
get acme/many
check 'the hint is a command that works' grep -qxF 'hint: choose one: bn-download acme/many:a.gguf' err
get acme/m:a.gguf
check 'such a command' test $status -eq 0
is 'a name with a terminal escape is refused' 4 'unsafe name' hf:acme/escape
lacks 'and does not reach the terminal' $'\x9b' "$bn" hf:acme/escape
is 'a listing with a path that leads out' 4 'unsafe name' hf:acme/evil
is 'a repository without model files' 3 'no GGUF file' hf:acme/none
get hf:acme/busy:a.gguf
check 'a hub in trouble is asked again' test $status -eq 0
get hf:acme/renamed
check 'a repository that was renamed' bash -c "[ $status -eq 0 ] && cmp -s \"\$(cat out)\" root/cdn/a.gguf"
is 'gated: its owners decide' 7 'approval of the repository.s owners' hf:acme/gated:a.gguf
is 'private or missing: the hub does not say which' 3 'no such repository, or it is private' hf:acme/private:a.gguf
is 'no such file' 3 'no such file' hf:acme/m:none.gguf
is 'no such revision' 3 'no such revision' hf:acme/m:a.gguf@v9
is 'a server that is not a hub' 4 'not a Hugging Face hub: .* X-Repo-Commit' hf:acme/plain:a.gguf
is 'a commit that is not one' 4 'not a Hugging Face hub: .* X-Repo-Commit' hf:acme/evil:a.gguf
check 'is refused before the body is requested' bash -c "[ \$(grep -c 'GET /cdn' log) -le 1 ] && awk '{ n += \$8 } END { exit n > 1 }' log && ! find cache/models--acme--evil -type f 2>/dev/null | grep -q ."
limit=25 is '--stall counts while the hub is asked' 6 'slow' hf:acme/mute:a.gguf --stall 1 --retries 0

is 'an argument that is not a reference' 2 'not a model name' ../x
is 'no argument' 2 'no MODEL given' get
is 'its hint' 2 'hint: bn-download bitnet-2b, or --lock FILE' get
is 'a digest that is too short' 2 '64 hexadecimal' hf:acme/m:a.gguf --sha256 abc

# ---- the registry ----
fresh
get p
check 'a name, with a pin' bash -c "[ $status -eq 0 ] && cmp -s \"\$(cat out)\" root/cdn/a.gguf"
check 'its licence is said' grep -q 'licence MIT: https://example.org/licence' err
get PINNED
check 'a second time no request is sent' bash -c "[ $status -eq 0 ] && [ ! -s log ]"
printf 'x' | dd of="cache/models--acme--m/blobs/$a" bs=1 seek=100 conv=notrunc 2>/dev/null
is 'offline, a file that was damaged' 5 'sha256 is' pinned --offline
get pinned
check 'is fetched anew with the network' bash -c "[ $status -eq 0 ] && cmp -s \"\$(cat out)\" root/cdn/a.gguf"
fresh
sed "s/$a/$b/" registry.json >wrong.json
BN_REGISTRY=wrong.json is 'a pin that is not what the hub has' 5 "expected $(cut -c 1-16 <<<"$b")... \(registry\)" pinned
check 'no byte of it came' bash -c "! awk '\$3 ~ /cdn/ && \$8 > 1' log | grep -q . && ! find cache -name '*.gguf' 2>/dev/null | grep -q ."
is 'a digest of the user that is not what the hub has' 5 "expected .* \(--sha256\)" hf:acme/m:a.gguf --sha256 "$b"
is 'weights that cannot be run: a note, and the download' 0 'bn-run cannot run this file: weights in safetensors' pinned:bf16
is 'weights in several files' 9 'in several files' parts
is 'no such name' 3 "unknown model 'nobody'" nobody
is 'a path with a scheme is refused' 2 'file:///tmp/x.gguf: not a URL of https or http' file:///tmp/x.gguf
is 'nor is another protocol' 2 'bn-run -m FILE' ftp://127.0.0.1/x.gguf
HF_ENDPOINT=hub is 'a server that is not a URL is shown' 2 "HF_ENDPOINT: 'hub' is not a valid URL" acme/m
HF_ENDPOINT=http://127.0.0.1:9 is 'a list of files names the server that is down' 6 'api/models/acme/m/.*Failed to connect' acme/m --retries 0
HF_ENDPOINT=http://127.0.0.1:9 is 'with what finds the cause' 6 'hint: bn-download doctor' acme/m --retries 0
is 'offline, a repository is named' 3 'acme/none: not in the cache' acme/none --offline
is 'nearly a name' 3 "did you mean 'pinned'" pined
is 'no such variant' 3 'its variants are i2_s, bf16' pinned:x
echo '{' >broken.json
BN_REGISTRY=broken.json is 'a registry that is not JSON' 4 'broken.json' pinned
for field in licence licence_url variant runs parameters name; do
    sed "0,/\"$field\": \"/s//&\\\\u001b]0;PWN\\\\u0007/" registry.json >escape.json
    BN_REGISTRY=escape.json lacks "a terminal escape in the registry's $field is not printed" $'[\x1b\x07]' "$bn" list
    BN_REGISTRY=escape.json is "the registry is refused ($field)" 4 'control characters' pinned
done

# ---- first use ----
fresh
is 'a name without a pin: its digest is recorded' 0 'first download: sha256' free
check 'in a file' grep -q "\"hf:acme/m:a.gguf\": \"$a\"" state/bn/pins.json
get free
check 'and then it is as good as one' bash -c "[ $status -eq 0 ] && [ ! -s log ] && [ ! -s err ] || grep -q licence err"
rm -rf cache
hub $two b.gguf
is 'something else under the same name' 5 "expected .* \(first use\)" free
get hf:acme/m:a.gguf
check 'a branch that moved, by its address' cmp "$(cat out)" root/cdn/b.gguf
get "hf:acme/m:a.gguf@$one"
check 'the old commit is to be had still' cmp "$(cat out)" root/cdn/a.gguf
check 'and the branch stays where it was' equal "$(cat cache/models--acme--m/refs/main)" $two
rm state/bn/pins.json
get hf:acme/m:a.gguf

# ---- offline, path, folders ----
get --offline hf:acme/m:a.gguf
check 'offline, a file that is here: no request is sent' bash -c "[ $status -eq 0 ] && [ ! -s log ]"
HF_HUB_OFFLINE=1 is 'offline, a file that is not here' 3 'the network is off' hf:acme/one
get path hf:acme/m:a.gguf
check 'path' bash -c "[ $status -eq 0 ] && cmp -s \"\$(cat out)\" root/cdn/b.gguf && [ ! -s log ]"
is 'path of a file that is not here' 3 'hint: bn-download hf:acme/one' path hf:acme/one
get hf:acme/m:dir/sub/c.gguf --to out.d
get hf:acme/m:dir/sub/c.gguf --to out.d --offline
check '--to, offline: a file that is there' bash -c "[ $status -eq 0 ] && [ \"\$(cat out)\" = out.d/dir/sub/c.gguf ] && [ ! -s log ]"
get pinned --to out.d --offline
check '--to, offline: a file that is not there' test $status -eq 3
cp root/cdn/b.gguf out.d/a.gguf
is '--to, offline: another file of that name' 5 'expected' pinned --to out.d --offline
get hf:acme/m:dir/sub/c.gguf --to out.d
check '--to' bash -c "[ \"\$(cat out)\" = out.d/dir/sub/c.gguf ] && cmp -s out.d/dir/sub/c.gguf root/cdn/b.gguf"
get --dry-run hf:acme/m:dir/sub/c.gguf --to none.d
check '--dry-run says what, and fetches nothing' bash -c "grep -q 'sha256  $b (hub)' out && grep -q 'size    40 B' out && [ ! -e none.d ]"
get hf:acme/one:a.gguf hf:acme/m:config.json
check 'two at once' equal "$(wc -l <out)" 2

# ---- events ----
fresh
hub $one a.gguf
get --json pinned
check '--json: events, and the result at the end' bash -c "[ $status -eq 0 ] && head -n 1 out | grep -q '\"event\":\"start\"' && tail -n 1 out |
    grep -q '\"bytes\":$(size root/cdn/a.gguf),.*\"event\":\"done\".*\"fetched\":$(size root/cdn/a.gguf),.*\"sha256\":\"$a\",\"sha256_source\":\"registry\"'"
check 'nothing else is said' test ! -s err
get --json pinned
check 'of what was here too' grep -q '"cached":true.*"event":"done"' out
get --json nobody
check 'an error is the last line' bash -c "tail -n 1 out | grep -q '\"exit\":3,.*\"schema\":\"bn.error/1\"'"
fresh
{ head_of_model; head -c 6000000 /dev/zero; } >root/cdn/zero.gguf
large slow/resolve/main/z.gguf main $one zero.gguf >>script
echo '* /cdn/zero.gguf stall=5000000' >>script # one piece of 4 MiB, and a part of the next one
"$bn" --json hf:acme/slow:z.gguf --parallel 1 >out 2>err &
pid=$!
wait_for bash -c "grep -qs '\"piece\"' cache/models--acme--slow/blobs/*.part.json"
wait_for grep -q '"event":"progress"' out
kill -INT $pid
wait $pid
status=$?
check 'interrupted: 130, and an event that says so' bash -c "[ $status -eq 130 ] && tail -n 1 out | grep -q interrupted"
get clean --json
check 'what came stays, until it is cleaned' grep -q 'unfinished download' out
get -v hf:acme/m:a.gguf
check '-v: the rate and the digest' grep -q "sha256 $a (hub)" err

# ---- list ----
get list
check 'list: names, variants, licences' bash -c "grep -qE '^pinned +[0-9.]+ KiB +yes +yes +pinned +MIT$' out && grep -qE '^pinned:bf16 .* no ' out && grep -q 'pinned:bf16.*: weights in safetensors' out"
get list --json
check 'list --json' bash -c "grep -q '\"schema\": \"bn.download/1\"' out && grep -q '\"path\": \"$tmp/cache' out"
get list
check 'list: models without a digest' grep -qE '^free +- +yes +yes +x$' out
get free
get list
check 'list: a digest of first use' grep -qE '^free +- +yes +yes +first +x$' out
get list --json
check 'list --json names the source of each digest' bash -c "grep -q '\"sha256_source\": \"pinned\"' out && grep -q '\"sha256_source\": \"first\"' out && grep -q '\"sha256\": \"$a\"' out"
check 'the built-in registry fits 80 columns' bash -c "[ \$(BN_REGISTRY= $bn list | awk 'length > 80' | wc -l) -eq 0 ] && BN_REGISTRY= $bn list | grep -q '^bitnet-b1.58-2b-4t .* pinned  MIT'"
get list --cached
check 'list --cached' bash -c "grep -qE '^acme/m +a.gguf +[0-9.]+ KiB  11111111  file' out"

# ---- verify ----
fresh
get pinned
get hf:acme/m:config.json
get verify
check 'verify: the hub and the registry agree; a small file has no digest' bash -c "[ $status -eq 0 ] && grep -q '^ok .*acme/m/a.gguf@11111111  (hub, registry)' out && grep -q '^unknown .*config.json' out"
get verify hf:acme/m:config.json
check 'nothing that could be verified is a negative result' test $status -eq 1
cp root/cdn/a.gguf plain.gguf
is 'a plain file that the registry knows' 0 '1 ok' verify plain.gguf
is 'one that has the digest' 0 '1 ok' verify root/cdn/b.gguf --sha256 "$b"
is 'one that has not' 5 '1 bad' verify root/cdn/b.gguf --sha256 "$a"
is 'a file without a known digest' 1 '1 unknown' verify root/cdn/config.json
is 'one that is not there' 3 'nothere' verify ./nothere.gguf
printf 'x' | dd of="cache/models--acme--m/blobs/$a" bs=1 seek=100 conv=notrunc 2>/dev/null
get verify
check 'one byte is wrong: 5, and its line says so' bash -c "[ $status -eq 5 ] && grep -q '^BAD .*a.gguf@11111111  (hub expects $a)' out"
get verify --json pinned
check 'verify --json' bash -c "[ $status -eq 5 ] && grep -q '\"state\": \"BAD\"' out && grep -q '\"bad\": 1' out"
fresh
get free
sed -i "s/$a/$b/" state/bn/pins.json
is 'a digest of first use that does not hold' 5 '1 bad' verify free

# ---- lock files ----
fresh
get lock pinned hf:acme/m:dir/sub/c.gguf -o one.lock
check 'lock: commit, digest, size' bash -c "[ $status -eq 0 ] && grep -q '\"revision\":.\"$one\"' one.lock && grep -q '\"sha256\":.\"$a\"' one.lock && grep -q '\"licence\":.\"MIT\"' one.lock"
check 'and nothing is fetched' bash -c "! find cache -name '*.gguf' 2>/dev/null | grep -q ."
"$bn" lock hf:acme/m:dir/sub/c.gguf pinned >two.lock 2>/dev/null
check 'the same models give the same bytes' cmp one.lock two.lock
sed "s#/resolve/main/#/resolve/$one/#" script >script.more
cat script.more >>script
get --lock one.lock
check '--lock downloads the listed files' bash -c "[ $status -eq 0 ] && [ \$(wc -l <out) -eq 2 ] && cmp -s \"\$(tail -n 1 out)\" root/cdn/a.gguf"
get --lock one.lock --offline
check 'and finds it later without the network' bash -c "[ $status -eq 0 ] && [ ! -s log ]"
is 'verify --lock' 0 '2 ok' verify --lock one.lock
get lock --offline -o cache.lock
check 'lock of the whole cache sends no request' bash -c "[ $status -eq 0 ] && [ ! -s log ] && grep -q '\"id\":.\"hf:acme/m:a.gguf@$one\"' cache.lock"
"${bn%bn-download}bn-run" -q -m "$model" -n 1 --tokens 1,2 --receipt receipt.json >/dev/null
vocabulary=$(grep -oE '"tokenizer_sha256": *"[0-9a-f]{64}"' receipt.json)
check 'it names the vocabulary as receipts do' grep -qF "${vocabulary##* }" cache.lock
sed "s/$a/$b/" one.lock >bad.lock
rm -rf cache
is 'a lock file with another digest' 5 'expected .* \(--sha256\)' --lock bad.lock
sed 's/"size":.[0-9]*/"size": 7/' one.lock >bad.lock
is 'a lock file with another size' 5 'expected 7' --lock bad.lock
sed 's#"file":."a.gguf"#"file": "../a.gguf"#' one.lock >bad.lock
is 'a lock file with a path that leads out' 4 'bad.lock' --lock bad.lock
sed 's#"http://#"file://#' one.lock >bad.lock
is 'with a URL that is not https' 4 'bad.lock' --lock bad.lock
is '--lock and a model' 2 'give no MODEL' --lock one.lock pinned

# ---- clean ----
fresh
get hf:acme/m:a.gguf
hub $two b.gguf
get hf:acme/m:a.gguf
blobs=cache/models--acme--m/blobs
head -c 1000 /dev/zero >"$blobs/$(printf '%064d' 7).part"
echo '{}' >"$blobs/$(printf '%064d' 7).part.json"
echo bad >"$blobs/$(printf '%064d' 8).bad"
echo alone >"$blobs/$(printf '%064d' 9)"
before=$(find cache -not -path '*/.locks*' | sort)
is 'clean lists, and removes nothing' 0 'nothing was deleted; use --yes' clean
check 'each with its reason' bash -c "grep -q 'unfinished download' out && grep -q 'wrong bytes' out && grep -q 'in no snapshot' out && ! grep -q 'old snapshot' out"
check 'indeed nothing' equal "$(find cache -not -path '*/.locks*' | sort)" "$before"
mkfifo release
(exec 9>"cache/.locks/models--acme--m/$(printf '%064d' 7).lock" && flock 9 && : >held && read -r _ <release) &
holder=$!
wait_for test -e held
get clean --yes
check 'what another process is fetching stays' bash -c "[ $status -eq 0 ] && grep -q 'in use by another process: kept' out && [ -e $blobs/$(printf '%064d' 7).part ]"
echo >release
wait $holder
get clean --yes
check 'then it goes' bash -c "[ $status -eq 0 ] && [ \$(ls $blobs | wc -l) -eq 2 ]"
get clean --old --yes
check '--old: the snapshot that no branch is at, and its bytes' bash -c "[ $status -eq 0 ] && [ ! -e $blobs/$a ] && [ ! -e cache/models--acme--m/snapshots/$one ] && [ -e $blobs/$b ]"
get hf:acme/m:a.gguf --offline
check 'the current file is still there' cmp "$(cat out)" root/cdn/b.gguf

mkdir precious
echo mine >"precious/$(printf '%064d' 5).part"
mv "$blobs" precious/blobs.old
ln -s "$PWD/precious" "$blobs"
get clean --yes
check 'a linked blobs folder: its files stay' bash -c "[ $status -eq 0 ] && [ -e precious/$(printf '%064d' 5).part ] && ! grep -q unfinished out"

# ---- the other programs ----
fresh
hub $one a.gguf
says 3 'bn-run names the command that fetches it' 'hint: bn-download pinned' "$bin/bn-run" -m pinned --tokens 1 -n 2
get pinned
status 0 'bn-run by name' "$bin/bn-run" -q -m pinned --tokens 1 -n 2 --receipt receipt.json
check 'its receipt has the name' grep -q '"path": "pinned"' receipt.json
status 0 'which is replayed by name' "$bin/bn-verify-receipt" -q --replay --model pinned receipt.json
status 0 'bn-run by OWNER/REPO' "$bin/bn-run" -q -m acme/m --tokens 1 -n 2
mkdir acme
printf 'no model' >acme/m
says 4 'a local path of that name comes first' 'acme/m' "$bin/bn-run" -m acme/m --tokens 1 -n 2
rm -r acme
says 3 'OWNER/REPO that is not here' 'hint: bn-download acme/none' "$bin/bn-run" -m acme/none --tokens 1 -n 2
status 0 'bn-run by address' "$bin/bn-run" -q -m hf:acme/m:a.gguf --tokens 1 -n 2 --receipt receipt.json
check 'its receipt has that' grep -q '"path": "hf:acme/m:a.gguf"' receipt.json
printf 'x' | dd of="cache/models--acme--m/blobs/$a" bs=1 seek=100 conv=notrunc 2>/dev/null
for name in pinned hf:acme/m:a.gguf; do
    says 5 "bn-run -m $name: the file was damaged meanwhile" "sha256 is .*, expected $a" "$bin/bn-run" -m $name --tokens 1 -n 2
    says 5 "bn-download path $name says so too" "sha256 is .*, expected $a" "$bn" path $name
done
get pinned
status 0 'downloaded again it runs' "$bin/bn-run" -q -m pinned --tokens 1 -n 2
rm cache/models--acme--m/refs/main
mkfifo cache/models--acme--m/refs/main
says 3 'a pipe in refs/ is not waited for' 'not in the cache' timeout 25 "$bin/bn-run" -m hf:acme/m:a.gguf --tokens 1 -n 2
status 0 'nor by clean' timeout 25 "$bn" clean
rm cache/models--acme--m/refs/main
get pinned
printf 'no model' >pinned
says 4 'a file of that name comes first' 'pinned' "$bin/bn-run" -m pinned --tokens 1 -n 2
rm pinned
says 0 'bn-crossval gives references the path' 'pass|agree' "$bin/bn-crossval" logits -m pinned --tokens 1,2,3 --ref 'bn --isa ref'
