#!/bin/sh
# Writes the files that are generated from the programs' option tables.
#   ci/docs.sh pages BUILD TARGET      man pages into TARGET/man (make install)
#   ci/docs.sh reference BUILD DOCS    the committed pages DOCS/reference/bn*.md (make docs)
#   ci/docs.sh check BUILD DOCS        lists the reference pages that are not up to date; writes nothing (make lint)
# The exit status is 1 when check lists a page.
set -eu
what=$1 out=$2 target=$3

names() { # the programs that have an option table
    for program in "$out"/bn "$out"/bn-*; do
        name=${program##*/}
        if [ -x "$program" ] && [ -f "tools/$name.c" ]; then echo "$name"; fi
    done
}

pages() {
    mkdir -p "$target/man"
    for name in $(names); do
        {
            "$out/$name" --dump-markdown
            [ "$name" = bn ] || "$out/bn" --dump-markdown | sed -n '/^## Options of all programs/,/^$/p'
        } | awk -v version="$("$out/$name" --version | sed -n '1s/.* //p')" -f ci/man.awk >"$target/man/$name.1"
    done
}

reference() { # folder
    mkdir -p "$1"
    for name in $(names); do
        "$out/$name" --dump-markdown >"$1/$name.md"
    done
    # bn-git is small: it has a part of the page of bn.
    sed '1d; s/^#/##/; s/(bn\.md)/(#options-of-all-programs)/' "$1/bn-git.md" >"$1/git" && rm "$1/bn-git.md"
    sed -i 's/(bn-git\.md)/(#bn-git)/' "$1/bn.md"
    { echo; cat "$1/git"; } >>"$1/bn.md"
    rm "$1/git"
}

check() {
    fresh=$(mktemp -d)
    trap 'rm -rf "$fresh"' EXIT
    reference "$fresh"
    differ=0
    for page in "$fresh"/*.md "$target"/reference/bn*.md; do
        name=${page##*/}
        if ! cmp -s "$fresh/$name" "$target/reference/$name"; then
            echo "$target/reference/$name is not up to date"
            differ=1
        fi
    done
    exit $differ
}

case $what in
pages) pages ;;
reference) reference "$target/reference" ;;
check) check ;;
*) echo "usage: ci/docs.sh pages|reference|check BUILD FOLDER" >&2; exit 2 ;;
esac
