#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# bn-crossval setup and remove; bn-crossval starts this script. It obtains the source tree of an engine, builds it with its
# own cmake, builds the bridge with it, checks the bridge, and remembers it:
#
#     <cache>/bn/reference/<name>-<first 16 digits of the digest>/
#         reference.json     what was built; "ready" is true after the last step only
#         tree/              the source tree, when it was downloaded
#         prepared/          a copy of the tree, in which the command of --before ran
#         build/             what cmake built
#         bn-bridge-<name>   the bridge, which --ref <name> starts
#         <step>.log         the output of each step
#
# <cache> is XDG_CACHE_HOME, else ~/.cache. Each step is one line. A setup that failed or was interrupted is never ready, and
# so never used; the same command goes on where it ended. Exit status: that of bn-crossval(1).
#
#     setup.sh setup [--OPTION VALUE]... [--force] [--key] [FILE | BRIDGE]
#     setup.sh remove NAME
#
# FILE has a line "OPTION = VALUE" for each option; a BRIDGE, such as node-llama-cpp, installs its engine by the install.sh in
# its folder. docs/howto/set-up-a-reference.md explains them.
set -euo pipefail
shopt -s nullglob
export LC_ALL=C GIT_TERMINAL_PROMPT=0 # git must not wait for a password
unset CDPATH MAKEFLAGS MFLAGS MAKELEVEL GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

fail() { # STATUS MESSAGE [HINT]
    printf 'bn-crossval: error: %s\n' "$2" >&2
    [ $# -lt 3 ] || printf 'hint: %s\n' "$3" >&2
    exit "$1"
}

# ---- interruption: a step is a session of its own, which ends with this script ----

child=
stop() { # NUMBER of the signal
    trap '' HUP INT TERM
    if [ -n "$child" ]; then
        echo interrupted
        kill -TERM -- "-$child" 2>/dev/null || kill -TERM "$child" 2>/dev/null || :
        wait "$child" 2>/dev/null || :
    fi
    exit $((128 + $1))
}
trap 'stop 1' HUP
trap 'stop 2' INT
trap 'stop 15' TERM

run() { # LOG COMMAND...: its status
    local log=$1 code=0
    shift
    setsid -- "$@" </dev/null >>"$log" 2>&1 9>&- &
    child=$!
    wait "$child" || code=$?
    child=
    return "$code"
}

step() { # NAME STATUS-OF-A-FAILURE PROGRAM COMMAND...
    local name=$1 status=$2 program=$3 log=$folder/$1.log began=$SECONDS code=0
    shift 3
    printf '%-11s' "$name"
    run "$log" "$@" || code=$?
    if [ "$code" -eq 0 ]; then
        printf 'ok, %d s\n' $((SECONDS - began))
        return
    fi
    echo FAILED
    [ "$code" -ne 127 ] ||
        fail 3 "$log: $name failed: $program was not found" 'bn-crossval doctor lists what is missing'
    first=$(grep -a -m 1 -A 3 -E 'CMake Error|[Ee]rror:|^error' -- "$log" | tr -s '[:space:]' ' ' | tr -d '\000-\037' | cut -c 1-240) || first=''
    [ -z "$first" ] || echo "bn-crossval: its first error: $first" >&2
    fail "$status" "$log: $name failed: $program ended with status $code" "$(advise "$log")"
}

# What most often is the matter with a tree: a submodule, a file or a compiler that is not there.
advise() { # LOG
    local path missing
    while IFS= read -r path; do
        [ -n "$(ls -A -- "$tree/$path" 2>/dev/null)" ] && continue
        echo "the submodule $path of the tree is empty: git -C $source submodule update --init --recursive"
        return
    done < <(sed -nE 's/^[[:space:]]*path[[:space:]]*=[[:space:]]*//p' "$tree/.gitmodules" 2>/dev/null)
    missing=$(sed -nE "s/.*fatal error: '?([^ :']+)'?(: No such file or directory| file not found).*/\1/p
        /Cannot find source file:/{n; n; s/^ +([^ ]+)\$/\1/p}" "$1" | head -n 1)
    if [ -n "$missing" ]; then
        echo "the tree has no $missing; when a command of the tree makes it, --before 'COMMAND' runs it first"
    elif grep -aqE 'CMAKE_C(XX)?_COMPILER|compiler identification is unknown|is required for' "$1"; then
        echo '--cc and --cxx name other compilers; bn-crossval doctor lists what is missing'
    else
        echo 'the output of the step is in that file'
    fi
}

# ---- the digest of a tree ----

# Prints the SHA-256 and the path of each file. The content of a symbolic link is its target.
list_files() { # FOLDER
    local link hash
    cd -- "$1" && find . -name .git -prune -o -type f -print0 | xargs -0 -r sha256sum &&
        find . -name .git -prune -o -type l -print0 | while IFS= read -r -d '' link; do
            hash=$(readlink -n -- "$link" | sha256sum) || return
            printf '%s  %s\n' "${hash%% *}" "$link"
        done
}

# Sets digest and n_files: the SHA-256 of the list above in the order of the paths, whose lines are those of sha256sum.
digest_tree() { # FOLDER
    local list odd
    odd=$(cd -- "$1" && find . -name .git -prune -o -name $'*[\n\\\\]*' -print -quit) || fail 8 "$1: cannot be read"
    [ -z "$odd" ] || fail 4 "$1: the name of a file has a line feed or a backslash"
    list=$(list_files "$1" | sort -k 1.67) || fail 8 "$1: cannot be read"
    [ -n "$list" ] || fail 4 "$1: holds no files"
    digest=$(printf '%s\n' "$list" | sha256sum | cut -c 1-64)
    n_files=$(printf '%s\n' "$list" | wc -l)
}

digest_file() { sha256sum <"$1" | cut -c 1-64; }

# ---- reference.json ----

escape() { # TEXT: as a JSON string has it, without the quotes
    local text=${1//\\/\\\\}
    printf '%s' "${text//\"/\\\"}" | tr -d '\000-\037'
}
field() { sed -n "s/^  \"$2\": \"\\(.*\\)\",\$/\\1/p" "$1"; } # FILE NAME: still escaped
has() { [ "$(field "$1" "$2")" = "$(escape "$3")" ]; }        # FILE NAME TEXT
is_ready() { grep -q '^  "ready": true$' "$1"; }

remember() { # true, or false
    {
        printf '{\n  "schema": "bn.reference/1",\n'
        for member in name source commit digest tree recipe compiler engine created bridge_sha256 program_sha256; do
            printf '  "%s": "%s",\n' "$member" "$(escape "${!member}")"
        done
        printf '  "ready": %s\n}\n' "$1"
    } >"$folder/reference.json.new"
    mv -- "$folder/reference.json.new" "$folder/reference.json"
}

open_root() {
    local cache
    for cache in "${XDG_CACHE_HOME-}" "${HOME:+$HOME/.cache}"; do
        case $cache in /*) root=$cache/bn/reference && return ;; esac
    done
    fail 3 'XDG_CACHE_HOME and HOME are not set to absolute paths' 'set XDG_CACHE_HOME to the folder for caches'
}

lock() {
    mkdir -p -- "$root" || fail 8 "$root: cannot be made"
    exec 9>>"$root/.lock"
    flock -n 9 || fail 8 "$root/.lock: another bn-crossval setup is running"
}

remove() { # NAME
    local record removed=0
    open_root
    lock
    for record in "$root"/*/reference.json; do
        has "$record" name "$1" || continue
        rm -rf -- "${record%/*}"
        echo "removed ${record%/*}"
        removed=1
    done
    [ $removed -eq 1 ] || fail 3 "$1: no such reference is set up" 'bn-crossval refs lists them'
}

# ---- the command line ----

source='' expected='' name='' bridge='' cc='' cxx='' before='' jobs=$(nproc) force='' key='' packaged='' cmake=() targets=() kept=()

# Sets the variable of an option; false for an unknown name.
set_option() { # NAME VALUE
    case $1 in
    source | name | bridge | cc | cxx | before | jobs) printf -v "$1" %s "$2" ;;
    sha256) expected=$2 ;;
    target) targets+=("$2") ;;
    cmake) cmake+=("$2") ;;
    keep) kept+=("$2") ;;
    *) return 1 ;;
    esac
}

# Paths in the file are relative to its folder.
read_settings() { # FILE
    local line option value number=0 folder=.
    case $1 in */*) folder=${1%/*} ;; esac
    if [ ! -f "$1" ] || [ ! -r "$1" ]; then fail 3 "$1: no such file of settings" 'a source tree is given as --source DIR'; fi
    while IFS=$' \t\r' read -r line || [ -n "$line" ]; do
        number=$((number + 1))
        case $line in '' | '#'*) continue ;; *[[:cntrl:]]*) fail 4 "$1: line $number: a control character" ;; esac
        [[ $line =~ ^([a-z0-9]+)[[:blank:]]*=[[:blank:]]*(.+)$ ]] || fail 4 "$1: line $number: expected NAME = VALUE"
        option=${BASH_REMATCH[1]} value=${BASH_REMATCH[2]}
        case $option:$value in
        source:/* | source:*@* | source:*://* | bridge:/*) ;;
        source:* | bridge:*) value=$folder/$value ;;
        esac
        set_option "$option" "$value" || fail 4 "$1: line $number: unknown setting '$option'" 'bn-crossval setup --help lists them'
    done <"$1"
}

# Those of the command line replace those of the file, or are added to its list.
read_options() {
    local options=()
    case $* in *[[:cntrl:]]*) fail 2 'an argument has a control character' ;; esac
    while [ $# -gt 0 ]; do
        case $1 in
        --force) force=1 ;;
        --key) key=1 ;;
        --*) options+=("${1#--}" "$2") && shift ;;
        *)
            if [[ -f $here/bridges/$1/install.sh && $1 != */* ]]; then packaged=$1; else read_settings "$1"; fi
            ;;
        esac
        shift
    done
    set -- ${options[@]+"${options[@]}"}
    for ((; $# > 0; )); do
        set_option "$1" "$2" || fail 2 "unknown option --$1"
        shift 2
    done
    [ ${#targets[@]} -gt 0 ] || targets=(llama)
    recipe="${targets[*]}${cmake[*]:+ ${cmake[*]}}${cc:+ cc=$cc}${cxx:+ cxx=$cxx}${before:+ before=$before}${kept[*]:+ keep=${kept[*]}}"
    case $jobs in '' | 0* | *[!0-9]*) fail 2 "--jobs: '$jobs' is not a number of compilers" ;; esac
    case " ${targets[*]}" in *' -'*) fail 2 "--target: '${targets[*]}' is not the name of a target" ;; esac
    case " ${kept[*]-} " in *' /'* | *..*) fail 2 '--keep: the name of a folder in the tree, build or prepared' ;; esac
    for program in $cc $cxx; do
        command -v "$program" >/dev/null || fail 3 "$program: no such compiler" "install it, or name another one with --cc and --cxx"
    done
    if [ -n "$expected" ] && [[ ! $expected =~ ^[0-9a-f]{64}$ ]]; then
        fail 2 "--sha256: '$expected' is not a digest of 64 hexadecimal digits"
    fi
}

# Sets source, commit, and tree or is_url.
read_source() {
    local given=$source
    commit='' tree='' is_url=''
    [ -n "$given" ] || fail 2 'no source tree is given' '--source DIR, or --source URL@COMMIT'
    if [ -d "$given" ]; then
        tree=$(cd -- "$given" && pwd -P) || fail 8 "$given: cannot be opened"
        source=$tree
        return
    fi
    case $given in *@* | *://*) ;; *) fail 3 "$given: no such folder" ;; esac
    source=${given%@*} commit=${given##*@} is_url=1
    if [[ $given != *@* || -z $source || $given == -* || ! $commit =~ ^([0-9a-f]{40}|[0-9a-f]{64})$ ]]; then
        fail 2 "$given: the source is not URL@COMMIT with a commit of 40 or 64 hexadecimal digits" \
            'git ls-remote URL lists the commits of branches and tags'
    fi
}

choose_name() {
    local from=$source
    while [ "${from%/}" != "$from" ]; do from=${from%/}; done
    from=${from%.git}
    name=${name:-${from##*[/:]}}
    if [[ ! $name =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,59}$ || $name == oracle || $name == bn ]]; then
        fail 2 "'$name' cannot be the name of a reference" \
            "--name NAME: letters, digits, '.', '_' and '-', at most 60; not oracle or bn"
    fi
}

# The paths of the cache and of the tree are words of make and of its shell.
check_paths() {
    [ -z "$(printf '%s' "$root$tree" | tr -d 'A-Za-z0-9/._+@,~\200-\377-')" ] || fail 2 \
        "${tree:-$root}: the path of the cache or of the tree has a character that make cannot handle, such as a space" \
        'set XDG_CACHE_HOME to another folder, or move the tree'
}

# ---- the source tree ----

# An earlier download of the same commit whose files are unchanged.
find_download() {
    local record
    for record in "$root/$name"-*/reference.json; do
        if has "$record" name "$name" && has "$record" source "$source" && has "$record" commit "$commit"; then
            tree=${record%/*}/tree
            (digest_tree "$tree" && has "$record" digest "$digest") 2>/dev/null && return
        fi
    done
    return 1
}

download() {
    local failure=3
    case $source in file:*) ;; *://*) failure=6 ;; esac
    folder=$root/.incoming tree=$root/.incoming/tree
    rm -rf -- "$folder"
    mkdir -p -- "$tree"
    # shellcheck disable=SC2016 # the arguments of that shell
    step fetch $failure git sh -c 'git init -q "$1" && cd "$1" && git fetch -q --depth 1 -- "$2" "$3" &&
        git -c advice.detachedHead=false checkout -q FETCH_HEAD && test "$(git rev-parse HEAD)" = "$3" &&
        git -c protocol.ext.allow=never submodule -q update --init --recursive --depth 1' sh "$tree" "$source" "$commit"
}

# Sets tree, digest and folder. A tree whose digest is wrong is not kept.
obtain_tree() {
    local fetched=''
    if [ -n "$is_url" ] && ! find_download; then
        download
        fetched=1
    fi
    digest_tree "$tree"
    printf '%-11s%s, %d files\n' digest "$digest" "$n_files"
    if [ -n "$expected" ] && [ "$expected" != "$digest" ]; then
        [ -z "$fetched" ] || rm -rf -- "$root/.incoming"
        fail 5 "$given: the tree has the digest ${digest:0:16}..., --sha256 is ${expected:0:16}..."
    fi
    folder=$root/$name-${digest:0:16}
    if [ -n "$fetched" ]; then
        rm -rf -- "$folder"
        mv -- "$root/.incoming" "$folder"
        tree=$folder/tree
    fi
}

# ---- the steps after it ----

# Starts the bridge and asks for its name; the answer says that its libraries load and the protocol fits.
shake_hands() {
    local answer=$folder/handshake.log code=0
    printf '%-11s' handshake
    rm -f -- "$answer" "$answer.err"
    # shellcheck disable=SC2016 # the arguments of that shell
    run "$answer.err" sh -c 'printf "%s\n" "$1" "$2" | timeout 120 "$3" >"$4"' sh '{"id":1,"op":"hello"}' \
        '{"id":2,"op":"close"}' "$program" "$answer" || code=$?
    engine=$(head -n 1 -- "$answer" | tr -d '\000-\037' | sed -nE '/"protocol" *: *"bn\.reference\/1"/{
        s/.*"name" *: *"([^"\\]+)".*"version" *: *"([^"\\]*)".*/\1 \2/p; t
        s/.*"name" *: *"([^"\\]+)".*/\1/p }')
    if [ $code -eq 0 ] && [ -n "$engine" ]; then
        echo "ok, $engine"
        return
    fi
    echo FAILED
    [ ! -s "$answer.err" ] || echo "bn-crossval: its last output: $(tail -n 3 -- "$answer.err" | tr -d '\000-\010\013-\037')" >&2
    fail 1 "$program: ended with status $code and gave no answer of the protocol bn.reference/1"
}

# The commit of a folder whose files are those of the commit. git may run programs that the tree names, so this is not asked
# before the digest is known.
name_commit() {
    [ -e "$tree/.git" ] && [ -z "$(git --no-optional-locks -C "$tree" status --porcelain 2>&1)" ] || return 0
    commit=$(git -C "$tree" rev-parse HEAD 2>/dev/null) || commit=''
}

# The first line of `compiler --version`, for the compiler that cmake chose.
name_compiler() {
    local program
    program=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p; s/^CMAKE_C_COMPILER:[A-Z]*=//p' "$folder/build/CMakeCache.txt" | head -n 1)
    # shellcheck disable=SC2034 # as in build
    compiler=$("$program" --version 2>/dev/null | sed -n 1p) || compiler=''
}

# Runs the command of --before in a copy of the tree, which then is the tree that is built.
prepare() {
    local copy=$folder/prepared
    if [ ! -e "$folder/.prepared" ]; then
        rm -rf -- "$copy"
        cp -a -- "$tree" "$copy" || fail 8 "$copy: cannot be written"
        # shellcheck disable=SC2016 # the arguments of that shell
        step before 1 sh sh -c 'cd -- "$1" && eval "$2"' sh "$copy" "$before"
        : >"$folder/.prepared"
    fi
    tree=$copy
}

# Removes what --keep does not name from the folder of the reference; the bridge is complete without it.
drop_rest() {
    local each rest=$folder/.rest
    for each in "${kept[@]}"; do
        [ "$each" = none ] || [ -d "$folder/$each" ] ||
            fail 1 "--keep: there is no folder $each after the build" 'it begins with tree/, prepared/ or build/, or is none'
    done
    rm -rf -- "$rest"
    mkdir -- "$rest"
    for each in tree prepared build; do
        [ ! -e "$folder/$each" ] || mv -- "$folder/$each" "$rest"
    done
    for each in "${kept[@]}"; do
        [ -d "$rest/$each" ] || continue # none, or in a folder before it
        mkdir -p -- "$folder/$(dirname -- "$each")"
        mv -- "$rest/$each" "$folder/$each"
    done
    rm -rf -- "$rest" "$folder/.prepared"
}

# The last step of a setup: the reference is ready, and one of the same name in another folder goes.
# shellcheck disable=SC2034 # as in build
finish() {
    program_sha256=$(digest_file "$program") created=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    remember true
    [ -z "$old" ] || [ "$old" = "$folder/reference.json" ] || rm -rf -- "${old%/*}"
    printf '%-11s%s is set up: bn-crossval ladder --ref %s\n' reference "$name" "$name"
}

# What an earlier setup with the same recipe built is built on; a changed recipe or --force begins anew.
# shellcheck disable=SC2034 # remember takes them by their names
build() {
    local built=$folder/build record=$folder/reference.json
    program=$folder/bn-bridge-$name compiler='' engine='' created='' program_sha256=''
    mkdir -p -- "$folder"
    if [ -n "$force" ] || [ ! -f "$record" ] || ! has "$record" recipe "$recipe"; then
        rm -rf -- "$built" "$folder/prepared" "$folder/.prepared"
    fi
    [ -n "$is_url" ] || name_commit
    remember false
    rm -f -- "$folder"/{before,configure,build,bridge}.log "$program"
    [ -z "$before" ] || prepare
    step configure 1 cmake cmake -S "$tree" -B "$built" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF ${cmake[@]+"${cmake[@]}"}
    step build 1 cmake cmake --build "$built" --target "${targets[@]}" --parallel "$jobs"
    step bridge 1 make make -C "$bridge" "LLAMA_DIR=$tree" "BUILD_DIR=$built" "OUT=$folder" "NAME=$name" ${cxx:+"CXX=$cxx"}
    [ -x "$program" ] || fail 1 "$program: make ended with status 0 and did not write the bridge"
    shake_hands
    name_compiler
    [ ${#kept[@]} -eq 0 ] || drop_rest
    finish
}

# Changes when the same setup would build something else: for the caches of CI. A build may be for this processor only.
print_key() {
    local each
    [ -n "$commit" ] || digest_tree "$tree"
    {
        printf '%s\n' "$name" "$source" "${commit:-$digest}" "$recipe" "$bridge_sha256"
        for each in "${cc:-cc}" "${cxx:-c++}"; do "$each" --version 2>/dev/null | head -n 1 || :; done
        grep -m 1 -E '^(flags|Features)' /proc/cpuinfo || :
    } | sha256sum | cut -c 1-64
}

# Sets old: the reference.json of a reference of this name that is ready, or "".
find_old() {
    local record
    old=''
    for record in "$root"/*/reference.json; do
        if has "$record" name "$name" && is_ready "$record"; then old=$record; fi
    done
}

# A bridge that is installed with its engine, for example from npm. The status 9 of its script says: not possible here.
# shellcheck disable=SC2034 # as in build
install_package() {
    local code=0
    name=$packaged source=$here/bridges/$packaged commit='' tree='' recipe=install compiler=''
    open_root
    lock
    digest_tree "$here/bridges"
    bridge_sha256=$digest folder=$root/$name-${digest:0:16}
    if [ -n "$key" ]; then
        echo "$digest"
        return
    fi
    find_old
    if is_done; then return; fi
    program=$folder/bn-bridge-$name engine='' created='' program_sha256=''
    rm -rf -- "$folder"
    mkdir -p -- "$folder"
    remember false
    printf '%-11s' install
    run "$folder/install.log" "$source/install.sh" "$folder" || code=$?
    [ $code -eq 0 ] || { echo FAILED && fail $((code == 9 ? 9 : 1)) "$name: $(tail -n 1 -- "$folder/install.log")"; }
    echo ok
    shake_hands
    finish
}

# Whether find_old found what this setup would build.
is_done() {
    program=${old%/*}/bn-bridge-$name
    [ -n "$old" ] && [ -z "$force" ] && has "$old" recipe "$recipe" && has "$old" bridge_sha256 "$bridge_sha256" &&
        [ -x "$program" ] && has "$old" program_sha256 "$(digest_file "$program")" &&
        printf '%-11s%s is already set up, nothing to do; --force builds it again\n' reference "$name"
}

set_up() {
    local here given
    here=$(cd -- "${BASH_SOURCE[0]%/*}" && pwd -P)
    read_options "$@"
    if [ -n "$packaged" ]; then
        install_package
        return
    fi
    given=$source
    read_source
    choose_name
    open_root
    check_paths
    lock
    bridge=$(cd -- "${bridge:-$here/bridges/llama.cpp}" && pwd -P) || fail 3 'there is no source of a bridge there'
    digest_tree "$bridge"
    bridge_sha256=$digest
    if [ -n "$key" ]; then
        print_key
        return
    fi
    export ${cc:+"CC=$cc"} ${cxx:+"CXX=$cxx"}
    find_old
    printf '%-11s%s%s\n' source "$source" "${commit:+ at commit $commit}"
    if [ -n "$old" ] && [ -n "$is_url" ] && [ ! -e "${old%/*}/tree" ] && has "$old" commit "$commit" && has "$old" source "$source"; then
        digest=$(field "$old" digest) folder=${old%/*} # --keep removed the tree
        if [ -z "$expected" ] || [ "$expected" = "$digest" ]; then is_done && return; fi
    fi
    obtain_tree
    if [ -n "$old" ] && ! has "$old" digest "$digest"; then
        [ -n "$force" ] || fail 2 \
            "$name: a reference of this name was set up from a tree with another digest, $(field "$old" digest | cut -c 1-16)..." \
            '--force replaces it; --name NAME keeps both'
    elif is_done; then
        return
    fi
    build
}

case ${1-} in
setup) shift && set_up "$@" ;;
remove) remove "$2" ;;
*) fail 2 'usage: setup.sh setup OPTION..., setup.sh remove NAME' ;;
esac
