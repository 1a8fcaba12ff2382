#!/usr/bin/env bash
# `make site`: the same sources give the same bytes, pictures too; a planted dead link, a missing heading and lost markup are reported; the
# pages are valid HTML; in Chromium, from files, the search finds a word, blocks are copied, phones fit, texts have contrast, and no request
# leaves the folder. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
bin=$(cd "${OUT:-build/gcc}" && pwd)
for tool in cmark-gfm tidy python3; do
    command -v $tool >/dev/null || { skip "the site" "no $tool"; exit; }
done
python3 -c 'import sys; sys.path.insert(0, "tests/cli"); import browser; sys.exit(not browser.installed())' || { skip "the site" "no chromium"; exit; }
export SOURCE_DATE_EPOCH=1767225600

# ---- twice ----
# copy NAME: what the site is made of, in a folder of its own
copy() { mkdir "$tmp/$1" && git ls-files -co --exclude-standard | while read -r f; do [ ! -f "$f" ] || echo "$f"; done | tar -cf - -T - | tar -C "$tmp/$1" -xf -; }
build() { (cd "$tmp/$1" && packaging/site/build.sh "$bin" "$tmp/out-$1" 1.2.3); }
copy one && copy other/ && check 'the site is built' build one
check 'and in another folder' build other
check 'no file differs' diff -rq "$tmp"/out-{one,other}/site
check 'the archives are the same bytes' cmp "$tmp"/out-{one,other}/bn-1.2.3-site.tar.gz
site=$tmp/out-one/site
check 'the picture of README.md is small' test -s docs/verified.png -a "$(stat -c %s docs/verified.png)" -lt 60000
pages=$(find "$site" -name '*.html' | wc -l)
check 'there are pages' test "$pages" -gt 40

# ---- what the build reports ----
page=$tmp/other/docs/tutorial.md
cp "$page" "$tmp/page"
again() { cp "$tmp/page" "$page"; (cd "$tmp/other" && BN_PICTURES=$tmp/out-one/pictures packaging/site/build.sh "$bin" "$tmp/planted" 1.2.3); }
plant() { # TITLE PATTERN TEXT
    printf '\n%s\n' "$3" >>"$page"
    says 1 "$1 is reported" "$2" env BN_PICTURES="$tmp/out-one/pictures" "$tmp/other/packaging/site/build.sh" "$bin" "$tmp/planted" 1.2.3
    cp "$tmp/page" "$page"
}
plant 'a link to a page that is not there' 'docs/howto/absent.md is linked and does not exist' '[x](howto/absent.md)'
plant 'a link to a file that is not there' 'docs/tutorial.md: docs/absent.json is not a file' '[x](absent.json)'
plant 'a link out of the repository' 'is not a file of the repository' '[x](../../../etc/passwd)'
plant 'a heading that is not there' 'there is no heading #absent' '[x](howto/serve.md#absent)'
plant 'markup that would be lost' 'markup of HTML would be lost' 'a <b>word</b>'
check 'without them the site is built' again

# ---- HTML ----
# The tidy of Debian 12 does not know aria-current.
invalid() { find "$1" -name '*.html' | while read -r f; do tidy -q -e "$f" 2>&1 | grep -v 'proprietary attribute "aria-current"' | sed "s|^|${f#"$1"/}: |"; done | head; }
check 'the pages are valid HTML' equal "$(invalid "$site")" ''
mkdir "$tmp/bad" && sed 's|</main>|<p id="content"></main>|' "$site/index.html" >"$tmp/bad/index.html"
check 'an id that is there twice is noticed' grep -q 'content' <<<"$(invalid "$tmp/bad")"
outside() { grep -rnoE '<(img|script|link|source|iframe|object)[^>]*(src|href|srcset)="([a-z]+:)?//[^"]*"|url\([^)]*\)|@import|<[a-z]+ [^>]* (style|on[a-z]+)=' "$1" --include=*.html --include=*.css; }
lacks 'nothing is loaded from elsewhere, no style or script is inline' . outside "$site"
sed 's|<main|<img src="https://example.org/x.png" alt="" /><main|' "$site/index.html" >"$tmp/bad/index.html"
check 'a picture from elsewhere is noticed' outside "$tmp/bad"

# ---- in a browser, from files ----
cat >"$tmp/use.py" <<'END'
import json, sys
sys.path.insert(0, "tests/cli")
sys.dont_write_bytecode = True
from browser import Browser
from serve_pages import check, equal, contrast
root = "file://" + sys.argv[1] + "/"
with Browser() as b:
    p = b.open(root + "docs/howto/serve.html")
    p.call("Network.enable")
    p.js("globalThis.copied = []; Object.defineProperty(navigator, 'clipboard', {value: {writeText: async t => copied.push(t)}})")
    p.js("document.querySelector('.copy').click()")
    p.wait("copied.length === 1")
    equal("a copied block has what is typed, without the prompt and the output", p.js("copied[0]"), "bn-serve\n")
    p.click("#search")
    p.type("perplexity")
    p.wait("document.querySelectorAll('#results a').length > 3")
    check("the search finds a word", "perplexity" in p.js("document.querySelector('#results mark').textContent").lower())
    p.js("document.querySelector('#search').value = ''")
    p.type("qwertyuiop")
    p.wait("document.querySelector('#results p').textContent === 'Nothing is found.'")
    check("and says when there is nothing", True)
    p.press("Escape")
    check("Escape closes the list", p.js("document.querySelector('#results').hidden"))
    p.js("document.querySelector('#search').value = ''")
    p.click("#search")
    p.type("snapshots")
    p.wait("document.querySelectorAll('#results a').length > 0")
    p.press("ArrowDown")
    p.press("Enter")
    p.wait("location.hash !== '' && document.querySelector(location.hash)")
    check("Enter on a place leads to its heading", "numerics.html#snapshots" in p.js("location.href"), p.js("location.href"))
    requests = [e["params"]["request"]["url"] for e in b.events if e["method"] == "Network.requestWillBeSent"]
    check("every request is for a file of the site", requests and all(u.startswith(root) or u.startswith("data:") for u in requests), requests)
    equal("no errors on the console", p.faults, [])
    equal("the policy was not violated", p.violations(), [])
    p.js("fetch('https://example.org/').catch(() => 0)")
    p.wait("violations.length > 0")
    check("a request to elsewhere is refused, and noticed", True)
    for name in ("index", "pictures", "docs/howto/install", "docs/reference/bn-run", "docs/explain/performance", "SECURITY", "docs/howto/serve"):
        for dark in (False, True):
            q = b.open(root + name + ".html", width=390, height=844, dark=dark)
            equal(f"{name} fits a phone, {'dark' if dark else 'light'}", q.js("[innerWidth, document.documentElement.scrollWidth]"), [390, 390])
            contrast(q, f"{name}, {'dark' if dark else 'light'}")
    q = b.open(root + "pictures.html", dark=True)
    equal("dark pages have dark pictures", q.js("[...document.images].every(i => i.complete && i.naturalWidth > 0 && i.currentSrc.endsWith('-dark.png'))"), True)
    q.js("document.documentElement.style.setProperty('--soft', '#333')")
END
timeout 600 python3 "$tmp/use.py" "$site" >"$tmp/results" 2>&1
grep -aE '^(pass|fail) ' "$tmp/results" >"$tmp/verdicts"
verdicts "$tmp/verdicts"
check 'the pages were used to the end' grep -q 'dark pages have dark pictures' "$tmp/results"
grep -a '^#' "$tmp/results" || true
