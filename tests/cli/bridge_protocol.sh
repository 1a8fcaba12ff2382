#!/usr/bin/env bash
# Does a program speak bn.reference/1 (docs/explain/crossval.md)?
#
#   tests/cli/bridge_protocol.sh [COMMAND...]
#
# Without a command it checks the oracle, every bridge next to it, and those of BN_BRIDGES (one command per line). It also checks a
# reference with planted faults, each of which must be found. BN_BRIDGE_MODEL is a model that the reference can open. The default
# is a model in F16 of architecture `bitnet`, which all engines read. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=${OUT:-build/gcc}
# shellcheck source=tests/protocol/client.sh
. tests/protocol/client.sh
# shellcheck source=tests/tap.sh
. tests/tap.sh
subject=
checks() { check "$subject: $1" "${@:2}"; } # TITLE COMMAND...
at_least() {
    if [[ $1 =~ ^[0-9]+$ ]] && [ "$1" -ge "$2" ]; then return 0; fi
    echo "# '$1', expected $2 or more"
    return 1
}
good() { ask "$1" && { [ "$(member ok)" = true ] || { echo "# refused: $answer"; return 1; }; }; }
# refused KIND REQUEST: KIND may be several, with |
refused() {
    ask "$2" || return 1
    [ "$(member ok)" = false ] || { echo "# not refused: ${answer:0:200}"; return 1; }
    [[ $(member kind) =~ ^($1)$ ]] || { echo "# kind '$(member kind)' instead of $1"; return 1; }
    [ -n "$(member error)" ] || { echo "# the error has no message"; return 1; }
}
can() { [[ $capabilities == *"\"$1\""* ]]; }
numbers() { od -An -v -tf4 -w4 "$1"; }
finite() { ! numbers "$1" | grep -qiE 'nan|inf' || { echo "# numbers that are not finite"; return 1; }; }
# near FILE FILE BOUND: greatest difference of two files of numbers
near() {
    paste <(numbers "$1") <(numbers "$2") | awk -v bound="$3" '
        NF != 2 { print "# not as many numbers"; bad = 1; exit }
        { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d }
        END { if (bad) exit 1; if (NR == 0) { print "# no numbers"; exit 1 } if (worst > bound) { print "# they differ by " worst; exit 1 } }'
}

check_hello() {
    checks "hello" good '"op": "hello", "unknown": [1, {"a": null}]'
    checks "hello names the protocol" equal "$(member protocol)" bn.reference/1
    checks "hello has a name" test -n "$(member name)"
    capabilities=$(printf '%s' "$answer" | grep -oE '"capabilities": *\[[^]]*\]')
    checks "hello lists capabilities" test -n "$capabilities"
    checks "an unknown operation is refused" refused unsupported '"op": "no-such-thing"'
    can logits && checks "logits before open are refused" refused '[a-z_]+' '"op": "logits", "tokens": [1], "last": false'
}

check_open() {
    local least
    if [ -z "${BN_BRIDGE_NO_FILES:-}" ]; then
        checks "a model that is not there" refused not_found "\"op\": \"open\", \"model\": \"$tmp/none.gguf\", \"threads\": 1"
        checks "a file that is not a model is refused" refused 'format|unsupported' "\"op\": \"open\", \"model\": \"$PWD/Makefile\", \"threads\": 1"
    fi
    checks "open" good "\"op\": \"open\", \"model\": \"$model\", \"threads\": 1"
    n_vocab=$(member n_vocab)
    if can logits; then least=4; else least=0; fi # 0: unknown
    checks "n_vocab" at_least "$n_vocab" $least
    checks "n_ctx" at_least "$(member n_ctx)" $least
    checks "open again" good "\"op\": \"open\", \"model\": \"$model\", \"threads\": 1"
    checks "gives the same model" equal "$(member n_vocab)" "$n_vocab"
}

tokens_of() { printf '%s' "$answer" | grep -oE '"tokens": *\[[^]]*\]' | tr -cd '0-9,'; }
check_tokenize() {
    local plain
    checks "tokenize" good '"op": "tokenize", "text": "To be, \u00e9\ud83d\ude00\n\"x\"", "bos": false, "special": false'
    plain=$(tokens_of)
    checks "tokenize gives ids" test -n "$plain"
    good '"op": "tokenize", "text": "To be, \u00e9\ud83d\ude00\n\"x\"", "bos": true, "special": false'
    checks "bos adds one id at most" test "$(tokens_of)" = "$plain" -o "$(tokens_of | cut -d, -f2-)" = "$plain"
    checks "an empty text has no ids" good '"op": "tokenize", "text": "", "bos": false, "special": false'
    checks "none at all" equal "$(tokens_of)" ''
    checks "a text that is not a string is refused" refused argument '"op": "tokenize", "text": 5, "bos": false, "special": false'
}

check_logits() {
    local floats=$tmp/floats
    checks "logits" good '"op": "logits", "tokens": [1, 2, 3], "last": false'
    checks "a row for each token" equal "$(member rows) $(member cols) $(member floats)" "3 $n_vocab $((3 * n_vocab))"
    checks "they are finite" finite "$floats"
    cp "$floats" "$tmp/all"
    checks "last" good '"op": "logits", "tokens": [1, 2, 3], "last": true'
    checks "one row" equal "$(member rows) $(member cols) $(member floats)" "1 $n_vocab $n_vocab"
    tail -c $((n_vocab * 4)) "$tmp/all" >"$tmp/last"
    # Some engines compute a single row with another method than several rows: with a head rounded to binary16.
    checks "the same as the last of all" near "$floats" "$tmp/last" 0.02
    checks "each request starts with an empty context" good '"op": "logits", "tokens": [1, 2, 3], "last": false'
    checks "so that the answer is the same" cmp -s "$floats" "$tmp/all"
    checks "attention is causal" good '"op": "logits", "tokens": [1, 2, 4], "last": false'
    head -c $((2 * n_vocab * 4)) "$floats" >"$tmp/others"
    head -c $((2 * n_vocab * 4)) "$tmp/all" >"$tmp/first"
    checks "what follows changes nothing" near "$tmp/others" "$tmp/first" 0.001
    checks "an id beyond the vocabulary is refused" refused argument "\"op\": \"logits\", \"tokens\": [$n_vocab], \"last\": false"
    checks "an id below 0 is refused" refused argument '"op": "logits", "tokens": [-1], "last": false'
    checks "tokens that are not a list are refused" refused '[a-z_]+' '"op": "logits", "tokens": "1,2", "last": false'
    checks "it continues after that" good '"op": "logits", "tokens": [1], "last": true'
}

records() { printf '%s' "$answer" | grep -oE '\{[^{}]*"op": *"[^"]*"[^{}]*\}'; }
known_ops='embd|attn_norm|[qkv]|[qk]_rope|attn_out|attn_sub_norm|attn_o|attn_res|ffn_norm|gate|up|ffn_act|ffn_sub_norm|down|ffn_res|output_norm|logits'
check_trace() {
    local sum
    checks "trace" good '"op": "trace", "tokens": [1, 2, 3], "names": null'
    checks "there are records" test "$(records | wc -l)" -gt 5
    checks "each has a row for each token" equal "$(records | grep -vcE '"rows": *3\b')" 0
    checks "of names that are known" equal "$(records | grep -vcE "\"op\": *\"($known_ops)\"")" 0
    sum=$(records | grep -oE '"cols": *[0-9]+' | grep -oE '[0-9]+$' | awk '{ s += 3 * $1 } END { print s + 0 }')
    checks "as many numbers as they say" equal "$(member floats)" "$sum"
    checks "they are finite" finite "$tmp/floats"
    if records | tail -n 1 | grep -q '"logits"'; then
        tail -c $((3 * n_vocab * 4)) "$tmp/floats" >"$tmp/traced"
        checks "the traced logits are the logits" near "$tmp/traced" "$tmp/all" 0.02
    fi
    checks "trace of some names" good '"op": "trace", "tokens": [1, 2], "names": ["q", "down"]'
    checks "only those" equal "$(records | grep -oE '"op": *"[a-z_]+"' | grep -oE '"[a-z_]+"$' | sort -u | tr -d '\n')" '"down""q"'
}

check_others() {
    if can top_logprobs; then
        checks "top_logprobs" good '"op": "top_logprobs", "tokens": [1, 2, 3], "n": 3'
        checks "three ids" equal "$(printf '%s' "$answer" | grep -oE '"ids": *\[[^]]*\]' | tr -cd ',')" ,,
        checks "three log-probabilities" equal "$(printf '%s' "$answer" | grep -oE '"logprobs": *\[[^]]*\]' | tr -cd ',')" ,,
    fi
    if can bench; then
        checks "bench" good '"op": "bench", "prompt": 8, "decode": 2, "threads": 1'
        checks "it took time" at_least "$(member prompt_ns)" 1
        checks "single tokens too" at_least "$(member decode_ns)" 1
    fi
}

# It may answer that this is not a request, or end. It must not answer "ok".
survives_garbage() {
    reference_start "$tmp" "$@"
    if ask_line '{"id": 1, "op": ' >/dev/null && [ "$(member ok)" != false ]; then
        echo "# half a line was answered with: $answer"
        reference_end
        return 1
    fi
    reference_end
}

conforms() { # name, command...
    subject=$1
    shift
    checks "half a line is not a request" survives_garbage "$@"
    reference_start "$tmp" "$@"
    check_hello
    check_open
    if can tokenize; then check_tokenize; fi
    if can logits; then check_logits; fi
    if can trace; then check_trace; fi
    check_others
    checks "close" good '"op": "close"'
    reference_end
    checks "it ends with status 0" equal "$reference_status" 0
    checks "and writes nothing more" test ! -s "$tmp/rest"
}

model=${BN_BRIDGE_MODEL:-}
if [ -z "$model" ]; then
    "$bin/bn-fixtures" gen --size tiny --vocab 320 --arch bitnet --format f16 -o "$tmp" >/dev/null || exit 1
    model=$(echo "$tmp"/tiny-*.gguf)
fi
if [ $# -gt 0 ]; then
    conforms "$(basename "$1")" "$@"
    exit
fi

tried=0
if "$bin/crossval/bn-reference" --help 2>/dev/null | grep -qE '^ +serve'; then
    conforms bn-reference "$bin/crossval/bn-reference" serve
    tried=1
fi
for program in "$bin"/crossval/bn-bridge-*; do
    "$program" --help >/dev/null 2>&1 </dev/null || continue # its engine may have been removed
    conforms "$(basename "$program")" "$program"
    tried=1
done
while read -r -a command; do
    [ "${#command[@]}" -gt 0 ] || continue
    conforms "${command[0]##*/}" "${command[@]}"
    tried=1
done <<<"${BN_BRIDGES:-}"

# The checks themselves: a toy reference that follows the protocol, then with one fault each.
export BN_BRIDGE_MODEL=$PWD/README.md BN_BRIDGE_NO_FILES=1
status 0 "a toy reference conforms" bash tests/cli/bridge_protocol.sh tests/protocol/toy_reference.sh none
for fault in wrong-id short-floats not-json nan acausal remembers any-token last-differs extra-output exit-status never-refuses trace-rows; do
    status 1 "planted fault: $fault is found" env REFERENCE_TIMEOUT=2 bash tests/cli/bridge_protocol.sh tests/protocol/toy_reference.sh $fault
done
[ "$tried" -eq 1 ] || skip "references and bridges" "no built reference speaks the protocol"
