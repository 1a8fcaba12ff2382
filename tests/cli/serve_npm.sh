#!/usr/bin/env bash
# bn-serve asked by OpenAI's own client for node. BN_NPM_INSTALL=1 installs it from the npm registry, with the version and the
# digest of tests/serve/package-lock.json; without it the test skips. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
client=$bin/tests/serve
skip_all() { echo "ok 1 - bn-serve and openai # SKIP $*"; echo 1..1; exit 0; }
command -v node >/dev/null || skip_all "node is not installed"
mkdir -p "$client"
cp tests/serve/* "$client"
if [ "${BN_NPM_INSTALL:-0}" = 1 ] && ! [ -d "$client/node_modules/openai" ]; then
    (cd "$client" && npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1) || skip_all "npm ci failed"
fi
[ -d "$client/node_modules/openai" ] || skip_all "not installed; BN_NPM_INSTALL=1 does that"
# shellcheck source=tests/tap.sh
. tests/tap.sh
server=''
finish() {
    [ -z "$server" ] || kill "$server"
    tap_end
}
trap finish EXIT
key=0123456789abcdef-key
echo "$key" >"$tmp/keys"
chmod 600 "$tmp/keys"
# No --template: this is what a newcomer has.
"$bin/bn-serve" -m fixtures/shakespeare-5m-i2_s.gguf --port 0 --pooling mean --api-key-file "$tmp/keys" \
    >"$tmp/address" 2>"$tmp/log" &
server=$!
wait_for grep -q http "$tmp/address"
timeout 300 node "$client/openai.mjs" "$(grep -oE 'http://.*' "$tmp/address")" "$key" >"$tmp/results" 2>&1
status=$?
verdicts "$tmp/results"
check 'all were run' equal "$status $(grep -c ^pass "$tmp/results")" '0 14'
