# SPDX-License-Identifier: MIT
"""Makes a site of the Markdown pages of this repository:

    site.py REPOSITORY PICTURES SITE VERSION

The site is README.md, CHANGELOG.md, SECURITY.md, CONTRIBUTING.md, docs/, and the pages and files that they link. A page keeps its
path, with .html. cmark-gfm converts; here headings get the anchors that GitHub gives them, links to pages lead to .html, files that
are linked are copied, and search-index.js is written. Links that lead nowhere are listed, and the exit status is 1.
PICTURES has NAME-light.png and NAME-dark.png for each of NAMES below.
"""
import html
import json
import os
import posixpath
import re
import shutil
import struct
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOTS = ["README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md"]
# The navigation: a title, and pages by pattern. Pages in no group are reached by links and by the search.
GROUPS = [
    ("Start", ["README.md", "docs/tutorial.md", "docs/howto/install.md", "docs/coming-from-llama.cpp.md", "pictures.md"]),
    ("How to", ["docs/howto/*.md"]),
    ("Explain", ["docs/explain/*.md"]),
    ("Reference", ["docs/reference/*.md", "docs/man/bn.7", "docs/seeds.md"]),
    ("Project", ["CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "docs/baselines/perf/flamegraphs/README.md"]),
]
PICTURES = [
    ("chat", "The chat page of bn-serve", "`bn serve` has a [chat page](docs/howto/serve.md). *Verify* generates the answer again from its "
     "receipt and compares every token. What differs from run to run is left out here: rates, times, the receipt's name."),
    ("dashboard", "The dashboard of bn-serve", "The [dashboard](docs/howto/serve.md) shows what a server does. The figures are made up."),
    ("flame", "A flame graph", "[`bn flamegraph`](docs/howto/profile.md) draws where the time of a token goes: here the recording "
     "[phase2_10tok](docs/baselines/perf/flamegraphs/phase2_10tok.md)."),
    ("report", "A report of measurements", "[`bn bench report`](docs/howto/measure.md) draws measurements: here the "
     "committed baselines of one machine."),
]
NAMES = [name for name, *_ in PICTURES] + ["verified"]  # images that have a light and a dark picture
POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
VOID = {"br", "hr", "img", "source"}


def slug_of(text, seen):
    """The anchor of a heading, by GitHub's rules."""
    slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
    n = seen[slug] = seen.get(slug, -1) + 1
    return f"{slug}-{n}" if n else slug


def path_in_site(page):
    folder, name = posixpath.split(page)
    return posixpath.join(folder, "index.html" if name == "README.md" else name.removesuffix(".md") + ".html")


def manual(file):
    """A page of the manual, with the tags that Markdown would have."""
    markup = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", file], capture_output=True, text=True, check=True).stdout
    markup = re.sub(r'<table class="(?:head|foot)".*?</table>|</?(?:section|div|a)\b[^>]*>', "", markup, flags=re.S)
    markup = re.sub(r"<h1[^>]*>(.*?)</h1>", lambda m: "<h2>" + " ".join(m[1].split()).capitalize() + "</h2>", markup, flags=re.S)
    return f"<h1>{file.stem}({file.suffix[1:]}): the manual</h1>\n" + re.sub(r"<(\w+) [^>]*>", r"<\1>", markup)


class Page(HTMLParser):
    """Reads what cmark-gfm wrote; has the body of the page, its title, headings, links and texts afterwards."""

    def __init__(self, site, page, markup):
        super().__init__(convert_charrefs=True)
        self.site, self.page, self.url = site, page, path_in_site(page)
        self.out, self.links, self.anchors, self.sections = [], [], set(), []
        self.slugs, self.heading, self.title, self.in_code = {}, None, "", False
        self.sections.append(["", "", []])  # anchor, heading, texts
        self.feed(markup)
        self.close()
        self.body = "".join(self.out)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if re.fullmatch(r"h[1-6]", tag):
            self.heading = (len(self.out), [])
            return
        if align := attrs.pop("align", None):
            attrs["class"] = align
        if tag == "table":
            self.out.append('<div class="scroll" tabindex="0" role="group" aria-label="Table">')
        elif tag == "pre":
            self.out.append('<div class="code">')
            attrs, self.in_code = {"tabindex": "0"}, True
        elif tag == "code":
            attrs = {}
        elif tag == "a":
            attrs = {"href": self.target(attrs["href"])}
        elif tag == "img":
            name = Path(attrs["src"]).stem
            if name in NAMES:
                self.out.append(self.site.picture(name, attrs["alt"], posixpath.dirname(self.url)))
                return
            attrs = {"src": self.target(attrs["src"]), "alt": attrs.get("alt", "")}
        elif tag == "br":
            attrs = {}
        self.out.append("<" + tag + "".join(f' {k}="{html.escape(v)}"' for k, v in attrs.items()) + (" />" if tag in VOID else ">"))

    def handle_endtag(self, tag):
        if self.heading and re.fullmatch(r"h[1-6]", tag):
            at, texts = self.heading
            text = "".join(texts)
            slug, self.heading = slug_of(text, self.slugs), None
            self.anchors.add(slug)
            inner = "".join(self.out[at:])
            anchor = "" if "<a " in inner or tag == "h1" else f' <a class="anchor" href="#{slug}" aria-label="Link to this part">#</a>'
            self.out[at:] = [f'<{tag} id="{slug}">{inner}{anchor}</{tag}>']
            self.title = self.title or text
            self.sections.append([slug if tag != "h1" else "", text if tag != "h1" else "", [], tag])
        elif tag not in VOID:
            self.out.append(f"</{tag}>")
            self.in_code = self.in_code and tag != "pre"
            self.out.append("</div>" if tag in ("table", "pre") else "")
        self.sections[-1][2].append(" " if tag in ("p", "li", "td", "th", "pre", "h1") else "")

    def handle_data(self, data):
        text = html.escape(data, quote=False)
        if self.in_code and re.search(r"^\$ ", data, re.M):
            text = re.sub(r"^(\$ (?:.*\\\n)*.*)$", r'<span class="typed">\1</span>', text, flags=re.M)
        self.out.append(text)
        (self.heading[1] if self.heading else self.sections[-1][2]).append(data)

    def target(self, link):
        """The address of a link of a Markdown page, from its place in the site."""
        if re.match(r"[a-z]+:", link):
            return link
        path, _, anchor = link.partition("#")
        to = posixpath.normpath(posixpath.join(posixpath.dirname(self.page), path)) if path else self.page
        url = self.site.url_of(to, self.page)
        self.links.append((link, url, anchor))
        relative = posixpath.relpath(url, posixpath.dirname(self.url) or ".")
        return (relative if path else "") + ("#" + anchor if anchor else "")


class Site:
    def __init__(self, repository, pictures, folder, version):
        self.repository, self.pictures, self.folder, self.version = Path(repository), Path(pictures), Path(folder), version
        self.pages, self.files, self.waiting, self.dead = {}, {}, [], []

    def url_of(self, path, page):
        """Where a file of the repository is in the site; it gets there when it is linked."""
        file = self.repository / path
        if path.endswith((".md", ".7")) or file.is_dir():
            path = posixpath.join(path, "README.md") if file.is_dir() else path
            if path not in self.pages and path not in self.waiting:
                self.waiting.append(path)
            return path_in_site(path)
        if not file.is_file() or not file.resolve().is_relative_to(self.repository.resolve()):
            self.dead.append(f"{page}: {path} is not a file of the repository")
        # Browsers show these, and download others.
        url = path if file.suffix in (".svg", ".png", ".json") else path + ".txt"
        self.files[url] = file
        return url

    def text_of(self, page):
        if page == "pictures.md":
            return "# Pictures\n\nThe build makes these with the built-in model.\n\n" + "\n\n".join(f"## {title}\n\n{text}\n\n![{title}]({name}.png)" for name, title, text in PICTURES)
        file = self.repository / page
        if file.is_file():
            return file.read_text()
        folder = file.parent
        if file.name != "README.md" or not list(folder.glob("*.md")):
            return ""
        return f"# {folder.name.capitalize()}\n\n" + "\n".join(f"- [{self.title(f)}]({f.name})" for f in sorted(folder.glob("*.md")))

    def title(self, file):
        return next((line[2:] for line in file.read_text().splitlines() if line.startswith("# ")), file.stem)

    def read(self, page):
        text = self.text_of(page)
        if not text:
            self.dead.append(f"{page} is linked and does not exist")
            return
        # Comments speak to tests.
        markup = manual(self.repository / page) if page.endswith(".7") else subprocess.run(["cmark-gfm", "-e", "table", "-e", "strikethrough"], input=text, capture_output=True, text=True, check=True).stdout
        markup = markup.replace("<!-- raw HTML omitted -->\n", "")
        if "<p>|" in markup:
            self.dead.append(f"{page}: a row is outside of its table")
        for said, to in re.findall(r"\[([\w-]+\.md)\]\(([^)#]*)", text):
            if posixpath.basename(to or page) != said:
                self.dead.append(f"{page}: the link {said} leads to {to or page}")
        if "<!-- raw HTML omitted -->" in markup:
            self.dead.append(f"{page}: markup of HTML would be lost")
        self.pages[page] = Page(self, page, markup)

    def picture(self, name, text, folder):
        light, dark = (f"pictures/{name}-{shade}.png" for shade in ("light", "dark"))
        for url in (light, dark):
            self.files[url] = self.pictures / Path(url).name
        width, height = struct.unpack(">II", self.files[light].read_bytes()[16:24])  # so that pages do not jump
        near, far = (posixpath.relpath(url, folder or ".") for url in (light, dark))
        return (f'<picture><source media="(prefers-color-scheme: dark)" srcset="{far}" />'
                f'<img src="{near}" alt="{html.escape(text)}" width="{width}" height="{height}" /></picture>')

    def navigation(self, page):
        base, parts, shown = posixpath.dirname(page.url) or ".", [], set()
        for group, patterns in GROUPS:
            names = [n for p in patterns for n in sorted(self.pages) if re.fullmatch(re.escape(p).replace(r"\*", "[^/]*"), n) and n not in shown]
            shown.update(names)
            parts.append(f"<h2>{group}</h2><ul>")
            for name in names:
                other = self.pages[name]
                title = html.escape("Overview" if name == "README.md" else other.title.split(":")[0])
                here = ' aria-current="page"' if other is page else ""
                parts.append(f'<li><a href="{posixpath.relpath(other.url, base)}"{here}>{title}</a>')
                if other is page:
                    heads = [s for s in page.sections if s[3:] == ["h2"]]
                    parts.append("<ul>" + "".join(f'<li><a href="#{s[0]}">{html.escape(s[1])}</a></li>' for s in heads) + "</ul>" if heads else "")
                parts.append("</li>")
            parts.append("</ul>")
        return "".join(parts)

    def write(self, page):
        root = posixpath.relpath(".", posixpath.dirname(page.url) or ".")
        root = "" if root == "." else root + "/"
        title = "bn: ternary language models in C" if page.page == "README.md" else html.escape(page.title) + " - bn"
        text = f"""<!DOCTYPE html>
<html lang="en" data-root="{root}">
<head>
<meta charset="utf-8" />
<meta http-equiv="Content-Security-Policy" content="{POLICY}" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="color-scheme" content="light dark" />
<title>{title}</title>
<link rel="icon" href="data:," />
<link rel="stylesheet" href="{root}style.css" />
<script src="{root}site.js" defer="defer"></script>
</head>
<body>
<a class="skip" href="#content">To the text</a>
<header>
<a class="home" href="{root}index.html">bn</a> <span class="version">{html.escape(self.version)}</span>
<div role="search" class="search"><label class="hidden" for="search">Search</label>
<input id="search" type="search" placeholder="Search" autocomplete="off" spellcheck="false" />
<div id="results" hidden="hidden"></div></div>
<a class="menu" href="#pages">Pages</a>
</header>
<main id="content">
{page.body}
</main>
<nav id="pages" aria-label="Pages">
{self.navigation(page)}
</nav>
</body>
</html>
"""
        self.put(page.url, text)

    def put(self, url, text):
        file = self.folder / url
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def check(self):
        urls = {page.url: page for page in self.pages.values()}
        for page in self.pages.values():
            for link, url, anchor in page.links:
                if url not in urls and url not in self.files:
                    self.dead.append(f"{page.page}: {link} leads nowhere")
                elif anchor and url in urls and anchor not in urls[url].anchors:
                    self.dead.append(f"{page.page}: {link}: there is no heading #{anchor}")

    def build(self):
        self.waiting = ROOTS + ["pictures.md"] + [str(f.relative_to(self.repository)) for f in sorted((self.repository / "docs").rglob("*.md"))]
        while self.waiting:
            page = self.waiting.pop(0)
            if page not in self.pages:
                self.read(page)
        self.check()
        if self.dead:
            print("\n".join("site: " + line for line in sorted(set(self.dead))), file=sys.stderr)
            return 1
        shutil.rmtree(self.folder, ignore_errors=True)
        index = []
        for name in sorted(self.pages):
            page = self.pages[name]
            self.write(page)
            for anchor, heading, texts, *_ in page.sections:
                text = " ".join("".join(texts).split())
                if text or heading:
                    index.append([page.url + ("#" + anchor if anchor else ""), page.title, heading, text])
        self.put("search-index.js", "addIndex(" + json.dumps(index, ensure_ascii=False, separators=(",", ":")) + ");\n")
        here = Path(__file__).parent
        for url, file in list(self.files.items()) + [("style.css", here / "style.css"), ("site.js", here / "site.js")]:
            (self.folder / url).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, self.folder / url)
        print(f"{len(self.pages)} pages, {len(self.files)} files, {len(index)} parts to search")
        return 0


if __name__ == "__main__":
    sys.exit(Site(*sys.argv[1:]).build())
