#!/usr/bin/env bash
# bn-serve asked by the clients for node of the APIs that it has: tests/serve/NAME.mjs uses the package NAME.
# BN_NPM_INSTALL=1 installs them from the npm registry, with the versions and the digests of tests/serve/package-lock.json;
# without it the test skips. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
client=$bin/tests/serve
skip_all() { echo "ok 1 - bn-serve and clients from npm # SKIP $*"; echo 1..1; exit 0; }
command -v node >/dev/null || skip_all "node is not installed"
mkdir -p "$client"
cp tests/serve/* "$client"
installed() { (cd "$client" && npm ls --silent >/dev/null 2>&1); }
if [ "${BN_NPM_INSTALL:-0}" = 1 ] && ! installed; then
    (cd "$client" && npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1) || skip_all "npm ci failed"
fi
installed || skip_all "not installed; BN_NPM_INSTALL=1 does that"
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
for script in tests/serve/*.mjs; do
    timeout 300 node "$client/${script##*/}" "$(grep -oE 'http://.*' "$tmp/address")" "$key" >"$tmp/results" 2>&1
    status=$?
    name=$(basename "$script" .mjs)
    sed "s/ /&$name: /" "$tmp/results" >"$tmp/titles"
    verdicts "$tmp/titles"
    check "$name: all were run" equal "$status $(grep -c ^pass "$tmp/results")" "0 $(grep -c '^await test(' "$script")"
done
