#!/usr/bin/env bash
# A program against hostile files: every case of the corpus ends with its exit code and one clear error, within
# bounded memory; and things that are no regular files at all.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-build/gcc}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0 failures=0
ok() { n=$((n + 1)); echo "ok $n - $1"; }
not_ok() { n=$((n + 1)) failures=$((failures + 1)); echo "not ok $n - $1"; shift; [ $# -eq 0 ] || echo "# $*"; }
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }

# Address space: the sanitizers need terabytes of it.
limit=2000000
case $out in *address* | *thread*) limit=unlimited ;; esac
# open_model FILE: its exit status in $status, standard error in $dir/err
open_model() {
    (ulimit -v $limit; exec timeout 20 "$out/bn-run" logits -m "$1" --tokens 1 --digest -t 1) >"$dir/out" 2>"$dir/err"
    status=$?
}
# clean: one error line of printable characters, perhaps a hint, nothing on standard output
clean() {
    [ ! -s "$dir/out" ] && [ "$(grep -c '^bn-run: error: ' "$dir/err")" -eq 1 ] &&
        ! grep -vqE '^(bn-run: error|hint): ' "$dir/err" && ! LC_ALL=C grep -qP '[^\x20-\x7e\x80-\xff]' "$dir/err"
}
# refused STATUS TITLE FILE
refused() {
    open_model "$3"
    if [ "$status" -ne "$1" ]; then
        not_ok "$2" "status $status, not $1: $(head -c 300 "$dir/err")"
    elif [ "$1" -ne 0 ] && ! clean; then
        not_ok "$2" "no clean error: $(head -c 300 "$dir/err")"
    else
        ok "$2"
    fi
}

"$out/bn-fixtures" corrupt -o "$dir/bad" >/dev/null || { not_ok "the corpus is written"; exit 1; }
cases=$(wc -l <"$dir/bad/cases.tsv")
if [ "$cases" -ge 150 ] && [ "$cases" -eq "$(find "$dir/bad" -name '*.gguf' | wc -l)" ]; then
    ok "the corpus has $cases cases, each with its file"
else
    not_ok "the corpus has $cases cases"
fi
while IFS=$'\t' read -r name status_name code _ _ what; do
    refused "$code" "$name: $what ($status_name)" "$dir/bad/$name.gguf"
done <"$dir/bad/cases.tsv"

# hints that people need
hints() { open_model "$dir/bad/$1.gguf"; if grep -q "$2" "$dir/err"; then ok "$1 tells of $2"; else not_ok "$1" "$(cat "$dir/err")"; fi; }
hints lfs_pointer 'git lfs pull'
hints html_page '/resolve/'
hints type_tl2 'I2_S file'
hints version_swapped 'little endian'
hints version_1 'convert the model again'

# ---- what is no regular file ----
mkfifo "$dir/fifo"
refused 4 "a pipe" "$dir/fifo"
refused 4 "a folder" "$dir"
refused 4 "/dev/zero" /dev/zero
ln -s loop "$dir/loop"
refused 3 "a symbolic link to itself" "$dir/loop"
refused 3 "nothing" "$dir/none.gguf"
refused 3 "a name with a line break and an escape character" "$dir/"$'no\nsuch\x1b[2Jfile'
refused 3 "a name of 5000 bytes" "$(printf '%05000d' 0)"
refused 3 "a file taken for a folder" "$dir/bad/cases.tsv/model.gguf"
cp "$dir/bad/good_bare.gguf" "$dir/unreadable"
chmod 000 "$dir/unreadable"
if [ -r "$dir/unreadable" ]; then skip "an unreadable file" "this user may read everything"; else refused 3 "an unreadable file" "$dir/unreadable"; fi
if truncate -s 1G "$dir/sparse" 2>/dev/null; then refused 4 "a gigabyte of zeros" "$dir/sparse"; else skip "a gigabyte of zeros" "no sparse files"; fi
ln -s "$dir/bad/good_bare.gguf" "$dir/link"
refused 0 "a symbolic link to a good file" "$dir/link"
echo "1..$n"
exit $((failures > 0))
