#!/usr/bin/env bash
# Shows the main job in ten lines: run a model, write a receipt, verify it, replay it, refuse a forgery.
# Usage: ci/demo.sh BUILD-FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
field() { sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\).*/\1/p" "$tmp/receipt.json" | head -n 1; }

echo " 1. model     $("$bin/bn-run" inspect | head -n 1)"
text=$("$bin/bn-run" -q -p 'ROMEO:' -n 24 --receipt "$tmp/receipt.json" | tr '\n' ' ')
echo " 2. text      ROMEO:$text"
echo " 3. receipt   $(field tokens_generated) tokens at $(field tokens_per_second)/s; $(grep -c '"calls"' "$tmp/receipt.json") kernels counted where they were called"
echo " 4. bound to  model sha256 $(field sha256 | cut -c1-16)..., its $(field bytes) bytes, prompt and output tokens, git commit, this machine"
"$bin/bn-verify-receipt" -v "$tmp/receipt.json" >"$tmp/rules"
echo " 5. verified  $(grep -c '^pass ' "$tmp/rules") rules passed: digests, counts, times, rates agree with each other"
"$bin/bn-verify-receipt" -q --replay "$tmp/receipt.json" >/dev/null
echo " 6. replayed  the same tokens and the same logits, bit for bit"
"$bin/bn-verify-receipt" -q --replay --isa ref --threads 1 "$tmp/receipt.json" >/dev/null
echo " 7. replayed  again in plain C on one thread: still the same bits"
sed 's/"tokens_per_second": [0-9.]*/"tokens_per_second": 99999.5/' "$tmp/receipt.json" >"$tmp/forged.json"
status=0
"$bin/bn-verify-receipt" -q "$tmp/forged.json" >/dev/null 2>&1 || status=$?
[ "$status" -ne 0 ] || { echo "the forged receipt passed" >&2; exit 1; }
echo " 8. forged    a receipt with an edited speed is refused (exit $status)"
echo " 9. score     $("$bin/bn-run" score -q -f fixtures/validation.txt | tr '\n' ';' | cut -d';' -f2)"
echo "10. yours     $bin/bn-run -p 'Your text' -n 64 --receipt receipt.json"
