#!/usr/bin/env bash
# A trivial reference with five tokens. It makes the mistake that its argument names, to test the checks of references.
fault=${1:-none}
opened=0
calls=0
declare -A raw=([0]='\x00\x00\x00\x00' [1]='\x00\x00\x80\x3f' [2]='\x00\x00\x00\x40' [3]='\x00\x00\x40\x40' [4]='\x00\x00\x80\x40')
say() { printf '{"id": %s, "ok": true%s}\n' "$id" "$1"; }
refuse() { if [ "$fault" = never-refuses ]; then say ''; else printf '{"id": %s, "ok": false, "error": "%s", "kind": "%s"}\n' "$id" "$2" "$1"; fi; }
# The row of a token: its number, five times.
row() { local v=${raw[$1]}; printf '%b' "$v$v$v$v$v"; }

logits() {
    local list last rows i
    list=$(grep -oE '"tokens": *\[[^]]*\]' <<<"$line") || { refuse argument "tokens"; return; }
    read -r -a list <<<"$(tr -c '0-9\n-' ' ' <<<"${list#*:}")"
    for i in "${list[@]}"; do
        if [ "$i" -lt 0 ] || [ "$i" -gt 4 ]; then
            [ "$fault" = any-token ] || { refuse argument "token $i"; return; }
            list=(1)
        fi
    done
    last=0
    [[ $line == *'"last": true'* ]] && last=1
    [ "$fault" = acausal ] && for i in "${!list[@]}"; do list[i]=${list[-1]}; done
    calls=$((calls + 1))
    [ "$fault" = remembers ] && list[0]=$((calls % 2))
    [ "$last" -eq 1 ] && list=("${list[-1]}")
    [ "$last" -eq 1 ] && [ "$fault" = last-differs ] && list=(4)
    rows=${#list[@]}
    say ", \"rows\": $rows, \"cols\": 5, \"floats\": $((rows * 5))"
    [ "$fault" = short-floats ] && rows=$((rows - 1))
    for ((i = 0; i < rows; i++)); do
        if [ "$fault" = nan ]; then printf '\x00\x00\xc0\x7f%.0s' 1 2 3 4 5; else row "${list[i]}"; fi
    done
}

trace() {
    local all=(embd q k v attn_o down logits) op records='' n=0 rows=3
    [[ $line == *'"names": ['* ]] && all=(q down) rows=2
    for op in "${all[@]}"; do
        records+="${records:+, }{\"op\": \"$op\", \"layer\": -1, \"rows\": $rows, \"cols\": 5}"
        n=$((n + 5 * rows))
    done
    [ "$fault" = trace-rows ] && records=${records//\"rows\": $rows/\"rows\": 1}
    say ", \"records\": [$records], \"floats\": $n"
    for op in "${all[@]}"; do for ((i = 1; i <= rows; i++)); do row "$i"; done; done
}

while IFS= read -r line; do
    id=$(grep -oE '"id": *[0-9]+' <<<"$line" | grep -oE '[0-9]+$')
    id=${id:-null}
    [ "$fault" = wrong-id ] && id=7
    op=$(sed -nE 's/.*"op": *"([a-z_-]*)".*\}$/\1/p' <<<"$line")
    [ "$fault" = not-json ] && echo "computing ..."
    case $op in
    hello) say ', "protocol": "bn.reference/1", "name": "toy", "version": "1", "commit": null, "capabilities": ["logits", "trace"]' ;;
    open) opened=1 && say ', "n_vocab": 5, "n_ctx": 16, "arch": null' ;;
    logits) if [ $opened -eq 1 ]; then logits; else refuse argument "no model is open"; fi ;;
    trace) trace ;;
    close)
        say ''
        [ "$fault" = extra-output ] && echo "good bye"
        [ "$fault" = exit-status ] && exit 3
        exit 0
        ;;
    '') refuse argument "no request" ;;
    *) refuse unsupported "no operation" ;;
    esac
done
