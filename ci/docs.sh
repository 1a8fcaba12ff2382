#!/bin/sh
# Writes what is made of the programs' option tables: man pages, reference pages, completions.
# Usage: ci/docs.sh BUILD-FOLDER TARGET-FOLDER
set -eu
out=$1
target=$2
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
