#!/usr/bin/env bash
# The Debian packages: made twice in a bare system with what Build-Depends names, with equal bytes; lintian; each installed
# alone into a bare system and used there; autopkgtest; upgrade and removal; the hardening of the service. Needs root.
#   BN_DEB_BASE=FILE   a bare system that mmdebstrap made before
#   BN_DEB_WORK=DIR    where build.sh made packages of this commit before
# shellcheck disable=SC2016,SC2317 # the inner shell and dpkg expand what is quoted; functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
# shellcheck source=tests/release/shared/root.sh
. tests/release/shared/root.sh
for tool in dpkg-buildpackage lintian mmdebstrap autopkgtest systemd-analyze; do
    command -v "$tool" >/dev/null || { skip "Debian packages" "$tool is not installed"; exit; }
done
[ "$(id -u)" -eq 0 ] || { skip "Debian packages" "only root can enter a bare system"; exit; }
version=$(packaging/version.sh)
base=${BN_DEB_BASE:-$tmp/base.tar}
[ -s "$base" ] || make_base "$base" || { not_ok "a bare system is made" "$(tail -n 5 "$tmp/mmdebstrap")"; exit; }

# ---- the source archive ----
make() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u OUT make -s --no-print-directory "$@"; }
check "make dist" make dist RELEASE="$tmp/dist1"
check "make dist again" make dist RELEASE="$tmp/dist2"
archive=$tmp/dist1/bn-$version.tar.gz
check "gives the same bytes" cmp "$archive" "$tmp/dist2/bn-$version.tar.gz"
check "the archive names its commit" equal "$(tar -xOf "$archive" "bn-$version/VERSION")" "$(git rev-parse HEAD)"

# ---- made twice ----
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
debs=${BN_DEB_WORK:-$tmp/work}
names=(bn bn-mpi bn-serve bn-train libbn-dev libbn0)
deb() { echo "$debs/$1"_*.deb; }
prepare() {
    mkdir "$root/src" && tar -x -f "$archive" -C "$root/src" --strip-components=1 && cp -R "$root/src/packaging/debian" "$root/src/debian" &&
        cp "$archive" "$root" && enter apt-get update -qq && enter apt-get build-dep -y -qq --no-install-recommends /src
}
made() { # folder, variables of the environment
    mkdir -p "$root/$1/out" "$root/$1/work" &&
        enter env SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" "${@:2}" bash /src/packaging/debian/build.sh "/${archive##*/}" "/$1/out" "/$1/work"
}
if [ -z "${BN_DEB_WORK:-}" ]; then
    new_root
    check "a bare system has what Build-Depends names" prepare
    check "packages are made in it" made a
    check "and again, in another folder" made another/folder TZ=Asia/Tokyo HOME=/tmp LANG=C
    for name in "${names[@]}"; do check "$name has the same bytes" cmp "$root/a/work/$name"_*.deb "$root/another/folder/work/$name"_*.deb; done
    mv "$root/a/work" "$debs"
fi
check "six packages" equal "$(cd "$debs" && for f in *.deb; do echo "${f%%_*}"; done | sort | xargs)" "$(printf '%s\n' "${names[@]}" | sort | xargs)"

# ---- lintian ----
# Not uploaded to Debian, so there is no bug that asks for it.
lint() { lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$@"; }
check "lintian has no complaint" lint "$debs"/*.deb "$debs"/*.dsc
repack() { # package, version, target: as it is but for the version
    rm -rf "$tmp/repack"
    dpkg-deb -R "$(deb "$1")" "$tmp/repack"
    sed -i "s/^Version: .*/Version: $2/" "$tmp/repack/DEBIAN/control"
    mkdir -p "$3"
}
repack bn-serve "$version-1" "$tmp/faulty"
mkdir -p "$tmp/repack/usr/local/bin" && touch "$tmp/repack/usr/local/bin/x" && dpkg-deb -Znone -b "$tmp/repack" "$tmp/faulty" >"$tmp/tap"
says 2 "it finds a planted file in /usr/local" 'usr/local' lint "$tmp"/faulty/*.deb
symbols() { (cd "$tmp" && dpkg-gensymbols -plibbn0 -v"$version-1" -e"$tmp"/lib/usr/lib/*/libbn.so."$version" -I"$1" -O/dev/null); }
dpkg-deb -x "$(deb libbn0)" "$tmp/lib"
mkdir "$tmp/debian" && cp packaging/debian/control "$tmp/debian"
check "libbn0 has the functions of libbn0.symbols" symbols "$PWD/packaging/debian/libbn0.symbols"
{ cat packaging/debian/libbn0.symbols; echo " bn_gone@Base $version"; } >"$tmp/gone"
says 1 "one that is gone is found" 'bn_gone' symbols "$tmp/gone"

# ---- each alone in a bare system ----
install() { # packages: from their files
    local name files=()
    mkdir -p "$root/debs"
    for name; do cp "$(deb "$name")" "$root/debs"; files+=("/debs/$(basename "$(deb "$name")")"); done
    enter apt-get install -y -qq --no-install-recommends "${files[@]}"
}
installed() { enter dpkg-query -W -f '${Package}\n' | grep -E "$1" | xargs; }
files() { (cd "$root" && find . -xdev ! -path './var/lib/dpkg/*' ! -path './var/cache/*' ! -path './var/log/*' ! -path './debs*' ! -path './tmp/*' ! -path './var/lib/apt/*' | sort); }
alone() { # package, what must not come with it: installed, intact, and nothing is left after a purge
    new_root
    enter apt-get update -qq
    files >"$tmp/before"
    enter dpkg-query -W -f '${Package}\n' >"$tmp/packages"
    check "$1 is installed alone" install "$@"
    check "dpkg -V $1 finds its files intact" equal "$(enter dpkg -V "$1" 2>&1)" ''
}
gone() {
    local new
    mapfile -t new < <(enter dpkg-query -W -f '${Package}\n' | comm -13 "$tmp/packages" -)
    enter apt-get purge -y -qq "${new[@]}" && equal "$(files | diff "$tmp/before" - | grep '^>' | grep -vE '/(ld\.so\.cache|ca-certificates.*|ssl/.*|__pycache__.*|gshadow-|passwd-|group-|shadow-)$|^> ./(run/|var/lib/private$)')" ''
}
run='cd /tmp && bn run -q "The LORD" -n 16 --receipt receipt.json'
alone bn
check "which brings no OpenBLAS, MPI and libbn0" equal "$(installed 'blas|mpi|libbn')" ''
says 0 "bn run" 'hath given him to his fathers' enter bash -c "$run"
says 0 "bn verify-receipt" 'verified, level: consistency' enter bn verify-receipt /tmp/receipt.json
says 0 "and --replay" 'verified, level: replay' enter bn verify-receipt /tmp/receipt.json --replay --isa ref --threads 1
says 0 "bn crossval with the oracle" '^agree: 2 tokens, 1 reference' enter bn crossval -q 'ROMEO:' --ref oracle
says 0 "bn --version names the commit" "commit: $(git rev-parse HEAD)\$" enter bn --version
says 0 "every program starts" '^10$' enter bash -c 'for p in /usr/bin/bn*; do "$p" --version >/dev/null || exit 1; done; ls /usr/bin/bn* | wc -l'
says 0 "kernels have digests of their code in a graph" '"code": \{' enter bn-bench profile -q -p 4 -n 1 -r 1 --graph json
for page in 1/bn-run.1 7/bn.7; do check "man page ${page#*/}" test -s "$root/usr/share/man/man$page.gz"; done
echo x >>"$root/usr/share/doc/bn/README.md"
says 0 "dpkg -V finds an edited file" '5.* .*README\.md' enter dpkg -V bn
check "a purge leaves nothing" gone

alone bn-train
says 0 "bn-train" 'bn-train' enter bn-train --help
check "a purge leaves nothing" gone
alone bn-mpi
check "the plug-in is where programs look" test -x "$root/usr/lib/bn/bn-mpi.so"
check "a purge leaves nothing" gone
alone libbn0
check "it is found by the loader" grep -q libbn.so.0 <(enter ldconfig -p)
check "a purge leaves nothing" gone

# ---- bn-serve: settings stay, receipts go with a purge ----
alone bn-serve
echo '# mine' >>"$root/etc/default/bn-serve"
mkdir -p "$root/var/lib/private/bn-serve/receipts" && ln -s private/bn-serve "$root/var/lib/bn-serve"
repack bn-serve "$version-2" "$root/debs"
dpkg-deb -Znone -b "$tmp/repack" "$root/debs/new.deb" >"$tmp/tap"
check "an upgrade" enter apt-get install -y -qq /debs/new.deb
check "is of the new version" equal "$(enter dpkg-query -W -f '${Version}' bn-serve)" "$version-2"
check "settings stay" grep -q mine "$root/etc/default/bn-serve"
says 0 "only they differ" '^..5...... c /etc/default/bn-serve$' enter dpkg -V bn-serve
check "the service is not enabled" test ! -e "$root/etc/systemd/system/multi-user.target.wants/bn-serve.service"
check "a removal" enter apt-get remove -y -qq bn-serve
check "leaves settings and receipts" test -e "$root/etc/default/bn-serve" -a -e "$root/var/lib/bn-serve/receipts"
check "a purge leaves nothing" gone

# ---- the service ----
cp packaging/debian/bn-serve.service "$tmp"
unit=$tmp/bn-serve.service
check "the service's exposure is below 2.0" systemd-analyze security --offline=true --no-pager --threshold=20 "$unit"
mkdir "$tmp/weak" && grep -vE '^(Capab|System|Protect|Private|Restrict|Dynamic|IPAddr)' "$unit" >"$tmp/weak/bn-serve.service"
says 1 "that of one without its hardening is not" 'Overall exposure level' systemd-analyze security --offline=true --no-pager --threshold=20 "$tmp/weak/bn-serve.service"
# The program is not installed here.
verify() { sed "s|/usr/bin/bn-serve|/bin/true|; $1" packaging/debian/bn-serve.service >"$unit"; equal "$(systemd-analyze verify --man=no "$unit" 2>&1 | grep bn-serve)" ''; }
check "systemd knows all its settings" verify ''
status 1 "and finds one that is misspelt" verify 's/^RemoveIPC/RemoveIcp/'

# ---- autopkgtest ----
new_root
auto() {
    unshare -mpf --kill-child sh -c 'mount -t proc proc "$0/proc" && exec autopkgtest "$@" -- chroot "$0"' \
        "$root" -q -B "$debs"/*.deb "$tmp/source/"
}
enter apt-get update -qq
check "the source package is unpacked" dpkg-source -q -x "$debs"/*.dsc "$tmp/source"
check "autopkgtest" auto
