#!/usr/bin/env bash
# Runs every command of README.md and of docs/ as it is printed, or finds in the page why it is not run (documents.py has the marks).
# The pages that are generated from option tables are left out. A hub on this machine stands in for the network.
# docs.sh PAGE... runs these pages only. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
server=
cleanup() { [ -z "$server" ] || kill "$server" 2>/dev/null; tap_end; }
trap cleanup EXIT
while read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(BN_|HF_|XDG_|OMPI_|CURL_CA|SSL_CERT|RAYON|NO_COLOR)|_proxy$|_PROXY$')

# ---- the hub ----
model=$PWD/fixtures/built-in-i2_s.gguf commit=1111111111111111111111111111111111111111
size=$(stat -c %s "$model") digest=$(sha256sum <"$model" | cut -d' ' -f1)
mkdir "$tmp/root"
cp "$model" "$tmp/root/model.gguf"
: >"$tmp/log"
: >"$tmp/script"
for revision in main $commit; do
    echo "* /microsoft/bitnet-b1.58-2B-4T-gguf/resolve/$revision/ggml-model-i2_s.gguf redirect=%p/model.gguf header=X-Repo-Commit:$commit header=X-Linked-Etag:\"$digest\" header=X-Linked-Size:$size"
done >>"$tmp/script"
"$out/tests/httpd/httpd" "$tmp/root" "$tmp/script" "$tmp/log" >"$tmp/port" &
server=$!
wait_for test -s "$tmp/port"
HUB=http://127.0.0.1:$(cat "$tmp/port")
# The model of 1.2 GB has the size and the digest of the one that the hub has.
sed "0,/\"size\": [0-9]*/s//\"size\": $size/; 0,/\"sha256\": \"[0-9a-f]*\"/s//\"sha256\": \"$digest\"/" hub/names/registry.json >"$tmp/registry.json"
export HUB HF_ENDPOINT=$HUB BN_REGISTRY=$tmp/registry.json

documents() { # folder of the repository, pages...: their verdicts to standard output
    local work
    work=$(mktemp -d -p "$tmp")
    python3 tests/cli/documents.py "$1" "$out" "$work" "${@:2}"
}

# ---- the test can fail ----
page() { printf '%s\n' "$@" >"$tmp/page.md"; documents "$PWD" "$tmp/page.md" >"$tmp/said" 2>&1; }
finds() { grep -qE -- "$1" "$tmp/said" || { cat "$tmp/said"; return 1; }; }
page '    true' '' 'text' '' '    true' '    false' '    true'
check 'a block that succeeds is run' finds '^pass .*page.md:1 true'
check 'a command that fails in the middle of a block is noticed' finds '^fail .*page.md:5 true: status 1: false'
page '```' '$ printf "a\nb\n"' 'a' 'c' '$ echo d' 'd' '```'
check 'output that differs is noticed' finds '^fail .*printed'
page '```' '$ cat x' 'one' 'two' '$ wc -l <x' '2' '```'
check 'a file that a page shows is there' finds '^pass'
page '<!-- not run: it takes a day -->' '' '    false' '' 'text' '' '    false'
check 'a block with a reason is not run' finds '^note .*not run: it takes a day'
check 'only the block after the mark' finds '^fail .*page.md:7 false'
page '<!-- not run: -->' '    false'
check 'a mark needs a reason' finds '^fail .*without a reason'
page '    true' '' '<!-- not run: no block -->'
check 'a mark needs a block' finds '^fail .*no block after'
page '    exit 0' '' 'text' '' '    true'
check 'a block that ends the session is noticed' finds '^fail .*page.md:5 true: the session ended'
page '<!-- may exit with 9: why -->' '' '    (exit 9)' '' 'text' '' '    (exit 9)'
check 'a status is allowed for one block' finds '^pass .*page.md:3'
check 'and not for the next' finds '^fail .*page.md:7'
page '```json' '{"a": 1}' '```'
check 'another language is not a command' finds '^note 0 blocks run'

# ---- the pages ----
tests=$tap_n
[ $# -gt 0 ] || mapfile -t pages < <(find README.md docs -name '*.md' ! -path 'docs/reference/bn*' ! -path 'docs/baselines/*' | sort)
documents "$PWD" "${@:-${pages[@]}}" >"$tmp/said"
sed -n 's/^note /# /p' "$tmp/said"
grep -v '^note ' "$tmp/said" >"$tmp/verdicts"
verdicts "$tmp/verdicts"
check 'the pages have commands' test $((tap_n - tests)) -gt $(($# > 0 ? 0 : 80))
