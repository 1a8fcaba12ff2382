#!/usr/bin/env bash
# Usage: ci/budget.sh [--show] [FILE [ROOT]]
# Compares the sizes of the rooms with FILE (ci/budget.txt), which says at its top what a line of it means. Reports each
# room that is larger, and each C file that is in no room; --show prints every room with its size.
set -u
show=
[ "${1:-}" != --show ] || { show=1; shift; }
budget=$(realpath "${1:-$(dirname "$0")/budget.txt}")
cd "${2:-$(dirname "$0")/..}" || exit 1
files() { # PATTERN FOLDER...: of the working tree
    local pattern=$1
    shift
    find "$@" -name build -prune -o -type f -print 2>/dev/null | grep -E "$pattern" | sort -u
}
lines() { xargs -r -d '\n' cat | wc -l; }
bad=0
rooms=()
while read -r most kind where; do
    case $most in '' | \#*) continue ;; esac
    # shellcheck disable=SC2206 # words and patterns on purpose
    folders=($where)
    case $kind in
        C) size=$(files '\.[ch]$' "${folders[@]}" | lines) && rooms+=("${folders[@]}") ;;
        OpenCL) size=$(files '\.([ch]|cl)$' "${folders[@]}" | lines) && rooms+=("${folders[@]}") ;;
        Markdown) size=$(files '\.md$' "${folders[@]}" | lines) ;;
        pages) size=$(files '\.md$' "${folders[@]}" | wc -l) ;;
        schemas) size=$(files '\.[ch]$' "${folders[@]}" | xargs -r -d '\n' grep -hoE '"bn\.[a-z-]+/[0-9]+"' |
            grep -vE 'chain|tokenizer' | sort -u | wc -l) ;; # those two begin digests
        *) echo "budget: unknown kind '$kind'" && bad=1 && continue ;;
    esac
    [ -z "$show" ] || printf '%7d of %7d %-8s %s\n' "$size" "$most" "$kind" "$where"
    [ "$size" -le "$most" ] || { echo "budget: $where: $size $kind, at most $most are allowed" && bad=1; }
done <"$budget"
while IFS= read -r file; do
    echo "budget: $file is in no room" && bad=1
done < <(comm -23 <(files '\.[ch]$' . | sed 's|^\./||' | sort) <(files '\.[ch]$' "${rooms[@]:-/dev/null}" | sort))
exit $bad
