#!/usr/bin/env bash
# bn-bench profile and bn-run --profile: the output, unchanged results, and the refusal of documents that were not measured.
# No assertions on speed. TAP on standard output.
# shellcheck disable=SC2016 # programs for awk
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
unset BN_MODEL BN_ISA BN_DEVICE BN_THREADS
. tests/tap.sh
bench() { "$bin/bn-bench" "$@"; }
work=(-p 8 -n 6 -t 2 -r 1)
broken() { # title, rule, file: exactly this rule, or at least this one, is broken
    says 1 "$1" "^FAIL +$2 " bench profile --check "$3"
}

# When the machine suspends the process between two bricks, the profile is bad and the exit status reports it. So it is repeated
# until it passes.
genuine() { # file, arguments...
    local file=$1 try
    shift
    for ((try = 0; try < 200; try++)); do
        bench profile -q --json "$@" >"$file" && return 0
    done
    return 1
}
check 'a profile as a document' genuine "$tmp/a.json" "${work[@]}"
says 0 'it keeps every rule' '^ok +summary ' bench profile --check "$tmp/a.json"
lacks 'no rule is broken' '^FAIL' bench profile --check "$tmp/a.json"
for level in layer kernel; do
    check "level $level" genuine "$tmp/$level.json" "${work[@]}" --level "$level"
    says 0 "level $level keeps every rule" '^ok +counts ' bench profile --check "$tmp/$level.json"
done
check 'one thread' genuine "$tmp/one.json" "${work[@]}" -t 1
says 0 'one thread keeps every rule' '^ok +sums ' bench profile --check "$tmp/one.json"
sed 's/^\( *\)"level": "brick",$/&\n\1"mode": "Deferred",/' "$tmp/one.json" >"$tmp/older.json"
check 'an older document names a mode' grep -q '"mode": "Deferred"' "$tmp/older.json"
says 0 'which is not read' '^ok +sums ' bench profile --check "$tmp/older.json"
says 0 'two measurements are not copies' '^ok +summary ' bench profile --check "$tmp/a.json" --check "$tmp/one.json"
says 1 'a document and itself are' '^FAIL +copies ' bench profile --check "$tmp/a.json" --check "$tmp/a.json"
says 1 'so says the JSON' '"ok": false' bench profile --json --check "$tmp/a.json" --check "$tmp/a.json"

# Tables. The status may be 1 on a busy machine, so only the text is checked.
bench profile -q "${work[@]}" --level kernel >"$tmp/table" 2>&1
for line in 'RmsNorm ' 'QkvProjection ' 'RopeEmbedding ' 'AttentionScore ' 'AttentionSoftmax ' 'AttentionOutput ' \
    'OutputProjection ' 'GateProjection ' 'UpProjection ' 'Activation ' 'DownProjection ' 'Embedding ' 'LmHead ' 'Sampling ' \
    'ActivationQuantize ' 'KvStore ' 'BarrierWait ' 'Attention ' 'ResidualAdd ' 'Team ' '\(unattributed\) ' 'Norm ' 'FFN ' \
    'Head ' 'Other ' '0 ' '1 ' 'predicted ' 'measured ' 'one event ' 'dropped +0 events'; do
    check "the table has: $line" grep -qE "^$line" "$tmp/table"
done

# Forgeries. An event is a row: brick, kernel, layer, pass, depth, begin, end, elements, bytes, rows, cols, n.
forge() { # awk program over the fields of events, which are whole numbers of any size; others pass through
    awk -v CONVFMT=%.0f -v OFS=', ' -F', ' '
        /^ *\[[-0-9, ]+\],?$/ && NF == 12 { sub(/^ *\[/, ""); tail = sub(/\],$/, "") ? "]," : "]"; sub(/\]$/, "")
            '"$1"'; print "[" $0 tail; next }
        { print }' "$tmp/a.json" >"$tmp/forged.json"
}
forge ''
says 0 'a copy of the bytes is read as well' '^ok +summary ' bench profile --check "$tmp/forged.json"
forge 'if ($1 == 8 && $3 == 1) { x = $6; $6 = $7; $7 = x - 100 }'
broken 'a negative duration' stamps "$tmp/forged.json"
forge '$6 = int($6 / 1000) * 1000; $7 = int($7 / 1000) * 1000'
broken 'rounded stamps' quantum "$tmp/forged.json"
forge 'if ($3 == 2) $3 = 1'
broken 'a missing layer' counts "$tmp/forged.json"
forge 'if ($4 < last) thread++; last = $4; if ($1 == 0 && $3 >= 0 && !seen[thread, $4, $3]++) $1 = 20' # as if waited
broken 'a missing norm, in all layers alike' counts "$tmp/forged.json"
forge 'if ($1 == 13) $1 = 19'
broken 'a missing head' counts "$tmp/forged.json"
forge 'if ($4 != last) { last = $4; n = 0 }; $6 = 1000000 * ($4 + 1) + 100 * n; $7 = $6 + 100; n++'
broken 'an even split' variation "$tmp/forged.json"
forge 'if ($4 != last || at == 0) { last = $4; at = 1000000 * ($4 + 1) }; $6 = at; at += 37 * ($1 + 1); $7 = at; $8 = 1'
broken 'a split by percentages' variation "$tmp/forged.json"
forge '$6 = int($6 * 3); $7 = int($7 * 3)'
sed -E 's/^( *"wall_ns": )([0-9]+)/\1\2000/' "$tmp/forged.json" >"$tmp/scaled.json"
says 1 'a scaled copy' '^FAIL +copies ' bench profile --check "$tmp/a.json" --check "$tmp/scaled.json"
sed -E '0,/"exclusive_ns": [0-9]+/s//"exclusive_ns": 1/' "$tmp/a.json" >"$tmp/forged.json"
broken 'an edited total' summary "$tmp/forged.json"
sed -E 's/"decode_tokens_per_second": [0-9]/&0/' "$tmp/a.json" >"$tmp/forged.json"
broken 'an edited speed' summary "$tmp/forged.json"
sed -E 's/"dropped": 0/"dropped": 3/' "$tmp/a.json" >"$tmp/forged.json"
broken 'dropped events' complete "$tmp/forged.json"
sed -E 's/"events": \[/"event": [/' "$tmp/a.json" >"$tmp/forged.json"
says 4 'a document without events' 'holds no events' bench profile --check "$tmp/forged.json"
echo '{}' >"$tmp/forged.json"
status 4 'a document of something else' bench profile --check "$tmp/forged.json"
status 3 'no such document' bench profile --check "$tmp/none.json"
status 2 'an unknown level' bench profile --level atom
status 2 'no tokens to decode' bench profile -n 0

# bn-run
with=$("$bin/bn-run" -q -p 'ROMEO:' -n 8 --profile "$tmp/run.json" 2>/dev/null)
check 'bn-run writes the same text with a profile' equal "$with" "$("$bin/bn-run" -q -p 'ROMEO:' -n 8)"
bench profile --check "$tmp/run.json" >"$tmp/found" 2>&1
check 'its document is read' grep -qE '^ok +summary ' "$tmp/found"
check 'it keeps all rules but, on a busy machine, that of coverage' equal "$(grep '^FAIL' "$tmp/found" | grep -vc '^FAIL *coverage')" 0
check 'it has the phases of each token' grep -q '"forward_ns"' "$tmp/run.json"
status 3 'a folder that is not there' "$bin/bn-run" -q -p x -n 1 --profile "$tmp/none/profile.json"
