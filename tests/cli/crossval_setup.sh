#!/usr/bin/env bash
# bn-crossval setup, refs, remove and doctor, with a small engine that this script makes: a cmake tree in a git repository, and
# a bridge to it that answers by bn-crossval serve. Faults are planted in each step. TAP on standard output.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
xval=$out/bn-crossval
# shellcheck source=tests/tap.sh
. tests/tap.sh
for program in git cmake make cc; do
    command -v "$program" >/dev/null || { skip "setup of references" "no $program"; exit; }
done
export XDG_CACHE_HOME=$tmp/cache GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
refs=$XDG_CACHE_HOME/bn/reference

# ---- a small engine ----

engine=$tmp/src/engine
mkdir -p "$engine/src" "$tmp/bridge"
cat >"$engine/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.10)
project(engine C)
add_library(llama src/engine.c)
if(WITH_FAULT)
    target_compile_definitions(llama PRIVATE FAULT)
endif()
END
cat >"$engine/src/engine.c" <<'END'
#ifdef FAULT
#error "planted fault"
#endif
const char *engine_name(void);
const char *engine_name(void) { return "small engine"; }
END
ln -s src/engine.c "$engine/link.c"
cat >"$tmp/bridge/Makefile" <<'END'
$(OUT)/bn-bridge-$(NAME): main.c $(BUILD_DIR)/libllama.a
	cc -o $@ $^
END
cat >"$tmp/bridge/main.c" <<END
#include <stdio.h>
#include <unistd.h>
const char *engine_name(void);
int main(void)
{
    fprintf(stderr, "bridge to %s\n", engine_name());
    return execl("$xval", "bn-crossval", "serve", "--threads", "1", (char *)NULL);
}
END
commit_engine() { # MESSAGE; prints the commit
    git -C "$engine" add -A
    git -C "$engine" -c user.name=n -c user.email=e@example.org commit -q -m "$1" && git -C "$engine" rev-parse HEAD
}
git init -q "$engine"
commit=$(commit_engine first)
setup() { "$xval" setup --bridge "$tmp/bridge" "$@"; }

# ---- a folder ----

cp -R "$engine" "$tmp/plain"
rm -r "$tmp/plain/.git" "$tmp/plain/link.c"
digest=$(cd "$tmp/plain" && find . -name .git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
mkdir -p "$tmp/beside/crossval"
cp "$xval" "$tmp/beside"
printf '#!/bin/sh\n' >"$tmp/beside/crossval/bn-bridge-node-llama-cpp"
chmod +x "$tmp/beside/crossval/bn-bridge-node-llama-cpp"
says 0 "a bridge next to the program is listed" '^node-llama-cpp +ready' "$tmp/beside/bn-crossval" refs
says 0 "doctor counts it" '^ok +references +[12] can be used' "$tmp/beside/bn-crossval" doctor
mkdir "$tmp/first"
cp "$xval" "$tmp/first"
says 0 "nothing is set up at first" 'no reference is set up' "$tmp/first/bn-crossval" refs
says 0 "a folder is built and remembered" '^reference +plain is set up' setup --source "$tmp/plain"
says 0 "its digest is that of sha256sum" "^digest +$digest, 2 files" setup --source "$tmp/plain"
says 0 "the second time there is nothing to do" 'already set up, nothing to do' setup --source "$tmp/plain" --sha256 "$digest"
lacks "and nothing is compiled" '^(configure|build|bridge)' setup --source "$tmp/plain"
says 0 "it is listed" '^plain +ready +- ' "$xval" refs
says 0 "--ref finds it by its name" '^agree: 3 tokens' "$xval" ladder -q --tokens 1,2,3 --ref plain
says 3 "a model that it does not find is named" 'gone.gguf' "$xval" bench -p 2 -n 1 --reps 2 --ref plain --ref-model gone.gguf
says 0 "the document names compiler and digest" '"compiler": ".+"' cat "$refs"/plain-"${digest:0:16}"/reference.json
check "the folder itself is as it was" equal "$(cd "$tmp/plain" && find . -type f | wc -l)" 2
# Arguments are never commands, and what is remembered stays readable.
# shellcheck disable=SC2016 # not expanded
says 0 "an option with the characters of a shell is passed on as it is" '^reference +quoted is set up' \
    setup --source "$tmp/plain" --name quoted --cmake '-DX=$(touch injected)`touch injected`";\touch injected; '"'"
says 0 "it is listed" '^quoted +ready' "$xval" refs
lacks "nothing of it was run" . find . "$tmp" -name injected
says 2 "a control character is refused" 'has a control character' setup --source "$tmp/plain" --cmake $'-DX=\n'
mkdir "$tmp/links"
touch "$tmp/links/a.c" "$tmp/links/z.c"
ln -s /nonexistent "$tmp/links/m.c"
hash_of() { printf '%s' "$1" | sha256sum | cut -c 1-64; }
digest2=$(printf '%s  ./%s\n' "$(hash_of '')" a.c "$(hash_of /nonexistent)" m.c "$(hash_of '')" z.c | sha256sum | cut -c 1-64)
says 1 "the content of a symbolic link is its target" "^digest +$digest2, 3 files" setup --source "$tmp/links"
mkdir -p "$tmp/links/d/.git"
touch "$tmp/links/d/.git/x"
says 1 "what is named .git does not count" "^digest +$digest2, 3 files" setup --source "$tmp/links"
touch "$tmp/links/$(printf 'line\nfeed')"
says 4 "a name with a line feed is refused" 'has a line feed or a backslash' setup --source "$tmp/links"
rm "$tmp/links"/line*
if [ "$(id -u)" -ne 0 ]; then
    chmod 0 "$tmp/links/a.c"
    says 8 "a file that cannot be read is an error" 'cannot be read' setup --source "$tmp/links"
fi
mkdir "$tmp/empty"
says 4 "a tree without files is refused" 'holds no files' setup --source "$tmp/empty"
says 0 "--force builds it again" '^build +ok' setup -v --color=never --source "$tmp/plain" --force

# ---- a commit of a repository ----

says 0 "a commit is downloaded and built" '^fetch +ok' setup --source "$engine@$commit"
says 0 "the commit is remembered" "^engine +ready +${commit:0:12}" "$xval" refs
mv "$engine" "$tmp/away"
says 0 "the second time the repository is not needed" 'already set up' setup --source "$engine@$commit"
says 3 "a repository that is gone names the log" 'error: .*/fetch\.log: fetch failed: git ended with status' \
    setup --source "$engine@$commit" --name other
mv "$tmp/away" "$engine"
says 3 "a commit that the repository does not have" 'fetch.log: fetch failed' setup --source "$engine@${commit//[0-9]/0}" --name other
says 2 "a branch is not a commit" 'URL@COMMIT with a commit of 40' setup --source "$engine@main"
says 3 "a folder that does not exist" 'no such folder' setup --source "$tmp/none"
says 2 "a source is required" 'no source tree is given' "$xval" setup
for name in a/b oracle -x "a'b"; do
    says 2 "the name $name is refused" 'cannot be the name' setup --source "$engine@$commit" "--name=$name"
done

# ---- faults: none of them is remembered ----

says 5 "a wrong digest is refused" 'the tree has the digest [0-9a-f]+\.\.\., --sha256 is 000' \
    setup --source "$engine@$commit" --name pinned --sha256 "$(printf '%064d' 0)"
says 2 "a digest of the wrong length is refused" 'is not a digest' setup --source "$tmp/plain" --sha256 00ff
says 1 "a tree that does not compile names the log" 'error: .*/build\.log: build failed: cmake ended with status' \
    setup --source "$tmp/plain" --name broken --cmake -DWITH_FAULT=ON
check "the log has the message of the compiler" grep -q 'planted fault' "$refs"/broken-*/build.log
says 1 "a tree that cmake refuses names the log" 'configure\.log: configure failed' \
    setup --source "$tmp/bridge" --name broken2
says 1 "a bridge that does not compile names the log" 'bridge\.log: bridge failed: make' \
    setup --source "$tmp/plain" --name broken3 --bridge "$engine/src"
says 1 "the bridge that comes with bn-crossval needs llama.h" 'bridge\.log: bridge failed: make' \
    "$xval" setup --source "$tmp/plain" --name broken4
check "it is that of the repository" diff -r crossval/bridges/llama.cpp "$out/crossval/bridges/llama.cpp"
mkdir "$tmp/mute"
# shellcheck disable=SC2016 # for make
printf '$(OUT)/bn-bridge-$(NAME):\n\tprintf "#!/bin/sh\\necho cannot load >&2; exit 3\\n" >$@; chmod +x $@\n' >"$tmp/mute/Makefile"
says 1 "a bridge that does not answer fails the handshake; its last output is shown" 'its last output: cannot load' \
    setup --source "$tmp/plain" --name mute --bridge "$tmp/mute"
for name in pinned broken broken2 broken3 mute; do
    lacks "$name is not ready" "^$name +ready" "$xval" refs
    lacks "$name is not used as a reference" '^agree' "$xval" ladder -q --tokens 1,2 --ref $name
done

# An interrupted build: its only step says that it began, and does not end.
mkdir "$tmp/slow"
printf 'echo >%s\nexec sleep 1000\n' "$tmp/started" >"$tmp/slow.sh"
printf 'cmake_minimum_required(VERSION 3.10)\nproject(slow NONE)\nadd_custom_target(llama COMMAND sh %s)\n' "$tmp/slow.sh" \
    >"$tmp/slow/CMakeLists.txt"
"$xval" setup --bridge "$tmp/bridge" --source "$tmp/slow" >"$tmp/slow.out" 2>&1 &
pid=$!
wait_for test -e "$tmp/started"
kill -TERM $pid
wait $pid
check "an interrupted setup ends with the signal's status" equal $? 143
check "it says so" grep -qE '^build +interrupted' "$tmp/slow.out"
lacks "it is not remembered" '^slow +ready' "$xval" refs

# A rebuild that fails leaves no reference.
says 1 "a rebuild that fails" 'build failed' setup --source "$tmp/plain" --force --cmake -DWITH_FAULT=ON
lacks "is not remembered either" '^plain +ready' "$xval" refs
says 0 "the next setup repairs it" '^reference +plain is set up' setup --source "$tmp/plain"

# ---- a file of settings; a command before cmake; what is kept; going on ----

needy=$tmp/src/needy
mkdir -p "$needy/src"
cat >"$needy/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.10)
project(needy C)
add_library(llama src/needy.c)
add_executable(extra src/extra.c)
END
printf '#include "made.h"\nconst char *engine_name(void);\nconst char *engine_name(void) { return MADE; }\n' >"$needy/src/needy.c"
printf 'int main(void) { return 0; }\n' >"$needy/src/extra.c"
# shellcheck disable=SC2016 # not expanded here
printf '#!/bin/sh\necho run >>%s\nprintf "#define MADE \\"%%s\\"\\n" "$1" >src/made.h\n' "$tmp/made" >"$needy/make.sh"
mkdir "$tmp/own"
cat >"$tmp/own/needy.conf" <<'END'
# An engine with a header that a script of its tree makes.
source = ../src/needy
  name=needy
bridge = ../bridge
target = llama
target = extra
cc     = cc
before = sh make.sh "made here"
END
says 1 "a file that no command made is named, with what to do" "hint: the tree has no made\.h; .*--before 'COMMAND' runs it first" \
    setup --source "$needy"
says 1 "the first error of the log is shown" 'its first error: .*made\.h' setup --source "$needy"
"$xval" remove needy >"$tmp/null"
key=$("$xval" setup "$tmp/own/needy.conf" --key)
check "a key for caches has 64 digits, and builds nothing" test ${#key} -eq 64 -a -z "$("$xval" refs | grep needy)"
says 0 "a file of settings: the command runs before cmake" '^before +ok' "$xval" setup "$tmp/own/needy.conf"
check "once" equal "$(cat "$tmp/made")" run
check "not in the folder of the source" test ! -e "$needy/src/made.h"
check "all targets are built" test -x "$(echo "$refs"/needy-*/build/extra)"
says 0 "the reference works" '^agree: 3 tokens' "$xval" ladder -q --tokens 1,2,3 --ref needy
says 0 "the second time there is nothing to do" 'already set up' "$xval" setup "$tmp/own/needy.conf"
check "the key of the same settings is the same" equal "$("$xval" setup "$tmp/own/needy.conf" --key)" "$key"
for change in --cmake=-DX=1 --before=true --cxx=cc --keep=none --target=llama; do
    check "$change changes it" test "$("$xval" setup "$tmp/own/needy.conf" --key "$change")" != "$key"
done
echo >>"$needy/src/extra.c"
check "so does a file of the tree" test "$("$xval" setup "$tmp/own/needy.conf" --key)" != "$key"
says 1 "a folder to keep that is not there is named" 'no folder build/none after' "$xval" setup "$tmp/own/needy.conf" --force --keep build/none
says 0 "the same with another one goes on" '^reference +needy is set up' "$xval" setup "$tmp/own/needy.conf" --force --keep build/CMakeFiles
check "what is not kept is removed" equal "$(cd "$refs"/needy-* && ls -d -- */*)" build/CMakeFiles
says 0 "the bridge works without the rest" '^agree: 3 tokens' "$xval" ladder -q --tokens 1,2,3 --ref needy
says 0 "nothing to do" 'already set up' "$xval" setup "$tmp/own/needy.conf" --keep build/CMakeFiles
says 0 "of a commit, nothing is kept" 'is set up' setup --source "$engine@$commit" --name bare --keep none
mv "$engine" "$tmp/away"
says 0 "then neither repository nor tree is needed" 'already set up' setup --source "$engine@$commit" --name bare --keep none
mv "$tmp/away" "$engine"
# A failure in the second target: after the repair of the cause (here a variable), what was built stays.
: >"$tmp/made"
echo "#error \"planted: \$(date)\"" >"$tmp/flag.h"
printf '#include "%s"\nint main(void) { return 0; }\n' "$tmp/flag.h" >"$needy/src/extra.c"
says 1 "a target fails" 'build failed' "$xval" setup "$tmp/own/needy.conf" --name again
object=$(find "$refs"/again-* -name 'needy.c.o')
before=$(stat -c %Y "$object")
: >"$tmp/flag.h"
says 0 "the same command goes on" '^reference +again is set up' "$xval" setup "$tmp/own/needy.conf" --name again
check "what was built is not built again" equal "$(stat -c %Y "$object")" "$before"
check "nor does the command run again" equal "$(wc -l <"$tmp/made")" 1
printf '[submodule "deps"]\n\tpath = deps\n' >"$needy/.gitmodules"
echo '#error' >"$tmp/flag.h"
says 1 "an empty submodule is named, with the command" 'hint: the submodule deps of the tree is empty: git -C .*/src/needy submodule update' \
    "$xval" setup "$tmp/own/needy.conf" --name sub
says 3 "a compiler that is not there is named" 'no-such-cc: no such compiler' "$xval" setup "$tmp/own/needy.conf" --cc no-such-cc
says 3 "no such file" 'no such file of settings' "$xval" setup "$tmp/own/none.conf"
echo 'colour = red' >>"$tmp/own/needy.conf"
says 4 "an unknown setting is named with its line" "line 9: unknown setting 'colour'" "$xval" setup "$tmp/own/needy.conf"
echo 'just words' >"$tmp/own/words.conf"
says 4 "a line without =" 'line 1: expected NAME = VALUE' "$xval" setup "$tmp/own/words.conf"
says 2 "a folder to keep is in the reference" 'the name of a folder in' setup --source "$needy" --keep ../..

# ---- a bridge that is installed with its engine ----

mkdir -p "$tmp/pack/bridges/mini"
cp crossval/setup.sh "$tmp/pack"
# shellcheck disable=SC2016 # not expanded here
printf '#!/bin/sh\n[ -z "$FAULT" ] || { echo "no packages today"; exit 9; }\nprintf "#!/bin/sh\\nexec %s serve -t 1\\n" >"$1/bn-bridge-mini"\nchmod +x "$1"/*mini\n' \
    "$xval" >"$tmp/pack/bridges/mini/install.sh"
chmod +x "$tmp/pack/bridges/mini/install.sh"
says 9 "what cannot be installed says why" 'error: mini: no packages today' env FAULT=1 "$tmp/pack/setup.sh" setup mini
lacks "and is not ready" '^mini +ready' "$xval" refs
says 0 "its key has 64 digits" '^[0-9a-f]{64}$' "$tmp/pack/setup.sh" setup mini --key
lacks "and nothing is installed for it" '^mini +ready' "$xval" refs
says 0 "a bridge is installed with its engine" '^reference +mini is set up' "$tmp/pack/setup.sh" setup mini
says 0 "the second time there is nothing to do" 'already set up' "$tmp/pack/setup.sh" setup mini
says 0 "--ref finds it" '^agree: 3 tokens' "$xval" ladder -q --tokens 1,2,3 --ref mini
says 0 "doctor lists it" '^ok +mini' "$xval" doctor
says 3 "another word is a file" 'maxi: no such file of settings' "$tmp/pack/setup.sh" setup maxi
check "npm's bridge comes with bn-crossval" test -x "$out/crossval/bridges/node-llama-cpp/install.sh"

# ---- another tree, another bridge, a changed program ----

echo >>"$tmp/plain/src/engine.c"
says 2 "a changed tree does not replace it silently" 'from a tree with another digest' setup --source "$tmp/plain"
says 0 "--force replaces it" '^reference +plain is set up' setup --source "$tmp/plain" --force
check "one folder of the name is left" equal "$(find "$refs" -maxdepth 1 -name 'plain-*' | wc -l)" 1
echo '/* newer */' >>"$tmp/bridge/main.c"
says 0 "another bridge is built" '^bridge +ok' setup --source "$tmp/plain"
echo >>"$(echo "$refs"/plain-*/bn-bridge-plain)"
says 0 "a changed program is listed as changed" '^plain +changed' "$xval" refs
says 5 "and is not started" 'bridge has sha256' "$xval" ladder -q --tokens 1,2 --ref plain
says 0 "setup repairs it" '^reference +plain is set up' setup --source "$tmp/plain"
says 0 "doctor counts references that can be used" '^ok +references +[1-9] can be used' "$xval" doctor
echo >>"$(echo "$refs"/plain-*/bn-bridge-plain)"
says 0 "doctor names a reference that cannot be used" '^note +plain ' "$xval" doctor
mkdir -p "$tmp/alone/bin"
cp "$xval" "$tmp/alone/bin/bn-crossval"
[ ! -x "$(dirname "$xval")/crossval/bn-reference" ] ||
    says 0 "doctor shows the whole path of the oracle" '^ok +oracle +/.*/crossval/bn-reference$' "$xval" doctor
says 1 "without any reference doctor ends with 1" '^FAIL +references +0 can be used' \
    env XDG_CACHE_HOME="$tmp/empty" PATH="$tmp/alone/bin" "$tmp/alone/bin/bn-crossval" doctor
says 1 "and names what is missing, and how to get it" 'fix: for setup: apt-get install cmake' \
    env XDG_CACHE_HOME="$tmp/empty" PATH="$tmp/alone/bin" "$tmp/alone/bin/bn-crossval" doctor
says 1 "as JSON too" '"hint": "make reference' env XDG_CACHE_HOME="$tmp/empty" "$tmp/alone/bin/bn-crossval" doctor --json
says 0 "remove" '^removed .*/plain-' "$xval" remove -q plain
lacks "it is no longer listed" '^plain ' "$xval" refs
says 3 "what is not there cannot be removed" 'no such reference' "$xval" remove plain
for odd in 'a b' 'a&b' 'a`b' 'a(b'; do
    mkdir -p "$tmp/$odd/src"
    says 2 "a cache in $odd is refused" 'make cannot handle' env XDG_CACHE_HOME="$tmp/$odd" "$xval" setup --source "$tmp/plain"
    says 2 "so is a tree" 'make cannot handle' setup --source "$tmp/$odd/src"
done
