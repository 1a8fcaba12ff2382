#!/usr/bin/env bash
# packaging/release.sh, twice.sh, sbom.py and release.yml in a sample repository whose targets of make are stand-ins: what passes,
# and each fault that must stop a release. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
top=$PWD
bin=$(cd "${OUT:-build/gcc}" && pwd)
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
export OUT=$bin
unset RELEASE SOURCE_DATE_EPOCH BN_RELEASE_KEY BN_RELEASE_KEY_PEM MAKEFLAGS

# ---- the sample: the scripts of this repository, and parts that are quickly made ----
mkdir -p "$tmp/sample"/{engine,ci,docs/man,packaging} && cd "$tmp/sample" || exit 1
cp "$top"/packaging/{release.sh,twice.sh,version.sh,sbom.py,provenance.py,licences.txt} packaging/
cp "$top"/engine/bn.h engine/ && cp "$top"/docs/man/bn.7 docs/man/ && cp "$top"/ci/{packages.txt,build-info.sh} ci/
printf '#!/bin/sh\n' >ci/budget.sh && chmod +x ci/budget.sh
cat >packaging/build.mk <<'END2'
RELEASE ?= build/release
export SOURCE_DATE_EPOCH
dist:
	@mkdir -p $(RELEASE)
	@git archive --prefix=bn-0.1.0/ --add-virtual-file=bn-0.1.0/VERSION:$$(git rev-parse HEAD) HEAD | gzip -n -9 >$(RELEASE)/bn-0.1.0.tar.gz
deb:
	@mkdir -p build/d/DEBIAN && printf 'Package: bn\nVersion: 0.1.0-1\nArchitecture: all\nMaintainer: t <t@t>\nDepends: libc6 (>= 2.34), libssl3 (>= 3.0.0), libbn0, libcurl4-openssl-dev, ca-certificates\nDescription: t\n' >build/d/DEBIAN/control
	@chmod -R u=rwX,go=rX build/d && dpkg-deb --root-owner-group -b build/d $(RELEASE)/bn_0.1.0-1_all.deb >/dev/null
static:
	@mkdir -p build/s/bn/licenses && echo mit >build/s/bn/licenses/libssl-dev && echo mit >build/s/bn/licenses/curl && printf 'linked in:\ncurl 7.88.1-10\n' >build/s/bn/README
	@tar --sort=name --owner=0 --group=0 --mode=u=rwX,go=rX --mtime=@$$SOURCE_DATE_EPOCH -C build/s -c bn | gzip -n >$(RELEASE)/bn-0.1.0-linux-x86_64.tar.gz
image:
	@echo image >$(RELEASE)/bn-0.1.0-image-x86_64.tar
wheel:
	@python3 -c 'import sys, zipfile as z; w = z.ZipFile(sys.argv[1], "w"); [w.writestr(z.ZipInfo("bn.dist-info/licenses/" + n), "x") for n in ("LICENSE", "libpcre2-dev.txt")]; w.close()' $(RELEASE)/bn-0.1.0-py3-none-any.whl
site:
	@mkdir -p $(RELEASE)/site && echo site | tee $(RELEASE)/site/index.html >$(RELEASE)/bn-0.1.0-site.tar.gz
lint check check-release:
	@echo $@
install:
	@mkdir -p $(DESTDIR)$(PREFIX)/bin && sh ci/build-info.sh true '' | sed -n '/COMMIT/p' >$(DESTDIR)$(PREFIX)/bin/bn
END2
echo 'include packaging/build.mk' >Makefile
printf '# Changelog\n\n## 0.1.0 (2026-11-29)\n\n- The first.\n\n## 0.0.1 (2026-01-01)\n\n- Before.\n' >CHANGELOG.md
printf 'Take bn-0.1.0.tar.gz.\n' >README.md
echo build >.gitignore
git init -q -b main . && git add . && git commit -q -m first && git tag -a -m 0.1.0 v0.1.0
commit=$(git rev-parse HEAD)
"$bin/bn-verify-receipt" keygen -o "$tmp/key" >/dev/null
release() { packaging/release.sh "$@"; }

# ---- all of it ----
says 0 'a release passes every step' '^pass by-hand$' env BN_RELEASE_KEY="$tmp/key" packaging/release.sh
cp "$tmp/tap" "$tmp/said"
check 'all of them' equal "$(grep -c '^pass ' "$tmp/said")" 13
says 0 'it says what is left' 'git push origin v0.1.0' cat "$tmp/said"
names='SHA256SUMS bn-0.1.0-image-x86_64.tar bn-0.1.0-linux-x86_64.tar.gz bn-0.1.0-py3-none-any.whl bn-0.1.0-site.tar.gz bn-0.1.0.provenance.dsse bn-0.1.0.spdx.json bn-0.1.0.tar.gz bn_0.1.0-1_all.deb'
check 'the files are there' equal "$(cd build/release && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs)" "$names"
# shellcheck disable=SC2016
check 'sha256sum agrees' bash -c 'cd build/release && sha256sum --quiet -c SHA256SUMS && [ $(wc -l <SHA256SUMS) -eq 7 ]'
says 0 'the provenance verifies' '8 files, version 0.1.0, commit '"$commit" "$bin/bn-verify-receipt" build/release/bn-0.1.0.provenance.dsse --public-key "$tmp/key.pub" --files build/release
cp build/release/bn-0.1.0.spdx.json "$tmp/first.spdx.json"
status 0 'the bill of materials again' release --only sbom
check 'is the same' cmp build/release/bn-0.1.0.spdx.json "$tmp/first.spdx.json"

# ---- the bill of materials: what the JSON schema of SPDX 2.3 and its text demand ----
cat >"$tmp/spdx.py" <<'END2'
import hashlib, json, os, re, sys
d, folder = json.load(open(sys.argv[1])), sys.argv[2]
need = lambda o, *keys: [o[k] for k in keys]
assert d["spdxVersion"] == "SPDX-2.3" and d["dataLicense"] == "CC0-1.0" and d["SPDXID"] == "SPDXRef-DOCUMENT"
need(d, "name", "documentNamespace")
assert re.fullmatch(r"https?://[^#\s]+", d["documentNamespace"])
assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", d["creationInfo"]["created"]) and all(re.match("(Tool|Person|Organization): ", c) for c in d["creationInfo"]["creators"])
ids = ["SPDXRef-DOCUMENT"]
purls = []
for p in d["packages"]:
    need(p, "name", "downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText")
    assert p["filesAnalyzed"] or not p.get("packageVerificationCode")
    ids.append(p["SPDXID"])
    purls += [r["referenceLocator"] for r in p.get("externalRefs", []) if need(r, "referenceCategory", "referenceType")]
for f in d["files"]:
    sums = {c["algorithm"]: c["checksumValue"] for c in f["checksums"]}
    data = open(os.path.join(folder, f["fileName"]), "rb").read()
    assert sums == {"SHA1": hashlib.sha1(data).hexdigest(), "SHA256": hashlib.sha256(data).hexdigest()}, f
    ids.append(f["SPDXID"])
assert len(set(ids)) == len(ids) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", i) for i in ids)
r = {(x["spdxElementId"][8:], x["relationshipType"], x["relatedSpdxElement"][8:]) for x in d["relationships"]}
assert all("SPDXRef-" + i in ids for one, _, other in r for i in (one, other))
code = hashlib.sha1("".join(sorted(c["checksumValue"] for f in d["files"] for c in f["checksums"] if c["algorithm"] == "SHA1")).encode()).hexdigest()
assert d["packages"][0]["packageVerificationCode"]["packageVerificationCodeValue"] == code
assert {f for one, kind, f in r if (one, kind) == ("Package-bn", "CONTAINS")} == {i[8:] for i in ids if "-File-" in i}
links = {(kind, re.match("Package-([a-z0-9.+]+(-dev)?)", other)[1]) for _, kind, other in r if kind.endswith("_LINK")}
assert links == {("DYNAMIC_LINK", "libc6"), ("DYNAMIC_LINK", "libssl3"), ("STATIC_LINK", "libssl-dev"), ("STATIC_LINK", "curl"), ("STATIC_LINK", "libpcre2-dev")}, links
assert "pkg:deb/debian/curl@7.88.1-10" in purls and ("File-bn-0.1.0-image-x86-64.tar", "GENERATED_FROM", "File-bn-0.1.0-linux-x86-64.tar.gz") in r
END2
check 'the bill of materials has what SPDX 2.3 demands' python3 "$tmp/spdx.py" build/release/bn-0.1.0.spdx.json build/release
for key in dataLicense documentNamespace creationInfo; do
    python3 -c "import json, sys; d = json.load(open(sys.argv[1])); del d['$key']; json.dump(d, open(sys.argv[2], 'w'))" "$tmp/first.spdx.json" "$tmp/wrong.json"
    says 1 "without $key it would not" Error python3 "$tmp/spdx.py" "$tmp/wrong.json" build/release
done
sed -i 's/^libssl3 //' packaging/licences.txt
says 1 'a package without a licence stops it' 'bn_0.1.0-1_all.deb links libssl3, which packaging/licences.txt does not have' release --only sbom
git checkout -q packaging

# ---- digests and keys ----
says 0 'without a key the provenance says that it is unsigned' 'UNSIGNED' release --only provenance
check 'and not in an envelope' test -f build/release/bn-0.1.0.provenance.json -a ! -e build/release/bn-0.1.0.provenance.dsse
says 1 'it is not published' 'the provenance is not signed' release --only publish
says 0 'the key may be a text' '^pass provenance$' env BN_RELEASE_KEY_PEM="$(cat "$tmp/key")" packaging/release.sh --only provenance
"$bin/bn-verify-receipt" keygen -o "$tmp/other" >/dev/null && cp "$tmp/other.pub" packaging/release.pub
says 5 'a key that is not that of packaging/release.pub is caught' '^FAIL provenance$' env BN_RELEASE_KEY="$tmp/key" packaging/release.sh --only provenance
rm packaging/release.pub
echo more >>build/release/bn-0.1.0-site.tar.gz
says 1 'a changed file is caught' 'are not those of SHA256SUMS' release --only provenance
says 0 'and the sums made again' '^pass provenance$' env BN_RELEASE_KEY="$tmp/key" packaging/release.sh --from sums --to provenance
echo new >build/release/new.deb
says 1 'a file that was added too' 'are not those of SHA256SUMS' release --only provenance

# ---- the list of steps ----
says 2 'no such step' "no step 'sum'" release --from sum
says 2 'steps in the wrong order' 'sums is after lint' release --from sums --to lint
says 2 'an unknown argument' '^Usage: packaging/release.sh' release --help-me
echo x >>README.md
says 1 'a tree that is not clean stops it' 'the tree is not clean: +M README.md' release
check 'and nothing follows' equal "$(tail -n 1 "$tmp/tap")" 'FAIL tree'
git checkout -q README.md
# Commits a change, tries a step, and takes the commit back.
planted() { # TITLE STATUS PATTERN CHANGE ARGUMENT...
    local title=$1 status=$2 pattern=$3
    eval "$4"
    shift 4
    git add -A && git commit -q -m planted
    says "$status" "$title" "$pattern" packaging/release.sh "$@"
    git reset -q --hard "$commit"
}
planted 'a commit without the tag is not released' 1 'no tag v0.1.0 at this commit' 'echo x >>README.md' --only tree
planted 'a trial needs no tag' 0 '^pass tree$' 'echo x >>README.md' --only tree --dry-run
planted 'another version of bn.h is found' 1 'docs/man/bn.7 does not name bn 9' 'sed -i -E "s/(BN_VERSION_MAJOR) 0/\1 9/" engine/bn.h' --only version
planted 'a missing entry of the changelog stops it' 1 "begins with '## 0.0.1" 'sed -i "/0.1.0/,+3d" CHANGELOG.md' --only changelog
planted 'so does one without a date' 1 'not with .## 0.1.0 .YYYY' 'sed -i "s/(2026-11-29)/(unreleased)/" CHANGELOG.md' --only changelog
planted 'which a trial does not need' 0 'has no date yet' 'sed -i "s/(2026-11-29)/(unreleased)/" CHANGELOG.md' --only changelog --dry-run
planted 'a date that does not exist' 1 '^FAIL changelog' 'sed -i "s/2026-11-29/2026-02-30/" CHANGELOG.md' --only changelog
planted 'a document with another version' 1 'README.md:2:.*bn-0.0.9' 'echo "or bn-0.0.9.tar.gz" >>README.md' --only docs
for step in lint check trial; do
    target=$step && [ $step != trial ] || target=check-release
    planted "make $target that fails stops it" 2 "^FAIL $step$" "sed -i 's/^lint check check-release:/$target:\n\t@false\nnone:/' packaging/build.mk" --only $step
done

# ---- builds that differ ----
twice() { packaging/twice.sh "$@"; }
says 0 'equal files are listed' '^equal +bn-0.1.0-site.tar.gz$' twice wheel site
plant() { # TITLE PATTERN TARGET COMMAND
    printf '%s:\n\t@%s\n' "$3" "$4" >packaging/build.mk && git add -A && git commit -q -m planted
    says 1 "$1" "$2" packaging/twice.sh "$3"
    git reset -q --hard "$commit"
}
# shellcheck disable=SC2016
{
    plant 'a date in a file is found' '^different +b$' site 'echo a >$(RELEASE)/a && date +%F >$(RELEASE)/b'
    plant 'a time too' '^different +b$' site 'date -u +%s >$(RELEASE)/b'
    plant 'and the folder' '^different +b$' site 'pwd >$(RELEASE)/b'
    plant 'and the locale' '^different +b$' site 'echo $$LC_ALL >$(RELEASE)/b'
    plant 'and a mode' '^different +b$' site 'umask >$(RELEASE)/b'
    plant 'and a file that is there once' '^missing +b[0-9]+$' site 'touch $(RELEASE)/b$$(date +%s)'
    plant 'a part that writes nothing is found' 'wrote nothing' site true
}
check 'files that differ are not kept' test ! -e build/release/b
says 2 'an unknown part' "no target 'rpm'" twice rpm
says 0 'programs are built without git, and know their commit' '^equal +usr/bin/bn$' twice programs
mkdir "$tmp/archive" && make -s dist RELEASE="$tmp/archive" && tar -xzf "$tmp/archive/bn-0.1.0.tar.gz" -C "$tmp/archive"
check 'which is that of the archive' equal "$(cd "$tmp/archive/bn-0.1.0" && sh ci/build-info.sh true '' | grep -c "COMMIT \"$commit\"")" 1

# ---- what release.yml runs, with a gh that only records what it is asked ----
# shellcheck disable=SC2016
mkdir "$tmp/bin" && printf '#!/bin/sh\necho "$*" >>%s/asked\nfor f; do case $f in /*) cat "$f" ;; esac; done >>%s/asked\n' "$tmp" "$tmp" >"$tmp/bin/gh" && chmod +x "$tmp/bin/gh"
# shellcheck disable=SC2016
sed -n '/^cat >"$tmp\/workflows.py"/,/^END/p' "$top/tests/cli/workflows.sh" | sed '1d;$d' >"$tmp/workflows.py"
workflow() { # EVENT: the commands of both jobs, in their order
    local command
    (cd "$top" && for job in parts publish; do JOB=$job EVENT=$1 python3 "$tmp/workflows.py" run .github/workflows/release.yml; done) >"$tmp/commands" || return
    rm -rf build "$tmp/artefacts" && mkdir "$tmp/artefacts"
    while IFS= read -r command; do
        PATH=$tmp/bin:$PATH BN_RELEASE_KEY_PEM=$(cat "$tmp/key") bash -c "$command" </dev/null || return
        case $command in # each machine leaves its files, and the next job has all of them
        *'--to parts'*) cp -R build/release build/used "$tmp/artefacts/" ;;
        esac
        [[ $command != *'deb wheel'* ]] || cp -R "$tmp"/artefacts/* build/
    done <"$tmp/commands"
}
says 0 'a tag makes a release' '^pass publish$' workflow push
says 0 'gh gets its files' '^release create v0.1.0 --verify-tag --title bn 0.1.0 .*SHA256SUMS bn-0.1.0.provenance.dsse bn-0.1.0-image' cat "$tmp/asked"
says 0 'and its part of the changelog' '^- The first' cat "$tmp/asked"
lacks 'not that of another version' 'Before' cat "$tmp/asked"
rm "$tmp/asked"
says 0 'by hand it is a trial' '^a trial: nothing is left' workflow workflow_dispatch
check 'which publishes nothing' test ! -e "$tmp/asked"
