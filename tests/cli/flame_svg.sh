#!/usr/bin/env bash
# bn-flamegraph render: the picture as a file, and in a browser that clicks, types and presses keys (flame_svg.js). TAP on
# standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
bin=$(cd "${OUT:-build/gcc}" && pwd)
root=$PWD
# shellcheck source=tests/tap.sh
. tests/tap.sh
cd "$tmp" || exit 1
bn=$bin/bn-flamegraph
cat >tree.folded <<'END'
main;a;b 60000
main;a;c 20000
main;d 15000
main;d;a 4000
main;e;f;hidden 1
main;r;r;r 900
main;Upper 99
END

# ---- the file ----
status 0 'a picture' "$bn" render tree.folded -o tree.svg --title 'A tree' --width 1020
check 'of the same bytes again, by standard input and output' bash -c "'$bn' render --title 'A tree' --width 1020 <tree.folded | cmp - tree.svg"
check 'which is well-formed' xmllint --noout tree.svg
tac tree.folded >reversed.folded
check 'whatever the order of its input' bash -c "'$bn' render --title 'A tree' --width 1020 reversed.folded | cmp - tree.svg"
check 'two files are drawn together' bash -c "'$bn' render tree.folded tree.folded | grep -q 'total 200000 samples'"
lacks 'it loads nothing' '.' grep -nE '(href|src|srcset)=|xlink|@import|url\([^#]|fetch\(|XMLHttpRequest|import\(' tree.svg
lacks 'its script makes no code and no markup of text, nor styles that a policy forbids' '.' \
    grep -nE '\beval\(|new Function|innerHTML|insertAdjacent|document\.write| on[a-z]+="| style="|setAttribute\("style"' tree.svg
check 'the script is small' test "$(wc -c <"$root/lab/stacks/flame.js")" -lt 25600
check 'and it has no other address' equal "$(grep -oE 'https?://[^" ]*' tree.svg | sort -u | tr '\n' ' ')" \
    'http://www.w3.org/1999/xhtml http://www.w3.org/2000/svg '
: >empty.folded
echo '# nothing' >comment.folded
echo 'main;a 0' >zero.folded
for f in empty comment zero; do says 4 "$f: no empty picture" 'nothing to draw|no stack|empty|without' "$bn" render $f.folded -o $f.svg; done
check 'and no file' bash -c '! ls empty.svg comment.svg zero.svg 2>/dev/null | grep -q .'
says 3 'a file that is not there' 'none.folded' "$bn" render none.folded
says 3 'a root that is not there' "no stack has a frame 'nobody'" "$bn" render tree.folded --root nobody
says 2 'an invalid palette' 'palette' "$bn" render tree.folded --palette red
says 2 'an invalid width' 'width' "$bn" render tree.folded --width 5
printf '%s 5\n' 'a</script>"&<]]>;--><x>;"quotes'\''' $'b\xe2\x80\xaegnp;\xff\xfe' "$(printf 'n%.0s' {1..4200})" >hostile.folded
status 0 'hostile names' "$bn" render hostile.folded -o names.svg --title '</title>' --notes ']]> <&'
check 'are well-formed' xmllint --noout names.svg
sed -e '/hidden/d' -e 's/;c 20000/;c 40000/' tree.folded >after.folded
status 0 'a comparison' "$bn" diff -q tree.folded --vs after.folded -o compared.svg --title 'What changed'
check 'which is well-formed, and has what is gone' bash -c 'xmllint --noout compared.svg && grep -q "What changed</text>" compared.svg && grep -q "<title>main" compared.svg && grep -q "\"hidden\"" compared.svg'

# ---- in a browser ----
for browser in chromium-headless-shell chromium chromium-browser google-chrome ''; do command -v "$browser" >/dev/null && break; done
if [ -z "$browser" ]; then
    skip 'in a browser' 'no chromium'
    exit
fi
# harness MODE PICTURE: the picture with the harness in it
harness() {
    sed '/^\/\/ ---- mark ----$/,$d' "$root/tests/cli/flame_svg.js" >before.js
    sed "1,/^\/\/ ---- mark ----\$/d; s/\[MODE\]/.$1/" "$root/tests/cli/flame_svg.js" >behind.js
    # The script of the picture is the second of its two CDATA sections.
    awk '
        function put(file, line) { print "<script><![CDATA["; while ((getline line <file) > 0) print line; close(file); print "]]></script>" }
        $0 == "<script><![CDATA[" { put("before.js") }
        $0 == "</svg>" { put("behind.js") }
        { print }' "$2"
}
# browse NAME FRAGMENT FLAGS...: writes the harness's report about NAME.svg to NAME.told
browse() {
    local name=$1 fragment=$2
    shift 2
    HOME=$tmp timeout 900 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$tmp/profile.$name" --window-size=1100,800 \
        --virtual-time-budget=20000 --enable-logging=stderr "$@" --dump-dom "file://$tmp/$name.svg$fragment" >"$name.dom" 2>"$name.log"
    sed -n '/^TOLD$/,/^END$/p' "$name.dom" | sed -e 's/&lt;/</g' -e 's/&gt;/>/g' -e 's/&amp;/\&/g' >"$name.told"
}
check 'pictures with samples, of hostile names, of a comparison' "$bin/tests/unit/stacks/test_svg" "$tmp"
for f in sampled hostile diff; do
    check "$f: well-formed" xmllint --noout $f.svg
    harness compare $f.svg >with_$f.svg
done
harness use tree.svg >use.svg
harness look tree.svg >dark.svg
# A script whose percentage counts a match inside a match twice.
sed 's/^    if (i < end) continue;$//' use.svg >twice.svg
{ browse use '' --blink-settings=preferredColorScheme=1 & browse twice '' & browse with_diff '' & wait; }
{ browse dark '#zoom=3&search=c&icicle=1' --blink-settings=preferredColorScheme=0 & browse with_sampled '' & browse with_hostile '' & wait; }
# told FILE TITLE KEY VALUE: a value that the harness reported
told() { check "$2" equal "$(sed -n "s/^$3: //p" "$1.told")" "$4"; }
told use 'frames that are wide enough are drawn, in the order of the tree' drawn 'all main Upper a b c d a r r r'
told use 'as wide as their weights' start 'all 1000, main 1000, a 800, b 600, c 200, hidden -'
told use 'one frame is in the order of Tab' 'tab stops' 1
told use 'a click zooms' zoomed 'all 1000, main 1000, a 1000, b 750, c 250, d - #zoom=3'
told use 'what is above stays' above 'all main'
told use 'a click on what is above zooms out' out 'main 1000, a 800, d 190'
told use 'Escape shows all again' reset 'a 800 true '
told use 'the browser goes back' back 'main 1000 #zoom=1'
told use 'a match that is not drawn counts' hidden '1 frame, 1 not drawn: < 0.01 %'
told use 'where it is is marked' inside 'main'
told use 'Enter zooms to it' shown 'e 1000, hidden 1000, hidden, 1 of 1 frame: < 0.01 % #zoom=8&search=hidden'
check 'a match inside a match does not count twice' grep -qE '^once: 3 frames.*: 84.00 %$' use.told
told use 'matches are lit' lit 'a b a'
told use 'n and N go from match to match, and round' steps '1 a, 2 b, 3 a, 1 a, 3 a'
told use 'recursion counts once' recursion '3 frames: 0.90 %'
told use 'upper and lower case are the same' 'any case' '1 frame: 0.10 %'
told use 'or not' case '0 frames: 0.00 %'
told use 'a wrong expression is told' wrong 'error true true true'
told use 'and forgotten' right "'' false"
told use 'arrows: up, right, left, down' arrows 'a d a main'
told use 'Enter zooms' enter 'a 1000, focus a'
told use 'a slash leads to the search' slash search
told use 'Escape leads back' left all
told use 'as does Ctrl-F' ctrl-f search
told use 'an icicle' icicle true
told use 'a flame' flame true
told use 'callers: each function with its own time' callers 'Upper 1, a 40, b 600, c 200, d 150, r 9'
told use 'by their callers' 'of a' 'main 1, d 40, a 600, a 200, main 150, r 9'
told use 'up to the first' 'of d' 'main 40, main 600, main 200, r 9'
told use 'all of it is of main' everything '7 frames, 1 not drawn: 100.00 %'
told use 'and back' calls 'a 800, b 600'
told use 'texts fit their boxes' text fits
told use 'no errors' faults none
check 'a share that counts twice is noticed' bash -c "grep -q '^once: ' twice.told && ! grep -qE '^once: .*: 84.00 %\$' twice.told"
told dark 'the address restores zoom, search, direction' restored "a 1000, c 250, 'c', 1 frame: 20.00 %, true"
check 'dark or light as the reader has it' bash -c "[ \"\$(grep paper dark.told)\" = 'paper: rgb(20, 23, 26)' ] && [ \"\$(grep paper use.told)\" = 'paper: rgb(251, 250, 248)' ]"
check 'the text too' bash -c "grep -q '^ink: ' dark.told && ! [ \"\$(grep ink dark.told)\" = \"\$(grep ink use.told)\" ]"
told with_sampled 'the script draws what the file has' titles '15 the same'
told with_hostile 'of hostile names too' titles '38 the same'
told with_hostile 'which stay names' pwned no
told with_diff 'and of a comparison' titles '8 the same'
for f in sampled hostile diff; do
    told with_$f "$f: texts fit" text fits
    told with_$f "$f: no errors" faults none
done
lacks 'the console is empty' 'CONSOLE' cat ./*.log
