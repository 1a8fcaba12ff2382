#!/usr/bin/env bash
# The pages of bn-serve: their policies, and both pages used in Chromium (serve_pages.py): a chat model, a base model, hostile
# answers, faults, keys, links to receipts, the dashboard, reports; answers that a test makes up (chat_pages.py): Markdown,
# thoughts, calls, several models. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/serve/server.sh
. tests/serve/server.sh
# shellcheck disable=SC2034 # read by start
defaults=()
# use PART ARGUMENTS...: a part of serve_pages.py, or of $pages
use() {
    local verdict title n=0 said=$tmp/said
    timeout 1200 python3 "tests/cli/${pages:-serve_pages}.py" "$1" "$url" "${@:2}" >"$tmp/results" 2>&1
    cp "$tmp/results" "$said"
    while read -r verdict title; do
        case $verdict in
        pass) ok "$1: $title" ;;
        fail) not_ok "$1: $title" "$(grep -F "# $title" "$said")" ;;
        *) continue ;;
        esac
        n=$((n + 1))
    done <"$tmp/results"
    [ $n -gt 0 ] || not_ok "$1 is run" "$(cat "$said")"
}

start --template instruct

# ---- policies ----

# The rules that a page and its policy obey, one complaint a line.
cat >"$tmp/policy.py" <<'END'
import base64, hashlib, re, sys
head, body = open(sys.argv[1]).read().split("\n\n", 1)
bad = []
policy = re.search(r"(?im)^content-security-policy: (.*)$", head)
rules = {r.split()[0]: r.split()[1:] for r in policy[1].split(";")} if policy else {}
for tag, rule in (("script", "script-src"), ("style", "style-src")):
    parts = re.findall(rf"<{tag}>(.*?)</{tag}>", body, re.S)
    want = ["'sha256-" + base64.b64encode(hashlib.sha256(p.encode()).digest()).decode() + "'" for p in parts]
    if len(parts) != 1 or rules.get(rule) != want:
        bad.append(f"{rule} is {rules.get(rule)}, the page has {want}")
for rule, want in (("default-src", ["'none'"]), ("connect-src", ["'self'"]), ("base-uri", ["'none'"]), ("form-action", ["'none'"]),
                   ("frame-ancestors", ["'none'"]), ("img-src", ["data:"]), ("require-trusted-types-for", ["'script'"]), ("trusted-types", ["'none'"])):
    if rules.get(rule) != want:
        bad.append(f"{rule} is {rules.get(rule)}")
if not re.search(r"(?im)^x-content-type-options: nosniff$", head):
    bad.append("no nosniff")
markup = re.sub(r"<(script|style)>.*?</\1>", "", body, flags=re.S)
bad += [f"attribute {a}" for a in re.findall(r"<[^>]*\s((?:on\w+|style)\s*=)", markup)]
bad += [f"address {a}" for a in re.findall(r"(?:src|href|action)=[\"'](?!#|/|data:)([^\"']*)", markup)]
bad += [f"code {c}" for c in re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://(?!www\.w3\.org/2000/svg)\S*", body.replace("xmlns='http://www.w3.org/2000/svg'", ""))]
print("\n".join(bad))
sys.exit(bool(bad))
END
for address in / /dashboard; do
    curl -sS -m 60 -i "$url$address" | tr -d '\r' >"$tmp/page"
    check "$address permits its one script and its one style, and nothing else" python3 "$tmp/policy.py" "$tmp/page"
    check "$address is the same for all, without a key" grep -q '^HTTP/1.1 200' "$tmp/page"
done
# plant TITLE PATTERN SED-EXPRESSION: a fault in the page is noticed
plant() {
    sed "$3" "$tmp/page" >"$tmp/planted"
    says 1 "$1 is noticed" "$2" python3 "$tmp/policy.py" "$tmp/planted"
}
plant 'another script' 'script-src' 's/"use strict";/"use strict"; void 0;/'
plant 'another style' 'style-src' 's/--paper/--card/'
plant 'a handler in an attribute' 'attribute onclick' 's/<main>/<main onclick="x()">/'
plant 'a style in an attribute' 'attribute style' 's/<main>/<main style="x">/'
plant 'an address elsewhere' 'address https' 's,<main>,<main><img src="https://evil.example/x">,'
plant 'a weaker policy' 'default-src' "s/default-src 'none'/default-src 'self'/"

# ---- in a browser ----

if ! python3 -c 'import sys; sys.path.insert(0, "tests/cli"); import browser; sys.exit(not browser.installed())'; then
    skip 'in a browser' 'no chromium'
    exit
fi
use conversations
use hostile
use faults
use looks
use dashboard
for gate in markdown markup wraps thoughts tools models long links access; do pages=chat_pages use $gate; done
start --template instruct --ctx 128
use full
start
use base
# A chat model: the built-in one, with the marks of ChatML and a template that names them.
python3 tests/cli/edit_vocabulary.py fixtures/shakespeare-5m-i2_s.gguf "$tmp/chatml.gguf" qwen2 \
    "{{ '<|im_start|>' + message['role'] }}" '2041=<|im_start|>' '2042=<|im_end|>' '2043=<|endoftext|>'
start -m "$tmp/chatml.gguf"
use chat
start -m "$tmp/chatml.gguf" --template qwen35
use thinks
start -m "$tmp/chatml.gguf" -m "$model" --template instruct
use several
key=0123456789abcdef-key
echo "$key" >"$tmp/keys"
start --template instruct --api-key-file "$tmp/keys"
use keys "$key"
"$bin/bn-verify-receipt" keygen -o "$tmp/key" >/dev/null
start --template instruct --sign "$tmp/key"
use signed

# ---- reports ----

mkdir "$tmp/bench"
echo 'A note' >"$tmp/bench/note.md"
echo '<!DOCTYPE html><title>x</title><h1>A report</h1><script>document.title = origin</script>' >"$tmp/bench/report.html"
start --template instruct --dashboard "$tmp/bench"
use reports
