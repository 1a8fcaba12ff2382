#!/usr/bin/env bash
# Installs the bridge with node-llama-cpp from the npm registry into DIR/node-llama-cpp, with the versions and
# digests of package-lock.json, and writes DIR/bn-bridge-node-llama-cpp, which starts it. It runs no script of a
# package and leaves out the variants for graphics cards (600 MB).
# Exit status: 0 done; 9 not possible here, with the reason on standard output.
#
#   crossval/bridges/node-llama-cpp/install.sh DIR
set -u
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?folder}/node-llama-cpp
unable() { echo "$*"; exit 9; }
command -v node >/dev/null || unable "node is not installed"
command -v npm >/dev/null || unable "npm is not installed"
platform=$(node -p 'process.platform + "-" + process.arch')
[ "$platform" = linux-x64 ] || unable "package.json pins the library for linux-x64 only, not for $platform"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || unable "node is older than version 20"
mkdir -p "$dir"
# The bridge is next to its packages, where node searches for them.
cp "$here"/package.json "$here"/package-lock.json "$here"/bridge.mjs "$dir"
cp "$here"/../protocol.mjs "$dir/.."
# shellcheck disable=SC2016 # the launcher expands it
printf '#!/bin/sh\nexec node "$(dirname "$0")/node-llama-cpp/bridge.mjs" "$@"\n' >"$dir/../bn-bridge-node-llama-cpp"
chmod +x "$dir/../bn-bridge-node-llama-cpp"
cmp -s "$dir/package-lock.json" "$dir/installed-lock.json" && exit 0
# Not npm ci: it fails when a registry lacks a variant for a platform that is left out anyway. npm install also
# checks the digests.
if ! (cd "$dir" && npm install --ignore-scripts --omit=optional --no-save --no-audit --no-fund >npm.log 2>&1); then
    unable "npm install failed: $(grep -m 1 -E '^npm (error|ERR)' "$dir/npm.log" || tail -n 1 "$dir/npm.log")"
fi
cp "$dir/package-lock.json" "$dir/installed-lock.json"
