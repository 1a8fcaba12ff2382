#!/bin/sh
# Writes what is made of the programs' option tables: man pages, reference pages, completions. With --check,
# changes nothing: names the documents that differ from what the programs say, and ends with 1 when there are any.
# Usage: ci/docs.sh [--check] BUILD-FOLDER DOCS-FOLDER
set -eu
check=false
if [ "$1" = --check ]; then
    check=true
    shift
fi
out=$1
docs=$2
target=$docs
if $check; then
    target=$(mktemp -d)
    trap 'rm -rf "$target"' EXIT
fi
mkdir -p "$target/man" "$target/reference" "$target/completions"
for program in "$out"/bn "$out"/bn-*; do
    if [ ! -x "$program" ] || [ ! -f "$program" ]; then continue; fi
    name=${program##*/}
    [ -f "tools/$name.c" ] || continue # the programs of crossval have no option table
    "$program" --dump-man >"$target/man/$name.1"
    "$program" --dump-markdown >"$target/reference/$name.md"
    "$program" --dump-completion bash >"$target/completions/$name.bash"
    "$program" --dump-completion zsh >"$target/completions/_$name"
    "$program" --dump-completion fish >"$target/completions/$name.fish"
done
$check || exit 0
differ=0
for page in "$target"/*/*; do
    page=${page#"$target"/}
    cmp -s "$target/$page" "$docs/$page" && continue
    echo "$docs/$page is not what its program says"
    differ=1
done
for page in "$docs"/man/*.1; do
    [ -f "$target/man/${page##*/}" ] && continue
    echo "$page belongs to no program"
    differ=1
done
exit $differ
