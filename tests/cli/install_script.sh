#!/usr/bin/env bash
# packaging/install.sh against a server of releases on this machine: it installs, upgrades and removes; it refuses a wrong digest, a
# short archive, another architecture or system, and programs that do not run, and then changes nothing. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
for tool in curl tar gzip sha256sum; do
    command -v $tool >/dev/null || { skip "packaging/install.sh" "no $tool"; exit; }
done
server=
cleanup() { [ -z "$server" ] || kill "$server" 2>/dev/null; tap_end; }
trap cleanup EXIT
latest=$tmp/root/releases/latest/download
mkdir -p "$tmp/home" "$tmp/fake"
: >"$tmp/log"
echo '* * whole' >"$tmp/script"
mkdir -p "$latest"
"${OUT:-build/gcc}/tests/httpd/httpd" "$tmp/root" "$tmp/script" "$tmp/log" >"$tmp/port" &
server=$!
wait_for test -s "$tmp/port"

# release FOLDER VERSION ARCH PROGRAM...: an archive whose programs print their name and version, and the sums
release() {
    local folder=$1 name=bn-$2-linux-$3 program
    rm -rf "$tmp/stage" && mkdir -p "$folder" "$tmp/stage/$name/licenses"
    for program in "${@:4}"; do
        printf '#!/bin/sh\necho "%s %s"\n' "$program" "$2" >"$tmp/stage/$name/$program"
        chmod +x "$tmp/stage/$name/$program"
    done
    echo MIT >"$tmp/stage/$name/licenses/bn"
    tar -C "$tmp/stage" -czf "$folder/$name.tar.gz" "$name"
    sums "$folder"
}
sums() { (cd "$1" && sha256sum -- *.tar.gz >SHA256SUMS); }
machine=x86_64 system=Linux
cat >"$tmp/fake/uname" <<'END'
#!/bin/sh
case $1 in -m) echo "$machine" ;; *) echo "$system" ;; esac
END
chmod +x "$tmp/fake/uname"
install_bn() {
    env -i PATH="$tmp/fake:/usr/bin:/bin" HOME="$tmp/home" machine=$machine system=$system BN_URL="http://127.0.0.1:$(cat "$tmp/port")" \
        ${prefix:+BN_PREFIX="$prefix"} ${version:+BN_VERSION="$version"} sh -s -- "$@" <packaging/install.sh
}
prefix='' version=''
bin=$tmp/home/.local/bin
tree() { (cd "$tmp/home" && find . | sort | xargs ls -ld --time-style=+ | md5sum); }

release "$latest" 0.1.0 x86_64 bn bn-run bn-old
release "$latest" 0.1.0 aarch64 bn bn-run
says 0 'the latest release is installed' "^bn 0\.1\.0 is installed in $bin; try" install_bn
says 0 'its programs run' '^bn-run 0\.1\.0$' "$bin/bn-run"
check 'licences are there' test -s "$tmp/home/.local/share/doc/bn/licenses/bn"
check 'nothing else is' equal "$(find "$tmp/home" -name '.install*' -o -name '*.tar.gz' -o -name SHA256SUMS)" ''
echo mine >"$bin/mine"

rm "$latest"/*x86_64*
release "$latest" 0.2.0 x86_64 bn bn-run bn-new
says 0 'a second run upgrades' '^bn 0\.2\.0 is installed' install_bn
says 0 'to programs of the new release' '^bn-new 0\.2\.0$' "$bin/bn-new"
check 'those that it no longer has are removed' test ! -e "$bin/bn-old"
check 'files of others stay' test -s "$bin/mine"
says 0 'the same release again changes nothing' '^bn 0\.2\.0 is installed' install_bn

# ---- what is refused ----
before=$(tree)
refused() { # TITLE PATTERN
    says 1 "$1 is refused" "$2" install_bn
    check "$1 changes nothing" equal "$(tree)" "$before"
}
cp -r "$latest" "$tmp/good"
again() { rm -rf "$latest" && cp -r "$tmp/good" "$latest"; }
sed -i '/x86_64/s/^[0-9a-f]\{8\}/00000000/' "$latest/SHA256SUMS"
refused 'a wrong digest' 'bn-0\.2\.0-linux-x86_64\.tar\.gz does not have the digest of SHA256SUMS; nothing was changed'
again
truncate -s -20 "$latest"/bn-*-x86_64.tar.gz
refused 'a short archive' 'does not have the digest'
again
echo '* /releases/latest/download/bn-0.2.0-linux-x86_64.tar.gz cut=100' >"$tmp/script"
refused 'a connection that ends early' 'cannot download'
echo '* * whole' >"$tmp/script"
sed -i '/x86_64/d' "$latest/SHA256SUMS"
refused 'an archive without a digest' 'names no archive for x86_64'
again
cp "$latest"/bn-0.2.0-linux-x86_64.tar.gz "$latest"/bn-0.3.0-linux-x86_64.tar.gz && sums "$latest"
refused 'a choice between two archives' 'names several archives'
again
rm "$latest/SHA256SUMS"
refused 'a release without sums' 'cannot download .*SHA256SUMS'
again
release "$latest" 0.2.0 x86_64 bn
printf '#!/bin/sh\nexit 1\n' >"$tmp/stage/bn-0.2.0-linux-x86_64/bn" && tar -C "$tmp/stage" -czf "$latest/bn-0.2.0-linux-x86_64.tar.gz" bn-0.2.0-linux-x86_64 && sums "$latest"
refused 'a program that does not run' 'do not run here; nothing was changed'
again
machine=riscv64 refused 'an unknown architecture' 'there are no programs for riscv64'
system=Darwin refused 'another system' 'runs on Linux only, this is Darwin'
says 1 'an address without TLS is refused' "BN_URL is 'http://example.org'" env BN_PREFIX="$tmp/other" BN_URL=http://example.org sh packaging/install.sh
says 1 'so is the script of a source tree without an address' 'expected the address of the repository' env -u BN_URL BN_PREFIX="$tmp/other" sh packaging/install.sh
status 2 'a release names its address' env -u MAKEFLAGS -u MFLAGS make -s installer RELEASE="$tmp/release" URL=
check 'and writes it into the script' env -u MAKEFLAGS -u MFLAGS make -s installer RELEASE="$tmp/release" URL="http://127.0.0.1:$(cat "$tmp/port")"
says 0 'which then needs no variable' '^bn 0\.2\.0 is installed' env -u BN_URL PATH="$tmp/fake:/usr/bin:/bin" machine=x86_64 system=Linux BN_PREFIX="$tmp/other" sh "$tmp/release/install.sh"
head -c 3000 packaging/install.sh >"$tmp/part.sh"
says 2 'a script that arrived in part does nothing' 'yntax error|nexpected' sh "$tmp/part.sh"
check 'it did nothing' equal "$(tree)" "$before"
status 1 'an unknown argument is refused' install_bn --purge

# ---- another place, another release, another machine ----
release "$tmp/root/releases/download/v0.1.0" 0.1.0 aarch64 bn bn-run
prefix=$tmp/other version=0.1.0 machine=arm64
says 0 'BN_VERSION and BN_PREFIX are respected, and arm64 is' "^bn 0\.1\.0 is installed in $tmp/other/bin" install_bn
says 0 'a release is removed' "removed from $tmp/other" install_bn --uninstall
check 'no file is left' equal "$(find "$tmp/other" -type f)" ''
says 1 'a second time there is nothing to remove' 'nothing is installed' install_bn --uninstall
prefix='' version=''
echo '../../mine' >>"$tmp/home/.local/share/bn/installed"
says 1 'a list that leads elsewhere is refused' 'strange line' install_bn --uninstall
sed -i '$d' "$tmp/home/.local/share/bn/installed"
status 0 'the first one is removed' install_bn --uninstall
check 'and files of others stay' equal "$(find "$tmp/home" -type f)" "$bin/mine"
