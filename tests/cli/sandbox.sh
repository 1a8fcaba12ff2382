#!/usr/bin/env bash
# The sandbox of bn-run, bn-serve, bn-verify-receipt, bn-convert and bn-download: a probe that is loaded into each of them is
# refused, and is not with --no-sandbox; files that a command names, and no others, are open to it. TAP on standard output.
# shellcheck disable=SC2317 # functions are called through check
set -u
cd "$(dirname "$0")/../.." || exit 1
out=$(cd "${OUT:-build/gcc}" && pwd)
here=$PWD
# shellcheck source=tests/tap.sh
. tests/tap.sh
probe=$out/tests/sandbox/probe.so
if sanitized address thread undefined; then skip 'the sandbox' 'programs with a sanitizer have none' && exit; fi
model=$here/fixtures/nano-llama-i2_s-42.gguf
mkdir "$tmp/home" "$tmp/work" "$tmp/other"
export HOME=$tmp/home
unset XDG_CACHE_HOME XDG_STATE_HOME HF_HOME HF_HUB_CACHE BN_NO_SANDBOX
echo secret >"$HOME/secret"
cd "$tmp/work" || exit 1

kernel=$("$out/bn-download" doctor --offline | sed -n 's/^[a-zA-Z]* *sandbox *//p')
abi=$(sed -n 's/.*Landlock (ABI \([0-9]*\)).*/\1/p' <<<"$kernel") abi=${abi:-0}
echo "# active on this kernel: $kernel"
says 0 'the doctor says what is active' '^(ok|note) +sandbox +' "$out/bn-download" doctor --offline
says 0 'and that nothing is, without it' 'sandbox +none' "$out/bn-download" doctor --offline --no-sandbox

# ---- the probe ----

sleep 1000 &
other=$!
trap 'kill $other 2>/dev/null; tap_end' EXIT
# probed PROGRAM ARGUMENTS...: $tmp/said gets lines of "WHERE ATTEMPT ERRNO"; $tmp/printed what the program prints
start() {
    rm -f "$tmp/said" "$tmp/printed"
    BN_PROBE_PROGRAM=$1 BN_PROBE_OUT=$tmp/said BN_PROBE_SECRET=$HOME/secret BN_PROBE_NEW=$tmp/other/new \
        BN_PROBE_OTHER=/proc/$other/environ LD_PRELOAD=$probe "$out/$1" "${@:2}" >"$tmp/printed" 2>&1 </dev/null &
    program=$!
}
probed() { start "$@"; wait "$program"; }
# A server: the probe runs in the thread that has accepted a connection, too.
served() {
    start bn-serve --port 0 -m "$model" "$@"
    wait_for grep -q '^bn-serve: http' "$tmp/printed"
    wait_for curl -sf --noproxy '*' "$(sed -n 's/^bn-serve: http/http/p' "$tmp/printed")/health"
    kill "$program"
    wait "$program"
}
errno_of() { sed -n "s/^$1 $2 //p" "$tmp/said"; }
# refused WHERE ATTEMPT...: with EPERM or EACCES; permitted: with another errno or none
refused() {
    local what bad=0
    for what in "${@:2}"; do
        case $(errno_of "$1" "$what") in
        1 | 13) ;;
        *) echo "$1 $what: errno '$(errno_of "$1" "$what")'"; bad=1 ;;
        esac
    done
    return $bad
}
permitted() {
    local what bad=0
    for what in "${@:2}"; do
        case $(errno_of "$1" "$what") in
        1 | 13 | '') echo "$1 $what: errno '$(errno_of "$1" "$what")'"; bad=1 ;;
        esac
    done
    return $bad
}
files="passwd home change create environ"
calls="exec ptrace unshare clone keyring type i386 x32"
sockets="socket pair connect bind"
# An attempt that this machine refuses to everybody, or whose interface it does not have, proves nothing: it is left out.
usable() {
    local what list=
    for what in $1; do
        case $what:$(errno_of end "$what") in
        x32:38) list+=" $what" ;; # in the sandbox it is EPERM
        *:1 | *:13 | *:38) echo "# $what is refused on this machine without a sandbox, too" >&2 ;;
        *) list+=" $what" ;;
        esac
    done
    echo "$list"
}
probed bn-run -q hello -n 1 --no-sandbox
files=$(usable "$files") calls=$(usable "$calls") sockets=$(usable "$sockets")

# judge PROGRAM WHERE...: after a run in the sandbox
judge() {
    local where
    for where in "${@:2}"; do
        # shellcheck disable=SC2086
        if [ "$abi" -gt 0 ]; then check "$1 opens no other file ($where)" refused "$where" $files; else skip "$1 opens no other file ($where)" 'no Landlock'; fi
        case $kernel in
        *seccomp*)
            # shellcheck disable=SC2086
            check "$1 starts no program and no debugger, in no interface of the kernel ($where)" refused "$where" $calls
            if [ "$1" = bn-download ]; then
                check "$1 opens connections ($where)" permitted "$where" socket connect
            else
                # shellcheck disable=SC2086
                check "$1 opens no sockets ($where)" refused "$where" $sockets
            fi
            ;;
        *) skip "$1 makes no other call ($where)" 'no seccomp' ;;
        esac
        if [ "$abi" -ge 6 ]; then check "$1 sends no signals to others ($where)" refused "$where" signal; fi
        if [ "$1" = bn-download ] && [ "$abi" -ge 4 ]; then check "$1 does not listen ($where)" refused "$where" bind; fi
    done
}
# free PROGRAM WHERE...: after a run without
free() {
    local where
    for where in "${@:2}"; do
        # shellcheck disable=SC2086
        check "$1 may do all of it with --no-sandbox ($where)" permitted "$where" $files $calls $sockets signal
    done
}
"$out/bn-run" -q hello -m "$model" -n 2 --receipt r.json >/dev/null
for way in '' --no-sandbox; do
    # shellcheck disable=SC2086
    {
        then=judge
        [ -z "$way" ] || then=free
        probed bn-run -q hello -m "$model" -n 1 $way
        $then bn-run end
        probed bn-verify-receipt r.json -m "$model" --replay $way
        $then bn-verify-receipt end
        probed bn-convert "$model" --to tq1_0 --dry-run $way
        $then bn-convert end
        probed bn-download list --names $way
        $then bn-download end
        served $way
        $then bn-serve thread end
    }
done

# ---- the option ----

says 0 '--no-sandbox warns' 'warning: --no-sandbox: this program keeps all rights' "$out/bn-run" hello -m "$model" -n 1 --no-sandbox
says 0 'so does the variable' 'warning: BN_NO_SANDBOX: this program keeps all rights' env BN_NO_SANDBOX=1 "$out/bn-run" hello -m "$model" -n 1
lacks 'a sandbox says nothing' 'sandbox|warning' "$out/bn-run" hello -m "$model" -n 1
says 3 'mpirun has none, and -v says so' 'no sandbox under mpirun' env PMIX_RANK=0 "$out/bn-run" hello -m none.gguf -v
says 3 'nor has a device' 'no sandbox with a device' "$out/bn-run" hello -m none.gguf -v --device opencl:99

# ---- a sandbox without memory is not left out ----

lacks_memory() { says 10 "$3 ($1)" 'cannot enter the sandbox' timeout 60 env LD_PRELOAD="$probe" BN_PROBE_NO_MEMORY="$2" "$out/$1" "${@:4}"; }
if [ "$abi" -gt 0 ]; then lacks_memory bn-run paths 'without memory for paths' hello -m "$model" -n 1; fi
case $kernel in
*seccomp*)
    lacks_memory bn-run calls 'without memory for calls' hello -m "$model" -n 1
    lacks_memory bn-serve sockets 'without memory for sockets' --port 0 -m "$model"
    ;;
esac

# ---- files ----

if [ "$abi" -eq 0 ]; then
    skip 'files' 'no Landlock'
    exit
fi
# shellcheck disable=SC2016
says 8 'a sandbox without descriptors is not left out' 'cannot enter the sandbox' bash -c 'ulimit -n 4; "$0" hello -m "$1" -n 1' "$out/bn-run" "$model"
chat() { printf '%b' "$1" | "$out/bn-run" chat -q -m "$model" -n 1 "${@:2}"; }
fails_in_chat() { chat "hello\n/save $tmp/other/talk.json\n" >"$tmp/printed" 2>&1; grep -q 'hint: the sandbox permits' "$tmp/printed" && [ ! -e "$tmp/other/talk.json" ]; }
check 'a conversation is saved in the working folder' chat 'hello\n/save talk.json\n'
check 'a file elsewhere is refused, with a hint' fails_in_chat
check 'and written with --no-sandbox' chat "hello\n/save $tmp/other/talk.json\n" --no-sandbox
ln -s "$model" linked.gguf
mkdir models
ln -s "$model" models/linked.gguf
status 0 'a model may be a link' "$out/bn-run" -q hello -m linked.gguf -n 1
status 0 'outputs may be in folders that are not there yet' "$out/bn-run" -q hello -m "$model" -n 1 --receipt "$tmp/other/a.json"
status 0 'or that are made' "$out/bn-run" -q hello -m "$model" -n 1 --trace "$tmp/other/trace"
ln -s "$tmp/other/target.json" link.json
echo old >"$tmp/other/target.json"
status 0 'or be links' "$out/bn-run" -q hello -m "$model" -n 1 --receipt link.json
says 0 'or devices' '"predicateType"' "$out/bn-run" -q hello -m "$model" -n 1 --receipt /dev/stderr
echo hello >"$tmp/other/text"
status 0 'a text may come from a file' "$out/bn-run" -q -f "$tmp/other/text" -m "$model" -n 1
# shellcheck disable=SC2016
status 0 'or from a pipe with a name' bash -c '"$0" -q -f <(echo hello) -m "$1" -n 1' "$out/bn-run" "$model"
