#!/usr/bin/env bash
# Usage: packaging/release.sh [--dry-run] [--from STEP] [--to STEP] [--only STEP] [--parts "TARGET..."]
# The checklist of a release. Runs its steps in order, says of each whether it passed, and stops at the first that fails, with its
# exit status; --from goes on there. --dry-run needs neither the tag nor a date in CHANGELOG.md. --parts: what to make; the default is
# every target of packaging/build.mk that is there. The files appear in $RELEASE [build/release].
#
#   tree        nothing is changed, and the tag vVERSION is this commit
#   version     engine/bn.h, the tag and the manual page have the same one
#   changelog   CHANGELOG.md begins with this version and its date
#   docs        no document names another version of bn
#   lint        make lint, with the budget
#   check       make check
#   trial       make check-release: each package is installed and used
#   start       an empty $RELEASE, and a list of the Debian packages used here
#   parts       each part is made twice, with equal bytes (packaging/twice.sh)
#   sbom        bn-VERSION.spdx.json
#   sums        SHA256SUMS
#   provenance  signed by the key in the file $BN_RELEASE_KEY, or by the key that is $BN_RELEASE_KEY_PEM; unsigned without one
#   by-hand     what is left for a person
#   publish     only with --only publish: a release of GitHub with these files, by gh
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
top=$PWD
steps=(tree version changelog docs lint check trial start parts sbom sums provenance by-hand)
version=$(packaging/version.sh)
commit=$(git rev-parse HEAD)
release=$(mkdir -p "${RELEASE:-build/release}" && realpath "${RELEASE:-build/release}")
used=$(dirname "$release")/used
bin=${OUT:-build/gcc}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH RELEASE=$release
dry='' from=${steps[0]} to=${steps[-1]} parts=''
fail() { echo "release: $*" >&2; return 1; }
usage() { echo "release: $*" >&2; sed -n '2s/^# //p' "$top/packaging/release.sh" >&2; exit 2; }

step_tree() {
    git update-index -q --refresh || true
    local changed
    changed=$(git status --porcelain)
    [ -z "$changed" ] || fail "the tree is not clean: $(echo "$changed" | head -n 3 | paste -sd ' ')"
    [ -n "$dry" ] || git tag --points-at HEAD | grep -qxF "v$version" || fail "no tag v$version at this commit: git tag -a v$version"
}
step_version() {
    [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "engine/bn.h has the version '$version'"
    grep -q "\"bn $version\"" docs/man/bn.7 || fail "docs/man/bn.7 does not name bn $version"
    local tag
    for tag in $(git tag --points-at HEAD 'v[0-9]*'); do [ "$tag" = "v$version" ] || fail "the tag $tag is not version $version"; done
}
step_changelog() {
    local first date
    first=$(grep -m 1 '^## ' CHANGELOG.md || true)
    date=${first#"## $version ("} date=${date%)}
    [ "$first" != "## $version (unreleased)" ] || [ -z "$dry" ] || { echo "note: CHANGELOG.md has no date yet"; return 0; }
    if [ "$first" != "## $version ($date)" ] || ! [[ $date =~ ^20[0-9]{2}-[0-9]{2}-[0-9]{2}$ ]] || ! date -d "$date" >/dev/null; then
        fail "CHANGELOG.md begins with '$first', not with '## $version (YYYY-MM-DD)'"
    fi
}
# Names of files, packages and tags; versions of other programs are not looked at.
step_docs() {
    local others
    others=$(git grep -nE '\bbn[-_ @]v?[0-9]+\.[0-9]+\.[0-9]+|libbn\.so\.[0-9]+\.[0-9]+|/(download|blob|tree|tags)/v[0-9]+\.' -- '*.md' 'docs/man/*' '*.yml' ':!CHANGELOG.md' |
        grep -vE "(bn[-_ @]v?|libbn\.so\.|/v)${version//./\\.}\b" || true)
    [ -z "$others" ] || fail "other versions than $version: $others"
}
step_lint() { make lint && ci/budget.sh; }
step_check() { make check; }
step_trial() { make check-release; }
step_start() {
    rm -rf "${release:?}" "$used" && mkdir -p "$release" "$used"
    # shellcheck disable=SC2016 # a format of dpkg-query
    awk '/^\[/ { on = /build|test|release/; next } on && NF && !/^#/' ci/packages.txt |
        { xargs dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version} ${Architecture}\n' 2>/dev/null || true; } |
        sed -n 's/^ii  *//p' | LC_ALL=C sort >"$used/$(dpkg --print-architecture).txt"
}
# Static programs and the image of them share one pair of builds, and so do the wheel and the site.
step_parts() {
    local group target
    [ -n "$parts" ] || for target in dist deb static image wheel site; do
        ! grep -q "^$target:" Makefile packaging/build.mk || parts="$parts $target"
    done
    for group in dist deb 'static image' 'wheel site'; do
        local wanted=()
        for target in $group; do [[ " $parts " != *" $target "* ]] || wanted+=("$target"); done
        [ ${#wanted[@]} -eq 0 ] || packaging/twice.sh "${wanted[@]}" || return
    done
}
step_sbom() {
    local text
    text=$(packaging/sbom.py "$release" "$version" "$commit")
    printf '%s\n' "$text" >"$release/bn-$version.spdx.json"
}
files() { find . -maxdepth 1 -type f ! -name SHA256SUMS ! -name '*.provenance.*' -printf '%P\n' | LC_ALL=C sort; }
step_sums() { cd "$release" && files | xargs -d '\n' sha256sum >SHA256SUMS && cat SHA256SUMS; }
step_provenance() {
    local statement=$release/bn-$version.provenance.json key=${BN_RELEASE_KEY:-} signed
    signed=${statement%.json}.dsse secret=$(mktemp -d)
    trap 'rm -rf "$secret"' EXIT
    rm -f "$signed"
    (cd "$release" && sha256sum --quiet --strict -c SHA256SUMS && [ "$(files)" = "$(sed 's/^[^ ]*  //' SHA256SUMS)" ]) ||
        fail "the files of $release are not those of SHA256SUMS: --from sums"
    packaging/provenance.py "$release" "$version" "$commit" >"$statement"
    if [ -z "$key" ] && [ -n "${BN_RELEASE_KEY_PEM:-}" ]; then
        key=$secret/key
        (umask 077 && printf '%s\n' "$BN_RELEASE_KEY_PEM" >"$key")
    fi
    [ -n "$key" ] || { echo "note: no key, so the provenance is UNSIGNED and proves nothing: ${statement##*/}"; return 0; }
    local public=packaging/release.pub
    [ -f "$public" ] || { public=$secret/key.pub && openssl pkey -in "$key" -pubout -out "$public"; }
    "$bin/bn-verify-receipt" sign "$statement" --key "$key" -o "$signed"
    rm "$statement"
    "$bin/bn-verify-receipt" "$signed" --public-key "$public" --files "$release"
}
step_by-hand() {
    [ -z "$dry" ] || { echo "a trial: nothing is left to do"; return 0; }
    printf '%s\n' "look at $release, then:" "  git push origin v$version    release.yml makes the same files, and publishes them" \
        "  compare its SHA256SUMS with this one" "  begin the next version: engine/bn.h, docs/man/bn.7, CHANGELOG.md"
}
step_publish() {
    local notes
    [ -f "$release/bn-$version.provenance.dsse" ] || fail "the provenance is not signed"
    notes=$(mktemp) && awk '/^## / { n++ } n == 1 && !/^## /' CHANGELOG.md >"$notes"
    (cd "$release" && files | xargs -d '\n' gh release create "v$version" --verify-tag --title "bn $version" --notes-file "$notes" \
        SHA256SUMS "bn-$version.provenance.dsse")
    rm -f "$notes"
}

while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) dry=1 ;;
    --from | --to | --only | --parts)
        [ $# -gt 1 ] || usage "$1 needs a value"
        case $1 in --from) from=$2 ;; --to) to=$2 ;; --only) from=$2 to=$2 ;; --parts) parts=$2 ;; esac
        shift ;;
    *) usage "unknown argument '$1'" ;;
    esac
    shift
done
[ "$from" != publish ] || steps+=(publish)
for step in "$from" "$to"; do [[ " ${steps[*]} " == *" $step "* ]] || usage "no step '$step': ${steps[*]}"; done
on='' n=0
for step in "${steps[@]}"; do
    [ "$step" != "$from" ] || on=1
    [ -n "$on" ] || continue
    n=$((n + 1))
    (set -e && "step_$step")
    status=$?
    [ "$status" -eq 0 ] || { echo "FAIL $step" && exit "$status"; }
    echo "pass $step"
    [ "$step" != "$to" ] || break
done
[ "$step" = "$to" ] || usage "$from is after $to"
