# shellcheck shell=bash
# The session in which documents.py runs the commands of a page: what stands in for the world outside of a test.
#   - the programs of the build are in PATH; model.gguf is the built-in model as a file; folders of the repository are links
#   - $HUB is a hub on this machine, with a small model in place of the one of 1.2 GB; https://example.org is the same server
#   - bn-serve runs in the background, on a free port in place of 8080, until the next one or the end
#   - bn-bench top, which draws until it is ended, ends after its first line
#   - what measures, does so for a short time; bn-train takes 20 steps in place of 200
#   - mpirun works as root and with more ranks than processors, as docs/howto/large-models.md tells
# REPOSITORY, PROGRAMS and HUB are set by the caller; the working directory is the folder of the page.
set -E -o pipefail
PATH=$PROGRAMS:$PATH
export HOME=$PWD.home XDG_RUNTIME_DIR=$PWD.home/run \
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent='' \
    OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
mkdir -p "$HOME/run"
chmod 700 "$HOME" "$HOME/run"
mkdir build
for folder in examples fixtures tests train; do ln -s "$REPOSITORY/$folder" "$folder"; done
cp -r "$REPOSITORY/baselines" "$REPOSITORY/ci" .
sed -i 's/_iterations: 6/_iterations: 1/; s/_lengths: .*/_lengths: [8]/; s/ text: .*/ text: text.txt/' baselines/suite.yaml
head -c 2000 fixtures/validation.txt >text.txt
ln -s "$PROGRAMS" build/gcc
cp fixtures/built-in-i2_s.gguf model.gguf
server='' port=''
end_server() {
    if [ -n "$server" ]; then { kill "$server" && wait "$server"; } 2>/dev/null || true; fi
    server=''
    return 0
}
trap end_server EXIT
bn-serve() {
    end_server
    : >"$PWD.log"
    command bn-serve --port 0 "$@" >"$PWD.log" 2>&1 &
    server=$!
    until port=$(grep -oE -m 1 'http://127\.0\.0\.1:[0-9]+' "$PWD.log"); do
        kill -0 "$server" 2>/dev/null || { cat "$PWD.log" >&2; return 1; }
        sleep 0.05
    done
    port=${port##*:}
    sed "s/:$port/:8080/" "$PWD.log" >&2
}
bn-bench() {
    case "$1 $*" in
    top\ *--once* | top\ *--list*) command bn-bench "$@" ;;
    top\ *) command bn-bench "$@" | head -n 1 ;;
    run\ *) command bn-bench run --warmup 0 --loads 1 -p 32 -n 8 --score-tokens 200 "${@:2}" ;;
    limits\ *) command bn-bench limits --min-time 0.005 "${@:2}" ;;
    kernels\ *) command bn-bench kernels --min-time 0.005 --set 1M "${@:2}" ;;
    profile\ *) command bn-bench profile -r 1 -n 4 "${@:2}" ;;
    *) command bn-bench "$@" ;;
    esac
}
bn-flamegraph() {
    case $1 in
    record) command bn-flamegraph record --duration 0.2 "${@:2}" ;;
    *) command bn-flamegraph "$@" ;;
    esac
}
mpirun() { BN_THREADS=1 ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 command mpirun "$@"; } # MPI has leaks
bn-train() { command bn-train "${@/#200/20}"; }
bn() {
    case $1 in
    serve | bench | flamegraph | train) "bn-$1" "${@:2}" ;;
    *) command bn "$@" ;;
    esac
}
# Notes a command of the page that failed; functions of this file are not commands of the page. 141: the reader of a pipe has seen
# enough.
note() { # status, command
    case ${FUNCNAME[1]} in step | bn | bn-* | mpirun) return ;; esac
    [ "$1" -eq 141 ] || [ "$1" = "$allowed" ] || echo "status $1: $2" >>"$step.failed"
}
# Runs the commands of a file. Its functions and variables stay.
step() { # file, status that is allowed in addition, kind
    step=$1 allowed=$2
    sed -i -E "s#(127\.0\.0\.1|localhost):8080#\1:$port#g; s#https://example\.org#$HUB#g" "$step"
    trap 'note $? "$BASH_COMMAND"' ERR
    # shellcheck source=/dev/null
    . "$step" >"$step.out" 2>"$step.err" </dev/null
    trap - ERR
    : >"$step.done"
}
