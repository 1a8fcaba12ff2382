#!/usr/bin/env bash
# Hostile files: every case of the corpus ends with its exit code and one clear error, within bounded memory. Also
# paths that are not regular files.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-build/gcc}
# shellcheck source=tests/tap.sh
. tests/tap.sh

# Address space: the sanitizers need terabytes of it.
limit=2000000
! sanitized address thread || limit=unlimited
# open_model FILE: its exit status in $status, standard error in $tmp/err
open_model() {
    (ulimit -v $limit; exec timeout 600 "$out/bn-run" logits -m "$1" --tokens 1 --digest -t 1) >"$tmp/out" 2>"$tmp/err"
    status=$?
}
# clean: one error line of printable characters, an optional hint, nothing on standard output
clean() {
    [ ! -s "$tmp/out" ] && [ "$(grep -c '^bn-run: error: ' "$tmp/err")" -eq 1 ] &&
        ! grep -vqE '^(bn-run: error|hint): ' "$tmp/err" && ! LC_ALL=C grep -qP '[^\x20-\x7e\x80-\xff]' "$tmp/err"
}
# refused STATUS TITLE FILE
refused() {
    open_model "$3"
    if [ "$status" -ne "$1" ]; then
        not_ok "$2" "status $status, not $1: $(head -c 300 "$tmp/err")"
    elif [ "$1" -ne 0 ] && ! clean; then
        not_ok "$2" "no clean error: $(head -c 300 "$tmp/err")"
    else
        ok "$2"
    fi
}

python3 tests/corpus/make.py "$tmp/bad" || { not_ok "the corpus is written"; exit 1; }
cases=$(wc -l <"$tmp/bad/cases.tsv")
if [ "$cases" -ge 300 ] && [ "$((cases + 1))" -eq "$(find "$tmp/bad" -name '*.gguf' | wc -l)" ]; then
    ok "the corpus has $cases cases, each with its file"
else
    not_ok "the corpus has $cases cases"
fi
while IFS=$'\t' read -r name status_name code _ _ what; do
    refused "$code" "$name: $what ($status_name)" "$tmp/bad/$name.gguf"
done <"$tmp/bad/cases.tsv"

# important hints
hints() { open_model "$tmp/bad/$1.gguf"; if grep -q "$2" "$tmp/err"; then ok "$1 mentions $2"; else not_ok "$1" "$(cat "$tmp/err")"; fi; }
hints lfs_pointer 'git lfs pull'
hints html_page '/resolve/'
hints type_tl2 'I2_S file'
hints version_swapped 'little endian'
hints version_1 'convert the model again'

# ---- not a regular file ----
mkfifo "$tmp/fifo"
refused 4 "a pipe" "$tmp/fifo"
refused 4 "a folder" "$tmp"
refused 4 "/dev/zero" /dev/zero
ln -s loop "$tmp/loop"
refused 3 "a symbolic link to itself" "$tmp/loop"
refused 3 "nothing" "$tmp/none.gguf"
refused 3 "a name with a line break and an escape character" "$tmp/"$'no\nsuch\x1b[2Jfile'
refused 3 "a name of 5000 bytes" "$(printf '%05000d' 0)"
refused 3 "a file taken for a folder" "$tmp/bad/cases.tsv/model.gguf"
cp "$tmp/bad/good_bare.gguf" "$tmp/unreadable"
chmod 000 "$tmp/unreadable"
if [ -r "$tmp/unreadable" ]; then skip "an unreadable file" "this user may read everything"; else refused 3 "an unreadable file" "$tmp/unreadable"; fi
if truncate -s 1G "$tmp/sparse" 2>/dev/null; then refused 4 "a gigabyte of zeros" "$tmp/sparse"; else skip "a gigabyte of zeros" "no sparse files"; fi
ln -s "$tmp/bad/good_bare.gguf" "$tmp/link"
refused 0 "a symbolic link to a good file" "$tmp/link"
