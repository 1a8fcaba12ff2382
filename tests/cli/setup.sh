#!/usr/bin/env bash
# Setting up. Which packages each step installs, with package tools that only record what they are asked: building and running
# need no package of the tests. And a folder whose name has a space. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/tap.sh
. tests/tap.sh
install=$PWD/ci/install-packages.sh
mkdir "$tmp/bin"
echo 'exit 1' >"$tmp/bin/dpkg-query"
# shellcheck disable=SC2016 # the script's own
{ echo 'for word; do case $word in -* | install | update) ;; *) echo "$word" >>'"'$tmp/asked'"'; esac; done'; } >"$tmp/bin/apt-get"
echo 'exec "$@"' >"$tmp/bin/sudo"
sed -i '1i #!/bin/sh' "$tmp"/bin/*
chmod +x "$tmp"/bin/*
# asked COMMAND...: what apt-get is to install where nothing is installed
asked() {
    : >"$tmp/asked"
    PATH=$tmp/bin:$PATH "$@" >"$tmp/said" 2>&1 || { cat "$tmp/said"; return 1; }
    sort -u "$tmp/asked"
}
# section NAME...: the packages of sections, read in another way than the script does
section() {
    local name
    for name; do sed -n "/^\[$name\]\$/,/^\[/p" ci/packages.txt | grep -vE '^(#|\[|$)'; done | sort -u
}
plain() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make --no-print-directory "$@"; }

check 'build: its section' equal "$(asked "$install" build)" "$(section build)"
check 'which has a compiler' grep -qx gcc <(section build)
check 'build and test: both' equal "$(asked "$install" build test)" "$(section build test)"
check 'make deps is for building and running' equal "$(asked plain deps)" "$(section build)"
check 'so is make demo' equal "$(plain -n demo | grep -o 'install-packages.*')" 'install-packages.sh build'
check 'make alone builds the programs' grep -qx '.DEFAULT_GOAL := all' <(plain -pn 2>"$tmp/err")
check 'make check adds the tests' equal "$(plain -n check | grep -o 'install-packages.*')" 'install-packages.sh build test'
check 'make lint adds its own' equal "$(plain -n lint | grep -o 'install-packages.*')" 'install-packages.sh build lint'
check 'no package of the tests is one of building' equal "$(comm -12 <(section build) <(section test))" ''
for package in libcmocka-dev chromium-headless-shell qemu-user python3 clang; do
    lacks "building does not need $package" "^$package\$" section build
done
echo 'echo "install ok installed"' >"$tmp/bin/dpkg-query"
sed -i '1i #!/bin/sh' "$tmp/bin/dpkg-query"
check 'what is installed is not asked for' equal "$(asked "$install" build test lint fuzz deep)" ''
says 2 'an unknown section' 'no section \[tests\]' "$install" build tests
says 2 'no section' 'usage: ' "$install"
for name in build test lint fuzz deep; do check "the section $name has packages" test -n "$(section $name)"; done

# ---- a folder whose name has a space ----
mkdir -p "$tmp/a folder/ci"
cp -r Makefile packaging engine kernels lab hub tools "$tmp/a folder"
mkdir "$tmp/a folder/tests" && cp tests/build.mk "$tmp/a folder/tests"
cp ci/build-info.sh "$tmp/a folder/ci"
objects=(build/gcc/engine/base/error.o build/gcc/lab/sampler/timers.o)
status 0 'a folder whose name has a space: it compiles' plain -C "$tmp/a folder" CC=gcc "${objects[@]}"
cd "$tmp/a folder" && lacks 'and its name is in no object' 'a folder' cat "${objects[@]}"
