#!/usr/bin/env bash
# Usage: run.sh programs|receipts|benchmark
# The steps of action.yml, which gives their inputs as environment variables. Exit status: those of the programs
# (docs/man/bn.7); 2 wrong inputs, 3 something is not there, 5 a wrong digest. Nothing to check is not a success.
set -euo pipefail
fail() { # STATUS TEXT
    echo "::error title=bn::$2"
    exit "$1"
}
lines() { # NAME TEXT: an array of its lines, without blank ones and spaces around them
    local -n array=$1
    # shellcheck disable=SC2034 # the caller's
    mapfile -t array < <(sed -E 's/^[[:space:]]+//; s/[[:space:]]+$//; /^$/d' <<<"$2")
}
summary() { tee -a "${GITHUB_STEP_SUMMARY:-/dev/null}"; }
# What a program prints goes into the log and, as text, into the summary of the job.
report() { # TITLE COMMAND...
    local status=0
    printf '### %s\n\n```text\n' "$1" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
    "${@:2}" 2>&1 | summary || status=$?
    printf '```\n\n' >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
    [ "$status" -eq 0 ] || fail "$status" "$1: ${2##*/} ended with status $status"
}
need() { command -v "$1" >/dev/null || fail 3 "$1 is not among the programs; 'path' names a folder that has it"; }

programs() {
    [ -n "$BN_RECEIPTS$BN_BENCHMARK" ] || fail 2 "nothing to do: give 'receipts', 'benchmark' or 'benchmark-document'"
    local folder=$BN_PATH version=${BN_VERSION#v} name
    if [ -z "$folder" ]; then
        [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail 2 "'$BN_VERSION' is not a release: give 'version', such as 0.1.0"
        name=bn-$version-linux-$(uname -m)
        folder=$(mktemp -d -p "${RUNNER_TEMP:-/tmp}")
        for file in SHA256SUMS "$name.tar.gz"; do
            curl -fsSL --retry 3 -o "$folder/$file" "$BN_RELEASES/v$version/$file" || fail 6 "cannot download $BN_RELEASES/v$version/$file"
        done
        grep -E "^[0-9a-f]{64} [ *]$name\.tar\.gz\$" "$folder/SHA256SUMS" >"$folder/wanted" || fail 5 "SHA256SUMS has no $name.tar.gz"
        (cd "$folder" && sha256sum --quiet -c wanted) || fail 5 "$name.tar.gz is not the file of SHA256SUMS"
        tar -xzf "$folder/$name.tar.gz" -C "$folder"
        folder=$folder/$name
    fi
    folder=$(cd "$folder" 2>/dev/null && pwd) || fail 3 "there is no folder $folder"
    [ -z "$BN_RECEIPTS" ] || PATH=$folder need bn-verify-receipt
    [ -z "$BN_BENCHMARK" ] || PATH=$folder need bn-bench
    echo "$folder" >>"$GITHUB_PATH"
}

receipts() {
    local patterns keys models found=() options=()
    lines patterns "$BN_RECEIPTS"
    lines keys "$BN_KEYS"
    lines models "$BN_MODELS"
    for pattern in "${patterns[@]}"; do
        mapfile -t -O "${#found[@]}" found < <(compgen -G "$pattern" | sort || true)
        compgen -G "$pattern" >/dev/null || fail 3 "there is no receipt '$pattern'"
    done
    [ "${#found[@]}" -gt 0 ] || fail 3 "'receipts' names no file"
    [ -z "$BN_POLICY" ] || options+=("--policy=$BN_POLICY")
    options+=("${keys[@]/#/--public-key=}" "${models[@]/#/--model=}")
    case $BN_REPLAY in
    true) options+=(--replay) ;;
    false) ;;
    *) fail 2 "replay is '$BN_REPLAY', not true or false" ;;
    esac
    report Receipts bn-verify-receipt verify "${options[@]}" -- "${found[@]}"
}

benchmark() {
    local numbers measure
    lines numbers "$BN_EXTRACT"
    measure=("${numbers[@]/#/--extract=}" "--rounds=$BN_ROUNDS")
    [ "${#numbers[@]}" -eq 0 ] || measure+=(--output-only)
    if [ -n "$BN_DOCUMENT" ]; then
        [ -z "$BN_COMMAND$BN_BASE" ] || fail 2 "'benchmark-document' excludes commands"
    elif [ -n "$BN_BASE" ]; then
        report Benchmark bn-bench ab --strict --shell "--margin=$BN_MARGIN" "${measure[@]}" -- "$BN_BASE" --vs "$BN_COMMAND"
        return
    else
        BN_DOCUMENT=$(mktemp -p "${RUNNER_TEMP:-/tmp}" bench.XXXXXX.json)
        bn-bench cmd -q --json --shell --name benchmark "${measure[@]}" -- "$BN_COMMAND" >"$BN_DOCUMENT" || fail $? "the command cannot be measured"
    fi
    report Benchmark bn-bench baseline check "--baseline=$BN_BASELINE" "--ledger=$BN_BASELINES" "$BN_DOCUMENT"
}

case ${1:-} in
programs | receipts | benchmark) "$1" ;;
*) echo "usage: run.sh programs|receipts|benchmark" >&2 && exit 2 ;;
esac
