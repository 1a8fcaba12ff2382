#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the training texts of the built-in model from Debian packages: public-domain.py OUT [DEBS]

The packages are in DEBS, or apt-get downloads them there; shakespeare.txt is next to this file: the first 95 % of Tiny
Shakespeare, whose end is fixtures/validation.txt. The digest of each package, and of each text that is written, is checked: the
same texts come out everywhere. All texts are in the public domain (PACKAGES below). Texts for validation and for the final test are cut off before anything is trained.
"""
import gzip
import hashlib
import html
import pathlib
import re
import struct
import subprocess
import sys
import zlib

# Package, version and digest of the file.
PACKAGES = {
    "r-cran-janeaustenr": ("1.0.0-1", "df6bddf211906d1ff404f8ff662c21b34e6660e7f54a311084e749050c019c95"),  # six novels of Jane Austen
    "bible-kjv": ("4.38", None),  # the program that prints the next one; differs between architectures
    "bible-kjv-text": ("4.38", "d61b6aad4c51ba9e2800b825325fa6a09e99a0d02a9bb6dc4724fcc4995a1b7a"),  # the King James Bible; legend: Bible Retrieval System, Chip Chapin, 1989
    "sword-text-web": ("426.0-1", "930b23670b352f0829a306501de4bebb5e654a2df02cde2cbe86b802177868e1"),  # the World English Bible
    "sword-comm-tdavid": ("2.1-1", "bcbfad701c5c4a061475b58309cebc42755a59e87478c8355227c5e046412b3f"),  # C. H. Spurgeon, The Treasury of David
    "sword-comm-mhcc": ("2.0-1", "06f748215de78ff48fdfdee93e3ffc5af6318b976485f7aedf22309236967e35"),  # Matthew Henry, Concise Commentary
    "jargon-text": ("4.4.7-4.1", "17d05997e30eb3d5d6713929b8e2f81b63a5f50073858ad2a06701c71f54dcdb"),  # The Jargon File 4.4.7
    "dict-devil": ("1.0-13.1", "6a535684def2a1f70cd42da16d12d43f0e9dc3e54e4a329178eebab3170e3154"),  # Ambrose Bierce, The Devil's Dictionary
    "golang-1.19-src": ("1.19.8-2", "2dfa82fe4f08f4e0193c532e561af4c91871f5235608f04f2bb8d57bb288df5a"),  # its test data have Isaac Newton, Opticks
}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def fetch(name, folder):
    version, want = PACKAGES[name]
    found = sorted(folder.glob(f"{name}_{version}_*.deb"))
    if not found:
        subprocess.run(["apt-get", "download", "-q", f"{name}={version}"], cwd=folder, check=True)
        found = sorted(folder.glob(f"{name}_{version}_*.deb"))
    got = digest(found[0].read_bytes())
    if want is not None and got != want:
        sys.exit(f"{found[0]}: the digest is {got}, expected {want}")
    target = folder / "unpacked" / name
    if not target.exists():
        target.mkdir(parents=True)
        subprocess.run(["dpkg-deb", "-x", str(found[0]), str(target)], check=True)
    return target


def plain(text):
    """Characters as the vocabulary expects them: ASCII quotes and dashes, Unix lines, no runs of blank lines."""
    for old, new in {"\r\n": "\n", "\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2014": "--", "\u2013": "-",
                     "\u00a0": " ", "\u2026": "..."}.items():
        text = text.replace(old, new)
    text = re.sub(r"[ \t]+\n", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def austen(folder):
    """The strings of R's serialised vectors: length (big endian), zlib; inside, CHARSXP headers with a length."""
    data = (folder / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    novels, at = [], 0
    while at + 4 < len(data):
        size = struct.unpack_from(">I", data, at)[0]
        stream = zlib.decompressobj()
        block = stream.decompress(data[at + 4:])
        at = len(data) - len(stream.unused_data)
        assert len(block) == size
        lines, place = [], 0
        for header in re.finditer(rb"\0[\x00-\x0f]\0\x09", block):
            if header.start() < place:
                continue
            length = struct.unpack_from(">i", block, header.end())[0]
            if length < 0:
                continue
            place = header.end() + 4 + length
            lines.append(block[header.end() + 4:place].decode())
        if len(lines) > 1000:
            novels.append("\n".join(lines))
    return novels


def kjv(program, text):
    out = subprocess.run([program / "usr/bin/bible", "-p", text / "usr/lib", "-f", "gen1:1-rev22:21"], check=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout.decode()
    lines, chapter = [], None
    for line in out.splitlines():
        found = re.match(r"([1-3]?[A-Za-z]+\d+):\d+ (.*)", line)
        if found:
            if chapter is not None and found[1] != chapter:
                lines.append("")
            chapter = found[1]
            lines.append(found[2])
    return "\n".join(lines)


def sword(folder, module):
    """Blocks of a SWORD module in order: index entries of offset, size, size when unpacked; zlib; tags are dropped."""
    parts = []
    for testament in ("ot", "nt"):
        for letter in ("b", "c"):
            index = next(folder.glob(f"usr/share/sword/modules/**/{module}/{testament}.{letter}zs"), None)
            if index is None:
                continue
            blocks = index.with_suffix(f".{letter}zz").read_bytes()
            for offset, size, _ in struct.iter_unpack("<III", index.read_bytes()):
                if size == 0:
                    continue
                parts.append(zlib.decompress(blocks[offset:offset + size]).decode("utf-8", "ignore"))
    text = "\n".join(parts)
    text = re.sub(r"<note.*?</note>", "", text, flags=re.S)
    text = re.sub(r"</(?:p|verse|title|l|lg|div|item)>|<(?:p|lb|l|verse)\b[^>]*/>", "\n", text)
    text = html.unescape(re.sub(r"<[^>]*>", "", text)).replace("\0", "")
    text = re.sub(r"[ \t]+", " ", text)
    return re.sub(r"\n ", "\n", text)


def texts(debs):
    """Name and text of each file."""
    unpacked = {name: fetch(name, debs) for name in PACKAGES}
    novels = austen(unpacked["r-cran-janeaustenr"])
    novels = [plain(novel) for novel in novels]
    cut = len(novels[-1]) - 120000  # the end of one novel is kept for validation and for the final test
    yield "austen.txt", "\n".join(novels[:-1]) + "\n" + novels[-1][:cut]
    yield "austen-validation.txt", novels[-1][cut:cut + 60000]
    yield "austen-test.txt", novels[-1][cut + 60000:]
    yield "shakespeare.txt", pathlib.Path(__file__).with_name("shakespeare.txt").read_text()
    yield "kjv.txt", plain(kjv(unpacked["bible-kjv"], unpacked["bible-kjv-text"]))
    yield "web.txt", plain(sword(unpacked["sword-text-web"], "engWEB2015eb"))
    yield "spurgeon.txt", plain(sword(unpacked["sword-comm-tdavid"], "tdavid"))
    yield "henry.txt", plain(sword(unpacked["sword-comm-mhcc"], "mhcc"))
    jargon = unpacked["jargon-text"] / "usr/share/doc/jargon-text/jargon.txt.gz"
    yield "jargon.txt", plain(gzip.decompress(jargon.read_bytes()).decode("utf-8", "ignore"))
    devil = unpacked["dict-devil"] / "usr/share/dictd/devil.dict.dz"
    yield "devil.txt", plain(gzip.decompress(devil.read_bytes()).decode("utf-8", "ignore"))
    newton = next(unpacked["golang-1.19-src"].glob("usr/share/go-*/src/testdata/Isaac.Newton-Opticks.txt"))
    yield "newton.txt", plain(newton.read_text())


def main():
    out = pathlib.Path(sys.argv[1])
    debs = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else out / "packages")
    out.mkdir(parents=True, exist_ok=True)
    debs.mkdir(parents=True, exist_ok=True)
    sums = []
    for name, text in texts(debs):
        data = text.encode()
        (out / name).write_bytes(data)
        sums.append(f"{digest(data)}  {name}\n")
        print(f"{len(data):9d}  {name}")
    expected = pathlib.Path(__file__).with_name("public-domain.sha256")
    if expected.exists() and expected.read_text() != "".join(sums):
        sys.exit(f"the texts differ from {expected}:\n{''.join(sums)}")
    (out / "SHA256SUMS").write_text("".join(sums))


main()
