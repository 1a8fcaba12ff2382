#!/usr/bin/env bash
# Common to all programs: help, version, usage errors, lost output, man pages, completions. Also the program bn.
# TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
# shellcheck source=tests/tap.sh
. tests/tap.sh
# run PROGRAM ARGUMENTS...: leaves $status, $tmp/out and $tmp/err.
run() {
    "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    status=$?
}
status_is() { [ "$status" -eq "$1" ] || { echo "# exit status $status instead of $1"; return 1; }; }
# ends STATUS TITLE PROGRAM ARGUMENTS...: run, and a check of the status
ends() { run "${@:3}"; check "$2" status_is "$1"; }
empty() { [ ! -s "$1" ] || { sed 's/^/# /' "$1"; return 1; }; }
has() { grep -qF -- "$2" "$1" || { echo "# no '$2' in:"; sed 's/^/# /' "$1"; return 1; }; }
# both STATUS-CHECK ARGUMENT TEXT-CHECK FILE
both() { "$1" "$2" && "$3" "$4"; }
has_lost_output() { has "$1" 'error: standard output: could not be written'; }
has_hlep() { has "$1" "unknown option '--hlep'"; }
has_commands() { has "$1" 'Usage: bn COMMAND [ARGUMENTS]'; }
is_beside() { has "$1" 'beside: -p a b --x'; }
names_page() { has "$1" '/reference/bn.md is not up to date'; }
# All lines but the examples, which may be longer.
narrow() { ! grep -vE '^ +bn' "$1" | grep -E '.{81}' | sed 's/^/# /' | grep .; }

# A pipe whose reader has closed it, on descriptor 5.
mkfifo "$tmp/pipe"
# shellcheck disable=SC2094 # opened for both directions, so that opening does not block
exec 4<>"$tmp/pipe" 5>"$tmp/pipe" 4>&-

# The long options that a help text lists.
options() { grep -oE '^  (-[a-zA-Z0-9], |    )--[a-z0-9-]+' "$1" | sed 's/.*--/--/'; }
# The commands that it lists.
commands() { sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z0-9-]*\) .*/\1/p' "$1"; }
at_most_40() { [ "$(wc -l <"$1")" -le 40 ] || { wc -l "$1"; return 1; }; }
in_man_page() { # options file, page
    local option missing=0
    [ -f "$2" ] || { echo "# there is no $2"; return 1; }
    while read -r option; do
        grep -qE -- "\\\\fB${option//-/\\\\-}\\\\fR" "$2" && continue
        echo "# $option is not in $2"
        missing=1
    done < <(sort -u "$1")
    [ -s "$1" ] && [ "$missing" -eq 0 ]
}
completes() { # program, expected, words...
    # shellcheck disable=SC2030,SC2034 # bash reads the variables
    (
        source tools/cli/completions/bn.bash
        cd "$tmp/empty" || exit 1 # files complete too
        PATH=$out:$PATH
        COMP_WORDS=("$1" "${@:3}") COMP_CWORD=$(($# - 2))
        _bn "$1"
        [ "${COMPREPLY[*]}" = "$2" ] || { echo "# ${COMPREPLY[*]:-nothing}"; exit 1; }
    )
}
mkdir "$tmp/empty"
ci/docs.sh pages "$out" "$tmp/pages"

test_program() {
    local program=$1 name=${1##*/} command
    ends 0 "$name --help succeeds" "$program" --help
    check "$name --help says nothing on standard error" empty "$tmp/err"
    check "$name --help begins with its name" grep -q "^$name - " "$tmp/out"
    check "$name --help keeps to 80 columns" narrow "$tmp/out"
    cp "$tmp/out" "$tmp/help"
    run "$program" -h
    check "$name -h is --help" cmp -s "$tmp/out" "$tmp/help"
    check "$name --help fits a screen of 40 lines" at_most_40 "$tmp/help"
    ends 0 "$name --help=all succeeds" "$program" --help=all
    check "$name --help=all keeps to 80 columns" narrow "$tmp/out"
    options "$tmp/out" >"$tmp/options"
    ends 2 "$name refuses --help=most" "$program" --help=most
    for command in $(commands "$tmp/help"); do
        [ "$name" != bn ] || break
        ends 0 "$name $command --help succeeds" "$program" "$command" --help
        check "$name $command --help keeps to 80 columns" narrow "$tmp/out"
        check "$name $command --help fits a screen of 40 lines" at_most_40 "$tmp/out"
        run "$program" "$command" --help=all
        check "$name $command --help=all keeps to 80 columns" narrow "$tmp/out"
        options "$tmp/out" >>"$tmp/options"
        ends 2 "$name $command refuses an unknown option" "$program" "$command" --no-such-option
    done
    check "$name's options are all in its man page" in_man_page "$tmp/options" "$tmp/pages/man/$name.1"

    ends 0 "$name --version succeeds" "$program" --version
    check "$name --version names itself, the commit and the compiler" \
        grep -qzE "^$name [0-9]+\\.[0-9]+\\.[0-9]+
commit: ([0-9a-f]{40}|unknown)(\\+dirty)?
compiler: .+
instruction sets of this machine: ref" "$tmp/out"

    ends 2 "$name refuses an unknown option with status 2" "$program" --hlep
    check "$name prints nothing on standard output then" empty "$tmp/out"
    check "$name names the unknown option" has "$tmp/err" "$name: error: unknown option '--hlep'"
    check "$name guesses what was meant" has "$tmp/err" "hint: did you mean --help? see $name --help"

    "$program" --help >&- 2>"$tmp/err"
    status=$?
    check "$name fails with 8 when standard output is closed" both status_is 8 has_lost_output "$tmp/err"
    "$program" --help >/dev/full 2>"$tmp/err"
    status=$?
    check "$name fails with 8 when the disk is full" both status_is 8 has_lost_output "$tmp/err"
    "$program" --help >&5 2>"$tmp/err"
    status=$?
    check "$name ends by SIGPIPE, quietly, when the reader has closed the pipe" both status_is 141 empty "$tmp/err"
    (trap '' PIPE; exec "$program" --help >&5 2>"$tmp/err")
    status=$?
    check "$name ends with 141, quietly, when SIGPIPE is ignored" both status_is 141 empty "$tmp/err"

    check "$name's completion knows --version" completes "$name" --version --vers
    for shell in bash zsh fish; do
        check "$shell completes $name" grep -qw -- "$name" tools/cli/completions/*"${shell/zsh/_bn}"
    done
}

for source in tools/bn.c tools/bn-*.c; do
    program=$out/$(basename "$source" .c)
    if [ -x "$program" ]; then test_program "$program"; fi
done

# ---- completions of values ----
check "an instruction set is completed" completes bn-run 'avx2 avxvnni avx512vnni avx512vbmi' --isa avx
check "after bn too" completes bn 'avx2 avxvnni avx512vnni avx512vbmi' run --isa avx
check "and after =" completes bn-run avx2 --isa = avx2
check "a command is completed" completes bn-run 'tokenize' tok
check "a template is completed" completes bn-run llama3-chat chat --template ll
check "a format is completed" completes bn-bench 'markdown' report --format mark
check "a reference is completed" completes bn-crossval oracle ladder --ref or
check "the name of a model is completed" completes bn-run bitnet-b1.58-2b-4t -m bitnet-b1.58-2
check "that of a download too" completes bn-download bitnet-b1.58-2b-4t bitnet-b1.58-2
check "after the name of a command too" completes bn-download bitnet-b1.58-2b-4t verify bitnet-b1.58-2
"$out/bn-download" list --names >"$tmp/names"
"$out/bn-download" list | sed -n '2,/^ /s/^\([a-z][^ :]*\) .*/\1/p' >"$tmp/listed"
check "bn-download list --names prints every name, and nothing else" cmp "$tmp/names" "$tmp/listed"
ends 2 "--names is not a form of --json" "$out/bn-download" list --names --json
for shell in zsh fish; do
    if command -v "$shell" >/dev/null; then
        check "$shell reads the completions" "$shell" -n tools/cli/completions/*"${shell/zsh/_bn}"
    fi
done

# ---- the program bn ----
run "$out/bn"
check "bn alone succeeds and lists programs" both status_is 0 has_commands "$tmp/out"
cp "$tmp/out" "$tmp/help"
run "$out/bn" help
check "bn help is the same" cmp -s "$tmp/out" "$tmp/help"
for source in tools/bn-*.c; do
    name=$(basename "$source" .c)
    program=$out/$name
    [ -x "$program" ] || continue
    run "$program" --help
    summary=$(sed -n "1s/^$name - //p" "$tmp/out")
    cp "$tmp/out" "$tmp/wanted"
    check "bn lists $name as it names itself" grep -qE "^  ${name#bn-} +$summary" "$tmp/help"
    run "$out/bn" help "${name#bn-}"
    check "bn help ${name#bn-} is $name --help" cmp -s "$tmp/out" "$tmp/wanted"
    run "$out/bn" "${name#bn-}" --hlep
    check "bn ${name#bn-} passes arguments and exit status on" both status_is 2 has_hlep "$tmp/err"
done

mkdir "$tmp/bin" "$tmp/path"
cp "$out/bn" "$tmp/bin/bn"
printf '#!/bin/sh\necho "beside: $*"\nexit 7\n' >"$tmp/bin/bn-run"
printf '#!/bin/sh\necho "path: $*"\n' >"$tmp/path/bn-run"
printf '#!/bin/sh\necho "extra: $*"\n' >"$tmp/path/bn-own-thing"
chmod +x "$tmp"/bin/* "$tmp"/path/*
# Folders of PATH that this user may not enter are not tested here.
PATH=$tmp/path:/usr/bin:/bin
run "$tmp/bin/bn" run -p 'a b' --x
check "bn runs the program next to it and returns its exit status" both status_is 7 is_beside "$tmp/out"
rm "$tmp/bin/bn-run"
run "$tmp/bin/bn" run x
check "bn finds programs in PATH" has "$tmp/out" 'path: x'
run "$tmp/bin/bn" own-thing y
check "bn finds programs in PATH that it does not know" has "$tmp/out" 'extra: y'
ends 2 "bn refuses an unknown command with status 2" "$tmp/bin/bn" rnu
check "bn guesses which command was meant" has "$tmp/err" 'hint: did you mean run? see bn --help'
while read -r word here; do
    run "$tmp/bin/bn" "$word"
    check "bn says what $word is here" has "$tmp/err" "hint: here: $here;"
done <<'END'
list bn download list --cached
chat bn run chat
ps bn bench top --list
pull bn download
rm bn download clean
show bn run inspect -m MODEL
END
chmod 644 "$tmp/path/bn-own-thing"
ends 2 "a program that may not be executed is an unknown command" "$tmp/bin/bn" own-thing
rm "$tmp/path/bn-run"
PATH=$tmp/path run "$tmp/bin/bn" run
check "bn says with status 3 that a program is not installed" status_is 3
ends 2 "bn does not accept paths as commands" "$tmp/bin/bn" ../bn/run
ends 2 "bn refuses options before the command" "$tmp/bin/bn" -v run

# ---- one mistake, one message: the object, what is found, what helps ----
while IFS='|' read -r expected text words; do
    run bash -c "cd '$tmp/empty' && PATH='$out':\$PATH && $words"
    check "bn-$words: exit status $expected" status_is "$expected"
    check "bn-$words: $text" has "$tmp/err" "$text"
    check "bn-$words: one error" equal "$(grep -c error: "$tmp/err")" 1
done <<'END'
8|standard output: could not be written: No space left on device|bn-run -p 'a b' -n 1 >/dev/full
8|/: is a directory, not a file|bn-run -p 'a b' -n 1 --receipt /
8|/: is a directory, not a file|bn-run -p 'a b' -n 1 --profile /
2|the name of an output file is empty|bn-run -p 'a b' -n 1 --receipt ''
4|/: is a directory, not a file|bn-run -f /
4|/: is a directory, not a file|bn-bench report /
4|hint: the file is cut off or damaged|head -c 5000 "$OLDPWD/fixtures/built-in-i2_s.gguf" >cut.gguf; bn-run inspect -m cut.gguf
2|hint: if it is a model: -m a.gguf|bn-run inspect a.gguf
3|hint: did you mean list?|bn-download lst
3|hint: did you mean keygen?|bn-verify-receipt keygn
2|hint: did you mean sign?|bn-verify-receipt sing r.json
2|--jsonl reads standard input|bn-run tokenize --jsonl -p x
2|A or B is missing|bn-bench compare a.json
2|BEFORE or AFTER is missing|bn-flamegraph diff a.json
1|hint: bn-bench baseline save NAME|bn-bench trend
3|hint: bn-bench baseline list|bn-bench baseline show x
3|x: no such file here; unknown model|bn-convert x --to i2_s -o y.gguf
2|--host: 'here.invalid' is not an|bn-serve --host here.invalid --port 0
2|--ref: '' does not begin with|bn-crossval -p 'a b' --ref ''
END

# ---- the pages generated from the tables ----
ci/docs.sh reference "$out" "$tmp/docs"
ends 0 "pages just written are up to date" ci/docs.sh check "$out" "$tmp/docs"
echo >>"$tmp/docs/reference/bn.md"
run ci/docs.sh check "$out" "$tmp/docs"
check "a changed page is noticed" both status_is 1 names_page "$tmp/out"
ci/docs.sh reference "$out" "$tmp/docs"
rm "$tmp/docs/reference/bn-run.md"
ends 1 "a missing page is noticed" ci/docs.sh check "$out" "$tmp/docs"
ci/docs.sh reference "$out" "$tmp/docs"
echo >"$tmp/docs/reference/bn-gone.md"
ends 1 "a page of no program is noticed" ci/docs.sh check "$out" "$tmp/docs"
